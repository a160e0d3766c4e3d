package objects_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/app/objects"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/plan"
	"collab/test/harness"
	"collab/test/must"
)

// withVersions is open with two earlier versions of the notes and a deleted file gone.md, which had
// two versions. Ten versions are kept for 30 days.
func withVersions(t testing.TB) *fixture {
	w := open(t)
	w.VersionRetention[plan.None] = object.Retention{Days: 30, Versions: 10}
	for _, text := range []string{"second notes", "third notes"} {
		must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text(text))).Or(t)
		w.Clock.Advance(time.Second)
	}
	gone := w.create(t, w.ada, "gone.md", "gone")
	must.Do(w.Objects.Replace(t.Context(), w.ada, gone.ID, harness.Text("gone for good"))).Or(t)
	must.NoError(t, w.Objects.Delete(t.Context(), w.ada, gone.ID, nil))
	w.Clock.Advance(time.Hour)
	w.Faults.Reset(-1, "")
	return w
}

// gone returns the id of the only deleted file, or "".
func (w *fixture) gone(t testing.TB) (of id.Object) {
	t.Helper()
	must.NoError(t, w.Objects.Deleted(t.Context(), w.ada, object.Filter{}, func(v object.EarlierVersion) error {
		of = v.ID
		return nil
	}))
	return of
}

// numbers returns the numbers of the versions of an object that the actor lists.
func (w *fixture) numbers(t testing.TB, of id.Object) string {
	t.Helper()
	var all []string
	must.NoError(t, w.Objects.Versions(t.Context(), w.ada, of, math.MaxInt64, 0, func(v objects.Version) error {
		all = append(all, fmt.Sprint(v.Version))
		return nil
	}))
	return strings.Join(all, " ")
}

func TestFailedChangesOfVersionsAreAtomic(t *testing.T) {
	for about, do := range map[string]func(context.Context, *fixture) error{
		"a file is replaced, and its content kept": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("new notes")))
		},
		"the oldest version goes": func(ctx context.Context, w *fixture) error {
			w.VersionRetention[plan.None] = object.Retention{Days: 30, Versions: 2}
			return must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("new notes")))
		},
		"versions give way": func(ctx context.Context, w *fixture) error {
			w.StorageLimits[plan.None] = 110
			return must.ErrorOf(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("new notes, longer")))
		},
		"a file is deleted, and kept": func(ctx context.Context, w *fixture) error { return w.Objects.Delete(ctx, w.ben, w.notes.ID, nil) },
		"an earlier version is restored": func(ctx context.Context, w *fixture) error {
			return must.ErrorOf(w.Objects.RestoreVersion(ctx, w.ben, w.notes.ID, objects.Restoration{Version: 1}))
		},
		"a deleted file is restored": func(ctx context.Context, w *fixture) error {
			return restoreGone(ctx, w, objects.Restoration{})
		},
		"an earlier version of a deleted file is restored elsewhere": func(ctx context.Context, w *fixture) error {
			return restoreGone(ctx, w, objects.Restoration{Version: 1, Path: new("back.md")})
		},
		"a version is discarded": func(ctx context.Context, w *fixture) error {
			return w.Objects.DiscardVersion(ctx, w.ben, w.notes.ID, 1)
		},
		"all versions are discarded": func(ctx context.Context, w *fixture) error {
			return w.Objects.DiscardVersions(ctx, w.ben, w.notes.ID)
		},
	} {
		t.Run(about, func(t *testing.T) { assertAtomic(t, withVersions, do) })
	}
}

// restoreGone restores the deleted file of withVersions.
func restoreGone(ctx context.Context, w *fixture, what objects.Restoration) error {
	var of id.Object
	err := w.Objects.Deleted(ctx, w.ben, object.Filter{}, func(v object.EarlierVersion) error {
		of = v.ID
		return nil
	})
	if err == nil {
		_, err = w.Objects.RestoreVersion(ctx, w.ben, of, what)
	}
	return err
}

