package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"collab/app/access"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// put is the operation that makes a file in the workspace.
func (w *fixture) put(path, text string) objects.Operation {
	return objects.Operation{Action: objects.PutFile, Draft: w.draft(path), Content: []byte(text)}
}

// replaced is the operation that replaces the content of a file.
func replaced(of id.Object, text string) objects.Operation {
	return objects.Operation{Action: objects.PutFile, Object: of, Content: []byte(text)}
}

func deleted(of id.Object) objects.Operation {
	return objects.Operation{Action: objects.DeleteFile, Object: of}
}

func moved(of id.Object, path string) objects.Operation {
	return objects.Operation{Action: objects.MoveFile, Object: of, Draft: object.Draft{Path: path}}
}

func (w *fixture) batch(t testing.TB, actor org.Actor, operations ...objects.Operation) []objects.Outcome {
	t.Helper()
	return must.Do(w.Objects.Batch(t.Context(), actor, operations, nil)).Or(t)
}

// single carries out an operation of a batch by itself.
func (w *fixture) single(ctx context.Context, actor org.Actor, op objects.Operation) (object.Object, error) {
	u := harness.Text(string(op.Content))
	u.Checksum, u.MimeType, u.Expected = op.Checksum, op.MimeType, op.Expected
	switch {
	case op.Action == objects.DeleteFile:
		return object.Object{}, w.Objects.Delete(ctx, actor, op.Object, op.Expected)
	case op.Action == objects.MoveFile:
		return w.Objects.Move(ctx, actor, op.Object, op.Draft.Path, op.Expected)
	case op.Object != "":
		return w.Objects.Replace(ctx, actor, op.Object, u)
	}
	return w.Objects.Create(ctx, actor, op.Draft, u)
}

// stored returns the object that a conflict is about; the zero value for none.
func stored(err error) object.Object {
	var conflict *objects.ConflictError
	if errors.As(err, &conflict) {
		return conflict.Stored
	}
	return object.Object{}
}

