package gormdb

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/words"
	"collab/ports"
)

type taskRow struct {
	OrgID       id.Org  `gorm:"primaryKey"`
	ID          id.Task `gorm:"primaryKey"`
	Title       string
	Description *string
	Status      task.Status
	Priority    task.Priority
	AssigneeID  *id.User
	WorkspaceID *id.Workspace
	DueText     string     `gorm:"default:null"` // as entered: a day or an instant
	DueStart    *time.Time `gorm:"->:false;<-"`  // the first and the last millisecond of it, for filters
	DueEnd      *time.Time `gorm:"->:false;<-"`
	Tags        []string   `gorm:"serializer:json;default:null"` // triggers update task_tags
	Metadata    *string    // text, to be returned unchanged; empty: see taskTextsRow
	SortOrder   int64
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
	CompletedAt *time.Time
	Version     int64
}

// taskTagRow is the index of tags: a task's position under each of its tags. Triggers write
// it.
type taskTagRow struct {
	OrgID     id.Org    `gorm:"primaryKey"`
	Tag       string    `gorm:"primaryKey"`
	SortOrder int64     `gorm:"primaryKey"`
	CreatedAt time.Time `gorm:"primaryKey"`
	TaskID    id.Task   `gorm:"primaryKey"`
}

// taskTextsRow has the description and the metadata of a task if they are together longer
// than maxInline. Only SQLite has it, which reads and writes whole rows.
type taskTextsRow struct {
	OrgID       id.Org  `gorm:"primaryKey"`
	TaskID      id.Task `gorm:"primaryKey"`
	Description *string
	Metadata    string `gorm:"default:null"`
}

// maxInline is in bytes. A migration contains it as well.
const maxInline = 1024

// hasTextsRow reports whether the task's texts are in a row of their own.
func (d dialect) hasTextsRow(t task.Task) bool {
	n := len(t.Metadata)
	if t.Description != nil {
		n += len(*t.Description)
	}
	return d == onSQLite && n > maxInline
}

var (
	taskTable = tenantReading[taskRow]("tasks", "Task",
		expressions{"description": longText("description"), "metadata": longText("metadata")})
	taskTextsTable = tenant[taskTextsRow]("task_texts", "Task")
	taskTagTable   = tenant[taskTagRow]("task_tags", "Task")
)

// longText reads a long text from its own row on SQLite.
func longText(column string) func(dialect) string {
	return func(d dialect) string {
		if d == onPostgres {
			return "tasks." + column
		}
		return "CASE tasks.metadata WHEN '' THEN" +
			" (SELECT x." + column + " FROM task_texts x WHERE x.org_id = tasks.org_id AND x.task_id = tasks.id)" +
			" ELSE tasks." + column + " END"
	}
}

func (r *taskRow) task() (task.Task, error) {
	t := task.Task{
		ID: r.ID, Org: r.OrgID, Title: r.Title, Description: r.Description, Priority: r.Priority,
		Assignee: r.AssigneeID, Workspace: r.WorkspaceID, Tags: r.Tags, SortOrder: r.SortOrder,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Version: r.Version,
	}
	if r.Metadata != nil {
		t.Metadata = *r.Metadata
	}
	if r.DueText != "" {
		due, ok := task.ParseDue(r.DueText)
		if !ok {
			return t, fmt.Errorf("the due date %q of task %s cannot be read", r.DueText, r.ID)
		}
		t.Due = &due
	}
	return t.Restore(r.Status, r.CompletedAt), nil
}

func rowOfTask(d dialect, t task.Task) *taskRow {
	r := &taskRow{
		OrgID: t.Org, ID: t.ID, Title: t.Title, Description: t.Description, Status: t.Status(), Priority: t.Priority,
		AssigneeID: t.Assignee, WorkspaceID: t.Workspace, Tags: t.Tags, SortOrder: t.SortOrder,
		CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.CompletedAt(), Version: t.Version,
	}
	if t.Metadata != "" {
		r.Metadata = &t.Metadata
	}
	if t.Due != nil {
		r.DueText, r.DueStart, r.DueEnd = t.Due.String(), new(t.Due.Start()), new(t.Due.End())
	}
	if d.hasTextsRow(t) {
		r.Description, r.Metadata = nil, new("")
	}
	return r
}

