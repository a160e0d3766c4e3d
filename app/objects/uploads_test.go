package objects_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"collab/app/objects"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/harness"
	"collab/test/must"
)

func TestUploadsToTheStore(t *testing.T) {
	w := open(t)
	ctx := t.Context()
	for about, row := range map[string]struct {
		of   *objects.DirectUpload
		want object.Object
	}{
		"a new file":      {w.made, object.Object{Path: "sent.md", Version: 1, MimeType: "text/markdown"}},
		"the next of one": {w.remade, object.Object{Path: "notes.md", Version: 2, MimeType: "text/markdown"}},
	} {
		t.Run(about, func(t *testing.T) {
			from := w.head(t)
			for range 3 {
				got := must.Do(w.Objects.CompleteDirect(ctx, w.ben, row.of, nil)).Or(t)
				if got.Path != row.want.Path || got.Version != row.want.Version || got.MimeType != row.want.MimeType || got.UpdatedBy != w.ben.User || !got.Text || got.Content.Checksum != row.of.Content.Checksum {
					t.Errorf("got %+v", got)
				}
			}
			if log := w.log(t, from); len(log) != 1 || log[0].By != w.ben.User {
				t.Errorf("the log has %+v", log)
			}
			must.Fail(t, w.Objects.CancelDirect(ctx, w.ben, row.of), fault.NotFound)
		})
	}
	w.assertServed(t, w.Objects)
	w.assertContents(t)
	w.assertCollected(t, false)
}

func TestUploadsToTheStoreAreRefusedAtTheStart(t *testing.T) {
	w := open(t)
	elsewhere := must.Do(w.Join(t.Context(), "org_elsewhere", "user_eve", org.Owner)).Or(t)
	viewer := must.Do(w.Join(t.Context(), "org_office", "user_vic", org.Viewer)).Or(t)
	for about, row := range map[string]struct {
		actor  org.Actor
		of     object.Object
		path   string
		change func(*objects.Upload)
		want   fault.Kind
	}{
		"by a viewer":                         {viewer, object.Object{}, "x.md", nil, fault.Forbidden},
		"of a file of another organisation":   {elsewhere, w.notes, "", nil, fault.NotFound},
		"into a workspace of another":         {elsewhere, object.Object{}, "x.md", nil, fault.Invalid},
		"of a path that is taken":             {w.ben, object.Object{}, "PLAN.md", nil, fault.Conflict},
		"of a path that leaves its folder":    {w.ben, object.Object{}, "../x.md", nil, fault.Invalid},
		"of a path with a line break":         {w.ben, object.Object{}, "x\r\nSet-Cookie: a.md", nil, fault.Invalid},
		"of a media type with a line break":   {w.ben, object.Object{}, "x.md", func(u *objects.Upload) { u.MimeType = "text/plain\r\nX: y" }, fault.Invalid},
		"of more than the limit":              {w.ben, object.Object{}, "x.md", func(u *objects.Upload) { u.Size = harness.MaxSize + 1 }, fault.TooLarge},
		"of more than there is":               {w.ben, object.Object{}, "x.md", func(u *objects.Upload) { u.Size = 1<<63 - 1 }, fault.TooLarge},
		"of another version than there is":    {w.ben, w.notes, "", func(u *objects.Upload) { u.Expected = new(int64(7)) }, fault.Conflict},
		"of a new file with a version before": {w.ben, object.Object{}, "x.md", func(u *objects.Upload) { u.Expected = new(int64(1)) }, fault.Conflict},
	} {
		t.Run(about, func(t *testing.T) {
			var change []func(*objects.Upload)
			if row.change != nil {
				change = append(change, row.change)
			}
			_, _, err := w.start(t, row.actor, row.of.ID, row.path, "text", change...)
			must.Fail(t, err, row.want)
		})
	}
	t.Run("without a store that has addresses", func(t *testing.T) {
		options := w.Objects.Options
		options.Signed = nil
		o := objects.New(options)
		_, _, _, err := o.StartDirect(t.Context(), w.ben, w.notes.ID, nil, objects.Upload{})
		must.Fail(t, err, fault.Conflict)
		must.Fail(t, must.ErrorOf(o.DirectUpload(w.ben, "x")), fault.NotFound)
		if address, err := o.Address(t.Context(), w.notes, "attachment"); address != "" || err != nil {
			t.Errorf("the address is %q, %v", address, err)
		}
	})
}

