package gormdb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/task"
	"collab/ports"
)

// Bounds of one statement: a placement takes some hundred bytes, a task up to
// 120 KiB.
const (
	placementsInBatch = 500
	tasksInBatch      = 8
)

type taskSets struct{ *conn }

var _ ports.TaskSets = taskSets{}

// selectPlacements reads and holds a batch in the order of the ids, so that two
// at once do not wait for each other.
var selectPlacements = func() (s [2]string) {
	for d, tags := range map[dialect]string{onSQLite: "t.tags", onPostgres: "t.tags::json"} {
		s[d] = "SELECT t.id, t.workspace_id, t.assignee_id, t.created_by, t.sort_order, t.priority, COALESCE(json_array_length(" + tags +
			"), 0) FROM tasks t WHERE t.org_id = ? AND " + d.in("t.id", "uuid") + " ORDER BY t.id" + d.held()
	}
	return s
}()

// movePlacements writes a batch from one parameter. It is an INSERT that meets
// the rows that are held, because then both databases go from the parameter to
// the tasks; an UPDATE with a join may go the other way. What is only inserted is
// never stored.
var movePlacements = func() (s [2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = "INSERT INTO tasks (org_id, id, sort_order, priority, updated_at, title, status, created_by, created_at, version) SELECT " +
			d.param(column{"org_id", "uuid"}) + ", v.id, v.sort_order, v.priority, " + d.param(column{"updated_at", "bigint"}) + ", '', '', v.id, 0, 0 FROM " +
			d.records([]column{{"id", "uuid"}, {"sort_order", "bigint"}, {"priority", "text"}}) +
			" WHERE 1 = 1 ON CONFLICT (org_id, id) DO UPDATE SET sort_order = excluded.sort_order, priority = excluded.priority, " +
			"updated_at = excluded.updated_at, version = tasks.version + 1"
	}
	return s
}()

type placementRow struct {
	ID        string `json:"id"`
	SortOrder int64  `json:"sort_order"`
	Priority  string `json:"priority"`
}

func scanPlacement(s scanner) (p task.Placement, err error) {
	var r placementRow
	var workspace, assignee sql.NullString
	var createdBy string
	err = s.Scan(&r.ID, &workspace, &assignee, &createdBy, &r.SortOrder, &r.Priority, &p.Tags)
	p.Task, p.Workspace, p.Assignee, p.CreatedBy = id.Task(r.ID), pointer[id.Workspace](workspace), pointer[id.User](assignee), id.User(createdBy)
	p.SortOrder, p.Priority = r.SortOrder, task.Priority(r.Priority)
	return p, err
}

// Move takes two statements for each batch.
func (q taskSets) Move(ctx context.Context, o id.Org, ids []id.Task, now time.Time, fn func(int, task.Placement) (task.Placement, error)) error {
	index := make(map[id.Task]int, len(ids))
	for i, t := range ids {
		index[t] = i
	}
	ordered := slices.SortedFunc(slices.Values(ids), cmp.Compare)
	return q.atomic(ctx, func(c *conn) error {
		for batch := range slices.Chunk(ordered, placementsInBatch) {
			if err := (taskSets{c}).move(ctx, o, batch, now, func(p task.Placement) (task.Placement, error) { return fn(index[p.Task], p) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q taskSets) move(ctx context.Context, o id.Org, batch []id.Task, now time.Time, fn func(task.Placement) (task.Placement, error)) error {
	moved := make([]placementRow, 0, len(batch))
	err := each(ctx, q.write, "Task", scanPlacement, func(was task.Placement) error {
		is, err := fn(was)
		moved = append(moved, placementRow{string(was.Task), is.SortOrder, string(is.Priority)})
		return err
	}, selectPlacements[q.dialect], string(o), list(q.dialect, batch))
	if err != nil {
		return err
	}
	if len(moved) != len(batch) {
		return fault.Missing("Task")
	}
	written, err := json.Marshal(moved)
	if err != nil {
		return failed(ctx, err, "Task")
	}
	n, err := exec(ctx, q.write, "Task", movePlacements[q.dialect], string(o), now.UnixMilli(), string(written))
	if err == nil && n != int64(len(batch)) {
		err = fault.Wrap(fault.Internal, fmt.Errorf("%d tasks were moved of %d", n, len(batch)), "The database failed")
	}
	return err
}

// RemoveIn names the tasks, so that the indexes that lead to their histories and to
// them are used on both databases.
func (q taskSets) RemoveIn(ctx context.Context, o id.Org, w id.Workspace, limit int) (more bool, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		query, limited := c.dialect.page("SELECT t.id FROM tasks t WHERE t.org_id = ? AND t.workspace_id = ?", "t.sort_order, t.created_at, t.id", limit)
		found, err := all(ctx, c.write, "Task", scanText[id.Task], query, append([]any{string(o), string(w)}, limited...)...)
		if err != nil || len(found) == 0 {
			more = false
			return err
		}
		if more, err = (taskHistory{c}).remove(ctx, o, found, 10*limit); err != nil || more {
			return err
		}
		more = len(found) == limit
		_, err = exec(ctx, c.write, "Task", "DELETE FROM tasks WHERE org_id = ? AND "+c.dialect.in("id", "uuid"), string(o), list(c.dialect, found))
		return err
	})
	return more, err
}

// List reads a batch at a time, and holds no connection while each is called.
func (q taskSets) List(ctx context.Context, o id.Org, ids []id.Task, fn func(task.Task) error) error {
	for batch := range slices.Chunk(ids, tasksInBatch) {
		there := make(map[id.Task]task.Task, len(batch))
		err := each(ctx, q.read, "Task", scanTasks(o), func(t task.Task) error {
			there[t.ID] = t
			return nil
		}, "SELECT "+taskColumns[q.dialect]+" FROM tasks t WHERE t.org_id = ? AND "+q.dialect.in("t.id", "uuid"), string(o), list(q.dialect, batch))
		if err != nil {
			return err
		}
		for _, t := range batch {
			if found, ok := there[t]; ok {
				if err := fn(own(found)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
