package contract

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// BlobNames is the suite of ports.BlobNames.
func BlobNames(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an announced name exists until it is forgotten": func(w *fixture) {
			o := w.org().ID
			b := object.Blob{Org: o, Name: someName(o), At: at(1)}
			w.wantKnown(map[string]bool{b.Name: false})
			w.ok(w.BlobNames().Announce(w.ctx, o, b.Name, 0, b.At))
			w.wantKnown(map[string]bool{b.Name: true})
			wantEqual(w, w.dueNames(o), []object.Blob{b})
			b.At = at(999) // counts for nothing
			w.ok(w.BlobNames().Forget(w.ctx, b))
			w.wantKnown(map[string]bool{b.Name: false})
			wantEqual(w, w.dueNames(o), nil)
			w.wantNotFound(w.BlobNames().Forget(w.ctx, b))
			w.ok(w.BlobNames().Announce(w.ctx, o, b.Name, 0, b.At))
		},
		"an existing name is a conflict": func(w *fixture) {
			o := w.org().ID
			announced, discarded := object.Blob{Org: o, Name: someName(o), At: at(1)}, object.Blob{Org: o, Name: someName(o), Discarded: true, At: at(2)}
			w.ok(w.BlobNames().Announce(w.ctx, o, announced.Name, 0, announced.At))
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{discarded.Name}, discarded.At))
			w.wantConflict(w.BlobNames().Announce(w.ctx, o, announced.Name, 0, at(3)))
			w.wantConflict(w.BlobNames().Announce(w.ctx, o, discarded.Name, 0, at(3)))
			wantEqual(w, w.dueNames(o), []object.Blob{announced, discarded})
		},
		"of concurrent announcements of one name one succeeds": func(w *fixture) {
			o := w.org().ID
			name := someName(o)
			w.wantOneSuccess(concurrently(concurrent, func(i int) error { return w.BlobNames().Announce(w.ctx, o, name, 0, at(i)) }), fault.Conflict)
		},
		"the announced names of an organisation that have sizes are counted, and the sizes": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			announced := func(want int, sizes int64) {
				w.Helper()
				names, size, err := w.Storage.Announced(w.ctx, o)
				w.ok(err)
				wantEqual(w, [2]int64{int64(names), size}, [2]int64{int64(want), sizes})
			}
			announced(0, 0)
			first, second := someName(o), someName(o)
			w.ok(w.BlobNames().Announce(w.ctx, o, first, 5<<40, at(1)))
			w.ok(w.BlobNames().Announce(w.ctx, o, second, 7, at(2)))
			w.ok(w.BlobNames().Announce(w.ctx, o, someName(o), 0, at(2)))
			w.ok(w.BlobNames().Announce(w.ctx, other, someName(other), 9, at(3)))
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{someName(o)}, at(4)))
			announced(2, 5<<40+7)
			w.ok(w.BlobNames().Forget(w.ctx, object.Blob{Org: o, Name: first}))
			announced(1, 7)
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{second}, at(5)))
			announced(0, 0)
		},
		"different names are announced concurrently": func(w *fixture) {
			o := w.org().ID
			names := make([]string, concurrent)
			for i := range names {
				names[i] = someName(o)
			}
			w.allOK(concurrently(concurrent, func(i int) error { return w.BlobNames().Announce(w.ctx, o, names[i], 0, at(i)) }))
			for i, b := range w.dueNames(o) {
				wantEqual(w, b, object.Blob{Org: o, Name: names[i], At: at(i)})
			}
		},
		"forget removes only a name of the organisation with the given state": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			announced, discarded := object.Blob{Org: o, Name: someName(o), At: at(1)}, object.Blob{Org: o, Name: someName(o), Discarded: true, At: at(2)}
			w.ok(w.BlobNames().Announce(w.ctx, o, announced.Name, 0, announced.At))
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{discarded.Name}, discarded.At))
			for _, b := range []object.Blob{announced, discarded} {
				theirs, opposite, unknown := b, b, b
				theirs.Org, opposite.Discarded, unknown.Name = other, !b.Discarded, someName(o)
				for _, wrong := range []object.Blob{theirs, opposite, unknown} {
					w.wantNotFound(w.BlobNames().Forget(w.ctx, wrong))
				}
			}
			wantEqual(w, w.dueNames(o), []object.Blob{announced, discarded})
			w.ok(w.BlobNames().Forget(w.ctx, discarded))
			wantEqual(w, w.dueNames(o), []object.Blob{announced})
		},
		"a discarded name keeps the earlier time": func(w *fixture) {
			o := w.org().ID
			names := []string{someName(o), someName(o)}
			want := []object.Blob{{Org: o, Name: names[0], Discarded: true, At: at(1)}, {Org: o, Name: names[1], Discarded: true, At: at(2)}}
			w.ok(w.BlobNames().Discard(w.ctx, o, names[:1], at(1)))
			w.ok(w.BlobNames().Discard(w.ctx, o, names[1:], at(9)))
			w.ok(w.BlobNames().Discard(w.ctx, o, names, at(2)))
			w.ok(w.BlobNames().Discard(w.ctx, o, nil, at(3)))
			clear(names) // which are the caller's
			wantEqual(w, w.dueNames(o), want)
		},
		"names that were announced before the time expire, and can no longer be taken over": func(w *fixture) {
			tn := w.tenant()
			o := tn.ID
			old, exact, gone := object.Blob{Org: o, Name: someName(o), At: longAgo(99), Size: 5}, object.Blob{Org: o, Name: someName(o), At: longAgo(100)}, object.Blob{Org: o, Name: someName(o), At: longAgo(98), Discarded: true}
			w.ok(w.BlobNames().Announce(w.ctx, o, old.Name, old.Size, old.At))
			w.ok(w.BlobNames().Announce(w.ctx, o, exact.Name, 0, exact.At))
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{gone.Name}, gone.At))
			w.ok(w.BlobNames().Expire(w.ctx, longAgo(100)))
			w.wantNotFound(w.BlobNames().Forget(w.ctx, old))
			names, _, err := w.Storage.Announced(w.ctx, o)
			w.ok(err)
			wantEqual(w, names, 0)
			old.Discarded = true
			wantEqual(w, w.dueNames(o), []object.Blob{old, exact, gone})
			for _, b := range []object.Blob{old, exact, gone} {
				w.ok(w.BlobNames().Forget(w.ctx, b))
			}
			w.expireAgainstTakeover(tn)
		},
		"due lists names from before the time, in byte order, page by page": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			var want []object.Blob
			for i, ending := range []string{"~", "a", "Z", "ä", "z", "é", "_", "%", "日本", " ", "B", "\U0001F989", "\uFFFD", "a/b", "a-b", "a b"} {
				of := []id.Org{o, other}[i%2]
				b := object.Blob{Org: of, Name: string(o) + "/" + ending, Discarded: i%3 == 0, At: at(99)}
				if b.Discarded {
					w.ok(w.BlobNames().Discard(w.ctx, of, []string{b.Name}, b.At))
				} else {
					w.ok(w.BlobNames().Announce(w.ctx, of, b.Name, 0, b.At))
				}
				want = append(want, b)
			}
			w.ok(w.BlobNames().Announce(w.ctx, o, string(o)+"/exact", 0, at(100)))
			w.ok(w.BlobNames().Discard(w.ctx, o, []string{string(o) + "/exact too"}, at(100)))
			slices.SortFunc(want, func(a, b object.Blob) int { return strings.Compare(a.Name, b.Name) })
			for _, limit := range []int{1, 3, len(want), 1000} {
				wantEqual(w, w.dueUntil(o, 100, limit), want)
			}
			resultOf(w.BlobNames().Due(w.ctx, at(100), string(o), 0)).is(w, nil)
		},
		"known returns stored names and those of objects": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			announced, discarded := someName(tn.ID), someName(other.ID)
			w.ok(w.BlobNames().Announce(w.ctx, tn.ID, announced, 0, at(1)))
			w.ok(w.BlobNames().Discard(w.ctx, other.ID, []string{discarded}, at(1)))
			w.wantKnown(map[string]bool{
				announced: true, discarded: true, tn.sharedObject.Blob: true, other.personalObject.Blob: true,
				announced + "x": false, someName(tn.ID): false, tn.sharedObject.StorageKey(): false, "": false,
			})
			w.wantKnown(nil)
			replaced := tn.sharedObject.WithContent(object.Content{Blob: someName(tn.ID)}, tn.owner.ID, at(80))
			w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				err := errors.Join(s.Objects().Put(w.ctx, tn.ID, replaced), s.Objects().Remove(w.ctx, tn.ID, []id.Object{tn.personalObject.ID}))
				return []object.Change{object.NewChange(replaced), object.NewDeletion(tn.personalObject, tn.owner.ID, at(80), nil)}, err
			})
			w.wantKnown(map[string]bool{tn.sharedObject.Blob: false, replaced.Blob: true, tn.personalObject.Blob: false, other.personalObject.Blob: true})
		},
		"a thousand names are discarded at once, and looked up": func(w *fixture) {
			tn := w.tenant()
			known := map[string]bool{tn.sharedObject.Blob: true}
			var want []object.Blob
			var names []string
			for range 1000 {
				b := object.Blob{Org: tn.ID, Name: someName(tn.ID), Discarded: true, At: at(1)}
				want, names = append(want, b), append(names, b.Name)
				known[b.Name], known[someName(tn.ID)] = true, false
			}
			w.ok(w.BlobNames().Discard(w.ctx, tn.ID, names, at(1)))
			wantEqual(w, w.dueNames(tn.ID), want)
			w.wantKnown(known)
		},
		"a rollback restores announced and discarded names": func(w *fixture) {
			tn := w.tenant()
			announced := object.Blob{Org: tn.ID, Name: someName(tn.ID), At: at(1)}
			w.ok(w.BlobNames().Announce(w.ctx, tn.ID, announced.Name, 0, announced.At))
			w.rolledBack(func(r ports.Records) error {
				b := r.Storage().BlobNames()
				return errors.Join(b.Forget(w.ctx, announced), b.Discard(w.ctx, tn.ID, []string{tn.sharedObject.Blob}, at(2)))
			})
			wantEqual(w, w.dueNames(tn.ID), []object.Blob{announced})
		},
		"the blobs of an erased organisation stay known, and are discarded": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			announced, discarded := someName(tn.ID), object.Blob{Org: tn.ID, Name: someName(tn.ID), Discarded: true, At: at(2)}
			w.ok(w.BlobNames().Announce(w.ctx, tn.ID, announced, 0, at(1)))
			w.ok(w.BlobNames().Discard(w.ctx, tn.ID, []string{discarded.Name}, discarded.At))
			w.erase(tn.ID, at(300))
			w.wantKnown(map[string]bool{announced: true, discarded.Name: true, tn.sharedObject.Blob: true, tn.personalObject.Blob: true, other.sharedObject.Blob: true})
			want := []object.Blob{
				discarded, {Org: tn.ID, Name: announced, Discarded: true, At: at(300)}, {Org: tn.ID, Name: tn.sharedObject.Blob, Discarded: true, At: at(300)}, {Org: tn.ID, Name: tn.personalObject.Blob, Discarded: true, At: at(300)},
			}
			slices.SortFunc(want, func(a, b object.Blob) int { return strings.Compare(a.Name, b.Name) })
			wantEqual(w, w.dueNames(tn.ID), want)
			wantEqual(w, w.dueNames(other.ID), nil)
		},
	}.run(t, open)
}

