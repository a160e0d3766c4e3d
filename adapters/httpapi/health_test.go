package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/test/must"
)

func TestRecentHasCountsOfTheLastHour(t *testing.T) {
	var r recent
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for n := range 100 {
		at := start.Add(time.Duration(n) * time.Minute)
		r.sample(at, inProgress{feeds: int64(n), calls: 2, waiting: 1})
		r.sample(at.Add(time.Second), inProgress{feeds: 1, transfers: 3})
		if n == 99 {
			continue // a minute without a request
		}
		r.add(at, 2*time.Second, http.StatusOK)
		for i, status := range []int{http.StatusNotFound, statusClientClosed, http.StatusServiceUnavailable} {
			r.add(at.Add(time.Duration(i)*time.Second), 0, status)
		}
	}
	now := start.Add(99*time.Minute + 30*time.Second)
	all := r.list(now)
	if len(all) != minutesKept {
		t.Fatalf("%d minutes", len(all))
	}
	for i, m := range all {
		want := minuteCounts{start.Truncate(time.Minute).Add(time.Duration(40+i) * time.Minute), 4, 2, 1, 2 * time.Second, inProgress{int64(40 + i), 2, 3, 1}}
		if i == minutesKept-1 {
			want.requests, want.refused, want.failed, want.total = 0, 0, 0, 0
		}
		if m != want {
			t.Errorf("minute %d is %+v, want %+v", i, m, want)
		}
	}
	must.Is(t, 2, len(r.list(now.Add(58*time.Minute))))
	must.Is(t, 0, len(r.list(now.Add(2*time.Hour))))
}

func TestHealthAndMetricsHaveTheSameNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, collect := collecting(t)
		s := newFeedServer(t, meter, withShares)
		feed := s.connect(true)
		shares := map[string]shareView{}
		for kind, of := range map[string]struct {
			shares  *limit.Shares
			permits int64
		}{"requests": {s.shares.requests, 2}, "streams": {s.shares.streams, 3}, "transfers": {s.shares.transfers, 4}, "calls": {s.shares.calls, 5}, "webhooks": {s.shares.webhooks, 6}} {
			for range of.permits {
				permit := must.Do(of.shares.Acquire(t.Context(), "a")).Or(t)
				defer permit.Release()
			}
			shares[kind] = shareView{Used: of.permits}
		}
		// Beside another organisation a has its share of the requests.
		other := must.Do(s.shares.requests.Acquire(t.Context(), "b")).Or(t)
		defer other.Release()
		must.Fail(t, must.ErrorOf(s.shares.requests.Acquire(t.Context(), "a")), fault.Unavailable)
		waits, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = s.shares.requests.Acquire(waits, "a") }()
		shares["requests"] = shareView{3, 1, 1}
		budgets := map[string]budgetView{}
		for name, of := range map[string]struct {
			budget *limit.Budget
			bytes  int64
		}{"anonymous": {s.budgets.anonymous, 2}, "callers": {s.budgets.callers, 3}, "connections": {s.Connections, 4}, "spool": {s.budgets.spool, 5}} {
			of.budget.Take("a", of.bytes)
			for range of.bytes + 1 {
				of.budget.Take("a", 1<<40)
			}
			budgets[name] = budgetView{of.bytes, of.bytes + 1}
		}
		synctest.Wait()
		s.handle = func(c *call) error { return s.health(c, org.Actor{}) }
		var health struct {
			Feeds   int64
			Shares  map[string]shareView
			Budgets map[string]budgetView
			Minutes []struct{ Feeds, Calls, Transfers, Waiting int64 }
		}
		must.NoError(t, json.Unmarshal(send(s, get("/test")).Body.Bytes(), &health))
		must.Equal(t, shares, health.Shares)
		must.Equal(t, budgets, health.Budgets)
		must.Equal(t, []int64{1, 1, 5, 4, 1}, []int64{health.Feeds, health.Minutes[0].Feeds, health.Minutes[0].Calls, health.Minutes[0].Transfers, health.Minutes[0].Waiting})
		got := sums(collect())
		for kind, v := range shares {
			must.Equal(t, v, shareView{got["collab.share.used"+kind], got["collab.share.waiting"+kind], got["collab.share.refusals"+kind]})
		}
		for name, v := range budgets {
			must.Equal(t, v, budgetView{got["collab.budget.used"+name], got["collab.budget.refusals"+name]})
		}
		s.feed.Drain()
		<-feed.done
	})
}
