// Package tasks has the use cases of members for tasks.
package tasks

import (
	"cmp"
	"context"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/ports"
)

// Bounds of one reorder or reprioritize. Tags are bounded because each has an index entry
// that moves with its task.
const (
	MaxTasks       = 5_000  // tasks
	MaxOperandTags = 15_000 // tags of all tasks
)

// Tasks are the use cases of tasks.
type Tasks struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs

	atomic Transaction
	recent recent
}

// Transaction is access.Access.Atomic.
type Transaction func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, atomic Transaction) *Tasks {
	return &Tasks{store: store, clock: clock, ids: ids, atomic: atomic, recent: newRecent()}
}

// Match reports whether a change of a task with the version is allowed; nil allows all.
type Match func(version int64) bool

// check returns an error unless m allows a change of the task.
func (m Match) check(t task.Task) error {
	if m != nil && !m(t.Version) {
		return fault.New(fault.Stale, "The task has changed since the version that If-Match names")
	}
	return nil
}

// List calls each with the tasks that the actor sees and the filter selects. A search examines
// task.MaxExamined of them.
func (s *Tasks) List(ctx context.Context, actor org.Actor, f task.Filter, each func(task.Task) error) error {
	f.ExamineLimit = task.MaxExamined
	return s.store.Work().Tasks().List(ctx, actor.Org, actor, f, each)
}

// ListUnconfirmed is List for an actor that access.Access.Cached returned: NotFound if the
// organisation is at another epoch than the actor, or the list is empty.
func (s *Tasks) ListUnconfirmed(ctx context.Context, actor org.Actor, f task.Filter, each func(task.Task) error) error {
	f.ExamineLimit = task.MaxExamined
	return s.store.Work().TasksAt(actor.Epoch()).List(ctx, actor.Org, actor, f, each)
}

// Get returns a task that the actor sees.
func (s *Tasks) Get(ctx context.Context, actor org.Actor, t id.Task) (task.Task, error) {
	return s.get(ctx, s.store.Work().Tasks().Get, actor, t)
}

// GetUnconfirmed is Get for an actor that access.Access.Cached returned: NotFound if the
// organisation is at another epoch than the actor.
func (s *Tasks) GetUnconfirmed(ctx context.Context, actor org.Actor, t id.Task) (task.Task, error) {
	return s.get(ctx, s.store.Work().TasksAt(actor.Epoch()).Get, actor, t)
}

// reader reads a task: NotFound if there is none.
type reader func(context.Context, id.Org, id.Task) (task.Task, error)

func (s *Tasks) get(ctx context.Context, read reader, actor org.Actor, t id.Task) (task.Task, error) {
	found, err := read(ctx, actor.Org, t)
	if err == nil {
		s.recent.put(found)
		err = checkVisible(actor, found)
	}
	return found, err
}

func checkVisible(actor org.Actor, t task.Task) error {
	if !t.VisibleTo(actor) {
		return fault.Missing("Task")
	}
	return nil
}

// Create adds a task after all others of the organisation. The actor may be one that
// access.Access.Cached returned.
func (s *Tasks) Create(ctx context.Context, actor org.Actor, d task.Draft) (added task.Task, err error) {
	created, err := s.draft(actor, d)
	if err != nil {
		return task.Task{}, err
	}
	err = s.atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := checkWorkspace(actor, d); err != nil {
			return err
		}
		if d.Assignee != nil {
			if err := checkAssignee(ctx, r, actor.Org, *d.Assignee); err != nil {
				return err
			}
		}
		added, err = r.Work().Tasks().Add(ctx, actor.Org, created)
		return workspaceNotFound(err)
	})
	return added, err
}

// CreateUnconfirmed is Create for an actor that access.Access.Cached returned, mostly in one
// statement. An error that is a refusal may be due to another epoch of the organisation than the
// actor's, and then nothing is added.
func (s *Tasks) CreateUnconfirmed(ctx context.Context, actor org.Actor, d task.Draft) (task.Task, error) {
	if d.Assignee != nil {
		return s.Create(ctx, actor, d)
	}
	created, err := s.draft(actor, d)
	if err == nil {
		err = checkWorkspace(actor, d)
	}
	if err != nil {
		return task.Task{}, err
	}
	if created, err = s.store.Work().TasksAt(actor.Epoch()).Add(ctx, actor.Org, created); err == nil {
		s.recent.put(created)
	}
	return created, workspaceNotFound(err)
}

// draft returns the task of a draft.
func (s *Tasks) draft(actor org.Actor, d task.Draft) (task.Task, error) {
	return task.New(cmp.Or(d.ID, id.Task(s.ids.New())), actor.Org, actor.User, d, s.clock.Now())
}