// someName returns an unused name of a blob.
func someName(o id.Org) string { return string(o) + "/personal/Łódź & 'b'.md@7-" + nextID() }

// wantKnown ends the sub-test unless the store knows those of the names that are
// true, and no others.
func (w *fixture) wantKnown(want map[string]bool) {
	w.Helper()
	got := must.Do(w.BlobNames().Known(w.ctx, slices.Collect(maps.Keys(want)))).Or(w)
	isFalse := func(_ string, known bool) bool { return !known }
	want = maps.Clone(want)
	maps.DeleteFunc(got, isFalse)
	maps.DeleteFunc(want, isFalse)
	wantEqual(w, got, want)
}

// dueNames lists the names of an organisation that are there since before any time.
func (w *fixture) dueNames(o id.Org) []object.Blob {
	w.Helper()
	const limit = 100
	return slices.DeleteFunc(w.dueUntil(o, 1_000_000, limit), func(b object.Blob) bool { return b.Org != o })
}

// dueUntil goes through the names below an organisation's that are there since
// before the time, page by page, among those of other sub-tests.
func (w *fixture) dueUntil(o id.Org, ms, limit int) []object.Blob {
	w.Helper()
	end := string(o) + "0" // follows every name below the organisation's
	last := string(o) + "/"
	return paged(w, limit, func(*object.Blob) []object.Blob {
		page := must.Do(w.BlobNames().Due(w.ctx, at(ms), last, limit)).Or(w)
		for i, b := range page {
			if b.Name <= last {
				w.Fatalf("%q follows %q", b.Name, last)
			}
			if b.Name >= end {
				return page[:i]
			}
			last = b.Name
		}
		return page
	})
}