func TestNumbersGoOnAfterRestoring(t *testing.T) {
	w := withVersions(t)
	ctx, gone := t.Context(), w.gone(t)
	o, err := w.Objects.RestoreVersion(ctx, w.ben, w.notes.ID, objects.Restoration{Version: 1})
	if err != nil || o.Version != 4 || o.Checksum != harness.Checksum("old notes") || w.numbers(t, w.notes.ID) != "4 3 2" {
		t.Errorf("%+v, %v, versions %s", o, err, w.numbers(t, w.notes.ID))
	}
	o, err = w.Objects.RestoreVersion(ctx, w.ben, gone, objects.Restoration{Version: 1})
	if err != nil || o.Version != 3 || o.Checksum != harness.Checksum("gone") || w.numbers(t, gone) != "3 2" {
		t.Errorf("%+v, %v, versions %s", o, err, w.numbers(t, gone))
	}
	must.Do(w.Objects.Move(ctx, w.ben, gone, "moved.md", nil)).Or(t)
	must.NoError(t, w.Objects.Delete(ctx, w.ben, gone, nil))
	o, err = w.Objects.RestoreVersion(ctx, w.ben, gone, objects.Restoration{Version: 2})
	if err != nil || o.Version != 5 || o.Path != "moved.md" || o.Checksum != harness.Checksum("gone for good") || w.numbers(t, gone) != "5 4" {
		t.Errorf("%+v, %v, versions %s", o, err, w.numbers(t, gone))
	}
	w.assertServed(t, w.Objects)
	w.assertContents(t)
	w.assertCollected(t, true)
}

func TestVersionsGiveWayToContent(t *testing.T) {
	w := withVersions(t)
	ctx := t.Context()
	usage := func() object.Usage {
		used := must.Do(w.Store.Storage().Used(ctx, []id.Org{w.ada.Org})).Or(t)
		return used[w.ada.Org]
	}
	was := usage()
	w.StorageLimits[plan.None] = was.Total()
	// The oldest version, of the notes, makes room for five bytes.
	w.create(t, w.ben, "five.md", "12345")
	if now := usage(); now.Present() != was.Present()+5 || now[object.Versions] != was[object.Versions]-int64(len("old notes")) {
		t.Errorf("%v, before %v", now, was)
	}
	// What is there alone must be within the limit, and all versions go for that.
	w.create(t, w.ben, "rest.md", strings.Repeat("x", int(w.StorageLimits[plan.None]-usage().Present())))
	if now := usage(); now.Total() != w.StorageLimits[plan.None] || now[object.Versions] != 0 {
		t.Errorf("%v", now)
	}
	must.Fail(t, must.ErrorOf(w.Objects.Create(ctx, w.ben, w.draft("more.md"), harness.Text("x"))), fault.Forbidden)
	must.Fail(t, must.ErrorOf(w.Objects.RestoreVersion(ctx, w.ben, w.notes.ID, objects.Restoration{Version: 1})), fault.NotFound)
	// What is replaced stays until the next write, and what is deleted while there is room.
	must.Do(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("THIRD notes"))).Or(t)
	must.Is(t, "4 3", w.numbers(t, w.notes.ID))
	must.Do(w.Objects.Replace(ctx, w.ben, w.notes.ID, harness.Text("third notes"))).Or(t)
	must.Is(t, "5 4", w.numbers(t, w.notes.ID))
	must.NoError(t, w.Objects.Delete(ctx, w.ben, w.notes.ID, nil))
	must.Is(t, "5 4", w.numbers(t, w.notes.ID))
	// Content that is beyond a smaller limit by itself takes no more than is written.
	was = usage()
	w.StorageLimits[plan.None] = 1
	empty := w.create(t, w.ben, "empty.md", "")
	must.NoError(t, w.Objects.Delete(ctx, w.ben, empty.ID, nil))
	if now := usage(); now != was {
		t.Errorf("%v, before %v", now, was)
	}
	// Restoring is content like any other.
	w.StorageLimits[plan.None] = -1
	gone := w.create(t, w.ben, "large.md", strings.Repeat("x", 1000))
	must.NoError(t, w.Objects.Delete(ctx, w.ben, gone.ID, nil))
	w.StorageLimits[plan.None] = usage().Present() + 999
	must.Fail(t, must.ErrorOf(w.Objects.RestoreVersion(ctx, w.ben, gone.ID, objects.Restoration{})), fault.Forbidden)
	w.StorageLimits[plan.None]++
	must.Do(w.Objects.RestoreVersion(ctx, w.ben, gone.ID, objects.Restoration{})).Or(t)
	w.assertContents(t)
	w.assertCollected(t, true)
}

