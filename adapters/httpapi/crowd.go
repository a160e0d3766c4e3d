package httpapi

import (
	"sync"

	"collab/domain/fault"
)

// maxAtOnce is how many requests of one caller may be under way. Each holds a
// connection, and what it has begun, for as long as its client takes: nobody may
// have all of those.
const maxAtOnce = 256

// crowd counts the requests of each caller that are under way.
type crowd struct {
	mu    sync.Mutex
	count map[string]int // guarded by mu; without those that have none
}

// enter counts one request until leave is called, or refuses it.
func (w *crowd) enter(caller string) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[caller] >= maxAtOnce {
		limited := fault.New(fault.Limited, "At most %d requests can be under way at once", maxAtOnce)
		limited.RetryAfter = 1
		return nil, limited
	}
	if w.count == nil {
		w.count = map[string]int{}
	}
	w.count[caller]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.count[caller]--; w.count[caller] == 0 {
			delete(w.count, caller)
		}
	}, nil
}