// expireAgainstTakeover has uploads end while their names expire: each is taken
// over, or its blob is to be removed, and never both or neither.
func (w *fixture) expireAgainstTakeover(tn tenant) {
	w.Helper()
	for i := range 8 {
		v := someObject(tn.ID, object.Place{Kind: object.Artifact, Scope: object.Shared}, fmt.Sprintf("%d.md", i), tn.owner.ID)
		announced := object.Blob{Org: tn.ID, Name: v.Blob, At: longAgo(99)}
		w.ok(w.BlobNames().Announce(w.ctx, tn.ID, announced.Name, 0, announced.At))
		errs := concurrently(2, func(i int) error {
			if i == 0 {
				return w.BlobNames().Expire(w.ctx, longAgo(100))
			}
			_, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{object.NewChange(v)}, errors.Join(s.Objects().Add(w.ctx, tn.ID, v), s.BlobNames().Forget(w.ctx, announced))
			})
			return err
		})
		w.ok(errs[0])
		if errs[1] == nil {
			wantEqual(w, w.dueNames(tn.ID), nil)
			must.Do(w.Objects().Get(w.ctx, tn.ID, v.ID)).Or(w)
			continue
		}
		w.wantNotFound(errs[1])
		resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
		announced.Discarded = true
		wantEqual(w, w.dueNames(tn.ID), []object.Blob{announced})
		w.ok(w.BlobNames().Forget(w.ctx, announced))
	}
}
