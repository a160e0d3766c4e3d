package httpapi

import (
	"net/http"
	"testing"
	"time"

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
