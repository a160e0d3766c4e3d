package contract

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// keepTen keeps ten versions for a day.
var keepTen = object.Retention{Days: 1, Versions: 10}

// Versions is the suite of ports.Versions, and of what Replace keeps.
func Versions(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a version is returned with every field as kept, the latest first": func(w *fixture) {
			tn := w.tenant()
			for i, p := range w.places(tn) {
				v := someObject(tn.ID, p, fmt.Sprintf("Ünï 日本 🦉/%d.md", i), tn.owner.ID)
				var want []object.EarlierVersion
				for n := range int64(4) {
					v = v.WithContent(object.Content{Blob: v.BlobName(nextID()), Size: n, Checksum: v.Checksum, Text: n%2 == 0}, tn.owner.ID, at(80+int(n)))
					e := keepTen.Ended(v, []id.User{tn.owner.ID, ""}[n%2], at(90+int(n)), n == 3)
					w.keep(e)
					want = append(want, e)
				}
				slices.Reverse(want)
				wantEqual(w, w.versionsOf(tn.ID, v.ID), want)
				pages(w, want, func(e object.EarlierVersion) int64 { return e.Version }, func(before int64, limit int) (all []object.EarlierVersion, err error) {
					if before == 0 {
						before = math.MaxInt64
					}
					err = w.Versions().List(w.ctx, tn.ID, v.ID, before, limit, collect(&all))
					return all, err
				})
				wantStop(w, func(each func(object.EarlierVersion) error) error {
					return w.Versions().List(w.ctx, tn.ID, v.ID, math.MaxInt64, 0, each)
				})
			}
		},
		"another organisation's versions are not found": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			theirs := w.deleted(other.sharedObject, 1)
			wantEqual(w, w.versionsOf(tn.ID, theirs.ID), nil)
			wantEqual(w, w.deletedOf(tn.ID, nil, object.Filter{}), nil)
			wantEqual(w, w.deletedOf(tn.ID, nil, object.Filter{Prefix: string(other.ID)}), nil)
			resultOf(w.Versions().Take(w.ctx, tn.ID, theirs.ID, theirs.Version)).wantNotFound(w)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, []id.Object{theirs.ID}, 0, 100, at(99))).is(w, 0)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, nil, math.MaxInt64, 100, at(99))).is(w, 0)
			wantEqual(w, w.versionsOf(other.ID, theirs.ID), []object.EarlierVersion{theirs})
		},
		"of an unknown object or organisation there is no version": func(w *fixture) {
			o, unknown := w.org().ID, fresh[id.Org]()
			for _, of := range []id.Object{fresh[id.Object](), "no id"} {
				wantEqual(w, w.versionsOf(o, of), nil)
				resultOf(w.Versions().Take(w.ctx, o, of, 1)).wantNotFound(w)
				resultOf(w.Versions().Discard(w.ctx, o, []id.Object{of}, 0, 9, at(1))).is(w, 0)
			}
			resultOf(w.Versions().Discard(w.ctx, o, []id.Object{}, math.MaxInt64, 9, at(1))).is(w, 0)
			resultOf(w.Versions().Discard(w.ctx, o, nil, math.MaxInt64, 0, at(1))).is(w, 0)
			v := keepTen.Ended(someObject(unknown, blobCases, "a", ""), "", at(1), false)
			w.wantNotFound(w.Versions().Keep(w.ctx, unknown, keepTen, v))
		},
		"beyond their number the oldest versions of an object are discarded": func(w *fixture) {
			tn := w.tenant()
			three := object.Retention{Days: 1, Versions: 3}
			beside := w.deleted(tn.personalObject, 5)
			var kept []object.EarlierVersion
			for n := range 6 {
				v := tn.sharedObject
				v.Version, v.Blob, v.Size = int64(n*n+1), v.BlobName(nextID()), 10 // moves take numbers as well
				kept = append(kept, three.Ended(v, tn.owner.ID, at(100+n), false))
				w.ok(w.Versions().Keep(w.ctx, tn.ID, three, kept[n]))
			}
			wantEqual(w, w.versionsOf(tn.ID, tn.sharedObject.ID), []object.EarlierVersion{kept[5], kept[4], kept[3]})
			wantEqual(w, w.versionsOf(tn.ID, beside.ID), []object.EarlierVersion{beside})
			for n, b := range w.dueNames(tn.ID) {
				wantEqual(w, b.At, at(103+n))
			}
			wantEqual(w, len(w.dueNames(tn.ID)), 3)
			wantEqual(w, w.usedBy(tn.ID)[object.Versions], 30+5)
			w.wantKnown(map[string]bool{kept[0].Blob: true, kept[5].Blob: true, beside.Blob: true})
		},
		"many versions are kept together, each object by itself": func(w *fixture) {
			tn := w.tenant()
			two := object.Retention{Days: 1, Versions: 2}
			var objects []object.Object
			for range 20 {
				objects = append(objects, someObject(tn.ID, blobCases, "x", tn.owner.ID))
			}
			for n := range 3 {
				var ended []object.EarlierVersion
				for i := range objects {
					objects[i].Version, objects[i].Size, objects[i].Blob = int64(n+1), 1, objects[i].BlobName(nextID())
					ended = append(ended, two.Ended(objects[i], "", at(100+n), n == 2 && i%2 == 0))
				}
				w.ok(w.Versions().Keep(w.ctx, tn.ID, two, ended...))
			}
			w.ok(w.Versions().Keep(w.ctx, tn.ID, two))
			for _, v := range objects {
				all := w.versionsOf(tn.ID, v.ID)
				wantEqual(w, len(all), 2)
				wantEqual(w, [2]int64{all[0].Version, all[1].Version}, [2]int64{3, 2})
			}
			wantEqual(w, len(w.deletedOf(tn.ID, nil, object.Filter{})), 10)
			wantEqual(w, len(w.dueNames(tn.ID)), 20)
			wantEqual(w, w.usedBy(tn.ID)[object.Versions], 40)
		},
		"deleted lists the last versions of deleted objects as lists of objects do": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			var want []object.EarlierVersion
			for i, p := range w.places(tn) {
				for range 3 { // with the same path
					v := someObject(tn.ID, p, fmt.Sprintf("%d.md", i%2), tn.owner.ID)
					w.keep(keepTen.Ended(v, tn.owner.ID, at(100), false))
					v.Version++
					v.Blob = v.BlobName(nextID())
					want = append(want, keepTen.Ended(v, tn.owner.ID, at(101), true))
					w.keep(want[len(want)-1])
				}
			}
			w.deleted(other.sharedObject, 1)
			slices.SortFunc(want, func(a, b object.EarlierVersion) int { return strings.Compare(a.DeletedKey(), b.DeletedKey()) })
			pages(w, want, object.EarlierVersion.DeletedKey, func(after string, limit int) (all []object.EarlierVersion, err error) {
				err = w.Versions().Deleted(w.ctx, tn.ID, nil, object.Filter{After: after, Limit: limit}, collect(&all))
				return all, err
			})
			own, shared := org.Actor{Org: tn.ID, User: tn.owner.ID, Role: org.Owner}, seeing(org.Actor{Org: tn.ID, User: tn.removed.ID, Role: org.Member}, []id.Team{tn.team.ID}, nil)
			for _, viewer := range []*org.Actor{nil, &own, &shared} {
				for _, f := range []object.Filter{
					{}, {Kind: object.Template}, {Scope: object.Personal}, {Workspace: tn.workspace.ID}, {WithoutWorkspace: true}, {Team: tn.team.ID}, {Owner: tn.owner.ID},
					{Prefix: want[4].StorageKey()}, {Kind: "NONE"}, {Scope: object.Shared, Limit: 4},
				} {
					var selected []object.EarlierVersion
					for _, v := range want {
						if f.Selects(v.Object) && (viewer == nil || v.VisibleTo(*viewer)) && (f.Limit == 0 || len(selected) < f.Limit) {
							selected = append(selected, v)
						}
					}
					wantEqual(w, w.deletedOf(tn.ID, viewer, f), selected)
				}
			}
			wantStop(w, func(each func(object.EarlierVersion) error) error {
				return w.Versions().Deleted(w.ctx, tn.ID, nil, object.Filter{}, each)
			})
		},
		"versions of a deleted object expire with the last one at the latest": func(w *fixture) {
			tn := w.tenant()
			v := tn.sharedObject
			long := object.Retention{Days: 9, Versions: 9}.Ended(v, "", at(100), false)
			w.keep(long)
			brief := object.Retention{Days: 1, Versions: 9}
			v.Version++
			v.Blob = v.BlobName(nextID())
			soon := brief.Ended(v, "", at(100).AddDate(0, 0, -3), false)
			w.keep(soon)
			v.Version++
			v.Blob = v.BlobName(nextID())
			last := brief.Ended(v, "", at(101), true)
			w.keep(last)
			long.ExpiresAt = last.ExpiresAt
			wantEqual(w, w.versionsOf(tn.ID, v.ID), []object.EarlierVersion{last, soon, long})
		},
		"a version is taken with its blob, and once": func(w *fixture) {
			tn := w.tenant()
			first := w.deleted(tn.sharedObject, 4)
			second := first
			second.Version, second.Blob, second.Deleted = first.Version-1, first.BlobName(nextID()), false
			w.keep(second)
			resultOf(w.Versions().Take(w.ctx, tn.ID, first.ID, first.Version+7)).wantNotFound(w)
			wantEqual(w, len(w.deletedOf(tn.ID, nil, object.Filter{})), 1)
			w.wantOneSuccess(concurrently(concurrent, func(int) error {
				got, err := w.Versions().Take(w.ctx, tn.ID, second.ID, second.Version)
				if err == nil && diff(got, second) != "" {
					err = errors.New(diff(got, second))
				}
				return err
			}), fault.NotFound)
			wantEqual(w, w.versionsOf(tn.ID, first.ID), []object.EarlierVersion{first})
			wantEqual(w, w.deletedOf(tn.ID, nil, object.Filter{}), []object.EarlierVersion{first})
			w.wantKnown(map[string]bool{first.Blob: true, second.Blob: false})
			wantEqual(w, w.usedBy(tn.ID)[object.Versions], 4)
		},
		"versions of objects are discarded up to a limit": func(w *fixture) {
			tn := w.tenant()
			var all []object.EarlierVersion
			for n := range 5 {
				v := someObject(tn.ID, blobCases, "x", tn.owner.ID)
				v.Size = 1
				all = append(all, keepTen.Ended(v, "", at(100+n), true))
				w.keep(all[n])
			}
			of := []id.Object{all[0].ID, all[1].ID, all[3].ID, fresh[id.Object]()}
			resultOf(w.Versions().Discard(w.ctx, tn.ID, of, 0, 2, at(200))).is(w, 2)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, of, 0, 2, at(201))).is(w, 1)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, of, 0, 2, at(202))).is(w, 0)
			wantEqual(w, w.deletedOf(tn.ID, nil, object.Filter{}), []object.EarlierVersion{all[2], all[4]})
			wantEqual(w, len(w.dueNames(tn.ID)), 3)
			wantEqual(w, w.usedBy(tn.ID)[object.Versions], 2)
		},
		"those that expire first are discarded until their sizes suffice": func(w *fixture) {
			tn := w.tenant()
			var all []object.EarlierVersion
			for n := range 6 {
				v := someObject(tn.ID, blobCases, "x", tn.owner.ID)
				v.Size = 10
				all = append(all, keepTen.Ended(v, "", at(100+(n*5)%6), true)) // not in the order of their times
				w.keep(all[n])
			}
			slices.SortFunc(all, func(a, b object.EarlierVersion) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
			left := func(n int) {
				w.Helper()
				wantEqual(w, w.usedBy(tn.ID)[object.Versions], int64(10*(len(all)-n)))
				for i, v := range all {
					wantEqual(w, len(w.versionsOf(tn.ID, v.ID)) == 0, i < n)
				}
			}
			resultOf(w.Versions().Discard(w.ctx, tn.ID, nil, 11, 100, at(200))).is(w, 2)
			left(2)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, nil, 1000, 1, at(200))).is(w, 1)
			left(3)
			resultOf(w.Versions().Discard(w.ctx, tn.ID, nil, 1000, 100, at(200))).is(w, 3)
			left(6)
			wantEqual(w, len(w.dueNames(tn.ID)), 6)
		},
		"versions expire at their time, of all organisations": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			expiring := func(tn tenant, ms int) object.EarlierVersion {
				v := someObject(tn.ID, blobCases, "x", tn.owner.ID)
				v.Size = 1
				e := keepTen.Ended(v, "", longAgo(ms), true)
				e.ExpiresAt = longAgo(ms)
				w.keep(e)
				return e
			}
			due, theirs, later := expiring(tn, 100), expiring(other, 99), expiring(tn, 101)
			w.ok(w.Versions().Expire(w.ctx, longAgo(100)))
			wantEqual(w, w.versionsOf(tn.ID, due.ID), nil)
			wantEqual(w, w.versionsOf(other.ID, theirs.ID), nil)
			wantEqual(w, w.versionsOf(tn.ID, later.ID), []object.EarlierVersion{later})
			discarded := w.dueNames(tn.ID)
			wantEqual(w, discarded, []object.Blob{{Org: tn.ID, Name: due.Blob, Discarded: true, At: discarded[0].At}})
			wantEqual(w, w.usedBy(tn.ID)[object.Versions], 1)
			w.ok(w.Versions().Expire(w.ctx, longAgo(100)))
		},
		"a version is taken or it expires, and its blob has one owner": func(w *fixture) {
			tn := w.tenant()
			for range 8 {
				v := someObject(tn.ID, blobCases, "x", tn.owner.ID)
				e := keepTen.Ended(v, "", longAgo(50), true)
				e.ExpiresAt = longAgo(50)
				w.keep(e)
				errs := concurrently(3, func(i int) error {
					switch i {
					case 0:
						return w.Versions().Expire(w.ctx, longAgo(50))
					case 1:
						return must.ErrorOf(w.Versions().Discard(w.ctx, tn.ID, []id.Object{e.ID}, 0, 9, at(99)))
					}
					return must.ErrorOf(w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
						if _, err := s.Versions().Take(w.ctx, tn.ID, e.ID, e.Version); err != nil {
							return nil, err
						}
						return []object.Change{object.NewChange(v)}, s.Objects().Add(w.ctx, tn.ID, v)
					}))
				})
				w.allOK(errs[:2])
				discarded := slices.ContainsFunc(w.dueNames(tn.ID), func(b object.Blob) bool { return b.Name == e.Blob })
				wantEqual(w, discarded, errs[2] != nil)
				if errs[2] != nil {
					w.wantNotFound(errs[2])
				} else {
					must.Do(w.Objects().Get(w.ctx, tn.ID, v.ID)).Or(w)
					w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
						return []object.Change{object.NewDeletion(v, "", at(99), nil)}, s.Objects().Remove(w.ctx, tn.ID, []id.Object{v.ID})
					})
				}
				wantEqual(w, w.versionsOf(tn.ID, e.ID), nil)
			}
		},
		"a rollback restores versions, names and usage": func(w *fixture) {
			tn := w.tenant()
			v := w.deleted(tn.sharedObject, 7)
			was, names := w.usedBy(tn.ID), w.dueNames(tn.ID)
			w.rolledBack(func(r ports.Records) error {
				s := r.Storage()
				next := v
				next.Version, next.Blob = v.Version+1, v.BlobName(nextID())
				err := s.Versions().Keep(w.ctx, tn.ID, object.Retention{Days: 1, Versions: 1}, next)
				_, taken := s.Versions().Take(w.ctx, tn.ID, next.ID, next.Version)
				return errors.Join(err, taken)
			})
			wantEqual(w, w.usedBy(tn.ID), was)
			wantEqual(w, w.dueNames(tn.ID), names)
			wantEqual(w, w.versionsOf(tn.ID, v.ID), []object.EarlierVersion{v})
			w.rolledBack(func(r ports.Records) error {
				return must.ErrorOf(r.Storage().Versions().Discard(w.ctx, tn.ID, nil, 1, 1, at(9)))
			})
			wantEqual(w, w.deletedOf(tn.ID, nil, object.Filter{}), []object.EarlierVersion{v})
		},
		"replace keeps the previous content": func(w *fixture) {
			tn := w.tenant()
			epoch, two := w.epoch(tn.ID), object.Retention{Days: 3, Versions: 2}
			for _, v := range []object.Object{tn.sharedObject, tn.personalObject} {
				var kept []object.EarlierVersion
				sum := w.usedBy(tn.ID)
				for n := range 4 {
					c := w.successor(v)
					c.At = at(200 + n)
					if n == 2 {
						c.By = ""
					}
					c.N = must.Do(w.Storage.Replace(w.ctx, tn.ID, keeping(two, unlimited(c, v.Content, epoch)))).Or(w).N
					c.Object.N = c.N
					resultOf(w.Changes().List(w.ctx, tn.ID, c.N-1, 10)).is(w, []object.Change{c})
					kept = append([]object.EarlierVersion{two.Ended(v, c.By, c.At, false)}, kept...)
					sum[v.Class()] += c.Object.Size - v.Size
					sum[object.Versions] += v.Size
					if len(kept) > 2 {
						sum[object.Versions] -= kept[2].Size
						w.wantKnown(map[string]bool{kept[2].Blob: true})
						kept = kept[:2]
					}
					v = c.Object
					resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, v)
					wantEqual(w, w.versionsOf(tn.ID, v.ID), kept)
					wantEqual(w, w.usedBy(tn.ID), sum)
				}
			}
			wantEqual(w, len(w.dueNames(tn.ID)), 4)
			for _, b := range w.dueNames(tn.ID) {
				if !b.Discarded || b.At.Before(at(202)) {
					w.Errorf("%+v is to be removed", b)
				}
			}
		},
		"replace counts what it keeps": func(w *fixture) {
			tn := w.tenant()
			epoch, is := w.epoch(tn.ID), tn.sharedObject
			total := w.usedBy(tn.ID).Total()
			c := w.successor(is)
			replacement := keeping(keepTen, unlimited(c, is.Content, epoch))
			replacement.Limit = total + c.Object.Size - 1
			resultOf(w.Storage.Replace(w.ctx, tn.ID, replacement)).wantConflict(w)
			wantEqual(w, w.versionsOf(tn.ID, is.ID), nil)
			replacement.Limit++
			must.Do(w.Storage.Replace(w.ctx, tn.ID, replacement)).Or(w)
			wantEqual(w, w.usedBy(tn.ID).Total(), total+c.Object.Size)
			empty := w.successor(c.Object)
			empty.Object.Size = 0
			replacement = keeping(keepTen, unlimited(empty, c.Object.Content, epoch))
			replacement.Limit = 0
			must.Do(w.Storage.Replace(w.ctx, tn.ID, replacement)).Or(w)
			next := w.successor(empty.Object)
			// Versions that are there already count.
			replacement = unlimited(next, empty.Object.Content, epoch)
			replacement.Limit = total
			resultOf(w.Storage.Replace(w.ctx, tn.ID, replacement)).wantConflict(w)
		},
		"of concurrent replacements one succeeds and keeps the previous content": func(w *fixture) {
			tn := w.tenant()
			epoch, made := w.epoch(tn.ID), make([]object.Change, concurrent)
			for i := range made {
				made[i] = w.successor(tn.sharedObject)
			}
			was := tn.sharedObject.Content
			c := made[w.wantOneSuccess(concurrently(concurrent, func(i int) error {
				return must.ErrorOf(w.Storage.Replace(w.ctx, tn.ID, keeping(keepTen, unlimited(made[i], was, epoch))))
			}), fault.Conflict)]
			wantEqual(w, w.versionsOf(tn.ID, tn.sharedObject.ID), []object.EarlierVersion{keepTen.Ended(tn.sharedObject, c.By, c.At, false)})
			c.N, c.Object.N = 3, 3
			wantEqual(w, w.log(tn.ID)[2:], []object.Change{c})
			resultOf(w.Objects().Get(w.ctx, tn.ID, tn.sharedObject.ID)).is(w, c.Object)
		},
		"replace in a transaction keeps the previous content, and a rollback undoes it": func(w *fixture) {
			tn := w.tenant()
			c, was := w.successor(tn.sharedObject), w.usedBy(tn.ID)
			replacement := keeping(keepTen, unlimited(c, tn.sharedObject.Content, w.epoch(tn.ID)))
			w.rolledBack(func(r ports.Records) error {
				return must.ErrorOf(r.Storage().Replace(w.ctx, tn.ID, replacement))
			})
			wantEqual(w, w.usedBy(tn.ID), was)
			wantEqual(w, w.versionsOf(tn.ID, tn.sharedObject.ID), nil)
			w.atomic(func(r ports.Records) error {
				_, err := r.Storage().Replace(w.ctx, tn.ID, replacement)
				if err != nil {
					return err
				}
				v, err := r.Storage().Versions().Take(w.ctx, tn.ID, c.Object.ID, tn.sharedObject.Version)
				return errors.Join(err, r.Storage().BlobNames().Discard(w.ctx, tn.ID, []string{v.Blob}, at(1)))
			})
			was[object.SharedFiles] += c.Object.Size - tn.sharedObject.Size
			wantEqual(w, w.usedBy(tn.ID), was)
		},
		"an erased organisation's versions are discarded": func(w *fixture) {
			tn := w.tenant()
			v := w.deleted(tn.sharedObject, 3)
			w.erase(tn.ID, at(300))
			wantEqual(w, w.versionsOf(tn.ID, v.ID), nil)
			if !slices.Contains(w.dueNames(tn.ID), object.Blob{Org: tn.ID, Name: v.Blob, Discarded: true, At: at(300)}) {
				w.Error("the blob is not discarded")
			}
			wantEqual(w, w.usedBy(tn.ID), object.Usage{})
		},
	}.run(t, open)
}