type tasks struct{ *conn }

func (g group) Tasks() ports.Tasks { return tasks(g) }

// tasksAt are the tasks of organisations at an epoch. The statement that reads or writes
// tasks compares the epoch, which saves a round trip.
type tasksAt struct {
	tasks
	epoch int64
}

func (g group) TasksAt(epoch int64) ports.TasksAt { return tasksAt{tasks(g), epoch} }

func (q tasksAt) Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error) {
	c := getTaskAt[q.dialect].of(o).set("id", string(t)).set("epoch", q.epoch)
	return getWith(ctx, taskTable.of(q.read, o), (*taskRow).task, c)
}

func (q tasksAt) List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, fn func(task.Task) error) error {
	some := false
	err := q.list(ctx, o, actor, f, func(s selection) selection { return s.filter(atEpoch, string(o), q.epoch) }, func(t task.Task) error {
		some = true
		return fn(t)
	})
	return required(some, err, "Task")
}

func (q tasksAt) Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error) {
	t.Org = o
	add := addTaskAt[t.Workspace != nil][q.dialect].of(o).set("epoch", q.epoch)
	return q.adding(ctx, func(tx tasks) (task.Task, error) {
		added, err := tx.add(ctx, t, add)
		if fault.Is(err, fault.NotFound) {
			if _, missing := (tasksAt{tx, q.epoch}).Get(ctx, o, t.ID); missing == nil {
				return task.Task{}, fault.New(fault.Conflict, "Task is there already")
			}
		}
		return added, err
	})
}

// Replace is one statement on Postgres.
func (q tasksAt) Replace(ctx context.Context, o id.Org, previous, next task.Task, changes []task.Change) error {
	next.ID, next.Org = previous.ID, o
	replace := replaceTaskAt[q.dialect].of(o).row(rowOfTask(q.dialect, next), taskTable.changes).
		set("id", string(next.ID)).set("epoch", q.epoch).
		set("previous_version", previous.Version).set("previous_time", previous.UpdatedAt.UnixMilli())
	if q.dialect == onPostgres {
		replace = replace.set("changes", records(rowsOfHistory(changes), historyTable.rest))
		return getRow(ctx, q.write, "Task", replace, new(int))
	}
	return q.atomic(ctx, func(c *conn) error {
		n, err := exec(ctx, c.write, "Task", replace)
		if err = required(n > 0, err, "Task"); err == nil {
			err = (tasks{c}).putTexts(ctx, o, next, q.dialect.hasTextsRow(previous))
		}
		if err == nil {
			err = (taskHistory{c}).Add(ctx, o, changes)
		}
		return err
	})
}

func (q tasks) Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error) {
	return get(ctx, taskTable.of(q.read, o).key(string(t)), (*taskRow).task)
}

// putTexts stores the texts of a task that has its own row for them, and removes that row
// if only the previous version had one.
func (q tasks) putTexts(ctx context.Context, o id.Org, t task.Task, before bool) error {
	texts := taskTextsTable.of(q.write, o)
	switch {
	case q.dialect.hasTextsRow(t):
		return texts.put(ctx, &taskTextsRow{TaskID: t.ID, Description: t.Description, Metadata: t.Metadata})
	case before:
		return texts.key(string(t.ID)).delete(ctx)
	}
	return nil
}

// Add is one statement, which computes the sort order and finds the workspace. Tasks that
// are added concurrently may get the same sort order; their time and id order them. On
// SQLite they share a commit.
func (q tasks) Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error) {
	t.Org = o
	add := addTask[t.Workspace != nil][q.dialect].of(o)
	return q.adding(ctx, func(q tasks) (task.Task, error) {
		added, err := q.add(ctx, t, add)
		if !fault.Is(err, fault.NotFound) {
			return added, err
		}
		if t.Workspace != nil {
			if _, err := (workspaces(q)).Get(ctx, o, *t.Workspace); err != nil {
				return task.Task{}, err
			}
		}
		return task.Task{}, fault.New(fault.Conflict, "Task is there already")
	})
}

