package limit

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Semaphores hold a counting semaphore for each caller.
type Semaphores struct {
	size    int
	callers *lru.Cache[string, chan struct{}] // a channel holds one value per acquired permit
}

// NewSemaphores returns semaphores with size permits each.
func NewSemaphores(size int) *Semaphores {
	return &Semaphores{size, newCache[chan struct{}]()}
}

// Acquire acquires a permit of the caller's semaphore until release is called. It waits for
// a free permit, and returns the context's error if that is done first.
func (s *Semaphores) Acquire(ctx context.Context, caller string) (release func(), err error) {
	permits := getOrAdd(s.callers, caller, func() chan struct{} { return make(chan struct{}, s.size) })
	select {
	case permits <- struct{}{}:
		return func() { <-permits }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
