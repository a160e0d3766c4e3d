package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/words"
	"collab/ports"
	"collab/test/must"
)

// touched is what many do at once to tasks: each counts as one more version.
func touched(t task.Task) (task.Task, error) {
	t.Version++
	return t, nil
}

// never is a function that must not be called.
func never(w *fixture) func(task.Task) (task.Task, error) {
	return func(t task.Task) (task.Task, error) {
		w.Errorf("called with %v", t)
		return t, nil
	}
}

func allow(task.Task) error { return nil }

// unlisted is given to methods that call nothing.
func unlisted(w *fixture) func(task.Task) error {
	return func(t task.Task) error {
		w.Errorf("called with %v", t)
		return nil
	}
}

// noTasksAt checks that an organisation is not at the epoch.
func (w *fixture) noTasksAt(tn tenant, epoch int64) {
	w.Helper()
	at := w.TasksAt(epoch)
	resultOf(at.Get(w.ctx, tn.ID, tn.unplaced.ID)).wantNotFound(w)
	w.wantNotFound(at.List(w.ctx, tn.ID, tn.actor(), task.Filter{}, unlisted(w)))
	for _, in := range []*id.Workspace{nil, &tn.workspace.ID} {
		resultOf(at.Add(w.ctx, tn.ID, someTask(tn.ID, in, tn.owner.ID))).wantNotFound(w)
	}
	w.wantNotFound(at.Replace(w.ctx, tn.ID, tn.unplaced, revised(tn.unplaced), []task.Change{someChange(tn.unplaced)}))
}

// revised returns the task with another title and the next version.
func revised(t task.Task) task.Task {
	t.Title, t.Version = "Revised", t.Version+1
	return t
}

// TasksAt is the suite of ports.TasksAt.
func TasksAt(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"tasks are read and added at the organisation's epoch": func(w *fixture) {
			tn := w.tenant()
			now := w.TasksAt(w.epoch(tn.ID))
			resultOf(now.Get(w.ctx, tn.ID, tn.unplaced.ID)).is(w, tn.unplaced)
			var found []task.Task
			w.ok(now.List(w.ctx, tn.ID, tn.actor(), task.Filter{}, collect(&found)))
			wantEqual(w, found, w.listed(tn.ID, tn.actor(), task.Filter{}))
			for _, in := range []*id.Workspace{nil, &tn.workspace.ID} {
				added := must.Do(now.Add(w.ctx, tn.ID, someTask(tn.ID, in, tn.owner.ID))).Or(w)
				resultOf(w.Tasks().Get(w.ctx, tn.ID, added.ID)).is(w, added)
			}
		},
		"no tasks are read or added at another epoch": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for w.epoch(other.ID) <= w.epoch(tn.ID) {
				w.incrementEpoch(other.ID)
			}
			was, epoch := w.content(tn), w.epoch(tn.ID)
			w.noTasksAt(tn, epoch-1)
			w.noTasksAt(tn, epoch+1)
			w.noTasksAt(tn, w.epoch(other.ID))
			wantEqual(w, w.content(tn), was)
			w.incrementEpoch(tn.ID)
			was = w.content(tn)
			w.noTasksAt(tn, epoch)
			wantEqual(w, w.content(tn), was)
			w.atomic(func(r ports.Records) error {
				if _, err := r.Directory().Organisations().Lock(w.ctx, tn.ID); err != nil {
					return err
				}
				resultOf(r.Work().TasksAt(epoch+1).Get(w.ctx, tn.ID, tn.unplaced.ID)).wantNotFound(w)
				return must.ErrorOf(r.Work().TasksAt(epoch+2).Get(w.ctx, tn.ID, tn.unplaced.ID))
			})
		},
		"at the epoch a task is replaced at its version, with its history": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			now := w.TasksAt(w.epoch(tn.ID))
			for _, was := range []task.Task{tn.unplaced, tn.inside} {
				before := must.Do(w.historyOf(tn.ID, was.ID, id.Position[id.Entry]{}, 0)).Or(w)
				next, change := revised(was), someChange(was)
				next.Description, next.Tags = new(strings.Repeat("ä", 2000)), []string{"new"}
				w.ok(now.Replace(w.ctx, tn.ID, was, next, []task.Change{change}))
				resultOf(w.Tasks().Get(w.ctx, tn.ID, was.ID)).is(w, next)
				resultOf(w.historyOf(tn.ID, was.ID, id.Position[id.Entry]{}, 0)).is(w, append(before, change))
				w.wantNotFound(now.Replace(w.ctx, tn.ID, was, revised(next), []task.Change{someChange(was)}))
				wantEqual(w, w.listed(tn.ID, tn.actor(), task.Filter{Tags: []string{"new"}}), []task.Task{next})
				last := revised(next)
				last.Description, last.Tags = nil, nil
				w.ok(now.Replace(w.ctx, tn.ID, next, last, nil))
				resultOf(w.Tasks().Get(w.ctx, tn.ID, was.ID)).is(w, last)
				resultOf(w.historyOf(tn.ID, was.ID, id.Position[id.Entry]{}, 0)).is(w, append(before, change))
			}
			untouched := w.content(other)
			w.wantNotFound(now.Replace(w.ctx, tn.ID, other.unplaced, revised(other.unplaced), []task.Change{someChange(other.unplaced)}))
			unknown := someTask(tn.ID, nil, tn.owner.ID)
			w.wantNotFound(now.Replace(w.ctx, tn.ID, unknown, revised(unknown), nil))
			wantEqual(w, w.content(other), untouched)
			again := tn.unplaced
			w.ok(w.Tasks().Remove(w.ctx, tn.ID, again.ID, allow))
			again.UpdatedAt = at(70)
			again = must.Do(w.Tasks().Add(w.ctx, tn.ID, again)).Or(w)
			w.wantNotFound(now.Replace(w.ctx, tn.ID, tn.unplaced, revised(tn.unplaced), nil))
			w.ok(now.Replace(w.ctx, tn.ID, again, revised(again), nil))
		},
		"of concurrent replacements of one version one succeeds": func(w *fixture) {
			tn := w.tenant()
			now := w.TasksAt(w.epoch(tn.ID))
			w.wantOneSuccess(concurrently(concurrent, func(int) error {
				return now.Replace(w.ctx, tn.ID, tn.unplaced, revised(tn.unplaced), []task.Change{someChange(tn.unplaced)})
			}), fault.NotFound)
			wantEqual(w, len(must.Do(w.historyOf(tn.ID, tn.unplaced.ID, id.Position[id.Entry]{}, 0)).Or(w)), 2)
		},
		"at an epoch an empty list and another organisation's task are not found, and a taken id is a conflict": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			now := w.TasksAt(w.epoch(tn.ID))
			w.wantNotFound(now.List(w.ctx, tn.ID, tn.actor(), task.Filter{Tags: []string{"of none"}}, unlisted(w)))
			w.wantNotFound(now.List(w.ctx, tn.ID, tn.actor(), task.Filter{Tags: []string{"\x00"}}, unlisted(w)))
			for _, there := range []task.Task{tn.unplaced, tn.inside} {
				resultOf(now.Add(w.ctx, tn.ID, there)).wantConflict(w)
				resultOf(w.TasksAt(w.epoch(tn.ID)+1).Add(w.ctx, tn.ID, there)).wantNotFound(w)
			}
			resultOf(now.Add(w.ctx, tn.ID, someTask(tn.ID, &other.workspace.ID, tn.owner.ID))).wantNotFound(w)
			resultOf(now.Get(w.ctx, tn.ID, fresh[id.Task]())).wantNotFound(w)
			resultOf(now.Get(w.ctx, tn.ID, other.unplaced.ID)).wantNotFound(w)
		},
	}.run(t, open)
}

