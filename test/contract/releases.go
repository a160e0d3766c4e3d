package contract

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/release"
	"collab/ports"
)

// releasesMutex is held by the sub-test that changes releases: they and their
// revision are everybody's.
var releasesMutex sync.Mutex

// publishes makes the sub-test the only one that changes releases, and returns
// their revision.
func (w *world) publishes() int64 {
	w.Helper()
	releasesMutex.Lock()
	w.Cleanup(releasesMutex.Unlock)
	return that(w.releases().Revision(w.ctx)).must(w)
}

// someVersion is one that was never used, with build metadata.
func someVersion(w *world) release.Version {
	w.Helper()
	return version(w, "1.2.3-"+nextID()+"+build.7")
}

func version(w *world, s string) release.Version {
	w.Helper()
	return that(release.ParseVersion("version", s)).must(w)
}

// someRelease returns a release that is not stored yet, with every field set.
func someRelease(w *world) release.Release {
	w.Helper()
	return release.Release{
		ID: fresh[id.Release](), Version: someVersion(w),
		Target: release.Target{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Beta},
		Settings: release.Settings{
			DownloadURL: "https://dl.example.com/a%20b?c=d&e='f'", SHA512: new(strings.Repeat("0a", 64)), SHA1: new(strings.Repeat("0b", 20)),
			FileSizeBytes: new(int64(1 << 40)), Notes: new("# Nöw\n\n- \"faster\" 🦉\\ <b>\r\n"), MinOSVersion: new("14.2"), Signature: new("dW50cnVzdGVk\n"),
			Mandatory: true, Rollout: 37, Active: true,
		},
		PublishedAt: at(90), UpdatedAt: at(91),
	}
}

// bareRelease returns one with no field set that need not be.
func bareRelease(w *world) release.Release {
	w.Helper()
	return release.Release{
		ID: fresh[id.Release](), Version: someVersion(w), Target: release.Target{Platform: release.Linux, Arch: release.X64, Channel: release.Stable},
		PublishedAt: at(90), UpdatedAt: at(90),
	}
}

// release adds one.
func (w *world) release() release.Release {
	w.Helper()
	r := someRelease(w)
	w.ok(w.releases().Add(w.ctx, r))
	return r
}

// stored returns those of the releases that are there, and the revision.
func (w *world) stored(in ports.Releases, ids ...id.Release) (int64, []release.Release) {
	w.Helper()
	revision, all, err := in.Since(w.ctx, -1)
	w.ok(err)
	same(w, that(in.Count(w.ctx)).must(w), len(all))
	found := that(in.List(w.ctx, ids)).must(w)
	for _, r := range found {
		i := slices.IndexFunc(all, func(e release.Entry) bool { return e.ID == r.ID })
		same(w, all[i], r.Entry())
	}
	return revision, found
}

// kept ends the sub-test unless the releases are what is stored, at a revision.
func (w *world) kept(revision int64, want ...release.Release) {
	w.Helper()
	that(w.releases().Revision(w.ctx)).is(w, revision)
	ids := make([]id.Release, len(want))
	for i, r := range want {
		ids[i] = r.ID
	}
	at, got := w.stored(w.releases(), ids...)
	same(w, at, revision)
	same(w, got, want)
}

// raised has the release reach one percent more.
func raised(r release.Release) (release.Release, error) {
	r.Rollout++
	return r, nil
}