func message(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// comparedOperation is an operation on a path or on one of the files that were there before.
type comparedOperation struct {
	path, text string
	file       int // notes.md, plan.md, the memory of ben, or none
	action     int // 0: deletes the file, 1: replaces it, 2: moves it to path, otherwise: stores path
	wrong      int // 0: another checksum, 1: no type, 2: a workspace that is none; otherwise nothing
	expected   *int64
}

// compareBatches sends the same operations as batches to one deployment, and one by one to another. It returns the
// number of entries that the log has of them.
func compareBatches(t *testing.T, r rapid.TB, batches [][]comparedOperation) int {
	together, apart := open(t), open(t)
	limited := map[plan.Plan]int64{plan.None: 300}
	together.Objects.Limits, apart.Objects.Limits = limited, limited
	ids := [2][]id.Object{}
	for i, w := range []*fixture{together, apart} {
		for _, path := range []string{"notes.md", "plan.md"} {
			o := must.Do(w.Store.Storage().Objects().At(t.Context(), w.ada.Org, strings.TrimSuffix(w.notes.StorageKey(), "notes.md")+path)).Or(t)
			ids[i] = append(ids[i], o.ID)
		}
		o, _, err := w.Objects.Find(t.Context(), w.ben, object.UserMemory)
		must.NoError(t, err)
		ids[i] = append(ids[i], o.ID, id.Object(w.IDs.New()))
	}
	started := together.head(t)
	for _, batch := range batches {
		var operations [2][]objects.Operation
		for _, b := range batch {
			for i, w := range []*fixture{together, apart} {
				op := w.put(b.path, b.text)
				switch b.action {
				case 0:
					op = deleted(ids[i][b.file])
				case 1:
					op = replaced(ids[i][b.file], b.text)
				case 2:
					op = moved(ids[i][b.file], b.path)
				}
				op.Expected = b.expected
				switch b.wrong {
				case 0:
					op.Checksum = must.Sum("other")
				case 1:
					op.MimeType = "no type"
				case 2:
					op.Draft.Workspace = new(id.Workspace(ids[0][0]))
				}
				operations[i] = append(operations[i], op)
			}
		}
		outcomes := together.batch(t, together.ben, operations[0]...)
		for i, op := range operations[1] {
			o, err := apart.single(t.Context(), apart.ben, op)
			if outcomes[i].Err != nil && err != nil && (op.Checksum != "" || fault.Is(outcomes[i].Err, fault.Conflict) && fault.Is(err, fault.Forbidden)) {
				continue // two errors apply, of which a batch looks at the storage limit last, and at the checksum after the file
			}
			if message(outcomes[i].Err) != message(err) {
				r.Fatalf("operation %d, %+v: %v in the batch, %v by itself", i, op, outcomes[i].Err, err)
			}
			if err == nil && op.Action != objects.DeleteFile {
				was := outcomes[i].Object
				was.ID, was.Blob, was.N, was.CreatedAt, was.UpdatedAt = o.ID, o.Blob, o.N, o.CreatedAt, o.UpdatedAt
				if fmt.Sprint(was) != fmt.Sprint(o) || was.Version != o.Version {
					r.Fatalf("operation %d is %+v in the batch, %+v by itself", i, was, o)
				}
			}
			if a, b := stored(outcomes[i].Err), stored(err); a.Path != b.Path || a.Version != b.Version || a.Checksum != b.Checksum {
				r.Fatalf("operation %d conflicts with %+v in the batch, with %+v by itself", i, a, b)
			}
		}
	}
	if a, b := versionsOf(together.objects(t)), versionsOf(apart.objects(t)); len(a) != len(b) {
		r.Fatalf("there is %v after the batch, %v after the operations", a, b)
	}
	if a, b := together.log(t, started), apart.log(t, started); len(a) != len(b) {
		r.Fatalf("the log has %d entries, and %d of operations by themselves", len(a), len(b))
	}
	together.assertContents(t)
	together.assertServed(t, together.Objects)
	together.assertCollected(t, false)
	if t.Failed() {
		r.Fatal("the deployment is wrong")
	}
	return len(together.log(t, started))
}

func TestABatchDoesWhatItsOperationsDoByThemselves(t *testing.T) {
	const put, right = 3, 3
	must.Is(t, 5, compareBatches(t, t, [][]comparedOperation{{
		{path: "new.md", text: "one", action: put, wrong: right},
		{text: "two", action: 1, wrong: right},
		{path: "a/b", file: 1, action: 2, wrong: right},
		{path: "a/b", text: "two", action: put, wrong: right}, // taken
	}, {
		{path: "new.md", text: "two", action: put, wrong: right}, // taken
		{file: 1, action: 0, wrong: right},
		{path: "A/c", text: "one", action: put, wrong: right},
	}}))
	paths := []string{"notes.md", "NOTES.md", "plan.md", "a", "a/b", "A/c", "new.md", "..", ""}
	operation := rapid.Custom(func(r *rapid.T) comparedOperation {
		return comparedOperation{
			rapid.SampledFrom(paths).Draw(r, "path"), rapid.SampledFrom([]string{"", "one", "two", strings.Repeat("long", 20)}).Draw(r, "text"),
			rapid.IntRange(0, 3).Draw(r, "file"), rapid.IntRange(0, 4).Draw(r, "action"), rapid.IntRange(0, 9).Draw(r, "wrong"),
			rapid.SampledFrom([]*int64{nil, nil, nil, new(int64(0)), new(int64(1)), new(int64(2))}).Draw(r, "expected"),
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		compareBatches(t, r, rapid.SliceOfN(rapid.SliceOfN(operation, 1, 12), 2, 3).Draw(r, "batches"))
	})
}

func TestABatchIsCarriedOutInOrder(t *testing.T) {
	w := open(t)
	planned := must.Do(w.Store.Storage().Objects().At(t.Context(), w.ada.Org, strings.Replace(w.notes.StorageKey(), "notes.md", "plan.md", 1))).Or(t)
	second := replaced(w.notes.ID, "third")
	second.Expected = new(int64(2))
	outcomes := w.batch(t, w.ben,
		w.put("new.md", "new"), w.put("NEW.md", "again"), replaced(w.notes.ID, "second"), second,
		deleted(planned.ID), w.put("PLAN.md/a.md", "below"), replaced(planned.ID, "gone"), moved(w.notes.ID, "plan.md/b.md"), deleted(w.notes.ID),
	)
	for i, want := range []fault.Kind{0, fault.Conflict, 0, 0, 0, 0, fault.NotFound, 0, 0} {
		if err := outcomes[i].Err; want == 0 && err != nil || want != 0 && !fault.Is(err, want) {
			t.Errorf("operation %d: %v, want kind %d", i, err, want)
		}
	}
	if there := stored(outcomes[1].Err); there.ID != outcomes[0].Object.ID || there.Checksum != harness.Checksum("new") {
		t.Errorf("the conflict is with %+v", there)
	}
	must.Is(t, 3, outcomes[3].Object.Version)
	w.assertContents(t)
	w.assertCollected(t, false)
}

func TestABatchTakesABoundedNumberOfCalls(t *testing.T) {
	calls := func(n int) map[string]int {
		w := open(t)
		var operations []objects.Operation
		for i := range n {
			operations = append(operations, w.put(fmt.Sprintf("many/%d.md", i), "x"))
		}
		for i, o := range w.batch(t, w.ben, operations...) {
			if o.Err != nil || o.Object.N != w.head(t)-int64(n-1-i) {
				t.Fatalf("operation %d: %+v, %v", i, o.Object, o.Err)
			}
		}
		count := map[string]int{}
		for _, call := range w.Faults.Calls() {
			count[call]++
		}
		delete(count, "Blobs.Put")
		delete(count, "Storage.Heads")
		return count
	}
	if few, many := calls(2), calls(300); !maps.Equal(few, many) {
		t.Errorf("%v for 2 files, %v for 300", few, many)
	}
}

func TestABatchFailsWithAPanicOfTheStore(t *testing.T) {
	w := open(t)
	before := len(w.objects(t))
	w.Faults.FailNext(map[string]harness.Fault{"Blobs.Put": harness.Panics})
	_, err := w.Objects.Batch(t.Context(), w.ben, []objects.Operation{w.put("a.md", "a"), w.put("b.md", "b")}, nil)
	if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "panic: injected") {
		t.Error(err)
	}
	must.Is(t, before, len(w.objects(t)))
}

func TestRefusedOperationsWriteNoContent(t *testing.T) {
	w := open(t)
	wrong := w.put("wrong.md", "wrong")
	wrong.Checksum = harness.Checksum("other")
	unread := objects.Operation{Err: fault.New(fault.Invalid, "unreadable")}
	outcomes := w.batch(t, w.ben,
		w.put("notes.md", "taken"), w.put("plan.md/a", "below"), w.put("con", "device"), w.put("long.md", strings.Repeat("x", objects.MaxBatchFile+1)),
		wrong, unread, replaced(id.Object(w.IDs.New()), "unknown"),
	)
	for i, want := range []fault.Kind{fault.Conflict, fault.Conflict, fault.Invalid, fault.TooLarge, fault.Invalid, fault.Invalid, fault.NotFound} {
		if !fault.Is(outcomes[i].Err, want) {
			t.Errorf("operation %d: %v, want kind %d", i, outcomes[i].Err, want)
		}
	}
	if there := stored(outcomes[0].Err); there.ID != w.notes.ID || there.Version != 1 || stored(outcomes[1].Err).ID != "" {
		t.Errorf("the conflicts are with %+v and %+v", there, stored(outcomes[1].Err))
	}
	if calls := w.Faults.Calls(); slices.Contains(calls, "Blobs.Put") || slices.Contains(calls, "ObjectSets.Announce") {
		t.Errorf("the calls were %v", calls)
	}
}

func TestChangesDuringABatch(t *testing.T) {
	for _, c := range []struct {
		about     string
		during    string
		meanwhile func(*testing.T, *fixture) error
		want      []fault.Kind // nil: all of it is refused with failed
		failed    fault.Kind
	}{
		{"a path is taken", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return must.ErrorOf(w.Objects.Create(t.Context(), w.ada, w.draft("ONE.md"), harness.Text("Ada's")))
		}, []fault.Kind{fault.Conflict, 0, 0}, 0},
		{"the file is deleted", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return w.Objects.Delete(t.Context(), w.ada, w.notes.ID, nil)
		}, []fault.Kind{0, 0, fault.NotFound}, 0},
		{"the workspace is deleted", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return w.Workspaces.Delete(t.Context(), w.ada, w.desk)
		}, []fault.Kind{fault.Invalid, 0, fault.NotFound}, 0},
		{"the writer leaves the team", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return w.Teams.RemoveMember(t.Context(), w.ada, w.crew, w.ben.User)
		}, []fault.Kind{fault.Invalid, 0, fault.NotFound}, 0},
		{"the writer becomes a viewer", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return must.ErrorOf(w.Members.ChangeRole(t.Context(), w.ada, w.ben.User, string(org.Viewer)))
		}, nil, fault.Forbidden},
		{"the token expires", "ObjectSets.Announce", func(_ *testing.T, w *fixture) error {
			w.Clock.Advance(2 * 60e9)
			return nil
		}, nil, fault.Unauthenticated},
		{"the names expire", "ObjectSets.Announce", func(t *testing.T, w *fixture) error {
			return w.Store.Storage().BlobNames().Expire(t.Context(), w.Clock.Now().Add(1e9))
		}, nil, fault.Unavailable},
	} {
		t.Run(c.about, func(t *testing.T) {
			w := open(t)
			w.Clock.Advance(2e9)
			before := versionsOf(w.objects(t))
			w.Faults.During(c.during, func() { must.NoError(t, c.meanwhile(t, w)) })
			own := w.put("own.md", "own")
			own.Draft = object.Draft{Path: "own.md", Kind: object.Artifact, Scope: object.Personal}
			ctx := access.NewContext(t.Context(), access.Request{Expires: w.Clock.Now().Add(60e9)})
			outcomes, err := w.Objects.Batch(ctx, w.ben, []objects.Operation{w.put("one.md", "one"), own, replaced(w.notes.ID, "Ben's")}, nil)
			if c.want == nil {
				if now := versionsOf(w.objects(t)); !fault.Is(err, c.failed) || !maps.Equal(now, before) {
					t.Errorf("%v, and there is %v", err, now)
				}
				return
			}
			must.NoError(t, err)
			for i, want := range c.want {
				if err := outcomes[i].Err; want == 0 && err != nil || want != 0 && !fault.Is(err, want) {
					t.Errorf("operation %d: %v, want kind %d", i, err, want)
				}
			}
			w.assertContents(t)
			w.assertCollected(t, false)
		})
	}
}

