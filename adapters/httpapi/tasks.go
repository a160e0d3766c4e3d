package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/stream"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/words"
)

var (
	asStatus    = body.OneOf(task.Statuses...)
	asPriority  = body.OneOf(task.Priorities...)
	asUser      = body.ID[id.User]("user")
	asWorkspace = body.ID[id.Workspace]("workspace")
	asTeam      = body.ID[id.Team]("team")
	asDue       = body.Parsed(body.NotInstant, task.ParseDue)
)

func readTaskDraft(o *body.Fields) (task.Draft, error) {
	d := task.Draft{
		Title:       body.Required(o, "title", body.Text),
		Description: body.Optional(o, "description", body.Text),
		Status:      body.OrZero(o, "status", asStatus),
		Priority:    body.OrZero(o, "priority", asPriority),
		Assignee:    body.Optional(o, "assigneeId", asUser),
		Workspace:   body.Optional(o, "workspaceId", asWorkspace),
		Due:         body.Optional(o, "dueDate", asDue),
		Tags:        body.OrZero(o, "tags", body.Texts),
		Metadata:    body.OrZero(o, "metadata", body.Document),
	}
	return d, o.Err(func() error { return errorOf(task.New("", "", "", d, time.Time{})) })
}

func readTaskPatch(o *body.Fields) (task.Patch, error) {
	p := task.Patch{
		Title:       body.Field(o, "title", body.Text),
		Description: body.Field(o, "description", body.Text),
		Status:      body.Field(o, "status", asStatus),
		Priority:    body.Field(o, "priority", asPriority),
		Assignee:    body.Field(o, "assigneeId", asUser),
		Workspace:   body.Field(o, "workspaceId", asWorkspace),
		Due:         body.Field(o, "dueDate", asDue),
		Tags:        body.Field(o, "tags", body.Texts),
		Metadata:    body.Field(o, "metadata", body.Document),
	}
	return p, o.Err(func() error { return errorOf(task.Task{}.Apply(p, time.Time{})) })
}

func readReprioritizations(o *body.Fields) ([]task.Reprioritization, error) {
	var changes []task.Reprioritization
	body.Each(o, "changes", func(part *body.Fields) {
		changes = append(changes, task.Reprioritization{
			Task:      body.Operand[id.Task](part, body.Required(part, "taskId", body.Text), "Task"),
			Reason:    body.Required(part, "reason", body.Text),
			Priority:  body.Optional(part, "priority", asPriority),
			SortOrder: body.Optional(part, "sortOrder", body.Integer),
		})
	})
	return changes, o.Err()
}

// appendTask appends the task's view. It does not use encoding/json because tasks are read most often. A test compares
// it with encoding/json.
func appendTask(dst []byte, t task.Task) ([]byte, error) {
	status := t.Status()
	if len(t.Metadata) > stream.FlushAt {
		dst = slices.Grow(dst, 1<<10+len(t.Metadata)) // at most maxTaskView, for which memory is reserved
	}
	dst = encode.AppendString(append(dst, `{"id":`...), string(t.ID))
	dst = encode.AppendString(append(dst, `,"title":`...), t.Title)
	dst = encode.AppendOptional(append(dst, `,"description":`...), t.Description)
	dst = encode.AppendString(append(dst, `,"status":`...), string(status))
	dst = encode.AppendString(append(dst, `,"priority":`...), string(t.Priority))
	dst = encode.AppendOptional(append(dst, `,"assigneeId":`...), t.Assignee)
	dst = encode.AppendOptional(append(dst, `,"workspaceId":`...), t.Workspace)
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
	dst = strconv.AppendInt(append(dst, `,"sortOrder":`...), t.SortOrder, 10)
	dst = append(dst, `,"completedAt":`...)
	if at := t.CompletedAt(); at == nil {
		dst = append(dst, "null"...)
	} else {
		dst = encode.AppendTime(dst, *at)
	}
	dst = encode.AppendString(append(dst, `,"createdBy":`...), string(t.CreatedBy))
	dst = encode.AppendTime(append(dst, `,"createdAt":`...), t.CreatedAt)
	dst = encode.AppendTime(append(dst, `,"updatedAt":`...), t.UpdatedAt)
	return append(dst, '}'), nil
}

