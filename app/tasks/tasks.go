// Package tasks is what members do with tasks.
package tasks

import (
	"context"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/ports"
)

// MaxOperands is how many tasks one reorder or reprioritize may name.
const MaxOperands = 5_000

// Tasks are the use cases of tasks.
type Tasks struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs
}

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs) *Tasks {
	return &Tasks{store: store, clock: clock, ids: ids}
}

// Match decides by a task's version whether a change may go ahead; nil always
// does.
type Match func(version int64) bool

func (m Match) of(t task.Task) error {
	if m != nil && !m(t.Version) {
		return fault.New(fault.Stale, "The task has changed since the version that If-Match names")
	}
	return nil
}

// List calls each with the tasks that the actor sees and the filter selects.
func (s *Tasks) List(ctx context.Context, actor org.Actor, f task.Filter, each func(task.Task) error) error {
	return s.store.Work().Tasks().List(ctx, actor.Org, actor, f, each)
}

// Get returns a task that the actor sees.
func (s *Tasks) Get(ctx context.Context, actor org.Actor, t id.Task) (task.Task, error) {
	found, err := s.store.Work().Tasks().Get(ctx, actor.Org, t)
	if err == nil {
		err = seen(actor, found)
	}
	return found, err
}

func seen(actor org.Actor, t task.Task) error {
	if !t.Visible(actor) {
		return fault.Missing("Task")
	}
	return nil
}

// Create makes a task after all others of the organisation.
func (s *Tasks) Create(ctx context.Context, actor org.Actor, d task.Draft) (task.Task, error) {
	if err := actor.Writes(); err != nil {
		return task.Task{}, err
	}
	made, err := task.New(id.Task(s.ids.New()), actor.Org, actor.User, d, s.clock.Now())
	if err != nil {
		return task.Task{}, err
	}
	if d.Workspace != nil && !actor.SeesWorkspace(*d.Workspace) {
		return task.Task{}, noWorkspace()
	}
	if d.Assignee == nil {
		made, err = s.store.Work().Tasks().Add(ctx, actor.Org, made)
		return made, gone(err)
	}
	var added task.Task
	err = s.store.Atomic(ctx, func(r ports.Records) error {
		if err := assignable(ctx, r, actor.Org, *d.Assignee); err != nil {
			return err
		}
		added, err = r.Work().Tasks().Add(ctx, actor.Org, made)
		return gone(err)
	})
	return added, err
}

// Update changes a task that the actor sees and notes the change in its
// history.
func (s *Tasks) Update(ctx context.Context, actor org.Actor, t id.Task, match Match, p task.Patch) (changed task.Task, err error) {
	if err := actor.Writes(); err != nil {
		return task.Task{}, err
	}
	err = s.store.Atomic(ctx, func(r ports.Records) error {
		var was task.Task
		revised, err := r.Work().Tasks().Revise(ctx, actor.Org, []id.Task{t}, func(ts []task.Task) ([]task.Task, error) {
			was = ts[0].Clone()
			if err := seen(actor, was); err != nil {
				return nil, err
			}
			if err := match.of(was); err != nil {
				return nil, err
			}
			next, err := was.Apply(p, s.clock.Now())
			if err != nil {
				return nil, err
			}
			if next.Workspace != nil && (was.Workspace == nil || *was.Workspace != *next.Workspace) && !actor.SeesWorkspace(*next.Workspace) {
				return nil, noWorkspace()
			}
			return []task.Task{next}, nil
		})
		if err != nil {
			if _, moves := p.Workspace.Get(); moves && was.ID != "" && was.Visible(actor) {
				err = gone(err)
			}
			return err
		}
		changed = revised[0]
		if u, ok := p.Assignee.Get(); ok && (was.Assignee == nil || *was.Assignee != u) {
			if err := assignable(ctx, r, actor.Org, u); err != nil {
				return err
			}
		}
		return s.note(ctx, r, actor, []task.Task{was}, revised, nil)
	})
	return changed, err
}

// Delete removes a task that the actor sees.
func (s *Tasks) Delete(ctx context.Context, actor org.Actor, t id.Task, match Match) error {
	if err := actor.Writes(); err != nil {
		return err
	}
	return s.store.Work().Tasks().Remove(ctx, actor.Org, t, func(was task.Task) error {
		if err := seen(actor, was); err != nil {
			return err
		}
		return match.of(was)
	})
}