func TestOutstandingUploadsToTheStoreAreBounded(t *testing.T) {
	w := open(t)
	ids := []string{}
	var err error
	for err == nil && len(ids) < 2000 {
		var upload string
		if upload, _, err = w.start(t, w.ben, "", fmt.Sprintf("x%d.md", len(ids)), strings.Repeat("x", len(ids)%2)); err == nil {
			ids = append(ids, upload)
		}
	}
	must.Fail(t, err, fault.Limited)
	if len(ids) != 998 { // beside those of open
		t.Errorf("%d uploads were started", len(ids))
	}
	must.NoError(t, w.Objects.CancelDirect(t.Context(), w.ben, w.started(t, w.ben, ids[0])))
	var group sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		group.Go(func() { _, _, results[i] = w.start(t, w.ben, "", fmt.Sprintf("y%d.md", i), "text") })
	}
	group.Wait()
	began := 0
	for _, err := range results {
		if err == nil {
			began++
		} else {
			must.Fail(t, err, fault.Limited)
		}
	}
	must.Is(t, 1, began)
	must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("ordinary uploads have no such limit"))).Or(t)
	w.assertCollected(t, false)
}

func TestUploadsToTheStoreAreOfTheirMember(t *testing.T) {
	w := open(t)
	upload := w.sent(t, w.ben, "", "mine.md", "mine")
	raw := must.Do(base64.RawURLEncoding.DecodeString(upload)).Or(t)
	raw[len(raw)-1] ^= 1
	eve := must.Do(w.Join(t.Context(), "org_elsewhere", "user_eve", org.Owner)).Or(t)
	twin, err := w.Join(t.Context(), "org_elsewhere", "user_ben", org.Owner) // the same user in another organisation
	must.NoError(t, err)
	for about, row := range map[string]struct {
		actor  org.Actor
		upload string
	}{
		"another member's": {w.ada, upload}, "another organisation's": {eve, upload}, "the user's in another organisation": {twin, upload},
		"a changed one": {w.ben, base64.RawURLEncoding.EncodeToString(raw)}, "none": {w.ben, ""}, "nonsense": {w.ben, "../" + upload},
		"a long one": {w.ben, strings.Repeat("A", 20<<10)},
	} {
		t.Run(about, func(t *testing.T) {
			must.Fail(t, must.ErrorOf(w.Objects.DirectUpload(row.actor, row.upload)), fault.NotFound)
		})
	}
}