// Releases is the suite of ports.Releases.
func Releases(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a release comes back with every field as it went in": func(w *world) {
			was := w.publishes()
			full, bare := someRelease(w), bareRelease(w)
			w.ok(w.releases().Add(w.ctx, full))
			w.ok(w.releases().Add(w.ctx, bare))
			w.kept(was+2, full, bare)
			// Each gets the settings of the other.
			for i, swap := range [][2]release.Release{{full, bare}, {bare, full}} {
				next := swap[0]
				next.Settings, next.PublishedAt, next.UpdatedAt = swap[1].Settings, swap[1].PublishedAt, swap[1].UpdatedAt
				that(w.releases().Update(w.ctx, next.ID, func(r release.Release) (release.Release, error) {
					same(w, r, swap[0])
					return next, nil
				})).is(w, next)
				w.kept(was+3+int64(i), next)
			}
		},
		"one field at a time comes back as it went in": func(w *world) {
			was := w.publishes()
			want := bareRelease(w)
			w.ok(w.releases().Add(w.ctx, want))
			for _, set := range []func(*release.Release){
				func(r *release.Release) { r.DownloadURL = "https://a/b" },
				func(r *release.Release) { r.SHA512 = new("") },
				func(r *release.Release) { r.SHA1 = new("c") },
				func(r *release.Release) { r.FileSizeBytes = new(int64(0)) },
				func(r *release.Release) { r.Notes = new("") },
				func(r *release.Release) { r.MinOSVersion = new("m") },
				func(r *release.Release) { r.Signature = new("s") },
				func(r *release.Release) { r.Mandatory = true },
				func(r *release.Release) { r.Rollout = 100 },
				func(r *release.Release) { r.Active = true },
				func(r *release.Release) { r.PublishedAt = at(-1) },
				func(r *release.Release) { r.PublishedAt = time.Time{} },
				func(r *release.Release) { r.UpdatedAt = time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC) },
				func(r *release.Release) { r.Notes = nil },
			} {
				set(&want)
				that(w.releases().Update(w.ctx, want.ID, func(release.Release) (release.Release, error) { return want, nil })).is(w, want)
				was++
				w.kept(was+1, want)
			}
		},
		"a taken id is a conflict that changes nothing": func(w *world) {
			was := w.publishes()
			r := w.release()
			again := bareRelease(w)
			again.ID = r.ID
			w.conflict(w.releases().Add(w.ctx, again))
			w.kept(was+1, r)
		},
		"a version is a target's once, whatever it was built from": func(w *world) {
			was := w.publishes()
			r := w.release()
			for _, same := range []string{r.Version.String(), r.Version.Key(), r.Version.Key() + "+another"} {
				again := bareRelease(w)
				again.Version, again.Target = version(w, same), r.Target
				w.conflict(w.releases().Add(w.ctx, again))
			}
			w.kept(was+1, r)
		},
		"a version is had by each target": func(w *world) {
			was := w.publishes()
			v := someVersion(w)
			var all []release.Release
			for _, p := range []release.Platform{release.Darwin, release.Win32, release.Linux} {
				for _, a := range []release.Arch{release.X64, release.ARM64, release.Universal} {
					for _, c := range []release.Channel{release.Stable, release.Beta, release.Canary} {
						r := bareRelease(w)
						r.Version, r.Target = v, release.Target{Platform: p, Arch: a, Channel: c}
						w.ok(w.releases().Add(w.ctx, r))
						all = append(all, r)
					}
				}
			}
			w.kept(was+27, all...)
		},
		"of many at once that add a version one succeeds": func(w *world) {
			was := w.publishes()
			v, all := someVersion(w), make([]release.Release, concurrent)
			for i := range all {
				all[i] = someRelease(w)
				all[i].Version = v
			}
			winner := w.oneWins(together(concurrent, func(i int) error { return w.releases().Add(w.ctx, all[i]) }), fault.Conflict)
			w.kept(was+1, all[winner])
		},
		"what is not there cannot be changed": func(w *world) {
			was := w.publishes()
			that(w.releases().Update(w.ctx, fresh[id.Release](), func(release.Release) (release.Release, error) {
				w.Error("was called")
				return release.Release{}, nil
			})).missing(w)
			w.kept(was)
		},
		"an error of the function changes nothing and comes back as it is": func(w *world) {
			was := w.publishes()
			r, no := w.release(), errors.New("no")
			_, err := w.releases().Update(w.ctx, r.ID, func(r release.Release) (release.Release, error) {
				r.Rollout = 99
				return r, no
			})
			w.unchanged(err, no)
			w.kept(was+1, r)
		},
		"a transaction sees what it did, and undoes it with the revision": func(w *world) {
			was := w.publishes()
			r, added := w.release(), someRelease(w)
			w.undone(func(records ports.Records) error {
				in := records.Deployment().Releases()
				if err := in.Add(w.ctx, added); err != nil {
					return err
				}
				changed, err := in.Update(w.ctx, r.ID, raised)
				if err != nil {
					return err
				}
				that(in.Revision(w.ctx)).is(w, was+3)
				revision, all := w.stored(in, r.ID, added.ID)
				same(w, revision, was+3)
				same(w, all, []release.Release{changed, added})
				return nil
			})
			w.kept(was+1, r)
			_, gone := w.stored(w.releases(), added.ID)
			same(w, gone, nil)
			w.ok(w.releases().Add(w.ctx, added))
			w.kept(was+2, r, added)
		},
		"a transaction counts each change, and none that failed": func(w *world) {
			was := w.publishes()
			r, added := w.release(), someRelease(w)
			w.atomic(func(records ports.Records) error {
				in := records.Deployment().Releases()
				w.conflict(in.Add(w.ctx, r))
				_, err := in.Update(w.ctx, fresh[id.Release](), raised)
				w.missing(err)
				_, err = in.Update(w.ctx, r.ID, func(release.Release) (release.Release, error) { return release.Release{}, errors.New("no") })
				if err == nil {
					w.Error("no error")
				}
				that(in.Revision(w.ctx)).is(w, was+1)
				return in.Add(w.ctx, added)
			})
			w.kept(was+2, r, added)
		},
		"since a revision are the releases that changed after it, as they are now": func(w *world) {
			was := w.publishes()
			kept, changed, twice := w.release(), w.release(), w.release()
			since := func(revision int64, changed ...release.Release) {
				w.Helper()
				now, got, err := w.releases().Since(w.ctx, revision)
				w.ok(err)
				var want []release.Entry
				for _, r := range changed {
					want = append(want, r.Entry())
				}
				byID := func(a, b release.Entry) int { return strings.Compare(string(a.ID), string(b.ID)) }
				slices.SortFunc(got, byID)
				slices.SortFunc(want, byID)
				same(w, got, want)
				if end := that(w.releases().Revision(w.ctx)).must(w); len(want) > 0 && now != end || len(want) == 0 && now != revision {
					w.Errorf("revision %d of %d", now, end)
				}
			}
			since(was, kept, changed, twice)
			since(was+2, twice)
			since(was + 3)
			changed = that(w.releases().Update(w.ctx, changed.ID, raised)).must(w)
			_ = that(w.releases().Update(w.ctx, twice.ID, raised)).must(w)
			twice = that(w.releases().Update(w.ctx, twice.ID, raised)).must(w)
			since(was+3, changed, twice)
			since(was+4, twice)
			since(was, kept, changed, twice)
			since(was + 6)
		},
		"changes of many at once are all counted, and what is of a revision is what it had": func(w *world) {
			was := w.publishes()
			shared := bareRelease(w)
			w.ok(w.releases().Add(w.ctx, shared))
			const many = 2 * concurrent // of whom half change one release, and the others add one each, some of them two at once
			ids := []id.Release{shared.ID}
			fresh := make([][2]release.Release, many)
			for i := range fresh {
				fresh[i] = [2]release.Release{bareRelease(w), bareRelease(w)}
				ids = append(ids, fresh[i][0].ID, fresh[i][1].ID)
			}
			var changes atomic.Int64
			changes.Store(1)
			stop := make(chan struct{})
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for {
						revision, all, err := w.releases().Since(w.ctx, -1)
						if err != nil {
							w.Error(err)
							return
						}
						// Every change leaves a release more, or one percent.
						var had int64
						for _, r := range all {
							if slices.Contains(ids, r.ID) {
								had += 1 + int64(r.Rollout)
							}
						}
						if had != revision-was {
							w.Errorf("%d changes at revision %d", had, revision-was)
							return
						}
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			errs := together(many, func(i int) error {
				switch i % 4 {
				case 0, 1:
					changes.Add(1)
					_, err := w.releases().Update(w.ctx, shared.ID, raised)
					return err
				case 2:
					changes.Add(1)
					return w.releases().Add(w.ctx, fresh[i][0])
				}
				changes.Add(3)
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					in := r.Deployment().Releases()
					_, err := in.Update(w.ctx, shared.ID, raised)
					return errors.Join(in.Add(w.ctx, fresh[i][0]), in.Add(w.ctx, fresh[i][1]), err)
				})
			})
			close(stop)
			readers.Wait()
			w.allOK(errs)
			revision, all := w.stored(w.releases(), ids...)
			same(w, revision, was+changes.Load())
			same(w, all[0].Rollout, many/2+many/4)
		},
		"those that are there are listed in the order they are named in": func(w *world) {
			w.publishes()
			first, second, third := w.release(), w.release(), w.release()
			that(w.releases().List(w.ctx, []id.Release{third.ID, fresh[id.Release](), first.ID, "no id", second.ID})).is(w, []release.Release{third, first, second})
			that(w.releases().List(w.ctx, nil)).is(w, nil)
		},
		"those that many add at once are counted before they are committed": func(w *world) {
			w.publishes()
			was := that(w.releases().Count(w.ctx)).must(w)
			var mu sync.Mutex
			var counts []int
			w.allOK(together(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					in := r.Deployment().Releases()
					if err := in.Add(w.ctx, bareRelease(w)); err != nil {
						return err
					}
					n, err := in.Count(w.ctx)
					mu.Lock()
					defer mu.Unlock()
					counts = append(counts, n-was)
					return err
				})
			}))
			slices.Sort(counts)
			var want []int
			for i := range concurrent {
				want = append(want, i+1)
			}
			same(w, counts, want)
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			was := w.publishes()
			given := someRelease(w)
			want := given
			want.Notes, want.SHA512, want.FileSizeBytes = new(*given.Notes), new(*given.SHA512), new(*given.FileSizeBytes)
			spoil := func(r release.Release) { *r.Notes, *r.SHA512, *r.FileSizeBytes = "spoilt", "spoilt", -1 }
			w.ok(w.releases().Add(w.ctx, given))
			spoil(given)
			w.kept(was+1, want)
			_, all := w.stored(w.releases(), want.ID)
			spoil(all[0])
			w.kept(was+1, want)
			no := errors.New("no")
			_, err := w.releases().Update(w.ctx, want.ID, func(r release.Release) (release.Release, error) {
				spoil(r)
				return r, no
			})
			w.unchanged(err, no)
			w.kept(was+1, want)
			next := want
			next.Notes, next.SHA512, next.FileSizeBytes = new("next"), new("next"), new(int64(7))
			made := next
			made.Notes, made.SHA512, made.FileSizeBytes = new("next"), new("next"), new(int64(7))
			spoil(that(w.releases().Update(w.ctx, want.ID, func(release.Release) (release.Release, error) { return made, nil })).must(w))
			spoil(made)
			w.kept(was+2, next)
		},
	}.run(t, open)
}