// maxTaskView returns the most bytes that the view of a task with these fields has: an escape is at most six times
// as long as its character.
func maxTaskView(title string, description *string, tags []string, metadata string) int {
	text := len(title)
	if description != nil {
		text += len(*description)
	}
	for _, tag := range tags {
		text += len(tag) + 1
	}
	return 1<<10 + 6*text + len(metadata)
}

func (c *call) replyTask(status int) func(task.Task, error) error {
	return replyTagged(c, status, appendTask, func(t task.Task) int64 { return t.Version })
}

func positionOfTask(t task.Task) body.Position {
	return body.Position{Rank: t.SortOrder, At: t.CreatedAt, ID: string(t.ID)}
}

// readTaskFilter reads the filters of a list of tasks.
func readTaskFilter(q body.Query, p body.Page) (f task.Filter, err error) {
	if f.Status, err = body.EnumParam(q, "status", task.Statuses...); err != nil {
		return f, err
	}
	if f.Priority, err = body.EnumParam(q, "priority", task.Priorities...); err != nil {
		return f, err
	}
	f.Assignee = refParam[id.User](q, "assigneeId")
	f.Workspace = refParam[id.Workspace](q, "workspaceId")
	if text, given := q.Get("tags"); given {
		for tag := range strings.SplitSeq(text, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				f.Tags = append(f.Tags, tag)
			}
		}
		if len(f.Tags) == 0 || len(f.Tags) > task.MaxTags {
			return f, fault.Field("tags", "must name 1 to %d tags", task.MaxTags)
		}
	}
	if f.DueBefore, err = dueParam(q, "dueBefore"); err != nil {
		return f, err
	}
	if f.DueAfter, err = dueParam(q, "dueAfter"); err != nil {
		return f, err
	}
	text, err := searchParam(q)
	if err != nil {
		return f, err
	}
	f.Words = words.Of(text)
	newest, err := body.EnumParam(q, "sort", sortNewest)
	if err != nil {
		return f, err
	}
	f.Newest = newest != ""
	if p.After != (body.Position{}) {
		f.After = &task.Position{SortOrder: p.After.Rank, CreatedAt: p.After.At, ID: id.Task(p.After.ID)}
	}
	f.Limit = p.Fetch()
	return f, f.Check()
}

// sortNewest is the value of sort for lists that begin with the newest task.
const sortNewest = "newest"

func refParam[T ~string](q body.Query, name string) task.Ref[T] {
	text, given := q.Get(name)
	switch {
	case !given:
		return task.Ref[T]{}
	case text == "null":
		return task.Ref[T]{Given: true, Unset: true}
	}
	return task.Ref[T]{Given: true, ID: body.IDParam[T](text)}
}

func dueParam(q body.Query, name string) (*task.Due, error) {
	return body.ParsedParam(q, name, body.NotInstant, func(text string) (*task.Due, bool) {
		due, ok := task.ParseDue(text)
		return &due, ok
	})
}

func (a *api) listTasks(c *call) error {
	q, p, err := c.listQuery("status", "priority", "assigneeId", "workspaceId", "tags",
		"dueBefore", "dueAfter", "search", "sort")
	if err != nil {
		return err
	}
	f, err := readTaskFilter(q, p)
	if err != nil {
		return err
	}
	try := func(actor org.Actor, each func(task.Task) error) error {
		return a.Tasks.ListUnconfirmed(c.r.Context(), actor, f, each)
	}
	read := func(actor org.Actor, each func(task.Task) error) error {
		return a.Tasks.List(c.r.Context(), actor, f, each)
	}
	return listUnconfirmed(a, c, q, p, positionOfTask, appendTask, try, read)
}

