package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/app/objects"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// read serves a request of the actor on one server: it authorizes the actor and reads the
// file with its content.
func (w *fixture) read(t testing.TB, on *objects.Objects, actor org.Actor, of object.Object) (object.Object, string, error) {
	t.Helper()
	now := must.Do(w.Actor(t.Context(), actor.Org, actor.User)).Or(t)
	o, err := on.Get(t.Context(), now, of.ID)
	if err != nil {
		return o, "", err
	}
	r := must.Do(on.Open(t.Context(), o, 0, -1)).Or(t)
	defer r.Close()
	content := must.Do(io.ReadAll(r)).Or(t)
	return o, string(content), nil
}

func TestCachedRecordsAreReadOnce(t *testing.T) {
	w := open(t)
	expect := func(about string, want ...string) {
		t.Helper()
		if got := w.Faults.Calls(); !slices.Equal(got, want) {
			t.Errorf("%s: the calls were %v, want %v", about, got, want)
		}
		w.Faults.Reset(-1, "")
	}
	for _, want := range [][]string{{"Objects.Get", "Blobs.Open"}, nil, nil} {
		if _, content, err := w.read(t, w.Objects, w.ben, w.notes); content != "old notes" || err != nil {
			t.Errorf("%q, %v", content, err)
		}
		expect("reading", want...)
	}
	w.reauthorize(t)
	for i := range 3 {
		must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("notes"))).Or(t)
		expect(fmt.Sprintf("replacing, time %d", i), "BlobNames.Announce", "Blobs.Put", "Storage.Replace")
		w.reauthorize(t)
	}
	must.Do(w.Objects.Save(t.Context(), w.ben, object.Profile, harness.Text("{}"))).Or(t)
	w.reauthorize(t)
	w.Faults.Reset(-1, "")
	must.Do(w.Objects.Save(t.Context(), w.ben, object.Profile, harness.Text(`{"a":1}`))).Or(t)
	expect("saving", "BlobNames.Announce", "Blobs.Put", "Storage.Replace")
}

// TestAMissingDocumentIsReadOnce has another server store the document and change it after it was missing.
func TestAMissingDocumentIsReadOnce(t *testing.T) {
	w := open(t)
	other := objects.New(w.Objects.Options)
	expect := func(version int64, calls ...string) {
		t.Helper()
		w.reauthorize(t)
		w.Faults.Reset(-1, "")
		o, found, err := w.Objects.Find(t.Context(), w.ben, object.OrgMemory)
		if got := w.Faults.Calls(); err != nil || found != (version > 0) || o.Version != version || !slices.Equal(got, calls) {
			t.Errorf("version %d, %v, %v with the calls %v, want version %d with %v", o.Version, found, err, got, version, calls)
		}
	}
	expect(0, "Objects.At")
	expect(0)
	must.Do(other.Save(t.Context(), w.ada, object.OrgMemory, harness.Text("new"))).Or(t)
	expect(1, "Objects.At")
	expect(1)
	must.Do(other.Save(t.Context(), w.ada, object.OrgMemory, harness.Text("newer"))).Or(t)
	expect(2, "Objects.At")

	// A cache that says it is missing refuses no upload.
	if _, found, err := other.Find(t.Context(), w.ben, object.Profile); found || err != nil {
		t.Errorf("a document that nobody has stored: %v, %v", found, err)
	}
	must.Do(w.Objects.Save(t.Context(), w.ben, object.Profile, harness.Text("{}"))).Or(t)
	u := harness.Text(`{"a":1}`)
	u.Expected = new(int64(1))
	must.Is(t, 2, must.Do(other.Save(t.Context(), w.ben, object.Profile, u)).Or(t).Version)
}

func TestMissingNamesDisplaceNoRecords(t *testing.T) {
	w := open(t)
	w.reauthorize(t)
	must.Do(w.Objects.Get(t.Context(), w.ben, w.notes.ID)).Or(t)
	for i := range 12_000 { // whose weight is more than that of all records that are cached
		if _, found, err := w.Objects.FindMemory(t.Context(), w.ben, w.desk, fmt.Sprint(strings.Repeat("x", 200), i)); found || err != nil {
			t.Fatalf("name %d: %t, %v", i, found, err)
		}
	}
	w.Faults.Reset(-1, "")
	must.Do(w.Objects.Get(t.Context(), w.ben, w.notes.ID)).Or(t)
	if calls := w.Faults.Calls(); len(calls) > 0 {
		t.Errorf("the calls are %v", calls)
	}
}

