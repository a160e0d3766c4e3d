package release

import (
	"fmt"
	"time"

	"collab/domain/check"
	"collab/domain/id"
	"collab/domain/patch"
)

// Outcomes are numbers of installations that devices reported.
type Outcomes struct {
	Succeeded int64
	Failed    int64
}

// Plus returns the sum of both.
func (n Outcomes) Plus(m Outcomes) Outcomes {
	return Outcomes{n.Succeeded + m.Succeeded, n.Failed + m.Failed}
}

// Report has the outcomes of one release in the hour that begins at Hour.
type Report struct {
	Release id.Release
	Hour    time.Time
	Outcomes
}

// Bounds of a failure limit.
const (
	// DefaultFailureMinimum is the FailureMinimum of a limit that is given without one.
	DefaultFailureMinimum = 50

	minFailureMinimum = 20
	maxFailureMinimum = 1_000_000
)

// Guard pauses the rollout of a release whose installations fail.
type Guard struct {
	FailureLimit   *int       // percent of the reports that may be failures; nil: any
	FailureMinimum int        // reports that there must be before the limit counts
	GuardedBy      id.Org     // whose member set the limit; empty: nobody did
	Before         Outcomes   // reports that do not count: those until the limit was set or the rollout was resumed
	PausedAt       *time.Time // nil: the rollout is not paused
	Halt           Outcomes   // the counted reports that paused the rollout by itself; zero if none did
}

// GuardPatch is a change of a guard by a member.
type GuardPatch struct {
	FailureLimit   patch.Field[int]
	FailureMinimum patch.Field[int]
	Paused         patch.Field[bool]
}

// Guarded returns the release after a member of the organisation changed its guard at now, when
// there are so many reports in all. UpdatedAt stays if the change has no effect.
func (r Release) Guarded(p GuardPatch, by id.Org, all Outcomes, now time.Time) (Release, error) {
	var c check.List
	was, paused := r.Guard, r.PausedAt != nil
	set(&c, "paused", p.Paused, &paused)
	if n, ok := check.NonNull(&c, "failureMinimum", p.FailureMinimum); ok {
		if n < minFailureMinimum || n > maxFailureMinimum {
			c.Add("failureMinimum", "must be %d to %d", minFailureMinimum, maxFailureMinimum)
		}
		r.FailureMinimum = n
	}
	r.FailureLimit = p.FailureLimit.Over(r.FailureLimit)
	if r.FailureLimit != nil {
		if *r.FailureLimit < 0 || *r.FailureLimit > 99 {
			c.Add("failureLimit", "must be 0 to 99")
		}
		if r.FailureMinimum == 0 {
			r.FailureMinimum = DefaultFailureMinimum
		}
	}
	if !equal(r.FailureLimit, was.FailureLimit) {
		r.GuardedBy, r.Before = by, all
	}
	switch {
	case paused && r.PausedAt == nil:
		at := storedTime(now)
		r.PausedAt = &at
	case !paused && r.PausedAt != nil:
		r.PausedAt, r.Before, r.Halt = nil, all, Outcomes{}
	}
	if !r.Guard.same(was) {
		r.UpdatedAt = now
	}
	return r, c.Err()
}

func (g Guard) same(was Guard) bool {
	return equal(g.FailureLimit, was.FailureLimit) && g.FailureMinimum == was.FailureMinimum && (g.PausedAt == nil) == (was.PausedAt == nil)
}

// Counted returns the outcomes that the limit is compared with, if there are so many in all.
func (g Guard) Counted(all Outcomes) Outcomes {
	return Outcomes{max(0, all.Succeeded-g.Before.Succeeded), max(0, all.Failed-g.Before.Failed)}
}

// Failing reports whether the rollout is to be paused, if there are so many reports in all.
func (r Release) Failing(all Outcomes) bool {
	if r.FailureLimit == nil || r.PausedAt != nil {
		return false
	}
	n := r.Counted(all)
	return n.Succeeded+n.Failed >= int64(r.FailureMinimum) && n.Failed*100 > int64(*r.FailureLimit)*(n.Succeeded+n.Failed)
}

// Halted returns the release with its rollout paused at now, and a description of why.
func (r Release) Halted(all Outcomes, now time.Time) (next Release, why string) {
	n, at := r.Counted(all), storedTime(now)
	r.PausedAt, r.Halt, r.UpdatedAt = &at, n, now
	return r, fmt.Sprintf("%s: %d of %d reported installations failed, more than %d %%", r.Describe(), n.Failed, n.Succeeded+n.Failed, *r.FailureLimit)
}
