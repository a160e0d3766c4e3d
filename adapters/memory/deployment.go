package memory

import (
	"cmp"
	"context"

	"collab/domain/id"
	"collab/domain/release"
	"collab/ports"
)

var (
	_ ports.Deployment = deployment{}
	_ ports.Releases   = releases{}
	_ ports.Adoption   = adoption{}
)

type deployment records

func (d deployment) Releases() ports.Releases { return releases{d.run} }
func (d deployment) Adoption() ports.Adoption { return adoption{d.run} }

type releases struct{ run runner }

func (s releases) Revision(context.Context) (int64, error) {
	return result(s.run, func(x *tx) (int64, error) { return x.revision, nil })
}

func (s releases) All(context.Context) (revision int64, all []release.Release, err error) {
	err = s.run(func(x *tx) error {
		revision, all = x.revision, x.releases.list(every, func(a, b release.Release) int { return cmp.Compare(a.ID, b.ID) }, 0)
		return nil
	})
	return revision, all, err
}

func (s releases) Add(_ context.Context, r release.Release) error {
	return s.run(func(x *tx) error {
		for _, there := range x.releases.rows {
			if there.Target == r.Target && there.Version.Key() == r.Version.Key() {
				return x.releases.taken()
			}
		}
		x.revise()
		return x.releases.add(x, r.ID, r)
	})
}

func (s releases) Update(_ context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (release.Release, error) {
	return result(s.run, func(x *tx) (release.Release, error) {
		there, err := x.releases.get(r)
		if err != nil {
			return there, err
		}
		next, err := fn(there)
		if err != nil {
			return next, err
		}
		x.releases.put(x, r, next)
		x.revise()
		return cloneRelease(next), nil
	})
}

// revise counts a change of the releases.
func (x *tx) revise() {
	was := x.revision
	x.undo = append(x.undo, func() { x.revision = was })
	x.revision++
}

// counted is what the checks of a tally have in common.
type counted struct {
	day     release.Day
	target  release.Target
	version string
}

type adoption struct{ run runner }

func (s adoption) Add(_ context.Context, all []release.Tally) error {
	return s.run(func(x *tx) error {
		for _, t := range all {
			k := counted{t.Day, t.Target, t.Version}
			there := x.adoption.rows[k]
			t.Checks += there.Checks
			t.Offered += there.Offered
			x.adoption.put(x, k, t)
		}
		return nil
	})
}

func (s adoption) List(_ context.Context, first, last release.Day, of release.Target) ([]release.Tally, error) {
	return result(s.run, func(x *tx) ([]release.Tally, error) {
		return x.adoption.list(func(t release.Tally) bool {
			return t.Day >= first && t.Day <= last && (of.Platform == "" || of.Platform == t.Platform) &&
				(of.Arch == "" || of.Arch == t.Arch) && (of.Channel == "" || of.Channel == t.Channel)
		}, func(a, b release.Tally) int {
			return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Arch, b.Arch),
				cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Version, b.Version))
		}, 0), nil
	})
}

func (s adoption) Prune(_ context.Context, before release.Day) error {
	return s.run(func(x *tx) error {
		x.adoption.removeWhere(x, func(t release.Tally) bool { return t.Day < before })
		return nil
	})
}
