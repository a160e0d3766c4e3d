package chats

import "sync"

// together handles elements in groups: those that arrive while the group before of their key
// is being handled are the next one.
type together[K comparable, E any] struct {
	mu   sync.Mutex
	last map[K]*group[E] // of each key that has groups; guarded by mu
}

// group is elements that are handled together.
type group[E any] struct {
	elements []E             // guarded by together.mu until the group is closed
	open     bool            // elements may be added; guarded by together.mu
	before   <-chan struct{} // closed when the group before is over; nil: there is none
	over     chan struct{}   // closed when the group was handled, or given up
	handled  bool            // set before over is closed
}

// do handles e in a group of at most most elements, and returns when that is over. The first
// of a group calls await with the group before, if there is one, and then handle. It reports
// false if handle did so or panicked: then the elements were not handled.
func (t *together[K, E]) do(key K, e E, most int, await func(before <-chan struct{}), handle func([]E) bool) bool {
	g, first := t.join(key, e, most)
	if !first {
		<-g.over
		return g.handled
	}
	defer t.end(key, g)
	if g.before != nil {
		await(g.before)
	}
	g.handled = handle(t.close(g))
	return g.handled
}

// join adds an element to the last group of its key, or to a new one, whose first the caller
// then is.
func (t *together[K, E]) join(key K, e E, most int) (g *group[E], first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last[key]
	if last != nil && last.open && len(last.elements) < most {
		last.elements = append(last.elements, e)
		return last, false
	}
	if t.last == nil {
		t.last = map[K]*group[E]{}
	}
	g = &group[E]{elements: []E{e}, open: true, over: make(chan struct{})}
	if last != nil {
		g.before = last.over
	}
	t.last[key] = g
	return g, true
}

// close closes a group and returns its elements.
func (t *together[K, E]) close(g *group[E]) []E {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.open = false
	return g.elements
}

func (t *together[K, E]) end(key K, g *group[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.open = false
	if t.last[key] == g {
		delete(t.last, key)
	}
	close(g.over)
}
