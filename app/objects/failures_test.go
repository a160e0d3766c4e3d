package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"collab/app/objects"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/test/harness"
	"collab/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is an organisation with an owner and a member, their team with a workspace, and
// files.
type fixture struct {
	*harness.Deployment
	ada, ben org.Actor
	crew     id.Team
	desk     id.Workspace
	notes    object.Object // in the workspace, by Ada

	made, remade *objects.DirectUpload // Ben's uploads to the store, of a new file and of the notes; both were sent
}

func open(t testing.TB) *fixture {
	t.Helper()
	f, err := harness.NewDeployment(start)
	must.NoError(t, err)
	ctx := t.Context()
	w := &fixture{Deployment: f}
	w.ada, err = f.Join(ctx, "org_office", "user_ada", org.Owner)
	must.NoError(t, err)
	w.ben, err = f.Join(ctx, "org_office", "user_ben", org.Member)
	must.NoError(t, err)
	crew := must.Do(f.Teams.Create(ctx, w.ada, team.Draft{Name: "Crew"})).Or(t)
	w.crew = crew.ID
	w.reauthorize(t)
	must.Do(f.Teams.AddMember(ctx, w.ada, w.crew, w.ben.User)).Or(t)
	desk := must.Do(f.Workspaces.Create(ctx, w.ada, workspace.Draft{Name: "Desk", Team: w.crew})).Or(t)
	w.desk = desk.ID
	w.reauthorize(t)
	w.notes = w.create(t, w.ada, "notes.md", "old notes")
	w.create(t, w.ada, "plan.md", "old plan")
	w.create(t, w.ada, "folder/a.md", "a")
	w.create(t, w.ada, "folder/sub/b.md", "b")
	must.Do(f.Objects.Save(ctx, w.ben, object.UserMemory, harness.Text("Ben's memory"))).Or(t)
	must.Do(f.Objects.Create(ctx, w.ada, object.Draft{Path: "facts.md", Kind: object.TeamMemory, Scope: object.Shared, Team: &w.crew}, harness.Text("facts"))).Or(t)
	w.made = w.started(t, w.ben, w.sent(t, w.ben, "", "sent.md", "sent to the store"))
	w.remade = w.started(t, w.ben, w.sent(t, w.ben, w.notes.ID, "", "new notes in the store"))
	f.Faults.Reset(-1, "")
	return w
}

// start starts an upload of a text to the store: of the object, or of a new file with the path if
// of is empty.
func (w *fixture) start(t testing.TB, actor org.Actor, of id.Object, path, text string, change ...func(*objects.Upload)) (upload string, to object.Address, err error) {
	t.Helper()
	u := objects.Upload{Size: int64(len(text)), Checksum: harness.Checksum(text)}
	for _, fn := range change {
		fn(&u)
	}
	var draft *object.Draft
	if of == "" {
		draft = new(w.draft(path))
	}
	upload, to, _, err = w.Objects.StartDirect(t.Context(), actor, of, draft, u)
	return upload, to, err
}

// sent is start with the text sent to the address. It returns the upload's id.
func (w *fixture) sent(t testing.TB, actor org.Actor, of id.Object, path, text string, change ...func(*objects.Upload)) string {
	t.Helper()
	upload, to, err := w.start(t, actor, of, path, text, change...)
	must.NoError(t, err)
	w.send(t, to, text)
	return upload
}

// send sends a text to an address of the store.
func (w *fixture) send(t testing.TB, to object.Address, text string) {
	t.Helper()
	must.NoError(t, w.Blobs.Put(t.Context(), strings.TrimPrefix(to.URL, harness.BlobsURL), "", -1, strings.NewReader(text)))
}

func (w *fixture) started(t testing.TB, actor org.Actor, upload string) *objects.DirectUpload {
	t.Helper()
	return must.Do(w.Objects.DirectUpload(actor, upload)).Or(t)
}

// reauthorize reads the actors again.
func (w *fixture) reauthorize(t testing.TB) {
	t.Helper()
	var err error
	w.ada, err = w.Actor(t.Context(), w.ada.Org, w.ada.User)
	must.NoError(t, err)
	w.ben, err = w.Actor(t.Context(), w.ben.Org, w.ben.User)
	must.NoError(t, err)
}

func (w *fixture) create(t testing.TB, actor org.Actor, path, text string) object.Object {
	t.Helper()
	return must.Do(w.Objects.Create(t.Context(), actor, w.draft(path), harness.Text(text))).Or(t)
}

// draft is of a file in the workspace.
func (w *fixture) draft(path string) object.Draft {
	return object.Draft{Path: path, Kind: object.Artifact, Scope: object.Shared, Workspace: &w.desk}
}

