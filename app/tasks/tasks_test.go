package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/app/tasks"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/patch"
	"collab/domain/task"
	"collab/ports"
	"collab/test/must"
)

var startTime = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// fixture is an organisation with one member.
type fixture struct {
	*testing.T
	store *memory.Store
	tasks *tasks.Tasks
	clock *memory.Clock
	ids   *memory.IDs
	ada   org.Actor
}

func newFixture(t *testing.T) *fixture {
	store := memory.NewStore()
	w := &fixture{T: t, store: store, clock: memory.NewClock(startTime), ids: &memory.IDs{}, ada: org.Actor{Org: "o", User: "ada", Role: org.Member}}
	w.tasks = tasks.New(store, w.clock, w.ids, within(store))
	_, err := store.Directory().Organisations().Upsert(t.Context(), org.Organisation{ID: "o", ProviderID: "p"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })
	must.NoError(w, err)
	return w
}

// within runs transactions of actors who are always who they were.
func within(store ports.Store) tasks.Transaction {
	return func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
		return store.Atomic(ctx, func(r ports.Records) error { return fn(r, actor) })
	}
}

// made adds n tasks with so many tags each.
func (w *fixture) made(n, tags int) (ids []id.Task) {
	w.Helper()
	d := task.Draft{Title: "x"}
	for i := range tags {
		d.Tags = append(d.Tags, fmt.Sprint(i))
	}
	for range n {
		t := must.Do(w.tasks.Create(w.Context(), w.ada, d)).Or(w)
		ids = append(ids, t.ID)
	}
	return ids
}

func nothing(task.Task) error { return nil }

func TestTheTagsOfTheTasksAreBounded(t *testing.T) {
	w := newFixture(t)
	most := w.made(tasks.MaxOperandTags/task.MaxTags, task.MaxTags)
	slices.Reverse(most)
	must.NoError(w, w.tasks.Reorder(t.Context(), w.ada, task.Order{Tasks: most}, nothing))
	more := append(w.made(1, 1), most...)
	err := w.tasks.Reorder(t.Context(), w.ada, task.Order{Tasks: more}, nothing)
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Problems[0].Field != "taskIds" {
		t.Fatalf("got %v", err)
	}
	if there, err := w.tasks.Get(t.Context(), w.ada, more[0]); err != nil || there.Version != 1 {
		t.Errorf("after the refusal there is %+v, %v", there, err)
	}
}

// hookStore is a store that calls then after each transaction.
type hookStore struct {
	ports.Store
	then func()
}

func (s hookStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	err := s.Store.Atomic(ctx, fn)
	s.then()
	return err
}

func TestADeletedTaskIsNotInTheResponse(t *testing.T) {
	w := newFixture(t)
	ids := w.made(2, 0)
	store := hookStore{w.store, func() {
		must.NoError(w, w.store.Work().Tasks().Remove(t.Context(), "o", ids[0], func(task.Task) error { return nil }))
	}}
	later := tasks.New(store, w.clock, w.ids, within(store))
	var got []id.Task
	must.NoError(w, later.Reorder(t.Context(), w.ada, task.Order{Tasks: ids}, func(t task.Task) error {
		got = append(got, t.ID)
		return nil
	}))
	if !slices.Equal(got, ids[1:]) {
		t.Errorf("got %v", got)
	}
}

func TestADeletionThatHasBegunIsCompleted(t *testing.T) {
	w := newFixture(t)
	one := w.made(1, 0)[0]
	var history []task.Change
	for n := range 1001 {
		history = append(history, task.Change{ID: id.Entry(fmt.Sprint(n)), Task: one, By: "ada", At: startTime})
	}
	must.NoError(t, w.store.Work().TaskHistory().Add(t.Context(), "o", history))
	store := hookStore{w.store, func() {
		_ = must.ErrorOf(w.tasks.Update(t.Context(), w.ada, one, nil, task.Patch{Title: patch.Value("meanwhile")}, nil)) // NotFound in the end
	}}
	later := tasks.New(store, w.clock, w.ids, within(store))
	must.NoError(t, later.Delete(t.Context(), w.ada, one, func(version int64) bool { return version == 1 }))
	must.Fail(t, must.ErrorOf(w.tasks.Get(t.Context(), w.ada, one)), fault.NotFound)
}

func TestATaskThatAnEarlierAttemptAddedIsAConflict(t *testing.T) {
	w := newFixture(t)
	d := task.Draft{ID: "0198a1b2-0000-7000-8000-000000000001", Title: "x"}
	must.Do(w.tasks.CreateUnconfirmed(t.Context(), w.ada, d)).Or(w)
	must.Fail(t, must.ErrorOf(w.tasks.CreateUnconfirmed(t.Context(), w.ada, d)), fault.Conflict)
}

func TestAChangeBuildsOnThatOfAnotherServer(t *testing.T) {
	w := newFixture(t)
	other := tasks.New(w.store, w.clock, w.ids, within(w.store))
	one := w.made(1, 0)[0]
	retitled := func(s *tasks.Tasks, title string) {
		t.Helper()
		must.Do(s.Update(t.Context(), w.ada, one, nil, task.Patch{Title: patch.Value(title)}, nil)).Or(t)
	}
	retitled(w.tasks, "first")
	w.clock.Advance(time.Second)
	must.Do(other.Update(t.Context(), w.ada, one, nil, task.Patch{Tags: patch.Value([]string{"other"})}, nil)).Or(t)
	retitled(w.tasks, "second")
	if got := must.Do(w.tasks.Get(t.Context(), w.ada, one)).Or(t); got.Title != "second" || !slices.Equal(got.Tags, []string{"other"}) {
		t.Errorf("got %+v", got)
	}
	must.NoError(t, other.Delete(t.Context(), w.ada, one, nil))
	w.clock.Advance(time.Second)
	must.Fail(t, must.ErrorOf(w.tasks.Update(t.Context(), w.ada, one, nil, task.Patch{Title: patch.Value("third")}, nil)), fault.NotFound)
}