// checkWorkspace returns an error unless the actor may add tasks to the workspace of a draft.
func checkWorkspace(actor org.Actor, d task.Draft) error {
	if err := actor.CheckWrite(); err != nil {
		return err
	}
	if d.Workspace != nil && !actor.SeesWorkspace(*d.Workspace) {
		return invalidWorkspace()
	}
	return nil
}

// Update changes a task that the actor sees, and adds the change to its history. The actor may
// be one that access.Access.Cached returned. Admit is called with the changed task before it is
// stored, perhaps several times, and its error refuses the change; nil admits all.
func (s *Tasks) Update(ctx context.Context, actor org.Actor, t id.Task, match Match, p task.Patch, admit func(task.Task) error) (changed task.Task, err error) {
	if err := actor.CheckWrite(); err != nil {
		return task.Task{}, err
	}
	if !p.Assignee.Present() && !p.Workspace.Present() {
		// Concurrent changes are rare, and without them one statement is enough, or two.
		to := s.store.Work().TasksAt(actor.Epoch())
		for _, read := range []reader{s.recent.get, to.Get} {
			next, err := s.replace(ctx, read, to, actor, t, match, p, admit)
			if err == nil || fault.Is(err, fault.Internal, fault.Unavailable) {
				return next, err
			}
		}
	}
	err = s.atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		var was task.Task
		changed, err = r.Work().Tasks().Revise(ctx, actor.Org, t, func(there task.Task) (task.Task, error) {
			was = there.Clone()
			next, err := s.patched(actor, was, match, p, admit)
			if err == nil && next.Workspace != nil && (was.Workspace == nil || *was.Workspace != *next.Workspace) && !actor.SeesWorkspace(*next.Workspace) {
				err = invalidWorkspace()
			}
			return next, err
		})
		if err != nil {
			if _, moves := p.Workspace.Get(); moves && was.ID != "" && was.VisibleTo(actor) {
				err = workspaceNotFound(err)
			}
			return err
		}
		if u, ok := p.Assignee.Get(); ok && (was.Assignee == nil || *was.Assignee != u) {
			if err := checkAssignee(ctx, r, actor.Org, u); err != nil {
				return err
			}
		}
		return r.Work().TaskHistory().Add(ctx, actor.Org, s.difference(actor, was, changed))
	})
	if err == nil {
		s.recent.put(changed)
	}
	return changed, err
}

// replace is Update in one statement after read, for a patch of neither assignee nor workspace: NotFound
// also if the organisation is at another epoch than the actor, or the task is no longer as it was read.
func (s *Tasks) replace(
	ctx context.Context, read reader, to ports.TasksAt, actor org.Actor, t id.Task, match Match, p task.Patch,
	admit func(task.Task) error,
) (task.Task, error) {
	was, err := read(ctx, actor.Org, t)
	if err != nil {
		return was, err
	}
	next, err := s.patched(actor, was, match, p, admit)
	if err == nil {
		err = to.Replace(ctx, actor.Org, was, next, s.difference(actor, was, next))
	}
	if err == nil {
		s.recent.put(next)
	}
	return next, err
}

// patched returns the task with the patch applied, if the actor sees it, match allows it and admit admits the result.
func (s *Tasks) patched(actor org.Actor, was task.Task, match Match, p task.Patch, admit func(task.Task) error) (task.Task, error) {
	if err := checkVisible(actor, was); err != nil {
		return task.Task{}, err
	}
	if err := match.check(was); err != nil {
		return task.Task{}, err
	}
	next, err := was.Apply(p, s.clock.Now())
	if err == nil && admit != nil {
		err = admit(next)
	}
	return next, err
}

// difference returns the changes that a task's history gets, none if no field has changed.
func (s *Tasks) difference(actor org.Actor, was, next task.Task) []task.Change {
	fields := task.Diff(was, next)
	if len(fields) == 0 {
		return nil
	}
	return []task.Change{s.historyEntry(actor, next.ID, next.UpdatedAt, "", fields)}
}

// historyBatch is how many changes of a task's history one transaction deletes; others can
// write in between.
const historyBatch = 1000