func TestMemoriesWrittenAgainHaveNumbersOfTheirOwn(t *testing.T) {
	memo := func(w *fixture) object.Draft {
		return object.Draft{Path: "memo.md", Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: &w.desk}
	}
	for about, write := range map[string]func(context.Context, *fixture) (object.Object, error){
		"a memory": func(ctx context.Context, w *fixture) (object.Object, error) {
			return w.Objects.SaveMemory(ctx, w.ben, w.desk, "memo.md", harness.Text("x"))
		},
		"a document": func(ctx context.Context, w *fixture) (object.Object, error) {
			return w.Objects.Save(ctx, w.ben, object.OrgMemory, harness.Text("x"))
		},
		"a file": func(ctx context.Context, w *fixture) (object.Object, error) {
			return w.Objects.Create(ctx, w.ben, memo(w), harness.Text("x"))
		},
		"a file of a batch": func(ctx context.Context, w *fixture) (object.Object, error) {
			made, err := w.Objects.Batch(ctx, w.ben, []objects.Operation{{Action: objects.PutFile, Draft: memo(w), Content: []byte("x")}}, nil)
			return made[0].Object, errors.Join(made[0].Err, err)
		},
	} {
		t.Run(about, func(t *testing.T) {
			w, ctx := withVersions(t), t.Context()
			o := must.Do(write(ctx, w)).Or(t)
			must.Is(t, 1, o.Version)
			was := must.Do(w.Objects.Replace(ctx, w.ben, o.ID, harness.Text("y"))).Or(t)
			must.NoError(t, w.Objects.Delete(ctx, w.ben, o.ID, nil))
			again := must.Do(write(ctx, w)).Or(t)
			must.Is(t, was.Version+1, again.Version)
			must.Equal(t, again, must.Do(w.Objects.Get(ctx, w.ben, again.ID)).Or(t))
			must.NoError(t, w.Objects.Delete(ctx, w.ben, again.ID, nil))
			back := must.Do(w.Objects.RestoreVersion(ctx, w.ben, o.ID, objects.Restoration{})).Or(t)
			must.Is(t, again.Version+1, back.Version)
			must.NoError(t, w.Objects.Delete(ctx, w.ben, back.ID, nil))
			w.Clock.Advance(60 * 24 * time.Hour) // then nothing is known of it any more
			must.NoError(t, w.Upkeep.Run(ctx))
			w.reauthorize(t)
			if last := must.Do(write(ctx, w)).Or(t); last.Version <= again.Version {
				t.Errorf("version %d follows %d", last.Version, again.Version)
			}
			w.assertContents(t)
		})
	}
}

func TestAMemoryMovedToThePathOfADeletedOneHasNumbersOfItsOwn(t *testing.T) {
	for about, move := range map[string]func(*testing.T, *fixture, id.Object) object.Object{
		"by itself": func(t *testing.T, w *fixture, of id.Object) object.Object {
			return must.Do(w.Objects.Move(t.Context(), w.ben, of, "memo.md", nil)).Or(t)
		},
		"in a batch": func(t *testing.T, w *fixture, of id.Object) object.Object {
			return w.batch(t, w.ben, moved(of, "memo.md"))[0].Object
		},
	} {
		t.Run(about, func(t *testing.T) {
			w, ctx := withVersions(t), t.Context()
			var was object.Object
			for range 4 {
				was = must.Do(w.Objects.SaveMemory(ctx, w.ben, w.desk, "memo.md", harness.Text("x"))).Or(t)
			}
			must.NoError(t, w.Objects.Delete(ctx, w.ben, was.ID, nil))
			other := must.Do(w.Objects.SaveMemory(ctx, w.ben, w.desk, "other.md", harness.Text("x"))).Or(t)
			is := move(t, w, other.ID)
			must.Is(t, was.Version+1, is.Version)
			must.Equal(t, is, must.Do(w.Objects.Get(ctx, w.ben, is.ID)).Or(t))
			must.Do(w.Objects.Replace(ctx, w.ben, is.ID, harness.Text("y"))).Or(t)
			w.assertContents(t)
		})
	}
}

