package gormdb

import (
	"context"
	"encoding/json"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/task"
	"collab/ports"
)

type taskHistoryRow struct {
	OrgID  string `gorm:"type:uuid;primaryKey"`
	ID     string `gorm:"type:uuid;primaryKey"`
	TaskID string `gorm:"type:uuid;not null"`
	At     int64  `gorm:"not null"`
	ByUser string `gorm:"type:uuid;not null"`
	Reason string `gorm:"not null"`
	Fields string `gorm:"not null"` // a JSON array of deltaRow
}

func (taskHistoryRow) TableName() string { return "task_history" }

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
		deltas := make([]deltaRow, len(c.Fields))
		for j, d := range c.Fields {
			deltas[j] = deltaRow(d)
		}
		fields, err := json.Marshal(deltas)
		if err != nil {
			return failed(ctx, err, "Change")
		}
		rows[i] = taskHistoryRow{ID: string(c.ID), TaskID: string(c.Task), At: c.At.UnixMilli(), ByUser: string(c.By), Reason: c.Reason, Fields: string(fields)}
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
	_, err = historyTable.of(q.write, o).insertRecords(ctx, insertHistory, rows, historyTable.rest)
	return err
}

var (
	historyTable  = tenant[taskHistoryRow]("Change", nil)
	insertHistory = historyTable.insertsRecords(historyTable.rest, "")
)

func (r *taskHistoryRow) change() (task.Change, error) {
	c := task.Change{ID: id.Entry(r.ID), Org: id.Org(r.OrgID), Task: id.Task(r.TaskID), At: instant(r.At), By: id.User(r.ByUser), Reason: r.Reason}
	var deltas []deltaRow
	err := json.Unmarshal([]byte(r.Fields), &deltas)
	for _, d := range deltas {
		c.Fields = append(c.Fields, task.Delta(d))
	}
	return c, err
}

func (q taskHistory) Remove(ctx context.Context, o id.Org, t id.Task, limit int) (more bool, err error) {
	return q.remove(ctx, o, ids([]id.Task{t}), limit)
}

// remove deletes at most limit changes of the tasks.
func (q taskHistory) remove(ctx context.Context, o id.Org, of []id.Task, limit int) (more bool, err error) {
	if len(of) == 0 {
		return false, nil
	}
	first := historyTable.of(q.write, o).among("task_id", list(q.dialect, of)).read("id").page("task_id, at, id", limit)
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
