package gormdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/task"
	"collab/ports"
)

type taskRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	ID          string `gorm:"type:uuid;primaryKey"`
	Title       string `gorm:"not null"`
	Description sql.NullString
	Status      string         `gorm:"not null"`
	Priority    string         `gorm:"not null"`
	AssigneeID  sql.NullString `gorm:"type:uuid"`
	WorkspaceID sql.NullString `gorm:"type:uuid"`
	DueText     sql.NullString // as it came: a day or an instant
	DueStart    sql.NullInt64  // the first and the last millisecond of it, for filters
	DueEnd      sql.NullInt64
	Tags        sql.NullString // a JSON array; null for none. Triggers keep task_tags to it
	Metadata    sql.NullString // text, because it comes back byte for byte; empty: see taskTextsRow
	SortOrder   int64          `gorm:"not null"`
	CreatedBy   string         `gorm:"type:uuid;not null"`
	Created     int64          `gorm:"column:created_at;not null"`
	Updated     int64          `gorm:"column:updated_at;not null"`
	Completed   sql.NullInt64  `gorm:"column:completed_at"`
	Version     int64          `gorm:"not null"`
}

func (taskRow) TableName() string { return "tasks" }

// taskTagRow is the index of tags: a task's place in the order under each of its
// tags. Triggers write it.
type taskTagRow struct {
	OrgID     string `gorm:"type:uuid;primaryKey"`
	Tag       string `gorm:"primaryKey"`
	SortOrder int64  `gorm:"primaryKey"`
	Created   int64  `gorm:"column:created_at;primaryKey"`
	TaskID    string `gorm:"type:uuid;primaryKey"`
}

func (taskTagRow) TableName() string { return "task_tags" }

// taskTextsRow has the description and the metadata of a task that are longer
// than maxInline together. Only SQLite has it, which reads and writes a row whole.
type taskTextsRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	TaskID      string `gorm:"type:uuid;primaryKey"`
	Description sql.NullString
	Metadata    sql.NullString
}

func (taskTextsRow) TableName() string { return "task_texts" }

// maxInline is in bytes. The migration has it, too.
const maxInline = 1024

// aside reports whether the task's texts are in a row of their own.
func (d dialect) aside(t task.Task) bool {
	n := len(t.Metadata)
	if t.Description != nil {
		n += len(*t.Description)
	}
	return d == onSQLite && n > maxInline
}

// taskColumns are of the table with the alias t, in the order of dest. The
// organisation is known to who asks, and what is left of the due date follows
// from its text.
var taskColumns = func() (s [2]string) {
	text := [2]func(name string) string{
		onSQLite: func(name string) string {
			return "CASE t.metadata WHEN '' THEN (SELECT x." + name + " FROM task_texts x WHERE x.org_id = t.org_id AND x.task_id = t.id) ELSE t." + name + " END"
		},
		onPostgres: func(name string) string { return "t." + name },
	}
	for d := range s {
		s[d] = "t.id, t.title, " + text[d]("description") + ", t.status, t.priority, t.assignee_id, t.workspace_id, t.due_text, t.tags, " + text[d]("metadata") +
			", t.sort_order, t.created_by, t.created_at, t.updated_at, t.completed_at, t.version"
	}
	return s
}()

func (r *taskRow) dest() []any {
	return []any{
		&r.ID, &r.Title, &r.Description, &r.Status, &r.Priority, &r.AssigneeID, &r.WorkspaceID, &r.DueText, &r.Tags, &r.Metadata,
		&r.SortOrder, &r.CreatedBy, &r.Created, &r.Updated, &r.Completed, &r.Version,
	}
}

