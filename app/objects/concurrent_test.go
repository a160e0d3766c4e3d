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

	"collab/app/access"
	"collab/app/objects"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

func TestChangesDuringAnUpload(t *testing.T) {
	create := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Create(t.Context(), w.ben, w.draft("new.md"), harness.Text("new")))
	}
	replace := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("Ben's")))
	}
	replaceExpected := func(t *testing.T, w *fixture) error {
		u, one := harness.Text("Ben's"), int64(1)
		u.Expected = &one
		return must.ErrorOf(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, u))
	}
	saveMemory := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.SaveMemory(t.Context(), w.ben, w.desk, "memory.md", harness.Text("Ben's")))
	}
	createInTeam := func(t *testing.T, w *fixture) error {
		_, err := w.Objects.Create(t.Context(), w.ben, object.Draft{Path: "new.md", Kind: object.TeamMemory, Scope: object.Shared, Team: &w.crew}, harness.Text("new"))
		return err
	}
	profile := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Save(t.Context(), w.ben, object.Profile, harness.Text("{}")))
	}
	deleteDesk := func(t *testing.T, w *fixture) error { return w.Workspaces.Delete(t.Context(), w.ada, w.desk) }
	deleteTeam := func(t *testing.T, w *fixture) error {
		if err := deleteDesk(t, w); err != nil {
			return err
		}
		return w.Teams.Delete(t.Context(), w.ada, w.crew)
	}
	removeBen := func(t *testing.T, w *fixture) error {
		w.Clock.Advance(2 * time.Second)
		return w.Members.Remove(t.Context(), w.ada, w.ben.User)
	}
	becomeViewer := func(t *testing.T, w *fixture) error {
		w.Clock.Advance(2 * time.Second)
		return must.ErrorOf(w.Members.ChangeRole(t.Context(), w.ada, w.ben.User, "VIEWER"))
	}
	leaveTeam := func(t *testing.T, w *fixture) error {
		w.Clock.Advance(2 * time.Second)
		return w.Teams.RemoveMember(t.Context(), w.ada, w.crew, w.ben.User)
	}
	expireName := func(t *testing.T, w *fixture) error {
		w.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
		return w.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error { return nil })
	}
	replaceFirst := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("Ada's")))
	}
	deleteFirst := func(t *testing.T, w *fixture) error { return w.Objects.Delete(t.Context(), w.ada, w.notes.ID, nil) }
	takePath := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Create(t.Context(), w.ada, w.draft("NEW.md"), harness.Text("Ada's")))
	}
	makeFolder := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Create(t.Context(), w.ada, w.draft("new.md/inside"), harness.Text("Ada's")))
	}
	createInFolder := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Create(t.Context(), w.ben, w.draft("folder/new.md"), harness.Text("new")))
	}
	moveFirst := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Move(t.Context(), w.ada, w.notes.ID, "elsewhere/notes.md", nil))
	}
	moveToPath := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.Move(t.Context(), w.ada, w.notes.ID, "NEW.md", nil))
	}
	moveFolder := func(t *testing.T, w *fixture) error {
		_, _, err := w.Objects.MoveFolder(t.Context(), w.ada, w.draft(""), "folder", "other")
		return err
	}
	saveMemoryFirst := func(t *testing.T, w *fixture) error {
		return must.ErrorOf(w.Objects.SaveMemory(t.Context(), w.ada, w.desk, "memory.md", harness.Text("Ada's")))
	}

	const done = fault.Kind(200)
	for _, c := range []struct {
		about     string
		write     func(*testing.T, *fixture) error
		meanwhile func(*testing.T, *fixture) error
		want      fault.Kind
	}{
		{"the workspace of a new file is deleted", create, deleteDesk, fault.Invalid},
		{"the workspace of a file is deleted", replace, deleteDesk, fault.NotFound},
		{"the workspace of a new memory file is deleted", saveMemory, deleteDesk, fault.NotFound},
		{"the team of a new memory is deleted", createInTeam, deleteTeam, fault.Invalid},
		{"the writer of a new file is removed", create, removeBen, fault.Forbidden},
		{"the writer is removed", replace, removeBen, fault.Forbidden},
		{"the writer of their own document is removed", profile, removeBen, fault.Forbidden},
		{"the writer becomes a viewer", replace, becomeViewer, fault.Forbidden},
		{"the writer of a new file leaves the team", create, leaveTeam, fault.Invalid},
		{"the writer leaves the team", replace, leaveTeam, fault.NotFound},
		{"the writer of a document leaves the team", profile, leaveTeam, done},
		{"the blob name of a new file expires", create, expireName, fault.Unavailable},
		{"the blob name of a replacement expires", replace, expireName, fault.Unavailable},
		{"another user replaces the file", replace, replaceFirst, done},
		{"another user replaces the expected version", replaceExpected, replaceFirst, fault.Conflict},
		{"another user deletes the file", replace, deleteFirst, fault.NotFound},
		{"another user takes the path in another case", create, takePath, fault.Conflict},
		{"another user makes a folder of the path", create, makeFolder, fault.Conflict},
		{"another user makes the memory file", saveMemory, saveMemoryFirst, done},
		{"another user moves the file", replace, moveFirst, done},
		{"another user moves the expected version", replaceExpected, moveFirst, fault.Conflict},
		{"another user moves a file to the path", create, moveToPath, fault.Conflict},
		{"another user moves the folder", createInFolder, moveFolder, done},
	} {
		t.Run(c.about, func(t *testing.T) {
			w := open(t)
			before, from := versionsOf(w.objects(t)), w.head(t)
			var failed error
			w.Faults.During("Blobs.Put", func() { failed = c.meanwhile(t, w) })
			err := c.write(t, w)
			if failed != nil {
				t.Fatal(failed)
			}
			if c.want == done && err != nil || c.want != done && !fault.Is(err, c.want) {
				t.Errorf("the write ended with %v", err)
			}
			for key, o := range w.objects(t) {
				content, err := w.Read(t.Context(), o.Blob)
				if mine := content == "new" || content == "Ben's" || content == "{}"; err != nil || mine && c.want != done {
					t.Errorf("%s has %q, %v", key, content, err)
				}
			}
			w.assertLog(t, before, from)
			w.assertContents(t)
			// A blob whose name expired is found only by listing all blobs.
			w.assertCollected(t, c.want == fault.Unavailable)
		})
	}
}

