package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

var startTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a store of blobs with one of every sort: named by an object, replaced,
// deleted, announced and written, announced and not written, and known to
// nobody.
type fixture struct {
	*harness.Deployment
	ada      org.Actor
	stored   map[string]bool          // by name
	reasons  map[string]upkeep.Reason // why blobs will be garbage, by name
	objects  map[string]object.Object // by path
	contents map[string]string        // what objects hold, by blob
}

const (
	unwritten = "unwritten@1-a"
	abandoned = "abandoned@1-b"
	stray     = "stray@1-c"
)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f, err := harness.NewDeployment(startTime)
	must.NoError(t, err)
	y := &fixture{Deployment: f, stored: map[string]bool{}, reasons: map[string]upkeep.Reason{}, objects: map[string]object.Object{}, contents: map[string]string{}}
	ctx := t.Context()
	y.ada, err = f.Join(ctx, "org_yard", "user_ada", org.Owner)
	must.NoError(t, err)
	for _, path := range []string{"stays", "is replaced", "is deleted"} {
		o := must.Do(f.Objects.Create(ctx, y.ada, object.Draft{Path: path, Kind: object.Template, Scope: object.Shared}, harness.Text(path))).Or(t)
		y.objects[path] = o
	}
	next := must.Do(f.Objects.Replace(ctx, y.ada, y.objects["is replaced"].ID, harness.Text("replacement"))).Or(t)
	must.NoError(t, f.Objects.Delete(ctx, y.ada, y.objects["is deleted"].ID, nil))
	for _, name := range []string{unwritten, abandoned} {
		must.NoError(t, f.Store.Storage().BlobNames().Announce(ctx, y.ada.Org, name, 0, f.Clock.Now()))
	}
	for _, name := range []string{abandoned, stray} {
		must.NoError(t, f.Blobs.Put(ctx, name, "", -1, strings.NewReader(name)))
	}
	y.stored = map[string]bool{y.objects["stays"].Blob: true, next.Blob: true}
	y.contents = map[string]string{y.objects["stays"].Blob: "stays", next.Blob: "replacement"}
	y.reasons = map[string]upkeep.Reason{
		y.objects["is replaced"].Blob: upkeep.Unnamed, y.objects["is deleted"].Blob: upkeep.Unnamed,
		unwritten: upkeep.Unnamed, abandoned: upkeep.Unnamed, stray: upkeep.Unknown,
	}
	f.Faults.Reset(-1, "")
	return y
}

func (y *fixture) collect(t testing.TB, whole, dry bool) map[string]upkeep.Reason {
	t.Helper()
	found := map[string]upkeep.Reason{}
	must.NoError(t, y.Upkeep.Collect(t.Context(), whole, dry, func(g upkeep.Garbage) error {
		if _, twice := found[g.Name]; twice || !g.Since.Before(y.Clock.Now().Add(-object.BlobGracePeriod)) {
			t.Errorf("%+v is found twice or too early", g)
		}
		found[g.Name] = g.Reason
		return nil
	}))
	return found
}

