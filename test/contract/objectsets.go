package contract

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// ObjectSets is the suite of ports.ObjectSets.
func ObjectSets(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"get returns the existing objects of the organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			resultOf(w.ObjectSets().Get(w.ctx, tn.ID, []id.Object{tn.personalObject.ID, fresh[id.Object](), "no id", other.sharedObject.ID, tn.sharedObject.ID, tn.sharedObject.ID})).
				is(w, map[id.Object]object.Object{tn.sharedObject.ID: tn.sharedObject, tn.personalObject.ID: tn.personalObject})
			resultOf(w.ObjectSets().Get(w.ctx, tn.ID, nil)).is(w, map[id.Object]object.Object{})
		},
		"a set of objects is stored with every field, is counted and numbered in order": func(w *fixture) {
			tn := w.tenant()
			want := w.used(tn.ID)
			var vs []object.Object
			for i, p := range w.places(tn) {
				v := someObject(tn.ID, p, fmt.Sprintf("Ünï %% _ 'cödé' \"日本\" 🦉/%d.md", i), tn.owner.ID)
				v.Size, v.Text = 1<<i, i%2 == 0
				want[v.Class()] += v.Size
				vs = append(vs, v)
			}
			head := w.logged(tn.ID, func(s ports.Storage) (made []object.Change, err error) {
				for _, v := range vs {
					made = append(made, object.NewChange(v))
				}
				return made, s.ObjectSets().Add(w.ctx, tn.ID, vs)
			})
			for i, v := range vs {
				v.N = head.N - int64(len(vs)-1-i)
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, v)
				resultOf(w.Objects().At(w.ctx, tn.ID, strings.ToUpper(v.StorageKey()))).is(w, v)
			}
			wantEqual(w, w.used(tn.ID), want)
		},
		"a set with a taken key or id is a conflict, and changes nothing": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched, theirs := w.content(tn), w.content(other)
			free, same, again := someObject(tn.ID, blobCases, "free.md", tn.owner.ID), someObject(tn.ID, blobCases, "SHARED.md", tn.owner.ID), someObject(tn.ID, blobCases, "again.md", tn.owner.ID)
			again.ID = tn.sharedObject.ID
			for _, wrong := range []object.Object{same, again} {
				_, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
					return []object.Change{object.NewChange(free)}, s.ObjectSets().Add(w.ctx, tn.ID, []object.Object{free, wrong})
				})
				w.wantConflict(err)
			}
			wantEqual(w, w.content(tn), untouched)
			wantEqual(w, w.content(other), theirs)
			w.wantNotFound(w.ObjectSets().Add(w.ctx, fresh[id.Org](), []object.Object{free}))
			w.ok(w.ObjectSets().Add(w.ctx, tn.ID, nil))
		},
		"a set with a missing workspace or team is not found, and changes nothing": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched := w.content(tn)
			free := someObject(tn.ID, blobCases, "free.md", tn.owner.ID)
			for _, p := range []object.Place{
				{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: &other.workspace.ID},
				{Kind: object.TeamMemory, Scope: object.Shared, Team: &other.team.ID},
			} {
				_, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
					return nil, s.ObjectSets().Add(w.ctx, tn.ID, []object.Object{free, someObject(tn.ID, p, "a.md", tn.owner.ID)})
				})
				w.wantNotFound(err)
			}
			wantEqual(w, w.content(tn), untouched)
		},
		"taken are the keys that add refuses": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			random := rand.New(rand.NewPCG(3, 4))
			segments := []string{"a", "A", "é", "E\u0301", "b%", "a!", "a0", "日本"}
			path := func() string {
				p := segments[random.IntN(len(segments))]
				for range random.IntN(3) {
					p += "/" + segments[random.IntN(len(segments))]
				}
				return p
			}
			var there []object.Object
			for range 12 {
				v := someObject(tn.ID, blobCases, path(), tn.owner.ID)
				if err := w.add(v); err == nil {
					there = append(there, v)
				}
				v.Org, v.ID = other.ID, fresh[id.Object]()
				_ = w.add(v) // another organisation's counts for nothing
			}
			var without []id.Object
			for _, v := range there[:2] {
				without = append(without, v.ID)
			}
			keys, want := map[string]bool{}, map[bool]map[string]id.Object{true: {}, false: {}}
			for range 60 {
				v := someObject(tn.ID, blobCases, path(), tn.owner.ID)
				keys[v.StorageKey()] = true
				for _, all := range []bool{true, false} {
					w.rolledBack(func(r ports.Records) error {
						if !all {
							w.ok(r.Storage().Objects().Remove(w.ctx, tn.ID, without))
						}
						if err := r.Storage().Objects().Add(w.ctx, tn.ID, v); err != nil {
							w.wantConflict(err)
							there, _ := r.Storage().Objects().At(w.ctx, tn.ID, v.StorageKey())
							want[all][v.StorageKey()] = there.ID
						}
						return nil
					})
				}
			}
			asked := slices.Sorted(maps.Keys(keys))
			resultOf(w.ObjectSets().Taken(w.ctx, tn.ID, asked, nil)).is(w, want[true])
			resultOf(w.ObjectSets().Taken(w.ctx, tn.ID, asked, without)).is(w, want[false])
			resultOf(w.ObjectSets().Taken(w.ctx, fresh[id.Org](), asked, nil)).is(w, map[string]id.Object{})
			resultOf(w.ObjectSets().Taken(w.ctx, tn.ID, nil, nil)).is(w, map[string]id.Object{})
			if len(want[true]) == 0 || len(want[true]) == len(asked) || len(want[true]) == len(want[false]) {
				w.Fatalf("of %d keys %d and %d are taken", len(asked), len(want[true]), len(want[false]))
			}
		},
		"deleted are the last versions of deleted objects by their keys": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			var keys []string
			want := map[string]int64{}
			for i, p := range w.places(tn) {
				v := someObject(tn.ID, p, "a.md", tn.owner.ID)
				longer := someObject(tn.ID, p, "a.mdx", tn.owner.ID)
				keys = append(keys, v.StorageKey(), longer.StorageKey())
				for _, n := range []int64{4, 9, 2} { // of different objects
					v.ID, v.Version, v.Blob = fresh[id.Object](), n+int64(i), v.BlobName(nextID())
					w.keep(keepTen.Ended(v, tn.owner.ID, at(100), true))
				}
				want[v.StorageKey()] = 9 + int64(i)
				longer.Version = 50
				w.keep(keepTen.Ended(longer, tn.owner.ID, at(100), false)) // is replaced, not deleted
			}
			w.deleted(other.sharedObject, 1)
			resultOf(w.ObjectSets().Deleted(w.ctx, tn.ID, append(keys, other.sharedObject.StorageKey(), tn.sharedObject.StorageKey()))).is(w, want)
			resultOf(w.ObjectSets().Deleted(w.ctx, other.ID, keys)).is(w, map[string]int64{})
			resultOf(w.ObjectSets().Deleted(w.ctx, tn.ID, nil)).is(w, map[string]int64{})
		},
		"keys of the longest paths are looked for": func(w *fixture) {
			tn := w.tenant()
			path := func(n int) string { return strings.Repeat("é/", object.MaxPath/3-2) + fmt.Sprint(n) }
			v := w.addObject(someObject(tn.ID, blobCases, path(500), tn.owner.ID))
			var keys []string
			for n := 495; n < 505; n++ {
				v.Path = path(n)
				keys = append(keys, v.StorageKey())
			}
			resultOf(w.ObjectSets().Taken(w.ctx, tn.ID, keys, nil)).is(w, map[string]id.Object{keys[5]: v.ID})
		},
		"a set of names is announced as single ones are, or none of it": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			var want []object.Blob
			var names []string
			for range 50 {
				b := object.Blob{Org: o, Name: someName(o), At: at(1)}
				want, names = append(want, b), append(names, b.Name)
			}
			w.ok(w.ObjectSets().Announce(w.ctx, o, names, at(1)))
			w.wantConflict(w.ObjectSets().Announce(w.ctx, o, []string{someName(o), names[7]}, at(2)))
			w.ok(w.ObjectSets().Announce(w.ctx, o, nil, at(1)))
			wantEqual(w, w.dueNames(o), want)
			w.wantNotFound(w.store.Atomic(w.ctx, func(r ports.Records) error { return r.Storage().ObjectSets().Forget(w.ctx, other, names[:1]) }))
			w.ok(w.BlobNames().Discard(w.ctx, o, names[49:], at(3))) // an announced name stays as it is
			w.ok(w.ObjectSets().Forget(w.ctx, o, names[:30]))
			w.ok(w.ObjectSets().Forget(w.ctx, o, nil))
			w.wantNotFound(w.store.Atomic(w.ctx, func(r ports.Records) error { return r.Storage().ObjectSets().Forget(w.ctx, o, names[29:40]) }))
			wantEqual(w, len(w.dueNames(o)), 20)
		},
		"of concurrent sets with one name one is announced": func(w *fixture) {
			o := w.org().ID
			shared := someName(o)
			errs := concurrently(concurrent, func(i int) error {
				return w.ObjectSets().Announce(w.ctx, o, []string{someName(o), shared}, at(i))
			})
			w.wantOneSuccess(errs, fault.Conflict)
			wantEqual(w, len(w.dueNames(o)), 2)
		},
	}.run(t, open)
}
