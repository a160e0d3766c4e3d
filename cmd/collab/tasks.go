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
		{"due", valueOr(t.DueDate, "")}, {"title", t.Title}, {"tags", strings.Join(t.Tags, ",")},
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

// reorderFor returns the order that puts a task at a place of a list without it, and moves as few others as possible.
func reorderFor(others []apiclient.Task, id string, index int) apiclient.Reorder {
	low := int64(-1) // the sort order before that place
	if index > 0 {
		low = others[index-1].SortOrder
	}
	first, later := low+1, []string{id}
	if index < len(others) && others[index].SortOrder-low >= 2 {
		if index == 0 {
			first = others[index].SortOrder - 1
		}
		return apiclient.Reorder{TaskIDs: later, SortOrder: &first}
	}
	for _, next := range others[index:] {
		if next.SortOrder > low+int64(len(later)) {
			break
		}
		later = append(later, next.ID)
	}
	earlier := []string{id}
	for i := index - 1; i >= 0 && index < len(others) && others[i].SortOrder >= others[index].SortOrder-int64(len(earlier)); i-- {
		earlier = append(earlier, others[i].ID)
	}
	if len(earlier) < len(later) && others[index].SortOrder >= int64(len(earlier)) {
		slices.Reverse(earlier)
		first = others[index].SortOrder - int64(len(earlier))
		return apiclient.Reorder{TaskIDs: earlier, SortOrder: &first}
	}
	return apiclient.Reorder{TaskIDs: later, SortOrder: &first}
}

func (a *app) tasksCommand() *cobra.Command {
	var filter apiclient.ListTasksParams
	var workspace string
	list := command("list", "List tasks", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) (err error) {
		if filter.WorkspaceID, err = workspaceID(ctx, client, workspace); err != nil {
			return err
		}
		filter.Status, filter.Priority = strings.ToUpper(filter.Status), strings.ToUpper(filter.Priority)
		return printList(a, taskColumns)(client.ListTasks(ctx, filter))
	}))
	flags := list.Flags()
	enumFlag(list, &filter.Status, "status", "only tasks with this status", statuses...)
	enumFlag(list, &filter.Priority, "priority", "only tasks with this priority", priorities...)
	flags.StringVar(&filter.AssigneeID, "assignee", "", "only tasks of the user with this id; null for nobody's")
	flags.StringVar(&filter.Tags, "tags", "", "only tasks with any of these tags, separated by commas")
	flags.StringVar(&filter.DueBefore, "due-before", "", "only tasks due until this `date`")
	flags.StringVar(&filter.Search, "search", "", "only tasks with all words of this `text` in their titles")
	flags.StringVar(&workspace, "workspace", "", "only tasks of the workspace with this id or `name`")

	var draft taskFlags
	var add, edit *cobra.Command
	add = command("add TITLE", "Add a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
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
		d.WorkspaceID = optionalText(id)
		return printOne(a, taskColumns, func() (apiclient.Task, error) { return client.CreateTask(ctx, d) })
	}))
	draft.addFlags(add)

	var changed taskFlags
	edit = command("edit ID", "Change a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		var p apiclient.TaskPatch
		isSet := edit.Flags().Changed
		if isSet("title") {
			p.Title = &changed.title
		}
		if isSet("status") {
			p.Status = new(strings.ToUpper(changed.status))
		}
		if isSet("priority") {
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
			if !isSet(field.flag) {
				continue
			}
			if *field.to = apiclient.Clear[string](); field.value != "" {
				*field.to = apiclient.Set(field.value)
			}
		}
		if isSet("tags") {
			p.Tags = apiclient.Set(changed.tags)
		}
		if p == (apiclient.TaskPatch{}) {
			return usage("name what changes: see %s --help", edit.CommandPath())
		}
		return a.patchTask(ctx, client, args[0], p)
	}))
	edit.Long = "edit changes the fields whose flags are given; an empty value clears a field."
	edit.Flags().StringVar(&changed.title, "title", "", "the title")
	changed.addFlags(edit)

	done := command("done ID...", "Mark tasks as done", 1, -1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		for _, id := range args {
			if err := a.patchTask(ctx, client, id, apiclient.TaskPatch{Status: new("DONE")}); err != nil {
				return err
			}
		}
		return nil
	}))

	var before string
	var first bool
	move := command("move ID", "Move a task to another place in the order", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
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
		tasks, err := client.ReorderTasks(ctx, reorderFor(order, ids[0], at))
		if err != nil {
			return err
		}
		return tasks.Close()
	}))
	move.Flags().StringVar(&before, "before", "", "the `id` of the task before which it comes")
	move.Flags().BoolVar(&first, "first", false, "before all others")

	history := command("history ID", "List the changes of a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		ids, _, err := taskIDs(ctx, client, args...)
		if err != nil {
			return err
		}
		return printList(a, func(h apiclient.TaskChange) []column {
			var changes []string
			for _, f := range h.Changes {
				changes = append(changes, f.Field+": "+strconv.Quote(valueOr(f.From, ""))+" to "+strconv.Quote(valueOr(f.To, "")))
			}
			return []column{{"changed", formatTime(h.ChangedAt)}, {"by", h.ChangedBy}, {"changes", strings.Join(changes, ", ")}, {"reason", valueOr(h.Reason, "")}}
		})(client.GetTaskHistory(ctx, ids[0]))
	}))
	show := command("show ID", "Print a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		ids, _, err := taskIDs(ctx, client, args...)
		if err != nil {
			return err
		}
		t, err := client.GetTask(ctx, ids[0])
		if err != nil {
			return err
		}
		err = a.printRecord(t, append(taskColumns(t), column{"assignee", valueOr(t.AssigneeID, "")}, column{"workspace", valueOr(t.WorkspaceID, "")}))
		if err != nil || a.wantsJSON() || valueOr(t.Description, "") == "" {
			return err
		}
		return a.printMarkdown("\n" + *t.Description + "\n")
	}))
	tasks := group("tasks", "Work with tasks", list, show, add, edit, done, move, history)
	tasks.Long = "An ID may be the end of a task's id, as list prints it."
	return tasks
}

// taskFlags are flags.
type taskFlags struct {
	title, description, status, priority, assignee, workspace, due string
	tags                                                           []string
}

func (t *taskFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&t.description, "description", "", "the description")
	enumFlag(c, &t.status, "status", "the status", statuses...)
	enumFlag(c, &t.priority, "priority", "the priority", priorities...)
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
	return printOne(a, taskColumns, func() (apiclient.Task, error) { return client.UpdateTask(ctx, ids[0], p) })
}