// checkStored checks what is in the store, and that objects have their content.
func (y *fixture) checkStored(t testing.TB, want map[string]bool) {
	t.Helper()
	is, err := y.BlobNames(t.Context())
	if err != nil || !maps.Equal(is, want) {
		t.Errorf("the store has %v, %v; want %v", is, err, want)
	}
	for name, want := range y.contents {
		if got, err := y.Read(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

func (y *fixture) names(t testing.TB) []object.Blob {
	t.Helper()
	return must.Do(y.Store.Storage().BlobNames().Due(t.Context(), y.Clock.Now().Add(time.Hour), "", 1000)).Or(t)
}

// checkNoNames checks that the store has no names that wait for their deletion.
func (y *fixture) checkNoNames(t testing.TB) {
	t.Helper()
	if names := y.names(t); len(names) > 0 {
		t.Errorf("names are left: %v", names)
	}
}

// withoutReason returns the reasons without those of the kind.
func withoutReason(all map[string]upkeep.Reason, r upkeep.Reason) map[string]upkeep.Reason {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(_ string, of upkeep.Reason) bool { return of == r })
	return rest
}

func TestGarbageIsCollectedWhenItsGraceIsOver(t *testing.T) {
	y := newFixture(t)
	everything := must.Do(y.BlobNames(t.Context())).Or(t)
	y.Clock.Advance(object.BlobGracePeriod)
	if found := y.collect(t, true, false); len(found) > 0 {
		t.Errorf("before its time %v was collected", found)
	}
	y.checkStored(t, everything)
	y.Clock.Advance(time.Millisecond)
	// Objects without a record are found only by a listing of the whole store.
	if found := y.collect(t, false, false); !maps.Equal(found, withoutReason(y.reasons, upkeep.Unknown)) {
		t.Errorf("collected %v", found)
	}
	withStray := maps.Clone(y.stored)
	withStray[stray] = true
	y.checkStored(t, withStray)
	if found := y.collect(t, true, false); !maps.Equal(found, map[string]upkeep.Reason{stray: upkeep.Unknown}) {
		t.Errorf("the search collected %v", found)
	}
	y.checkStored(t, y.stored)
	y.checkNoNames(t)
	y.Clock.Advance(1000 * object.BlobGracePeriod)
	if found := y.collect(t, true, false); len(found) > 0 {
		t.Errorf("later %v was collected", found)
	}
	y.checkStored(t, y.stored)
}

func TestADryRunListsGarbageAndRemovesNothing(t *testing.T) {
	for _, whole := range []bool{false, true} {
		y := newFixture(t)
		y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
		everything := must.Do(y.BlobNames(t.Context())).Or(t)
		names := y.names(t)
		would := y.collect(t, whole, true)
		y.checkStored(t, everything)
		if after := y.names(t); !slices.Equal(after, names) {
			t.Errorf("the names became %v", after)
		}
		for _, call := range y.Faults.Calls() {
			if slices.Contains([]string{"Blobs.Remove", "BlobNames.Expire", "BlobNames.Forget", "BlobNames.Discard", "Atomic"}, call) {
				t.Errorf("a dry run called %s", call)
			}
		}
		if did := y.collect(t, whole, false); !maps.Equal(did, would) || len(did) < 4 {
			t.Errorf("collected %v, a dry run said %v", did, would)
		}
	}
}

func TestACollectionThatStopsAnywhereIsTakenUpAgain(t *testing.T) {
	clear := newFixture(t)
	clear.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	clear.collect(t, true, false)
	calls := clear.Faults.Calls()
	if len(calls) < 10 {
		t.Fatalf("a collection calls %v", calls)
	}
	for at, call := range calls {
		for _, failure := range harness.AllFaults {
			t.Run(fmt.Sprintf("call %d, %s: %s", at, call, failure), func(t *testing.T) {
				y := newFixture(t)
				y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
				y.Faults.Reset(at, failure)
				err, died := harness.Run(func() error {
					return y.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error { return nil })
				})
				if failed := failure != harness.Retried; failed != (err != nil || died) {
					t.Errorf("ended with %v, died: %v", err, died)
				}
				y.Faults.Reset(-1, "")
				for name, want := range y.contents {
					if got, err := y.Read(t.Context(), name); err != nil || got != want {
						t.Errorf("%s is %q, %v", name, got, err)
					}
				}
				y.collect(t, true, false)
				y.checkStored(t, y.stored)
				y.checkNoNames(t)
			})
		}
	}
}

func TestASecondCollectorMayRunAtAnyMomentOfTheFirst(t *testing.T) {
	for _, call := range []string{"BlobNames.Due", "BlobNames.Expire", "Blobs.Remove", "BlobNames.Forget", "Blobs.List", "BlobNames.Known"} {
		t.Run("during "+call, func(t *testing.T) {
			y := newFixture(t)
			y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
			ran := false
			y.Faults.During(call, func() {
				ran = true
				y.collect(t, true, false)
			})
			y.collect(t, true, false)
			if !ran {
				t.Error("there was no second collector")
			}
			y.checkStored(t, y.stored)
			y.checkNoNames(t)
		})
	}
	t.Run("all the time", func(t *testing.T) {
		y := newFixture(t)
		y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				must.Succeed(t, y.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error { return nil }))
			})
		}
		all.Wait()
		y.checkStored(t, y.stored)
		y.checkNoNames(t)
	})
}

