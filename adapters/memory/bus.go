package memory

import (
	"sync"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

var _ ports.Bus = (*Bus)(nil)

// Bus implements ports.Bus within one process. Of the pending hints of an organisation each
// subscriber keeps the greatest, so that a slow one delays no other and its memory is
// bounded by the number of organisations. The zero value is ready to use.
type Bus struct {
	mu          sync.Mutex
	subscribers map[*subscriber]bool // guarded by mu
}

// subscriber has the pending hints of one subscription.
type subscriber struct {
	pending map[id.Org]int64 // guarded by the bus's mu
	wake    chan struct{}    // has room for one
	ended   chan struct{}    // closed by cancel
}

// Publish adds the hint to the pending ones of each subscriber.
func (b *Bus) Publish(h object.Hint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		s.pending[h.Org] = max(h.N, s.pending[h.Org])
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Subscribe never fails. Cancel waits for a running call of fn, so fn must not call it.
func (b *Bus) Subscribe(fn func(object.Hint)) (cancel func(), err error) {
	s := &subscriber{pending: map[id.Org]int64{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
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

// call calls fn with pending hints until the subscription is cancelled.
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

// take removes and returns the pending hints.
func (b *Bus) take(s *subscriber) map[id.Org]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := s.pending
	s.pending = map[id.Org]int64{}
	return waiting
}