func TestConcurrentBatchesOfTheSamePaths(t *testing.T) {
	w := open(t)
	before, from := versionsOf(w.objects(t)), w.head(t)
	const batches, files = 4, 40
	outcomes := make([][]objects.Outcome, batches)
	var all sync.WaitGroup
	for b := range batches {
		all.Go(func() {
			var operations []objects.Operation
			for i := range files {
				operations = append(operations, w.put(fmt.Sprintf("same/%d.md", (i*7+b)%files), fmt.Sprintf("of %d", b)))
			}
			operations = append(operations, replaced(w.notes.ID, fmt.Sprintf("notes of %d", b)))
			outcomes[b], _ = w.Objects.Batch(t.Context(), w.ben, operations, nil)
		})
		all.Go(func() {
			_, _ = w.Objects.Create(t.Context(), w.ada, w.draft(fmt.Sprintf("SAME/%d.md", b)), harness.Text("single"))
		})
	}
	all.Wait()
	made := map[string]int{}
	for _, of := range outcomes {
		for _, o := range of {
			if o.Err == nil {
				made[o.Object.Path]++
			} else if !fault.Is(o.Err, fault.Conflict) {
				t.Error(o.Err)
			}
		}
	}
	if made["notes.md"] != batches || len(made) < files-batches+1 {
		t.Errorf("made %v", made)
	}
	delete(made, "notes.md")
	for path, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times", path, n)
		}
	}
	w.assertConsistent(t, before, from)
}

