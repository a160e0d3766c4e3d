package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/upload"
	"collab/test/harness"
	"collab/test/must"
)

// began creates an upload of a new file, or of the next content of the file if of is set.
func (w *fixture) began(t testing.TB, of id.Object, path, text string) upload.Upload {
	t.Helper()
	var d *object.Draft
	if of == "" {
		d = new(w.draft(path))
	}
	return must.Do(w.Objects.BeginResumable(t.Context(), w.ben, of, d, objects.Upload{Size: int64(len(text)), Checksum: harness.Checksum(text)})).Or(t)
}

// appended appends text to an upload on a server.
func (w *fixture) appended(t testing.TB, on *objects.Objects, u upload.Upload, text string) upload.Upload {
	t.Helper()
	return must.Do(on.AppendResumable(t.Context(), w.ben, u, u.Offset, false, harness.Text(text))).Or(t)
}

// TestResumableUploads has three servers take random pieces of an upload, broken, repeated, concurrent and
// with faults of the store, until one of them finishes it. The file has the whole content then, once.
func TestResumableUploads(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := open(t)
		ctx := t.Context()
		servers := []*objects.Objects{w.Objects, objects.New(w.Objects.Options), objects.New(w.Objects.Options)}
		server := rapid.SampledFrom(servers)
		text := strings.Repeat("0123456789", rapid.IntRange(0, 500).Draw(r, "tens"))
		var of id.Object
		if rapid.Bool().Draw(r, "replaces") {
			of = w.notes.ID
		}
		from := w.head(t)
		u := w.began(t, of, "new.md", text)
		crashing := func(do func()) {
			if rapid.IntRange(0, 3).Draw(r, "fails") == 0 {
				w.Faults.Reset(rapid.IntRange(0, 8).Draw(r, "call"), rapid.SampledFrom(harness.AllFaults).Draw(r, "fault"))
			}
			var one sync.WaitGroup
			one.Go(do)
			one.Wait()
			w.Faults.Reset(-1, "")
		}
		check := func() {
			now := must.Do(servers[0].Resumable(ctx, w.ben, u.ID)).Or(t)
			if now.Offset < u.Offset {
				t.Fatalf("the offset went from %d to %d", u.Offset, now.Offset)
			}
			u = now
		}
		for u.Status() == upload.Open {
			if u.Offset == u.Size && rapid.Bool().Draw(r, "finishes") {
				crashing(func() { _, _ = server.Draw(r, "server").FinishResumable(ctx, w.ben, u, "", nil) })
				check()
				continue
			}
			offset := rapid.SampledFrom([]int64{u.Offset, u.Offset, u.Offset, 0}).Draw(r, "offset")
			n := rapid.Int64Range(0, u.Size-offset).Draw(r, "size")
			breaks := rapid.Bool().Draw(r, "breaks")
			piece := func(on *objects.Objects) {
				in := &objects.Upload{Content: strings.NewReader(text[offset : offset+n]), Size: -1}
				if breaks {
					in.Content = io.MultiReader(in.Content, iotest.ErrReader(errBroken))
				}
				_, _ = on.AppendResumable(ctx, w.ben, u, offset, false, in)
			}
			first, second := server.Draw(r, "server"), server.Draw(r, "other server")
			if rapid.IntRange(0, 3).Draw(r, "concurrently") > 0 {
				crashing(func() { piece(first) })
			} else {
				var both sync.WaitGroup
				both.Go(func() { piece(first) })
				both.Go(func() { piece(second) })
				both.Wait()
			}
			check()
		}
		for _, on := range servers {
			o := must.Do(on.FinishResumable(ctx, w.ben, u, "", nil)).Or(t)
			content := must.Do(w.Read(ctx, o.Blob)).Or(t)
			if content != text || o.Size != int64(len(text)) || o.Checksum != harness.Checksum(text) || o.ID != u.Object {
				t.Errorf("%+v has %d bytes of %d", o, len(content), len(text))
			}
		}
		if log := w.log(t, from); len(log) != 1 || log[0].By != w.ben.User {
			t.Errorf("the log has %+v", log)
		}
		w.Clock.Advance(upload.Lifetime)
		w.assertCollected(t, false)
	})
}

