package upkeep_test

import (
	"fmt"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/release"
	"collab/test/must"
)

func TestOldAdoptionCountsAreRemoved(t *testing.T) {
	y := newFixture(t)
	adoption := y.Store.Deployment().Adoption()
	last := release.DayOf(startTime.Add(release.Retention))
	for _, d := range []release.Day{release.DayOf(startTime), release.DayOf(startTime.Add(24 * time.Hour)), last} {
		must.NoError(t, adoption.Add(t.Context(), []release.Tally{{Day: d, Version: "1.0.0", Checks: 1}}))
	}
	left := func() int {
		t.Helper()
		must.NoError(t, y.Upkeep.Run(t.Context()))
		all := must.Do(adoption.List(t.Context(), "0001-01-01", "9999-12-31", release.Target{}, release.Tally{}, 0)).Or(t)
		return len(all)
	}
	y.Clock.Set(startTime.Add(release.Retention))
	if n := left(); n != 3 {
		t.Errorf("%d days are left on the first one's last day, want 3", n)
	}
	y.Clock.Set(startTime.Add(release.Retention + 24*time.Hour))
	if n := left(); n != 2 {
		t.Errorf("%d days are left on the day after, want 2", n)
	}
	y.Clock.Set(startTime.Add(2*release.Retention + 24*time.Hour))
	if n := left(); n != 0 {
		t.Errorf("%d days are left at the end, want none", n)
	}
}

func TestUnusedClientsAreRemoved(t *testing.T) {
	y := newFixture(t)
	clients := y.Store.Connections().Clients()
	const many = 1200 // more than are swept at a time
	for n := range many {
		c := connector.Registered{Issuer: fmt.Sprint("https://auth.example.com/", n), ID: "client", Method: "none", UsedAt: startTime}
		if n == 0 {
			c.UsedAt = startTime.Add(time.Millisecond)
		}
		must.Do(clients.Put(t.Context(), c, startTime)).Or(t)
	}
	left := func() (n int) {
		t.Helper()
		must.NoError(t, y.Upkeep.Run(t.Context()))
		for i := range many {
			_, err := clients.Get(t.Context(), fmt.Sprint("https://auth.example.com/", i), "")
			if err == nil {
				n++
			} else if !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
		}
		return n
	}
	y.Clock.Set(startTime.Add(30 * 24 * time.Hour))
	if n := left(); n != many {
		t.Errorf("%d are left on the thirtieth day, want %d", n, many)
	}
	y.Clock.Advance(time.Millisecond)
	if n := left(); n != 1 {
		t.Errorf("%d are left after thirty days, want the one that was used since", n)
	}
	y.Clock.Advance(time.Millisecond)
	must.Is(t, 0, left())
}
