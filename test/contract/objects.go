package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// blobCases is the place of what every member sees.
var blobCases = object.Place{Kind: object.Template, Scope: object.Shared}

// Objects is the suite of ports.Objects.
func Objects(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown object is not found, nor is another organisation's": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched := w.content(other)
			unknown := someObject(tn.ID, blobCases, "unknown.md", tn.owner.ID)
			for _, v := range []object.Object{unknown, other.sharedObject} {
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
				resultOf(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).wantNotFound(w)
				v.Org, v.Version = tn.ID, 99
				w.wantNotFound(w.Objects().Put(w.ctx, tn.ID, v))
			}
			resultOf(w.Objects().At(w.ctx, tn.ID, "")).wantNotFound(w)
			w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{unknown.ID, other.sharedObject.ID, other.personalObject.ID}))
			w.ok(w.Objects().Remove(w.ctx, tn.ID, nil))
			wantEqual(w, w.objectsOf(tn.ID, object.Filter{}), []object.Object{tn.personalObject, tn.sharedObject})
			wantEqual(w, w.objectsOf(tn.ID, object.Filter{Prefix: string(other.ID)}), nil)
			wantEqual(w, w.objectsOf(fresh[id.Org](), object.Filter{}), nil)
			wantEqual(w, w.content(other), untouched)
		},
		"an unknown organisation gets no object": func(w *fixture) {
			w.wantNotFound(w.Objects().Add(w.ctx, fresh[id.Org](), someObject(fresh[id.Org](), blobCases, "a.md", "")))
		},
		"an object is returned with every field as stored": func(w *fixture) {
			tn := w.tenant()
			for i, p := range w.places(tn) {
				v := someObject(tn.ID, p, fmt.Sprintf("Ünï %% _ 'cödé' 日本 🦉/%d.md", i), tn.owner.ID)
				w.ok(w.add(v))
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, v)
				resultOf(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).is(w, v)
				wantEqual(w, w.objectsOf(tn.ID, object.Filter{Prefix: v.StorageKey()}), []object.Object{v})
			}
			for name, change := range map[string]func(*object.Object){
				"empty content":   func(v *object.Object) { v.Content = object.Content{Blob: v.Blob} },
				"a first version": func(v *object.Object) { v.Version = 1 },
				"a high version":  func(v *object.Object) { v.Version = 1 << 40 },
				"no text":         func(v *object.Object) { v.Text = false },
				"the longest path": func(v *object.Object) {
					segment := "/" + strings.Repeat("é", object.MaxSegment/2)
					v.Path = "a" + strings.Repeat(segment, (object.MaxPath-1)/len(segment))
				},
			} {
				v := someObject(tn.ID, blobCases, name, tn.owner.ID)
				change(&v)
				w.ok(w.add(v))
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, v)
			}
		},
		"put replaces the record and no other": func(w *fixture) {
			tn := w.tenant()
			v, beside := w.addObject(someObject(tn.ID, blobCases, "a.md", tn.owner.ID)), w.addObject(someObject(tn.ID, blobCases, "b.md", tn.owner.ID))
			v = v.WithContent(object.Content{Blob: v.BlobName(nextID()), Size: 0, Checksum: strings.Repeat("f", 64)}, tn.removed.ID, at(80))
			v.MimeType = "image/png"
			v.N = w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{object.NewChange(v)}, s.Objects().Put(w.ctx, tn.ID, v)
			}).N
			resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, v)
			resultOf(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).is(w, v)
			resultOf(w.Objects().Get(w.ctx, tn.ID, beside.ID)).is(w, beside)
		},
		"put moves objects": putMoves,
		"put moves hundreds of objects, and names the first that cannot":   putMovesMany,
		"objects are added and moved as in a case-insensitive file system": moveProperty,
		"of concurrent moves to one path one succeeds": func(w *fixture) {
			tn := w.tenant()
			paths := []string{"to.md", "TO.md", "to.md/b"}
			vs := make([]object.Object, concurrent)
			for i := range vs {
				vs[i] = someObject(tn.ID, blobCases, fmt.Sprint(i), tn.owner.ID)
			}
			vs = w.addObjects(vs...)
			w.wantOneSuccess(concurrently(concurrent, func(i int) error {
				return w.move(vs[i], paths[i%2])
			}), fault.Conflict)
			w.wantConflict(w.add(someObject(tn.ID, blobCases, paths[2], tn.owner.ID)))
		},
		"an object is found by its storage key in any case and normal form": func(w *fixture) {
			tn := w.tenant()
			v := w.addObject(someObject(tn.ID, blobCases, "Ärger/Straße K.md", tn.owner.ID))
			folder := strings.TrimSuffix(v.StorageKey(), v.Path)
			for _, path := range []string{
				v.Path, "ärger/straße k.md", "ÄRGER/STRAẞE K.MD", "A\u0308rger/Straße K.md", "a\u0308RGER/ſtraße \u212A.md",
			} {
				resultOf(w.Objects().At(w.ctx, tn.ID, folder+path)).is(w, v)
				resultOf(w.Objects().At(w.ctx, tn.ID, strings.ToUpper(folder)+path)).is(w, v)
			}
			for _, path := range []string{"Arger/Straße K.md", "Ärger/Strasse K.md", "Ärger", "Ärger/", "Ärger/Straße K.md/", "Ärger/Straße K_md", "Ärger/Straße%"} {
				resultOf(w.Objects().At(w.ctx, tn.ID, folder+path)).wantNotFound(w)
			}
		},
		"a path that differs from another's only in case or normal form is a conflict": func(w *fixture) {
			tn := w.tenant()
			own := object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: &tn.owner.ID}
			other := own
			other.Kind = object.HubMemory // lies in the same folder
			w.ok(w.add(someObject(tn.ID, own, "Ärger/Straße.md", tn.owner.ID)))
			for _, path := range []string{"Ärger/Straße.md", "ärger/STRAẞE.md", "ÄRGER/ſTRAẞE.MD"} {
				w.wantConflict(w.add(someObject(tn.ID, other, path, tn.owner.ID)))
			}
			w.ok(w.add(someObject(tn.ID, other, "ärger/STRASSE.md", tn.owner.ID)))
			w.ok(w.add(someObject(tn.ID, blobCases, "Ärger/Straße.md", tn.owner.ID)))
		},
		"a path is free again when its object was removed": func(w *fixture) {
			tn := w.tenant()
			v := w.addObject(someObject(tn.ID, blobCases, "a/b", tn.owner.ID))
			again, below := someObject(tn.ID, blobCases, "A/B", tn.owner.ID), someObject(tn.ID, blobCases, "a/b/c", tn.owner.ID)
			w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{object.NewDeletion(v, tn.owner.ID, at(80), nil), object.NewChange(below)}, errors.Join(
					s.Objects().Remove(w.ctx, tn.ID, []id.Object{v.ID}), s.Objects().Add(w.ctx, tn.ID, below),
				)
			})
			w.wantConflict(w.add(again))
			w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{below.ID}))
			w.ok(w.add(again))
			resultOf(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).is(w, again)
		},
		"a taken id is a conflict, and replaces no object of another organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			again := someObject(tn.ID, blobCases, "again.md", tn.owner.ID)
			again.ID = tn.sharedObject.ID
			w.wantConflict(w.add(again))
			resultOf(w.Objects().Get(w.ctx, tn.ID, tn.sharedObject.ID)).is(w, tn.sharedObject)
			resultOf(w.Objects().At(w.ctx, tn.ID, again.StorageKey())).wantNotFound(w)
			again.ID = other.sharedObject.ID
			if err := w.add(again); err != nil {
				w.wantConflict(err)
				again.ID = fresh[id.Object]()
				w.ok(w.add(again))
			}
			resultOf(w.Objects().Get(w.ctx, other.ID, other.sharedObject.ID)).is(w, other.sharedObject)
		},
		"of concurrent additions of one path one succeeds": func(w *fixture) {
			tn := w.tenant()
			paths := []string{"a.md", "A.md", "a.md/b", "A.MD/c"}
			for _, other := range []int{1, 3} {
				w.wantOneSuccess(concurrently(concurrent, func(i int) error {
					return w.add(someObject(tn.ID, blobCases, fmt.Sprintf("%d/%s", other, paths[i%2*other]), tn.owner.ID))
				}), fault.Conflict)
			}
		},
		"only a shared object needs an existing workspace and team of its organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for i, in := range []id.Workspace{fresh[id.Workspace](), other.workspace.ID} {
				v := someObject(tn.ID, object.Place{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: &in}, "a.md", tn.owner.ID)
				w.wantNotFound(w.add(v))
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
				own := someObject(tn.ID, object.Place{Kind: object.Artifact, Scope: object.Personal, Workspace: &in, Owner: &tn.owner.ID}, fmt.Sprint(i), tn.owner.ID)
				w.ok(w.add(own))
				resultOf(w.Objects().Get(w.ctx, tn.ID, own.ID)).is(w, own)
			}
			for _, in := range []id.Team{fresh[id.Team](), other.team.ID} {
				v := someObject(tn.ID, object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: &in}, "a.md", tn.owner.ID)
				w.wantNotFound(w.add(v))
				resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
			}
		},
		"a workspace and a team are not removed while shared objects are in them": func(w *fixture) {
			tn := w.tenant()
			inside := w.addObject(someObject(tn.ID, object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: &tn.workspace.ID}, "a.md", tn.owner.ID))
			remembered := w.addObject(someObject(tn.ID, object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: &tn.team.ID}, "a.md", tn.owner.ID))
			beside := w.team(tn.ID, tn.owner.ID).ID
			w.addObject(someObject(tn.ID, object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: &beside}, "a.md", tn.owner.ID))
			was := w.content(tn)
			w.wantConflict(w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))
			wantEqual(w, w.content(tn), was)
			w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{inside.ID}))
			w.ok(w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))
			was = w.content(tn)
			w.wantConflict(w.Teams().Remove(w.ctx, tn.ID, tn.team.ID))
			wantEqual(w, w.content(tn), was)
			w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{remembered.ID}))
			w.ok(w.Teams().Remove(w.ctx, tn.ID, tn.team.ID))
			resultOf(w.Objects().Get(w.ctx, tn.ID, tn.personalObject.ID)).is(w, tn.personalObject)
		},
		"no object is left in a workspace that is removed concurrently": func(w *fixture) {
			for range 8 {
				tn := w.tenant()
				v := someObject(tn.ID, object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: &tn.workspace.ID}, "a.md", tn.owner.ID)
				errs := concurrently(2, func(i int) error {
					if i == 0 {
						return w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID)
					}
					return w.add(v)
				})
				if errs[0] == nil {
					w.wantNotFound(errs[1])
					resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
				} else {
					w.wantConflict(errs[0])
					w.ok(errs[1])
					resultOf(w.Workspaces().Get(w.ctx, tn.ID, tn.workspace.ID)).is(w, tn.workspace)
				}
			}
		},
		"remove accepts a thousand objects, and ignores missing ones": func(w *fixture) {
			tn := w.tenant()
			var all []object.Object
			var ids []id.Object
			for i := range 1000 {
				v := someObject(tn.ID, blobCases, fmt.Sprintf("%04d.md", i), tn.owner.ID)
				all, ids = append(all, v), append(ids, v.ID, fresh[id.Object]())
			}
			w.addObjects(all...)
			kept := all[500]
			w.ok(w.Objects().Remove(w.ctx, tn.ID, slices.DeleteFunc(ids, func(i id.Object) bool { return i == kept.ID })))
			wantEqual(w, w.objectsOf(tn.ID, object.Filter{}), []object.Object{tn.personalObject, kept, tn.sharedObject})
		},
		"list calls each with the selected records, in order": objectListProperty,
		"an error of head or each ends the list and is returned": func(w *fixture) {
			tn := w.tenant()
			wantStop(w, func(head func(object.Head) error) error {
				return w.Objects().List(w.ctx, tn.ID, nil, object.Filter{}, head, func(object.Object) error { return errors.New("called") })
			})
			wantStop(w, func(each func(object.Object) error) error {
				return w.Objects().List(w.ctx, tn.ID, nil, object.Filter{}, nil, each)
			})
		},
		"list calls head once, before the objects, also if there are none": func(w *fixture) {
			tn, empty := w.tenant(), w.org().ID
			for o, want := range map[id.Org][]string{tn.ID: {"head", "each", "each"}, empty: {"head"}} {
				for _, viewer := range []*org.Actor{nil, {User: tn.owner.ID, Org: o}} {
					var calls []string
					var head object.Head
					w.ok(w.Objects().List(w.ctx, o, viewer, object.Filter{}, func(h object.Head) error {
						calls, head = append(calls, "head"), h
						return nil
					}, func(object.Object) error {
						calls = append(calls, "each")
						return nil
					}))
					wantEqual(w, calls, want)
					wantEqual(w, head, w.head(o))
				}
			}
		},
		"list in a transaction shows what the transaction wrote": func(w *fixture) {
			tn := w.tenant()
			v := someObject(tn.ID, blobCases, "a.md", tn.owner.ID)
			w.atomic(func(r ports.Records) error {
				s := r.Storage()
				if err := s.Objects().Add(w.ctx, tn.ID, v); err != nil {
					return err
				}
				head, err := s.Changes().Append(w.ctx, tn.ID, object.NewChange(v))
				if err != nil {
					return err
				}
				var all []object.Object
				err = s.Objects().List(w.ctx, tn.ID, nil, object.Filter{}, func(h object.Head) error {
					wantEqual(w, h, head)
					return nil
				}, collect(&all))
				wantEqual(w, len(all), 3)
				return err
			})
		},
		"the list and the head read one snapshot": func(w *fixture) {
			tn := w.tenant()
			w.whileWriting(tn, func() (func([]object.Change), error) {
				var head object.Head
				got := map[id.Object]object.Object{}
				err := w.Objects().List(w.ctx, tn.ID, nil, object.Filter{}, func(h object.Head) error {
					head = h
					return nil
				}, func(v object.Object) error {
					got[v.ID] = v
					return nil
				})
				return func(log []object.Change) { wantEqual(w, got, folded(log, head.N)) }, err
			})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			tn := w.tenant()
			for _, p := range w.places(tn) {
				v := someObject(tn.ID, p, "alias.md", tn.owner.ID)
				get := func() object.Object { return must.Do(w.Objects().Get(w.ctx, tn.ID, v.ID)).Or(w) }
				keepsNothing(w, v, w.add, get)
				keepsNothing(w, v, func(v object.Object) error { return w.Objects().Put(w.ctx, tn.ID, v) }, get,
					func() object.Object { return must.Do(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).Or(w) },
					func() object.Object { return w.objectsOf(tn.ID, object.Filter{Prefix: v.StorageKey()})[0] })
				ids := []id.Object{v.ID}
				w.ok(w.Objects().Remove(w.ctx, tn.ID, ids))
				wantEqual(w, ids, []id.Object{v.ID})
			}
		},
	}.run(t, open)
}

