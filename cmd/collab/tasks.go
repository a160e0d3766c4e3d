package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

const shortID = 8 // characters at the end of an id, which are random

var (
	statuses   = []string{"todo", "in_progress", "done", "cancelled"}
	priorities = []string{"low", "medium", "high", "urgent"}
)

func taskColumns(t apiclient.Task) []column {
	return []column{
		{"id", t.ID[max(0, len(t.ID)-shortID):]}, {"status", t.Status}, {"priority", t.Priority},
		{"due", or(t.DueDate, "")}, {"title", t.Title}, {"tags", strings.Join(t.Tags, ",")},
	}
}

// taskIDs returns the ids that are named by themselves or by their ends, and the ids and sort orders of all tasks in
// their order.
func taskIDs(ctx context.Context, client *apiclient.Client, named ...string) (ids []string, all []apiclient.Task, err error) {
	list, err := client.ListTasks(ctx, apiclient.ListTasksParams{})
	if err != nil {
		return nil, nil, err
	}
	for t, err := range list.All() {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, apiclient.Task{ID: t.ID, SortOrder: t.SortOrder})
	}
	for _, name := range named {
		found := slices.DeleteFunc(slices.Clone(all), func(t apiclient.Task) bool { return !strings.HasSuffix(t.ID, strings.ToLower(name)) })
		if len(found) != 1 {
			return nil, nil, fmt.Errorf("%d tasks have an id that ends in %s", len(found), name)
		}
		ids = append(ids, found[0].ID)
	}
	return ids, all, nil
}

// orderFor returns the order that puts a task at a place of a list without it, and moves as few others as possible.
func orderFor(others []apiclient.Task, id string, at int) apiclient.Reorder {
	low := int64(-1) // the sort order before that place
	if at > 0 {
		low = others[at-1].SortOrder
	}
	first, later := low+1, []string{id}
	if at < len(others) && others[at].SortOrder-low >= 2 {
		if at == 0 {
			first = others[at].SortOrder - 1
		}
		return apiclient.Reorder{TaskIDs: later, SortOrder: &first}
	}
	for _, next := range others[at:] {
		if next.SortOrder > low+int64(len(later)) {
			break
		}
		later = append(later, next.ID)
	}
	earlier := []string{id}
	for i := at - 1; i >= 0 && at < len(others) && others[i].SortOrder >= others[at].SortOrder-int64(len(earlier)); i-- {
		earlier = append(earlier, others[i].ID)
	}
	if len(earlier) < len(later) && others[at].SortOrder >= int64(len(earlier)) {
		slices.Reverse(earlier)
		first = others[at].SortOrder - int64(len(earlier))
		return apiclient.Reorder{TaskIDs: earlier, SortOrder: &first}
	}
	return apiclient.Reorder{TaskIDs: later, SortOrder: &first}
}

