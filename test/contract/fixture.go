package contract

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/invitation"
	"collab/domain/plan"
	"collab/domain/release"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/upload"
	"collab/ports"
	"collab/test/must"
)

// concurrent is the number of calls made at the same time in the cases of rules
// that must hold for concurrent calls.
const concurrent = 32

// nextID makes the ids of one run: they share a random beginning and count on,
// so that they are new in every database and greater than those made before. Their
// last digit is 0: those with another are a case's own.
var nextID = func() func() string {
	var b [6]byte
	rand.Read(b[:]) // never fails, as its documentation says
	run := hex.EncodeToString(b[:])
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%s-%s-7000-8000-%011x0", run[:8], run[8:], n.Add(1)) }
}()

// fresh returns an identifier that was never used.
func fresh[T ~string]() T { return T(nextID()) }

// several returns n identifiers in ascending order.
func several[T ~string](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = fresh[T]()
	}
	return s
}

// at returns a time, in milliseconds after an origin.
func at(ms int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// fixture is the store of a sub-test, with its collections.
type fixture struct {
	*testing.T
	ports.Directory
	ports.Work
	ports.Journal
	ports.Storage
	ports.Usage
	ports.Connections
	ports.Deployment

	ctx       context.Context
	store     ports.Store
	epochs    ports.Epochs
	snapshots ports.Snapshots
	apart     bool
}

func newFixture(t *testing.T, o Opened) *fixture {
	w := &fixture{T: t, ctx: t.Context(), store: o.Store, epochs: o.Epochs, apart: o.Apart, snapshots: o.Snapshots}
	return w.in(o.Store)
}

// atomic runs fn in a transaction that must succeed.
func (w *fixture) atomic(fn func(ports.Records) error) {
	w.Helper()
	w.ok(w.store.Atomic(w.ctx, fn))
}

// rolledBack runs fn in a transaction that is then rolled back.
func (w *fixture) rolledBack(fn func(ports.Records) error) {
	w.Helper()
	failure := errors.New("failure")
	w.wantSameError(w.store.Atomic(w.ctx, func(r ports.Records) error {
		if err := fn(r); err != nil {
			return err
		}
		return failure
	}), failure)
}

// in returns the fixture with the collections of r, such as those of a transaction.
func (w *fixture) in(r ports.Records) *fixture {
	in := *w
	in.Directory, in.Work, in.Journal, in.Storage = r.Directory(), r.Work(), r.Journal(), r.Storage()
	in.Usage, in.Connections, in.Deployment = r.Usage(), r.Connections(), r.Deployment()
	return &in
}

// checkRollback ends the sub-test unless a transaction that makes a change reads the wanted state, and a rollback
// restores the state of before.
func checkRollback[S any](w *fixture, change func(in *fixture), state func(in *fixture) S, want S) {
	w.Helper()
	was := state(w)
	w.rolledBack(func(r ports.Records) error {
		in := w.in(r)
		change(in)
		wantEqual(w, state(in), want)
		return nil
	})
	wantEqual(w, state(w), was)
}

// ok ends the sub-test on an error.
func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected error: %v", err)
	}
}

// wantError ends the sub-test unless err is of the kind.
func (w *fixture) wantError(err error, kind fault.Kind) {
	w.Helper()
	if err == nil {
		w.Fatalf("no error, want one of kind %d", kind)
	}
	if !fault.Is(err, kind) {
		w.Fatalf("the error is %q of kind %d, want kind %d", err, fault.KindOf(err), kind)
	}
}

func (w *fixture) wantNotFound(err error) { w.Helper(); w.wantError(err, fault.NotFound) }
func (w *fixture) wantConflict(err error) { w.Helper(); w.wantError(err, fault.Conflict) }

// wantSameError ends the sub-test unless err is what a function returned that the
// store was given.
func (w *fixture) wantSameError(err, want error) {
	w.Helper()
	if err != want { //nolint:errorlint // the very same error is the point
		w.Fatalf("the error is %#v, want %#v unchanged", err, want)
	}
}

// outcome is the result of a method.
type outcome[V any] struct {
	value V
	err   error
}

func resultOf[V any](v V, err error) outcome[V] { return outcome[V]{v, err} }