// TestAnUploadAsLongAsTheGraceSucceedsOrFailsCompletely has an old upload and the collector claim one blob name:
// one of them wins, and the blob stays if it is the upload.
func TestAnUploadAsLongAsTheGraceSucceedsOrFailsCompletely(t *testing.T) {
	const none = "nothing, before it begins"
	for _, call := range []string{none, "BlobNames.Expire", "BlobNames.Due", "Blobs.Remove", "BlobNames.Forget"} {
		t.Run("ends while the collector does "+call, func(t *testing.T) {
			y, ctx := newFixture(t), t.Context()
			begun, end := make(chan struct{}), make(chan struct{})
			var made object.Object
			var failed error
			var upload sync.WaitGroup
			y.Faults.During("Blobs.Put", func() { close(begun); <-end })
			upload.Go(func() {
				made, failed = y.Objects.Create(ctx, y.ada, object.Draft{Path: "slow", Kind: object.Template, Scope: object.Shared}, harness.Text("slow"))
			})
			<-begun
			y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
			finish := sync.OnceFunc(func() { close(end); upload.Wait() })
			y.Faults.During(call, finish)
			if call == none {
				finish()
			}
			y.collect(t, true, false)
			upload.Wait()
			if failed == nil {
				y.stored[made.Blob], y.contents[made.Blob] = true, "slow"
			} else if !fault.Is(failed, fault.Unavailable) {
				t.Errorf("the upload failed with %v", failed)
			}
			if won := failed == nil; won != (call == none) {
				t.Errorf("the upload won: %v", won)
			}
			y.collect(t, true, false)
			y.checkStored(t, y.stored)
		})
	}
}

// TestANameThatIsOldWhenItIsAnnouncedIsNotTakenFromItsUpload announces a name by a clock behind the collector's.
func TestANameThatIsOldWhenItIsAnnouncedIsNotTakenFromItsUpload(t *testing.T) {
	y, ctx := newFixture(t), t.Context()
	y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	y.Faults.During("BlobNames.Expire", func() {
		must.Succeed(t, y.Store.Storage().BlobNames().Announce(ctx, y.ada.Org, "late@1-d", 0, startTime))
		must.Succeed(t, y.Blobs.Put(ctx, "late@1-d", "", -1, strings.NewReader("late")))
	})
	if found := y.collect(t, true, false); !maps.Equal(found, y.reasons) {
		t.Errorf("collected %v", found)
	}
	if got, err := y.Read(ctx, "late@1-d"); err != nil || got != "late" {
		t.Errorf("its content is %q, %v", got, err)
	}
	if found := y.collect(t, true, false); !maps.Equal(found, map[string]upkeep.Reason{"late@1-d": upkeep.Unnamed}) {
		t.Errorf("the next time %v is collected", found)
	}
	y.checkStored(t, y.stored)
}

