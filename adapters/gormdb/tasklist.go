package gormdb

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
)

// ref adds a condition on an optional reference. It reports whether there can
// be a row that meets it: an id that is no UUID is nobody's.
func ref[T ~string](s selection, column string, r task.Ref[T]) (selection, bool) {
	switch {
	case !r.Given:
	case r.Unset:
		return s.filter(column + " IS NULL"), true
	case r.ID == "":
		return s, false
	default:
		return s.is(column, string(r.ID))
	}
	return s, true
}

// is adds the condition that a column has an id; empty is any. It reports
// whether there can be such a row.
func (s selection) is(column, value string) (selection, bool) {
	if value == "" {
		return s, true
	}
	if _, ok := id.Parse[string](value); !ok {
		return s, false
	}
	return s.filter(column+" = ?", value), true
}

func (q tasks) List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, fn func(task.Task) error) error {
	s, some := taskList(q.read, o, actor, f)
	if !some {
		return nil
	}
	return each(ctx, s, (*taskRow).task, fn)
}

// taskList builds the query of a list; some is false when no task can be in it.
//
// Every combination has an index that is in the order of the list, below the
// organisation and one of the conditions, so that a page ends after its last
// row however many tasks there are. All that is not in the index, who sees the
// task above all, stays a filter.
func taskList(db *gorm.DB, o id.Org, actor org.Actor, f task.Filter) (s selection, some bool) {
	d := dialectOf(db)
	s = taskTable.of(db, o)
	order := "tasks.sort_order, tasks.created_at, tasks.id"
	tags := slices.DeleteFunc(slices.Clone(f.Tags), func(tag string) bool { return !storable(tag) })
	switch {
	case len(f.Tags) == 0:
	case len(tags) == 0:
		return s, false // no task can have them
	case len(tags) == 1:
		s.from, order = d.tagged(), "g.sort_order, g.created_at, g.task_id"
		s = s.filter("g.org_id = ? AND g.tag = ? AND tasks.id = g.task_id", string(o), tags[0])
	default:
		s = s.filter("tasks.id IN (SELECT g.task_id FROM task_tags g WHERE g.org_id = ? AND "+d.in("g.tag", "text")+")", string(o), list(d, tags))
	}
	if f.Status != "" {
		s = s.filter("tasks.status = ?", string(f.Status))
	}
	if f.Priority != "" {
		s = s.filter("tasks.priority = ?", string(f.Priority))
	}
	if s, some = ref(s, "tasks.assignee_id", f.Assignee); !some {
		return s, false
	}
	if s, some = ref(s, "tasks.workspace_id", f.Workspace); !some {
		return s, false
	}
	if f.DueBefore != nil {
		s = s.filter("tasks.due_start <= ?", f.DueBefore.End().UnixMilli())
	}
	if f.DueAfter != nil {
		s = s.filter("tasks.due_end >= ?", f.DueAfter.Start().UnixMilli())
	}
	if s, some = visible(d, s, actor, f); !some {
		return s, false
	}
	if f.After != nil {
		s = s.after(order, f.After.SortOrder, f.After.CreatedAt.UnixMilli(), place(f.After.ID))
	}
	return s.page(order, f.Limit), true
}

// tagged is the join that goes from the tag's places g to the tasks t, in the
// order of the places: CROSS keeps SQLite to it, and OFFSET Postgres, which
// thinks that few rows are left and sorts them.
func (d dialect) tagged() string {
	if d == onPostgres {
		return "task_tags g CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.org_id = g.org_id AND x.id = g.task_id OFFSET 0) tasks"
	}
	return "task_tags g CROSS JOIN tasks"
}

// visible adds who sees a task, as far as the filter does not say so already.
// Its alternatives stay a filter: IS TRUE keeps both planners from collecting
// and sorting the rows of each.
func visible(d dialect, s selection, actor org.Actor, f task.Filter) (selection, bool) {
	var ways []string
	var args []any
	user, isUser := id.Parse[id.User](string(actor.User))
	if isUser {
		if f.Assignee.Given && !f.Assignee.Unset && f.Assignee.ID == user {
			return s, true
		}
		ways, args = append(ways, "tasks.created_by = ?", "tasks.assignee_id = ?"), append(args, string(user), string(user))
	}
	switch {
	case f.Workspace.Given && f.Workspace.Unset:
		return s, true
	case f.Workspace.Given:
		if actor.SeesWorkspace(f.Workspace.ID) {
			return s, true
		}
		if len(ways) == 0 {
			return s, false
		}
	default:
		ways = append([]string{"tasks.workspace_id IS NULL"}, ways...)
		if seen := actor.Visibility.Workspaces(); len(seen) > 0 {
			ways, args = append(ways, d.in("tasks.workspace_id", "uuid")), append(args, list(d, seen))
		}
	}
	return s.filter("("+strings.Join(ways, " OR ")+") IS TRUE", args...), true
}
