package release_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/release"
	"collab/test/must"
)

// on is an active release for everybody, the n-th.
func on(t testing.TB, n int, v string, p release.Platform, a release.Arch, c release.Channel) release.Release {
	t.Helper()
	return release.Release{
		ID: id.Release(fmt.Sprintf("00000000-0000-7000-8000-%012x", n)), Version: version(t, v), Target: release.Target{Platform: p, Arch: a, Channel: c},
		Settings: release.Settings{Rollout: 100, Active: true}, PublishedAt: now.Add(time.Duration(n) * time.Minute), UpdatedAt: now,
	}
}

// snapshot is of all these releases.
func snapshot(revision int64, all []release.Release) *release.Snapshot {
	s, err := (&release.Snapshot{}).With(revision, entries(all), reading(all))
	if err != nil {
		panic(err) // the releases are all there
	}
	return s
}

func entries(all []release.Release) (es []release.Entry) {
	for _, r := range all {
		es = append(es, r.Entry())
	}
	return es
}

// reading reads releases that are among these.
func reading(all []release.Release) func([]id.Release) ([]release.Release, error) {
	return func(ids []id.Release) (found []release.Release, err error) {
		for _, r := range all {
			if slices.Contains(ids, r.ID) {
				found = append(found, r)
			}
		}
		return found, nil
	}
}

func TestTheBucketOfADeviceIsTheRemainderOfItsDigest(t *testing.T) {
	for _, client := range []string{"", "a", "device-1", "0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", "ü\x00\xff"} {
		sum := sha256.Sum256([]byte(client))
		want := new(big.Int).Mod(new(big.Int).SetBytes(sum[:8]), big.NewInt(100)).Int64()
		if got := release.Bucket(client); int64(got) != want {
			t.Errorf("%q is in %d, want %d", client, got, want)
		}
	}
	// sha256("a") begins with ca978112ca1bbdca.
	must.Is(t, int(uint64(0xca978112ca1bbdca)%100), release.Bucket("a"))
}

func TestARolloutReachesItsPartOfTheDevices(t *testing.T) {
	const devices = 1_000_000
	r := rand.New(rand.NewPCG(1, 2))
	for name, client := range map[string]func(n int) string{
		"counted":  func(n int) string { return fmt.Sprint(n) },
		"prefixed": func(n int) string { return fmt.Sprintf("device-%08d", n) },
		"UUIDs": func(int) string {
			return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12), r.Uint64N(1<<48))
		},
	} {
		var in [100]int
		for n := range devices {
			in[release.Bucket(client(n))]++
		}
		reached := 0
		for percent, n := range in {
			reached += n
			if off := float64(reached)/devices*100 - float64(percent+1); off > 0.3 || off < -0.3 {
				t.Errorf("%s: %d %% reach %d of %d", name, percent+1, reached, devices)
			}
		}
	}
}

func TestARaisedRolloutKeepsDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.String().Draw(t, "client")
		var r release.Entry
		was := false
		for r.Rollout = 0; r.Rollout <= 100; r.Rollout++ {
			served := r.Includes(client)
			switch {
			case was && !served:
				t.Fatalf("%q is served at %d %% and not at %d %%", client, r.Rollout-1, r.Rollout)
			case r.Rollout == 0 && served:
				t.Fatalf("%q is served at 0 %%", client)
			case r.Rollout == 100 && !served:
				t.Fatalf("%q is not served at 100 %%", client)
			case client == "" && served != (r.Rollout == 100):
				t.Fatalf("a device that tells no id is served at %d %%: %t", r.Rollout, served)
			case client != "" && served != (release.Bucket(client) < r.Rollout):
				t.Fatalf("%q of bucket %d is served at %d %%: %t", client, release.Bucket(client), r.Rollout, served)
			}
			was = served
		}
	})
}

// devices are all targets.
func devices() (all []release.Target) {
	for _, p := range []release.Platform{release.Darwin, release.Win32, release.Linux} {
		for _, a := range []release.Arch{release.X64, release.ARM64, release.Universal} {
			for _, c := range []release.Channel{release.Stable, release.Beta, release.Canary} {
				all = append(all, release.Target{Platform: p, Arch: a, Channel: c})
			}
		}
	}
	return all
}

