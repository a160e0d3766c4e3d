package release_test

import (
	"testing"
	"time"

	"collab/domain/patch"
	"collab/domain/release"
	"collab/test/must"

	"pgregory.net/rapid"
)

// It changes a release at random, and compares what pauses it with the reports since the limit was set
// or the rollout resumed.
func TestReportsSinceTheLimitWasSetOrTheRolloutResumedPauseIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		r := release.Release{Settings: release.Settings{DownloadURL: "https://dl.example.com/a", Rollout: 100, Active: true}}
		var all, counted release.Outcomes
		paused := false
		for range rapid.IntRange(1, 40).Draw(t, "moves") {
			now = now.Add(time.Minute)
			was := r
			change := func(p release.Patch) {
				next, err := r.Apply(p, release.Hosts{}, now)
				if err == nil {
					next, err = next.Guarded(p.GuardPatch, "o", all, now)
				}
				must.NoError(t, err)
				r = next
			}
			switch rapid.IntRange(0, 4).Draw(t, "move") {
			case 0:
				limit := rapid.IntRange(0, 99).Draw(t, "limit")
				changed := r.FailureLimit == nil || *r.FailureLimit != limit
				change(release.Patch{GuardPatch: release.GuardPatch{FailureLimit: patch.Value(limit), FailureMinimum: patch.Value(rapid.IntRange(20, 60).Draw(t, "minimum"))}})
				if changed {
					counted = release.Outcomes{}
				}
			case 1:
				if r.FailureLimit != nil {
					counted = release.Outcomes{}
				}
				change(release.Patch{GuardPatch: release.GuardPatch{FailureLimit: patch.Null[int]()}})
			case 2:
				on := rapid.Bool().Draw(t, "paused")
				if !on && paused {
					counted = release.Outcomes{}
				}
				paused = on
				change(release.Patch{GuardPatch: release.GuardPatch{Paused: patch.Value(on)}})
			case 3:
				change(release.Patch{Active: patch.Value(rapid.Bool().Draw(t, "active"))})
			case 4:
				succeeded, failed := rapid.Int64Range(0, 30).Draw(t, "succeeded"), rapid.Int64Range(0, 30).Draw(t, "failed")
				all = release.Outcomes{Succeeded: all.Succeeded + succeeded, Failed: all.Failed + failed}
				counted = release.Outcomes{Succeeded: counted.Succeeded + succeeded, Failed: counted.Failed + failed}
				n := counted.Succeeded + counted.Failed
				failing := r.FailureLimit != nil && !paused && n >= int64(r.FailureMinimum) && counted.Failed*100 > n*int64(*r.FailureLimit)
				if r.Failing(all) != failing {
					t.Fatalf("failing is %t with %+v of %+v", !failing, counted, r.Guard)
				}
				if failing {
					r, _ = r.Halted(all, now)
					paused = true
				}
			}
			if r.Same(was) != r.UpdatedAt.Equal(was.UpdatedAt) {
				t.Fatalf("updatedAt is %s of %+v after %+v", r.UpdatedAt, r, was)
			}
			if (r.PausedAt != nil) != paused || paused && r.Entry().Includes("device") {
				t.Fatalf("%+v is paused: %t", r, paused)
			}
		}
	})
}

func TestLimitsOfFailuresAreBounded(t *testing.T) {
	for _, p := range []release.GuardPatch{
		{FailureLimit: patch.Value(100)}, {FailureLimit: patch.Value(-1)}, {FailureMinimum: patch.Value(19)}, {FailureMinimum: patch.Value(1_000_001)},
		{FailureMinimum: patch.Value(0)}, {FailureMinimum: patch.Null[int]()}, {Paused: patch.Null[bool]()},
	} {
		if _, err := (release.Release{}).Guarded(p, "o", release.Outcomes{}, time.Time{}); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	r, err := release.Release{}.Guarded(release.GuardPatch{FailureLimit: patch.Value(0)}, "o", release.Outcomes{}, time.Time{})
	if err != nil || r.FailureMinimum != release.DefaultFailureMinimum {
		t.Errorf("got %+v, %v", r.Guard, err)
	}
}
