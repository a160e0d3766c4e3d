package oidc

import (
	"context"
	"sync"
	"time"

	"collab/ports"

	"golang.org/x/time/rate"
)

// source is something that is read from the provider. A token bucket limits the
// attempts, whoever asks, and all who ask during one wait for it. What was read
// stays when a later attempt fails.
type source[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration // after which the bucket has one attempt more
	clock ports.Clock

	mu      sync.Mutex
	limiter *rate.Limiter
	state   reading[T]
	running chan struct{} // closed at the end of the attempt, nil between attempts
}

func newSource[T any](read func(context.Context) (T, error), every time.Duration, burst int, clock ports.Clock) *source[T] {
	return &source[T]{read: read, every: every, clock: clock, limiter: rate.NewLimiter(rate.Every(every), burst)}
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

// begin starts an attempt if none is under way and the bucket allows one. Done
// is closed at the end of the attempt that is under way, nil when there is
// none; began reports whether this call started it.
func (s *source[T]) begin() (done <-chan struct{}, began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running, false
	}
	now := s.clock.Now()
	if !s.limiter.AllowN(now, 1) {
		return nil, false
	}
	s.running = make(chan struct{})
	go s.attempt(now)
	return s.running, true
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

// fresh returns the outcome after the attempt that is under way or that the
// bucket allows now, if there is one; began reports whether this call started it.
func (s *source[T]) fresh(ctx context.Context) (r reading[T], began bool, err error) {
	done, began := s.begin()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return reading[T]{}, began, ctx.Err()
		}
	}
	return s.last(), began, nil
}

// need returns what was read, waiting for the first attempt where there is
// nothing yet.
func (s *source[T]) need(ctx context.Context) (reading[T], error) {
	if r := s.last(); r.number > 0 {
		return r, nil
	}
	r, _, err := s.fresh(ctx)
	if err == nil && r.number == 0 {
		err = r.err
	}
	if err != nil {
		return reading[T]{}, unavailable(err, s.every)
	}
	return r, nil
}