// TestAnOutdatedRecordRefusesNoUpload has another server replace the file after its record was cached.
func TestAnOutdatedRecordRefusesNoUpload(t *testing.T) {
	w := open(t)
	w.reauthorize(t)
	must.Do(w.Objects.Get(t.Context(), w.ben, w.notes.ID)).Or(t)
	other := objects.New(w.Objects.Options)
	must.Do(other.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("newer"))).Or(t)
	u := harness.Text("newest")
	u.Expected = new(int64(2))
	must.Is(t, 3, must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, u)).Or(t).Version)
	w.reauthorize(t)
	must.Do(w.Objects.Get(t.Context(), w.ben, w.notes.ID)).Or(t)
	must.Do(other.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("newer again"))).Or(t)
	must.Is(t, 5, must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("newest again"))).Or(t).Version)

	// Neither is one that fits into the plan in place of the present content alone.
	must.Do(other.Replace(t.Context(), w.ada, w.notes.ID, harness.Text(strings.Repeat("x", 180<<10)))).Or(t)
	w.StorageLimits[plan.None] = 200 << 10
	w.reauthorize(t)
	must.Is(t, 7, must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text(strings.Repeat("y", 185<<10)))).Or(t).Version)
}

func TestRangesOfCachedContent(t *testing.T) {
	w := open(t)
	for range 2 { // from the store, and from memory
		for _, c := range []struct {
			offset, length int64
			want           string
		}{{4, 3, "not"}, {4, -1, "notes"}, {8, 1, "s"}, {9, -1, ""}, {0, 3, "old"}, {0, 9, "old notes"}} {
			r := must.Do(w.Objects.Open(t.Context(), w.notes, c.offset, c.length)).Or(t)
			content, err := io.ReadAll(r)
			if string(content) != c.want || err != nil {
				t.Errorf("%d bytes from %d are %q, %v, want %q", c.length, c.offset, content, err, c.want)
			}
			must.NoError(t, r.Close())
		}
	}
}

func TestCachedRecordsAreCheckedForVisibility(t *testing.T) {
	w := open(t)
	own, err := w.Objects.Create(t.Context(), w.ada, object.Draft{Path: "diary.md", Kind: object.Artifact, Scope: object.Personal}, harness.Text("dear diary"))
	must.NoError(t, err)
	for range 2 {
		if _, content, err := w.read(t, w.Objects, w.ada, own); content != "dear diary" || err != nil {
			t.Errorf("%q, %v", content, err)
		}
		if _, content, err := w.read(t, w.Objects, w.ben, own); !fault.Is(err, fault.NotFound) {
			t.Errorf("another is shown %q, %v", content, err)
		}
	}
	stranger := must.Do(w.Join(t.Context(), "org_other", "user_eve", org.Owner)).Or(t)
	for _, of := range []object.Object{own, w.notes} {
		if _, content, err := w.read(t, w.Objects, stranger, of); !fault.Is(err, fault.NotFound) {
			t.Errorf("another organisation is shown %q, %v", content, err)
		}
	}
}

func TestTheNextRequestSeesChangesOfAnotherServer(t *testing.T) {
	for _, c := range []struct {
		about string
		do    func(*testing.T, *fixture, *objects.Objects) error
		want  string // empty: NotFound
	}{
		{"it is replaced", func(t *testing.T, w *fixture, on *objects.Objects) error {
			return must.ErrorOf(on.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("new notes")))
		}, "new notes"},
		{"it is replaced, and the previous blob is collected", func(t *testing.T, w *fixture, on *objects.Objects) error {
			if _, err := on.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("new notes")); err != nil {
				return err
			}
			w.Clock.Advance(object.BlobGracePeriod + 1e6)
			return w.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error { return nil })
		}, "new notes"},
		{"it is deleted", func(t *testing.T, w *fixture, on *objects.Objects) error {
			return on.Delete(t.Context(), w.ada, w.notes.ID, nil)
		}, ""},
		{"it is deleted, and another takes its path", func(t *testing.T, w *fixture, on *objects.Objects) error {
			if err := on.Delete(t.Context(), w.ada, w.notes.ID, nil); err != nil {
				return err
			}
			return must.ErrorOf(on.Create(t.Context(), w.ada, w.draft("notes.md"), harness.Text("others")))
		}, ""},
		{"its workspace is deleted", func(t *testing.T, w *fixture, _ *objects.Objects) error {
			return w.Workspaces.Delete(t.Context(), w.ada, w.desk)
		}, ""},
		{"the reader leaves the team", func(t *testing.T, w *fixture, _ *objects.Objects) error {
			return w.Teams.RemoveMember(t.Context(), w.ada, w.crew, w.ben.User)
		}, ""},
	} {
		t.Run(c.about, func(t *testing.T) {
			w := open(t)
			another := objects.New(w.Objects.Options)
			for range 2 {
				if _, content, err := w.read(t, w.Objects, w.ben, w.notes); content != "old notes" || err != nil {
					t.Fatalf("%q, %v", content, err)
				}
			}
			must.NoError(t, c.do(t, w, another))
			for range 2 {
				_, content, err := w.read(t, w.Objects, w.ben, w.notes)
				if c.want == "" && !fault.Is(err, fault.NotFound) || c.want != "" && (content != c.want || err != nil) {
					t.Errorf("%q, %v, want %q", content, err, c.want)
				}
			}
		})
	}
}