func TestTheStorageLimitHoldsWithinABatch(t *testing.T) {
	w := open(t)
	used := must.Do(w.Store.Storage().Used(t.Context(), []id.Org{w.ada.Org})).Or(t)
	w.Objects.Limits = plan.StorageLimits{plan.None: used[w.ada.Org].Total() + 10}
	outcomes := w.batch(t, w.ben, w.put("six.md", "123456"), w.put("five.md", "12345"), w.put("four.md", "1234"), deleted(w.notes.ID), w.put("nine.md", "123456789"))
	for i, want := range []bool{true, false, true, true, true} {
		if err := outcomes[i].Err; (err == nil) != want || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	w.assertCollected(t, false)
}

// heldBlobs count the contents that are written at once; the first waits for the second.
type heldBlobs struct {
	ports.Blobs
	second    chan struct{} // closed when two are written at once
	mu        sync.Mutex
	now, most int
}

func (b *heldBlobs) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	b.mu.Lock()
	b.now++
	if b.now == 2 && b.most < 2 {
		close(b.second)
	}
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	<-b.second
	defer func() {
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
	}()
	return b.Blobs.Put(ctx, name, mimeType, size, r)
}

func TestContentsOfAllBatchesAreWrittenInParallelWithABound(t *testing.T) {
	w := open(t)
	options := w.Objects.Options
	blobs := &heldBlobs{Blobs: options.Blobs, second: make(chan struct{})}
	options.Blobs = blobs
	on := objects.New(options)
	var all sync.WaitGroup
	for b := range 3 {
		all.Go(func() {
			var operations []objects.Operation
			for i := range 100 {
				operations = append(operations, w.put(fmt.Sprintf("%d/%d.md", b, i), "x"))
			}
			_, err := on.Batch(t.Context(), w.ben, operations, nil)
			must.Succeed(t, err)
		})
	}
	all.Wait()
	if blobs.most > 32 {
		t.Errorf("%d contents were written at once", blobs.most)
	}
}

