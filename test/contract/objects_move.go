package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// at returns the object's next version at another path.
func (w *fixture) at(v object.Object, path string) object.Object {
	w.Helper()
	return must.Do(v.Moved(path, org.Actor{Org: v.Org, User: fresh[id.User]()}, at(85))).Or(w)
}

// move moves an object to another path.
func (w *fixture) move(v object.Object, path string) error {
	next := w.at(v, path)
	return must.ErrorOf(w.append(v.Org, func(s ports.Storage) ([]object.Change, error) {
		return []object.Change{object.NewMove(next, v.Path)}, s.Objects().Put(w.ctx, v.Org, next)
	}))
}

// moved is move that must not fail. It returns the object as it is stored.
func (w *fixture) moved(v object.Object, path string) object.Object {
	w.Helper()
	w.ok(w.move(v, path))
	next := must.Do(w.Objects().Get(w.ctx, v.Org, v.ID)).Or(w)
	if next.Path != path || next.Version != v.Version+1 || next.Content != v.Content {
		w.Fatalf("%+v is at %s", next, path)
	}
	return next
}

func putMoves(w *fixture) {
	tn, other := w.tenant(), w.tenant()
	untouched := w.content(other)
	v, beside := w.addObject(someObject(tn.ID, blobCases, "a/b.md", tn.owner.ID)), w.addObject(someObject(tn.ID, blobCases, "c.md", tn.owner.ID))
	used := w.used(tn.ID)
	for _, path := range []string{"a/B.md", "Ä/B.md", "a/b.md/c", "a", "A/b.md/c/d", "a/b.md", "%_'", "é/é.md"} {
		was := v
		v = w.moved(v, path)
		resultOf(w.Objects().At(w.ctx, tn.ID, v.StorageKey())).is(w, v)
		if object.Fold(was.Path) != object.Fold(v.Path) {
			resultOf(w.Objects().At(w.ctx, tn.ID, was.StorageKey())).wantNotFound(w)
			free := someObject(tn.ID, blobCases, was.Path, tn.owner.ID)
			if !strings.HasPrefix(object.Fold(v.Path), object.Fold(was.Path)+"/") && !strings.HasPrefix(object.Fold(was.Path), object.Fold(v.Path)+"/") {
				w.ok(w.add(free))
				w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{free.ID}))
			}
		}
		wantEqual(w, w.objectsOf(tn.ID, object.Filter{Prefix: v.StorageKey()}), []object.Object{v})
	}
	for _, path := range []string{"c.md", "C.MD", "c.md/d", "shared.md"} {
		was := w.content(tn)
		w.wantConflict(w.move(v, path))
		wantEqual(w, w.content(tn), was)
	}
	w.ok(w.move(v, "personal/a.md")) // the path of an object of another place
	resultOf(w.Objects().Get(w.ctx, tn.ID, beside.ID)).is(w, beside)
	wantEqual(w, w.used(tn.ID), used)
	theirs := w.at(other.sharedObject, "mine.md")
	theirs.Org = tn.ID
	w.wantNotFound(w.Objects().Put(w.ctx, tn.ID, theirs))
	wantEqual(w, w.content(other), untouched)
	w.ok(w.Objects().Put(w.ctx, tn.ID))
}

func putMovesMany(w *fixture) {
	const many = 300
	tn := w.tenant()
	vs := make([]object.Object, many)
	for i := range vs {
		vs[i] = someObject(tn.ID, blobCases, fmt.Sprintf("From/%d/%d.md", i%10, i), tn.owner.ID)
	}
	vs = w.addObjects(vs...)
	used := w.used(tn.ID)
	move := func(path func(i int) string) error {
		next, made := slices.Clone(vs), make([]object.Change, many)
		for i, v := range vs {
			next[i] = w.at(v, path(i))
			made[i] = object.NewMove(next[i], v.Path)
		}
		head, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) { return made, s.Objects().Put(w.ctx, tn.ID, next...) })
		if err == nil {
			for i := range next {
				next[i].N = head.N - many + int64(i) + 1
			}
			vs = next
		}
		return err
	}
	to := func(folder string) func(int) string {
		return func(i int) string { return folder + strings.TrimPrefix(vs[i].Path, "From") }
	}
	inTheWay := w.addObject(someObject(tn.ID, blobCases, "to/3/253.MD", tn.owner.ID))
	was := w.content(tn)
	err := move(to("To"))
	w.wantConflict(err)
	if want := object.PathTaken("To/3/253.md").Error(); err.Error() != want {
		w.Errorf("the error is %q, want %q", err, want)
	}
	wantEqual(w, w.content(tn), was)
	w.ok(w.move(inTheWay, "to/x"))
	w.ok(move(to("To")))
	w.ok(w.Objects().Remove(w.ctx, tn.ID, []id.Object{inTheWay.ID}))
	for i := range vs {
		vs[i].Path = "From" + strings.TrimPrefix(vs[i].Path, "To")
	}
	w.ok(move(to("to")))
	w.ok(move(func(i int) string { return vs[(i+1)%many].Path })) // each takes the path of another one
	slices.SortFunc(vs, byStorageKey)
	folder := strings.TrimSuffix(vs[0].StorageKey(), vs[0].Path)
	wantEqual(w, w.objectsOf(tn.ID, object.Filter{Prefix: folder + "to/"}), vs)
	wantEqual(w, w.objectsOf(tn.ID, object.Filter{Folder: object.Fold(folder + "TO"), Limit: many + 1}), w.objectsOf(tn.ID, object.Filter{Folder: object.Fold(folder + "to")}))
	wantEqual(w, w.objectsOf(tn.ID, object.Filter{Folder: object.Fold(folder + "from")}), nil)
	wantEqual(w, w.used(tn.ID), used)
}

