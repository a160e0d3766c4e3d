// Package ratelimit limits the requests of organisations in each minute by their plan, on all
// servers together.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

// MaxWait is how long a request waits for the store at most.
const MaxWait = 250 * time.Millisecond

const (
	exchangeTimeout = 2 * time.Second // of one exchange with the store
	retryEvery      = time.Second     // after an exchange that failed, of any organisation
	maxDue          = 4096            // organisations that wait for an exchange
)

// Limiter counts the requests of each organisation in each minute of the clock. It admits them
// by the sum of all servers that it read last and what it has admitted since. When half an allowance
// (see plan.ServerAllowance) is not added to the store's count yet, Run adds it there and reads the sum; a
// request waits for the store only if a whole allowance is not added, and at most for MaxWait. So all
// servers together admit at most an allowance for each of them above the limit while exchanges are faster
// than MaxWait. While the store cannot be reached, each server admits as many as the limit: after an
// exchange that failed no request waits until one has succeeded. A nil Limiter limits nothing.
type Limiter struct {
	store        ports.Store
	clock        ports.Clock
	limits       plan.RequestLimits
	failed       func(error)
	minAllowance int64       // the smallest one, which counts until the plan is known
	due          chan *count // to be exchanged with the store

	mu         sync.Mutex
	minute     time.Time
	counts     map[id.Org]*count // of the minute
	lastMinute map[id.Org]*count // of the last minute, whose plans are assumed until they are read again
	failedAt   time.Time         // when the last exchange failed; zero: it did not
}

// count is the count of an organisation's requests in one minute.
type count struct {
	org      id.Org
	minute   time.Time
	plan     plan.Plan     // empty: not known
	current  bool          // the plan was read in this minute
	sum      int64         // admitted by all servers, as far as it is known here
	pending  int64         // admitted here and not added to the store's count, nor being added
	adding   int64         // admitted here and being added
	exchange chan struct{} // closed at the end of the exchange that is due or running; nil: none
}

// Decision says whether a request is admitted.
type Decision struct {
	Allowed   bool
	Plan      plan.Plan
	Limit     int64         // plan.Unlimited: there is none, or the plan is not known yet
	Remaining int64         // of the limit, as far as it is known
	Reset     time.Duration // until the next minute
}

// New returns the limiter, or nil if no plan has a limit. Errors of the store are passed to
// failed.
func New(store ports.Store, clock ports.Clock, limits plan.RequestLimits, failed func(error)) *Limiter {
	if len(limits) == 0 {
		return nil
	}
	return &Limiter{
		store: store, clock: clock, limits: limits, failed: failed, minAllowance: limits.MinServerAllowance(),
		due: make(chan *count, maxDue), counts: map[id.Org]*count{},
	}
}

// Take counts one request of the organisation, if it is admitted. It waits at most MaxWait, and until
// the context is done.
func (l *Limiter) Take(ctx context.Context, o id.Org) Decision {
	if l == nil {
		return Decision{Allowed: true, Limit: plan.Unlimited}
	}
	d, wait := l.take(o, true)
	if wait == nil {
		return d
	}
	waiting, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	for wait != nil {
		select {
		case <-wait:
			d, wait = l.take(o, true)
		case <-waiting.Done():
			if ctx.Err() != nil {
				return d
			}
			d, wait = l.take(o, false)
		}
	}
	return d
}

// take returns the decision, and a channel if it is to be made again once that is closed, which
// mayWait allows.
func (l *Limiter) take(o id.Org, mayWait bool) (d Decision, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	// A clock that is set back by a minute at most does not begin a minute again.
	if minute := now.Truncate(time.Minute); minute.After(l.minute) || l.minute.Sub(now) > time.Minute {
		l.minute, l.lastMinute, l.counts = minute, l.counts, make(map[id.Org]*count, len(l.counts))
	}
	c := l.counts[o]
	if c == nil {
		c = &count{org: o, minute: l.minute}
		if b := l.lastMinute[o]; b != nil {
			c.plan = b.plan
		}
		l.counts[o] = c
	}
	d = Decision{Allowed: true, Plan: c.plan, Limit: plan.Unlimited, Reset: l.minute.Add(time.Minute).Sub(now)}
	allowance, unshared := l.minAllowance, c.pending+c.adding
	if c.plan != "" {
		d.Limit = l.limits.Of(c.plan)
	}
	if c.current {
		if d.Limit == plan.Unlimited {
			return d, nil
		}
		allowance = plan.ServerAllowance(d.Limit)
	}
	if d.Limit != plan.Unlimited {
		if d.Remaining = d.Limit - c.sum - unshared; d.Remaining <= 0 {
			d.Allowed, d.Remaining = false, 0
			return d, nil
		}
		d.Remaining--
	}
	if mayWait && l.failedAt.IsZero() && unshared >= allowance && c.exchange != nil && (c.plan == "" || d.Limit != plan.Unlimited) {
		return d, c.exchange
	}
	c.pending++
	if c.exchange == nil && c.pending >= allowance/2 && now.Sub(l.failedAt).Abs() >= retryEvery {
		select {
		case l.due <- c:
			c.exchange = make(chan struct{})
		default: // a later request tries again
		}
	}
	return d, nil
}

// Run makes the exchanges that are due until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-l.due:
			l.exchange(ctx, c)
		}
	}
}

// exchange reads the plan of a count that was not exchanged yet, adds what is pending to the
// store's count and reads the sum. If that fails, it ends those that are due without making them,
// since each could take as long. An error after the end of ctx is not passed to failed.
func (l *Limiter) exchange(ctx context.Context, c *count) {
	l.mu.Lock()
	p, current := c.plan, c.current
	c.adding, c.pending = c.pending, 0
	n := c.adding
	l.mu.Unlock()

	sum, p, err := l.add(ctx, c, n, p, current)
	if err != nil && ctx.Err() == nil {
		l.failed(err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	c.end()
	c.adding = 0
	c.sum += n // also after an error, since the store may have added it
	if err != nil {
		l.failedAt = l.clock.Now()
		for len(l.due) > 0 {
			(<-l.due).end()
		}
		return
	}
	l.failedAt = time.Time{}
	c.plan, c.current, c.sum = p, true, max(c.sum, sum)
}

// end ends the exchange that is due or running. The caller holds Limiter.mu.
func (c *count) end() {
	close(c.exchange)
	c.exchange = nil
}

// add adds n requests to the store's count if the plan has a limit, and returns the sum of all
// servers. It reads the plan unless that is current.
func (l *Limiter) add(ctx context.Context, c *count, n int64, p plan.Plan, current bool) (int64, plan.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if !current {
		s, err := l.store.Directory().Subscriptions().Get(ctx, c.org)
		if err != nil {
			return 0, p, err
		}
		p = s.At(l.clock.Now()).Plan
	}
	if l.limits.Of(p) == plan.Unlimited {
		return 0, p, nil
	}
	sum, err := l.store.Usage().Requests().Add(ctx, c.org, c.minute, n)
	return sum, p, err
}