// assertServed checks that a server returns every object as it is in the store.
func (w *fixture) assertServed(t testing.TB, on *objects.Objects) {
	t.Helper()
	for key, want := range w.objects(t) {
		reader := w.ada
		if want.Owner != nil {
			reader.User = *want.Owner
		}
		o, content, err := w.read(t, on, reader, want)
		if err != nil || fmt.Sprint(o) != fmt.Sprint(want) || o.Blob != want.Blob || o.N != want.N || harness.Checksum(content) != want.Checksum {
			t.Errorf("%s is served as %+v with %q, %v; want %+v", key, o, content, err, want)
		}
	}
}

func TestCachesEqualTheStore(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := open(t)
		servers := []*objects.Objects{w.Objects, objects.New(w.Objects.Options)}
		server := rapid.SampledFrom(servers)
		path := rapid.SampledFrom([]string{"notes.md", "a.md"})
		made := 0
		r.Repeat(map[string]func(*rapid.T){
			"": func(r *rapid.T) {
				for _, on := range servers {
					w.assertServed(t, on)
				}
				if t.Failed() {
					r.Fatal("a server was wrong")
				}
			},
			"write": func(r *rapid.T) {
				at, on := path.Draw(r, "path"), server.Draw(r, "server")
				made++
				w.reauthorize(t)
				text := harness.Text(strings.Repeat("x", made))
				for _, there := range w.objects(t) {
					if there.Path == at {
						must.Do(on.Replace(t.Context(), w.ben, there.ID, text)).Or(r)
						return
					}
				}
				must.Do(on.Create(t.Context(), w.ben, w.draft(at), text)).Or(r)
			},
			"delete": func(r *rapid.T) {
				at, on := path.Draw(r, "path"), server.Draw(r, "server")
				w.reauthorize(t)
				for _, there := range w.objects(t) {
					if there.Path == at {
						must.NoError(r, on.Delete(t.Context(), w.ben, there.ID, nil))
					}
				}
			},
		})
	})
}

// stateBlobs are blobs in a store whose readers are ports.BlobFile.
type stateBlobs struct {
	ports.Blobs
	state string
	size  int64 // added to the size of each
}

type stateFile struct {
	*strings.Reader
	size  int64
	state string
}

func (f stateFile) State() (int64, string) { return f.size, f.state }
func (f stateFile) Close() error           { return nil }

func (b *stateBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	size := int64(len(content))
	if content = content[offset:]; length >= 0 {
		content = content[:length]
	}
	return stateFile{strings.NewReader(string(content)), size + b.size, b.state}, errors.Join(err, r.Close())
}

func TestUnchangedFilesAreVerifiedOnce(t *testing.T) {
	const kib = 1 << 10
	w, ctx := open(t), t.Context()
	blobs := &stateBlobs{Blobs: w.Blobs, state: "first"}
	options := w.Objects.Options
	options.Blobs = blobs
	on := objects.New(options)
	long := strings.Repeat("0123456789abcdef", 20*kib)
	o := w.create(t, w.ada, "long.bin", long)
	// direct opens a part of an object, reads it, and reports whether its reader needs no look at
	// the bytes.
	direct := func(t *testing.T, o object.Object, offset, length int64) bool {
		t.Helper()
		r := must.Do(on.Open(ctx, o, offset, length)).Or(t)
		defer r.Close()
		_, ok := r.(io.WriterTo)
		must.Do(io.Copy(io.Discard, struct{ io.Reader }{r})).Or(t)
		return ok
	}
	expect := func(about string, of object.Object, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := direct(t, of, 0, -1); got != want {
				t.Errorf("%s, read %d: %v", about, i, got)
			}
		}
	}
	expect("content that was not read before", o, false, true, true)
	blobs.state = "second"
	expect("a file that was written to", o, false, true)
	w.Clock.Advance(61 * time.Minute)
	expect("an hour later", o, false, true)
	w.Clock.Advance(-24 * time.Hour)
	expect("after the clock was set back", o, false, true)
	blobs.state = ""
	expect("a file whose writes do not show", o, false, false)
	blobs.state = "third"
	expect("content of less than a block", w.create(t, w.ada, "short.bin", long[:200*kib]), false, false)
	blobs.state = ""
	if direct(t, o, 5, 300*kib) {
		t.Error("a part of a file whose writes do not show is not looked at")
	}
	blobs.state = "third"
	if !direct(t, o, 5, 300*kib) {
		t.Error("a part is verified")
	}
	blobs.size = -1
	if direct(t, o, 5, 300*kib) {
		t.Error("a part of a file of another size is not looked at")
	}
	blobs.size, blobs.state = 0, "damaged"
	must.NoError(t, w.Blobs.Remove(ctx, o.Blob))
	must.NoError(t, w.Blobs.Put(ctx, o.Blob, "", -1, strings.NewReader("x"+long[1:])))
	for range 2 {
		r := must.Do(on.Open(ctx, o, 0, -1)).Or(t)
		must.Fail(t, must.ErrorOf(io.ReadAll(r)), fault.Internal) // damaged content
	}
}