// objects returns every object's record by its storage key.
func (w *fixture) objects(t testing.TB) map[string]object.Object {
	t.Helper()
	found := map[string]object.Object{}
	must.NoError(t, w.Store.Storage().Objects().List(t.Context(), w.ada.Org, nil, object.Filter{}, nil, func(o object.Object) error {
		found[o.StorageKey()] = o
		return nil
	}))
	return found
}

// versionsOf returns version and checksum by key, which is what a client sees of the records.
func versionsOf(all map[string]object.Object) map[string]string {
	seen := map[string]string{}
	for key, o := range all {
		seen[key] = fmt.Sprintf("version %d, %s", o.Version, o.Checksum)
	}
	return seen
}

// log returns the log's entries after a number.
func (w *fixture) log(t testing.TB, after int64) []object.Change {
	t.Helper()
	return must.Do(w.Store.Storage().Changes().List(t.Context(), w.ada.Org, after, 1000)).Or(t)
}

func (w *fixture) head(t testing.TB) int64 {
	t.Helper()
	h := must.Do(w.Objects.Head(t.Context(), w.ada.Org)).Or(t)
	return h.N
}

// versions returns all earlier versions of the objects and of the deleted objects.
func (w *fixture) versions(t testing.TB) (all []object.EarlierVersion) {
	t.Helper()
	storage := w.Store.Storage()
	note := func(v object.EarlierVersion) error {
		all = append(all, v)
		return nil
	}
	var ids []id.Object
	for _, o := range w.objects(t) {
		ids = append(ids, o.ID)
	}
	must.NoError(t, storage.Versions().Deleted(t.Context(), w.ada.Org, nil, object.Filter{}, func(v object.EarlierVersion) error {
		ids = append(ids, v.ID)
		return nil
	}))
	for _, of := range ids {
		must.NoError(t, storage.Versions().List(t.Context(), w.ada.Org, of, math.MaxInt64, 0, note))
	}
	return all
}

// state returns versionsOf the objects with the earlier versions.
func (w *fixture) state(t testing.TB) map[string]string {
	t.Helper()
	all := versionsOf(w.objects(t))
	for _, v := range w.versions(t) {
		all[fmt.Sprintf("%s, version %d", v.ID, v.Version)] = fmt.Sprintf("%s, deleted: %v", v.Checksum, v.Deleted)
	}
	return all
}

// assertContents checks that every object and every earlier version has the content that its record
// describes, and a blob of its own, and that the usage is that of the records.
func (w *fixture) assertContents(t testing.TB) {
	t.Helper()
	all := w.objects(t)
	var sum object.Usage
	for _, o := range all {
		sum[o.Class()] += o.Size
	}
	for _, v := range w.versions(t) {
		all[fmt.Sprintf("%s, version %d", v.ID, v.Version)] = v.Object
		sum[object.Versions] += v.Size
	}
	if used, err := w.Store.Storage().Used(t.Context(), []id.Org{w.ada.Org}); err != nil || used[w.ada.Org] != sum {
		t.Errorf("the usage is %v, %v; the records sum to %v", used, err, sum)
	}
	owners := map[string]string{}
	for key, o := range all {
		if other, taken := owners[o.Blob]; taken {
			t.Errorf("%s and %s have the blob %s", key, other, o.Blob)
		}
		owners[o.Blob] = key
		content, err := w.Read(t.Context(), o.Blob)
		if err != nil || harness.Checksum(content) != o.Checksum || int64(len(content)) != o.Size {
			t.Errorf("%s has %q, %v; its record is %+v", key, content, err, o)
		}
	}
}

// assertLog checks that the log's entries after a number lead from an earlier state to the
// present one, with one entry for each change of a record.
func (w *fixture) assertLog(t testing.TB, was map[string]string, after int64) {
	t.Helper()
	now := maps.Clone(was)
	n := after
	for _, c := range w.log(t, after) {
		if n++; c.N != n {
			t.Errorf("entry %d comes after %d", c.N, n-1)
		}
		key := c.Object.StorageKey()
		switch c.Type {
		case object.Changed:
			next := fmt.Sprintf("version %d, %s", c.Object.Version, c.Object.Checksum)
			if now[key] == next {
				t.Errorf("entry %d changes nothing of %s", c.N, key)
			}
			if c.FromPath != "" {
				if _, there := now[c.FromKey()]; !there {
					t.Errorf("entry %d moves %s, which is not there", c.N, c.FromKey())
				}
				delete(now, c.FromKey())
			}
			now[key] = next
		case object.Deleted:
			if _, there := now[key]; !there {
				t.Errorf("entry %d removes %s, which is not there", c.N, key)
			}
			delete(now, key)
		}
	}
	if is := versionsOf(w.objects(t)); !maps.Equal(now, is) {
		t.Errorf("the log leads to %v, the records are %v", now, is)
	}
}

