package task

import (
	"strconv"
	"strings"
	"time"

	"collab/domain/id"
)

// Change is one line of a task's history.
type Change struct {
	ID     id.Entry
	Org    id.Org
	Task   id.Task
	At     time.Time
	By     id.User
	Reason string  // given with a reprioritization; empty: none
	Fields []Delta // what changed, in a fixed order
}

// Delta is one field's value before and after, as text; nil is unset.
type Delta struct {
	Field string
	From  *string
	To    *string
}

// The fields of changes whose values are ids.
const (
	FieldAssignee  = "assigneeId"
	FieldWorkspace = "workspaceId"
)

// Diff lists the fields that differ between two versions of a task.
// Long texts are named without their contents.
func Diff(from, to Task) []Delta {
	var ds []Delta
	add := func(field string, a, b *string) {
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			ds = append(ds, Delta{field, a, b})
		}
	}
	add("title", &from.Title, &to.Title)
	if (from.Description == nil) != (to.Description == nil) || from.Description != nil && *from.Description != *to.Description {
		ds = append(ds, Delta{Field: "description"})
	}
	add("status", text(&from.status), text(&to.status))
	add("priority", text(&from.Priority), text(&to.Priority))
	add(FieldAssignee, text(from.Assignee), text(to.Assignee))
	add(FieldWorkspace, text(from.Workspace), text(to.Workspace))
	add("dueDate", due(from.Due), due(to.Due))
	add("tags", list(from.Tags), list(to.Tags))
	if from.Metadata != to.Metadata {
		ds = append(ds, Delta{Field: "metadata"})
	}
	a, b := strconv.FormatInt(from.SortOrder, 10), strconv.FormatInt(to.SortOrder, 10)
	add("sortOrder", &a, &b)
	return ds
}

func text[T ~string](v *T) *string {
	if v == nil {
		return nil
	}
	return new(string(*v))
}

func due(d *Due) *string {
	if d == nil {
		return nil
	}
	return new(d.String())
}

func list(tags []string) *string {
	if len(tags) == 0 {
		return nil
	}
	return new(strings.Join(tags, ","))
}