func TestARequestIsStoredInParts(t *testing.T) {
	w := open(t)
	ctx := t.Context()
	text := strings.Repeat("x", 5*harness.PartSize)
	u := w.began(t, "", "new.md", text)
	parts := func() (sizes []int64) {
		all := must.Do(w.Store.Journal().Uploads().Parts(ctx, u.Org, u.ID, 0, 100)).Or(t)
		for _, p := range all {
			sizes = append(sizes, p.Size)
		}
		return sizes
	}
	for _, row := range []struct {
		sends, broken int
		want          string
	}{
		{2*harness.PartSize + harness.MinAppend, 1, "[1000 1000 100]"},
		{harness.MinAppend - 1, 1, "[1000 1000 100]"}, // too little to be stored
		{harness.MinAppend, 0, "[1000 1000 100 100]"},
		{harness.PartSize + 1, 0, "[1000 1000 100 100 1000 1]"},
	} {
		content := io.Reader(strings.NewReader(text[:row.sends]))
		if row.broken > 0 {
			content = io.MultiReader(content, iotest.ErrReader(errBroken))
		}
		now, err := w.Objects.AppendResumable(ctx, w.ben, u, u.Offset, false, &objects.Upload{Content: content, Size: -1})
		if (row.broken > 0) != errors.Is(err, errBroken) || row.broken == 0 && err != nil {
			t.Error(err)
		}
		must.Is(t, row.want, fmt.Sprint(parts()))
		u = now
	}
	if stored, err := w.Objects.Resumable(ctx, w.ben, u.ID); err != nil || stored.Offset != u.Offset {
		t.Errorf("stored is %+v, %v", stored, err)
	}
	_, err := w.Objects.AppendResumable(ctx, w.ben, u, u.Offset, false, &objects.Upload{Content: strings.NewReader("few"), Size: -1})
	must.Fail(t, err, fault.Invalid)
	_, err = w.Objects.AppendResumable(ctx, w.ben, u, u.Offset, true, &objects.Upload{Content: strings.NewReader("few"), Size: -1})
	must.Fail(t, err, fault.Invalid) // it is not the end
	must.Is(t, "[1000 1000 100 100 1000 1]", fmt.Sprint(parts()))
	must.NoError(t, w.Objects.CancelResumable(ctx, w.ben, u))
	w.assertCollected(t, false)
}

func TestResumableUploadsAreRefusedAtTheirBeginning(t *testing.T) {
	w := open(t)
	viewer := must.Do(w.Join(t.Context(), "org_office", "user_vic", org.Viewer)).Or(t)
	for about, row := range map[string]struct {
		actor org.Actor
		of    id.Object
		path  string
		u     objects.Upload
		want  fault.Kind
	}{
		"by a viewer":                {viewer, "", "x.md", objects.Upload{}, fault.Forbidden},
		"of a path that is taken":    {w.ben, "", "PLAN.md", objects.Upload{}, fault.Conflict},
		"of an unknown file":         {w.ben, id.Object(w.IDs.New()), "", objects.Upload{}, fault.NotFound},
		"of more than the limit":     {w.ben, "", "x.md", objects.Upload{Size: harness.MaxSize + 1}, fault.TooLarge},
		"of another version than is": {w.ben, w.notes.ID, "", objects.Upload{Expected: new(int64(7))}, fault.Conflict},
	} {
		t.Run(about, func(t *testing.T) {
			var d *object.Draft
			if row.of == "" {
				d = new(w.draft(row.path))
			}
			must.Fail(t, must.ErrorOf(w.Objects.BeginResumable(t.Context(), row.actor, row.of, d, row.u)), row.want)
		})
	}
	t.Run("of too many at once", func(t *testing.T) {
		for i := range upload.MaxOpen {
			w.began(t, "", fmt.Sprint(i), "text")
		}
		must.Fail(t, must.ErrorOf(w.Objects.BeginResumable(t.Context(), w.ben, "", new(w.draft("one more")), objects.Upload{})), fault.Limited)
	})
	t.Run("beyond the limit of the plan, together with others", func(t *testing.T) {
		w := open(t)
		w.StorageLimits[plan.None] = 3000
		u := w.began(t, "", "first", strings.Repeat("x", 2000))
		_, err := w.Objects.BeginResumable(t.Context(), w.ben, "", new(w.draft("second")), objects.Upload{Size: 2000})
		if must.Fail(t, err, fault.Forbidden); !strings.HasSuffix(err.Error(), " bytes are of uploads that are not complete") {
			t.Error(err)
		}
		must.NoError(t, w.Objects.CancelResumable(t.Context(), w.ben, u))
		w.began(t, "", "second", strings.Repeat("x", 2000))
	})
	t.Run("beyond the limit of the plan, in place of smaller content", func(t *testing.T) {
		w := open(t)
		large := w.create(t, w.ben, "large", strings.Repeat("x", 2000))
		w.StorageLimits[plan.None] = 3000
		w.began(t, large.ID, "", strings.Repeat("y", 2000))
		must.Fail(t, must.ErrorOf(w.Objects.BeginResumable(t.Context(), w.ben, large.ID, nil, objects.Upload{Size: 2000})), fault.Forbidden)
	})
}

