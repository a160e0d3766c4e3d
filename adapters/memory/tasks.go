package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/ports"
)

type tasks struct{ run runner }

func (r records) Tasks() ports.Tasks { return tasks{r.run} }

func (s tasks) Get(_ context.Context, o id.Org, t id.Task) (task.Task, error) {
	return result(s.run, func(x *tx) (task.Task, error) { return x.tenant(o).Tasks.get(t) })
}

func (s tasks) List(_ context.Context, o id.Org, actor org.Actor, f task.Filter, each func(task.Task) error) error {
	within := f
	if len(f.Words) > 0 {
		within.Words, within.Limit = nil, f.ExamineLimit
	}
	selected, err := result(s.run, func(x *tx) ([]task.Task, error) {
		return x.tenant(o).Tasks.list(func(v task.Task) bool { return within.Selects(v, actor) }, f.Compare, within.Limit), nil
	})
	selected = slices.DeleteFunc(selected, func(v task.Task) bool { return !f.Selects(v, actor) })
	return forEach(first(selected, f.Limit), err, each)
}

func (s tasks) Add(_ context.Context, o id.Org, t task.Task) (task.Task, error) {
	return result(s.run, func(x *tx) (task.Task, error) {
		tenant, err := x.Tenants.get(o)
		if err != nil {
			return t, err
		}
		if err := tenant.checkWorkspace(t); err != nil {
			return t, err
		}
		t.SortOrder = 0
		for _, v := range tenant.Tasks.rows {
			t.SortOrder = max(t.SortOrder, v.SortOrder+1)
		}
		return clone(t), tenant.Tasks.add(x, t.ID, t)
	})
}

// tasksAt are the tasks of organisations at an epoch.
type tasksAt struct {
	tasks
	epoch int64
}

func (r records) TasksAt(epoch int64) ports.TasksAt { return tasksAt{tasks{r.run}, epoch} }

// at returns the tasks, which are missing at another epoch.
func (s tasksAt) at(o id.Org) tasks { return tasks{s.run.at(o, s.epoch, fault.Missing("Task"))} }

func (s tasksAt) Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error) {
	return s.at(o).Get(ctx, o, t)
}

func (s tasksAt) List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, each func(task.Task) error) error {
	some := false
	err := s.at(o).List(ctx, o, actor, f, func(t task.Task) error {
		some = true
		return each(t)
	})
	if err == nil && !some {
		err = fault.Missing("Task")
	}
	return err
}

func (s tasksAt) Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error) {
	return s.at(o).Add(ctx, o, t)
}

func (s tasksAt) Replace(ctx context.Context, o id.Org, previous, next task.Task, changes []task.Change) error {
	return s.at(o).run(func(x *tx) error {
		_, err := tasks{x.run}.Revise(ctx, o, previous.ID, func(existing task.Task) (task.Task, error) {
			if existing.Version != previous.Version || !existing.UpdatedAt.Equal(previous.UpdatedAt) {
				return existing, fault.Missing("Task")
			}
			return next, nil
		})
		if err != nil {
			return err
		}
		return taskHistory{x.run}.Add(ctx, o, changes)
	})
}

func (s tasks) Revise(_ context.Context, o id.Org, t id.Task, fn func(task.Task) (task.Task, error)) (task.Task, error) {
	return result(s.run, func(x *tx) (task.Task, error) {
		tenant := x.tenant(o)
		return tenant.Tasks.update(x, t, func(previous task.Task) (task.Task, error) {
			next, err := fn(previous)
			next.ID, next.Org = t, o
			if err == nil {
				err = tenant.checkWorkspace(next)
			}
			return next, err
		})
	})
}

func (s tasks) Remove(_ context.Context, o id.Org, t id.Task, allow func(task.Task) error) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		existing, err := tenant.Tasks.get(t)
		if err != nil {
			return err
		}
		if err := allow(existing); err != nil {
			return err
		}
		tenant.removeTask(x, t)
		return nil
	})
}

func (s tasks) Unassign(_ context.Context, o id.Org, user id.User, now time.Time) error {
	return s.run.do(func(x *tx) {
		tenant := x.tenant(o)
		for t, v := range tenant.Tasks.rows {
			if v.Assignee != nil && *v.Assignee == user {
				tenant.Tasks.put(x, t, v.Unassigned(now))
			}
		}
	})
}

