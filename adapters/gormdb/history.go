package gormdb

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

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

var historyColumns = []column{{"id", "uuid"}, {"task_id", "uuid"}, {"at", "bigint"}, {"by_user", "uuid"}, {"reason", "text"}, {"fields", "text"}}

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
	records := make([]map[string]any, len(changes))
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
		records[i] = map[string]any{
			"id": string(c.ID), "task_id": string(c.Task), "at": c.At.UnixMilli(), "by_user": string(c.By), "reason": c.Reason, "fields": string(fields),
		}
		if !known[c.Task] {
			known[c.Task] = true
			of = append(of, c.Task)
		}
	}
	written, err := json.Marshal(records)
	if err != nil {
		return failed(ctx, err, "Change")
	}
	found, err := all(ctx, q.write, "Task", scanInt,
		"SELECT 1 FROM tasks WHERE org_id = ? AND "+q.dialect.in("id", "uuid")+" ORDER BY id"+q.dialect.shared(), string(o), list(q.dialect, of))
	if err != nil {
		return err
	}
	if len(found) != len(of) {
		return fault.Missing("Task")
	}
	_, err = exec(ctx, q.write, "Change", insertHistory[q.dialect], string(o), string(written))
	return err
}

// insertHistory writes all lines from one parameter.
var insertHistory = func() (s [2]string) {
	names := make([]string, len(historyColumns))
	for i, c := range historyColumns {
		names[i] = c.name
	}
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = "INSERT INTO task_history (org_id, " + strings.Join(names, ", ") + ") SELECT " + d.param(column{"org_id", "uuid"}) +
			", v." + strings.Join(names, ", v.") + " FROM " + d.records(historyColumns) + " WHERE 1 = 1"
	}
	return s
}()

func scanChange(o id.Org) func(scanner) (task.Change, error) {
	return func(s scanner) (task.Change, error) {
		var r taskHistoryRow
		if err := s.Scan(&r.ID, &r.TaskID, &r.At, &r.ByUser, &r.Reason, &r.Fields); err != nil {
			return task.Change{}, err
		}
		var deltas []deltaRow
		if err := json.Unmarshal([]byte(r.Fields), &deltas); err != nil {
			return task.Change{}, err
		}
		c := task.Change{ID: id.Entry(r.ID), Org: o, Task: id.Task(r.TaskID), At: instant(r.At), By: id.User(r.ByUser), Reason: r.Reason}
		for _, d := range deltas {
			c.Fields = append(c.Fields, task.Delta(d))
		}
		return c, nil
	}
}

func (q taskHistory) Remove(ctx context.Context, o id.Org, t id.Task, limit int) (more bool, err error) {
	return q.remove(ctx, o, ids([]id.Task{t}), limit)
}

// remove deletes at most limit changes of the tasks.
func (q taskHistory) remove(ctx context.Context, o id.Org, of []id.Task, limit int) (more bool, err error) {
	if len(of) == 0 {
		return false, nil
	}
	query, limited := q.dialect.page("SELECT h.id FROM task_history h WHERE h.org_id = ? AND "+q.dialect.in("h.task_id", "uuid"), "h.task_id, h.at, h.id", limit)
	n, err := exec(ctx, q.write, "Change", "DELETE FROM task_history WHERE org_id = ? AND id IN ("+query+")",
		append([]any{string(o), string(o), list(q.dialect, of)}, limited...)...)
	return n == int64(limit), err
}

func (q taskHistory) List(ctx context.Context, o id.Org, t id.Task, after task.ChangePosition, limit int, fn func(task.Change) error) error {
	if len(ids([]id.Task{t})) == 0 {
		return nil
	}
	query := "SELECT id, task_id, at, by_user, reason, fields FROM task_history WHERE org_id = ? AND task_id = ?"
	args := []any{string(o), string(t)}
	if after != (task.ChangePosition{}) {
		query, args = query+" AND (at, id) > (?, ?)", append(args, after.At.UnixMilli(), place(after.ID))
	}
	query, limited := q.dialect.page(query, "at, id", limit)
	return each(ctx, q.read, "Change", scanChange(o), fn, query, append(args, limited...)...)
}
