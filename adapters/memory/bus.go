package memory

import (
	"sync"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

var _ ports.Bus = (*Bus)(nil)

// Bus is ports.Bus within one process. Of an organisation's hints that a
// subscriber has not been told of yet only the greatest is kept, so that one who
// is slow holds up nobody and takes no more memory than there are organisations.
// The zero value is ready to use.
type Bus struct {
	mu          sync.Mutex
	subscribers map[*subscriber]bool // guarded by mu
}

// subscriber is one whose function a goroutine of its own calls.
type subscriber struct {
	waiting map[id.Org]int64 // guarded by the bus's mu
	wake    chan struct{}    // has room for one
	ended   chan struct{}    // closed by cancel
}

// Publish notes the hint for each of the subscribers.
func (b *Bus) Publish(h object.Hint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		s.waiting[h.Org] = max(h.N, s.waiting[h.Org])
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Subscribe never fails. Cancel waits for a call of fn that is under way, and so
// is not for fn to call.
func (b *Bus) Subscribe(fn func(object.Hint)) (cancel func(), err error) {
	s := &subscriber{waiting: map[id.Org]int64{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[*subscriber]bool{}
	}
	b.subscribers[s] = true
	var calls sync.WaitGroup
	calls.Go(func() { b.call(s, fn) })
	end := sync.OnceFunc(func() {
		b.mu.Lock()
		delete(b.subscribers, s)
		b.mu.Unlock()
		close(s.ended)
	})
	return func() {
		end()
		calls.Wait()
	}, nil
}

// call calls fn with what is waiting until the subscriber has ended.
func (b *Bus) call(s *subscriber, fn func(object.Hint)) {
	for {
		select {
		case <-s.ended:
			return
		case <-s.wake:
		}
		for o, n := range b.take(s) {
			select {
			case <-s.ended:
				return
			default:
				fn(object.Hint{Org: o, N: n})
			}
		}
	}
}

// take returns what is waiting, which no longer is.
func (b *Bus) take(s *subscriber) map[id.Org]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := s.waiting
	s.waiting = map[id.Org]int64{}
	return waiting
}