// keep keeps a version.
func (w *fixture) keep(v object.EarlierVersion) {
	w.Helper()
	w.ok(w.Versions().Keep(w.ctx, v.Org, keepTen, v))
}

// deleted keeps what an object of the size was as the last version of a deleted one.
func (w *fixture) deleted(v object.Object, size int64) object.EarlierVersion {
	w.Helper()
	v.Blob, v.Size = v.BlobName(nextID()), size
	e := keepTen.Ended(v, v.UpdatedBy, at(100), true)
	w.keep(e)
	return e
}

func (w *fixture) versionsOf(o id.Org, of id.Object) (all []object.EarlierVersion) {
	w.Helper()
	w.ok(w.Versions().List(w.ctx, o, of, math.MaxInt64, 0, collect(&all)))
	return all
}

func (w *fixture) deletedOf(o id.Org, viewer *org.Actor, f object.Filter) (all []object.EarlierVersion) {
	w.Helper()
	w.ok(w.Versions().Deleted(w.ctx, o, viewer, f, collect(&all)))
	return all
}

// usedBy returns the usage of an organisation.
func (w *fixture) usedBy(o id.Org) object.Usage {
	w.Helper()
	return must.Do(w.Storage.Used(w.ctx, []id.Org{o})).Or(w)[o]
}