// Delete removes a task that the actor sees. A long history is removed first, in several
// transactions.
func (s *Tasks) Delete(ctx context.Context, actor org.Actor, t id.Task, match Match) error {
	for more := true; more; match = nil { // it has matched: the deletion has begun
		err := s.atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
			if err := actor.CheckWrite(); err != nil {
				return err
			}
			allow := func(was task.Task) error {
				if err := checkVisible(actor, was); err != nil {
					return err
				}
				return match.check(was)
			}
			was, err := r.Work().Tasks().Get(ctx, actor.Org, t)
			if err == nil {
				err = allow(was)
			}
			if err == nil {
				more, err = r.Work().TaskHistory().Remove(ctx, actor.Org, t, historyBatch)
			}
			if err != nil || more {
				return err
			}
			return r.Work().Tasks().Remove(ctx, actor.Org, t, allow)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Reorder sets the sort orders of the tasks to consecutive numbers and then calls each with them.
func (s *Tasks) Reorder(ctx context.Context, actor org.Actor, o task.Order, each func(task.Task) error) error {
	var c check.List
	o.Check(&c)
	if err := c.Err(); err != nil {
		return err
	}
	return s.reposition(ctx, actor, "taskIds", o.Tasks, each, func(i int, was task.Placement) (task.Placement, string) {
		was.SortOrder = o.First + int64(i)
		return was, ""
	})
}

// Reprioritize applies all changes or none, adds their reasons to the tasks' histories, and
// then calls each with the tasks.
func (s *Tasks) Reprioritize(ctx context.Context, actor org.Actor, changes []task.Reprioritization, each func(task.Task) error) error {
	var c check.List
	named := make([]id.Task, len(changes))
	for i, ch := range changes {
		named[i] = ch.Task
		ch.Check(&c)
	}
	if err := c.Err(); err != nil {
		return err
	}
	return s.reposition(ctx, actor, "changes", named, each, func(i int, was task.Placement) (task.Placement, string) {
		return was.Reprioritized(changes[i]), changes[i].Reason
	})
}

// reposition stores the placements that change returns, and adds those with a reason to the tasks'
// histories.
func (s *Tasks) reposition(
	ctx context.Context, actor org.Actor, field string, named []id.Task, each func(task.Task) error,
	change func(int, task.Placement) (task.Placement, string),
) error {
	if len(named) == 0 {
		return fault.Field(field, "must not be empty")
	}
	if len(named) > MaxTasks {
		return fault.Field(field, "must name at most %d tasks", MaxTasks)
	}
	seen := make(map[id.Task]bool, len(named))
	for _, t := range named {
		if seen[t] {
			return fault.Field(field, "must not name a task twice")
		}
		seen[t] = true
	}
	now := s.clock.Now()
	err := s.atomic(ctx, actor, func(r ports.Records, present org.Actor) error {
		actor = present
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		var history []task.Change
		tags := 0
		err := r.Work().TaskSets().Move(ctx, actor.Org, named, now, func(i int, was task.Placement) (task.Placement, error) {
			if !was.VisibleTo(actor) {
				return was, fault.Missing("Task")
			}
			if tags += was.Tags; tags > MaxOperandTags {
				return was, fault.Field(field, "must not name tasks with more than %d tags in all", MaxOperandTags)
			}
			next, reason := change(i, was)
			if reason != "" {
				history = append(history, s.historyEntry(actor, was.Task, now, reason, was.Diff(next)))
			}
			return next, nil
		})
		if err != nil || history == nil {
			return err
		}
		return r.Work().TaskHistory().Add(ctx, actor.Org, history)
	})
	if err != nil {
		return err
	}
	return s.store.Work().TaskSets().List(ctx, actor.Org, named, func(t task.Task) error {
		if !t.VisibleTo(actor) { // it was moved to another workspace meanwhile
			return nil
		}
		return each(t)
	})
}

// historyEntry returns an entry of a task's history.
func (s *Tasks) historyEntry(actor org.Actor, t id.Task, at time.Time, reason string, fields []task.Delta) task.Change {
	return task.Change{ID: id.Entry(s.ids.New()), Org: actor.Org, Task: t, At: at, By: actor.User, Reason: reason, Fields: fields}
}

// History calls each with the changes of a task that the actor sees, the oldest first, from
// after the position; at most limit, 0: all.
func (s *Tasks) History(ctx context.Context, actor org.Actor, t id.Task, after id.Position[id.Entry], limit int, each func(task.Change) error) error {
	if _, err := s.Get(ctx, actor, t); err != nil {
		return err
	}
	return s.store.Work().TaskHistory().List(ctx, actor.Org, t, after, limit, each)
}

// checkAssignee returns an error unless the user is an active member. It locks the
// membership, so that a member who is being removed is not assigned.
func checkAssignee(ctx context.Context, r ports.Records, o id.Org, user id.User) error {
	m, err := r.Directory().Members().GetLocked(ctx, o, user)
	if fault.Is(err, fault.NotFound) || err == nil && !m.Active() {
		return fault.Field("assigneeId", "must be a member of the organisation")
	}
	return err
}

func invalidWorkspace() error {
	return fault.Field("workspaceId", "must be a workspace that you can see")
}

// workspaceNotFound turns NotFound of a workspace that was deleted meanwhile into Invalid.
func workspaceNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return invalidWorkspace()
	}
	return err
}
