package chats

import (
	"context"
	"maps"
	"slices"

	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
)

// reservationKey has the fields that are equal in reservations which are made together.
type reservationKey struct {
	org   id.Org
	day   calendar.Day
	epoch int64
	limit int64
}

// reservation is a lease to be reserved.
type reservation struct {
	lease   quota.Lease // with all tokens that are needed
	need    quota.Need
	granted int64
	err     error
	refused bool // the account had not all tokens left for the leases of its group
}

// reserveAt is Quotas.ReserveAt. Leases that are to be reserved while others of their
// organisation are being reserved are reserved together.
func (s *Chats) reserveAt(ctx context.Context, epoch int64, lease quota.Lease, limit int64, need quota.Need) (int64, error) {
	r := &reservation{lease: lease, need: need}
	if r.lease.Tokens = (quota.Account{}).Grant(limit, need); r.lease.Tokens == 0 {
		return 0, nil
	}
	key := reservationKey{lease.Org, lease.Day, epoch, limit}
	reserved := s.reserving.do(key, r,
		func(previous <-chan struct{}) { s.await(ctx, previous, joinTimeout) },
		func(all []*reservation) bool {
			s.reserveAll(ctx, key, all)
			return true
		})
	if !reserved || r.refused {
		return s.Store.Usage().Quotas().ReserveAt(ctx, epoch, lease, limit, need)
	}
	return r.granted, r.err
}

// reserveAll makes reservations with one key.
func (s *Chats) reserveAll(ctx context.Context, key reservationKey, all []*reservation) {
	quotas := s.Store.Usage().Quotas()
	if len(all) == 1 {
		all[0].granted, all[0].err = quotas.ReserveAt(ctx, key.epoch, all[0].lease, key.limit, all[0].need)
		return
	}
	leases := make([]quota.Lease, len(all))
	for i, r := range all {
		leases[i] = r.lease
	}
	granted, err := quotas.ReserveAllAt(ctx, key.epoch, leases, key.limit)
	for _, r := range all {
		r.granted, r.err = r.lease.Tokens, err
		r.refused = err == nil && !slices.Contains(granted, r.lease.User)
	}
}

// addLease registers the lease of a call, which is extended until endCall. Unavailable once
// the server drains.
func (s *Chats) addLease(l quota.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Unavailable, "The server is shutting down")
	}
	s.leases[l.ID] = l
	return nil
}

// setCancel records how to end a running call. It returns false once the server drains.
func (s *Chats) setCancel(call id.Request, end context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels[call] = end
	return !s.closed
}

// endCall removes a call and its lease, and closes idle after the last.
func (s *Chats) endCall(call id.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, call)
	delete(s.cancels, call)
	if s.idle != nil && len(s.leases) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// Drain ends all admitted calls with an error chunk, and refuses new ones.
func (s *Chats) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.draining)
	}
	for _, end := range s.cancels {
		end(errShutdown)
	}
}

// Close is Wait. If the context ends first, it logs the entries that are not stored.
func (s *Chats) Close(ctx context.Context) error {
	err := s.Wait(ctx)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.unsettled))
	s.mu.Unlock()
	for _, call := range left {
		s.logUnsettled(call, errShutdown)
	}
	return err
}

// Wait drains, and waits until all calls are settled. It returns the context's error if the
// context ends first.
func (s *Chats) Wait(ctx context.Context) error {
	s.Drain()
	select {
	case <-s.drained():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drained returns a channel that is closed when no call is left.
func (s *Chats) drained() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	if len(s.leases) == 0 {
		close(idle)
		s.idle = nil
	}
	return idle
}

// ExtendLeases extends the leases of this server's calls, and releases the tokens of expired
// leases, whose servers have stopped. It is to be called each ExtendEvery on every server. It ends
// after settleTimeout, so that a database connection that is broken delays no later call.
func (s *Chats) ExtendLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	s.mu.Lock()
	all := make([]quota.Lease, 0, len(s.leases))
	for _, l := range s.leases {
		all = append(all, l)
	}
	s.mu.Unlock()
	now := s.Clock.Now()
	quotas := s.Store.Usage().Quotas()
	if len(all) > 0 {
		if err := quotas.Extend(ctx, all, now.Add(leaseLifetime)); err != nil {
			return err
		}
	}
	return quotas.Sweep(ctx, now)
}