// Reorder gives the named tasks the sort orders 0, 1, 2, … and returns them.
func (s *Tasks) Reorder(ctx context.Context, actor org.Actor, named []id.Task) ([]task.Task, error) {
	now := s.clock.Now()
	return s.revise(ctx, actor, "taskIds", named, nil, func(i int, t task.Task) task.Task {
		return t.Placed(int64(i), now)
	})
}

// Reprioritize applies all changes or none, keeps their reasons in the tasks'
// histories, and returns the tasks.
func (s *Tasks) Reprioritize(ctx context.Context, actor org.Actor, changes []task.Reprioritization) ([]task.Task, error) {
	var c check.List
	named := make([]id.Task, len(changes))
	reasons := make([]string, len(changes))
	for i, ch := range changes {
		named[i], reasons[i] = ch.Task, ch.Reason
		ch.Check(&c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	return s.revise(ctx, actor, "changes", named, reasons, func(i int, t task.Task) task.Task {
		return t.Reprioritized(changes[i], now)
	})
}

func (s *Tasks) revise(ctx context.Context, actor org.Actor, field string, named []id.Task, reasons []string, change func(int, task.Task) task.Task) (changed []task.Task, err error) {
	if err := actor.Writes(); err != nil {
		return nil, err
	}
	if len(named) == 0 {
		return nil, fault.Field(field, "must not be empty")
	}
	if len(named) > MaxOperands {
		return nil, fault.Field(field, "must name at most %d tasks", MaxOperands)
	}
	once := make(map[id.Task]bool, len(named))
	for _, t := range named {
		if once[t] {
			return nil, fault.Field(field, "must not name a task twice")
		}
		once[t] = true
	}
	err = s.store.Atomic(ctx, func(r ports.Records) error {
		var was []task.Task
		changed, err = r.Work().Tasks().Revise(ctx, actor.Org, named, func(ts []task.Task) ([]task.Task, error) {
			was = ts
			next := make([]task.Task, len(ts))
			for i, t := range ts {
				if err := seen(actor, t); err != nil {
					return nil, err
				}
				next[i] = change(i, t.Clone())
			}
			return next, nil
		})
		if err != nil || reasons == nil {
			return err
		}
		return s.note(ctx, r, actor, was, changed, reasons)
	})
	return changed, err
}

// note appends what changed to the histories; without a reason, only where
// something did change.
func (s *Tasks) note(ctx context.Context, r ports.Records, actor org.Actor, was, is []task.Task, reasons []string) error {
	var changes []task.Change
	for i := range is {
		ch := task.Change{ID: id.Entry(s.ids.New()), Org: actor.Org, Task: is[i].ID, At: is[i].UpdatedAt, By: actor.User, Fields: task.Diff(was[i], is[i])}
		if reasons != nil {
			ch.Reason = reasons[i]
		}
		if ch.Reason != "" || len(ch.Fields) > 0 {
			changes = append(changes, ch)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return r.Work().TaskHistory().Add(ctx, actor.Org, changes)
}

// History returns what happened to a task that the actor sees, oldest first.
func (s *Tasks) History(ctx context.Context, actor org.Actor, t id.Task) ([]task.Change, error) {
	if _, err := s.Get(ctx, actor, t); err != nil {
		return nil, err
	}
	return s.store.Work().TaskHistory().List(ctx, actor.Org, t)
}

// assignable holds the membership, so that nobody is assigned to a task while
// leaving.
func assignable(ctx context.Context, r ports.Records, o id.Org, user id.User) error {
	m, err := r.Directory().Members().Hold(ctx, o, user)
	if fault.Is(err, fault.NotFound) || err == nil && !m.Active() {
		return fault.Field("assigneeId", "must be a member of the organisation")
	}
	return err
}

func noWorkspace() error {
	return fault.Field("workspaceId", "must be a workspace that you can see")
}

// gone turns a workspace that went away meanwhile into what it is for the
// caller: a reference to nothing.
func gone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return noWorkspace()
	}
	return err
}
