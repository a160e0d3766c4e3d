// Package task has the fields of tasks and their bounds, the rules of completedAt and of
// who sees a task, and the filters and order of lists.
package task

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"collab/domain/check"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/patch"
)

// Bounds of a task's fields.
const (
	MaxTags      = 50
	MaxMetadata  = 64 << 10      // bytes of JSON text
	MaxSortOrder = 1_000_000_000 // the largest sortOrder that a caller may set
)

// RemovedTogether is how many tasks of a deleted workspace one transaction deletes; others can write in
// between.
const RemovedTogether = 100

// Status is the progress of a task. Every status may move to every other.
type Status string

const (
	Todo       Status = "TODO"
	InProgress Status = "IN_PROGRESS"
	Done       Status = "DONE"
	Cancelled  Status = "CANCELLED"
)

// Statuses are all statuses.
var Statuses = []Status{Todo, InProgress, Done, Cancelled}

// Priority is how urgent a task is.
type Priority string

const (
	Low    Priority = "LOW"
	Medium Priority = "MEDIUM"
	High   Priority = "HIGH"
	Urgent Priority = "URGENT"
)

// Priorities are all priorities.
var Priorities = []Priority{Low, Medium, High, Urgent}

// Task is a piece of work. Optional fields are nil or empty where unset. Tags
// are in the order they were given, without repetitions.
type Task struct {
	ID          id.Task
	Org         id.Org
	Title       string
	Description *string
	Priority    Priority
	Assignee    *id.User
	Workspace   *id.Workspace
	Due         *Due
	Tags        []string
	Metadata    string // the text of a JSON object; empty: unset
	SortOrder   int64
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Version     int64 // 1 when made, one more with every change

	status      Status
	completedAt *time.Time
}

func (t Task) Status() Status { return t.status }

// CompletedAt returns when the task became DONE, nil while it is not.
func (t Task) CompletedAt() *time.Time { return t.completedAt }

// Restore gives a stored task its status and completion back. Only adapters
// that read records call it.
func (t Task) Restore(s Status, completedAt *time.Time) Task {
	t.status, t.completedAt = s, completedAt
	return t
}

// Clone returns a copy that shares nothing with the task.
func (t Task) Clone() Task {
	t.Description, t.Assignee, t.Workspace = clone(t.Description), clone(t.Assignee), clone(t.Workspace)
	t.Due, t.Tags, t.completedAt = clone(t.Due), slices.Clone(t.Tags), clone(t.completedAt)
	return t
}

func clone[V any](v *V) *V {
	if v == nil {
		return nil
	}
	return new(*v)
}

// Draft has the fields of a new task. The zero Status and Priority are the
// defaults.
type Draft struct {
	ID          id.Task // empty: a new one
	Title       string
	Description *string
	Status      Status
	Priority    Priority
	Assignee    *id.User
	Workspace   *id.Workspace
	Due         *Due
	Tags        []string
	Metadata    string
}

// Patch is a partial update of a task.
type Patch struct {
	Title       patch.Field[string]
	Description patch.Field[string]
	Status      patch.Field[Status]
	Priority    patch.Field[Priority]
	Assignee    patch.Field[id.User]
	Workspace   patch.Field[id.Workspace]
	Due         patch.Field[Due]
	Tags        patch.Field[[]string]
	Metadata    patch.Field[string] // replaced whole
}

// New makes a task from a draft, created by the user at now. Its sort order is
// given when it is stored, after all others.
func New(taskID id.Task, o id.Org, creator id.User, d Draft, now time.Time) (Task, error) {
	var c check.List
	t := Task{
		ID: taskID, Org: o, Title: c.Name("title", d.Title), Description: d.Description,
		Priority: d.Priority, Assignee: d.Assignee, Workspace: d.Workspace, Due: d.Due,
		Tags: cleanTags(&c, d.Tags), Metadata: d.Metadata,
		CreatedBy: creator, CreatedAt: now, UpdatedAt: now, Version: 1, status: Todo,
	}
	if t.Priority == "" {
		t.Priority = Medium
	}
	if d.Status != "" {
		t = t.withStatus(d.Status, now)
	}
	t.check(&c)
	return t, c.Err()
}

// Apply returns the task after a partial update at now.
func (t Task) Apply(p Patch, now time.Time) (Task, error) {
	var c check.List
	if v, ok := check.NonNull(&c, "title", p.Title); ok {
		t.Title = c.Name("title", v)
	}
	if v, ok := check.NonNull(&c, "status", p.Status); ok {
		t = t.withStatus(v, now)
	}
	if v, ok := check.NonNull(&c, "priority", p.Priority); ok {
		t.Priority = v
	}
	t.Description = p.Description.Over(t.Description)
	t.Assignee = p.Assignee.Over(t.Assignee)
	t.Workspace = p.Workspace.Over(t.Workspace)
	t.Due = p.Due.Over(t.Due)
	if p.Tags.Present() {
		tags, _ := p.Tags.Get()
		t.Tags = cleanTags(&c, tags)
	}
	if p.Metadata.Present() {
		t.Metadata, _ = p.Metadata.Get()
	}
	t.check(&c)
	return t.withNextVersion(now), c.Err()
}

