package chats

import (
	"context"

	"collab/domain/id"
	"collab/domain/quota"
)

// enter notes a running call, whose lease is extended while it runs. It reports
// false when no calls are to run any more.
func (s *Chats) enter(l quota.Lease, end context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l.ID], s.ends[l.ID] = l, end
	return !s.closed
}

func (s *Chats) leave(call id.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, call)
	delete(s.ends, call)
	s.rest()
}

// rest closes idle when no calls are to run and none does; mu is held. Calls
// that come after that end at once, and find it closed.
func (s *Chats) rest() {
	if !s.closed || len(s.ends) > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// Drain ends all running calls with an error chunk, and those that come.
func (s *Chats) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, end := range s.ends {
		end(errShutdown)
	}
	s.rest()
}

// Close drains, and returns when what all calls used is kept. It returns the
// context's error when that ends the waiting.
func (s *Chats) Close(ctx context.Context) error {
	s.Drain()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Keep extends the leases of running calls, and gives back what the leases of
// others hold that have expired, whose servers are gone. It is to be called each
// KeepEvery; any number of servers may.
func (s *Chats) Keep(ctx context.Context) error {
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
