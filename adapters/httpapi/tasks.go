package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/httpapi/encode"
	"collab/app/tasks"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
)

var (
	asStatus    = oneOf(task.ParseStatus, task.Todo, task.InProgress, task.Done, task.Cancelled)
	asPriority  = oneOf(task.ParsePriority, task.Low, task.Medium, task.High, task.Urgent)
	asUser      = idOf[id.User]("user")
	asWorkspace = idOf[id.Workspace]("workspace")
	asTeam      = idOf[id.Team]("team")
)

func asDue(raw []byte) (task.Due, string) {
	text, problem := asText(raw)
	if problem != "" {
		return task.Due{}, problem
	}
	due, ok := task.ParseDue(text)
	if !ok {
		return task.Due{}, "must be a date or an RFC 3339 time"
	}
	return due, ""
}

func readTaskDraft(o *fields) (task.Draft, error) {
	d := task.Draft{
		Title:       required(o, "title", asText),
		Description: optional(o, "description", asText),
		Status:      orZero(o, "status", asStatus),
		Priority:    orZero(o, "priority", asPriority),
		Assignee:    optional(o, "assigneeId", asUser),
		Workspace:   optional(o, "workspaceId", asWorkspace),
		Due:         optional(o, "dueDate", asDue),
		Tags:        orZero(o, "tags", asTexts),
		Metadata:    orZero(o, "metadata", asDocument),
	}
	return d, o.err(func() error {
		_, err := task.New("", "", "", d, time.Time{})
		return err
	})
}

func readTaskPatch(o *fields) (task.Patch, error) {
	p := task.Patch{
		Title:       field(o, "title", asText),
		Description: field(o, "description", asText),
		Status:      field(o, "status", asStatus),
		Priority:    field(o, "priority", asPriority),
		Assignee:    field(o, "assigneeId", asUser),
		Workspace:   field(o, "workspaceId", asWorkspace),
		Due:         field(o, "dueDate", asDue),
		Tags:        field(o, "tags", asTexts),
		Metadata:    field(o, "metadata", asDocument),
	}
	return p, o.err(func() error {
		_, err := task.Task{}.Apply(p, time.Time{})
		return err
	})
}

func readReprioritizations(o *fields) ([]task.Reprioritization, error) {
	var changes []task.Reprioritization
	parts(o, "changes", func(part *fields) {
		changes = append(changes, task.Reprioritization{
			Task:      operand[id.Task](part, required(part, "taskId", asText), "Task"),
			Reason:    required(part, "reason", asText),
			Priority:  optional(part, "priority", asPriority),
			SortOrder: optional(part, "sortOrder", asInteger),
		})
	})
	return changes, o.err()
}

// appendTask appends the task's view. It is written by hand because tasks are
// most of what is read; a test holds it to what encoding/json would write.
func appendTask(dst []byte, t task.Task) ([]byte, error) {
	status := t.Status()
	if len(t.Metadata) > flushAt {
		dst = slices.Grow(dst, 2*len(t.Metadata))
	}
	dst = append(dst, `{"id":`...)
	dst = encode.AppendString(dst, string(t.ID))
	dst = append(dst, `,"title":`...)
	dst = encode.AppendString(dst, t.Title)
	dst = append(dst, `,"description":`...)
	dst = encode.AppendOptional(dst, t.Description)
	dst = append(dst, `,"status":`...)
	dst = encode.AppendString(dst, string(status))
	dst = append(dst, `,"priority":`...)
	dst = encode.AppendString(dst, string(t.Priority))
	dst = append(dst, `,"assigneeId":`...)
	dst = encode.AppendOptional(dst, t.Assignee)
	dst = append(dst, `,"workspaceId":`...)
	dst = encode.AppendOptional(dst, t.Workspace)
	dst = append(dst, `,"dueDate":`...)
	if t.Due == nil {
		dst = append(dst, "null"...)
	} else {
		dst = encode.AppendString(dst, t.Due.String())
	}
	dst = append(dst, `,"tags":[`...)
	for i, tag := range t.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = encode.AppendString(dst, tag)
	}
	dst = append(dst, `],"metadata":`...)
	if t.Metadata == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, t.Metadata...)
	}
	dst = append(dst, `,"sortOrder":`...)
	dst = strconv.AppendInt(dst, t.SortOrder, 10)
	dst = append(dst, `,"completedAt":`...)
	if at := t.CompletedAt(); at == nil {
		dst = append(dst, "null"...)
	} else {
		dst = encode.AppendTime(dst, *at)
	}
	dst = append(dst, `,"createdBy":`...)
	dst = encode.AppendString(dst, string(t.CreatedBy))
	dst = append(dst, `,"createdAt":`...)
	dst = encode.AppendTime(dst, t.CreatedAt)
	dst = append(dst, `,"updatedAt":`...)
	dst = encode.AppendTime(dst, t.UpdatedAt)
	return append(dst, '}'), nil
}