// TestRightsAreThoseAfterAConflict takes rights from a member between the conflict with a request that was faster and
// the look at what that has stored.
func TestRightsAreThoseAfterAConflict(t *testing.T) {
	for about, end := range map[string]func(t *testing.T, w *fixture, slower *objects.Objects) error{
		"of a resumable upload": func(t *testing.T, w *fixture, slower *objects.Objects) error {
			u := w.appended(t, w.Objects, w.began(t, "", "new.md", "text"), "text")
			must.Do(w.Objects.FinishResumable(t.Context(), w.ben, u, "", nil)).Or(t)
			return must.ErrorOf(slower.FinishResumable(t.Context(), w.ben, u, "", nil))
		},
		"of an upload to the store": func(t *testing.T, w *fixture, slower *objects.Objects) error {
			w.Faults.During("SignedBlobs.Stat", func() { must.Do(w.Objects.CompleteDirect(t.Context(), w.ben, w.made, nil)).Or(t) })
			return must.ErrorOf(slower.CompleteDirect(t.Context(), w.ben, w.made, nil))
		},
	} {
		t.Run(about, func(t *testing.T) {
			w := open(t)
			options := w.Objects.Options
			options.Atomic = func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
				err := w.Objects.Atomic(ctx, actor, fn)
				must.Fail(t, err, fault.Conflict)
				must.NoError(t, w.Teams.RemoveMember(ctx, w.ada, w.crew, w.ben.User))
				return err
			}
			if err := end(t, w, objects.New(options)); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
				t.Errorf("the file is shown: %v", err)
			}
		})
	}
}

