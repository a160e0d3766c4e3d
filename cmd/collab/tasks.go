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

const (
	idLength = 36 // characters of an id
	shortID  = 8  // characters at the end of an id, which are random
)

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

// taskOrder returns the ids and sort orders of all tasks in their order.
func taskOrder(ctx context.Context, client *apiclient.Client) (order []apiclient.Task, err error) {
	list, err := client.ListTasks(ctx, apiclient.ListTasksParams{})
	if err != nil {
		return nil, err
	}
	for t, err := range list.All() {
		if err != nil {
			return nil, err
		}
		order = append(order, apiclient.Task{ID: t.ID, SortOrder: t.SortOrder})
	}
	return order, nil
}

// taskIDs returns the ids of tasks that are named by their ids or by the ends of these.
func taskIDs(ctx context.Context, client *apiclient.Client, names ...string) (ids []string, err error) {
	if !slices.ContainsFunc(names, func(name string) bool { return len(name) != idLength }) {
		return names, nil
	}
	order, err := taskOrder(ctx, client)
	if err != nil {
		return nil, err
	}
	return idsIn(order, names...)
}

// idsIn returns the ids of the tasks of the order that are named by their ids or by the ends of these.
func idsIn(order []apiclient.Task, names ...string) (ids []string, err error) {
	for _, name := range names {
		found := 0
		for _, t := range order {
			if strings.HasSuffix(t.ID, strings.ToLower(name)) {
				ids = append(ids, t.ID)
				found++
			}
		}
		if found != 1 {
			return nil, fmt.Errorf("%d tasks have an id that ends in %s", found, name)
		}
	}
	return ids, nil
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
	done := command("done ID...", "Mark tasks as done", 1, -1, a.withClient(a.completeTasks))
	history := command("history ID", "List the changes of a task", 1, 1, a.withClient(a.printTaskHistory))
	show := command("show ID", "Print a task", 1, 1, a.withClient(a.printTask))
	tasks := group("tasks", "Work with tasks", a.listTasksCommand(), show, a.addTaskCommand(), a.editTaskCommand(), done, a.moveTaskCommand(), history)
	tasks.Long = "An ID may be the end of a task's id, as list prints it."
	return tasks
}

func (a *app) listTasksCommand() *cobra.Command {
	var filter apiclient.ListTasksParams
	var workspace string
	c := command("list", "List tasks", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) (err error) {
		if filter.WorkspaceID, err = workspaceID(ctx, client, workspace); err != nil {
			return err
		}
		filter.Status, filter.Priority = strings.ToUpper(filter.Status), strings.ToUpper(filter.Priority)
		return printList(a, taskColumns)(client.ListTasks(ctx, filter))
	}))
	enumFlag(c, &filter.Status, "status", "only tasks with this status", statuses...)
	enumFlag(c, &filter.Priority, "priority", "only tasks with this priority", priorities...)
	c.Flags().StringVar(&filter.AssigneeID, "assignee", "", "only tasks of the user with this id; null for nobody's")
	c.Flags().StringVar(&filter.Tags, "tags", "", "only tasks with any of these tags, separated by commas")
	c.Flags().StringVar(&filter.DueBefore, "due-before", "", "only tasks due until this `date`")
	c.Flags().StringVar(&filter.Search, "search", "", "only tasks with all words of this `text` in their titles")
	c.Flags().StringVar(&workspace, "workspace", "", "only tasks of the workspace with this id or `name`")
	return c
}

func (a *app) printTask(ctx context.Context, client *apiclient.Client, args []string) error {
	ids, err := taskIDs(ctx, client, args...)
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
}

func (a *app) addTaskCommand() *cobra.Command {
	var fields taskFlags
	var c *cobra.Command
	c = command("add TITLE", "Add a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		workspace, err := workspaceID(ctx, client, fields.workspace)
		if err != nil {
			return err
		}
		valueOf := func(flag, value string) *string {
			if !c.Flags().Changed(flag) {
				return nil
			}
			return &value
		}
		draft := apiclient.TaskDraft{
			Title:       args[0],
			Tags:        fields.tags,
			Description: valueOf("description", fields.description),
			Status:      valueOf("status", strings.ToUpper(fields.status)),
			Priority:    valueOf("priority", strings.ToUpper(fields.priority)),
			AssigneeID:  valueOf("assignee", fields.assignee),
			DueDate:     valueOf("due", fields.due),
			WorkspaceID: optionalText(workspace),
		}
		return printOne(a, taskColumns, func() (apiclient.Task, error) { return client.CreateTask(ctx, draft) })
	}))
	fields.addFlags(c)
	return c
}

func (a *app) editTaskCommand() *cobra.Command {
	var title string
	var fields taskFlags
	var c *cobra.Command
	c = command("edit ID", "Change a task", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		workspace, err := workspaceID(ctx, client, fields.workspace)
		if err != nil {
			return err
		}
		changeOf := func(flag, value string) apiclient.Change[string] {
			switch {
			case !c.Flags().Changed(flag):
				return apiclient.Change[string]{}
			case value == "":
				return apiclient.Clear[string]()
			}
			return apiclient.Set(value)
		}
		patch := apiclient.TaskPatch{
			Description: changeOf("description", fields.description),
			AssigneeID:  changeOf("assignee", fields.assignee),
			DueDate:     changeOf("due", fields.due),
			WorkspaceID: changeOf("workspace", workspace),
		}
		if c.Flags().Changed("title") {
			patch.Title = &title
		}
		if c.Flags().Changed("status") {
			patch.Status = new(strings.ToUpper(fields.status))
		}
		if c.Flags().Changed("priority") {
			patch.Priority = new(strings.ToUpper(fields.priority))
		}
		if c.Flags().Changed("tags") {
			patch.Tags = apiclient.Set(fields.tags)
		}
		if patch == (apiclient.TaskPatch{}) {
			return usage("name what changes: see %s --help", c.CommandPath())
		}
		return a.patchTasks(ctx, client, args, patch)
	}))
	c.Long = "edit changes the fields whose flags are given; an empty value clears a field."
	c.Flags().StringVar(&title, "title", "", "the title")
	fields.addFlags(c)
	return c
}

func (a *app) completeTasks(ctx context.Context, client *apiclient.Client, args []string) error {
	return a.patchTasks(ctx, client, args, apiclient.TaskPatch{Status: new("DONE")})
}

func (a *app) moveTaskCommand() *cobra.Command {
	var before string
	var first bool
	c := command("move ID", "Move a task to another place in the order", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		if first == (before != "") {
			return usage("name either --first or --before ID")
		}
		names := args
		if before != "" {
			names = append(names, before)
		}
		order, err := taskOrder(ctx, client)
		if err != nil {
			return err
		}
		ids, err := idsIn(order, names...)
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
	c.Flags().StringVar(&before, "before", "", "the `id` of the task before which it comes")
	c.Flags().BoolVar(&first, "first", false, "before all others")
	return c
}

func (a *app) printTaskHistory(ctx context.Context, client *apiclient.Client, args []string) error {
	ids, err := taskIDs(ctx, client, args...)
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
}

// taskFlags are the fields of a task that flags state.
type taskFlags struct {
	description, status, priority, assignee, workspace, due string
	tags                                                    []string
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

// patchTasks changes the named tasks in the same way, and prints them.
func (a *app) patchTasks(ctx context.Context, client *apiclient.Client, names []string, patch apiclient.TaskPatch) error {
	ids, err := taskIDs(ctx, client, names...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := printOne(a, taskColumns, func() (apiclient.Task, error) { return client.UpdateTask(ctx, id, patch) }); err != nil {
			return err
		}
	}
	return nil
}