// adding calls add, on SQLite in a transaction.
func (q tasks) adding(ctx context.Context, add func(tasks) (task.Task, error)) (task.Task, error) {
	if q.dialect != onSQLite {
		return add(q)
	}
	return atomically(ctx, q.conn, func(c *conn) (task.Task, error) { return add(tasks{c}) })
}

// add adds a task with a statement, whose other parameters are set: NotFound if it adds nothing.
func (q tasks) add(ctx context.Context, t task.Task, c command) (task.Task, error) {
	if t.Workspace != nil {
		c = c.set("workspace", string(*t.Workspace))
	}
	var order int64
	if err := getRow(ctx, q.write, "Task", c.row(rowOfTask(q.dialect, t), addTaskFields), &order); err != nil {
		return task.Task{}, err
	}
	t = t.Clone()
	t.SortOrder = order
	return t, q.putTexts(ctx, t.Org, t, false)
}

// Revise also locks the workspace that the task moves to, to prevent its deletion: a foreign
// key violation would abort a transaction on Postgres.
func (q tasks) Revise(ctx context.Context, o id.Org, t id.Task, fn func(task.Task) (task.Task, error)) (task.Task, error) {
	return atomically(ctx, q.conn, func(c *conn) (next task.Task, err error) {
		row := taskTable.of(c.write, o).key(string(t))
		previous, err := get(ctx, row.forUpdate(), (*taskRow).task)
		if err == nil {
			next, err = fn(previous.Clone())
		}
		if err != nil {
			return task.Task{}, err
		}
		next = next.Clone()
		next.ID, next.Org = t, o
		if w := next.Workspace; w != nil && (previous.Workspace == nil || *previous.Workspace != *w) {
			err = workspaceTable.of(c.write, o).key(string(*w)).lockKeys(ctx, 1)
		}
		if err == nil {
			err = row.save(ctx, rowOfTask(q.dialect, next))
		}
		if err != nil {
			return task.Task{}, err
		}
		return next, (tasks{c}).putTexts(ctx, o, next, q.dialect.hasTextsRow(previous))
	})
}

func (q tasks) Remove(ctx context.Context, o id.Org, t id.Task, allow func(task.Task) error) error {
	return q.atomic(ctx, func(c *conn) error {
		row := taskTable.of(c.write, o).key(string(t))
		existing, err := get(ctx, row.forUpdate(), (*taskRow).task)
		if err == nil {
			err = allow(existing)
		}
		if err == nil {
			err = row.delete(ctx)
		}
		return err
	})
}

// Unassign updates the tasks in any order. It is a transaction so that it is run again
// after a deadlock with a Move.
func (q tasks) Unassign(ctx context.Context, o id.Org, user id.User, now time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		_, err := taskTable.of(c.write, o).filter("assignee_id = ?", string(user)).
			set(ctx, "assignee_id = NULL, version = version + 1, updated_at = ?", now.UnixMilli())
		return err
	})
}

// ref adds a condition on an optional reference. It returns false if no row can meet it,
// because the id is not a UUID.
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

// is adds the condition that a column has an id; empty is any. It reports whether there can
// be such a row.
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
	return q.list(ctx, o, actor, f, func(s selection) selection { return s }, fn)
}

