package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/mirror"
)

const (
	// scanEvery is how often the whole directory is scanned, from three quarters to five
	// quarters of it, as notifications may be lost.
	scanEvery = time.Hour
	// maxBackoff is the longest wait before a failed round is repeated, unless the server asks
	// for a longer one.
	maxBackoff = 5 * time.Minute
	// keepStaged and keepTrash are how long unfinished downloads and the trash are kept.
	keepStaged = 24 * time.Hour
	keepTrash  = 30 * 24 * time.Hour
)

// Pause stops rounds, or lets them go on, also after a restart.
func (m *Mirror) Pause(ctx context.Context, paused bool) error {
	if !m.loaded {
		if err := m.load(ctx); err != nil {
			return err
		}
	}
	b := m.binding
	b.Paused = paused
	if err := m.State.Bind(ctx, b); err != nil {
		return err
	}
	m.binding = b
	return nil
}

// Run does rounds whenever something has changed on either side, until ctx ends, which is no
// error, or until somebody has to do something: the session has ended, access was lost, or the
// directory is gone. After each round it calls each with the outcome, and with the error of a
// round that will be repeated.
func (m *Mirror) Run(ctx context.Context, each func(Outcome, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	follow := func(fn func(context.Context) error) {
		background.Go(func() {
			if err := fn(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	follow(func(ctx context.Context) error {
		return m.Watcher.Watch(ctx, func(scope mirror.Scope, _ string) { m.Changed(scope) })
	})
	follow(func(ctx context.Context) error {
		for {
			every := time.Duration(float64(scanEvery) * (0.75 + m.Random()/2))
			if m.Wait(ctx, every) != nil {
				return nil
			}
			m.Changed(mirror.Everything())
		}
	})
	m.Changed(mirror.Everything())
	following := false
	var cleaned time.Time
	backoff := time.Second
	for {
		select {
		case <-ctx.Done():
			return m.ended(ctx)
		case <-m.wakes:
		}
		out, err := m.Round(ctx)
		if ctx.Err() != nil {
			return m.ended(ctx)
		}
		each(out, err)
		var remote remoteError
		switch kind := fault.KindOf(err); {
		case err == nil && len(out.Failed) == 0:
			backoff = time.Second
		case kind == fault.Unauthenticated || kind == fault.Forbidden || err != nil && !errors.As(err, &remote) && kind == fault.NotFound || kind == fault.Conflict:
			return err
		default:
			wait := time.Duration(float64(backoff) * (0.5 + m.Random()/2))
			var e *fault.Error
			if errors.As(err, &e) {
				wait = max(wait, time.Duration(e.RetryAfter)*time.Second)
			}
			backoff = min(2*backoff, maxBackoff)
			if m.Wait(ctx, wait) != nil {
				return m.ended(ctx)
			}
			m.Changed(mirror.Scope{})
		}
		if now := m.Clock.Now(); now.Sub(cleaned) > keepStaged {
			cleaned = now
			_ = m.DiskWriter.Clean(ctx, now.Add(-keepStaged), now.Add(-keepTrash)) // else tomorrow
		}
		if after := m.cursor; !following && err == nil {
			following = true
			follow(func(ctx context.Context) error {
				return m.Remote.Watch(ctx, after, func() { m.Changed(mirror.Scope{}) })
			})
		}
	}
}

// ended returns why Run has ended, nil if it was to.
func (m *Mirror) ended(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