func TestConflictsNameThePath(t *testing.T) {
	w := open(t)
	for _, path := range []string{"notes.md", "NOTES.md", "notes.md/inside"} {
		for _, size := range []int{1, 100 << 10} { // the first is too small to be refused before it is sent
			if _, err := w.Objects.Create(t.Context(), w.ada, w.draft(path), harness.Text(strings.Repeat("x", size))); !fault.Is(err, fault.Conflict) || err.Error() != "The path "+path+" is taken" {
				t.Errorf("%s with %d bytes: %v", path, size, err)
			}
		}
	}
}

func TestReplacedContentCanBeReadToItsEnd(t *testing.T) {
	w, ctx := open(t), t.Context()
	r := must.Do(w.Objects.Open(ctx, w.notes, 0, -1)).Or(t)
	defer r.Close()
	must.Do(w.Objects.Replace(ctx, w.ada, w.notes.ID, harness.Text("new notes"))).Or(t)
	w.Clock.Advance(object.BlobGracePeriod)
	must.NoError(t, w.Upkeep.Collect(ctx, true, false, func(g upkeep.Garbage) error { return fmt.Errorf("collected %+v", g) }))
	// A reader who has only the record can still open the blob.
	late := must.Do(w.Objects.Open(ctx, w.notes, 0, -1)).Or(t)
	defer late.Close()
	for _, r := range []io.Reader{r, late} {
		must.Is(t, "old notes", string(must.Do(io.ReadAll(r)).Or(t)))
	}
	w.assertCollected(t, false)
}

func TestOnlyWritersChangeObjects(t *testing.T) {
	w, ctx := open(t), t.Context()
	must.Do(w.Members.ChangeRole(ctx, w.ada, w.ben.User, "VIEWER")).Or(t)
	w.reauthorize(t)
	before, from := versionsOf(w.objects(t)), w.head(t)
	for role, actor := range map[string]org.Actor{"a viewer": w.ben, "a user without organisation": {User: w.ben.User}} {
		for about, do := range map[string]func(*objects.Upload) error{
			"creates":   func(u *objects.Upload) error { _, err := w.Objects.Create(ctx, actor, w.draft("x"), u); return err },
			"replaces":  func(u *objects.Upload) error { _, err := w.Objects.Replace(ctx, actor, w.notes.ID, u); return err },
			"saves":     func(u *objects.Upload) error { _, err := w.Objects.Save(ctx, actor, object.Profile, u); return err },
			"remembers": func(u *objects.Upload) error { return must.ErrorOf(w.Objects.SaveMemory(ctx, actor, w.desk, "m", u)) },
			"deletes":   func(*objects.Upload) error { return w.Objects.Delete(ctx, actor, w.notes.ID, nil) },
		} {
			u := harness.Text("x")
			if err := do(u); !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s %s: %v", role, about, err)
			}
			if rest, err := io.ReadAll(u.Content); err != nil || string(rest) != "x" {
				t.Errorf("%s %s: %q of the content is left unread, %v", role, about, rest, err)
			}
		}
	}
	w.assertLog(t, before, from)
	w.assertCollected(t, false)
}

// addTasks adds more tasks to a workspace than one transaction deletes.
func (w *fixture) addTasks(t *testing.T, in id.Workspace) {
	t.Helper()
	for range 150 {
		made := must.Do(task.New(id.Task(w.IDs.New()), w.ben.Org, w.ben.User, task.Draft{Title: "Task", Workspace: &in}, w.Clock.Now())).Or(t)
		must.Do(w.Store.Work().Tasks().Add(t.Context(), w.ben.Org, made)).Or(t)
	}
}

// deletion deletes a workspace or a team in several transactions.
type deletion struct {
	about        string
	prepare      func(*testing.T, *fixture)
	draft        func(w *fixture, path string) object.Draft
	delete       func(ctx context.Context, w *fixture, by org.Actor) error
	transactions int
	left         int      // Ben's memory, and the team's unless it is deleted
	refused      org.Role // may not delete it
}

