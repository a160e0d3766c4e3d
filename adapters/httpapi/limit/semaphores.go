package limit

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Semaphores hold a counting semaphore for each caller.
type Semaphores struct {
	size    int
	callers *lru.Cache[string, chan struct{}] // with a value for each place that is taken
}

// NewSemaphores returns semaphores that each let size callers in at once.
func NewSemaphores(size int) (*Semaphores, error) {
	callers, err := lru.New[string, chan struct{}](maxBuckets)
	return &Semaphores{size, callers}, err
}

// Acquire takes a place of the caller's semaphore until release is called. It waits while
// there is none, and fails with the context's error.
func (s *Semaphores) Acquire(ctx context.Context, caller string) (release func(), err error) {
	mine, ok := s.callers.Get(caller)
	if !ok {
		mine = make(chan struct{}, s.size)
		if there, ok, _ := s.callers.PeekOrAdd(caller, mine); ok {
			mine = there // another request of the same caller was faster
		}
	}
	select {
	case mine <- struct{}{}:
		return func() { <-mine }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
