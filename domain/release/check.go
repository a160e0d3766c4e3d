package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"collab/domain/id"
)

// Bucket is where a device stands in every rollout: 0 to 99. It depends on nothing
// but the device's id.
func Bucket(client string) int {
	var room [64]byte // for the ids that there are, which so make no garbage
	sum := sha256.Sum256(append(room[:0], client...))
	return int(binary.BigEndian.Uint64(sum[:8]) % 100)
}

// Served decides whether a rollout has reached a device, by its id, empty where it
// has told none: that is reached by a whole rollout alone.
func (r Release) Served(client string) bool {
	if client == "" {
		return r.Rollout >= 100
	}
	return Bucket(client) < r.Rollout
}

// Snapshot is all releases as they were at one moment, ready to be asked. It is
// never changed.
type Snapshot struct {
	Revision int64 // counts the changes
	all      []Release
	latest   map[Target]*Release
	known    map[string]bool
}

// NewSnapshot returns the snapshot of all releases at a revision.
func NewSnapshot(revision int64, all []Release) *Snapshot {
	s := &Snapshot{Revision: revision, all: slices.Clone(all), latest: map[Target]*Release{}, known: map[string]bool{}}
	slices.SortFunc(s.all, func(a, b Release) int {
		return cmp.Or(b.Version.Compare(a.Version), b.PublishedAt.Compare(a.PublishedAt), cmp.Compare(a.ID, b.ID))
	})
	for i := range s.all {
		r := &s.all[i]
		s.known[r.Version.Key()] = true
		if !r.Active {
			continue
		}
		for _, t := range r.serves() {
			if was := s.latest[t]; was == nil || before(was, r, t) {
				s.latest[t] = r
			}
		}
	}
	return s
}

// With returns the snapshot of a later revision, at which the changed releases are
// new or other than they were.
func (s *Snapshot) With(revision int64, changed []Release) *Snapshot {
	all := slices.Clone(s.all)
	at := make(map[id.Release]int, len(all))
	for i, r := range all {
		at[r.ID] = i
	}
	for _, r := range changed {
		if i, ok := at[r.ID]; ok {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	return NewSnapshot(revision, all)
}

// serves are the targets whose devices a release is for.
func (r Release) serves() []Target {
	if r.Arch != Universal {
		return []Target{r.Target}
	}
	var all []Target
	for _, a := range arches {
		all = append(all, Target{r.Platform, a, r.Channel})
	}
	return all
}

// before reports whether r is to be preferred to was for a target: a higher version
// is, and at the same one that which was made for the target.
func before(was, r *Release, t Target) bool {
	if order := r.Version.Compare(was.Version); order != 0 {
		return order > 0
	}
	return r.Arch == t.Arch && was.Arch != t.Arch
}

// All returns the releases, the highest version first. The caller changes none.
func (s *Snapshot) All() []Release { return s.all }

// Latest returns the release that the devices of a target are to have, whatever
// its rollout; nil: there is none. The caller does not change it.
func (s *Snapshot) Latest(t Target) *Release { return s.latest[t] }

// Get returns a release; false: there is none with that id.
func (s *Snapshot) Get(r id.Release) (Release, bool) {
	i := slices.IndexFunc(s.all, func(of Release) bool { return of.ID == r })
	if i < 0 {
		return Release{}, false
	}
	return s.all[i], true
}

// Known reports whether there is a release of the version.
func (s *Snapshot) Known(v Version) bool { return s.known[v.Key()] }

// Offer decides what a device of the target at a version is offered; nil: nothing.
// A device that the latest release has not reached gets none before it either.
func (s *Snapshot) Offer(t Target, at Version, client string) *Release {
	r := s.latest[t]
	if r == nil || r.Version.Compare(at) <= 0 || !r.Served(client) {
		return nil
	}
	return r
}

// Reason says why a release is offered to a device, or not.
type Reason string

// The reasons.
const (
	Reached    Reason = "in the rollout"
	NotReached Reason = "not in the rollout yet"
	Inactive   Reason = "not active"
	Superseded Reason = "another release is served in its place"
)

// Explain says whether the release is offered to a device of its own target that
// has an older version, and why.
func (s *Snapshot) Explain(r Release, client string) (bool, Reason) {
	switch now := s.latest[r.Target]; {
	case !r.Active:
		return false, Inactive
	case now == nil || now.ID != r.ID:
		return false, Superseded
	case !r.Served(client):
		return false, NotReached
	}
	return true, Reached
}