var deletions = []deletion{
	{
		about:   "a workspace",
		prepare: func(t *testing.T, w *fixture) { w.addTasks(t, w.desk) },
		draft:   (*fixture).draft,
		delete: func(ctx context.Context, w *fixture, by org.Actor) error {
			return w.Workspaces.Delete(ctx, by, w.desk)
		},
		transactions: 6, left: 2, refused: org.Viewer,
	},
	{
		about:   "a team",
		prepare: func(t *testing.T, w *fixture) { must.NoError(t, w.Workspaces.Delete(t.Context(), w.ada, w.desk)) },
		draft: func(w *fixture, path string) object.Draft {
			return object.Draft{Path: path, Kind: object.TeamMemory, Scope: object.Shared, Team: &w.crew}
		},
		delete: func(ctx context.Context, w *fixture, by org.Actor) error {
			return w.Teams.Delete(ctx, by, w.crew)
		},
		transactions: 4, left: 1, refused: org.Member,
	},
}

// open returns a fixture in which Ben, now an ADMIN, has made the objects to be deleted.
func (d deletion) open(t *testing.T) *fixture {
	t.Helper()
	w := open(t)
	must.Do(w.Members.ChangeRole(t.Context(), w.ada, w.ben.User, string(org.Admin))).Or(t)
	d.prepare(t, w)
	w.reauthorize(t)
	for i := range 2*objects.SweepLimit + 50 {
		d.create(t, w, fmt.Sprintf("file%03d.md", i))
	}
	w.Faults.Reset(-1, "")
	return w
}

func (d deletion) create(t *testing.T, w *fixture, path string) {
	t.Helper()
	must.Do(w.Objects.Create(t.Context(), w.ben, d.draft(w, path), harness.Text("x"))).Or(t)
}

// after has fn run once so many more transactions have ended.
func (w *fixture) after(transactions int, fn func()) {
	w.Faults.During("Atomic", func() {
		if transactions == 1 {
			fn()
		} else {
			w.after(transactions-1, fn)
		}
	})
}

func TestDeletionsRunNoTransactionTwice(t *testing.T) {
	for _, d := range deletions {
		w := d.open(t)
		must.NoError(t, d.delete(t.Context(), w, w.ben))
		took := 0
		for _, call := range w.Faults.Calls() {
			if call == "Atomic" {
				took++
			}
		}
		if took != d.transactions {
			t.Errorf("%s took %d transactions, want %d", d.about, took, d.transactions)
		}
	}
}

func TestDeletionsRemoveObjectsAddedMeanwhile(t *testing.T) {
	for _, d := range deletions {
		for after := 1; after < d.transactions; after++ {
			t.Run(fmt.Sprintf("%s, added after %d transactions", d.about, after), func(t *testing.T) {
				w := d.open(t)
				added := false
				w.after(after, func() {
					d.create(t, w, "earlier.md")
					added = true
				})
				if err := d.delete(t.Context(), w, w.ben); err != nil || !added {
					t.Fatalf("%v, added: %t", err, added)
				}
				if left := w.objects(t); len(left) != d.left {
					t.Errorf("%d files are left, want %d", len(left), d.left)
				}
				w.assertContents(t)
			})
		}
	}
}

func TestDeletionsStopWhenRightsEnd(t *testing.T) {
	for _, c := range []struct {
		about string
		end   func(ctx context.Context, w *fixture, d deletion) error
		want  fault.Kind
	}{
		{"the deleter is removed", func(ctx context.Context, w *fixture, _ deletion) error {
			return w.Members.Remove(ctx, w.ada, w.ben.User)
		}, fault.Forbidden},
		{"the deleter's role changes", func(ctx context.Context, w *fixture, d deletion) error {
			return must.ErrorOf(w.Members.ChangeRole(ctx, w.ada, w.ben.User, string(d.refused)))
		}, fault.Forbidden},
		{"the token expires", func(_ context.Context, w *fixture, _ deletion) error {
			w.Clock.Advance(time.Minute)
			return nil
		}, fault.Unauthenticated},
	} {
		for _, d := range deletions {
			for after := 1; after < d.transactions; after++ {
				t.Run(fmt.Sprintf("%s, %s after %d transactions", d.about, c.about, after), func(t *testing.T) {
					w := d.open(t)
					ctx := access.NewContext(t.Context(), access.Request{Expires: w.Clock.Now().Add(time.Minute)})
					left := 0
					w.after(after, func() {
						must.NoError(t, c.end(t.Context(), w, d))
						left = len(w.objects(t))
					})
					if err := d.delete(ctx, w, w.ben); !fault.Is(err, c.want) {
						t.Errorf("got %v", err)
					}
					if now := len(w.objects(t)); now != left {
						t.Errorf("%d files are left, %d were there", now, left)
					}
				})
			}
		}
	}
}