// add adds an object under the Lock, without a change.
func (w *fixture) add(v object.Object) error {
	return must.ErrorOf(w.append(v.Org, func(s ports.Storage) ([]object.Change, error) { return nil, s.Objects().Add(w.ctx, v.Org, v) }))
}

// places are one place of each sort that a tenant has.
func (w *fixture) places(tn tenant) []object.Place {
	w.Helper()
	member := w.member(tn.ID, org.Member).ID
	return []object.Place{
		{Kind: object.Artifact, Scope: object.Shared},
		{Kind: object.Artifact, Scope: object.Shared, Workspace: &tn.workspace.ID},
		{Kind: object.HubMemory, Scope: object.Shared},
		{Kind: object.TeamMemory, Scope: object.Shared, Team: &tn.team.ID},
		{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: &tn.workspace.ID},
		blobCases,
		{Kind: object.BrandAsset, Scope: object.Shared},
		{Kind: object.Artifact, Scope: object.Personal, Owner: &tn.owner.ID},
		{Kind: object.HubMemory, Scope: object.Personal, Owner: &member, Workspace: &tn.workspace.ID},
	}
}

// seeing returns the actor with the visibility of those teams and workspaces.
func seeing(a org.Actor, teams []id.Team, workspaces []id.Workspace) org.Actor {
	const beside = "of a team"
	a.Visibility = org.NewStructure(append(slices.Clone(teams), beside), func(yield func(id.Workspace, id.Team) bool) {
		for _, s := range workspaces {
			if !yield(s, beside) {
				return
			}
		}
	}).Visibility(0, func(int) (visible, belongs bool) { return true, true })
	return a
}