func (c *call) replyTask(status int, t task.Task) error {
	b := take()
	defer give(b)
	*b, _ = appendTask(*b, t)
	*b = append(*b, '\n')
	c.Set("Etag", etag(t.Version))
	c.send(status, *b)
	return nil
}

// streamTasks answers with the tasks that run changes and calls each with. Like
// other complete lists it takes its turn, before anything is changed.
func (a *api) streamTasks(c *call, run func(actor org.Actor, each func(task.Task) error) error) error {
	return stream(a, c, params{}, page{}, keyOfTask, appendTask, run)
}

func keyOfTask(t task.Task) position {
	return position{Rank: t.SortOrder, At: t.CreatedAt, ID: string(t.ID)}
}

// readTaskFilter reads the filters of a list of tasks.
func readTaskFilter(q params, p page) (f task.Filter, err error) {
	if f.Status, err = chosen(q, "status", task.ParseStatus, task.Todo, task.InProgress, task.Done, task.Cancelled); err != nil {
		return f, err
	}
	if f.Priority, err = chosen(q, "priority", task.ParsePriority, task.Low, task.Medium, task.High, task.Urgent); err != nil {
		return f, err
	}
	f.Assignee = refTo[id.User](q, "assigneeId")
	f.Workspace = refTo[id.Workspace](q, "workspaceId")
	if text, given := q.get("tags"); given {
		for tag := range strings.SplitSeq(text, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				f.Tags = append(f.Tags, tag)
			}
		}
		if len(f.Tags) == 0 || len(f.Tags) > task.MaxTags {
			return f, fault.Field("tags", "must name 1 to %d tags", task.MaxTags)
		}
	}
	if f.DueBefore, err = dueOf(q, "dueBefore"); err != nil {
		return f, err
	}
	if f.DueAfter, err = dueOf(q, "dueAfter"); err != nil {
		return f, err
	}
	if p.after != (position{}) {
		f.After = &task.Position{SortOrder: p.after.Rank, CreatedAt: p.after.At, ID: id.Task(p.after.ID)}
	}
	f.Limit = p.fetch()
	return f, nil
}

func refTo[T ~string](q params, name string) task.Ref[T] {
	text, given := q.get(name)
	switch {
	case !given:
		return task.Ref[T]{}
	case text == "null":
		return task.Ref[T]{Given: true, Unset: true}
	}
	return task.Ref[T]{Given: true, ID: selected[T](text)}
}

func dueOf(q params, name string) (*task.Due, error) {
	text, given := q.get(name)
	if !given {
		return nil, nil
	}
	due, ok := task.ParseDue(text)
	if !ok {
		return nil, fault.Field(name, "must be a date or an RFC 3339 time")
	}
	return &due, nil
}

func (a *api) listTasks(c *call) error {
	q, p, err := c.listing("status", "priority", "assigneeId", "workspaceId", "tags", "dueBefore", "dueAfter")
	if err != nil {
		return err
	}
	f, err := readTaskFilter(q, p)
	if err != nil {
		return err
	}
	return stream(a, c, q, p, keyOfTask, appendTask, func(actor org.Actor, each func(task.Task) error) error {
		return a.Tasks.List(c.r.Context(), actor, f, each)
	})
}