func TestReasonsOfOffers(t *testing.T) {
	const client = "a"
	latest, before, idle := on(t, 1, "2.0.0", release.Darwin, release.ARM64, release.Stable), on(t, 2, "1.0.0", release.Darwin, release.ARM64, release.Stable), on(t, 3, "3.0.0", release.Darwin, release.ARM64, release.Stable)
	idle.Active = false
	latest.Rollout = release.Bucket(client) + 1
	s := snapshot(1, []release.Release{before, latest, idle})
	for _, c := range []struct {
		r       release.Release
		client  string
		offered bool
		reason  release.Reason
	}{
		{latest, client, true, release.InRollout},
		{latest, "", false, release.NotInRollout},
		{before, client, false, release.Superseded},
		{idle, client, false, release.Inactive},
	} {
		if offered, reason := s.Explain(c.r.Entry(), c.client); offered != c.offered || reason != c.reason {
			t.Errorf("%s to %q: %t, %s, want %t, %s", c.r.Version, c.client, offered, reason, c.offered, c.reason)
		}
	}
	if r, ok := s.Get(idle.ID); !ok || r.ID != idle.ID {
		t.Errorf("the one that is not active is %v, %t", r, ok)
	}
	if r, ok := s.Get("00000000-0000-7000-8000-00000000000f"); ok || r.ID != "" {
		t.Errorf("one that is not there is %v", r)
	}
	for v, known := range map[string]bool{"2.0.0": true, "2.0.0+any": true, "v2.0": true, "3.0.0": true, "2.0.0-rc": false, "4.0.0": false} {
		if s.Known(version(t, v)) != known {
			t.Errorf("%s is known: %t", v, !known)
		}
	}
}

// TestSnapshots holds snapshots to the rules, put in another way: whichever order
// the releases came in, a device gets what is the greatest of all that it could
// have.
func TestSnapshots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := devices()
		texts := rapid.SliceOfN(versions(), 1, 4).Draw(t, "versions")
		taken := map[string]bool{}
		var all []release.Release
		for n := range rapid.IntRange(0, 12).Draw(t, "releases") {
			v := must.Do(release.ParseVersion(rapid.SampledFrom(texts).Draw(t, "version"))).Or(t)
			target := rapid.SampledFrom(targets[:9]).Draw(t, "target")
			key := fmt.Sprint(v.Key(), target)
			if taken[key] {
				continue
			}
			taken[key] = true
			all = append(all, release.Release{
				ID: id.Release(fmt.Sprintf("00000000-0000-7000-8000-%012x", n)), Version: v, Target: target, PublishedAt: now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "published")) * time.Hour),
				Settings: release.Settings{Rollout: rapid.SampledFrom([]int{0, 1, 50, 99, 100}).Draw(t, "rollout"), Active: rapid.Bool().Draw(t, "active")},
			})
		}
		given := slices.Clone(all)
		s := snapshot(1, given)
		mixed := snapshot(1, rapid.Permutation(all).Draw(t, "mixed"))
		ids := func(all []release.Entry) (ids []id.Release) {
			for _, r := range all {
				ids = append(ids, r.ID)
			}
			return ids
		}
		if !slices.Equal(ids(entries(given)), ids(entries(all))) {
			t.Fatal("what was given is in another order")
		}
		if !slices.Equal(ids(s.All()), ids(mixed.All())) {
			t.Fatalf("in one order they are %v, in another %v", ids(s.All()), ids(mixed.All()))
		}
		if !slices.IsSortedFunc(s.All(), func(a, b release.Entry) int { return b.Version.Compare(a.Version) }) {
			t.Fatalf("they are not in their order: %v", ids(s.All()))
		}
		client := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "client")
		at := must.Do(release.ParseVersion(rapid.OneOf(versions(), rapid.SampledFrom(texts)).Draw(t, "at"))).Or(t)
		for _, target := range targets {
			var want *release.Release
			for i := range all {
				r := &all[i]
				if !r.Active || r.Platform != target.Platform || r.Channel != target.Channel || r.Arch != target.Arch && r.Arch != release.Universal {
					continue
				}
				if want == nil || r.Version.Compare(want.Version) > 0 || r.Version.Compare(want.Version) == 0 && r.Arch == target.Arch {
					want = r
				}
			}
			got, other := s.Latest(target), mixed.Latest(target)
			if (got == nil) != (want == nil) || (other == nil) != (want == nil) || want != nil && (got.ID != want.ID || other.ID != want.ID) {
				t.Fatalf("%v is to have %v, and %v in another order, want %v", target, got, other, want)
			}
			offer := s.Offer(target, at, client)
			if reached := want != nil && want.Version.Compare(at) > 0 && want.Entry().Includes(client); (offer != nil) != reached || reached && offer.ID != want.ID {
				t.Fatalf("%v at %s is offered %v", target, at, offer)
			}
		}
	})
}

