package chats

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
)

// hold notes a call that is being admitted, until it leaves; its lease is extended
// meanwhile. Unavailable when no more calls are to come.
func (s *Chats) hold(l quota.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Unavailable, "The server is going away")
	}
	s.leases[l.ID] = l
	return nil
}

// enter notes how a call ends that is running now. It reports false when no calls
// are to run any more.
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

// Drain ends all calls that were admitted with an error chunk, and has no more of
// them come.
func (s *Chats) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, end := range s.ends {
		end(errShutdown)
	}
}

// Close drains, and returns when what all calls used is kept. It returns the
// context's error when that ends the waiting.
func (s *Chats) Close(ctx context.Context) error {
	s.Drain()
	select {
	case <-s.left():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// left returns a channel that is closed when no call is there any more.
func (s *Chats) left() <-chan struct{} {
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

// ExtendLeases extends the leases of the calls that are there, and gives back what the
// leases of others hold that have expired, whose servers are gone. It is to be
// called each ExtendEvery; any number of servers may.
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
		if err := quotas.Extend(ctx, all, now.Add(leaseFor)); err != nil {
			return err
		}
	}
	return quotas.Sweep(ctx, now)
}