// checkWorkspace says NotFound when the task's workspace is not there.
func (t *tenant) checkWorkspace(v task.Task) error {
	if v.Workspace != nil && !t.Workspaces.has(*v.Workspace) {
		return t.Workspaces.missing()
	}
	return nil
}

// removeTask deletes a task with its history.
func (t *tenant) removeTask(x *tx, gone id.Task) {
	t.Tasks.remove(x, gone)
	t.History.removeWhere(x, func(c task.Change) bool { return c.Task == gone })
}

// trimHistory deletes at most limit changes of a task's history and returns how many.
func (t *tenant) trimHistory(x *tx, taskID id.Task, limit int) int {
	found := t.History.list(func(c task.Change) bool { return c.Task == taskID }, func(a, b task.Change) int { return cmp.Compare(a.ID, b.ID) }, limit)
	for _, c := range found {
		t.History.remove(x, c.ID)
	}
	return len(found)
}

// forEach calls each with the values, unless err is set. It runs outside the lock where no
// transaction is around it, so that each may use the store.
func forEach[V any](vs []V, err error, each func(V) error) error {
	if err != nil {
		return err
	}
	for _, v := range vs {
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

type taskSets struct{ run runner }

func (r records) TaskSets() ports.TaskSets { return taskSets{r.run} }

func (s taskSets) Add(_ context.Context, o id.Org, tasks []task.Task) error {
	return s.run.in(o, func(x *tx, t *tenant) error {
		for _, v := range tasks {
			if err := t.checkWorkspace(v); err != nil {
				return err
			}
			if err := t.Tasks.add(x, v.ID, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s taskSets) Move(_ context.Context, o id.Org, ids []id.Task, now time.Time, fn func(int, task.Placement) (task.Placement, error)) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		for i, t := range ids {
			_, err := tenant.Tasks.update(x, t, func(previous task.Task) (task.Task, error) {
				next, err := fn(i, previous.Placement())
				return previous.Placed(next, now), err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s taskSets) RemoveIn(_ context.Context, o id.Org, w id.Workspace, after task.Position, limit int) (last task.Position, more bool, err error) {
	err = s.run.do(func(x *tx) {
		tenant := x.tenant(o)
		place := task.Task{ID: after.ID, SortOrder: after.SortOrder, CreatedAt: after.CreatedAt}
		found := tenant.Tasks.list(func(v task.Task) bool {
			return v.Workspace != nil && *v.Workspace == w && (after == task.Position{} || task.Compare(v, place) > 0)
		}, task.Compare, limit)
		last = after
		left := 10 * limit
		for _, v := range found {
			if left -= tenant.trimHistory(x, v.ID, left); left == 0 {
				more = true
				return
			}
		}
		for _, v := range found {
			tenant.removeTask(x, v.ID)
			last = v.Position()
		}
		more = len(found) == limit
	})
	return last, more, err
}

func (s taskSets) List(_ context.Context, o id.Org, ids []id.Task, each func(task.Task) error) error {
	existing, err := result(s.run, func(x *tx) ([]task.Task, error) { return x.tenant(o).Tasks.getAll(ids), nil })
	return forEach(existing, err, each)
}

type taskHistory struct{ run runner }

func (r records) TaskHistory() ports.TaskHistory { return taskHistory{r.run} }

func (s taskHistory) Add(_ context.Context, o id.Org, changes []task.Change) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		for _, c := range changes {
			if !tenant.Tasks.has(c.Task) {
				return tenant.Tasks.missing()
			}
			if err := tenant.History.add(x, c.ID, c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s taskHistory) Remove(_ context.Context, o id.Org, t id.Task, limit int) (more bool, err error) {
	return result(s.run, func(x *tx) (bool, error) { return x.tenant(o).trimHistory(x, t, limit) == limit, nil })
}

func (s taskHistory) List(_ context.Context, o id.Org, t id.Task, after id.Position[id.Entry], limit int, each func(task.Change) error) error {
	compare := func(a, b task.Change) int { return byTime(a.At, b.At, a.ID, b.ID) }
	selected, err := result(s.run, func(x *tx) ([]task.Change, error) {
		ofTask := func(c task.Change) bool { return c.Task == t }
		return x.tenant(o).History.page(ofTask, compare, task.Change{At: after.At, ID: after.ID}, limit), nil
	})
	return forEach(selected, err, each)
}