func (a *app) tasks() *cobra.Command {
	var filter apiclient.ListTasksParams
	var workspace string
	list := command("list", "List tasks", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) (err error) {
		if filter.WorkspaceID, err = workspaceID(ctx, client, workspace); err != nil {
			return err
		}
		filter.Status, filter.Priority = strings.ToUpper(filter.Status), strings.ToUpper(filter.Priority)
		return all(a, taskColumns)(client.ListTasks(ctx, filter))
	}))
	flags := list.Flags()
	oneOf(list, &filter.Status, "status", "only tasks with this status", statuses...)
	oneOf(list, &filter.Priority, "priority", "only tasks with this priority", priorities...)
	flags.StringVar(&filter.AssigneeID, "assignee", "", "only tasks of the user with this id; null for nobody's")
	flags.StringVar(&filter.Tags, "tags", "", "only tasks with any of these tags, separated by commas")
	flags.StringVar(&filter.DueBefore, "due-before", "", "only tasks due until this `date`")
	flags.StringVar(&filter.Search, "search", "", "only tasks with all words of this `text` in their titles")
	flags.StringVar(&workspace, "workspace", "", "only tasks of the workspace with this id or `name`")

	var draft taskFields
	var add, edit *cobra.Command
	add = command("add TITLE", "Add a task", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		d := apiclient.TaskDraft{Title: args[0], Tags: draft.tags}
		for _, field := range []struct {
			flag  string
			to    **string
			value string
		}{
			{"description", &d.Description, draft.description}, {"status", &d.Status, strings.ToUpper(draft.status)}, {"priority", &d.Priority, strings.ToUpper(draft.priority)},
			{"assignee", &d.AssigneeID, draft.assignee}, {"due", &d.DueDate, draft.due},
		} {
			if add.Flags().Changed(field.flag) {
				*field.to = &field.value
			}
		}
		id, err := workspaceID(ctx, client, draft.workspace)
		if err != nil {
			return err
		}
		d.WorkspaceID = given(id)
		return one(a, taskColumns, func() (apiclient.Task, error) { return client.CreateTask(ctx, d) })
	}))
	draft.flags(add)

	var changed taskFields
	edit = command("edit ID", "Change a task", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		var p apiclient.TaskPatch
		given := edit.Flags().Changed
		if given("title") {
			p.Title = &changed.title
		}
		if given("status") {
			p.Status = new(strings.ToUpper(changed.status))
		}
		if given("priority") {
			p.Priority = new(strings.ToUpper(changed.priority))
		}
		workspace, err := workspaceID(ctx, client, changed.workspace)
		if err != nil {
			return err
		}
		for _, field := range []struct {
			flag  string
			to    *apiclient.Change[string]
			value string
		}{{"description", &p.Description, changed.description}, {"assignee", &p.AssigneeID, changed.assignee}, {"due", &p.DueDate, changed.due}, {"workspace", &p.WorkspaceID, workspace}} {
			if !given(field.flag) {
				continue
			}
			if *field.to = apiclient.Clear[string](); field.value != "" {
				*field.to = apiclient.Set(field.value)
			}
		}
		if given("tags") {
			p.Tags = apiclient.Set(changed.tags)
		}
		if p == (apiclient.TaskPatch{}) {
			return usage("name what changes: see %s --help", edit.CommandPath())
		}
		return a.patchTask(ctx, client, args[0], p)
	}))
	edit.Long = "edit changes the fields whose flags are given; an empty value clears a field."
	edit.Flags().StringVar(&changed.title, "title", "", "the title")
	changed.flags(edit)

	done := command("done ID...", "Mark tasks as done", 1, -1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		for _, id := range args {
			if err := a.patchTask(ctx, client, id, apiclient.TaskPatch{Status: new("DONE")}); err != nil {
				return err
			}
		}
		return nil
	}))

	var before string
	var first bool
	move := command("move ID", "Move a task to another place in the order", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		if first == (before != "") {
			return usage("name either --first or --before ID")
		}
		named := args
		if before != "" {
			named = append(named, before)
		}
		ids, order, err := taskIDs(ctx, client, named...)
		if err != nil {
			return err
		}
		order = slices.DeleteFunc(order, func(t apiclient.Task) bool { return t.ID == ids[0] })
		at := 0
		if before != "" {
			if at = slices.IndexFunc(order, func(t apiclient.Task) bool { return t.ID == ids[1] }); at < 0 {
				return usage("a task cannot be moved before itself")
			}
		}
		tasks, err := client.ReorderTasks(ctx, orderFor(order, ids[0], at))
		if err != nil {
			return err
		}
		return tasks.Close()
	}))
	move.Flags().StringVar(&before, "before", "", "the `id` of the task before which it comes")
	move.Flags().BoolVar(&first, "first", false, "before all others")

	history := command("history ID", "List the changes of a task", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		ids, _, err := taskIDs(ctx, client, args...)
		if err != nil {
			return err
		}
		return all(a, func(h apiclient.TaskChange) []column {
			var changes []string
			for _, f := range h.Changes {
				changes = append(changes, f.Field+": "+strconv.Quote(or(f.From, ""))+" to "+strconv.Quote(or(f.To, "")))
			}
			return []column{{"changed", day(h.ChangedAt)}, {"by", h.ChangedBy}, {"changes", strings.Join(changes, ", ")}, {"reason", or(h.Reason, "")}}
		})(client.GetTaskHistory(ctx, ids[0]))
	}))
	show := command("show ID", "Print a task", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		ids, _, err := taskIDs(ctx, client, args...)
		if err != nil {
			return err
		}
		t, err := client.GetTask(ctx, ids[0])
		if err != nil {
			return err
		}
		err = a.record(t, append(taskColumns(t), column{"assignee", or(t.AssigneeID, "")}, column{"workspace", or(t.WorkspaceID, "")}))
		if err != nil || a.wantsJSON() || or(t.Description, "") == "" {
			return err
		}
		return a.printMarkdown("\n" + *t.Description + "\n")
	}))
	tasks := group("tasks", "Work with tasks", list, show, add, edit, done, move, history)
	tasks.Long = "An ID may be the end of a task's id, as list prints it."
	return tasks
}

// taskFields are flags.
type taskFields struct {
	title, description, status, priority, assignee, workspace, due string
	tags                                                           []string
}

func (t *taskFields) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.description, "description", "", "the description")
	oneOf(c, &t.status, "status", "the status", statuses...)
	oneOf(c, &t.priority, "priority", "the priority", priorities...)
	c.Flags().StringVar(&t.assignee, "assignee", "", "the `id` of the assigned user")
	c.Flags().StringVar(&t.workspace, "workspace", "", "the workspace's id or `name`")
	c.Flags().StringVar(&t.due, "due", "", "the `date` or time at which it is due")
	c.Flags().StringSliceVar(&t.tags, "tags", nil, "the tags, separated by commas")
}

func (a *app) patchTask(ctx context.Context, client *apiclient.Client, named string, p apiclient.TaskPatch) error {
	ids, _, err := taskIDs(ctx, client, named)
	if err != nil {
		return err
	}
	return one(a, taskColumns, func() (apiclient.Task, error) { return client.UpdateTask(ctx, ids[0], p) })
}