// nextDay counts the days on which counts are made, from a random one on, far
// from the one that is pruned.
var nextDay = func() func() release.Day {
	var b [2]byte
	rand.Read(b[:]) // never fails, as its documentation says
	var n atomic.Int64
	n.Store(16 * int64(binary.BigEndian.Uint16(b[:])))
	return func() release.Day {
		return release.DayOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(n.Add(1))))
	}
}()

// tally is a count of a day.
func tally(d release.Day, p release.Platform, a release.Arch, c release.Channel, version string, checks, offered int64) release.Tally {
	return release.Tally{Day: d, Target: release.Target{Platform: p, Arch: a, Channel: c}, Version: version, Checks: checks, Offered: offered}
}

// Adoption is the suite of ports.Adoption.
func Adoption(t *testing.T, open func(t *testing.T) Opened) {
	anywhere := release.Target{}
	suite{
		"counts add up, also those of one call": func(w *world) {
			d := nextDay()
			one := func(checks, offered int64) release.Tally {
				return tally(d, release.Darwin, release.X64, release.Stable, "1.2.3-beta.1", checks, offered)
			}
			other := tally(d, release.Darwin, release.X64, release.Stable, release.Other, 1<<40, 0)
			w.ok(w.adoption().Add(w.ctx, []release.Tally{one(3, 1)}))
			that(w.adoption().List(w.ctx, d, d, anywhere, release.Tally{}, 0)).is(w, []release.Tally{one(3, 1)})
			w.ok(w.adoption().Add(w.ctx, []release.Tally{one(10, 0), other, one(100, 7), one(0, 0)}))
			that(w.adoption().List(w.ctx, d, d, anywhere, release.Tally{}, 0)).is(w, []release.Tally{one(113, 8), other})
		},
		"nothing counted is nothing": func(w *world) {
			d := nextDay()
			w.ok(w.adoption().Add(w.ctx, nil))
			that(w.adoption().List(w.ctx, d, d, anywhere, release.Tally{}, 0)).is(w, nil)
		},
		"the list is in order, of the days and of the target": func(w *world) {
			before, first, last, after := nextDay(), nextDay(), nextDay(), nextDay()
			all := []release.Tally{
				tally(first, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
				tally(first, release.Darwin, release.ARM64, release.Beta, "1.0.0-rc.1", 2, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "10.0.0", 3, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0", 4, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0-Z", 5, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0-a", 6, 1),
				tally(first, release.Darwin, release.X64, release.Beta, "1.0.0", 7, 1),
				tally(first, release.Linux, release.ARM64, release.Beta, "1.0.0", 8, 1),
				tally(last, release.Darwin, release.ARM64, release.Beta, "1.0.0", 9, 1),
				tally(last, release.Win32, release.Universal, release.Canary, release.Other, 10, 1),
			}
			outside := []release.Tally{
				tally(before, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
				tally(after, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
			}
			mixed := slices.Concat(all, outside)
			slices.Reverse(mixed)
			w.ok(w.adoption().Add(w.ctx, mixed))
			for _, of := range []release.Target{
				{}, {Platform: release.Darwin}, {Arch: release.ARM64}, {Channel: release.Beta}, {Platform: release.Darwin, Arch: release.X64},
				{Platform: release.Darwin, Channel: release.Beta}, {Arch: release.Universal, Channel: release.Canary},
				{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Stable}, {Platform: release.Linux, Arch: release.X64},
			} {
				var want []release.Tally
				for _, t := range all {
					if (of.Platform == "" || t.Platform == of.Platform) && (of.Arch == "" || t.Arch == of.Arch) && (of.Channel == "" || t.Channel == of.Channel) {
						want = append(want, t)
					}
				}
				that(w.adoption().List(w.ctx, first, last, of, release.Tally{}, 0)).is(w, want)
				for i, after := range append(want, release.Tally{Day: first}) {
					left := want[(i+1)%(len(want)+1):]
					that(w.adoption().List(w.ctx, first, last, of, after, 0)).is(w, left)
					that(w.adoption().List(w.ctx, first, last, of, after, 2)).is(w, left[:min(2, len(left))])
				}
			}
			that(w.adoption().List(w.ctx, last, last, anywhere, release.Tally{}, 0)).is(w, all[8:])
			that(w.adoption().List(w.ctx, last, first, anywhere, release.Tally{}, 0)).is(w, nil)
		},
		"what many add at once is all counted, in whichever order each has it": func(w *world) {
			d, e := nextDay(), nextDay()
			all := []release.Tally{
				tally(d, release.Darwin, release.ARM64, release.Stable, "1.0.0", 1, 0), tally(d, release.Darwin, release.X64, release.Stable, "1.0.0", 2, 1),
				tally(d, release.Linux, release.X64, release.Stable, "1.0.0", 3, 2), tally(d, release.Linux, release.X64, release.Stable, "1.1.0", 4, 3),
				tally(e, release.Darwin, release.ARM64, release.Stable, "1.0.0", 5, 4), tally(e, release.Win32, release.X64, release.Canary, release.Other, 6, 5),
			}
			const times = 4
			w.allOK(together(concurrent, func(i int) error {
				mine := slices.Clone(all)
				for n := range times {
					if (i+n)%2 == 0 {
						slices.Reverse(mine)
					}
					at := (i + n) % len(mine)
					if err := w.adoption().Add(w.ctx, slices.Concat(mine[at:], mine[:at])); err != nil {
						return err
					}
				}
				return nil
			}))
			want := slices.Clone(all)
			for i := range want {
				want[i].Checks *= times * concurrent
				want[i].Offered *= times * concurrent
			}
			that(w.adoption().List(w.ctx, d, e, anywhere, release.Tally{}, 0)).is(w, want)
		},
		"a transaction sees what it added, and undoes it": func(w *world) {
			d := nextDay()
			t := tally(d, release.Darwin, release.ARM64, release.Stable, "1.0.0", 1, 1)
			w.ok(w.adoption().Add(w.ctx, []release.Tally{t}))
			more := tally(d, release.Linux, release.X64, release.Stable, "1.0.0", 5, 5)
			w.undone(func(r ports.Records) error {
				in := r.Deployment().Adoption()
				if err := in.Add(w.ctx, []release.Tally{t, more}); err != nil {
					return err
				}
				twice := t
				twice.Checks, twice.Offered = 2, 2
				that(in.List(w.ctx, d, d, anywhere, release.Tally{}, 0)).is(w, []release.Tally{twice, more})
				return nil
			})
			that(w.adoption().List(w.ctx, d, d, anywhere, release.Tally{}, 0)).is(w, []release.Tally{t})
		},
		"a day's counts can be many": func(w *world) {
			d := nextDay()
			var all []release.Tally
			for i := range 1000 {
				all = append(all, tally(d, release.Darwin, release.ARM64, release.Stable, release.Other+strings.Repeat("x", i%3)+nextID(), int64(i), 1))
			}
			w.ok(w.adoption().Add(w.ctx, all))
			w.ok(w.adoption().Add(w.ctx, all))
			var checks int64
			got := that(w.adoption().List(w.ctx, d, d, anywhere, release.Tally{}, 0)).must(w)
			for _, t := range got {
				checks += t.Checks
			}
			same(w, len(got), 1000)
			same(w, checks, int64(1000*999))
		},
		"the days before one are pruned, and that day is not": func(w *world) {
			w.publishes() // it alone has counts of these days
			days := []release.Day{"1999-12-30", "1999-12-31", "2000-01-01", "2000-01-02"}
			later := nextDay()
			w.ok(w.adoption().Prune(w.ctx, "2000-01-03"))
			for _, d := range append(days, later) {
				w.ok(w.adoption().Add(w.ctx, []release.Tally{tally(d, release.Darwin, release.X64, release.Stable, "1.0.0", 1, 0)}))
			}
			w.ok(w.adoption().Prune(w.ctx, days[2]))
			got := that(w.adoption().List(w.ctx, "0001-01-01", "2000-12-31", anywhere, release.Tally{}, 0)).must(w)
			var left []release.Day
			for _, t := range got {
				left = append(left, t.Day)
			}
			same(w, left, days[2:])
			same(w, len(that(w.adoption().List(w.ctx, later, later, anywhere, release.Tally{}, 0)).must(w)), 1)
		},
	}.run(t, open)
}
