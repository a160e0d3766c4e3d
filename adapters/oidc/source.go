package oidc

import (
	"context"
	"sync"
	"time"

	"collab/ports"
)

// source is something that is read from the provider: at most one attempt
// begins per interval, whoever asks, and all who ask meanwhile wait for the
// same one. What was read stays when a later attempt fails.
type source[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration
	clock ports.Clock

	mu      sync.Mutex
	state   reading[T]
	tried   bool
	triedAt time.Time
	running chan struct{} // closed at the end of the attempt, nil between attempts
}

// reading is the outcome of all attempts so far.
type reading[T any] struct {
	value  T
	number int       // how many attempts have succeeded: zero means no value
	at     time.Time // when the attempt that read the value began
	err    error     // of the last attempt
}

func (s *source[T]) last() reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// begin starts an attempt if one is due. The channel is closed when the one
// that is under way has ended; it is nil when there is none.
func (s *source[T]) begin() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	now := s.clock.Now()
	// A clock that was set back must not put off the next attempt for long.
	if since := now.Sub(s.triedAt); s.tried && since >= 0 && since < s.every {
		return nil
	}
	s.tried, s.triedAt, s.running = true, now, make(chan struct{})
	go s.attempt(now)
	return s.running
}

// attempt belongs to all who wait for it, so that none of them can cancel it.
func (s *source[T]) attempt(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	value, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.state = reading[T]{value: value, number: s.state.number + 1, at: now}
	} else {
		s.state.err = err
	}
	close(s.running)
	s.running = nil
}

// fresh returns the outcome after the attempt that is under way or due now, if
// there is one.
func (s *source[T]) fresh(ctx context.Context) (reading[T], error) {
	if done := s.begin(); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return reading[T]{}, ctx.Err()
		}
	}
	return s.last(), nil
}

// need returns what was read, waiting for the first attempt where there is
// nothing yet.
func (s *source[T]) need(ctx context.Context) (reading[T], error) {
	if r := s.last(); r.number > 0 {
		return r, nil
	}
	r, err := s.fresh(ctx)
	if err == nil && r.number == 0 {
		err = r.err
	}
	if err != nil {
		return reading[T]{}, unavailable(err, s.every)
	}
	return r, nil
}