func TestResumableUploadsAreOfTheirMember(t *testing.T) {
	w := open(t)
	u := w.began(t, "", "new.md", "text")
	twin, err := w.Join(t.Context(), "org_elsewhere", "user_ben", org.Owner) // the same user in another organisation
	must.NoError(t, err)
	for _, actor := range []org.Actor{w.ada, twin} {
		must.Fail(t, must.ErrorOf(w.Objects.Resumable(t.Context(), actor, u.ID)), fault.NotFound)
	}
}

func TestResumableUploadsThatAreNotFinished(t *testing.T) {
	const text = "whole content"
	finish := func(t *testing.T, w *fixture, u upload.Upload, checksum string) error {
		return must.ErrorOf(w.Objects.FinishResumable(t.Context(), w.ben, u, checksum, nil))
	}
	for about, row := range map[string]struct {
		prepare func(t *testing.T, w *fixture, u upload.Upload) (checksum string)
		want    fault.Kind
		ended   bool // the upload is cancelled
	}{
		"with another checksum than that of the creation": {func(*testing.T, *fixture, upload.Upload) string { return harness.Checksum("other") }, fault.Invalid, false},
		"after the member became a viewer": {func(_ *testing.T, w *fixture, _ upload.Upload) string {
			w.ben.Role = org.Viewer
			return ""
		}, fault.Forbidden, false},
		"after the workspace was deleted": {func(t *testing.T, w *fixture, _ upload.Upload) string {
			must.NoError(t, w.Workspaces.Delete(t.Context(), w.ada, w.desk))
			return ""
		}, fault.Invalid, false},
		"after the path was taken": {func(t *testing.T, w *fixture, _ upload.Upload) string {
			w.create(t, w.ada, "new.md", "was faster")
			return ""
		}, fault.Conflict, false},
		"after a part was lost": {func(t *testing.T, w *fixture, u upload.Upload) string {
			parts := must.Do(w.Store.Journal().Uploads().Parts(t.Context(), u.Org, u.ID, 0, 9)).Or(t)
			must.NoError(t, w.Blobs.Remove(t.Context(), parts[0].Blob))
			return ""
		}, fault.Gone, true},
		"after it was cancelled": {func(t *testing.T, w *fixture, u upload.Upload) string {
			must.NoError(t, w.Objects.CancelResumable(t.Context(), w.ben, u))
			return ""
		}, fault.NotFound, true},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			u := w.appended(t, w.Objects, w.began(t, "", "new.md", text), text)
			checksum := row.prepare(t, w, u)
			from := w.head(t)
			must.Fail(t, finish(t, w, u, checksum), row.want)
			if w.head(t) != from {
				t.Error("the log has grown")
			}
			_, err := w.Objects.Resumable(t.Context(), w.ben, u.ID)
			if row.ended != fault.Is(err, fault.NotFound) {
				t.Errorf("the upload afterwards: %v", err)
			}
			w.Clock.Advance(upload.Lifetime)
			w.assertCollected(t, false)
		})
	}
	t.Run("of other content than declared", func(t *testing.T) {
		w := open(t)
		u := w.appended(t, w.Objects, w.began(t, w.notes.ID, "", text), strings.ToUpper(text))
		must.Fail(t, finish(t, w, u, ""), fault.Invalid)
		must.Fail(t, must.ErrorOf(w.Objects.Resumable(t.Context(), w.ben, u.ID)), fault.NotFound)
		w.assertContents(t)
		w.assertCollected(t, false)
	})
	t.Run("of other content than declared, after the client has gone", func(t *testing.T) {
		w := open(t)
		u := w.appended(t, w.Objects, w.began(t, w.notes.ID, "", text), strings.ToUpper(text))
		gone, leave := context.WithCancel(t.Context())
		leave()
		must.Fail(t, must.ErrorOf(w.Objects.FinishResumable(gone, w.ben, u, "", nil)), fault.Invalid)
		must.Fail(t, must.ErrorOf(w.Objects.Resumable(t.Context(), w.ben, u.ID)), fault.NotFound)
	})
	t.Run("before all of it has arrived", func(t *testing.T) {
		w := open(t)
		u := w.began(t, "", "new.md", text)
		must.Fail(t, finish(t, w, u, ""), fault.Conflict)
		must.NoError(t, finish(t, w, w.appended(t, w.Objects, u, text), ""))
	})
	t.Run("without a checksum", func(t *testing.T) {
		w := open(t)
		u := must.Do(w.Objects.BeginResumable(t.Context(), w.ben, "", new(w.draft("new.md")), objects.Upload{Size: 4})).Or(t)
		u = w.appended(t, w.Objects, u, "text")
		must.Fail(t, finish(t, w, u, ""), fault.Invalid)
		must.Fail(t, finish(t, w, u, harness.Checksum("other")), fault.Invalid)
		must.NoError(t, finish(t, w, u, harness.Checksum("text")))
	})
	t.Run("when its content is longer", func(t *testing.T) {
		w := open(t)
		u := w.began(t, "", "new.md", text)
		_, err := w.Objects.AppendResumable(t.Context(), w.ben, u, 0, false, &objects.Upload{Content: bytes.NewBufferString(text + "!"), Size: -1})
		must.Fail(t, err, fault.Invalid)
		must.Fail(t, must.ErrorOf(w.Objects.Resumable(t.Context(), w.ben, u.ID)), fault.NotFound)
		w.assertCollected(t, false)
	})
}

