package chats

import (
	"context"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/usage"
)

const (
	joinTimeout = time.Second           // that a group waits for the one before at most
	lingerTime  = 20 * time.Millisecond // that a settlement then waits for more calls to end
)

// settle stores the entry of a call, and returns the unused tokens of its lease. It returns
// when that is done. A call that ends alone is stored at once; those of an organisation that
// end while others of it are being stored are stored together.
func (s *Chats) settle(ctx context.Context, e usage.Entry) {
	ctx = context.WithoutCancel(ctx)
	s.setUnsettled(e)
	defer s.takeUnsettled(e.ID)
	stored := s.settling.do(e.Org, e,
		func(previous <-chan struct{}) {
			s.await(ctx, previous, joinTimeout)
			s.await(ctx, nil, lingerTime)
		},
		func(all []usage.Entry) bool { return s.store(ctx, all) })
	if !stored {
		s.store(ctx, []usage.Entry{e})
	}
}

// await waits until the previous group is done, while more calls may join the next. It does not
// wait longer than limit, nor once the server drains: a group that hangs delays no others.
func (s *Chats) await(ctx context.Context, previous <-chan struct{}, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-previous:
	case <-s.draining:
	case <-ctx.Done():
	}
}

// store stores entries in one transaction. It returns false if that fails with several
// entries; the failure of one is logged. An entry is stored again and again while the database is
// unavailable, because its use would count for nothing. An attempt without an answer ends after
// settleTimeout: the connection may be broken.
func (s *Chats) store(ctx context.Context, entries []usage.Entry) bool {
	timeout, grouped := storeTimeout, len(entries) > 1
	if grouped {
		timeout = settleTimeout / 2
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e := entries[0]
	for attempt := 1; ; attempt++ {
		timedOut, err := s.attemptSettle(ctx, entries)
		// Conflict means that an earlier attempt was committed though it returned an error.
		conflict := fault.Is(err, fault.Conflict)
		switch {
		case err == nil || conflict && !grouped:
			return true
		case !conflict && (attempt < attempts || timedOut || fault.Is(err, fault.Unavailable)) && s.Pause(ctx, min(attempt, attempts)) == nil:
			continue
		case grouped:
			return false
		}
		s.logUnsettled(e.ID, err)
		return true
	}
}

// attemptSettle stores entries once. It reports silent if settleTimeout passed without an answer.
func (s *Chats) attemptSettle(ctx context.Context, entries []usage.Entry) (timedOut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err = s.Store.Usage().Ledger().Settle(ctx, entries[0].Org, entries...)
	return ctx.Err() != nil, err
}

func (s *Chats) setUnsettled(e usage.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled[e.ID] = e
}

// takeUnsettled removes the entry of a call and returns it; false if it was removed before.
func (s *Chats) takeUnsettled(call id.Request) (usage.Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.unsettled[call]
	delete(s.unsettled, call)
	return e, ok
}

// logUnsettled logs the entry of a call that is not stored, unless it was logged before.
func (s *Chats) logUnsettled(call id.Request, err error) {
	if e, ok := s.takeUnsettled(call); ok {
		s.Log.Error("model call settlement failed", "call", string(e.ID), "org", string(e.Org), "user",
			string(e.User), "tokens", e.Tokens.Total(), "error", err)
	}
}