func (r *taskRow) task(o id.Org) (task.Task, error) {
	t := task.Task{
		ID: id.Task(r.ID), Org: o, Title: r.Title, Description: pointer[string](r.Description), Priority: task.Priority(r.Priority),
		Assignee: pointer[id.User](r.AssigneeID), Workspace: pointer[id.Workspace](r.WorkspaceID), Metadata: r.Metadata.String, SortOrder: r.SortOrder,
		CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated), Version: r.Version,
	}
	var err error
	if r.Tags.Valid {
		t.Tags, err = texts[string](r.Tags.String)
	}
	if r.DueText.Valid {
		due, ok := task.ParseDue(r.DueText.String)
		if !ok {
			err = fmt.Errorf("the due date %q of task %s cannot be read", r.DueText.String, r.ID)
		}
		t.Due = &due
	}
	return t.Restore(task.Status(r.Status), optionalInstant(r.Completed)), err
}

// scanTasks returns the scanner of a list, which reads every row into the same
// place.
func scanTasks(o id.Org) func(scanner) (task.Task, error) {
	var r taskRow
	dest := r.dest()
	return func(s scanner) (task.Task, error) {
		if err := s.Scan(dest...); err != nil {
			return task.Task{}, err
		}
		return r.task(o)
	}
}

// own returns the task with nothing in it that its caller could change.
func own(t task.Task) task.Task {
	t = t.Clone()
	t.Description, t.Assignee, t.Workspace, t.Due = another(t.Description), another(t.Assignee), another(t.Workspace), another(t.Due)
	return t.Restore(t.Status(), another(t.CompletedAt()))
}

func another[V any](v *V) *V {
	if v == nil {
		return nil
	}
	w := *v
	return &w
}

// taskWritten are the columns of a task that change, in the order of values.
var taskWritten = []column{
	{"title", "text"}, {"description", "text"}, {"status", "text"}, {"priority", "text"}, {"assignee_id", "uuid"}, {"workspace_id", "uuid"},
	{"due_text", "text"}, {"due_start", "bigint"}, {"due_end", "bigint"}, {"tags", "text"}, {"metadata", "text"},
	{"created_by", "uuid"}, {"created_at", "bigint"}, {"updated_at", "bigint"}, {"completed_at", "bigint"}, {"version", "bigint"},
}

// values returns what is written of a task, but for its keys and its place. A
// nil is NULL.
func (d dialect) values(t task.Task) []any {
	vs := []any{
		t.Title, text(t.Description), string(t.Status()), string(t.Priority), text(t.Assignee), text(t.Workspace),
		nil, nil, nil, nil, nil,
		string(t.CreatedBy), t.CreatedAt.UnixMilli(), t.UpdatedAt.UnixMilli(), nil, t.Version,
	}
	if t.Due != nil {
		vs[6], vs[7], vs[8] = t.Due.String(), t.Due.Start().UnixMilli(), t.Due.End().UnixMilli()
	}
	if len(t.Tags) > 0 {
		vs[9] = array(t.Tags)
	}
	if t.Metadata != "" {
		vs[10] = t.Metadata
	}
	if d.aside(t) {
		vs[1], vs[10] = nil, ""
	}
	if at := t.CompletedAt(); at != nil {
		vs[14] = at.UnixMilli()
	}
	return vs
}

func text[T ~string](s *T) any {
	if s == nil {
		return nil
	}
	return string(*s)
}

type tasks struct{ *conn }

var _ ports.Tasks = tasks{}

func (d dialect) selectTask() string {
	return "SELECT " + taskColumns[d] + " FROM tasks t WHERE t.org_id = ? AND t.id = ?"
}

func (q tasks) Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error) {
	return get(ctx, q.read, "Task", scanTasks(o), q.dialect.selectTask(), string(o), string(t))
}

// putTexts stores the texts of a task that has them in a row of their own, and
// removes that row of one that only had it before.
func (q tasks) putTexts(ctx context.Context, o id.Org, t task.Task, before bool) error {
	var err error
	switch {
	case q.dialect.aside(t):
		var metadata any
		if t.Metadata != "" {
			metadata = t.Metadata
		}
		_, err = exec(ctx, q.write, "Task", "INSERT INTO task_texts (org_id, task_id, description, metadata) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (org_id, task_id) DO UPDATE SET description = excluded.description, metadata = excluded.metadata",
			string(o), string(t.ID), text(t.Description), metadata)
	case before:
		_, err = exec(ctx, q.write, "Task", "DELETE FROM task_texts WHERE org_id = ? AND task_id = ?", string(o), string(t.ID))
	}
	return err
}