// assertConsistent checks the log, the contents and the collection of garbage, as the functions do.
func (w *fixture) assertConsistent(t testing.TB, was map[string]string, after int64) {
	t.Helper()
	w.assertLog(t, was, after)
	w.assertContents(t)
	w.assertCollected(t, false)
}

// assertCollected collects garbage after object.BlobGracePeriod and checks that exactly the blobs
// that objects name remain, and that a dry run before finds the same and removes nothing.
// Whole also collects blobs whose names are not recorded.
func (w *fixture) assertCollected(t testing.TB, whole bool) {
	t.Helper()
	ctx := t.Context()
	w.Faults.Reset(-1, "")
	w.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	collect := func(whole, dry bool) (found []upkeep.Garbage) {
		must.NoError(t, w.Upkeep.Collect(ctx, whole, dry, func(g upkeep.Garbage) error {
			found = append(found, g)
			return nil
		}))
		return found
	}
	kept := func() map[string]bool {
		return must.Do(w.BlobNames(ctx)).Or(t)
	}
	names := func() []object.Blob {
		return must.Do(w.Store.Storage().BlobNames().Due(ctx, w.Clock.Now().Add(time.Hour), "", 1000)).Or(t)
	}
	blobsBefore, namesBefore := kept(), names()
	would := collect(whole, true)
	if now := kept(); !maps.Equal(now, blobsBefore) || fmt.Sprint(names()) != fmt.Sprint(namesBefore) {
		t.Errorf("a dry run made %v of %v and %v of %v", now, blobsBefore, names(), namesBefore)
	}
	if did := collect(whole, false); fmt.Sprint(did) != fmt.Sprint(would) {
		t.Errorf("collected %v, a dry run said %v", did, would)
	}
	named := map[string]bool{}
	for _, o := range w.objects(t) {
		named[o.Blob] = true
	}
	for _, v := range w.versions(t) {
		named[v.Blob] = true
	}
	if left := kept(); !maps.Equal(left, named) {
		t.Errorf("the store has %v, objects and versions name %v", left, named)
	}
	if left := names(); len(left) > 0 {
		t.Errorf("names are left: %v", left)
	}
	if more := collect(true, false); len(more) > 0 {
		t.Errorf("a second collection found %v", more)
	}
	w.assertContents(t)
}

// TestATakenPathIsRefusedBeforeContentThatMayBeLarge covers content whose length is
// unknown, as that of a form.
func TestATakenPathIsRefusedBeforeContentThatMayBeLarge(t *testing.T) {
	w := open(t)
	for most, reads := range map[int64]bool{-1: false, 0: false, 64<<10 + 1: false, 64 << 10: true} {
		content := strings.NewReader("text")
		_, err := w.Objects.Create(t.Context(), w.ben, w.draft(w.notes.Path), &objects.Upload{Content: content, Size: -1, Most: most})
		if !fault.Is(err, fault.Conflict) || (content.Len() == 0) != reads {
			t.Errorf("at most %d bytes: %v, and %d of 4 are unread", most, err, content.Len())
		}
	}
}

func TestFailedWritesAreAtomic(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	for about, do := range map[string]func(context.Context, *fixture) error{
		"a file is made": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Create(ctx, w.ben, w.draft("new.md"), harness.Text("new")))
		},
		"a long file of unknown length is made": func(ctx context.Context, w *fixture) error {
			_, err := w.Objects.Create(ctx, w.ben, w.draft("long.md"), &objects.Upload{Content: strings.NewReader(long), Size: -1})
			return err
		},
		"a file is replaced": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("new notes")))
		},
		"the expected version is replaced": func(ctx context.Context, w *fixture) error {
			u := harness.Text("new notes")
			u.Expected, u.Checksum = new(int64(1)), harness.Checksum("new notes")
			return must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, u))
		},
		"a document is stored first": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Save(ctx, w.ben, object.Profile, harness.Text("{}")))
		},
		"a document is stored again": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Save(ctx, w.ben, object.UserMemory, harness.Text("more")))
		},
		"a memory file is stored": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.SaveMemory(ctx, w.ben, w.desk, "memory.md", harness.Text("memory")))
		},
		"an upload to the store of a new file is completed": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.CompleteDirect(ctx, w.ben, w.made, nil))
		},
		"an upload to the store of a file is completed": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.CompleteDirect(ctx, w.ben, w.remade, nil))
		},
		"a batch is carried out": func(ctx context.Context, w *fixture) error {
			_, err := w.Objects.Batch(ctx, w.ben, []objects.Operation{
				w.put("new.md", "new"), deleted(w.notes.ID), w.put("NOTES.md", "other notes"), w.put("plan.md", "taken"),
			}, nil)
			return err
		},
		"a file is deleted": func(ctx context.Context, w *fixture) error {
			return w.Objects.Delete(ctx, w.ben, w.notes.ID, nil)
		},
		"a file is moved": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Move(ctx, w.ben, w.notes.ID, "moved/notes.md", nil))
		},
		"a folder is moved": func(ctx context.Context, w *fixture) error {
			_, _, err := w.Objects.MoveFolder(ctx, w.ben, w.draft(""), "folder", "another")
			return err
		},
		"a workspace is deleted": func(ctx context.Context, w *fixture) error {
			return w.Workspaces.Delete(ctx, w.ben, w.desk)
		},
		"a user is deleted": func(ctx context.Context, w *fixture) error {
			return w.SendIdentityEvent(ctx, "user.deleted", map[string]any{"id": "user_ben", "deleted": true})
		},
	} {
		t.Run(about, func(t *testing.T) { assertAtomic(t, open, do) })
	}
}