func TestResumableUploadsEndWithTheMembership(t *testing.T) {
	const text = "text and more"
	for about, end := range map[string]func(t *testing.T, w *fixture) error{
		"that is removed here": func(t *testing.T, w *fixture) error { return w.Members.Remove(t.Context(), w.ada, w.ben.User) },
		"of a user who is deleted at the identity provider": func(t *testing.T, w *fixture) error {
			return w.Receive(t.Context(), "msg_1", []byte(`{"type": "user.deleted", "data": {"id": "user_ben", "deleted": true}}`))
		},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			u := w.appended(t, w.Objects, w.began(t, "", "new.md", text), text)
			must.NoError(t, end(t, w))
			must.Fail(t, must.ErrorOf(w.Objects.Resumable(t.Context(), w.ben, u.ID)), fault.NotFound)
			w.assertCollected(t, false)
		})
	}
	t.Run("and are cancelled by a member who became a viewer", func(t *testing.T) {
		w := open(t)
		u := w.began(t, "", "new.md", text)
		w.ben.Role = org.Viewer
		must.NoError(t, w.Objects.CancelResumable(t.Context(), w.ben, u))
	})
}

func TestAbandonedResumableUploadsAreCollected(t *testing.T) {
	w := open(t)
	u := w.appended(t, w.Objects, w.began(t, "", "new.md", "text and more"), "text and more")
	w.Clock.Advance(upload.Lifetime - time.Millisecond)
	must.NoError(t, w.Upkeep.Run(t.Context()))
	listed := func() []upload.Upload { return must.Do(w.Objects.OpenUploads(t.Context(), w.ben)).Or(t) }
	if now := listed(); len(now) != 1 || now[0].Offset != u.Size {
		t.Errorf("before its end: %+v", now)
	}
	w.Clock.Advance(2 * time.Millisecond)
	if now := listed(); len(now) != 0 {
		t.Errorf("after its end: %+v", now)
	}
	must.NoError(t, w.Upkeep.Run(t.Context()))
	must.Fail(t, must.ErrorOf(w.Store.Journal().Uploads().Get(t.Context(), u.Org, u.ID)), fault.NotFound)
	w.assertCollected(t, false)
}
