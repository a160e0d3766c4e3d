// Package limit bounds the resources that clients use: rates of requests, requests in
// flight, bytes of memory and of disk, and connections.
package limit

import "sync"

// Budget is a number of bytes that holders share. A holder may have at most as many as
// remain free, so that none gets more than half, and there are always some for the next
// one.
type Budget struct {
	size int64

	mu       sync.Mutex
	used     int64            // guarded by mu
	held     map[string]int64 // guarded by mu; without zero values
	refusals int64            // guarded by mu
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size, held: map[string]int64{}} }

// Take reserves n bytes for a holder, without waiting, and reports whether it could.
func (b *Budget) Take(holder string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, used := b.held[holder]+n, b.used+n
	if held > b.size-used {
		b.refusals++
		return false
	}
	b.used = used
	b.set(holder, held)
	return true
}

// Give returns n bytes of the holder to the budget.
func (b *Budget) Give(holder string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.set(holder, b.held[holder]-n)
}

// set records the bytes of a holder. The caller holds mu.
func (b *Budget) set(holder string, held int64) {
	if held == 0 {
		delete(b.held, holder)
		return
	}
	b.held[holder] = held
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Refusals returns how often Take refused.
func (b *Budget) Refusals() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusals
}

// Account is the part of a budget that one piece of work has for its holder. It is not
// safe for concurrent use.
type Account struct {
	Budget *Budget
	Holder string
	taken  int64
}

// Take reserves n bytes and reports whether it could.
func (a *Account) Take(n int64) bool {
	if !a.Budget.Take(a.Holder, n) {
		return false
	}
	a.taken += n
	return true
}

// Give returns n of the reserved bytes.
func (a *Account) Give(n int64) {
	a.taken -= n
	a.Budget.Give(a.Holder, n)
}

// Close returns all bytes that are still reserved.
func (a *Account) Close() {
	if a.taken > 0 {
		a.Give(a.taken)
	}
}