// Tasks is the suite of ports.Tasks.
func Tasks(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown task is not found, nor is another organisation's": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was, untouched := w.content(tn), w.content(other)
			for _, unknown := range []id.Task{fresh[id.Task](), other.inside.ID, other.unplaced.ID} {
				resultOf(w.Tasks().Get(w.ctx, tn.ID, unknown)).wantNotFound(w)
				resultOf(w.Tasks().Revise(w.ctx, tn.ID, unknown, never(w))).wantNotFound(w)
				w.wantNotFound(w.Tasks().Remove(w.ctx, tn.ID, unknown, unlisted(w)))
			}
			w.ok(w.Tasks().Unassign(w.ctx, tn.ID, other.owner.ID, at(99)))
			wantEqual(w, w.listed(tn.ID, org.Actor{User: other.owner.ID, Org: tn.ID}, task.Filter{}), []task.Task{tn.unplaced})
			wantEqual(w, w.content(other), untouched)
			wantEqual(w, w.content(tn), was)
		},
		"a task is returned with every field as stored": func(w *fixture) {
			tn := w.tenant()
			for name, vary := range map[string]func(*task.Task){
				"all set":           func(*task.Task) {},
				"all unset":         func(t *task.Task) { *t = bare(*t) },
				"empty description": func(t *task.Task) { t.Description = new("") },
				"a day":             func(t *task.Task) { t.Due = new(parsed("2026-01-31")) },
				"the first instant": func(t *task.Task) { t.Due = new(parsed("0001-01-01T00:00:00.000Z")) },
				"the first day":     func(t *task.Task) { t.Due = new(parsed("0001-01-01")) },
				"the last instant":  func(t *task.Task) { t.Due = new(parsed("9999-12-31T23:59:59.999Z")) },
				"the last day":      func(t *task.Task) { t.Due = new(parsed("9999-12-31")) },
				"empty metadata":    func(t *task.Task) { t.Metadata = "{}" },
				"escaped metadata": func(t *task.Task) {
					t.Metadata = "{\"a\":\"\\u0000\\ud83e\\udd89 🦉\", \"a\":12345678901234567890.10}\n"
				},
				"long metadata": func(t *task.Task) { t.Metadata = `{"a":"` + strings.Repeat("x", task.MaxMetadata-8) + `"}` },
				"tags": func(t *task.Task) {
					t.Tags = []string{"b", "a", "B", `"`, `\`, "'", "%", "_", "{}", "[]", "null", "NULL", " x"}
				},
				"a high version": func(t *task.Task) { t.Version = 1 << 40 },
			} {
				v := someTask(tn.ID, &tn.workspace.ID, tn.owner.ID)
				vary(&v)
				added := must.Do(w.Tasks().Add(w.ctx, tn.ID, v)).Or(w)
				v.SortOrder = added.SortOrder
				if got := must.Do(w.Tasks().Get(w.ctx, tn.ID, v.ID)).Or(w); got.Metadata != v.Metadata {
					w.Fatalf("%s: metadata is %q, want %q", name, got.Metadata, v.Metadata)
				}
				wantEqual(w, added, v)
				resultOf(w.Tasks().Get(w.ctx, tn.ID, v.ID)).is(w, v)
			}
			for _, got := range w.listed(tn.ID, tn.actor(), task.Filter{}) {
				resultOf(w.Tasks().Get(w.ctx, tn.ID, got.ID)).is(w, got)
			}
		},
		"a new task is after all others of its organisation": func(w *fixture) {
			o, other := w.org(), w.org()
			by := w.member(o.ID, org.Owner).ID
			first := someTask(o.ID, nil, by)
			first.SortOrder = 77
			wantEqual(w, must.Do(w.Tasks().Add(w.ctx, o.ID, first)).Or(w).SortOrder, 0)
			last := w.task(o.ID, nil, by)
			for _, place := range []int64{0, 500, task.MaxSortOrder, task.MaxSortOrder + 7} {
				if last.SortOrder < place {
					last = must.Do(w.Tasks().Revise(w.ctx, o.ID, last.ID, func(t task.Task) (task.Task, error) {
						t.SortOrder = place
						return t, nil
					})).Or(w)
				}
				next := w.task(o.ID, nil, by)
				if next.SortOrder <= last.SortOrder {
					w.Fatalf("%d follows %d", next.SortOrder, last.SortOrder)
				}
				last = next
			}
			wantEqual(w, w.task(other.ID, nil, w.member(other.ID, org.Owner).ID).SortOrder, 0)
		},
		"tasks that are added concurrently, alone or in transactions, are each after those added before": func(w *fixture) {
			const each = 4
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			added := make([][]task.Task, concurrent)
			w.allOK(concurrently(concurrent, func(i int) error {
				add := func(r ports.Records) error {
					added[i] = nil
					for range each {
						v, err := r.Work().Tasks().Add(w.ctx, o.ID, someTask(o.ID, nil, by))
						if err != nil {
							return err
						}
						added[i] = append(added[i], v)
					}
					return nil
				}
				if i%2 == 0 {
					return w.store.Atomic(w.ctx, add)
				}
				return add(w.store)
			}))
			for _, mine := range added {
				inOrder(w, mine)
			}
			if first := w.listed(o.ID, org.Actor{User: by, Org: o.ID}, task.Filter{Limit: 1}); first[0].SortOrder != 0 {
				w.Fatalf("the first place is %d, want 0", first[0].SortOrder)
			}
		},
		"a taken id is a conflict, and replaces no task of another organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			again, taken := tn.unplaced, someTask(tn.ID, nil, tn.owner.ID)
			again.Title, taken.ID = "Never", other.unplaced.ID
			resultOf(w.Tasks().Add(w.ctx, tn.ID, again)).wantConflict(w)
			if _, err := w.Tasks().Add(w.ctx, tn.ID, taken); err != nil {
				w.wantConflict(err)
			}
			resultOf(w.Tasks().Get(w.ctx, tn.ID, again.ID)).is(w, tn.unplaced)
			resultOf(w.Tasks().Get(w.ctx, other.ID, other.unplaced.ID)).is(w, other.unplaced)
		},
		"a task needs a workspace of its organisation, or none": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was := w.content(tn)
			for _, in := range []id.Workspace{fresh[id.Workspace](), other.workspace.ID} {
				v := someTask(tn.ID, &in, tn.owner.ID)
				resultOf(w.Tasks().Add(w.ctx, tn.ID, v)).wantNotFound(w)
				resultOf(w.Tasks().Get(w.ctx, tn.ID, v.ID)).wantNotFound(w)
				resultOf(w.Tasks().Revise(w.ctx, tn.ID, tn.unplaced.ID, func(t task.Task) (task.Task, error) {
					t.Title, t.Workspace = "Never", &in
					return t, nil
				})).wantNotFound(w)
			}
			wantEqual(w, w.content(tn), was)
		},
		"list calls each with the selected records, in order": listProperty,
		"a search lists the tasks as they were when it began": func(w *fixture) {
			tn := w.tenant()
			all := make([]task.Task, 250)
			for i := range all {
				all[i] = someTask(tn.ID, nil, tn.owner.ID)
				all[i].Title, all[i].SortOrder = "An owl", int64(i+1)
			}
			w.ok(w.TaskSets().Add(w.ctx, tn.ID, all))
			actor := org.Actor{Org: tn.ID, User: tn.owner.ID, Role: org.Owner, Visibility: &org.Visibility{}}
			var got []task.Task
			w.ok(w.TasksAt(w.epoch(tn.ID)).List(w.ctx, tn.ID, actor, task.Filter{Words: words.Of("owl")}, func(v task.Task) error {
				if got = append(got, v); len(got) > 1 {
					return nil
				}
				w.incrementEpoch(tn.ID)
				w.ok(w.Tasks().Remove(w.ctx, tn.ID, all[200].ID, allow))
				return w.TaskSets().Move(w.ctx, tn.ID, []id.Task{all[220].ID}, at(99), func(_ int, p task.Placement) (task.Placement, error) {
					p.SortOrder = 1000
					return p, nil
				})
			}))
			wantEqual(w, got, all)
		},
		"an error of each ends the list and is returned": func(w *fixture) {
			tn := w.tenant()
			wantStop(w, func(each func(task.Task) error) error {
				return w.Tasks().List(w.ctx, tn.ID, tn.actor(), task.Filter{}, each)
			})
			resultOf(w.Tasks().Get(w.ctx, tn.ID, tn.unplaced.ID)).is(w, tn.unplaced)
		},
		"revise calls fn with the task and stores its result": func(w *fixture) {
			tn := w.tenant()
			third := w.task(tn.ID, nil, tn.owner.ID)
			assignee := w.member(tn.ID, org.Member).ID
			for _, is := range []struct {
				was    task.Task
				change func(*task.Task)
			}{
				{third, func(t *task.Task) {
					*t = bare(*t)
					t.Version, t.UpdatedAt, t.SortOrder = 9, at(99), 41
				}},
				{tn.inside, func(t *task.Task) {
					t.Title, t.Description, t.Priority, t.Assignee = "New", new(""), task.Low, &assignee
					t.Workspace, t.Due, t.Tags, t.Metadata = nil, new(parsed("2026-01-31")), []string{"ä", "z"}, "{}"
					*t = t.Restore(task.Cancelled, nil)
				}},
				{tn.unplaced, func(t *task.Task) { t.Workspace = &tn.workspace.ID }},
			} {
				var want task.Task
				got, err := w.Tasks().Revise(w.ctx, tn.ID, is.was.ID, func(t task.Task) (task.Task, error) {
					wantEqual(w, t, is.was)
					is.change(&t)
					want = t.Clone()
					return t, nil
				})
				w.ok(err)
				wantEqual(w, got, want)
				resultOf(w.Tasks().Get(w.ctx, tn.ID, want.ID)).is(w, want)
			}
		},
		"revised texts of any length are returned as stored": func(w *fixture) {
			tn := w.tenant()
			short, long := "short", strings.Repeat("\U0001F600", 10_000)
			meta := `{"a":"` + strings.Repeat("x", task.MaxMetadata-8) + `"}`
			v := w.task(tn.ID, nil, tn.owner.ID)
			for _, is := range []struct {
				description *string
				metadata    string
			}{{&long, meta}, {&short, meta}, {nil, meta}, {&long, ""}, {&short, "{}"}, {&long, "{}"}, {nil, ""}, {&long, meta}} {
				v.Description, v.Metadata = is.description, is.metadata
				resultOf(w.Tasks().Revise(w.ctx, tn.ID, v.ID, func(t task.Task) (task.Task, error) {
					t.Description, t.Metadata = is.description, is.metadata
					return t, nil
				})).is(w, v)
				resultOf(w.Tasks().Get(w.ctx, tn.ID, v.ID)).is(w, v)
			}
			w.ok(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{v.ID}, at(99), func(_ int, p task.Placement) (task.Placement, error) { return p, nil }))
			resultOf(w.Tasks().Get(w.ctx, tn.ID, v.ID)).is(w, v.Placed(v.Placement(), at(99)))
			w.ok(w.Tasks().Remove(w.ctx, tn.ID, v.ID, allow))
			added := v
			added.Description = nil
			must.Do(w.Tasks().Add(w.ctx, tn.ID, added)).Or(w)
			if got := must.Do(w.Tasks().Get(w.ctx, tn.ID, v.ID)).Or(w); got.Description != nil || got.Metadata != meta {
				w.Fatalf("the new task has %v and %d bytes", got.Description, len(got.Metadata))
			}
		},
		"revise and remove change nothing if their functions fail": func(w *fixture) {
			tn := w.tenant()
			was := w.content(tn)
			failure := errors.New("failure")
			_, err := w.Tasks().Revise(w.ctx, tn.ID, tn.inside.ID, func(t task.Task) (task.Task, error) {
				t.Title, *t.Description, t.Tags[0] = "Never", "Never", "never"
				return t, failure
			})
			w.wantSameError(err, failure)
			w.wantSameError(w.Tasks().Remove(w.ctx, tn.ID, tn.unplaced.ID, func(t task.Task) error {
				t.Tags[0] = "never"
				return failure
			}), failure)
			wantEqual(w, w.content(tn), was)
		},
		"concurrent revisions all succeed": func(w *fixture) {
			tn := w.tenant()
			w.allOK(concurrently(concurrent, func(i int) error {
				if i%3 == 0 {
					return w.store.Atomic(w.ctx, func(r ports.Records) error {
						return must.ErrorOf(r.Work().Tasks().Revise(w.ctx, tn.ID, tn.inside.ID, touched))
					})
				}
				return must.ErrorOf(w.Tasks().Revise(w.ctx, tn.ID, tn.inside.ID, touched))
			}))
			wantEqual(w, must.Do(w.Tasks().Get(w.ctx, tn.ID, tn.inside.ID)).Or(w).Version, tn.inside.Version+concurrent)
		},
		"remove deletes the task and its history, and nothing else": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was, untouched := w.content(tn), w.content(other)
			w.ok(w.Tasks().Remove(w.ctx, tn.ID, tn.inside.ID, func(t task.Task) error {
				wantEqual(w, t, tn.inside)
				return nil
			}))
			want := was
			want.Tasks, want.Inside = []task.Task{tn.unplaced}, nil
			wantEqual(w, w.content(tn), want)
			wantEqual(w, w.content(other), untouched)
			w.wantNotFound(w.Tasks().Remove(w.ctx, tn.ID, tn.inside.ID, allow))
		},
		"of concurrent removals and revisions with a version one succeeds": func(w *fixture) {
			tn := w.tenant()
			stale := fault.New(fault.Stale, "Changed")
			errs := concurrently(concurrent, func(i int) error {
				if i%2 == 0 {
					return must.ErrorOf(w.Tasks().Revise(w.ctx, tn.ID, tn.unplaced.ID, func(t task.Task) (task.Task, error) {
						if t.Version != tn.unplaced.Version {
							return t, stale
						}
						return touched(t)
					}))
				}
				return w.Tasks().Remove(w.ctx, tn.ID, tn.unplaced.ID, func(t task.Task) error {
					if t.Version != tn.unplaced.Version {
						return stale
					}
					return nil
				})
			})
			w.wantOneSuccess(slices.DeleteFunc(errs, func(err error) bool { return fault.Is(err, fault.NotFound) }), fault.Stale)
		},
		"unassign clears the user from all their tasks of the organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			leaver := w.member(tn.ID, org.Member).ID
			w.join(other.ID, leaver, org.Member, at(10))
			assigned := func(o id.Org, in *id.Workspace, by, to id.User) task.Task {
				v := someTask(o, in, by)
				v.Assignee = &to
				return must.Do(w.Tasks().Add(w.ctx, o, v)).Or(w)
			}
			a, b := assigned(tn.ID, nil, tn.owner.ID, leaver), assigned(tn.ID, &tn.workspace.ID, tn.owner.ID, leaver)
			assigned(other.ID, nil, other.owner.ID, leaver)
			untouched := w.content(other)
			was := w.content(tn)

			w.ok(w.Tasks().Unassign(w.ctx, tn.ID, leaver, at(500)))

			want := was
			want.Tasks = []task.Task{tn.inside, tn.unplaced, a.Unassigned(at(500)), b.Unassigned(at(500))}
			wantEqual(w, w.content(tn), want)
			wantEqual(w, w.content(other), untouched)
			w.ok(w.Tasks().Unassign(w.ctx, tn.ID, leaver, at(501)))
			wantEqual(w, w.content(tn), want)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			tn := w.tenant()
			given := someTask(tn.ID, new(tn.workspace.ID), tn.owner.ID)
			v := copied(given).Restore(task.Done, new(at(8)))
			overwrite := func(v task.Task) {
				spoil(v)
				*v.CompletedAt() = at(999)
			}
			added := must.Do(w.Tasks().Add(w.ctx, tn.ID, given)).Or(w)
			v.SortOrder = added.SortOrder
			overwrite(given)
			overwrite(added)
			check := func() {
				w.Helper()
				resultOf(w.Tasks().Get(w.ctx, tn.ID, v.ID)).is(w, v)
			}
			check()
			get := func() task.Task { return must.Do(w.Tasks().Get(w.ctx, tn.ID, v.ID)).Or(w) }
			for _, v := range w.listed(tn.ID, tn.actor(), task.Filter{After: new(tn.unplaced.Position())}) {
				overwrite(v)
			}
			check()
			revise := func(fn func(task.Task) (task.Task, error)) (task.Task, error) {
				return w.Tasks().Revise(w.ctx, tn.ID, v.ID, fn)
			}
			for _, read := range updates(w, get, revise) {
				overwrite(read())
				check()
			}
			failure := errors.New("failure")
			w.wantSameError(w.Tasks().Remove(w.ctx, tn.ID, v.ID, func(t task.Task) error {
				overwrite(t)
				return failure
			}), failure)
			check()
		},
	}.run(t, open)
}

// bare returns the task with everything unset that can be.
func bare(t task.Task) task.Task {
	return task.Task{
		ID: t.ID, Org: t.Org, Title: t.Title, Priority: task.Medium, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Version: t.Version,
	}.Restore(task.Todo, nil)
}

// bareTasks adds n tasks in one transaction, and returns their ids in ascending order.
func (w *fixture) bareTasks(o id.Org, by id.User, n int) []id.Task {
	w.Helper()
	ids := several[id.Task](n)
	w.atomic(func(r ports.Records) error {
		for _, i := range ids {
			v := bare(someTask(o, nil, by))
			v.ID = i
			if _, err := r.Work().Tasks().Add(w.ctx, o, v); err != nil {
				return err
			}
		}
		return nil
	})
	return ids
}

func parsed(due string) task.Due {
	d, ok := task.ParseDue(due)
	if !ok {
		panic(due + " is no due date")
	}
	return d
}

// instant returns the due date of an instant.
func instant(at time.Time) task.Due { return parsed(at.Format("2006-01-02T15:04:05.000Z")) }

// inOrder ends the sub-test unless each task's place is after the one's before.
func inOrder(w *fixture, ts []task.Task) {
	w.Helper()
	for i := range ts[1:] {
		if ts[i].SortOrder >= ts[i+1].SortOrder {
			w.Fatalf("%d follows %d", ts[i+1].SortOrder, ts[i].SortOrder)
		}
	}
}

// TaskSets is the suite of ports.TaskSets.
func TaskSets(t *testing.T, open func(t *testing.T) Opened) {
	listed := func(w *fixture, o id.Org, ids ...id.Task) []task.Task {
		w.Helper()
		return must.Do(collected(func(each func(task.Task) error) error { return w.TaskSets().List(w.ctx, o, ids, each) })).Or(w)
	}
	suite{
		"tasks are added as they are, all or none": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			long, bare := someTask(tn.ID, &tn.workspace.ID, tn.owner.ID), someTask(tn.ID, nil, tn.owner.ID)
			long.Metadata, long.SortOrder, long.Version = `{"a":"`+strings.Repeat("x", 2_000)+`"}`, 500, 7
			bare.Description, bare.Due, bare.Tags, bare.Metadata, bare.SortOrder = nil, nil, nil, "", 500
			w.ok(w.TaskSets().Add(w.ctx, tn.ID, []task.Task{long, bare}))
			wantEqual(w, listed(w, tn.ID, long.ID, bare.ID), []task.Task{long, bare})
			wantEqual(w, w.listed(tn.ID, tn.actor(), task.Filter{Tags: long.Tags[:1], After: &task.Position{SortOrder: 499}}), []task.Task{long})
			w.change(long)
			last := w.task(tn.ID, nil, tn.owner.ID)
			wantEqual(w, last.SortOrder, 501)
			fresh := someTask(tn.ID, nil, tn.owner.ID)
			w.wantConflict(w.TaskSets().Add(w.ctx, tn.ID, []task.Task{fresh, bare}))
			theirs := someTask(tn.ID, &other.workspace.ID, tn.owner.ID)
			w.wantNotFound(w.TaskSets().Add(w.ctx, tn.ID, []task.Task{fresh, theirs}))
			wantEqual(w, listed(w, tn.ID, fresh.ID, theirs.ID), nil)
			w.ok(w.TaskSets().Add(w.ctx, tn.ID, nil))
		},
		"move calls fn with the placements and stores sort order, priority, version and time": func(w *fixture) {
			tn := w.tenant()
			full := someTask(tn.ID, &tn.workspace.ID, tn.owner.ID)
			full.Metadata = `{"a":"` + strings.Repeat("x", task.MaxMetadata-8) + `"}`
			full = must.Do(w.Tasks().Add(w.ctx, tn.ID, full)).Or(w)
			given := []task.Task{full, tn.inside, tn.unplaced}
			seen := make([]task.Placement, len(given))
			w.ok(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{full.ID, tn.inside.ID, tn.unplaced.ID}, at(99), func(i int, p task.Placement) (task.Placement, error) {
				seen[i] = p
				p.SortOrder, p.Priority = int64(40+i), task.Urgent
				p.Workspace, p.Assignee, p.CreatedBy = nil, nil, "" // what is not stored
				return p, nil
			}))
			for i, was := range given {
				wantEqual(w, seen[i], was.Placement())
				want := was.Placement()
				want.SortOrder, want.Priority = int64(40+i), task.Urgent
				resultOf(w.Tasks().Get(w.ctx, tn.ID, was.ID)).is(w, was.Placed(want, at(99)))
			}
		},
		"a tag's list is in the order of the moved tasks": func(w *fixture) {
			tn := w.tenant()
			a, b := w.task(tn.ID, nil, tn.owner.ID), w.task(tn.ID, nil, tn.owner.ID)
			w.ok(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{b.ID, a.ID}, at(99), func(i int, p task.Placement) (task.Placement, error) {
				p.SortOrder = int64(1000 + i)
				return p, nil
			}))
			got := w.listed(tn.ID, tn.actor(), task.Filter{Tags: a.Tags[:1], After: &task.Position{SortOrder: 999}})
			if len(got) != 2 || got[0].ID != b.ID || got[1].ID != a.ID {
				w.Fatalf("the list is %+v", got)
			}
		},
		"move changes all or none": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			was, untouched := w.content(tn), w.content(other)
			up := func(_ int, p task.Placement) (task.Placement, error) {
				p.SortOrder++
				return p, nil
			}
			w.wantNotFound(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{tn.inside.ID, fresh[id.Task](), tn.unplaced.ID}, at(99), up))
			w.wantNotFound(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{tn.inside.ID, other.unplaced.ID}, at(99), up))
			failure, calls := errors.New("failure"), 0
			w.wantSameError(w.TaskSets().Move(w.ctx, tn.ID, []id.Task{tn.inside.ID, tn.unplaced.ID}, at(99), func(i int, p task.Placement) (task.Placement, error) {
				if calls++; calls == 2 {
					return p, failure
				}
				return up(i, p)
			}), failure)
			w.ok(w.TaskSets().Move(w.ctx, tn.ID, nil, at(99), up))
			wantEqual(w, w.content(tn), was)
			wantEqual(w, w.content(other), untouched)
		},
		"thousands are moved and listed in the order of their ids, and a late error undoes all": func(w *fixture) {
			const many = 1200
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			ids := w.bareTasks(o.ID, by, many)
			slices.Reverse(ids)
			failure, calls := errors.New("failure"), 0
			w.wantSameError(w.TaskSets().Move(w.ctx, o.ID, ids, at(99), func(_ int, p task.Placement) (task.Placement, error) {
				if calls++; calls == many-1 {
					return p, failure
				}
				p.SortOrder = -1
				return p, nil
			}), failure)
			w.ok(w.TaskSets().Move(w.ctx, o.ID, ids, at(99), func(i int, p task.Placement) (task.Placement, error) {
				p.SortOrder = int64(i)
				return p, nil
			}))
			for _, all := range [][]task.Task{listed(w, o.ID, ids...), w.listed(o.ID, org.Actor{User: by, Org: o.ID}, task.Filter{})} {
				if len(all) != many {
					w.Fatalf("%d tasks, want %d", len(all), many)
				}
				for i, v := range all {
					if v.ID != ids[i] || v.SortOrder != int64(i) || v.Version != 2 {
						w.Fatalf("at %d is %+v", i, v)
					}
				}
			}
		},
		"concurrent moves of the same tasks in different orders all succeed, and the last counts for every task": func(w *fixture) {
			tn := w.tenant()
			ids := []id.Task{tn.inside.ID, tn.unplaced.ID}
			for range 4 {
				ids = append(ids, w.task(tn.ID, nil, tn.owner.ID).ID)
			}
			w.allOK(concurrently(concurrent, func(i int) error {
				mine := slices.Concat(ids[i%len(ids):], ids[:i%len(ids)])
				move := func(r ports.Records) error {
					return r.Work().TaskSets().Move(w.ctx, tn.ID, mine, at(99), func(_ int, p task.Placement) (task.Placement, error) {
						p.SortOrder = int64(1000 + i)
						return p, nil
					})
				}
				if i%3 == 0 {
					return w.store.Atomic(w.ctx, move)
				}
				return move(w.store)
			}))
			all := listed(w, tn.ID, ids...)
			for _, v := range all {
				wantEqual(w, [2]int64{v.Version, v.SortOrder}, [2]int64{1 + concurrent, all[0].SortOrder})
			}
		},
		"list skips tasks that are unknown or another organisation's, and ends with an error of each": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			wantEqual(w, listed(w, tn.ID, tn.unplaced.ID, fresh[id.Task](), other.unplaced.ID, tn.inside.ID), []task.Task{tn.unplaced, tn.inside})
			wantEqual(w, listed(w, tn.ID), nil)
			wantStop(w, func(each func(task.Task) error) error {
				return w.TaskSets().List(w.ctx, tn.ID, []id.Task{tn.unplaced.ID, tn.inside.ID}, each)
			})
		},
		"removeIn deletes a workspace's tasks with their histories, a bounded number of each at once": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched := w.content(other)
			in := w.workspace(tn.ID, tn.team.ID, tn.owner.ID)
			rest := w.content(tn)
			long, second, third := w.task(tn.ID, &in.ID, tn.owner.ID), w.task(tn.ID, &in.ID, tn.owner.ID), w.task(tn.ID, &in.ID, tn.owner.ID)
			for range 12 {
				w.change(long)
			}
			w.change(third)
			var start task.Position
			w.removeIn(other.ID, in.ID, start, 9, start, false)
			w.removeIn(tn.ID, fresh[id.Workspace](), start, 9, start, false)
			w.removeIn(tn.ID, in.ID, start, 1, start, true)
			wantEqual(w, len(must.Do(w.historyOf(tn.ID, long.ID, id.Position[id.Entry]{}, 0)).Or(w)), 2)
			wantEqual(w, listed(w, tn.ID, long.ID, second.ID, third.ID), []task.Task{long, second, third})
			w.removeIn(tn.ID, in.ID, start, 2, second.Position(), true)
			wantEqual(w, listed(w, tn.ID, long.ID, second.ID, third.ID), []task.Task{third})
			w.removeIn(tn.ID, in.ID, start, 2, third.Position(), false)
			wantEqual(w, listed(w, tn.ID, third.ID), nil)
			w.removeIn(tn.ID, in.ID, start, 2, start, false)
			wantEqual(w, w.content(tn), rest)
			wantEqual(w, w.content(other), untouched)
		},
		"removeIn continues after a position, and from the start finds tasks that were added before it": func(w *fixture) {
			tn := w.tenant()
			in := w.workspace(tn.ID, tn.team.ID, tn.owner.ID)
			rest := w.content(tn)
			var all []task.Task
			var ids []id.Task
			for range 11 {
				v := w.task(tn.ID, &in.ID, tn.owner.ID)
				all, ids = append(all, v), append(ids, v.ID)
			}
			w.change(all[10])
			var start task.Position
			w.removeIn(tn.ID, in.ID, start, 4, all[3].Position(), true)
			first := func(_ int, p task.Placement) (task.Placement, error) {
				p.SortOrder = all[0].SortOrder - 1
				return p, nil
			}
			w.ok(w.TaskSets().Move(w.ctx, tn.ID, ids[10:], at(99), first))
			w.removeIn(tn.ID, in.ID, all[3].Position(), 3, all[6].Position(), true)
			w.removeIn(tn.ID, in.ID, all[6].Position(), 3, all[9].Position(), true)
			w.removeIn(tn.ID, in.ID, all[9].Position(), 3, all[9].Position(), false)
			left := listed(w, tn.ID, ids...)
			wantEqual(w, len(left), 1)
			wantEqual(w, left[0].ID, ids[10])
			w.removeIn(tn.ID, in.ID, start, 3, left[0].Position(), false)
			wantEqual(w, w.content(tn), rest)
		},
		"results of list belong to the caller": func(w *fixture) {
			tn := w.tenant()
			spoil(listed(w, tn.ID, tn.inside.ID))
			wantEqual(w, listed(w, tn.ID, tn.inside.ID), []task.Task{tn.inside})
		},
	}.run(t, open)
}

// removeIn removes tasks of a workspace after a place, and compares what it returns.
func (w *fixture) removeIn(o id.Org, in id.Workspace, after task.Position, limit int, last task.Position, more bool) {
	w.Helper()
	gotLast, gotMore, err := w.TaskSets().RemoveIn(w.ctx, o, in, after, limit)
	w.ok(err)
	wantEqual(w, gotLast, last)
	wantEqual(w, gotMore, more)
}

// TaskHistory is the suite of ports.TaskHistory.
func TaskHistory(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown task has no history and gets none, nor does another organisation's": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched := w.content(other)
			for _, v := range []task.Task{someTask(tn.ID, nil, tn.owner.ID), other.unplaced} {
				v.Org = tn.ID
				list, err := w.historyOf(tn.ID, v.ID, id.Position[id.Entry]{}, 0)
				wantNone(w, list, err)
				w.wantNotFound(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{someChange(v)}))
			}
			wantEqual(w, w.content(other), untouched)
		},
		"changes are returned with every field as stored, in the order of their times, page by page": func(w *fixture) {
			tn := w.tenant()
			v := w.task(tn.ID, nil, tn.owner.ID)
			ids := several[id.Entry](5)
			change := func(i int, when time.Time) task.Change {
				c := someChange(v)
				c.ID, c.At = ids[i], when
				return c
			}
			d, c, a, b, e := change(0, at(50)), change(3, at(45)), change(4, at(40)), change(1, at(45)), change(2, at(60))
			b.Fields, b.Reason = nil, ""
			w.ok(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{d, c}))
			w.ok(w.TaskHistory().Add(w.ctx, tn.ID, nil))
			w.ok(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{e, a, b}))
			pages(w, []task.Change{a, b, c, d, e}, func(c task.Change) id.Position[id.Entry] { return id.Position[id.Entry]{At: c.At, ID: c.ID} },
				func(after id.Position[id.Entry], limit int) ([]task.Change, error) {
					return w.historyOf(tn.ID, v.ID, after, limit)
				})
			wantStop(w, func(each func(task.Change) error) error {
				return w.TaskHistory().List(w.ctx, tn.ID, v.ID, id.Position[id.Entry]{}, 0, each)
			})
		},
		"remove deletes a task's changes, a bounded number of them at once": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			v := w.task(tn.ID, nil, tn.owner.ID)
			for range 5 {
				w.ok(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{someChange(v)}))
			}
			untouched, rest := w.content(other), w.content(tn)
			resultOf(w.TaskHistory().Remove(w.ctx, other.ID, v.ID, 9)).is(w, false)
			for left := 5; left > 1; left -= 2 {
				wantEqual(w, len(must.Do(w.historyOf(tn.ID, v.ID, id.Position[id.Entry]{}, 0)).Or(w)), left)
				resultOf(w.TaskHistory().Remove(w.ctx, tn.ID, v.ID, 2)).is(w, true)
			}
			resultOf(w.TaskHistory().Remove(w.ctx, tn.ID, v.ID, 2)).is(w, false)
			wantNone(w, must.Do(w.historyOf(tn.ID, v.ID, id.Position[id.Entry]{}, 0)).Or(w), nil)
			resultOf(w.TaskHistory().Remove(w.ctx, tn.ID, v.ID, 2)).is(w, false)
			wantEqual(w, w.content(tn), rest)
			wantEqual(w, w.content(other), untouched)
		},
		"changes of several tasks are added all or none": func(w *fixture) {
			tn := w.tenant()
			was := w.content(tn)
			unknown := someTask(tn.ID, nil, tn.owner.ID)
			w.wantNotFound(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{someChange(tn.inside), someChange(unknown), someChange(tn.unplaced)}))
			wantEqual(w, w.content(tn), was)
			inside, loose := someChange(tn.inside), someChange(tn.unplaced)
			w.ok(w.TaskHistory().Add(w.ctx, tn.ID, []task.Change{loose, inside}))
			resultOf(w.historyOf(tn.ID, tn.inside.ID, id.Position[id.Entry]{}, 0)).is(w, append(was.Inside, inside))
			resultOf(w.historyOf(tn.ID, tn.unplaced.ID, id.Position[id.Entry]{}, 0)).is(w, append(was.Unplaced, loose))
		},
		"arguments and results belong to the caller": func(w *fixture) {
			tn := w.tenant()
			v := w.task(tn.ID, nil, tn.owner.ID)
			add := func(cs []task.Change) error { return w.TaskHistory().Add(w.ctx, tn.ID, cs) }
			keepsNothing(w, []task.Change{someChange(v)}, add, func() []task.Change {
				return must.Do(w.historyOf(tn.ID, v.ID, id.Position[id.Entry]{}, 0)).Or(w)
			})
		},
	}.run(t, open)
}