// assertAtomic checks that an operation that fails at any call has changed everything or nothing.
func assertAtomic(t *testing.T, open func(testing.TB) *fixture, do func(context.Context, *fixture) error) {
	undisturbed := open(t)
	before, from, start := undisturbed.state(t), undisturbed.head(t), versionsOf(undisturbed.objects(t))
	must.NoError(t, do(t.Context(), undisturbed))
	calls, after := undisturbed.Faults.Calls(), undisturbed.state(t)
	if maps.Equal(before, after) || len(calls) < 3 {
		t.Fatalf("%v made nothing", calls)
	}
	undisturbed.assertConsistent(t, start, from)
	for at, call := range calls {
		for _, failure := range harness.AllFaults {
			t.Run(fmt.Sprintf("call %d, %s: %s", at, call, failure), func(t *testing.T) {
				w := open(t)
				w.Faults.Reset(at, failure)
				err, died := harness.Run(func() error { return do(t.Context(), w) })
				w.Faults.Reset(-1, "")
				now := w.state(t)
				switch {
				case !maps.Equal(now, before) && !maps.Equal(now, after):
					t.Errorf("there is %v, before %v, wanted %v", now, before, after)
				case err == nil && !died && !maps.Equal(now, after):
					t.Errorf("was acknowledged, and there is %v, wanted %v", now, after)
				case failure == harness.Retried && (err != nil || died):
					t.Errorf("ended with %v, died: %v", err, died)
				case (failure == harness.ResponseLost || failure == harness.CrashAfter) && (call == "Atomic" || call == "Storage.Replace") && !maps.Equal(now, after):
					t.Errorf("was committed, and there is %v, wanted %v", now, after)
				case (failure == harness.Refused || failure == harness.CrashBefore) && !maps.Equal(now, before):
					t.Errorf("was not committed, and there is %v, before %v", now, before)
				}
				w.assertServed(t, w.Objects)
				w.assertConsistent(t, start, from)
			})
		}
	}
}

var errBroken = errors.New("the connection broke")

// readFunc implements io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestRefusedContentChangesNothing(t *testing.T) {
	for about, u := range map[string]func() *objects.Upload{
		"its reader fails": func() *objects.Upload {
			return &objects.Upload{Content: io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errBroken)), Size: -1}
		},
		"its checksum is wrong": func() *objects.Upload {
			u := harness.Text("new")
			u.Checksum = harness.Checksum("other")
			return u
		},
		"its checksum is malformed": func() *objects.Upload {
			u := harness.Text("new")
			u.Checksum = "nonsense"
			return u
		},
		"its stated size is too large": func() *objects.Upload { return harness.Text(strings.Repeat("x", harness.MaxSize+1)) },
		"it is larger than stated": func() *objects.Upload {
			return &objects.Upload{Content: strings.NewReader(strings.Repeat("x", harness.MaxSize+1)), Size: 10}
		},
		"another version was expected": func() *objects.Upload {
			u := harness.Text("new")
			u.Expected = new(int64(7))
			return u
		},
		"another version is expected at its end": func() *objects.Upload {
			u := harness.Text("new")
			u.Content = io.MultiReader(u.Content, readFunc(func([]byte) (int, error) {
				u.Expected = new(int64(7))
				return 0, io.EOF
			}))
			return u
		},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			before, from := versionsOf(w.objects(t)), w.head(t)
			if o, err := w.Objects.Create(t.Context(), w.ada, w.draft("new.md"), u()); err == nil {
				t.Errorf("made %+v", o)
			}
			if o, err := w.Objects.Replace(t.Context(), w.ada, w.notes.ID, u()); err == nil {
				t.Errorf("replaced: %+v", o)
			}
			if is := versionsOf(w.objects(t)); !maps.Equal(is, before) || w.head(t) != from {
				t.Errorf("there is %v, before %v", is, before)
			}
			w.assertContents(t)
			w.assertCollected(t, false)
		})
	}
}