func (a *api) getTask(c *call, actor org.Actor) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	found, err := a.Tasks.Get(c.r.Context(), actor, t)
	if err != nil {
		return err
	}
	if header := c.r.Header["If-None-Match"]; len(header) > 0 && listsTag(header, found.Version, true) {
		c.Set("Etag", etag(found.Version))
		c.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.replyTask(http.StatusOK, found)
}

func (a *api) createTask(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	d, err := readTaskDraft(o)
	if err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	made, err := a.Tasks.Create(c.r.Context(), actor, d)
	if err != nil {
		return err
	}
	return c.replyTask(http.StatusCreated, made)
}

func (a *api) updateTask(c *call) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	o, err := c.fields()
	if err != nil {
		return err
	}
	p, err := readTaskPatch(o)
	if err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	changed, err := a.Tasks.Update(c.r.Context(), actor, t, ifMatch(c), p)
	if err != nil {
		return err
	}
	return c.replyTask(http.StatusOK, changed)
}

func (a *api) deleteTask(c *call, actor org.Actor) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	c.allow(deletionWithin)
	if err := a.Tasks.Delete(c.r.Context(), actor, t, ifMatch(c)); err != nil {
		return err
	}
	return c.succeed()
}

// ifMatch is the condition of the If-Match header, nil where there is none.
func ifMatch(c *call) tasks.Match {
	header := c.r.Header["If-Match"]
	if len(header) == 0 {
		return nil
	}
	return func(version int64) bool { return listsTag(header, version, false) }
}

// listsTag reports whether a list of entity tags names the version: "*" names
// every one, and a weak tag counts only where weak says so.
func listsTag(header []string, version int64, weak bool) bool {
	return namesTag(header, etag(version), weak)
}

// namesTag is listsTag for any strong tag.
func namesTag(header []string, tag string, weak bool) bool {
	for _, line := range header {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimSpace(one)
			if weak {
				one = strings.TrimPrefix(one, "W/")
			}
			if one == "*" || one == tag {
				return true
			}
		}
	}
	return false
}

func (a *api) reorderTasks(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	named := operands[id.Task](o, "taskIds", "Task")
	if err := o.err(); err != nil {
		return err
	}
	return a.streamTasks(c, func(actor org.Actor, each func(task.Task) error) error {
		return a.Tasks.Reorder(c.r.Context(), actor, named, each)
	})
}

func (a *api) reprioritizeTasks(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	changes, err := readReprioritizations(o)
	if err != nil {
		return err
	}
	return a.streamTasks(c, func(actor org.Actor, each func(task.Task) error) error {
		return a.Tasks.Reprioritize(c.r.Context(), actor, changes, each)
	})
}

type changeView struct {
	ID        id.Entry    `json:"id"`
	TaskID    id.Task     `json:"taskId"`
	ChangedBy id.User     `json:"changedBy"`
	ChangedAt jsonTime    `json:"changedAt"`
	Reason    *string     `json:"reason"`
	Changes   []deltaView `json:"changes"`
}

type deltaView struct {
	Field string  `json:"field"`
	From  *string `json:"from"`
	To    *string `json:"to"`
}

func viewChange(ch task.Change) changeView {
	v := changeView{
		ID: ch.ID, TaskID: ch.Task, ChangedBy: ch.By, ChangedAt: jsonTime(ch.At),
		Reason: textOrNull(ch.Reason), Changes: make([]deltaView, len(ch.Fields)),
	}
	for i, d := range ch.Fields {
		v.Changes[i] = deltaView(d)
	}
	return v
}

func keyOfChange(ch task.Change) position { return position{At: ch.At, ID: string(ch.ID)} }

func (a *api) taskHistory(c *call) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	after := task.ChangePosition{At: p.after.At, ID: id.Entry(p.after.ID)}
	return stream(a, c, q, p, keyOfChange, viewed(viewChange), func(actor org.Actor, each func(task.Change) error) error {
		return a.Tasks.History(c.r.Context(), actor, t, after, p.fetch(), each)
	})
}