// statements of Add by dialect and by whether the task is in a workspace.
var addTask = func() (s [2][2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		names, params := "org_id, id", d.param(column{"org_id", "uuid"})+", "+d.param(column{"id", "uuid"})
		for _, c := range taskWritten {
			names, params = names+", "+c.name, params+", "+d.param(c)
		}
		insert := "INSERT INTO tasks (" + names + ", sort_order) SELECT " + params +
			", (SELECT COALESCE(MAX(x.sort_order), -1) + 1 FROM tasks x WHERE x.org_id = ?) WHERE "
		const end = " ON CONFLICT DO NOTHING RETURNING sort_order"
		s[d][0] = insert + "1 = 1" + end
		s[d][1] = insert + "EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = ? AND w.id = ?)" + end
	}
	return s
}()

// Add is one statement, which finds the place and the workspace itself. Tasks
// that are added at once may get the same place; the time and the id order
// them. On SQLite they share a commit.
func (q tasks) Add(ctx context.Context, o id.Org, t task.Task) (added task.Task, err error) {
	if q.dialect != onSQLite {
		return q.add(ctx, o, t)
	}
	err = q.atomic(ctx, func(c *conn) error {
		added, err = (tasks{c}).add(ctx, o, t)
		return err
	})
	if err != nil {
		return task.Task{}, err
	}
	return added, nil
}

func (q tasks) add(ctx context.Context, o id.Org, t task.Task) (task.Task, error) {
	args := append([]any{string(o), string(t.ID)}, q.dialect.values(t)...)
	args = append(args, string(o))
	statement := addTask[q.dialect][0]
	if t.Workspace != nil {
		statement = addTask[q.dialect][1]
		args = append(args, string(o), string(*t.Workspace))
	}
	place, added, err := row(ctx, q.write, "Task", scanInt, statement, args...)
	switch {
	case err != nil:
		return task.Task{}, err
	case added:
		t = own(t)
		t.Org, t.SortOrder = o, place
		return t, q.putTexts(ctx, o, t, false)
	case t.Workspace != nil:
		if _, err := (workspaces(q)).Get(ctx, o, *t.Workspace); err != nil {
			return task.Task{}, err
		}
	}
	return task.Task{}, fault.New(fault.Conflict, "Task is there already")
}

// reviseTasks writes back what Revise changed, from one parameter. It is an
// INSERT that meets the rows which Revise holds, because then both databases go
// from the parameter to the tasks; an UPDATE with a join may go the other way.
var reviseTasks = func() (s [2]string) {
	columns := append([]column{{"id", "uuid"}, {"sort_order", "bigint"}}, taskWritten...)
	names := make([]string, len(columns))
	sets := make([]string, len(columns))
	for i, c := range columns {
		names[i], sets[i] = c.name, c.name+" = excluded."+c.name
	}
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = "INSERT INTO tasks (org_id, " + strings.Join(names, ", ") + ") SELECT " + d.param(column{"org_id", "uuid"}) +
			", v." + strings.Join(names, ", v.") + " FROM " + d.records(columns) +
			" WHERE 1 = 1 ON CONFLICT (org_id, id) DO UPDATE SET " + strings.Join(sets[1:], ", ")
	}
	return s
}()

// Revise reads and holds the tasks in the order of their ids, so that two at once
// do not wait for each other, holds the workspaces that tasks move to, and writes
// all of them back, each in one statement. SQLite takes another for each long text.
func (q tasks) Revise(ctx context.Context, o id.Org, ids []id.Task, fn func([]task.Task) ([]task.Task, error)) (revised []task.Task, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		revised, err = (tasks{c}).revise(ctx, o, ids, fn)
		return err
	})
	return revised, err
}

