package gormdb

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
)

// condition collects what a list's rows must meet.
type condition struct {
	all  []string
	args []any
}

func (c *condition) add(text string, args ...any) {
	c.all = append(c.all, text)
	c.args = append(c.args, args...)
}

// ref adds a condition on an optional reference. It reports whether there can
// be a row that meets it: an id that is no UUID is nobody's.
func ref[T ~string](c *condition, column string, r task.Ref[T]) bool {
	switch {
	case !r.Given:
	case r.Unset:
		c.add(column + " IS NULL")
	default:
		if _, ok := id.Parse[T](string(r.ID)); !ok {
			return false
		}
		c.add(column+" = ?", string(r.ID))
	}
	return true
}

func (q tasks) List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, fn func(task.Task) error) error {
	query, args, some := taskList(q.dialect, o, actor, f)
	if !some {
		return nil
	}
	return each(ctx, q.read, "Task", scanTasks(o), fn, query, args...)
}

// taskList builds the query of a list; some is false when no task can be in it.
//
// Every combination has an index that is in the order of the list, below the
// organisation and one of the conditions, so that a page ends after its last
// row however many tasks there are. All that is not in the index, who sees the
// task above all, stays a filter.
func taskList(d dialect, o id.Org, actor org.Actor, f task.Filter) (query string, args []any, some bool) {
	var c condition
	c.add("t.org_id = ?", string(o))
	from, order := "tasks t", []string{"t.sort_order", "t.created_at", "t.id"}
	tags := slices.DeleteFunc(slices.Clone(f.Tags), func(tag string) bool { return !utf8.ValidString(tag) || strings.ContainsRune(tag, 0) })
	switch {
	case len(f.Tags) == 0:
	case len(tags) == 0:
		return "", nil, false // no task can have them
	case len(tags) == 1:
		from, order = d.tagged(), []string{"g.sort_order", "g.created_at", "g.task_id"}
		c.add("g.org_id = ? AND g.tag = ? AND t.id = g.task_id", string(o), tags[0])
	default:
		c.add("t.id IN (SELECT g.task_id FROM task_tags g WHERE g.org_id = ? AND "+d.in("g.tag", "text")+")", string(o), list(d, tags))
	}
	if f.Status != "" {
		c.add("t.status = ?", string(f.Status))
	}
	if f.Priority != "" {
		c.add("t.priority = ?", string(f.Priority))
	}
	if !ref(&c, "t.assignee_id", f.Assignee) || !ref(&c, "t.workspace_id", f.Workspace) {
		return "", nil, false
	}
	if f.DueBefore != nil {
		c.add("t.due_start <= ?", f.DueBefore.End().UnixMilli())
	}
	if f.DueAfter != nil {
		c.add("t.due_end >= ?", f.DueAfter.Start().UnixMilli())
	}
	if !visible(d, &c, actor, f) {
		return "", nil, false
	}
	if f.After != nil {
		c.add("("+strings.Join(order, ", ")+") > (?, ?, ?)", f.After.SortOrder, f.After.CreatedAt.UnixMilli(), place(f.After.ID))
	}
	query, limit := d.page("SELECT "+taskColumns[d]+" FROM "+from+" WHERE "+strings.Join(c.all, " AND "), strings.Join(order, ", "), f.Limit)
	return query, append(c.args, limit...), true
}

// tagged is the join that goes from the tag's places g to the tasks t, in the
// order of the places: CROSS keeps SQLite to it, and OFFSET Postgres, which
// thinks that few rows are left and sorts them.
func (d dialect) tagged() string {
	if d == onPostgres {
		return "task_tags g CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.org_id = g.org_id AND x.id = g.task_id OFFSET 0) t"
	}
	return "task_tags g CROSS JOIN tasks t"
}

// visible adds who sees a task, as far as the filter does not say so already.
// Its alternatives stay a filter: IS TRUE keeps both planners from collecting
// and sorting the rows of each.
func visible(d dialect, c *condition, actor org.Actor, f task.Filter) bool {
	var ways []string
	var args []any
	user, isUser := id.Parse[id.User](string(actor.User))
	if isUser {
		if f.Assignee.Given && !f.Assignee.Unset && f.Assignee.ID == user {
			return true
		}
		ways, args = append(ways, "t.created_by = ?", "t.assignee_id = ?"), append(args, string(user), string(user))
	}
	switch {
	case f.Workspace.Given && f.Workspace.Unset:
		return true
	case f.Workspace.Given:
		if actor.SeesWorkspace(f.Workspace.ID) {
			return true
		}
		if len(ways) == 0 {
			return false
		}
	default:
		ways = append([]string{"t.workspace_id IS NULL"}, ways...)
		if seen := actor.Sight.Workspaces(); len(seen) > 0 {
			ways, args = append(ways, d.in("t.workspace_id", "uuid")), append(args, list(d, seen))
		}
	}
	c.add("("+strings.Join(ways, " OR ")+") IS TRUE", args...)
	return true
}
