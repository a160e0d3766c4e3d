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
	"collab/domain/fault"
	"collab/domain/invitation"
	"collab/domain/plan"
	"collab/domain/release"
	"collab/domain/task"
	"collab/ports"
)

// concurrent is the number of calls made at the same time in the cases of rules
// that must hold for concurrent calls.
const concurrent = 32

// nextID makes the ids of one run: they share a random beginning and count on,
// so that they are new in every database and greater than those made before.
var nextID = func() func() string {
	var b [6]byte
	rand.Read(b[:]) // never fails, as its documentation says
	run := hex.EncodeToString(b[:])
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%s-%s-7000-8000-%012x", run[:8], run[8:], n.Add(1)) }
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

// at returns a time so many milliseconds after the start of the tests' time.
func at(ms int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// world is what a sub-test works in: a store, with shortcuts to its collections
// and to records that other records need.
type world struct {
	*testing.T
	ctx    context.Context
	store  ports.Store
	epochs ports.Epochs
	apart  bool
}

func newWorld(t *testing.T, o Opened) *world {
	return &world{T: t, ctx: t.Context(), store: o.Store, epochs: o.Epochs, apart: o.Apart}
}

func (w *world) users() ports.Users                 { return w.store.Directory().Users() }
func (w *world) organisations() ports.Organisations { return w.store.Directory().Organisations() }
func (w *world) members() ports.Members             { return w.store.Directory().Members() }
func (w *world) seats() ports.Seats                 { return w.store.Directory().Seats() }
func (w *world) invitations() ports.Invitations     { return w.store.Directory().Invitations() }
func (w *world) subscriptions() ports.Subscriptions { return w.store.Directory().Subscriptions() }
func (w *world) teams() ports.Teams                 { return w.store.Work().Teams() }
func (w *world) teamMembers() ports.TeamMembers     { return w.store.Work().TeamMembers() }
func (w *world) workspaces() ports.Workspaces       { return w.store.Work().Workspaces() }
func (w *world) orders() ports.Orders               { return w.store.Work().Orders() }
func (w *world) tasks() ports.Tasks                 { return w.store.Work().Tasks() }
func (w *world) tasksAt(epoch int64) ports.TasksAt {
	return w.store.Work().TasksAt(epoch)
}
func (w *world) taskSets() ports.TaskSets       { return w.store.Work().TaskSets() }
func (w *world) history() ports.TaskHistory     { return w.store.Work().TaskHistory() }
func (w *world) inbox() ports.Inbox             { return w.store.Journal().Inbox() }
func (w *world) audit() ports.Audit             { return w.store.Journal().Audit() }
func (w *world) replays() ports.Replays         { return w.store.Journal().Replays() }
func (w *world) sessions() ports.Sessions       { return w.store.Journal().Sessions() }
func (w *world) objects() ports.Objects         { return w.store.Storage().Objects() }
func (w *world) changes() ports.Changes         { return w.store.Storage().Changes() }
func (w *world) blobNames() ports.BlobNames     { return w.store.Storage().BlobNames() }
func (w *world) quotas() ports.Quotas           { return w.store.Usage().Quotas() }
func (w *world) ledger() ports.Ledger           { return w.store.Usage().Ledger() }
func (w *world) connectors() ports.Connectors   { return w.store.Connections().Connectors() }
func (w *world) credentials() ports.Credentials { return w.store.Connections().Credentials() }
func (w *world) flows() ports.Flows             { return w.store.Connections().Flows() }
func (w *world) clients() ports.Clients         { return w.store.Connections().Clients() }
func (w *world) revocations() ports.Revocations { return w.store.Connections().Revocations() }
func (w *world) releases() ports.Releases       { return w.store.Deployment().Releases() }
func (w *world) adoption() ports.Adoption       { return w.store.Deployment().Adoption() }

// atomic runs fn in a transaction that must succeed.
func (w *world) atomic(fn func(ports.Records) error) {
	w.Helper()
	w.ok(w.store.Atomic(w.ctx, fn))
}

// undone runs fn in a transaction that then fails, and so changes nothing.
func (w *world) undone(fn func(ports.Records) error) {
	w.Helper()
	no := errors.New("no")
	w.unchanged(w.store.Atomic(w.ctx, func(r ports.Records) error {
		if err := fn(r); err != nil {
			return err
		}
		return no
	}), no)
}

// ok ends the sub-test on an error.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected error: %v", err)
	}
}