func TestASnapshotWithChangesEqualsACompleteOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all := map[id.Release]release.Release{}
		now := &release.Snapshot{Revision: -1}
		for revision := range rapid.Int64Range(0, 6).Draw(r, "revisions") {
			var changed []release.Release
			for range rapid.IntRange(0, 4).Draw(r, "changes") {
				n := rapid.IntRange(0, 9).Draw(r, "release")
				one := on(t, n, fmt.Sprintf("1.%d.0", n), release.Linux, release.X64, release.Stable)
				one.Active, one.Rollout = rapid.Bool().Draw(r, "active"), rapid.IntRange(0, 100).Draw(r, "rollout")
				changed = slices.DeleteFunc(changed, func(c release.Release) bool { return c.ID == one.ID })
				changed = append(changed, one)
				all[one.ID] = one
			}
			var there []release.Release
			for _, one := range slices.Sorted(maps.Keys(all)) {
				there = append(there, all[one])
			}
			before := slices.Clone(now.All())
			next, err := now.With(revision, entries(changed), reading(there))
			if err != nil || !reflect.DeepEqual(now.All(), before) {
				r.Fatalf("the snapshot before has changed, or %v", err)
			}
			now = next
			if want := snapshot(revision, there); !reflect.DeepEqual(now, want) {
				r.Fatalf("revision %d: %+v, want %+v", revision, now, want)
			}
		}
	})
}

func TestASnapshotHasOnlyLatestReleasesInFull(t *testing.T) {
	mac := release.Target{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Stable}
	var all []release.Release
	for n := range 50 {
		all = append(all, on(t, n, fmt.Sprintf("1.%d.0", n), mac.Platform, mac.Arch, mac.Channel))
	}
	var read []id.Release
	from := func(there []release.Release) func([]id.Release) ([]release.Release, error) {
		return func(ids []id.Release) ([]release.Release, error) {
			read = append(read, ids...)
			return reading(there)(ids)
		}
	}
	next := func(s *release.Snapshot, changed, there []release.Release, want ...id.Release) *release.Snapshot {
		t.Helper()
		read = nil
		s, err := s.With(s.Revision+1, entries(changed), from(there))
		if err != nil || !slices.Equal(read, want) {
			t.Fatalf("%v is read, want %v; %v", read, want, err)
		}
		return s
	}
	s := next(&release.Snapshot{}, all, all, all[49].ID)
	s = next(s, all[:49], all)
	s = next(s, all[49:], all, all[49].ID)
	// Between the entries and the reading the latest release is taken out of service.
	off := all[49]
	off.Active = false
	there := append(slices.Clone(all[:49]), off)
	s = next(s, all[49:], there, all[49].ID, all[48].ID)
	if got := s.Latest(mac); got == nil || got.ID != all[48].ID {
		t.Errorf("the latest is %v", got)
	}
	must.Fail(t, must.ErrorOf(s.With(9, entries(all[49:]), from(nil))), fault.Unavailable) // a release that cannot be read
	no := errors.New("no")
	must.FailIs(t, must.ErrorOf(s.With(9, entries(all[49:]), func([]id.Release) ([]release.Release, error) { return nil, no })), no) // a failure
}
