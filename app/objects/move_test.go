package objects_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

func TestConflictsHaveTheStoredObject(t *testing.T) {
	w, ctx := open(t), t.Context()
	other := w.create(t, w.ada, "Docs/a.md", "a")
	seven := int64(7)
	expecting := func(text string) *objects.Upload {
		u := harness.Text(text)
		u.Expected, u.MimeType = &seven, "image/png"
		return u
	}
	for about, c := range map[string]struct {
		err  error
		want *object.Object
	}{
		"a replacement":                 {must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, expecting("x"))), &w.notes},
		"a deletion":                    {w.Objects.Delete(ctx, w.ben, w.notes.ID, &seven), &w.notes},
		"a move":                        {must.ErrorOf(w.Objects.Move(ctx, w.ben, w.notes.ID, "b.md", &seven)), &w.notes},
		"a move to a path":              {must.ErrorOf(w.Objects.Move(ctx, w.ben, w.notes.ID, "docs/A.md", nil)), &other},
		"a move to a folder":            {must.ErrorOf(w.Objects.Move(ctx, w.ben, w.notes.ID, "docs", nil)), nil},
		"a new file":                    {must.ErrorOf(w.Objects.Create(ctx, w.ben, w.draft("docs/A.md"), harness.Text("x"))), &other},
		"a long new file":               {must.ErrorOf(w.Objects.Create(ctx, w.ben, w.draft("docs/A.md"), harness.Text(strings.Repeat("x", 100<<10)))), &other},
		"a memory that is not there":    {must.ErrorOf(w.Objects.SaveMemory(ctx, w.ben, w.desk, "none.md", expecting("x"))), nil},
		"a folder moved to a taken one": {moveFolder(t, w, w.ben, "folder", "notes.md"), nil},
	} {
		conflict, ok := errors.AsType[*objects.ConflictError](c.err)
		if !fault.Is(c.err, fault.Conflict) || ok != (c.want != nil) || ok && !same(conflict.Stored, *c.want) {
			t.Errorf("%s: %v, %+v", about, c.err, conflict)
		}
	}
	must.Do(w.Objects.Replace(ctx, w.ada, w.notes.ID, harness.Text("new notes"))).Or(t)
	var moved object.Object
	w.Faults.During("Blobs.Put", func() {
		var err error
		if moved, err = w.Objects.Move(ctx, w.ada, w.notes.ID, "moved.md", nil); err != nil {
			t.Error(err)
		}
	})
	two, u := int64(2), harness.Text("too late")
	u.Expected = &two
	_, err := w.Objects.Replace(ctx, w.ben, w.notes.ID, u)
	if conflict, ok := errors.AsType[*objects.ConflictError](err); !ok || !same(conflict.Stored, moved) || moved.Version != 3 {
		t.Errorf("a replacement after a move: %v, %+v", err, conflict)
	}
}

// same reports whether two records are equal.
func same(a, b object.Object) bool {
	return a.StorageKey() == b.StorageKey() && a.ID == b.ID && a.Version == b.Version && a.MimeType == b.MimeType && a.Content == b.Content && a.N == b.N
}

func moveFolder(t *testing.T, w *fixture, actor org.Actor, from, to string) error {
	_, _, err := w.Objects.MoveFolder(t.Context(), actor, w.draft(""), from, to)
	return err
}

func TestConcurrentMovesLeaveOneFileAtEachPath(t *testing.T) {
	w := open(t)
	before, from := versionsOf(w.objects(t)), w.head(t)
	const writers, rounds = 8, 12
	var files [writers]object.Object
	for i := range files {
		files[i] = w.create(t, w.ada, fmt.Sprintf("folder/%d.md", i), "old")
	}
	var all sync.WaitGroup
	for i, o := range files {
		all.Go(func() {
			for n := range rounds {
				var err error
				switch n % 4 {
				case 0:
					err = must.ErrorOf(w.Objects.Move(t.Context(), w.ada, o.ID, fmt.Sprintf("One/%d", n), nil))
				case 1:
					err = must.ErrorOf(w.Objects.Replace(t.Context(), w.ben, o.ID, harness.Text(fmt.Sprint(i, n))))
				case 2:
					err = moveFolder(t, w, w.ben, []string{"one", "FOLDER", "two"}[i%3], []string{"two", "One", "folder"}[i%3])
				case 3:
					err = must.ErrorOf(w.Objects.Create(t.Context(), w.ada, w.draft(fmt.Sprintf("folder/%d/%d", i%2, n)), harness.Text("new")))
				}
				if err != nil && !fault.Is(err, fault.Conflict) {
					t.Errorf("writer %d, round %d: %v", i, n, err)
				}
			}
			if i%2 == 0 {
				must.Succeed(t, w.Objects.Delete(t.Context(), w.ada, o.ID, nil))
			}
		})
	}
	all.Wait()
	there := map[string]bool{}
	for key := range w.objects(t) {
		if there[object.Fold(key)] {
			t.Errorf("another file is at %s", key)
		}
		there[object.Fold(key)] = true
	}
	for key, o := range w.objects(t) {
		if slices.ContainsFunc(object.Ancestors(object.Fold(key)), func(folder string) bool { return there[folder] }) {
			t.Errorf("%s lies below a file", key)
		}
		if got, err := w.Objects.Get(t.Context(), w.ada, o.ID); o.Scope == object.Shared && (err != nil || !same(got, o)) {
			t.Errorf("%s is read as %+v", key, got)
		}
	}
	w.assertConsistent(t, before, from)
}

func TestAFolderIsMovedByABoundedNumberOfCalls(t *testing.T) {
	w := open(t)
	add := func(from, n int) {
		must.NoError(t, w.Store.Atomic(t.Context(), func(r ports.Records) (err error) {
			for i := range n {
				o := w.notes
				o.ID, o.Path = id.Object(w.IDs.New()), fmt.Sprintf("many/%d", from+i)
				err = errors.Join(err, r.Storage().Objects().Add(t.Context(), o.Org, o))
			}
			return err
		}))
	}
	add(0, 20)
	w.Faults.Reset(-1, "")
	moved, head, err := w.Objects.MoveFolder(t.Context(), w.ada, w.draft(""), "many", "more")
	if moved != 20 || head.N != w.head(t) || err != nil {
		t.Errorf("%d moved, %+v, %v", moved, head, err)
	}
	if calls := w.Faults.Calls(); len(calls) > 5 {
		t.Errorf("the calls are %v", calls)
	}
	add(20, 1000)
	w.Faults.Reset(-1, "")
	must.NoError(t, moveFolder(t, w, w.ada, "many", "more"))
	if appends := slices.DeleteFunc(w.Faults.Calls(), func(call string) bool { return !strings.Contains(call, "Append") }); len(appends) != 2 {
		t.Errorf("1,000 changes are appended by %v", appends)
	}
	add(1020, object.MaxMoved+1)
	if err := moveFolder(t, w, w.ada, "many", "more"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "10000 files") {
		t.Errorf("%d files: %v", object.MaxMoved+1, err)
	}
	if err := moveFolder(t, w, w.ada, "many", strings.Repeat("long/", 100)+"more"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "2097152 bytes") {
		t.Errorf("long paths: %v", err)
	}
}
