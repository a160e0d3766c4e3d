package gormdb

import (
	"context"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/task"
	"collab/ports"
)

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

var _ ports.TaskHistory = taskHistory{}

// Add takes two statements for each batch of lines.
func (q taskHistory) Add(ctx context.Context, o id.Org, changes []task.Change) error {
	if len(changes) == 0 {
		return nil
	}
	return q.atomic(ctx, func(c *conn) error {
		for batch := range slices.Chunk(changes, linesInBatch) {
			if err := (taskHistory{c}).add(ctx, o, batch); err != nil {
				return err
			}
		}
		return nil
	})
}

// linesInBatch bounds one statement: a line takes a few kilobytes at most.
const linesInBatch = 500

// add holds the tasks against deletion and appends the lines.
func (q taskHistory) add(ctx context.Context, o id.Org, changes []task.Change) error {
	rows := make([]taskHistoryRow, len(changes))
	var of []id.Task
	known := map[id.Task]bool{}
	for i, c := range changes {
		rows[i] = taskHistoryRow{ID: c.ID, TaskID: c.Task, At: c.At, ByUser: c.By, Reason: c.Reason, Fields: make([]deltaRow, len(c.Fields))}
		for j, d := range c.Fields {
			rows[i].Fields[j] = deltaRow(d)
		}
		if !known[c.Task] {
			known[c.Task] = true
			of = append(of, c.Task)
		}
	}
	n, err := taskTable.of(q.write, o).among("id", list(q.dialect, of)).keep(ctx)
	if err == nil && n != len(of) {
		err = fault.Missing("Task")
	}
	if err != nil {
		return err
	}
	_, err = insertRecords(ctx, historyTable.of(q.write, o), insertHistory, rows, historyTable.rest)
	return err
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
	if len(ids([]id.Task{t})) == 0 {
		return false, nil
	}
	return q.remove(ctx, o, historyTable.of(q.write, o).filter("task_id = ?", string(t)), limit)
}

// remove deletes at most limit of the changes.
func (q taskHistory) remove(ctx context.Context, o id.Org, of selection, limit int) (more bool, err error) {
	first := of.read("id").page("task_id, at, id", limit)
	n, err := historyTable.of(q.write, o).in("id", first).remove(ctx)
	return n == int64(limit), err
}

func (q taskHistory) List(ctx context.Context, o id.Org, t id.Task, after task.ChangePosition, limit int, fn func(task.Change) error) error {
	if len(ids([]id.Task{t})) == 0 {
		return nil
	}
	s := historyTable.of(q.read, o).filter("task_id = ?", string(t))
	if after != (task.ChangePosition{}) {
		s = s.after("at, id", after.At.UnixMilli(), place(after.ID))
	}
	return each(ctx, s.page("at, id", limit), (*taskHistoryRow).change, fn)
}
