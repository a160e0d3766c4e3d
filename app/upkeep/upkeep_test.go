package upkeep_test

import (
	"testing"
	"time"

	"collab/domain/release"
)

func TestCountsOfWhoHasWhichReleaseAreForgotten(t *testing.T) {
	y := open(t)
	adoption := y.Store.Deployment().Adoption()
	last := release.DayOf(start.Add(release.Retention))
	for _, d := range []release.Day{release.DayOf(start), release.DayOf(start.Add(24 * time.Hour)), last} {
		if err := adoption.Add(t.Context(), []release.Tally{{Day: d, Version: "1.0.0", Checks: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		t.Helper()
		if err := y.Upkeep.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := adoption.List(t.Context(), "0001-01-01", "9999-12-31", release.Target{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	y.Clock.Set(start.Add(release.Retention))
	if n := left(); n != 3 {
		t.Errorf("%d days are left on the first one's last day, want 3", n)
	}
	y.Clock.Set(start.Add(release.Retention + 24*time.Hour))
	if n := left(); n != 2 {
		t.Errorf("%d days are left on the day after, want 2", n)
	}
	y.Clock.Set(start.Add(2*release.Retention + 24*time.Hour))
	if n := left(); n != 0 {
		t.Errorf("%d days are left at the end, want none", n)
	}
}