func (a *api) getTask(c *call) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	found, err := tryUnconfirmed(a, c,
		func(cached org.Actor) (task.Task, error) { return a.Tasks.GetUnconfirmed(c.r.Context(), cached, t) },
		func(actor org.Actor) (task.Task, error) { return a.Tasks.Get(c.r.Context(), actor, t) })
	if err == nil && c.notModified(etag(found.Version)) {
		return nil
	}
	return c.replyTask(http.StatusOK)(found, err)
}

func (a *api) createTask(c *call) error {
	d, err := readBody(c, readTaskDraft)
	if err != nil {
		return err
	}
	if err := c.holdRecordMemory(maxTaskView(d.Title, d.Description, d.Tags, d.Metadata)); err != nil {
		return err
	}
	d.ID = id.Task(c.recordID)
	return c.replyTask(http.StatusCreated)(tryUnconfirmed(a, c,
		func(cached org.Actor) (task.Task, error) {
			return createOrGet(c, cached, d, a.Tasks.CreateUnconfirmed, a.Tasks.GetUnconfirmed)
		},
		func(actor org.Actor) (task.Task, error) {
			return createOrGet(c, actor, d, a.Tasks.Create, a.Tasks.Get)
		}))
}

func (a *api) updateTask(c *call) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	p, err := readBody(c, readTaskPatch)
	if err != nil {
		return err
	}
	actor, err := a.unconfirmedOrAuthorized(c)
	if err != nil {
		return err
	}
	return c.replyTask(http.StatusOK)(a.Tasks.Update(c.r.Context(), actor, t, ifMatch(c), p, func(t task.Task) error {
		return c.holdRecordMemory(maxTaskView(t.Title, t.Description, t.Tags, t.Metadata))
	}))
}

func (a *api) deleteTask(c *call, actor org.Actor, t id.Task) error {
	c.deadlines.Extend(deletionTimeout)
	return c.succeedUnless(a.Tasks.Delete(c.r.Context(), actor, t, ifMatch(c)))
}

// listChangedTasks returns a handler that reads the body and replies with the tasks that
// run changes. Like other complete lists it acquires the caller's semaphore, before any
// change.
func listChangedTasks[B any](a *api, read func(*body.Fields) (B, error), run func(context.Context, org.Actor, B, func(task.Task) error) error) handler {
	return func(c *call) error {
		fields, err := readBody(c, read)
		if err != nil {
			return err
		}
		read := func(actor org.Actor, each func(task.Task) error) error {
			return run(c.r.Context(), actor, fields, each)
		}
		return list(a, c, body.Query{}, body.Page{}, positionOfTask, appendTask, read)
	}
}

func readTaskOrder(o *body.Fields) (task.Order, error) {
	order := task.Order{Tasks: body.Operands[id.Task](o, "taskIds", "Task"), First: body.OrZero(o, "sortOrder", body.Integer)}
	return order, o.Err()
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
	return changeView{
		ID: ch.ID, TaskID: ch.Task, ChangedBy: ch.By, ChangedAt: jsonTime(ch.At), Reason: textOrNull(ch.Reason),
		Changes: viewEach(func(d task.Delta) deltaView { return deltaView(d) })(ch.Fields),
	}
}

func positionOfChange(ch task.Change) body.Position {
	return body.Position{At: ch.At, ID: string(ch.ID)}
}

func (a *api) taskHistory(c *call) error {
	t, err := pathID[id.Task](c, "id", "Task")
	if err != nil {
		return err
	}
	type position = id.Position[id.Entry]
	read := func(ctx context.Context, actor org.Actor, after position, limit int, each func(task.Change) error) error {
		return a.Tasks.History(ctx, actor, t, after, limit, each)
	}
	return listHandler(a, positionOfChange, viewChange, timePosition[id.Entry], read)(c)
}