func TestDependentOperationsAreStoredInShortTransactions(t *testing.T) {
	operations := func(w *fixture) (all []objects.Operation) {
		for i := range 50 {
			all = append(all, replaced(w.notes.ID, fmt.Sprintf("content %d", i)))
		}
		return all
	}
	w := open(t)
	for i, o := range w.batch(t, w.ben, operations(w)...) {
		if o.Err != nil || o.Object.Version != int64(i+2) {
			t.Fatalf("operation %d: version %d, %v", i, o.Object.Version, o.Err)
		}
	}
	var transactions, appends, most int
	second := 0 // the call that begins the second transaction
	for i, call := range w.Faults.Calls() {
		switch call {
		case "Atomic":
			if transactions++; transactions == 2 {
				second = i
			}
			appends = 0
		case "Changes.Append":
			appends++
			most = max(most, appends)
		}
	}
	if most == 0 || most > 16 || transactions > 10 {
		t.Errorf("%d transactions, of which one stores %d times", transactions, most)
	}
	w.assertContents(t)
	w.assertCollected(t, false)

	failing := open(t)
	failing.Faults.Reset(second, harness.Refused)
	outcomes, err := failing.Objects.Batch(t.Context(), failing.ben, operations(failing), nil)
	failing.Faults.Reset(-1, "")
	if !fault.Is(err, fault.Unavailable) || len(outcomes) != most || outcomes[most-1].Object.Version != int64(most+1) {
		t.Fatalf("%d operations were carried out, %v", len(outcomes), err)
	}
	if o, err := failing.Objects.Get(t.Context(), failing.ben, failing.notes.ID); err != nil || o.Version != int64(most+1) || o.Checksum != harness.Checksum(fmt.Sprintf("content %d", most-1)) {
		t.Errorf("version %d is stored, %v", o.Version, err)
	}
	failing.assertContents(t)
	failing.assertCollected(t, false)
}
