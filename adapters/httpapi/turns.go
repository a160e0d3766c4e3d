package httpapi

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxLists is how many complete lists one caller may be sent at once. Each takes a
// connection of the database's while it is read, and room while it goes out:
// nobody may have all of that.
const maxLists = 4

// turns lets each caller do a bounded number of things at once; the rest wait.
type turns struct {
	callers *lru.Cache[string, chan struct{}] // with a value for each that is under way
}

func newTurns() (*turns, error) {
	callers, err := lru.New[string, chan struct{}](maxBuckets)
	return &turns{callers}, err
}

// take waits for the caller's turn; done ends it.
func (t *turns) take(ctx context.Context, caller string) (done func(), err error) {
	mine, ok := t.callers.Get(caller)
	if !ok {
		mine = make(chan struct{}, maxLists)
		if there, ok, _ := t.callers.PeekOrAdd(caller, mine); ok {
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
