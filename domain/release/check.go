package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/id"
)

// Bucket returns the bucket of a device in every rollout, 0 to 99. It depends only on the
// device's id.
func Bucket(client string) int {
	var room [64]byte // long enough for usual ids, so that nothing is allocated
	sum := sha256.Sum256(append(room[:0], client...))
	return int(binary.BigEndian.Uint64(sum[:8]) % 100)
}

// Includes reports whether the rollout includes the device with the id. A device
// without one, given as empty, is included in a rollout of 100 percent alone. A paused
// rollout includes none.
func (e Entry) Includes(client string) bool {
	if e.Paused {
		return false
	}
	if client == "" {
		return e.Rollout >= 100
	}
	return Bucket(client) < e.Rollout
}

// Snapshot has the entries of all releases at one revision, and the latest release
// of each target in full. It is never changed.
type Snapshot struct {
	Revision int64 // counts the changes
	all      []Entry
	latest   map[Target]*Release
	known    map[string]bool
}

// With returns the snapshot of a later revision, with the changed entries added or
// replaced. It calls read for the ids of latest releases that the snapshot does not
// have in full. A release that read returns may be of a later revision still and
// replaces its entry.
func (s *Snapshot) With(revision int64, changed []Entry, read func([]id.Release) ([]Release, error)) (*Snapshot, error) {
	next := &Snapshot{Revision: revision, all: slices.Clone(s.all), known: map[string]bool{}}
	indexes := make(map[id.Release]int, len(next.all))
	for i, e := range next.all {
		indexes[e.ID] = i
	}
	full := map[id.Release]*Release{}
	for _, r := range s.latest {
		full[r.ID] = r
	}
	for _, e := range changed {
		delete(full, e.ID)
		if i, ok := indexes[e.ID]; ok {
			next.all[i] = e
		} else {
			indexes[e.ID] = len(next.all)
			next.all = append(next.all, e)
		}
	}
	for next.latest == nil {
		latest := map[Target]*Release{}
		var missing []id.Release
		for t, e := range latestActive(next.all) {
			if latest[t] = full[e.ID]; latest[t] == nil {
				missing = append(missing, e.ID)
			}
		}
		if len(missing) == 0 {
			next.latest = latest
			break
		}
		slices.Sort(missing)
		missing = slices.Compact(missing)
		found, err := read(missing)
		if err != nil {
			return nil, err
		}
		if len(found) != len(missing) {
			return nil, fault.New(fault.Unavailable, "only %d of %d releases could be read", len(found), len(missing))
		}
		for _, r := range found {
			full[r.ID] = &r
			next.all[indexes[r.ID]] = r.Entry()
		}
	}
	slices.SortFunc(next.all, func(a, b Entry) int {
		return cmp.Or(b.Version.Compare(a.Version), cmp.Compare(b.ID, a.ID))
	})
	for _, e := range next.all {
		next.known[e.Version.Key()] = true
	}
	return next, nil
}

// latestActive returns the latest active release of each target.
func latestActive(all []Entry) map[Target]Entry {
	latest := map[Target]Entry{}
	for _, e := range all {
		if !e.Active {
			continue
		}
		for _, t := range e.targets() {
			if was, ok := latest[t]; !ok || before(was, e, t) {
				latest[t] = e
			}
		}
	}
	return latest
}

// targets returns the targets that a release is for.
func (e Entry) targets() []Target {
	if e.Arch != Universal {
		return []Target{e.Target}
	}
	var all []Target
	for _, a := range arches {
		all = append(all, Target{e.Platform, a, e.Channel})
	}
	return all
}

// before reports whether e is preferred to was for a target: if its version is
// higher, or the same and e is for the target's own architecture.
func before(was, e Entry, t Target) bool {
	if order := e.Version.Compare(was.Version); order != 0 {
		return order > 0
	}
	return e.Arch == t.Arch && was.Arch != t.Arch
}

// All returns the entries of the releases, highest version first, then newest
// first. The caller must not change them.
func (s *Snapshot) All() []Entry { return s.all }

// Latest returns the latest active release for a target, whatever its rollout;
// nil: there is none. The caller must not change it.
func (s *Snapshot) Latest(t Target) *Release { return s.latest[t] }

// Get returns the entry of a release; false: there is none with that id.
func (s *Snapshot) Get(r id.Release) (Entry, bool) {
	i := slices.IndexFunc(s.all, func(of Entry) bool { return of.ID == r })
	if i < 0 {
		return Entry{}, false
	}
	return s.all[i], true
}

// Known reports whether there is a release of the version.
func (s *Snapshot) Known(v Version) bool { return s.known[v.Key()] }

// Offer returns the release that a device of the target at a version is offered; nil: none.
// A device that the latest release has not reached gets none before it either.
func (s *Snapshot) Offer(t Target, current Version, client string) *Release {
	r := s.latest[t]
	if r == nil || r.Version.Compare(current) <= 0 || !r.Entry().Includes(client) {
		return nil
	}
	return r
}

// Reason says why a release is offered to a device, or not.
type Reason string

const (
	InRollout     Reason = "in the rollout"
	NotInRollout  Reason = "not in the rollout yet"
	RolloutPaused Reason = "the rollout is paused"
	Inactive      Reason = "not active"
	Superseded    Reason = "another release is served in its place"
)

// Explain says whether the release is offered to a device of its own target that
// has an older version, and why.
func (s *Snapshot) Explain(e Entry, client string) (bool, Reason) {
	switch now := s.latest[e.Target]; {
	case !e.Active:
		return false, Inactive
	case now == nil || now.ID != e.ID:
		return false, Superseded
	case e.Paused:
		return false, RolloutPaused
	case !e.Includes(client):
		return false, NotInRollout
	}
	return true, InRollout
}

// maxClient is how long a device's id can be, in characters.
const maxClient = 200

// ParseClient reads a device's id, which is any text of 1 to maxClient characters.
// Invalid for anything else.
func ParseClient(field, s string) (string, error) {
	if s == "" || len(s) > maxClient*utf8.UTFMax || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxClient {
		return "", fault.Field(field, "must have 1 to %d characters", maxClient)
	}
	return s, nil
}

// OfferEach returns the releases that a device which has not sent its architecture is offered at
// a version: the same version for each architecture that has releases, X64's first;
// nil: none. The device chooses, so none is offered before all are. X64's must be
// among them, as ARM64 systems run X64 programs but not the reverse.
func (s *Snapshot) OfferEach(p Platform, c Channel, current Version, client string) []*Release {
	var all []*Release
	for _, arch := range []Arch{X64, ARM64} {
		t := Target{p, arch, c}
		if arch != X64 && s.latest[t] == nil {
			continue
		}
		r := s.Offer(t, current, client)
		if r == nil || len(all) > 0 && r.Version.Compare(all[0].Version) != 0 {
			return nil
		}
		if len(all) == 0 || r != all[0] { // a universal one is for both
			all = append(all, r)
		}
	}
	return all
}