func (q tasks) revise(ctx context.Context, o id.Org, ids []id.Task, fn func([]task.Task) ([]task.Task, error)) ([]task.Task, error) {
	there := make(map[id.Task]task.Task, len(ids))
	err := each(ctx, q.write, "Task", scanTasks(o), func(t task.Task) error {
		there[t.ID] = t
		return nil
	}, "SELECT "+taskColumns[q.dialect]+" FROM tasks t WHERE t.org_id = ? AND "+q.dialect.in("t.id", "uuid")+" ORDER BY t.id"+q.dialect.held(),
		string(o), list(q.dialect, ids))
	if err != nil {
		return nil, err
	}
	given := make([]task.Task, len(ids))
	for i, t := range ids {
		found, ok := there[t]
		if !ok {
			return nil, fault.Missing("Task")
		}
		given[i] = own(found)
	}
	next, err := fn(given)
	if err != nil {
		return nil, err
	}
	if len(next) != len(ids) {
		return nil, fault.Wrap(fault.Internal, fmt.Errorf("%d tasks came back of %d", len(next), len(ids)), "The database failed")
	}
	if len(ids) == 0 {
		return nil, nil
	}
	records := make([]map[string]any, len(next))
	var targets []id.Workspace
	known := map[id.Workspace]bool{}
	revised := make([]task.Task, len(next))
	for i, t := range next {
		t = own(t)
		t.ID, t.Org = ids[i], o
		revised[i] = t
		record := map[string]any{"id": string(t.ID), "sort_order": t.SortOrder}
		for j, v := range q.dialect.values(t) {
			record[taskWritten[j].name] = v
		}
		records[i] = record
		was := there[t.ID].Workspace
		if t.Workspace != nil && (was == nil || *was != *t.Workspace) && !known[*t.Workspace] {
			known[*t.Workspace] = true
			targets = append(targets, *t.Workspace)
		}
	}
	if err := q.hold(ctx, o, targets); err != nil {
		return nil, err
	}
	written, err := json.Marshal(records)
	if err != nil {
		return nil, failed(ctx, err, "Task")
	}
	n, err := exec(ctx, q.write, "Task", reviseTasks[q.dialect], string(o), string(written))
	if err == nil && n != int64(len(ids)) {
		err = fault.Wrap(fault.Internal, fmt.Errorf("%d tasks were written of %d", n, len(ids)), "The database failed")
	}
	for i, t := range revised {
		if err == nil {
			err = q.putTexts(ctx, o, t, q.dialect.aside(there[ids[i]]))
		}
	}
	return revised, err
}

// hold holds workspaces against deletion: a reference that is broken would end
// a transaction on Postgres.
func (q tasks) hold(ctx context.Context, o id.Org, ws []id.Workspace) error {
	if len(ws) == 0 {
		return nil
	}
	found, err := all(ctx, q.write, "Workspace", scanInt,
		"SELECT 1 FROM workspaces WHERE org_id = ? AND "+q.dialect.in("id", "uuid")+" ORDER BY id"+q.dialect.shared(), string(o), list(q.dialect, ws))
	if err == nil && len(found) != len(ws) {
		err = fault.Missing("Workspace")
	}
	return err
}

func (q tasks) Remove(ctx context.Context, o id.Org, t id.Task, allow func(task.Task) error) error {
	return q.atomic(ctx, func(c *conn) error {
		there, err := get(ctx, c.write, "Task", scanTasks(o), c.dialect.selectTask()+c.dialect.held(), string(o), string(t))
		if err != nil {
			return err
		}
		if err := allow(there); err != nil {
			return err
		}
		_, err = exec(ctx, c.write, "Task", "DELETE FROM tasks WHERE org_id = ? AND id = ?", string(o), string(t))
		return err
	})
}

// Unassign takes the tasks in no order, and is a transaction so that it is run
// again when it and a Revise have waited for each other.
func (q tasks) Unassign(ctx context.Context, o id.Org, user id.User, now time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		_, err := exec(ctx, c.write, "Task", "UPDATE tasks SET assignee_id = NULL, version = version + 1, updated_at = ? WHERE org_id = ? AND assignee_id = ?",
			now.UnixMilli(), string(o), string(user))
		return err
	})
}