func byStorageKey(a, b object.Object) int { return strings.Compare(a.StorageKey(), b.StorageKey()) }

// folded returns the objects that are there after the log's entries up to n.
func folded(log []object.Change, n int64) map[id.Object]object.Object {
	there := map[id.Object]object.Object{}
	for _, c := range log {
		if c.N > n {
			break
		}
		switch c.Type {
		case object.Changed:
			there[c.Object.ID] = c.Object
		case object.Deleted:
			delete(there, c.Object.ID)
		}
	}
	return there
}

// whileWriting calls read again and again while others write, replace and
// remove objects of the tenant, and in the end every check that it returned
// with the whole log.
func (w *fixture) whileWriting(tn tenant, read func() (check func(log []object.Change), err error)) {
	w.Helper()
	const writers, readers = 4, 2
	var writing, reading sync.WaitGroup
	errs := make([]error, writers+readers)
	checks := make([][]func([]object.Change), readers)
	written := make(chan struct{})
	for i := range writers {
		writing.Go(func() { errs[i] = w.writeInTurns(tn, i) })
	}
	for i := range readers {
		reading.Go(func() {
			for {
				check, err := read()
				if err != nil {
					errs[writers+i] = err
					return
				}
				checks[i] = append(checks[i], check)
				select {
				case <-written:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(written)
	reading.Wait()
	w.allOK(errs)
	log := w.log(tn.ID)
	for _, check := range slices.Concat(checks...) {
		check(log)
	}
}

// writeInTurns adds objects, each in a transaction in which the one before it
// is replaced or removed.
func (w *fixture) writeInTurns(tn tenant, writer int) error {
	const rounds = 12
	var before object.Object
	for n := range rounds {
		v := someObject(tn.ID, blobCases, fmt.Sprintf("%d/%d.md", writer, n), tn.owner.ID)
		_, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
			made, err := []object.Change{object.NewChange(v)}, s.Objects().Add(w.ctx, tn.ID, v)
			switch {
			case err != nil || n == 0:
			case n%2 == 0:
				next := before.WithContent(object.Content{Blob: before.BlobName("next")}, tn.owner.ID, at(80))
				made, err = append(made, object.NewChange(next)), s.Objects().Put(w.ctx, tn.ID, next)
			default:
				made = append(made, object.NewDeletion(before, tn.owner.ID, at(80), nil))
				err = s.Objects().Remove(w.ctx, tn.ID, []id.Object{before.ID})
			}
			return made, err
		})
		if err != nil {
			return err
		}
		before = v
	}
	return nil
}
