package oidc

import (
	"context"
	"sync"
	"time"

	"collab/ports"

	"golang.org/x/time/rate"
)

// refresher reads a value from the provider. A token bucket limits the attempts; concurrent
// callers wait for the same one. After a failed attempt the last value remains.
type refresher[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration // after which the bucket has one attempt more
	clock ports.Clock

	mu      sync.Mutex
	limiter *rate.Limiter
	state   snapshot[T]
	running chan struct{} // closed at the end of the attempt, nil between attempts
}

func newRefresher[T any](read func(context.Context) (T, error), every time.Duration, burst int, clock ports.Clock) *refresher[T] {
	return &refresher[T]{read: read, every: every, clock: clock, limiter: rate.NewLimiter(rate.Every(every), burst)}
}

// snapshot is the result of the attempts so far.
type snapshot[T any] struct {
	value  T
	number int       // how many attempts have succeeded: zero means no value
	at     time.Time // when the attempt that read the value began
	err    error     // of the last attempt
}

func (s *refresher[T]) last() snapshot[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// begin starts an attempt if none is running, none has succeeded since the caller read a snapshot
// with this number, and the bucket allows one. It returns a channel that is closed at the end of the
// running attempt, nil if there is none, and whether this call started it.
func (s *refresher[T]) begin(number int) (done <-chan struct{}, began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running, false
	}
	if s.state.number > number {
		return nil, false
	}
	now := s.clock.Now()
	// If the clock was set back, the bucket is filled again from now on, not from its previous time.
	s.limiter.SetLimitAt(now, s.limiter.Limit())
	if !s.limiter.AllowN(now, 1) {
		return nil, false
	}
	s.running = make(chan struct{})
	go s.attempt(now)
	return s.running, true
}

// attempt has a context of its own, because several callers may wait for it.
func (s *refresher[T]) attempt(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	value, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.state = snapshot[T]{value: value, number: s.state.number + 1, at: now}
	} else {
		s.state.err = err
	}
	close(s.running)
	s.running = nil
}

// fresh waits for the attempt that is running or that begin starts, and returns the snapshot
// after it and whether this call started the attempt.
func (s *refresher[T]) fresh(ctx context.Context, number int) (r snapshot[T], began bool, err error) {
	done, began := s.begin(number)
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return snapshot[T]{}, began, ctx.Err()
		}
	}
	return s.last(), began, nil
}

// getOrWait returns the snapshot. It waits for an attempt if there is no value yet.
func (s *refresher[T]) getOrWait(ctx context.Context) (snapshot[T], error) {
	if r := s.last(); r.number > 0 {
		return r, nil
	}
	r, _, err := s.fresh(ctx, 0)
	if err == nil && r.number == 0 {
		err = r.err
	}
	if err != nil {
		return snapshot[T]{}, unavailable(err, s.every)
	}
	return r, nil
}
