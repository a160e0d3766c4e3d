package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/memory"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
)

const (
	free    = id.Org("00000001-0001-7000-8000-000000000001")
	premium = id.Org("00000001-0001-7000-8000-000000000002")
)

// awayStore is a store whose counts cannot be reached while away is set, and do not answer while
// hanging is.
type awayStore struct {
	ports.Store
	away, hanging bool
	added         int // calls of Add
}

func (s *awayStore) Usage() ports.Usage { return awayUsage{s.Store.Usage(), s} }

type awayUsage struct {
	ports.Usage
	store *awayStore
}

func (u awayUsage) Requests() ports.Requests { return awayRequests{u.Usage.Requests(), u.store} }

type awayRequests struct {
	ports.Requests
	store *awayStore
}

func (r awayRequests) Add(ctx context.Context, o id.Org, minute time.Time, n int64) (int64, error) {
	r.store.added++
	if r.store.hanging {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if r.store.away {
		return 0, errors.New("away")
	}
	return r.Requests.Add(ctx, o, minute, n)
}

// fixture has limiters of several servers over one store, whose exchanges run, in a bubble of
// synctest.
type fixture struct {
	*testing.T
	store  *awayStore
	clock  *memory.Clock
	errors int
}

func limited(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, store: &awayStore{Store: memory.NewStore()}, clock: memory.NewClock(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))}
		for o, p := range map[id.Org]plan.Plan{free: plan.Free, premium: plan.Premium} {
			f.grant(o, p)
		}
		test(f)
	})
}

// grant gives an organisation, which it adds if there is none, a plan.
func (f *fixture) grant(o id.Org, p plan.Plan) {
	f.Helper()
	_, err := f.store.Directory().Organisations().Upsert(f.Context(), org.Organisation{ID: o, ProviderID: string(o)}, func(o org.Organisation) (org.Organisation, error) { return o, nil })
	must.NoError(f, err)
	s, err := plan.Unsubscribed(o).Granted(plan.Grant{Plan: p}, f.clock.Now())
	if err == nil {
		err = f.store.Atomic(f.Context(), func(r ports.Records) error { return r.Directory().Subscriptions().Put(f.Context(), o, s) })
	}
	must.NoError(f, err)
}

// server returns the limiter of a server, under which FREE has 100 requests.
func (f *fixture) server() *Limiter {
	l := New(f.store, f.clock, plan.RequestLimits{plan.Free: 100}, func(error) { f.errors++ })
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	f.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

// admitted returns how many of n requests are admitted.
func (f *fixture) admitted(l *Limiter, o id.Org, n int) (admitted int) {
	for range n {
		if l.Take(f.Context(), o).Allowed {
			admitted++
		}
		synctest.Wait()
	}
	return admitted
}

func TestOneServerAdmitsTheLimitInEachMinute(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		for range 3 {
			if n := f.admitted(l, free, 300); n != 100 {
				t.Errorf("%d requests are admitted, want 100", n)
			}
			f.clock.Advance(45 * time.Second)
			must.Is(t, (Decision{Plan: plan.Free, Limit: 100, Reset: 15 * time.Second}), l.Take(f.Context(), free))
			f.clock.Advance(15 * time.Second)
		}
	})
}

func TestSeveralServersAdmitTheLimitAndALotForEachAtMost(t *testing.T) {
	limited(t, func(f *fixture) {
		servers := []*Limiter{f.server(), f.server(), f.server()}
		total := 0
		for range 300 {
			for _, l := range servers {
				total += f.admitted(l, free, 1)
			}
		}
		if total < 100 || total > 100+3*10 {
			t.Errorf("%d requests are admitted, want 100 to 130", total)
		}
	})
}

func TestAPlanWithoutALimitIsNotCounted(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		if n := f.admitted(l, premium, 1000); n != 1000 || f.store.added != 0 {
			t.Errorf("%d requests are admitted, %d times added", n, f.store.added)
		}
	})
}

func TestFewRequestsDoNotUseTheStore(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		if n := f.admitted(l, free, 4); n != 4 || f.store.added != 0 {
			t.Errorf("%d requests are admitted, %d times added", n, f.store.added)
		}
	})
}

func TestAChangeOfThePlanCountsInTheNextMinute(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		f.admitted(l, free, 200)
		f.grant(free, plan.Premium)
		f.grant(premium, plan.Free)
		f.clock.Advance(time.Minute)
		if n := f.admitted(l, free, 300); n != 300 {
			t.Errorf("after the upgrade %d are admitted", n)
		}
		if n := f.admitted(l, premium, 300); n != 100 {
			t.Errorf("after the downgrade %d are admitted", n)
		}
	})
}

