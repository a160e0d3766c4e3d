package memory

import (
	"cmp"
	"context"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/release"
	"collab/domain/session"
	"collab/ports"
)

func (r records) Releases() ports.Releases         { return releases{r.run} }
func (r records) Adoption() ports.Adoption         { return adoption{r.run} }
func (r records) Reports() ports.Reports           { return reports{r.run} }
func (r records) DeviceGrants() ports.DeviceGrants { return deviceGrants{r.run} }

// revisedRelease is a release with the revision that its last change made.
type revisedRelease struct {
	release.Release
	revision int64
}

type releases struct{ run runner }

func (s releases) Revision(context.Context) (int64, error) {
	return result(s.run, func(x *tx) (int64, error) { return x.revision, nil })
}

func (s releases) Since(_ context.Context, revision int64) (now int64, changed []release.Entry, err error) {
	err = s.run(func(x *tx) error {
		later := func(r revisedRelease) bool { return r.revision > revision }
		for _, r := range x.Releases.list(later, func(a, b revisedRelease) int { return cmp.Compare(a.revision, b.revision) }, 0) {
			changed = append(changed, r.Entry())
		}
		now = max(x.revision, revision)
		return nil
	})
	return now, changed, err
}

func (s releases) Count(context.Context) (int, error) {
	return result(s.run, func(x *tx) (int, error) { return len(x.Releases.rows), nil })
}

func (s releases) List(_ context.Context, ids []id.Release) ([]release.Release, error) {
	return result(s.run, func(x *tx) (found []release.Release, err error) {
		for _, r := range x.Releases.getAll(ids) {
			found = append(found, r.Release)
		}
		return found, nil
	})
}

func (s releases) Add(_ context.Context, r release.Release) error {
	return s.run(func(x *tx) error {
		for _, there := range x.Releases.rows {
			if there.Target == r.Target && there.Version.Key() == r.Version.Key() {
				return x.Releases.errTaken()
			}
		}
		return x.Releases.add(x, r.ID, revisedRelease{r, x.nextRevision()})
	})
}

func (s releases) Update(_ context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (release.Release, error) {
	return result(s.run, func(x *tx) (release.Release, error) {
		updated, err := x.Releases.update(x, r, func(existing revisedRelease) (revisedRelease, error) {
			next, err := fn(existing.Release)
			if err != nil {
				return existing, err
			}
			return revisedRelease{next, x.nextRevision()}, nil
		})
		return updated.Release, err
	})
}

// nextRevision counts a change of the releases, and returns the revision that it makes.
func (x *tx) nextRevision() int64 {
	previous := x.revision
	x.undo = append(x.undo, func() { x.revision = previous })
	x.revision++
	return x.revision
}

// checkCountKey identifies a release.CheckCount.
type checkCountKey struct {
	day     calendar.Day
	target  release.Target
	version string
}

type adoption struct{ run runner }

func (s adoption) Add(_ context.Context, all []release.CheckCount) error {
	return s.run.do(func(x *tx) {
		for _, t := range all {
			k := checkCountKey{t.Day, t.Target, t.Version}
			existing := x.Adoption.rows[k]
			t.Checks += existing.Checks
			t.Offered += existing.Offered
			x.Adoption.put(x, k, t)
		}
	})
}

func (s adoption) List(_ context.Context, first, last calendar.Day, target release.Target, after release.CheckCount, limit int) ([]release.CheckCount, error) {
	return result(s.run, func(x *tx) ([]release.CheckCount, error) {
		return x.Adoption.page(func(t release.CheckCount) bool {
			return t.Day >= first && t.Day <= last && t.Within(target)
		}, release.CheckCount.Compare, after, limit), nil
	})
}

// devicesKey identifies the devices of a target on a day.
type devicesKey struct {
	day    calendar.Day
	target release.Target
}

func (s adoption) AddDevices(_ context.Context, all []release.DailyDevices) error {
	return s.run.do(func(x *tx) {
		for _, d := range all {
			k := devicesKey{d.Day, d.Target}
			if existing, ok := x.Seen.rows[k]; ok {
				d.Devices.Merge(&existing.Devices)
			}
			x.Seen.put(x, k, d)
		}
	})
}

func (s adoption) Devices(_ context.Context, first, last calendar.Day, target release.Target) ([]release.DailyDevices, error) {
	return result(s.run, func(x *tx) ([]release.DailyDevices, error) {
		return x.Seen.list(func(d release.DailyDevices) bool {
			return d.Day >= first && d.Day <= last && d.Within(target)
		}, release.DailyDevices.Compare, 0), nil
	})
}

func (s adoption) Prune(_ context.Context, before calendar.Day) error {
	return s.run.do(func(x *tx) {
		x.Adoption.removeWhere(x, func(t release.CheckCount) bool { return t.Day < before })
		x.Seen.removeWhere(x, func(d release.DailyDevices) bool { return d.Day < before })
	})
}

// reportKey identifies the sum of a release's reports in an hour.
type reportKey struct {
	release id.Release
	hour    time.Time
}

type reports struct{ run runner }

func (s reports) Add(_ context.Context, all []release.Report) error {
	return s.run.do(func(x *tx) {
		for _, r := range all {
			k := reportKey{r.Release, r.Hour}
			r.Outcomes = r.Plus(x.Reports.rows[k].Outcomes)
			x.Reports.put(x, k, r)
		}
	})
}

func (s reports) Sum(_ context.Context, releaseID id.Release) (release.Outcomes, error) {
	return result(s.run, func(x *tx) (all release.Outcomes, err error) {
		for _, r := range x.Reports.rows {
			if r.Release == releaseID {
				all = all.Plus(r.Outcomes)
			}
		}
		return all, nil
	})
}

func (s reports) List(_ context.Context, releaseID id.Release, after time.Time, limit int) ([]release.Report, error) {
	return result(s.run, func(x *tx) ([]release.Report, error) {
		return x.Reports.list(func(r release.Report) bool { return r.Release == releaseID && r.Hour.After(after) },
			func(a, b release.Report) int { return a.Hour.Compare(b.Hour) }, limit), nil
	})
}

func (s reports) Prune(_ context.Context, before time.Time) error {
	return s.run.do(func(x *tx) {
		x.Reports.removeWhere(x, func(r release.Report) bool {
			return r.Hour.Before(before) && x.Releases.rows[r.Release].FailureLimit == nil
		})
	})
}

type deviceGrants struct{ run runner }

func (d deviceGrants) Add(_ context.Context, g session.DeviceGrant) error {
	return d.run(func(x *tx) error {
		if _, err := x.userCode(g.UserCode); err == nil {
			return x.Devices.errTaken()
		}
		return x.Devices.add(x, g.Code, g)
	})
}

func (d deviceGrants) ByUserCode(_ context.Context, digest string) (session.DeviceGrant, error) {
	return result(d.run, func(x *tx) (session.DeviceGrant, error) { return x.userCode(digest) })
}

func (x *tx) userCode(digest string) (session.DeviceGrant, error) {
	return x.Devices.find(func(g session.DeviceGrant) bool { return g.UserCode == digest })
}

func (d deviceGrants) Update(_ context.Context, digest string, fn func(session.DeviceGrant) (session.DeviceGrant, error)) (session.DeviceGrant, error) {
	return result(d.run, func(x *tx) (session.DeviceGrant, error) { return x.Devices.update(x, digest, fn) })
}

func (d deviceGrants) Prune(_ context.Context, before time.Time) error {
	return d.run.do(func(x *tx) {
		x.Devices.removeWhere(x, func(g session.DeviceGrant) bool { return g.ExpiresAt.Before(before) })
	})
}