func TestVersionsExpire(t *testing.T) {
	w := withVersions(t)
	gone := w.gone(t)
	w.Clock.Advance(30*24*time.Hour - time.Hour - 2*time.Second - time.Millisecond)
	must.NoError(t, w.Upkeep.Run(t.Context()))
	must.Is(t, "3 2 1", w.numbers(t, w.notes.ID))
	w.Clock.Advance(time.Millisecond)
	must.NoError(t, w.Upkeep.Run(t.Context()))
	must.Is(t, "3 2", w.numbers(t, w.notes.ID))
	w.Clock.Advance(2 * time.Second)
	must.NoError(t, w.Upkeep.Run(t.Context()))
	if got := w.numbers(t, w.notes.ID); got != "3" || w.gone(t) != "" {
		t.Errorf("the versions are %s, deleted is %s", got, w.gone(t))
	}
	w.reauthorize(t)
	must.Fail(t, must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ben, gone, objects.Restoration{})), fault.NotFound)
	w.assertContents(t)
	w.assertCollected(t, true)
}

func TestAPlanThatKeepsNoneKeepsNone(t *testing.T) {
	w := withVersions(t)
	delete(w.VersionRetention, plan.None)
	must.Do(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("new notes"))).Or(t)
	must.Do(w.Objects.RestoreVersion(t.Context(), w.ben, w.notes.ID, objects.Restoration{Version: 2})).Or(t)
	must.Is(t, "5 1", w.numbers(t, w.notes.ID))
	must.NoError(t, w.Objects.Delete(t.Context(), w.ben, w.notes.ID, nil))
	must.Fail(t, must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ben, w.notes.ID, objects.Restoration{})), fault.NotFound)
	w.assertContents(t)
}

func TestVersionsGoWithTheirPlace(t *testing.T) {
	w := withVersions(t)
	ctx := t.Context()
	for i := range objects.SweepLimit + 5 { // more than one sweep
		o := w.create(t, w.ada, fmt.Sprintf("many/%03d.md", i), "x")
		must.NoError(t, w.Objects.Delete(ctx, w.ada, o.ID, nil))
	}
	memory := must.Do(w.Objects.Save(ctx, w.ben, object.UserMemory, harness.Text("more"))).Or(t)
	must.NoError(t, w.Objects.Delete(ctx, w.ben, memory.ID, nil))
	must.NoError(t, w.Workspaces.Delete(ctx, w.ada, w.desk))
	if left := w.versions(t); len(left) != 2 || left[0].ID != memory.ID {
		t.Errorf("left are %v", left)
	}
	must.NoError(t, w.SendIdentityEvent(ctx, "user.deleted", map[string]any{"id": "user_ben", "deleted": true}))
	if left := w.versions(t); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	w.assertContents(t)
}

func TestConcurrentChangesOfOneFileAndItsVersions(t *testing.T) {
	for round := range 20 {
		w := withVersions(t)
		gone := w.gone(t)
		var all sync.WaitGroup
		for i, do := range []func() error{
			func() error {
				return must.ErrorOf(w.Objects.Replace(t.Context(), w.ben, w.notes.ID, harness.Text("Ben's")))
			},
			func() error {
				return must.ErrorOf(w.Objects.Replace(t.Context(), w.ada, w.notes.ID, harness.Text("Ada's")))
			},
			func() error {
				return must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ben, w.notes.ID, objects.Restoration{Version: 1}))
			},
			func() error {
				return must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ada, w.notes.ID, objects.Restoration{Version: 1}))
			},
			func() error { return w.Objects.DiscardVersion(t.Context(), w.ada, w.notes.ID, 2) },
			func() error {
				return must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ada, gone, objects.Restoration{}))
			},
			func() error {
				return must.ErrorOf(w.Objects.RestoreVersion(t.Context(), w.ben, gone, objects.Restoration{}))
			},
			func() error { return w.Objects.DiscardVersions(t.Context(), w.ben, gone) },
			func() error { return w.Store.Storage().Versions().Expire(t.Context(), w.Clock.Now().Add(time.Hour)) },
			func() error {
				return w.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error { return nil })
			},
			func() error {
				if round%2 == 0 {
					return nil
				}
				return w.Objects.Delete(t.Context(), w.ada, w.notes.ID, nil)
			},
		} {
			all.Go(func() {
				if err := do(); err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		w.assertContents(t)
		w.assertServed(t, w.Objects)
		w.assertCollected(t, true)
	}
}
