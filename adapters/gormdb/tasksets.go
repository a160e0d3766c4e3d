package gormdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/task"
	"collab/ports"
)

// Bounds of one statement: a placement has some hundred bytes, a task up to 120 KiB.
const (
	placementsPerBatch = 500
	tasksPerBatch      = 8
)

type taskSets struct{ *conn }

func (g group) TaskSets() ports.TaskSets { return taskSets(g) }

func (r *taskRow) placement() (task.Placement, error) {
	return task.Placement{
		Task: r.ID, Workspace: r.WorkspaceID, Assignee: r.AssigneeID, CreatedBy: r.CreatedBy,
		SortOrder: r.SortOrder, Priority: r.Priority,
	}, nil
}

func (r *taskRow) position() (task.Position, error) {
	return task.Position{SortOrder: r.SortOrder, CreatedAt: r.CreatedAt, ID: r.ID}, nil
}

// addTasks stores rows as they are.
var addTasks = taskTable.insertsRecords(taskTable.rest, "")

func (q taskSets) Add(ctx context.Context, o id.Org, added []task.Task) error {
	return q.atomic(ctx, func(c *conn) error {
		for batch := range slices.Chunk(added, placementsPerBatch) {
			rows := make([]taskRow, len(batch))
			for i, t := range batch {
				rows[i] = *rowOfTask(q.dialect, t)
			}
			if _, err := insertRecords(ctx, taskTable.of(c.write, o), addTasks, rows, taskTable.rest); err != nil {
				return err
			}
			for _, t := range batch {
				if err := (tasks{c}).putTexts(ctx, o, t, false); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Move takes two statements for each batch.
func (q taskSets) Move(
	ctx context.Context, o id.Org, ids []id.Task, now time.Time, fn func(int, task.Placement) (task.Placement, error),
) error {
	index := make(map[id.Task]int, len(ids))
	for i, t := range ids {
		index[t] = i
	}
	ordered := slices.SortedFunc(slices.Values(ids), cmp.Compare)
	return q.atomic(ctx, func(c *conn) error {
		for batch := range slices.Chunk(ordered, placementsPerBatch) {
			err := taskSets{c}.move(ctx, o, batch, now, func(p task.Placement) (task.Placement, error) {
				return fn(index[p.Task], p)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (q taskSets) move(
	ctx context.Context, o id.Org, batch []id.Task, now time.Time, fn func(task.Placement) (task.Placement, error),
) error {
	moved := make([]taskRow, 0, len(batch))
	tags := 0
	held := taskTable.of(q.write, o).whereIn("id", list(q.dialect, batch)).
		read("id", "workspace_id", "assignee_id", "created_by", "sort_order", "priority").
		join("tasks", ", COALESCE(json_array_length("+q.dialect.json("tasks.tags")+"), 0)", &tags).
		page("tasks.id", 0).forUpdate()
	err := each(ctx, held, (*taskRow).placement, func(previous task.Placement) error {
		previous.Tags = tags
		next, err := fn(previous)
		moved = append(moved, taskRow{ID: previous.Task, SortOrder: next.SortOrder, Priority: next.Priority})
		return err
	})
	if err != nil {
		return err
	}
	if len(moved) != len(batch) {
		return fault.Missing("Task")
	}
	n, err := exec(ctx, q.write, "Task", movePlacements[q.dialect].of(o).
		set("now", now.UnixMilli()).set("rows", records(moved, placementFields)))
	if err == nil && n != int64(len(batch)) {
		err = fault.Wrap(fault.Internal, fmt.Errorf("%d tasks were moved of %d", n, len(batch)), "The database failed")
	}
	return err
}

// RemoveIn names the tasks, so that both databases use the indexes of their histories and
// of their keys. It locks them in the order of their ids, as Move does, and deletes those
// that are still in the workspace then.
func (q taskSets) RemoveIn(
	ctx context.Context, o id.Org, w id.Workspace, after task.Position, limit int,
) (last task.Position, more bool, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		const order = "sort_order, created_at, id"
		last = after
		in := taskTable.of(c.write, o).filter("workspace_id = ?", string(w)).page(order, limit).read("sort_order", "created_at", "id")
		if after != (task.Position{}) {
			in = in.after(order, after.SortOrder, after.CreatedAt.UnixMilli(), cursorID(after.ID))
		}
		var found, held []id.Task
		next := after
		err := each(ctx, in, (*taskRow).position, func(p task.Position) error {
			found, next = append(found, p.ID), p
			return nil
		})
		if err != nil || len(found) == 0 {
			more = false
			return err
		}
		again := taskTable.of(c.write, o).whereIn("id", list(c.dialect, found)).
			read("id", "workspace_id").page("tasks.id", 0).forUpdate()
		err = each(ctx, again, (*taskRow).placement, func(p task.Placement) error {
			if p.Workspace != nil && *p.Workspace == w {
				held = append(held, p.Task)
			}
			return nil
		})
		if err != nil {
			return err
		}
		changes := historyTable.of(c.write, o).whereIn("task_id", list(c.dialect, held))
		if more, err = (taskHistory{c}).remove(ctx, o, changes, 10*limit); err != nil || more {
			return err
		}
		last, more = next, len(found) == limit
		return taskTable.of(c.write, o).whereIn("id", list(c.dialect, held)).delete(ctx)
	})
	return last, more, err
}

// List reads a batch at a time, and holds no connection while each is called.
func (q taskSets) List(ctx context.Context, o id.Org, ids []id.Task, fn func(task.Task) error) error {
	for batch := range slices.Chunk(ids, tasksPerBatch) {
		existing := make(map[id.Task]task.Task, len(batch))
		err := each(ctx, taskTable.of(q.read, o).whereIn("id", list(q.dialect, batch)), (*taskRow).task, func(t task.Task) error {
			existing[t.ID] = t
			return nil
		})
		if err != nil {
			return err
		}
		for _, t := range batch {
			if found, ok := existing[t]; ok {
				if err := fn(found.Clone()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type taskHistoryRow struct {
	OrgID  id.Org   `gorm:"primaryKey"`
	ID     id.Entry `gorm:"primaryKey"`
	TaskID id.Task
	At     time.Time
	ByUser id.User
	Reason string
	Fields []deltaRow `gorm:"serializer:json"`
}

type deltaRow struct {
	Field string  `json:"field"`
	From  *string `json:"from,omitempty"`
	To    *string `json:"to,omitempty"`
}

type taskHistory struct{ *conn }

func (g group) TaskHistory() ports.TaskHistory { return taskHistory(g) }

// Add takes two statements for each batch.
func (q taskHistory) Add(ctx context.Context, o id.Org, changes []task.Change) error {
	if len(changes) == 0 {
		return nil
	}
	return q.atomic(ctx, func(c *conn) error {
		for batch := range slices.Chunk(changes, changesPerBatch) {
			if err := (taskHistory{c}).add(ctx, o, batch); err != nil {
				return err
			}
		}
		return nil
	})
}

// changesPerBatch bounds one statement: a change has a few kilobytes at most.
const changesPerBatch = 500

// add prevents the deletion of the tasks and appends the changes.
func (q taskHistory) add(ctx context.Context, o id.Org, changes []task.Change) error {
	taskIDs := make([]id.Task, len(changes))
	for i, c := range changes {
		taskIDs[i] = c.Task
	}
	slices.Sort(taskIDs)
	taskIDs = slices.Compact(taskIDs)
	if err := taskTable.of(q.write, o).whereIn("id", list(q.dialect, taskIDs)).lockKeys(ctx, len(taskIDs)); err != nil {
		return err
	}
	_, err := insertRecords(ctx, historyTable.of(q.write, o), insertHistory, rowsOfHistory(changes), historyTable.rest)
	return err
}

func rowsOfHistory(changes []task.Change) []taskHistoryRow {
	rows := make([]taskHistoryRow, len(changes))
	for i, c := range changes {
		rows[i] = taskHistoryRow{ID: c.ID, TaskID: c.Task, At: c.At, ByUser: c.By, Reason: c.Reason}
		rows[i].Fields = make([]deltaRow, len(c.Fields))
		for j, d := range c.Fields {
			rows[i].Fields[j] = deltaRow(d)
		}
	}
	return rows
}

var (
	historyTable  = tenant[taskHistoryRow]("task_history", "Change")
	insertHistory = historyTable.insertsRecords(historyTable.rest, "")
)

func (r *taskHistoryRow) change() (task.Change, error) {
	c := task.Change{ID: r.ID, Org: r.OrgID, Task: r.TaskID, At: r.At, By: r.ByUser, Reason: r.Reason}
	for _, d := range r.Fields {
		c.Fields = append(c.Fields, task.Delta(d))
	}
	return c, nil
}

func (q taskHistory) Remove(ctx context.Context, o id.Org, t id.Task, limit int) (more bool, err error) {
	if len(validIDs([]id.Task{t})) == 0 {
		return false, nil
	}
	// Before its history, as RemoveIn does, to avoid deadlocks.
	held := taskTable.of(q.write, o).key(string(t)).read("id").forUpdate()
	if _, _, err := find(ctx, held, (*taskRow).position); err != nil {
		return false, err
	}
	return q.remove(ctx, o, historyTable.of(q.write, o).filter("task_id = ?", string(t)), limit)
}

// remove deletes at most limit of the changes.
func (q taskHistory) remove(ctx context.Context, o id.Org, rows selection, limit int) (more bool, err error) {
	first := rows.read("id").page("task_id, at, id", limit)
	n, err := historyTable.of(q.write, o).in("id", first).remove(ctx)
	return n == int64(limit), err
}

func (q taskHistory) List(
	ctx context.Context, o id.Org, t id.Task, after id.Position[id.Entry], limit int, fn func(task.Change) error,
) error {
	if len(validIDs([]id.Task{t})) == 0 {
		return nil
	}
	s := historyTable.of(q.read, o).filter("task_id = ?", string(t))
	return each(ctx, byTime(s, "at, id", after, limit), (*taskHistoryRow).change, fn)
}