func TestUploadsToTheStoreAreRefusedAtTheEnd(t *testing.T) {
	for about, row := range map[string]struct {
		before func(t *testing.T, w *fixture) error // what happens between sending and completing
		want   fault.Kind
	}{
		"after the member became a viewer": {func(t *testing.T, w *fixture) error {
			w.ben.Role = org.Viewer
			return nil
		}, fault.Forbidden},
		"after the member was removed": {func(t *testing.T, w *fixture) error {
			return w.Members.Remove(t.Context(), w.ada, w.ben.User)
		}, fault.Forbidden},
		"after the organisation was closed": {func(t *testing.T, w *fixture) error {
			return w.SendIdentityEvent(t.Context(), "organization.deleted", map[string]any{"id": "org_office", "deleted": true})
		}, fault.Forbidden},
		"after a day": {func(t *testing.T, w *fixture) error {
			w.Clock.Advance(object.BlobGracePeriod + time.Minute)
			return w.Upkeep.Collect(t.Context(), false, false, func(upkeep.Garbage) error { return nil })
		}, fault.Conflict},
		"after it was given up": {func(t *testing.T, w *fixture) error {
			return errors.Join(w.Objects.CancelDirect(t.Context(), w.ben, w.made), w.Objects.CancelDirect(t.Context(), w.ben, w.remade))
		}, fault.Gone},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			must.NoError(t, row.before(t, w))
			for _, of := range []*objects.DirectUpload{w.made, w.remade} {
				must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, of, nil)), row.want)
			}
		})
	}
	for about, row := range map[string]struct {
		text string // that is sent; empty: none
		want fault.Kind
	}{
		"of nothing":         {"", fault.Conflict},
		"of another size":    {"content!", fault.Invalid},
		"of another content": {"CONTENT", fault.Invalid},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			before, from := versionsOf(w.objects(t)), w.head(t)
			for _, of := range []object.Object{{}, w.notes} {
				upload, to, err := w.start(t, w.ben, of.ID, "new.md", "content")
				must.NoError(t, err)
				if row.text != "" {
					w.send(t, to, row.text)
				}
				must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.started(t, w.ben, upload), nil)), row.want)
			}
			w.assertLog(t, before, from)
			if w.head(t) != from {
				t.Error("the log has grown")
			}
			w.assertCollected(t, false)
		})
	}
	t.Run("into a workspace that is gone", func(t *testing.T) {
		w := open(t)
		must.NoError(t, w.Workspaces.Delete(t.Context(), w.ada, w.desk))
		w.reauthorize(t)
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.made, nil)), fault.Invalid)
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.remade, nil)), fault.NotFound)
		w.assertCollected(t, false)
	})
	t.Run("into a workspace that the member does not see any more", func(t *testing.T) {
		w := open(t)
		must.NoError(t, w.Teams.RemoveMember(t.Context(), w.ada, w.crew, w.ben.User))
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.made, nil)), fault.Invalid)
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.remade, nil)), fault.NotFound)
	})
	t.Run("at a path that was taken meanwhile", func(t *testing.T) {
		w := open(t)
		w.create(t, w.ada, "sent.md", "was faster")
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.made, nil)), fault.Conflict)
		w.assertContents(t)
		w.assertCollected(t, false)
	})
	t.Run("of another version than there is by now", func(t *testing.T) {
		w := open(t)
		upload := w.sent(t, w.ben, w.notes.ID, "", "expecting", func(u *objects.Upload) { u.Expected = new(int64(1)) })
		must.Do(w.Objects.CompleteDirect(t.Context(), w.ben, w.remade, nil)).Or(t)
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.started(t, w.ben, upload), nil)), fault.Conflict)
		w.assertContents(t)
		w.assertCollected(t, false)
	})
	t.Run("again after its content was replaced", func(t *testing.T) {
		w := open(t)
		must.Do(w.Objects.CompleteDirect(t.Context(), w.ben, w.remade, nil)).Or(t)
		must.Do(w.Objects.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("newer"))).Or(t)
		must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.remade, nil)), fault.Gone)
		w.assertContents(t)
		w.assertCollected(t, false)
	})
}

func TestAnUploadToTheStoreIsCompletedOnce(t *testing.T) {
	for range 20 {
		w := open(t)
		from := w.head(t)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				of := []*objects.DirectUpload{w.made, w.remade}[i%2]
				if o, err := w.Objects.CompleteDirect(context.WithoutCancel(t.Context()), w.ben, of, nil); err != nil || o.Blob != of.Content.Blob {
					t.Errorf("got %+v, %v: %v", o, err, errors.Unwrap(err))
				}
			})
		}
		group.Wait()
		if log := w.log(t, from); len(log) != 2 {
			t.Errorf("the log has %+v", log)
		}
		w.assertContents(t)
		w.assertCollected(t, false)
	}
}