// moveProperty holds additions, removals and moves of files and of whole folders against a list of paths
// in which case does not matter and a path is a file or a folder.
func moveProperty(w *fixture) {
	tn := w.tenant()
	actor := org.Actor{Org: tn.ID, User: tn.owner.ID}
	folders := rapid.SampledFrom([]string{"a", "A", "b", "a/b", "A/B/a", "b/ä"})
	names := []string{"", "", "/a", "/b", "/Ä/b", "/s", "/ſ", "/_", "/%", "-", "0", " b/a", "'"} // - and 0 are around /
	path := rapid.Custom(func(t *rapid.T) string {
		return folders.Draw(t, "folder") + rapid.SampledFrom(names).Draw(t, "name")
	})
	undo := errors.New("undo")
	rapid.Check(w.T, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [3]any {
			return [3]any{rapid.IntRange(0, 5).Draw(t, "what"), path.Draw(t, "from"), path.Draw(t, "to")}
		}), 4, 14).Draw(t, "steps")
		var wrong string
		err := w.store.Atomic(w.ctx, func(r ports.Records) error {
			if _, err := r.Storage().Changes().Lock(w.ctx, tn.ID); err != nil {
				return err
			}
			objects := r.Storage().Objects()
			there := []object.Object{tn.sharedObject}
			wrong = ""
			for n, step := range steps {
				what, from, to := step[0].(int), step[1].(string), step[2].(string)
				var next []object.Object // the objects that the step stores
				var err error
				switch picked := selected(there, n); {
				case what <= 2 || len(there) == 1: // the fixture's own object stays where it is
					next = []object.Object{someObject(tn.ID, blobCases, from, tn.owner.ID)}
					err = objects.Add(w.ctx, tn.ID, next[0])
				case what == 3:
					next = []object.Object{w.at(picked, to)}
					err = objects.Put(w.ctx, tn.ID, next...)
				case what == 4:
					err = objects.Remove(w.ctx, tn.ID, []id.Object{picked.ID})
					there = slices.DeleteFunc(there, func(v object.Object) bool { return v.ID == picked.ID })
				default:
					m, invalid := object.NewFolderMove(actor, object.Draft{Kind: blobCases.Kind, Scope: blobCases.Scope}, from, to, at(86))
					if invalid != nil {
						continue
					}
					var all []object.Object
					if err := objects.List(w.ctx, tn.ID, nil, m.Filter(), nil, collect(&all)); err != nil {
						return err
					}
					for _, v := range all {
						next = append(next, must.Do(m.Moved(v)).Or(w))
					}
					below := 0
					for _, v := range there {
						if strings.HasPrefix(object.Fold(v.Path), object.Fold(from)+"/") {
							below++
						}
					}
					if len(all) != below {
						wrong = fmt.Sprintf("step %d of %v finds %d objects in a folder of %d", n, steps, len(all), below)
						return undo
					}
					err = objects.Put(w.ctx, tn.ID, next...)
				}
				after, taken := stored(there, next)
				if (taken != "") != (err != nil) || taken != "" && what > 2 && len(there) > 1 && err.Error() != object.PathTaken(taken).Error() {
					wrong = fmt.Sprintf("step %d of %v gives %v, but %q is taken", n, steps, err, taken)
					return undo
				}
				if err == nil {
					there = after
				}
			}
			var got []object.Object
			err := objects.List(w.ctx, tn.ID, nil, object.Filter{Kind: blobCases.Kind, Scope: blobCases.Scope}, nil, collect(&got))
			slices.SortFunc(there, byStorageKey)
			if d := diff(got, there); d != "" || err != nil {
				wrong = fmt.Sprintf("%v, after %v (-want +got):\n%s", err, steps, d)
			}
			return undo
		})
		if err != undo { //nolint:errorlint // the very same error is the point
			t.Fatalf("unexpected error: %v", err)
		}
		if wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// selected returns one of the objects after the first, in turns.
func selected(there []object.Object, n int) object.Object {
	return there[min(1+n%max(1, len(there)-1), len(there)-1)]
}

// stored returns the objects after some were stored, and the path of the first that cannot be.
func stored(there, next []object.Object) (after []object.Object, taken string) {
	after = slices.DeleteFunc(slices.Clone(there), func(v object.Object) bool {
		return slices.ContainsFunc(next, func(n object.Object) bool { return n.ID == v.ID })
	})
	for _, v := range next {
		path := object.Fold(v.Path) + "/"
		for _, other := range after {
			if folded := object.Fold(other.Path) + "/"; strings.HasPrefix(path, folded) || strings.HasPrefix(folded, path) {
				return nil, v.Path
			}
		}
		after = append(after, v)
	}
	return after, ""
}