// is ends the sub-test unless the value is want.
func (o outcome[V]) is(w *fixture, want V) {
	w.Helper()
	w.ok(o.err)
	wantEqual(w, o.value, want)
}

func (o outcome[V]) wantNotFound(w *fixture) { w.Helper(); w.wantNotFound(o.err) }
func (o outcome[V]) wantConflict(w *fixture) { w.Helper(); w.wantConflict(o.err) }

// wantNone ends the sub-test unless the list of a parent that does
// not exist is empty or NotFound.
func wantNone[V any](w *fixture, list []V, err error) {
	w.Helper()
	if err != nil {
		w.wantNotFound(err)
	}
	if len(list) > 0 {
		w.Fatalf("the list is %v, want nothing", list)
	}
}

// compared is how values are compared: with all their fields, times by instant
// and location, and no difference between no list and an empty one.
var compared = cmp.Options{
	cmp.AllowUnexported(task.Task{}, task.Due{}, invitation.Invitation{}, plan.Subscription{}, connector.Instance{}, connector.Flow{}, export.Export{}, upload.Upload{}, session.DeviceGrant{}),
	cmp.Comparer(func(a, b time.Time) bool {
		return a.Equal(b) && a.Location().String() == b.Location().String()
	}),
	cmp.Comparer(func(a, b release.Version) bool { return a.String() == b.String() }),
	cmpopts.EquateEmpty(),
}

// wantEqual ends the sub-test unless got is want.
func wantEqual[V any](w *fixture, got, want V) {
	w.Helper()
	if d := diff(got, want); d != "" {
		w.Fatalf("not what was expected (-want +got):\n%s", d)
	}
}

func diff[V any](got, want V) string { return cmp.Diff(want, got, compared) }

// paged reads a list page by page until a page is empty; next reads the page
// after the last value, which is nil for the first page.
func paged[V any](w *fixture, limit int, next func(last *V) []V) []V {
	w.Helper()
	const enough = 1000 // pages; more are a list without an end
	var all []V
	var last *V
	for range enough {
		page := next(last)
		if len(page) == 0 {
			return all
		}
		if limit > 0 && len(page) > limit {
			w.Fatalf("a page of %d, want at most %d", len(page), limit)
		}
		all = append(all, page...)
		last = &page[len(page)-1]
	}
	w.Fatal("the list has no end")
	return nil
}

// pages ends the sub-test unless list has want, whole and in pages of every size. Place is where
// the page after a value begins.
func pages[V, P any](w *fixture, want []V, place func(V) P, list func(after P, limit int) ([]V, error)) {
	w.Helper()
	for limit := range len(want) + 2 {
		wantEqual(w, paged(w, limit, func(last *V) []V {
			var after P
			if last != nil {
				after = place(*last)
			}
			return must.Do(list(after, limit)).Or(w)
		}), want)
	}
}

// wantStop ends the sub-test unless an error of each ends the list at once and comes back
// unchanged.
func wantStop[V any](w *fixture, list func(each func(V) error) error) {
	w.Helper()
	failure, calls := errors.New("failure"), 0
	w.wantSameError(list(func(V) error {
		calls++
		return failure
	}), failure)
	wantEqual(w, calls, 1)
}

// concurrently runs fn n times at once and returns the errors in the order of the
// numbers that fn was given.
func concurrently(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// allOK ends the sub-test if there is an error among those.
func (w *fixture) allOK(errs []error) {
	w.Helper()
	for _, err := range errs {
		w.ok(err)
	}
}

// wantOneSuccess ends the sub-test unless exactly one did not fail and all the others
// failed with the kind. It returns the number of the one.
func (w *fixture) wantOneSuccess(errs []error, kind fault.Kind) int {
	w.Helper()
	winner, winners := -1, 0
	for i, err := range errs {
		if err == nil {
			winner, winners = i, winners+1
			continue
		}
		w.wantError(err, kind)
	}
	if winners != 1 {
		w.Fatalf("%d of %d at once succeeded, want exactly one", winners, len(errs))
	}
	return winner
}

// keep is the function of an Upsert that only adds.
func keep[V any](v V) (V, error) { return v, nil }