// fails ends the sub-test unless err is of the kind.
func (w *world) fails(err error, kind fault.Kind) {
	w.Helper()
	if err == nil {
		w.Fatalf("no error, want one of kind %d", kind)
	}
	if !fault.Is(err, kind) {
		w.Fatalf("the error is %q of kind %d, want kind %d", err, fault.KindOf(err), kind)
	}
}

func (w *world) missing(err error)  { w.Helper(); w.fails(err, fault.NotFound) }
func (w *world) conflict(err error) { w.Helper(); w.fails(err, fault.Conflict) }

// unchanged ends the sub-test unless err is what a function returned that the
// store was given.
func (w *world) unchanged(err, want error) {
	w.Helper()
	if err != want { //nolint:errorlint // the very same error is the point
		w.Fatalf("the error is %#v, want %#v unchanged", err, want)
	}
}

// outcome is what a method returned.
type outcome[V any] struct {
	value V
	err   error
}

func that[V any](v V, err error) outcome[V] { return outcome[V]{v, err} }

// must returns the value, or ends the sub-test on an error.
func (o outcome[V]) must(w *world) V {
	w.Helper()
	w.ok(o.err)
	return o.value
}

// is ends the sub-test unless the value is want.
func (o outcome[V]) is(w *world, want V) {
	w.Helper()
	w.ok(o.err)
	same(w, o.value, want)
}

func (o outcome[V]) missing(w *world)  { w.Helper(); w.missing(o.err) }
func (o outcome[V]) conflict(w *world) { w.Helper(); w.conflict(o.err) }

// none ends the sub-test unless a list has nothing to show of a parent that is
// not there: it is empty, or says NotFound.
func none[V any](w *world, list []V, err error) {
	w.Helper()
	if err != nil {
		w.missing(err)
	}
	if len(list) > 0 {
		w.Fatalf("the list is %v, want nothing", list)
	}
}

// compared is how values are compared: with all their fields, times by instant
// and location, and no difference between no list and an empty one.
var compared = cmp.Options{
	cmp.AllowUnexported(task.Task{}, task.Due{}, invitation.Invitation{}, plan.Subscription{}, connector.Instance{}, connector.Flow{}),
	cmp.Comparer(func(a, b time.Time) bool {
		return a.Equal(b) && a.Location().String() == b.Location().String()
	}),
	cmp.Comparer(func(a, b release.Version) bool { return a.String() == b.String() }),
	cmpopts.EquateEmpty(),
}

// same ends the sub-test unless got is want.
func same[V any](w *world, got, want V) {
	w.Helper()
	if d := diff(got, want); d != "" {
		w.Fatalf("not what was expected (-want +got):\n%s", d)
	}
}

func diff[V any](got, want V) string { return cmp.Diff(want, got, compared) }

// paged reads a list page by page until a page is empty; next reads the page
// after the last value, which is nil for the first page.
func paged[V any](w *world, limit int, next func(last *V) []V) []V {
	w.Helper()
	const enough = 1000 // pages; more are a list that goes in circles
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
func pages[V, P any](w *world, want []V, place func(V) P, list func(after P, limit int) ([]V, error)) {
	w.Helper()
	for limit := range len(want) + 2 {
		same(w, paged(w, limit, func(last *V) []V {
			var after P
			if last != nil {
				after = place(*last)
			}
			return that(list(after, limit)).must(w)
		}), want)
	}
}

// stops ends the sub-test unless an error of each ends the list at once and comes back
// unchanged.
func stops[V any](w *world, list func(each func(V) error) error) {
	w.Helper()
	no, calls := errors.New("no"), 0
	w.unchanged(list(func(V) error {
		calls++
		return no
	}), no)
	same(w, calls, 1)
}

// together runs fn n times at once and returns the errors in the order of the
// numbers that fn was given.
func together(n int, fn func(i int) error) []error {
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
func (w *world) allOK(errs []error) {
	w.Helper()
	for _, err := range errs {
		w.ok(err)
	}
}

// oneWins ends the sub-test unless exactly one did not fail and all the others
// failed with the kind. It returns the number of the one.
func (w *world) oneWins(errs []error, kind fault.Kind) int {
	w.Helper()
	winner, winners := -1, 0
	for i, err := range errs {
		if err == nil {
			winner, winners = i, winners+1
			continue
		}
		w.fails(err, kind)
	}
	if winners != 1 {
		w.Fatalf("%d of %d at once succeeded, want exactly one", winners, len(errs))
	}
	return winner
}

// keep is the function of an Upsert that only adds.
func keep[V any](v V) (V, error) { return v, nil }
