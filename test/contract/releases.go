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

	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/release"
	"collab/ports"
	"collab/test/must"
)

// releasesMutex is held by the sub-test that changes releases: they and their
// revision are everybody's.
var releasesMutex sync.Mutex

// publishes makes the sub-test the only one that changes releases, and returns
// their revision.
func (w *fixture) publishes() int64 {
	w.Helper()
	releasesMutex.Lock()
	w.Cleanup(releasesMutex.Unlock)
	return must.Do(w.Releases().Revision(w.ctx)).Or(w)
}

// someVersion is one that was never used, with build metadata.
func someVersion(w *fixture) release.Version {
	w.Helper()
	return version(w, "1.2.3-"+nextID()+"+build.7")
}

func version(w *fixture, s string) release.Version {
	w.Helper()
	return must.Do(release.ParseVersion(s)).Or(w)
}

// someRelease returns a release that is not stored yet, with every field set.
func someRelease(w *fixture) release.Release {
	w.Helper()
	return must.Full(release.Release{
		ID: fresh[id.Release](), Version: someVersion(w),
		Target: release.Target{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Beta},
		Settings: release.Settings{
			DownloadURL: "https://dl.example.com/a%20b?c=d&e='f'", SHA512: new(strings.Repeat("0a", 64)), SHA1: new(strings.Repeat("0b", 20)),
			FileSizeBytes: new(int64(1 << 40)), Notes: new("# Nöw\n\n- \"faster\" 🦉\\ <b>\r\n"), MinOSVersion: new("14.2"), Signature: new("dW50cnVzdGVk\n"),
			Mandatory: true, Rollout: 37, Active: true,
		},
		Guard: release.Guard{
			FailureLimit: new(7), FailureMinimum: 20, GuardedBy: fresh[id.Org](), Before: release.Outcomes{Succeeded: 1 << 33, Failed: 5}, PausedAt: new(at(92)),
		},
		PublishedAt: at(90), UpdatedAt: at(91),
	}, "Halt")
}

// bareRelease returns one with no field set that need not be.
func bareRelease(w *fixture) release.Release {
	w.Helper()
	return release.Release{
		ID: fresh[id.Release](), Version: someVersion(w), Target: release.Target{Platform: release.Linux, Arch: release.X64, Channel: release.Stable},
		PublishedAt: at(90), UpdatedAt: at(90),
	}
}

// release adds one.
func (w *fixture) release() release.Release {
	w.Helper()
	r := someRelease(w)
	w.ok(w.Releases().Add(w.ctx, r))
	return r
}

// stored returns those of the releases that are there, and the revision.
func (w *fixture) stored(ids ...id.Release) (int64, []release.Release) {
	w.Helper()
	revision, all, err := w.Releases().Since(w.ctx, -1)
	w.ok(err)
	wantEqual(w, must.Do(w.Releases().Count(w.ctx)).Or(w), len(all))
	found := must.Do(w.Releases().List(w.ctx, ids)).Or(w)
	for _, r := range found {
		i := slices.IndexFunc(all, func(e release.Entry) bool { return e.ID == r.ID })
		wantEqual(w, all[i], r.Entry())
	}
	return revision, found
}

// wantStored ends the sub-test unless the releases are what is stored, at a revision.
func (w *fixture) wantStored(revision int64, want ...release.Release) {
	w.Helper()
	resultOf(w.Releases().Revision(w.ctx)).is(w, revision)
	ids := make([]id.Release, len(want))
	for i, r := range want {
		ids[i] = r.ID
	}
	at, got := w.stored(ids...)
	wantEqual(w, at, revision)
	wantEqual(w, got, want)
}

// raised has the release reach one percent more.
func raised(r release.Release) (release.Release, error) {
	r.Rollout++
	return r, nil
}

