package chats

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
)

// addLease registers the lease of a call, which is extended until leave. Unavailable once
// the server drains.
func (s *Chats) addLease(l quota.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Unavailable, "The server is going away")
	}
	s.leases[l.ID] = l
	return nil
}

// enter records how to end a running call. It returns false once the server drains.
func (s *Chats) enter(call id.Request, end context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[call] = end
	return !s.closed
}

func (s *Chats) leave(call id.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, call)
	delete(s.ends, call)
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
	for _, end := range s.ends {
		end(errShutdown)
	}
}

// Close drains, and waits until all calls are settled. It returns the context's error if the
// context ends first.
func (s *Chats) Close(ctx context.Context) error {
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
// leases, whose servers have stopped. It is to be called each ExtendEvery on every server.
func (s *Chats) ExtendLeases(ctx context.Context) error {
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