// list is List among the tasks to which narrow narrows a selection.
func (q tasks) list(
	ctx context.Context, o id.Org, actor org.Actor, f task.Filter,
	narrow func(selection) selection, fn func(task.Task) error,
) error {
	if len(f.Words) == 0 {
		s, some := taskList(q.read, o, actor, f)
		if !some {
			return nil
		}
		return each(ctx, narrow(s), (*taskRow).task, fn)
	}
	return q.snapshot(ctx, func(db *gorm.DB) error {
		at := *q.conn
		at.read = db
		found, err := tasks{&at}.search(ctx, o, actor, f, narrow)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(found, searchedAtOnce) {
			matches, err := getAll(ctx, narrow(taskTable.of(db, o)), (*taskRow).task, func(t task.Task) id.Task { return t.ID }, some)
			if err != nil {
				return err
			}
			for _, t := range matches {
				if err := fn(t); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

const (
	searchedAtOnce = 100   // tasks with the words that are read at once, which bounds memory
	titlesAtOnce   = 1_000 // titles that are read at once, so that a search that finds enough reads no more

	// sortedAtOnce is titlesAtOnce where the database sorts all tasks for each page, and keeps as many in memory.
	sortedAtOnce = 10_000
)

// search returns the ids of the tasks that a filter with words selects. The words are looked for here, as the
// databases fold letters in other ways.
func (q tasks) search(
	ctx context.Context, o id.Org, actor org.Actor, f task.Filter, narrow func(selection) selection,
) (found []id.Task, err error) {
	left := cmp.Or(f.ExamineLimit, math.MaxInt32)
	size := titlesAtOnce
	if f.DueBefore != nil || f.DueAfter != nil || len(f.Tags) > 1 {
		size = sortedAtOnce
	}
	for page := f; left > 0; left -= page.Limit {
		page.Limit = min(size, left)
		s, some := taskList(q.read, o, actor, page)
		if !some {
			break
		}
		read, last := 0, task.Task{}
		err := each(ctx, narrow(s).read("id", "title", "sort_order", "created_at"), (*taskRow).task, func(t task.Task) error {
			read, last = read+1, t
			if words.In(t.Title, f.Words) && (f.Limit == 0 || len(found) < f.Limit) {
				found = append(found, t.ID)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if read < page.Limit || f.Limit > 0 && len(found) == f.Limit {
			break
		}
		page.After = new(last.Position())
	}
	return found, nil
}

// taskList builds the query of a list; some is false when no task can be in it.
//
// Every combination that task.Filter.Check admits has an index in the order of the list, below the
// organisation and at most one of the conditions, so that a page ends after its last row, however many tasks there are.
// Conditions that are not in the index, such as the visibility, are filters.
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
		s.from, order = d.tagJoin(), "g.sort_order, g.created_at, g.task_id"
		s = s.filter("g.org_id = ? AND g.tag = ? AND tasks.id = g.task_id", string(o), tags[0])
	default:
		tagged := "SELECT g.task_id FROM task_tags g WHERE g.org_id = ? AND " + d.in("g.tag", "?", "text")
		s = s.filter("tasks.id IN ("+tagged+")", string(o), list(d, tags))
	}
	s = s.matching("tasks.status", string(f.Status)).matching("tasks.priority", string(f.Priority))
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
	switch {
	case f.Newest:
		if order = "tasks.created_at DESC, tasks.id DESC"; f.After != nil {
			s = s.filter("(tasks.created_at, tasks.id) < (?, ?)", f.After.CreatedAt.UnixMilli(), cursorID(f.After.ID))
		}
	case f.After != nil:
		s = s.after(order, f.After.SortOrder, f.After.CreatedAt.UnixMilli(), cursorID(f.After.ID))
	}
	return s.page(order, f.Limit), true
}

// tagJoin returns the join from the tag's index g to the tasks, in the order of the index.
// CROSS keeps SQLite to it, and OFFSET Postgres, which estimates too few rows and would
// sort them.
func (d dialect) tagJoin() string {
	if d == onPostgres {
		return "task_tags g CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.org_id = g.org_id AND x.id = g.task_id OFFSET 0) tasks"
	}
	return "task_tags g CROSS JOIN tasks"
}

// visible adds the condition of visibility, unless the filter implies it. IS TRUE keeps
// both planners from collecting and sorting the rows of each alternative.
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
			ways, args = append(ways, d.in("tasks.workspace_id", "?", "uuid")), append(args, list(d, seen))
		}
	}
	return s.filter("("+strings.Join(ways, " OR ")+") IS TRUE", args...), true
}