func TestUploadsToTheStoreStayWithinThePlan(t *testing.T) {
	w := open(t)
	ctx := t.Context()
	ten := strings.Repeat("x", 10)
	state := func() (used, declared int64) {
		t.Helper()
		of, err := w.Store.Storage().Used(ctx, []id.Org{w.ben.Org})
		must.NoError(t, err)
		_, declared, err = w.Store.Storage().Announced(ctx, w.ben.Org)
		must.NoError(t, err)
		return of[w.ben.Org].Total(), declared
	}
	used, declared := state()
	w.StorageLimits[plan.None] = used + declared + 45
	var ids []string
	errs := make([]error, 8)
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			upload, to, err := w.start(t, w.ben, "", fmt.Sprintf("x%d.md", i), ten)
			if errs[i] = err; err != nil {
				return
			}
			w.send(t, to, ten)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, upload)
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			must.Fail(t, err, fault.Forbidden)
		}
	}
	if used, pending := state(); len(ids) != 4 || pending != declared+40 || used != w.StorageLimits[plan.None]-declared-45 {
		t.Fatalf("%d uploads were started, with %d bytes beside %d", len(ids), pending, used)
	}
	// What is given up makes room, and what is completed counts as stored.
	must.NoError(t, w.Objects.CancelDirect(ctx, w.ben, w.started(t, w.ben, ids[0])))
	for range 2 {
		must.Do(w.Objects.CompleteDirect(ctx, w.ben, w.started(t, w.ben, ids[1]), nil)).Or(t)
	}
	if now, pending := state(); now != used+10 || pending != declared+20 {
		t.Errorf("%d bytes are stored and %d declared", now, pending)
	}
	_, _, err := w.start(t, w.ben, "", "more.md", ten)
	must.NoError(t, err)
	_, _, err = w.start(t, w.ben, "", "last.md", ten)
	must.Fail(t, err, fault.Forbidden)
	// Content that passes through the server does not wait for what was declared; the completion decides.
	w.StorageLimits[plan.None] = used + 15
	must.Do(w.Objects.Create(ctx, w.ben, object.Draft{Path: "five.md", Kind: object.Artifact, Scope: object.Shared}, harness.Text("12345"))).Or(t)
	must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(ctx, w.ben, w.started(t, w.ben, ids[2]), nil)), fault.Forbidden)
	must.NoError(t, w.Objects.Delete(ctx, w.ben, w.started(t, w.ben, ids[1]).Object, nil))
	must.Do(w.Objects.CompleteDirect(ctx, w.ben, w.started(t, w.ben, ids[2]), nil)).Or(t)
	w.assertContents(t)
}

func TestLongContentIsRefusedBeforeItIsRead(t *testing.T) {
	w := open(t)
	w.StorageLimits[plan.None] = 100 << 10
	u := func() *objects.Upload {
		return &objects.Upload{Content: iotest.ErrReader(errors.New("the content was read")), Size: 120 << 10}
	}
	must.Fail(t, must.ErrorOf(w.Objects.Create(t.Context(), w.ben, object.Draft{Path: "long.md", Kind: object.Artifact, Scope: object.Shared}, u())), fault.Forbidden)
	must.Fail(t, must.ErrorOf(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, u())), fault.Forbidden)
}

func TestLongContentOfTheStoreIsNotRead(t *testing.T) {
	w := open(t)
	options := w.Objects.Options
	options.MaxSize = 10 << 20
	w.Objects = objects.New(options)
	text := strings.Repeat("long ", 1<<19)
	upload := w.sent(t, w.ben, "", "long.md", text)
	started := w.started(t, w.ben, upload)
	w.Faults.Reset(-1, "")
	o := must.Do(w.Objects.CompleteDirect(t.Context(), w.ben, started, nil)).Or(t)
	if calls := fmt.Sprint(w.Faults.Calls()); o.Text || strings.Contains(calls, "Blobs.Open") || !strings.Contains(calls, "SignedBlobs.Stat") {
		t.Errorf("%+v with %s", o, calls)
	}
	upload, to, err := w.start(t, w.ben, "", "other.md", text)
	must.NoError(t, err)
	w.send(t, to, strings.ToUpper(text))
	must.Fail(t, must.ErrorOf(w.Objects.CompleteDirect(t.Context(), w.ben, w.started(t, w.ben, upload), nil)), fault.Invalid)
	w.assertContents(t)
}

func TestAddressesOfContent(t *testing.T) {
	w := open(t)
	address, err := w.Objects.Address(t.Context(), w.notes, "attachment")
	if err != nil || !strings.HasPrefix(address, harness.BlobsURL) || !strings.Contains(address, "lifetime=1m0s") || !strings.Contains(address, "type=text%2Fmarkdown") {
		t.Errorf("it is %s, %v", address, err)
	}
}