func TestWithoutTheStoreEachServerAdmitsTheLimit(t *testing.T) {
	limited(t, func(f *fixture) {
		servers := []*Limiter{f.server(), f.server()}
		for _, l := range servers {
			f.admitted(l, free, 10)
		}
		f.store.away = true
		f.clock.Advance(time.Minute)
		for _, l := range servers {
			must.Is(t, 100, f.admitted(l, free, 300))
		}
		if f.errors != 2 { // one try in a second
			t.Errorf("%d exchanges failed", f.errors)
		}
		f.store.away = false
		f.clock.Advance(time.Minute)
		if n := f.admitted(servers[0], free, 300) + f.admitted(servers[1], free, 300); n < 100 || n > 120 {
			t.Errorf("%d are admitted when the store is back", n)
		}
	})
}

func TestARequestWaitsWhileALotIsNotAdded(t *testing.T) {
	limited(t, func(f *fixture) {
		l := New(f.store, f.clock, plan.RequestLimits{plan.Free: 100}, func(error) {})
		must.Is(t, 10, f.admitted(l, free, 10))
		ctx, leave := context.WithCancel(f.Context())
		waiting := make(chan Decision, 2)
		go func() { waiting <- l.Take(ctx, free) }()
		synctest.Wait()
		leave()
		<-waiting
		go func() { waiting <- l.Take(f.Context(), free) }()
		synctest.Wait()
		if len(waiting) != 0 {
			t.Error("the request does not wait")
		}
		l.exchange(f.Context(), <-l.due)
		if d := <-waiting; !d.Allowed || d.Remaining != 89 {
			t.Errorf("%+v", d)
		}
	})
}

func TestARequestIsAdmittedAfterTheLongestWait(t *testing.T) {
	limited(t, func(f *fixture) {
		l := New(f.store, f.clock, plan.RequestLimits{plan.Free: 100}, func(error) {})
		f.admitted(l, free, 10)
		began := time.Now()
		if d := l.Take(f.Context(), free); !d.Allowed || time.Since(began) != MaxWait {
			t.Errorf("%+v after %v", d, time.Since(began))
		}
	})
}

func TestAStoreThatHangsDelaysRequestsUntilOneExchangeFails(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		orgs := make([]id.Org, 30)
		for i := range orgs {
			orgs[i] = id.Org(fmt.Sprintf("00000002-0001-7000-8000-%012d", i))
			f.grant(orgs[i], plan.Free)
			f.admitted(l, orgs[i], 10)
		}
		f.store.hanging = true
		for _, delay := range []time.Duration{exchangeTimeout, 0} {
			f.clock.Advance(time.Minute)
			began := time.Now()
			var clients sync.WaitGroup
			for _, o := range orgs {
				clients.Go(func() {
					n := 0
					for range 300 {
						if l.Take(f.Context(), o).Allowed {
							n++
						}
					}
					if n != 100 {
						t.Errorf("%d requests of %s are admitted", n, o)
					}
				})
			}
			clients.Wait()
			if d := time.Since(began); d != delay || f.errors != 1 {
				t.Errorf("requests wait for %v, want %v; %d exchanges failed", d, delay, f.errors)
			}
		}
	})
}

func TestAnExchangeAtTheEndOfWorkIsNoFailure(t *testing.T) {
	limited(t, func(f *fixture) {
		f.store.hanging = true
		l := New(f.store, f.clock, plan.RequestLimits{plan.Free: 100}, func(err error) { t.Error(err) })
		ctx, cancel := context.WithCancel(f.Context())
		var working sync.WaitGroup
		working.Go(func() { l.Run(ctx) })
		f.admitted(l, free, 5)
		cancel()
		working.Wait()
		if f.store.added != 1 {
			t.Errorf("%d exchanges", f.store.added)
		}
	})
}

func TestAClockThatIsSetBackDoesNotBeginAMinuteAgain(t *testing.T) {
	limited(t, func(f *fixture) {
		l := f.server()
		f.admitted(l, free, 100)
		f.clock.Advance(-time.Second)
		must.Is(t, (Decision{Plan: plan.Free, Limit: 100, Reset: 61 * time.Second}), l.Take(f.Context(), free))
		f.clock.Advance(time.Second)
		if n := f.admitted(l, free, 1); n != 0 {
			t.Error("a request is admitted when the clock shows the minute again")
		}
		f.clock.Advance(time.Minute)
		f.store.away = true
		f.admitted(l, free, 10)
		f.store.away = false
		f.clock.Advance(-time.Hour)
		added := f.store.added
		if n := f.admitted(l, free, 300); n != 100 || f.store.added == added {
			t.Errorf("an hour ago %d requests are admitted, %d times added", n, f.store.added-added)
		}
	})
}

func TestALimiterOfNoPlanIsNil(t *testing.T) {
	l := New(nil, nil, nil, nil)
	if d := l.Take(t.Context(), free); l != nil || !d.Allowed || d.Limit != plan.Unlimited {
		t.Errorf("%+v", d)
	}
}
