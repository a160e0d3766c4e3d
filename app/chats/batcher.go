package chats

import "sync"

// maxGroup is how many elements a group has at most: leases that one statement reserves, and entries
// that one transaction stores.
const maxGroup = 100

// batcher handles elements in groups: those that arrive while the previous group of their key is
// being handled are the next one.
type batcher[K comparable, E any] struct {
	mu   sync.Mutex
	last map[K]*group[E] // of each key that has groups; guarded by mu
}

// group is elements that are handled together.
type group[E any] struct {
	elements []E             // guarded by batcher.mu until the group is closed
	open     bool            // elements may be added; guarded by batcher.mu
	previous <-chan struct{} // closed when the previous group is done; nil: there is none
	done     chan struct{}   // closed when the group was handled, or given up
	handled  bool            // set before done is closed
}

// do handles e in a group, and returns when that is done. The first of a group calls await with the
// previous group, if there is one, and then handle. It reports false if handle did so or panicked:
// then the elements were not handled.
func (t *batcher[K, E]) do(key K, e E, await func(previous <-chan struct{}), handle func([]E) bool) bool {
	g, first := t.join(key, e)
	if !first {
		<-g.done
		return g.handled
	}
	defer t.end(key, g)
	if g.previous != nil {
		await(g.previous)
	}
	g.handled = handle(t.close(g))
	return g.handled
}

// join adds an element to the last group of its key, or to a new one, whose first the caller
// then is.
func (t *batcher[K, E]) join(key K, e E) (g *group[E], first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last[key]
	if last != nil && last.open && len(last.elements) < maxGroup {
		last.elements = append(last.elements, e)
		return last, false
	}
	if t.last == nil {
		t.last = map[K]*group[E]{}
	}
	g = &group[E]{elements: []E{e}, open: true, done: make(chan struct{})}
	if last != nil {
		g.previous = last.done
	}
	t.last[key] = g
	return g, true
}

// close closes a group and returns its elements.
func (t *batcher[K, E]) close(g *group[E]) []E {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.open = false
	return g.elements
}

func (t *batcher[K, E]) end(key K, g *group[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.open = false
	if t.last[key] == g {
		delete(t.last, key)
	}
	close(g.done)
}
