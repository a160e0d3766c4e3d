package chats

import (
	"context"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/usage"
)

const (
	maxSettled  = 100         // entries that are stored in one transaction at most
	joinTimeout = time.Second // that a settlement waits for the one before at most
)

// settlement is entries of one organisation that are stored together: those of calls that
// end while the settlement before is being stored.
type settlement struct {
	entries []usage.Entry   // guarded by Chats.mu until the settlement before is stored
	before  <-chan struct{} // closed when that is stored; nil: there is none
	open    bool            // entries may be added; guarded by Chats.mu
	stored  chan struct{}   // closed when the entries are stored, or given up
}

// settle stores the entry of a call, and returns the unused tokens of its lease. It returns
// when that is done. A call that ends alone is stored at once.
func (s *Chats) settle(ctx context.Context, e usage.Entry) {
	b, first := s.join(e)
	if !first {
		<-b.stored
		return
	}
	defer close(b.stored)
	ctx = context.WithoutCancel(ctx)
	s.awaitBefore(ctx, b)
	s.store(ctx, e.Org, s.take(b))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended[e.Org] == b {
		delete(s.ended, e.Org)
	}
}

// join adds an entry to the last settlement of its organisation, or to a new one, whose
// first the caller then is: it is to store the settlement.
func (s *Chats) join(e usage.Entry) (b *settlement, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.ended[e.Org]
	if last != nil && last.open && len(last.entries) < maxSettled {
		last.entries = append(last.entries, e)
		return last, false
	}
	b = &settlement{entries: []usage.Entry{e}, open: true, stored: make(chan struct{})}
	if last != nil {
		b.before = last.stored
	}
	s.ended[e.Org] = b
	return b, true
}

// awaitBefore waits until the settlement before b is stored, while more calls may join b. It
// does not wait longer than joinTimeout, nor once the server drains: a settlement that hangs
// delays no others.
func (s *Chats) awaitBefore(ctx context.Context, b *settlement) {
	if b.before == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	select {
	case <-b.before:
	case <-s.draining:
	case <-ctx.Done():
	}
}

// take closes a settlement and returns its entries.
func (s *Chats) take(b *settlement) []usage.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.open = false
	return b.entries
}

// store stores entries in one transaction, or at once each in its own if that fails.
func (s *Chats) store(ctx context.Context, o id.Org, entries []usage.Entry) {
	timeout := settleTimeout
	if len(entries) > 1 {
		timeout /= 2
	}
	storing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := s.Store.Usage().Ledger().Settle(storing, o, entries...)
		// Conflict means that an earlier attempt was committed though it returned an error.
		conflict := fault.Is(err, fault.Conflict)
		switch {
		case err == nil || conflict && len(entries) == 1:
			return
		case !conflict && attempt < attempts && s.Pause(storing, attempt) == nil:
			continue
		}
		if len(entries) > 1 {
			var all sync.WaitGroup
			for i := range entries {
				all.Go(func() { s.store(ctx, o, entries[i:i+1]) })
			}
			all.Wait()
			return
		}
		e := entries[0]
		s.Log.Error("model call settlement failed", "call", string(e.ID), "org", string(o), "tokens", e.Tokens.Total(), "error", err)
		return
	}
}