// received returns the type and the path of each entry after a number that the actor sees.
func (w *fixture) received(t testing.TB, after int64, actor org.Actor) (all []string) {
	t.Helper()
	for _, c := range w.log(t, after) {
		if c.VisibleTo(actor) {
			all = append(all, fmt.Sprintf("%s %s", c.Type, c.Object.Path))
		}
	}
	return all
}

func TestDeletionsAreSentAfterTheirWorkspaceOrTeamIsDeleted(t *testing.T) {
	w, ctx := open(t), t.Context()
	cyd, err := w.Join(ctx, "org_office", "user_cyd", org.Member) // sees neither
	must.NoError(t, err)
	from := w.head(t)
	check := func(want ...string) {
		t.Helper()
		w.reauthorize(t)
		if received := w.received(t, from, w.ben); !slices.Equal(received, want) {
			t.Errorf("the team's member is told %q, want %q", received, want)
		}
		if received := w.received(t, from, cyd); len(received) > 0 {
			t.Errorf("another member is told %q", received)
		}
		from = w.head(t)
	}
	must.NoError(t, w.Objects.Delete(ctx, w.ben, w.notes.ID, nil))
	must.NoError(t, w.Workspaces.Delete(ctx, w.ada, w.desk))
	check("file-deleted notes.md", "file-deleted folder/a.md", "file-deleted folder/sub/b.md", "file-deleted plan.md")
	must.NoError(t, w.Teams.Delete(ctx, w.ada, w.crew))
	check("file-deleted facts.md", "access-changed ")
}

func TestDeletingAUserRemovesTheirObjects(t *testing.T) {
	w := open(t)
	ctx, now := t.Context(), w.Clock.Now()
	alone, err := team.New(id.Team(w.IDs.New()), w.ben.Org, team.Personal, w.ben.User, team.Draft{Name: "Ben"}, now)
	must.NoError(t, err)
	var own []id.Workspace
	must.NoError(t, w.Store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, w.ben.Org); err != nil {
			return err
		}
		err := r.Work().Teams().Add(ctx, w.ben.Org, alone)
		for range 2 {
			made, failed := workspace.New(id.Workspace(w.IDs.New()), w.ben.Org, w.ben.User, workspace.Draft{Name: "Own", Team: alone.ID}, now)
			err = errors.Join(err, failed, r.Work().Workspaces().Add(ctx, w.ben.Org, made))
			own = append(own, made.ID)
		}
		return err
	}))
	w.reauthorize(t)
	w.addTasks(t, own[1])
	for i := range objects.SweepLimit + 50 {
		for _, d := range []object.Draft{
			{Kind: object.Artifact, Scope: object.Personal}, {Kind: object.Artifact, Scope: object.Shared, Workspace: &own[0]},
			{Kind: object.TeamMemory, Scope: object.Shared, Team: &alone.ID},
		} {
			d.Path = fmt.Sprintf("own%03d.md", i)
			must.Do(w.Objects.Create(ctx, w.ben, d, harness.Text("x"))).Or(t)
		}
	}

	from := w.head(t)
	must.NoError(t, w.SendIdentityEvent(ctx, "user.deleted", map[string]any{"id": "user_ben", "deleted": true}))
	if received := w.received(t, from, w.ada); len(received) > 0 {
		t.Errorf("another member is told of %d deletions, the first %q", len(received), received[0])
	}
	if left := w.objects(t); len(left) != 5 { // notes, plan, facts and those of the folder
		t.Errorf("%d files are left", len(left))
	}
	for _, o := range own {
		must.Fail(t, must.ErrorOf(w.Store.Work().Workspaces().Get(ctx, w.ben.Org, o)), fault.NotFound) // no workspace is left
	}
	must.Fail(t, must.ErrorOf(w.Store.Work().Teams().Get(ctx, w.ben.Org, alone.ID)), fault.NotFound) // the team is gone
	w.assertContents(t)
}
