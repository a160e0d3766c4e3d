package limit

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Semaphores hold a counting semaphore for each caller.
type Semaphores struct {
	size    int
	callers *lru.Cache[string, chan struct{}] // a channel holds one value per acquired place
}

// NewSemaphores returns semaphores with size places each.
func NewSemaphores(size int) (*Semaphores, error) {
	callers, err := lru.New[string, chan struct{}](maxBuckets)
	return &Semaphores{size, callers}, err
}

// Acquire takes a place of the caller's semaphore until release is called. It waits for
// a free place, and returns the context's error if that is done first.
func (s *Semaphores) Acquire(ctx context.Context, caller string) (release func(), err error) {
	places, ok := s.callers.Get(caller)
	if !ok {
		places = make(chan struct{}, s.size)
		if existing, ok, _ := s.callers.PeekOrAdd(caller, places); ok {
			places = existing // added by a concurrent request of the same caller
		}
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