// Releases is the suite of ports.Releases.
func Releases(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a release is returned with every field as stored": func(w *fixture) {
			was := w.publishes()
			full, bare := someRelease(w), bareRelease(w)
			w.ok(w.Releases().Add(w.ctx, full))
			w.ok(w.Releases().Add(w.ctx, bare))
			w.wantStored(was+2, full, bare)
			// Each gets the settings of the other.
			for i, swap := range [][2]release.Release{{full, bare}, {bare, full}} {
				next := swap[0]
				next.Settings, next.Guard, next.PublishedAt, next.UpdatedAt = swap[1].Settings, swap[1].Guard, swap[1].PublishedAt, swap[1].UpdatedAt
				resultOf(w.Releases().Update(w.ctx, next.ID, func(r release.Release) (release.Release, error) {
					wantEqual(w, r, swap[0])
					return next, nil
				})).is(w, next)
				w.wantStored(was+3+int64(i), next)
			}
		},
		"each single field is returned as stored": func(w *fixture) {
			was := w.publishes()
			bare, full := bareRelease(w), someRelease(w)
			w.ok(w.Releases().Add(w.ctx, bare))
			full.ID, full.Version, full.Target = bare.ID, bare.Version, bare.Target
			early, late := bare, bare
			early.PublishedAt, late.UpdatedAt = time.Time{}, time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
			for _, want := range append(eachField(bare, full), early, late) {
				resultOf(w.Releases().Update(w.ctx, want.ID, func(release.Release) (release.Release, error) { return want, nil })).is(w, want)
				was++
				w.wantStored(was+1, want)
			}
		},
		"a taken id is a conflict, as is a version that the target has, regardless of build metadata": func(w *fixture) {
			was := w.publishes()
			r := w.release()
			again := bareRelease(w)
			again.ID = r.ID
			w.wantConflict(w.Releases().Add(w.ctx, again))
			for _, same := range []string{r.Version.String(), r.Version.Key(), r.Version.Key() + "+another"} {
				again := bareRelease(w)
				again.Version, again.Target = version(w, same), r.Target
				w.wantConflict(w.Releases().Add(w.ctx, again))
			}
			w.wantStored(was+1, r)
		},
		"each target can have the same version": func(w *fixture) {
			was := w.publishes()
			v := someVersion(w)
			var all []release.Release
			for _, p := range []release.Platform{release.Darwin, release.Win32, release.Linux} {
				for _, a := range []release.Arch{release.X64, release.ARM64, release.Universal} {
					for _, c := range []release.Channel{release.Stable, release.Beta, release.Canary} {
						r := bareRelease(w)
						r.Version, r.Target = v, release.Target{Platform: p, Arch: a, Channel: c}
						w.ok(w.Releases().Add(w.ctx, r))
						all = append(all, r)
					}
				}
			}
			w.wantStored(was+27, all...)
		},
		"of concurrent additions of a version one succeeds": func(w *fixture) {
			was := w.publishes()
			v, all := someVersion(w), make([]release.Release, concurrent)
			for i := range all {
				all[i] = someRelease(w)
				all[i].Version = v
			}
			winner := w.wantOneSuccess(concurrently(concurrent, func(i int) error { return w.Releases().Add(w.ctx, all[i]) }), fault.Conflict)
			w.wantStored(was+1, all[winner])
		},
		"an unknown release cannot be changed": func(w *fixture) {
			was := w.publishes()
			resultOf(w.Releases().Update(w.ctx, fresh[id.Release](), func(release.Release) (release.Release, error) {
				w.Error("was called")
				return release.Release{}, nil
			})).wantNotFound(w)
			w.wantStored(was)
		},
		"a transaction sees its own writes, and a rollback undoes them with the revision": func(w *fixture) {
			was := w.publishes()
			r, added := w.release(), someRelease(w)
			changed, _ := raised(r)
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.Releases().Add(w.ctx, added), must.ErrorOf(in.Releases().Update(w.ctx, r.ID, raised))))
			}, func(in *fixture) []any {
				revision, all := in.stored(r.ID, added.ID)
				return []any{revision, must.Do(in.Releases().Revision(w.ctx)).Or(in), all}
			}, []any{was + 3, was + 3, []release.Release{changed, added}})
			w.ok(w.Releases().Add(w.ctx, added))
			w.wantStored(was+2, r, added)
		},
		"a transaction counts each change that succeeded": func(w *fixture) {
			was := w.publishes()
			r, added := w.release(), someRelease(w)
			w.atomic(func(records ports.Records) error {
				in := records.Deployment().Releases()
				w.wantConflict(in.Add(w.ctx, r))
				resultOf(in.Update(w.ctx, fresh[id.Release](), raised)).wantNotFound(w)
				failure := errors.New("failure")
				_, err := in.Update(w.ctx, r.ID, func(r release.Release) (release.Release, error) {
					r.Rollout = 99
					return r, failure
				})
				w.wantSameError(err, failure)
				resultOf(in.Revision(w.ctx)).is(w, was+1)
				return in.Add(w.ctx, added)
			})
			w.wantStored(was+2, r, added)
		},
		"since returns the present state of the releases that changed after a revision": func(w *fixture) {
			was := w.publishes()
			kept, changed, twice := w.release(), w.release(), w.release()
			since := func(revision int64, changed ...release.Release) {
				w.Helper()
				now, got, err := w.Releases().Since(w.ctx, revision)
				w.ok(err)
				var want []release.Entry
				for _, r := range changed {
					want = append(want, r.Entry())
				}
				byID := func(a, b release.Entry) int { return strings.Compare(string(a.ID), string(b.ID)) }
				slices.SortFunc(got, byID)
				slices.SortFunc(want, byID)
				wantEqual(w, got, want)
				if end := must.Do(w.Releases().Revision(w.ctx)).Or(w); len(want) > 0 && now != end || len(want) == 0 && now != revision {
					w.Errorf("revision %d of %d", now, end)
				}
			}
			since(was, kept, changed, twice)
			since(was+2, twice)
			since(was + 3)
			changed = must.Do(w.Releases().Update(w.ctx, changed.ID, raised)).Or(w)
			must.Do(w.Releases().Update(w.ctx, twice.ID, raised)).Or(w)
			twice = must.Do(w.Releases().Update(w.ctx, twice.ID, raised)).Or(w)
			since(was+3, changed, twice)
			since(was+4, twice)
			since(was, kept, changed, twice)
			since(was + 6)
			since(was + 9)
		},
		"concurrent changes are all counted, and a revision has a consistent state": func(w *fixture) {
			was := w.publishes()
			shared := bareRelease(w)
			w.ok(w.Releases().Add(w.ctx, shared))
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
						revision, all, err := w.Releases().Since(w.ctx, -1)
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
			errs := concurrently(many, func(i int) error {
				switch i % 4 {
				case 0, 1:
					changes.Add(1)
					return must.ErrorOf(w.Releases().Update(w.ctx, shared.ID, raised))
				case 2:
					changes.Add(1)
					return w.Releases().Add(w.ctx, fresh[i][0])
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
			revision, all := w.stored(ids...)
			wantEqual(w, revision, was+changes.Load())
			wantEqual(w, all[0].Rollout, many/2+many/4)
		},
		"list returns the existing releases in the order of the ids": func(w *fixture) {
			w.publishes()
			first, second, third := w.release(), w.release(), w.release()
			resultOf(w.Releases().List(w.ctx, []id.Release{third.ID, fresh[id.Release](), first.ID, "no id", second.ID})).is(w, []release.Release{third, first, second})
			resultOf(w.Releases().List(w.ctx, nil)).is(w, nil)
		},
		"concurrent additions count each other before they are committed": func(w *fixture) {
			w.publishes()
			was := must.Do(w.Releases().Count(w.ctx)).Or(w)
			var mu sync.Mutex
			var counts []int
			w.allOK(concurrently(concurrent, func(int) error {
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
			for i, n := range counts {
				wantEqual(w, n, i+1)
			}
		},
		"arguments and results belong to the caller": func(w *fixture) {
			was := w.publishes()
			r := someRelease(w)
			add := func(r release.Release) error { return w.Releases().Add(w.ctx, r) }
			get := func() release.Release {
				_, all := w.stored(r.ID)
				return all[0]
			}
			update := func(fn func(release.Release) (release.Release, error)) (release.Release, error) {
				return w.Releases().Update(w.ctx, r.ID, fn)
			}
			keepsNothing(w, r, add, updates(w, get, update)...)
			w.wantStored(was+3, r)
			made := copied(r)
			spoil(must.Do(update(func(release.Release) (release.Release, error) { return made, nil })).Or(w))
			spoil(made)
			w.wantStored(was+4, r)
		},
	}.run(t, open)
}

// nextDay counts the days on which counts are made, from a random one on, far
// from the one that is pruned.
var nextDay = func() func() calendar.Day {
	var b [2]byte
	rand.Read(b[:]) // never fails, as its documentation says
	var n atomic.Int64
	n.Store(16 * int64(binary.BigEndian.Uint16(b[:])))
	return func() calendar.Day {
		return calendar.DayOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(n.Add(1))))
	}
}()

// tally is a count of a day.
func tally(d calendar.Day, p release.Platform, a release.Arch, c release.Channel, version string, checks, offered int64) release.CheckCount {
	return release.CheckCount{Day: d, Target: release.Target{Platform: p, Arch: a, Channel: c}, Version: version, Checks: checks, Offered: offered}
}

// Adoption is the suite of ports.Adoption.
func Adoption(t *testing.T, open func(t *testing.T) Opened) {
	anywhere := release.Target{}
	suite{
		"counts are summed, also within one call": func(w *fixture) {
			d := nextDay()
			one := func(checks, offered int64) release.CheckCount {
				return tally(d, release.Darwin, release.X64, release.Stable, "1.2.3-beta.1", checks, offered)
			}
			other := tally(d, release.Darwin, release.X64, release.Stable, release.OtherVersions, 1<<40, 0)
			w.ok(w.Adoption().Add(w.ctx, nil))
			w.ok(w.Adoption().Add(w.ctx, []release.CheckCount{one(3, 1)}))
			resultOf(w.Adoption().List(w.ctx, d, d, anywhere, release.CheckCount{}, 0)).is(w, []release.CheckCount{one(3, 1)})
			w.ok(w.Adoption().Add(w.ctx, []release.CheckCount{one(10, 0), other, one(100, 7), one(0, 0)}))
			resultOf(w.Adoption().List(w.ctx, d, d, anywhere, release.CheckCount{}, 0)).is(w, []release.CheckCount{one(113, 8), other})
		},
		"the list is ordered, and restricted to the days and the target": func(w *fixture) {
			before, first, last, after := nextDay(), nextDay(), nextDay(), nextDay()
			all := []release.CheckCount{
				tally(first, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
				tally(first, release.Darwin, release.ARM64, release.Beta, "1.0.0-rc.1", 2, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "10.0.0", 3, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0", 4, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0-Z", 5, 1),
				tally(first, release.Darwin, release.ARM64, release.Stable, "9.0.0-a", 6, 1),
				tally(first, release.Darwin, release.X64, release.Beta, "1.0.0", 7, 1),
				tally(first, release.Linux, release.ARM64, release.Beta, "1.0.0", 8, 1),
				tally(last, release.Darwin, release.ARM64, release.Beta, "1.0.0", 9, 1),
				tally(last, release.Win32, release.Universal, release.Canary, release.OtherVersions, 10, 1),
			}
			outside := []release.CheckCount{
				tally(before, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
				tally(after, release.Darwin, release.ARM64, release.Beta, "1.0.0", 1, 1),
			}
			mixed := slices.Concat(all, outside)
			slices.Reverse(mixed)
			w.ok(w.Adoption().Add(w.ctx, mixed))
			for _, of := range []release.Target{
				{}, {Platform: release.Darwin}, {Arch: release.ARM64}, {Channel: release.Beta}, {Platform: release.Darwin, Arch: release.X64},
				{Platform: release.Darwin, Channel: release.Beta}, {Arch: release.Universal, Channel: release.Canary},
				{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Stable}, {Platform: release.Linux, Arch: release.X64},
			} {
				var want []release.CheckCount
				for _, t := range all {
					if (of.Platform == "" || t.Platform == of.Platform) && (of.Arch == "" || t.Arch == of.Arch) && (of.Channel == "" || t.Channel == of.Channel) {
						want = append(want, t)
					}
				}
				resultOf(w.Adoption().List(w.ctx, first, last, of, release.CheckCount{}, 0)).is(w, want)
				for i, after := range append(want, release.CheckCount{Day: first}) {
					left := want[(i+1)%(len(want)+1):]
					resultOf(w.Adoption().List(w.ctx, first, last, of, after, 0)).is(w, left)
					resultOf(w.Adoption().List(w.ctx, first, last, of, after, 2)).is(w, left[:min(2, len(left))])
				}
			}
			resultOf(w.Adoption().List(w.ctx, last, last, anywhere, release.CheckCount{}, 0)).is(w, all[8:])
			resultOf(w.Adoption().List(w.ctx, last, first, anywhere, release.CheckCount{}, 0)).is(w, nil)
		},
		"concurrent counts are all added, in any order": func(w *fixture) {
			d, e := nextDay(), nextDay()
			all := []release.CheckCount{
				tally(d, release.Darwin, release.ARM64, release.Stable, "1.0.0", 1, 0), tally(d, release.Darwin, release.X64, release.Stable, "1.0.0", 2, 1),
				tally(d, release.Linux, release.X64, release.Stable, "1.0.0", 3, 2), tally(d, release.Linux, release.X64, release.Stable, "1.1.0", 4, 3),
				tally(e, release.Darwin, release.ARM64, release.Stable, "1.0.0", 5, 4), tally(e, release.Win32, release.X64, release.Canary, release.OtherVersions, 6, 5),
			}
			const calls = 4 * concurrent
			w.allOK(concurrently(calls, func(i int) error {
				mine := slices.Clone(all)
				if i%2 == 0 {
					slices.Reverse(mine)
				}
				at := i % len(mine)
				return w.Adoption().Add(w.ctx, slices.Concat(mine[at:], mine[:at]))
			}))
			want := slices.Clone(all)
			for i := range want {
				want[i].Checks *= calls
				want[i].Offered *= calls
			}
			resultOf(w.Adoption().List(w.ctx, d, e, anywhere, release.CheckCount{}, 0)).is(w, want)
		},
		"a transaction sees its own counts, and a rollback undoes them": func(w *fixture) {
			d := nextDay()
			t := tally(d, release.Darwin, release.ARM64, release.Stable, "1.0.0", 1, 1)
			w.ok(w.Adoption().Add(w.ctx, []release.CheckCount{t}))
			more, twice := tally(d, release.Linux, release.X64, release.Stable, "1.0.0", 5, 5), t
			twice.Checks, twice.Offered = 2, 2
			checkRollback(w, func(in *fixture) { in.ok(in.Adoption().Add(w.ctx, []release.CheckCount{t, more})) },
				func(in *fixture) []release.CheckCount {
					return must.Do(in.Adoption().List(w.ctx, d, d, anywhere, release.CheckCount{}, 0)).Or(in)
				}, []release.CheckCount{twice, more})
		},
		"a day's counts can be many": func(w *fixture) {
			d := nextDay()
			var all []release.CheckCount
			for i := range 1000 {
				all = append(all, tally(d, release.Darwin, release.ARM64, release.Stable, release.OtherVersions+strings.Repeat("x", i%3)+nextID(), int64(i), 1))
			}
			w.ok(w.Adoption().Add(w.ctx, all))
			w.ok(w.Adoption().Add(w.ctx, all))
			var checks int64
			got := must.Do(w.Adoption().List(w.ctx, d, d, anywhere, release.CheckCount{}, 0)).Or(w)
			for _, t := range got {
				checks += t.Checks
			}
			wantEqual(w, len(got), 1000)
			wantEqual(w, checks, int64(1000*999))
		},
		"devices are merged by day and target, and listed for a target": func(w *fixture) {
			d, e := nextDay(), nextDay()
			seen := func(day calendar.Day, p release.Platform, a release.Arch, ids ...string) release.DailyDevices {
				s := release.DailyDevices{Day: day, Target: release.Target{Platform: p, Arch: a, Channel: release.Beta}}
				for _, client := range ids {
					s.Devices.Add(client)
				}
				return s
			}
			w.ok(w.Adoption().AddDevices(w.ctx, nil))
			resultOf(w.Adoption().Devices(w.ctx, d, e, anywhere)).is(w, nil)
			w.ok(w.Adoption().AddDevices(w.ctx, []release.DailyDevices{seen(e, release.Linux, release.X64, "a"), seen(d, release.Linux, release.X64, "a", "b"), seen(d, release.Darwin, release.ARM64, "c")}))
			w.ok(w.Adoption().AddDevices(w.ctx, []release.DailyDevices{seen(d, release.Linux, release.X64, "b", "d"), seen(d, release.Linux, release.X64, "e")}))
			want := []release.DailyDevices{seen(d, release.Darwin, release.ARM64, "c"), seen(d, release.Linux, release.X64, "a", "b", "d", "e"), seen(e, release.Linux, release.X64, "a")}
			resultOf(w.Adoption().Devices(w.ctx, d, e, anywhere)).is(w, want)
			resultOf(w.Adoption().Devices(w.ctx, d, d, anywhere)).is(w, want[:2])
			resultOf(w.Adoption().Devices(w.ctx, d, e, release.Target{Platform: release.Linux, Channel: release.Beta})).is(w, want[1:])
			resultOf(w.Adoption().Devices(w.ctx, d, e, release.Target{Arch: release.ARM64})).is(w, want[:1])
			resultOf(w.Adoption().Devices(w.ctx, d, e, release.Target{Channel: release.Stable})).is(w, nil)
			w.rolledBack(func(r ports.Records) error {
				return r.Deployment().Adoption().AddDevices(w.ctx, []release.DailyDevices{seen(d, release.Darwin, release.ARM64, "f"), seen(d, release.Win32, release.X64, "g")})
			})
			resultOf(w.Adoption().Devices(w.ctx, d, e, anywhere)).is(w, want)
		},
		"concurrent devices are all merged, in any order": func(w *fixture) {
			d := nextDay()
			targets := []release.Target{{Platform: release.Darwin, Arch: release.X64, Channel: release.Stable}, {Platform: release.Linux, Arch: release.X64, Channel: release.Stable}}
			var want release.Sketch
			for i := range concurrent {
				want.Add(strings.Repeat("x", i+1))
			}
			w.allOK(concurrently(concurrent, func(i int) error {
				var mine release.Sketch
				mine.Add(strings.Repeat("x", i+1))
				return w.Adoption().AddDevices(w.ctx, []release.DailyDevices{{Day: d, Target: targets[i%2], Devices: mine}, {Day: d, Target: targets[1-i%2], Devices: mine}})
			}))
			resultOf(w.Adoption().Devices(w.ctx, d, d, anywhere)).is(w, []release.DailyDevices{{Day: d, Target: targets[0], Devices: want}, {Day: d, Target: targets[1], Devices: want}})
		},
		"prune removes only the days before the day": func(w *fixture) {
			w.publishes() // it alone has counts of these days
			days := []calendar.Day{"1999-12-30", "1999-12-31", "2000-01-01", "2000-01-02"}
			later := nextDay()
			w.ok(w.Adoption().Prune(w.ctx, "2000-01-03"))
			for _, d := range append(days, later) {
				w.ok(w.Adoption().Add(w.ctx, []release.CheckCount{tally(d, release.Darwin, release.X64, release.Stable, "1.0.0", 1, 0)}))
			}
			w.ok(w.Adoption().AddDevices(w.ctx, []release.DailyDevices{{Day: days[1]}, {Day: days[2]}}))
			w.ok(w.Adoption().Prune(w.ctx, days[2]))
			resultOf(w.Adoption().Devices(w.ctx, days[0], days[3], anywhere)).is(w, []release.DailyDevices{{Day: days[2]}})
			got := must.Do(w.Adoption().List(w.ctx, "0001-01-01", "2000-12-31", anywhere, release.CheckCount{}, 0)).Or(w)
			var left []calendar.Day
			for _, t := range got {
				left = append(left, t.Day)
			}
			wantEqual(w, left, days[2:])
			wantEqual(w, len(must.Do(w.Adoption().List(w.ctx, later, later, anywhere, release.CheckCount{}, 0)).Or(w)), 1)
		},
	}.run(t, open)
}

// Reports is the suite of ports.Reports.
func Reports(t *testing.T, open func(t *testing.T) Opened) {
	hour := func(n int) time.Time { return at(0).Truncate(time.Hour).Add(time.Duration(n) * time.Hour) }
	report := func(r id.Release, n int, succeeded, failed int64) release.Report {
		return release.Report{Release: r, Hour: hour(n), Outcomes: release.Outcomes{Succeeded: succeeded, Failed: failed}}
	}
	suite{
		"reports are added by release and hour, and listed in pages": func(w *fixture) {
			of, other := fresh[id.Release](), fresh[id.Release]()
			resultOf(w.Reports().List(w.ctx, of, time.Time{}, 0)).is(w, nil)
			resultOf(w.Reports().Sum(w.ctx, of)).is(w, release.Outcomes{})
			w.ok(w.Reports().Add(w.ctx, nil))
			w.ok(w.Reports().Add(w.ctx, []release.Report{report(of, 2, 1, 0), report(other, 1, 64, 64), report(of, 0, 2, 1), report(of, 2, 4, 2)}))
			w.ok(w.Reports().Add(w.ctx, []release.Report{report(of, 1, 0, 8), report(of, 0, 1<<33, 0)}))
			want := []release.Report{report(of, 0, 1<<33+2, 1), report(of, 1, 0, 8), report(of, 2, 5, 2)}
			resultOf(w.Reports().List(w.ctx, of, time.Time{}, 0)).is(w, want)
			resultOf(w.Reports().List(w.ctx, of, time.Time{}, 2)).is(w, want[:2])
			resultOf(w.Reports().List(w.ctx, of, hour(0), 0)).is(w, want[1:])
			resultOf(w.Reports().List(w.ctx, of, hour(0), 1)).is(w, want[1:2])
			resultOf(w.Reports().List(w.ctx, of, hour(2), 0)).is(w, nil)
			resultOf(w.Reports().List(w.ctx, "none", time.Time{}, 0)).is(w, nil)
			resultOf(w.Reports().Sum(w.ctx, of)).is(w, release.Outcomes{Succeeded: 1<<33 + 7, Failed: 11})
		},
		"concurrent reports are all added, in any order": func(w *fixture) {
			a, b := fresh[id.Release](), fresh[id.Release]()
			all := []release.Report{report(a, 0, 1, 2), report(b, 1, 3, 4)}
			w.allOK(concurrently(concurrent, func(i int) error {
				mine := slices.Clone(all)
				if i%2 == 0 {
					slices.Reverse(mine)
				}
				return w.Reports().Add(w.ctx, mine)
			}))
			resultOf(w.Reports().Sum(w.ctx, a)).is(w, release.Outcomes{Succeeded: concurrent, Failed: 2 * concurrent})
			resultOf(w.Reports().Sum(w.ctx, b)).is(w, release.Outcomes{Succeeded: 3 * concurrent, Failed: 4 * concurrent})
		},
		"a transaction sees its own reports, and a rollback undoes them": func(w *fixture) {
			of := fresh[id.Release]()
			add := func(in *fixture) { in.ok(in.Reports().Add(w.ctx, []release.Report{report(of, 0, 1, 1)})) }
			add(w)
			checkRollback(w, add, func(in *fixture) release.Outcomes { return must.Do(in.Reports().Sum(w.ctx, of)).Or(in) }, release.Outcomes{Succeeded: 2, Failed: 2})
		},
		"prune removes only the hours before the time, and none of a release with a failure limit": func(w *fixture) {
			w.publishes()
			limited, unlimited := someRelease(w), someRelease(w)
			unlimited.FailureLimit = nil
			reportsOf := func(of id.Release) (all []release.Report) {
				for n := range 3 {
					hour := time.Date(2000, 1, 1, n, 0, 0, 0, time.UTC)
					all = append(all, release.Report{Release: of, Hour: hour, Outcomes: release.Outcomes{Succeeded: 1}})
				}
				return all
			}
			for _, r := range []release.Release{limited, unlimited} {
				w.ok(w.Releases().Add(w.ctx, r))
				w.ok(w.Reports().Add(w.ctx, reportsOf(r.ID)))
			}
			w.ok(w.Reports().Prune(w.ctx, reportsOf("")[1].Hour))
			resultOf(w.Reports().List(w.ctx, limited.ID, time.Time{}, 0)).is(w, reportsOf(limited.ID))
			resultOf(w.Reports().List(w.ctx, unlimited.ID, time.Time{}, 0)).is(w, reportsOf(unlimited.ID)[1:])
		},
	}.run(t, open)
}
