package limit

import (
	"sync"

	"collab/domain/fault"
)

// maxInFlight is how many requests of one caller may be handled at once. Each holds a
// connection and memory for as long as its client takes.
const maxInFlight = 256

// InFlight counts the requests of each caller that are being handled.
type InFlight struct {
	mu    sync.Mutex
	count map[string]int // guarded by mu; has no zero values
}

// Acquire counts one request until release is called. It fails with fault.Limited if the
// caller has maxInFlight of them.
func (f *InFlight) Acquire(caller string) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[caller] >= maxInFlight {
		return nil, fault.New(fault.Limited, "At most %d requests can be under way at once", maxInFlight).RetryIn(1)
	}
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[caller]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.count[caller]--; f.count[caller] == 0 {
			delete(f.count, caller)
		}
	}, nil
}
