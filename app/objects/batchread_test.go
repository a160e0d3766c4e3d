package objects_test

import (
	"context"
	"errors"
	"io"
	"strings"
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

// wanted returns the objects in any version.
func wanted(ids ...id.Object) (all []objects.Wanted) {
	for _, of := range ids {
		all = append(all, objects.Wanted{Object: of})
	}
	return all
}

// readAll reads objects with a buffer of one file.
func (w *fixture) readAll(t testing.TB, outcomes []objects.Outcome) (contents []string) {
	t.Helper()
	buffer := make([]byte, objects.MaxReadFile)
	for len(contents) < len(outcomes) {
		next := must.Do(w.Objects.Contents(t.Context(), outcomes[len(contents):], buffer)).Or(t)
		if len(next) == 0 {
			t.Fatal("no content is read")
		}
		for _, content := range next {
			contents = append(contents, string(content))
		}
	}
	return contents
}

func TestSelectedObjectsAreThoseThatTheActorReads(t *testing.T) {
	w := open(t)
	own, _, err := w.Objects.Find(t.Context(), w.ben, object.UserMemory)
	must.NoError(t, err)
	large := w.create(t, w.ada, "large.md", strings.Repeat("x", objects.MaxReadFile+1))
	eve := must.Do(w.Join(t.Context(), "org_other", "user_eve", org.Owner)).Or(t)
	all := append(wanted(w.notes.ID, own.ID, large.ID, "", "no id", id.Object(w.IDs.New()), w.notes.ID), objects.Wanted{Object: w.notes.ID, Expected: new(int64(2))})
	for _, c := range []struct {
		about string
		actor org.Actor
		kinds []fault.Kind // of the errors; 0 for none
	}{
		{"their owner", w.ben, []fault.Kind{0, 0, fault.TooLarge, fault.NotFound, fault.NotFound, fault.NotFound, 0, fault.Conflict}},
		{"another member", w.ada, []fault.Kind{0, fault.NotFound, fault.TooLarge, fault.NotFound, fault.NotFound, fault.NotFound, 0, fault.Conflict}},
		{"another organisation", eve, []fault.Kind{fault.NotFound, fault.NotFound, fault.NotFound, fault.NotFound, fault.NotFound, fault.NotFound, fault.NotFound, fault.NotFound}},
	} {
		outcomes := must.Do(w.Objects.Select(t.Context(), c.actor, all)).Or(t)
		for i, o := range outcomes {
			if want := c.kinds[i]; want == 0 && (o.Err != nil || o.Object.ID != all[i].Object) || want != 0 && !fault.Is(o.Err, want) || want == fault.NotFound && o.Object.ID != "" {
				t.Errorf("%s: object %d is %+v, %v", c.about, i, o.Object, o.Err)
			}
		}
		if last := outcomes[len(outcomes)-1]; fault.Is(last.Err, fault.Conflict) && stored(last.Err).ID != w.notes.ID {
			t.Errorf("%s: the conflict is with %+v", c.about, stored(last.Err))
		}
	}
	must.Fail(t, must.ErrorOf(w.Objects.Select(t.Context(), org.Actor{User: w.ada.User}, all)), fault.Forbidden) // without an organisation
}

func TestSelectedContentsHaveABoundTogether(t *testing.T) {
	w := open(t)
	const most = objects.MaxReadBytes / objects.MaxReadFile
	large := w.create(t, w.ada, "large.md", strings.Repeat("x", objects.MaxReadFile))
	var ids []id.Object
	for range most + 1 {
		ids = append(ids, large.ID)
	}
	empty := w.create(t, w.ada, "empty.md", "")
	outcomes := must.Do(w.Objects.Select(t.Context(), w.ben, wanted(append(ids, w.notes.ID, empty.ID)...))).Or(t)
	for i, o := range outcomes {
		if full := i == most || i == most+1; full != fault.Is(o.Err, fault.TooLarge) || !full && o.Err != nil {
			t.Errorf("object %d: %v", i, o.Err)
		}
	}
}

func TestContentsAreThoseOfTheirRecords(t *testing.T) {
	w, ctx := open(t), t.Context()
	empty, large := w.create(t, w.ada, "empty.md", ""), w.create(t, w.ada, "large.md", strings.Repeat("0123456789abcdef", objects.MaxReadFile/16))
	middle := w.create(t, w.ada, "middle.md", strings.Repeat("middle", 1000))
	gone := w.create(t, w.ada, "gone.md", "gone")
	if _, _, err := w.read(t, w.Objects, w.ada, middle); err != nil { // it is in the cache then
		t.Fatal(err)
	}
	outcomes := must.Do(w.Objects.Select(ctx, w.ben, wanted(w.notes.ID, empty.ID, "", large.ID, middle.ID, gone.ID))).Or(t)
	// What is replaced or deleted meanwhile is read as it was.
	must.Do(w.Objects.Replace(ctx, w.ada, w.notes.ID, harness.Text("new notes"))).Or(t)
	must.NoError(t, w.Objects.Delete(ctx, w.ada, gone.ID, nil))
	for i, content := range w.readAll(t, outcomes) {
		if o := outcomes[i]; (i == 2) != (o.Err != nil) || o.Err == nil && harness.Checksum(content) != o.Object.Checksum {
			t.Errorf("object %d, %+v, is %.20q, %v", i, o.Object, content, o.Err)
		}
	}
}

func TestDamagedContentIsAnErrorOfItsObjectAlone(t *testing.T) {
	for about, stored := range map[string]string{"other": "Old notes", "shorter": "old note", "empty": "", "longer": " old notes", "missing": "-"} {
		w, ctx := open(t), t.Context()
		must.NoError(t, w.Blobs.Remove(ctx, w.notes.Blob))
		if about != "missing" {
			must.NoError(t, w.Blobs.Put(ctx, w.notes.Blob, "", -1, strings.NewReader(stored)))
		}
		a, z := w.create(t, w.ada, "a.md", "a"), w.create(t, w.ada, "z.md", "z")
		outcomes := must.Do(w.Objects.Select(ctx, w.ben, wanted(a.ID, w.notes.ID, z.ID))).Or(t)
		contents := w.readAll(t, outcomes)
		if !fault.Is(outcomes[1].Err, fault.Internal) || contents[1] != "" || outcomes[0].Err != nil || outcomes[2].Err != nil || contents[0] != "a" || contents[2] != "z" {
			t.Errorf("%s: %+v, %q", about, outcomes, contents)
		}
	}
}

// waitingBlobs says that a content is being read, which waits for the end of its context. The blob down
// fails once another is read.
type waitingBlobs struct {
	ports.Blobs
	opened chan bool
	down   string
}

func (b waitingBlobs) Open(ctx context.Context, name string, _, _ int64) (io.ReadCloser, error) {
	if name == b.down {
		<-b.opened
		return nil, fault.New(fault.Unavailable, "the store is down")
	}
	b.opened <- true
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestContentsFailWithTheStoreAndTheirContext(t *testing.T) {
	w := open(t)
	outcomes, err := w.Objects.Select(t.Context(), w.ben, wanted(w.notes.ID, w.notes.ID))
	must.NoError(t, err)
	w.Faults.FailNext(map[string]harness.Fault{"Blobs.Open": harness.Refused})
	if contents, err := w.Objects.Contents(t.Context(), outcomes, make([]byte, objects.MaxReadFile)); !fault.Is(err, fault.Unavailable) || contents != nil {
		t.Errorf("%q, %v", contents, err)
	}
	outcomes = must.Do(w.Objects.Select(t.Context(), w.ben, wanted(w.notes.ID, w.notes.ID))).Or(t)
	w.Faults.FailNext(map[string]harness.Fault{"Blobs.Open": harness.Panics})
	must.Do(w.Objects.Contents(t.Context(), outcomes, make([]byte, objects.MaxReadFile))).Or(t)
	if panicked := errors.Join(outcomes[0].Err, outcomes[1].Err); !fault.Is(panicked, fault.Internal) || !strings.Contains(panicked.Error(), "panic: injected") {
		t.Error(panicked)
	}

	down := w.create(t, w.ada, "down.md", "down")
	blobs := waitingBlobs{w.Blobs, make(chan bool, 100), down.Blob}
	w.Objects.Options.Blobs = blobs
	outcomes = must.Do(w.Objects.Select(t.Context(), w.ben, wanted(w.notes.ID, down.ID))).Or(t)
	must.Fail(t, must.ErrorOf(w.Objects.Contents(t.Context(), outcomes, make([]byte, objects.MaxReadFile))), fault.Unavailable)
	must.NoError(t, outcomes[0].Err) // it was cancelled by the failure, which is the error of all

	ctx, cancel := context.WithCancel(t.Context())
	var many []id.Object
	for range 100 {
		many = append(many, w.notes.ID)
	}
	outcomes = must.Do(w.Objects.Select(ctx, w.ben, wanted(many...))).Or(t)
	go func() { <-blobs.opened; cancel() }()
	if contents, err := w.Objects.Contents(ctx, outcomes, make([]byte, objects.MaxReadFile)); !errors.Is(err, context.Canceled) || contents != nil {
		t.Errorf("%q, %v", contents, err)
	}
	if n := len(blobs.opened); n > 31 {
		t.Errorf("%d more contents were opened", n)
	}
}