func TestAnErrorOfTheVisitorEndsTheCollection(t *testing.T) {
	enough := errors.New("enough")
	for _, dry := range []bool{false, true} {
		y := newFixture(t)
		y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
		removed := 0
		err := y.Upkeep.Collect(t.Context(), true, dry, func(upkeep.Garbage) error {
			removed++
			if removed == 2 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || removed != 2 {
			t.Errorf("ended with %v after %d", err, removed)
		}
	}
}

func TestABlobThatTheStoreKeepsDoesNotEndTheCollection(t *testing.T) {
	clear := newFixture(t)
	clear.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	clear.collect(t, true, false)
	y := newFixture(t)
	y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	y.Faults.Reset(slices.Index(clear.Faults.Calls(), "Blobs.Remove"), harness.Refused)
	removed := 0
	err := y.Upkeep.Collect(t.Context(), true, false, func(upkeep.Garbage) error {
		removed++
		return nil
	})
	if err == nil || removed != len(y.reasons)-1 {
		t.Errorf("%d of %d blobs are removed, and the collection ended with %v", removed, len(y.reasons), err)
	}
}

// keepingBlobs is a store that does not remove some blobs.
type keepingBlobs struct {
	ports.Blobs
	keeps func(name string) bool
	tried int
}

func (b *keepingBlobs) Remove(ctx context.Context, name string) error {
	b.tried++
	if b.keeps(name) {
		return fault.New(fault.Unavailable, "The object store does not answer")
	}
	return b.Blobs.Remove(ctx, name)
}

func TestBlobsThatTheStoreKeepsDoNotHoldUpOthers(t *testing.T) {
	const garbage = 40
	nth := func(i int) string { return fmt.Sprintf("kept/%02d", i) }
	for _, test := range []struct {
		about       string
		keeps       func(name string) bool
		collections int // of names after which everything else is removed
		removed     int
	}{
		{"every second one is kept", func(name string) bool { return name[len(name)-1]%2 == 0 }, 1, garbage / 2},
		{"the first ones are kept", func(name string) bool { return name < nth(25) }, 3, garbage - 25},
		{"all are kept", func(string) bool { return true }, 2, 0},
	} {
		for _, of := range []struct {
			kind  upkeep.Reason
			whole bool
		}{{upkeep.Unnamed, false}, {upkeep.Unnamed, true}, {upkeep.Unknown, true}} {
			t.Run(fmt.Sprintf("%s: %s, whole: %v", of.kind, test.about, of.whole), func(t *testing.T) {
				d := must.Do(harness.NewDeployment(startTime)).Or(t)
				ctx := t.Context()
				ada := must.Do(d.Join(ctx, "org_yard", "user_ada", org.Owner)).Or(t)
				must.Do(d.Objects.Create(ctx, ada, object.Draft{Path: "stays", Kind: object.Template, Scope: object.Shared}, harness.Text("stays"))).Or(t)
				for i := range garbage {
					must.NoError(t, d.Blobs.Put(ctx, nth(i), "", -1, strings.NewReader("x")))
					if of.kind == upkeep.Unnamed {
						must.NoError(t, d.Store.Storage().BlobNames().Announce(ctx, ada.Org, nth(i), 0, startTime))
					}
				}
				d.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
				blobs := &keepingBlobs{Blobs: d.Blobs, keeps: test.keeps}
				u := upkeep.New(d.Store, blobs, d.Clock, nil, time.Hour)
				removed, collections := 0, test.collections
				if of.whole {
					collections = 1
				}
				for range collections {
					blobs.tried = 0
					err := u.Collect(ctx, of.whole, false, func(upkeep.Garbage) error {
						removed++
						return nil
					})
					if err == nil || len(strings.Split(err.Error(), "\n")) > 12 {
						t.Errorf("a collection ended with %v", err)
					}
				}
				if removed != test.removed {
					t.Errorf("%d of %d blobs are removed", removed, test.removed)
				}
				if test.removed == 0 && !of.whole && blobs.tried > 10 {
					t.Errorf("a store that does not answer was asked %d times", blobs.tried)
				}
			})
		}
	}
}

func TestMoreGarbageThanIsHeldAtATimeIsCollectedWhole(t *testing.T) {
	y, ctx := newFixture(t), t.Context()
	names := y.Store.Storage().BlobNames()
	for i := range 1234 {
		for _, name := range []string{fmt.Sprintf("many/announced %d", i), fmt.Sprintf("many/unknown %d", i)} {
			must.NoError(t, y.Blobs.Put(ctx, name, "", -1, strings.NewReader("x")))
		}
		must.NoError(t, names.Announce(ctx, y.ada.Org, fmt.Sprintf("many/announced %d", i), 0, y.Clock.Now()))
	}
	y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	would := y.collect(t, true, true)
	did := y.collect(t, true, false)
	if len(did) != 2*1234+len(y.reasons) || !maps.Equal(would, did) {
		t.Errorf("collected %d, a dry run said %d", len(did), len(would))
	}
	y.checkStored(t, y.stored)
}

func TestTheRegularWorkCollectsAndShortensLogs(t *testing.T) {
	y, ctx := newFixture(t), t.Context()
	head := func() object.Head {
		return must.Do(y.Objects.Head(ctx, y.ada.Org)).Or(t)
	}
	was := head()
	y.Clock.Advance(harness.Retention)
	must.NoError(t, y.Upkeep.Run(ctx))
	if is := head(); is != was {
		t.Errorf("before its time the log became %+v, was %+v", is, was)
	}
	withStray := maps.Clone(y.stored)
	withStray[stray] = true
	y.checkStored(t, withStray)
	y.Clock.Advance(time.Millisecond)
	must.Do(y.Objects.Replace(ctx, y.ada, y.objects["stays"].ID, harness.Text("stays"))).Or(t)
	y.Clock.Advance(time.Millisecond)
	must.NoError(t, y.Upkeep.Run(ctx))
	is := head()
	if is.Floor != was.N || is.N != was.N+1 {
		t.Errorf("the log became %+v, was %+v", is, was)
	}
	entries, err := y.Store.Storage().Changes().List(ctx, y.ada.Org, 0, 100)
	if err != nil || len(entries) != 1 || entries[0].N != is.N {
		t.Errorf("the log has %v, %v", entries, err)
	}
	for cursor, want := range map[object.Cursor]bool{{Epoch: is.Epoch, N: is.Floor - 1}: false, {Epoch: is.Epoch, N: is.Floor}: true, is.Cursor(): true} {
		err := y.Objects.Since(ctx, y.ada, cursor, func(object.Head) error { return nil }, func(object.Change) error { return nil })
		if want != (err == nil) || err != nil && !fault.Is(err, fault.Gone) {
			t.Errorf("since %s: %v", cursor, err)
		}
	}
}

// TestTheBlobsOfAnErasedOrganisationAreCollected expects blobs to be removed after the records that name them.
func TestTheBlobsOfAnErasedOrganisationAreCollected(t *testing.T) {
	y, ctx := newFixture(t), t.Context()
	must.NoError(t, y.SendIdentityEvent(ctx, "organization.deleted", map[string]any{"id": "org_yard", "deleted": true}))
	work := func() map[string]bool {
		must.NoError(t, y.Upkeep.Run(ctx))
		return must.Do(y.BlobNames(ctx)).Or(t)
	}
	y.Clock.Advance(org.Retention - time.Millisecond)
	if kept := work(); len(kept) != len(y.stored)+1 {
		t.Errorf("before its time there is %v", kept)
	}
	y.Clock.Advance(time.Millisecond)
	work()
	y.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	if kept := work(); !maps.Equal(kept, map[string]bool{stray: true}) {
		t.Errorf("there is %v", kept)
	}
	y.checkNoNames(t)
}

func TestTheStoreOfAnotherDatabaseIsNotCollected(t *testing.T) {
	other, ctx := newFixture(t), t.Context()
	other.Clock.Advance(object.BlobGracePeriod + time.Millisecond)
	before := must.Do(other.BlobNames(ctx)).Or(t)
	fresh, err := harness.NewDeployment(other.Clock.Now())
	must.NoError(t, err)
	stranger := upkeep.New(fresh.Store, other.Blobs, fresh.Clock, nil, time.Hour)
	err = stranger.Collect(ctx, true, false, func(g upkeep.Garbage) error { return fmt.Errorf("%s was removed", g.Name) })
	must.Fail(t, err, fault.Conflict) // collecting in another's store
	after, err := other.BlobNames(ctx)
	if err != nil || !maps.Equal(before, after) {
		t.Errorf("%d blobs of %d are left, %v", len(after), len(before), err)
	}
}
