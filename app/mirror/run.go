package mirror

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/fault"
	"collab/domain/mirror"
)

const (
	// scanEvery is how often the whole directory is scanned, from three quarters to five
	// quarters of it, as notifications may be lost.
	scanEvery = time.Hour
	// watchAgain is the wait before a directory that could not be watched is watched again.
	watchAgain = time.Minute
	// maxBackoff is the longest wait before a failed round is repeated, unless the server asks
	// for a longer one, and maxRetry the one before files that failed are tried again.
	maxBackoff = time.Minute
	maxRetry   = 5 * time.Minute
	// pauseInterval is how often IsPaused is asked.
	pauseInterval = time.Second
	// keepStaged and keepTrash are how long unfinished downloads and the trash are kept.
	keepStaged = 24 * time.Hour
	keepTrash  = 30 * 24 * time.Hour
	// releaseAfter is how long nothing has happened when the rows of many files are released.
	releaseAfter = time.Minute
)

// backoff is a wait that doubles each time, from a second to most.
type backoff struct{ last, most time.Duration }

// next returns the wait, from half to all of it.
func (b *backoff) next(random float64) time.Duration {
	b.last = min(max(2*b.last, time.Second), b.most)
	return time.Duration(float64(b.last) * (0.5 + random/2))
}

// Run does rounds whenever something has changed on either side, until ctx ends, which is no
// error, or until somebody has to do something: the session or the membership has ended, the
// directory is gone, or it is bound to another place. Every other error passes, and rounds go on
// after a wait. While IsPaused it does none, and a round that has begun is interrupted. After each
// round it calls each with the outcome, or with the error of a round that will be repeated.
func (m *Mirror) Run(ctx context.Context, each func(Outcome, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	// It causes the first round, so that what changes during its scan is noticed.
	background.Go(func() { m.watch(ctx) })
	var paused atomic.Bool // the last round was left out or interrupted
	background.Go(func() { m.followPauses(ctx, &paused) })
	background.Go(func() {
		for m.Wait(ctx, time.Duration(float64(scanEvery)*(0.75+m.Random()/2))) == nil {
			m.Changed(mirror.Everything())
		}
	})
	m.paces = map[string]pace{}
	following := false
	stop := func() {} // ends the wait for the first file that the last round has put off
	failing, failed := backoff{most: maxBackoff}, backoff{most: maxRetry}
	var retrying atomic.Bool
	for {
		if !m.await(ctx) {
			return endOf(ctx)
		}
		out, err := Outcome{Paused: true}, error(nil)
		if !m.paused() {
			paused.Store(false)
			out, err = m.interruptible(ctx)
		}
		if ctx.Err() != nil {
			return endOf(ctx)
		}
		if out.Paused {
			if !paused.Swap(true) {
				each(out, nil)
			}
			continue
		}
		each(out, err)
		switch {
		case Final(err):
			return err
		case err != nil:
			if m.Wait(ctx, max(failing.next(m.Random()), retryAfter(err))) != nil {
				return endOf(ctx)
			}
			m.Changed(mirror.Scope{})
			continue
		case len(out.Failed) == 0 && !out.Retry:
			failed.last = 0
		case !retrying.Swap(true): // other changes are not to wait for these files
			wait := failed.next(m.Random())
			background.Go(func() {
				_ = m.Wait(ctx, wait)
				retrying.Store(false)
				m.Changed(mirror.Scope{})
			})
		}
		failing.last = 0
		stop()
		if len(out.Delayed) > 0 {
			first := slices.MinFunc(out.Delayed, func(a, b Delayed) int { return a.Due.Compare(b.Due) })
			wait := min(first.Due.Sub(m.Clock.Now()), maxPace) // more if the clock was set back
			waiting, cancel := context.WithCancel(ctx)
			stop = cancel
			background.Go(func() {
				if m.Wait(waiting, wait) == nil {
					m.Changed(mirror.Scope{})
				}
			})
		}
		m.clean(ctx)
		if after := m.cursor; !following {
			following = true
			background.Go(func() {
				if err := m.Remote.Watch(ctx, after, func() { m.Changed(mirror.Scope{}) }); err != nil && ctx.Err() == nil {
					cancel(remoteError{err})
				}
			})
		}
	}
}

// clean removes old staged content and trash, once in keepStaged.
func (m *Mirror) clean(ctx context.Context) {
	if now := m.Clock.Now(); now.Sub(m.lastClean).Abs() > keepStaged { // also after the clock was set back
		m.lastClean = now
		_ = m.DiskWriter.Clean(ctx, now.Add(-keepStaged), now.Add(-keepTrash)) // else the next time
	}
}

// await waits until there is something to do, and reports false if ctx ends before. Meanwhile it releases
// the rows if they are many.
func (m *Mirror) await(ctx context.Context) bool {
	if m.Resident > 0 && len(m.rows) > m.Resident {
		quiet, cancel := context.WithCancel(ctx)
		defer cancel()
		passed := make(chan error, 1)
		go func() { passed <- m.Wait(quiet, releaseAfter) }()
		select {
		case <-m.wakes:
			cancel()
			<-passed
			return true
		case err := <-passed:
			if err == nil {
				m.release()
			}
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-m.wakes:
		return true
	}
}

// retryAfter returns how long the server asks to wait before a request is repeated, 0 if it does not.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return time.Duration(e.RetryAfter) * time.Second
	}
	return 0
}

// Final reports whether the error of a round does not pass before somebody does something.
func Final(err error) bool {
	_, final := errors.AsType[finalError](err)
	_, remote := errors.AsType[remoteError](err)
	return final || remote && fault.Is(err, fault.Unauthenticated, fault.Forbidden)
}

// watch marks what changes in the directory. Where it cannot be watched it marks everything from
// time to time; a round finds out whether the directory is gone.
func (m *Mirror) watch(ctx context.Context) {
	late := func(reason string) {
		m.lock.Lock()
		defer m.lock.Unlock()
		m.watchProblem, m.notified = reason, reason == ""
	}
	for {
		err := m.Watcher.Watch(ctx, func(scope mirror.Scope, limited string) {
			late(limited)
			m.Changed(scope)
		})
		if err != nil {
			late(err.Error())
			m.Changed(mirror.Everything())
		}
		if ctx.Err() != nil || m.Wait(ctx, watchAgain) != nil {
			return
		}
	}
}

// followPauses has Run notice when IsPaused returns something else than Run goes by.
func (m *Mirror) followPauses(ctx context.Context, paused *atomic.Bool) {
	for m.Wait(ctx, pauseInterval) == nil {
		if now := m.IsPaused(); now != paused.Load() {
			m.lock.Lock()
			if now && m.interrupt != nil {
				m.interrupt()
			}
			m.lock.Unlock()
			m.Changed(mirror.Scope{})
		}
	}
}

// interruptible does a round that ends when IsPaused says so.
func (m *Mirror) interruptible(ctx context.Context) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.lock.Lock()
	m.interrupt = cancel
	m.lock.Unlock()
	out, err := m.round(ctx, false)
	if ctx.Err() != nil {
		return Outcome{Paused: true}, nil
	}
	return out, err
}

// endOf returns why Run has ended with ctx, nil if it was to.
func endOf(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