// Reprioritization changes one task's place among the others, for a reason.
type Reprioritization struct {
	Task      id.Task
	Reason    string
	Priority  *Priority
	SortOrder *int64
}

// Check adds the problems of the change to c: its reason must not be empty or white space.
func (r Reprioritization) Check(c *check.List) {
	if strings.TrimSpace(r.Reason) == "" {
		c.Add("reason", "must not be empty")
	}
	c.Text("reason", r.Reason, check.MaxReason)
	if r.SortOrder != nil && (*r.SortOrder < 0 || *r.SortOrder > MaxSortOrder) {
		c.Add("sortOrder", "must be between 0 and %d", MaxSortOrder)
	}
}

// Order is the order of tasks that get the sort orders First, First+1 and so on.
type Order struct {
	Tasks []id.Task
	First int64
}

// Check adds a problem unless First is one that a caller may set.
func (o Order) Check(c *check.List) {
	if o.First < 0 || o.First > MaxSortOrder {
		c.Add("sortOrder", "must be between 0 and %d", MaxSortOrder)
	}
}

// Placement has the fields that a reprioritization reads: the task's sort order and
// priority, those that decide who sees the task, and its number of tags.
type Placement struct {
	Task      id.Task
	Workspace *id.Workspace
	Assignee  *id.User
	CreatedBy id.User
	SortOrder int64
	Priority  Priority
	Tags      int
}

// Placement returns the task's placement.
func (t Task) Placement() Placement {
	return Placement{t.ID, t.Workspace, t.Assignee, t.CreatedBy, t.SortOrder, t.Priority, len(t.Tags)}
}

// Reprioritized returns the placement after the change.
func (p Placement) Reprioritized(r Reprioritization) Placement {
	if r.Priority != nil {
		p.Priority = *r.Priority
	}
	if r.SortOrder != nil {
		p.SortOrder = *r.SortOrder
	}
	return p
}

// Diff lists the sort order and the priority if they differ.
func (p Placement) Diff(to Placement) []Delta {
	return Diff(Task{SortOrder: p.SortOrder, Priority: p.Priority}, Task{SortOrder: to.SortOrder, Priority: to.Priority})
}

// Placed returns the task with the placement's sort order and priority at now.
func (t Task) Placed(p Placement, now time.Time) Task {
	t.SortOrder, t.Priority = p.SortOrder, p.Priority
	return t.withNextVersion(now)
}

// Unassigned returns the task without an assignee.
func (t Task) Unassigned(now time.Time) Task {
	t.Assignee = nil
	return t.withNextVersion(now)
}

func (t Task) withNextVersion(now time.Time) Task {
	t.Version++
	t.UpdatedAt = now
	return t
}

// withStatus sets status and completedAt together.
func (t Task) withStatus(to Status, now time.Time) Task {
	switch {
	case to == Done && t.status != Done:
		t.completedAt = &now
	case to != Done:
		t.completedAt = nil
	}
	t.status = to
	return t
}

func (t Task) check(c *check.List) {
	c.Description(t.Description)
	if len(t.Metadata) > MaxMetadata {
		c.Add("metadata", "must be at most %d bytes", MaxMetadata)
	}
}

func cleanTags(c *check.List, tags []string) []string {
	if len(tags) > MaxTags {
		c.Add("tags", "must be at most %d", MaxTags)
		return nil
	}
	var clean []string
	for _, tag := range tags {
		tag = strings.TrimSpace(tag)
		switch {
		case tag == "":
			c.Add("tags", "must not contain an empty tag")
		case strings.Contains(tag, ","):
			c.Add("tags", "must not contain a comma")
		default:
			c.Text("tags", tag, check.MaxTag)
		}
		if !slices.Contains(clean, tag) {
			clean = append(clean, tag)
		}
	}
	return clean
}

// VisibleTo reports whether the actor sees the task: its assignee and creator do, and all
// members for a task without a workspace, else those who see its workspace.
func (t Task) VisibleTo(a org.Actor) bool { return t.Placement().VisibleTo(a) }

// VisibleTo reports whether the actor sees the task, as Task.VisibleTo does.
func (p Placement) VisibleTo(a org.Actor) bool {
	return p.Workspace == nil || a.SeesWorkspace(*p.Workspace) ||
		p.CreatedBy == a.User || p.Assignee != nil && *p.Assignee == a.User
}

// Compare orders tasks in lists: sortOrder, then creation, then id.
func Compare(a, b Task) int {
	return cmp.Or(cmp.Compare(a.SortOrder, b.SortOrder), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}
