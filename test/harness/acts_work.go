package harness

import (
	"collab/app/tasks"
	"collab/app/teams"
	"collab/app/workspaces"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
)

const taskFields = "description status priority assigneeId workspaceId dueDate tags metadata"

// workActs are what people do with tasks, teams and workspaces.
var workActs = []*act{
	{
		who: person, name: "add-task", args: "title* " + taskFields,
		does: "Makes a task and answers with it: id, title, description, status, priority, assigneeId, workspaceId, dueDate, tags, metadata, sortOrder, completedAt, createdBy, createdAt, updatedAt, version (POST /tasks). `tags` are separated by commas; `dueDate` is a day, an instant or +3d.",
		do: func(c *call) (any, error) {
			d := task.Draft{
				Title: c.text("title"), Description: optional[string](c, "description"), Status: read(c, "status", asStatus), Priority: read(c, "priority", asPriority),
				Assignee: optional[id.User](c, "assigneeId"), Workspace: optional[id.Workspace](c, "workspaceId"), Tags: c.list("tags"), Metadata: c.text("metadata"),
			}
			if c.args["dueDate"] != nil {
				d.Due = new(read(c, "dueDate", asDue))
			}
			return answered(c, func() (task.Task, error) { return c.Tasks.Create(c.ctx, c.actor, d) })
		},
	},
	{
		who: person, name: "tasks", args: "status priority assigneeId workspaceId tags dueBefore dueAfter",
		does: "Lists the tasks that the person sees, filtered as GET /tasks filters them; `assigneeId=none` are those without an assignee.",
		do:   listTasks,
	},
	{
		who: person, name: "get-task", on: "task",
		does: "Answers with a task (GET /tasks/:id).",
		do:   answers(func(c *call) (task.Task, error) { return c.Tasks.Get(c.ctx, c.actor, id.Task(c.subject())) }),
	},
	{
		who: person, name: "change-task", on: "task", args: "title " + taskFields + " ifVersion",
		does: "Changes the fields that are given, `none` clears one, and answers with the task (PATCH /tasks/:id). With `ifVersion` it is stale once the task has another version.",
		do: func(c *call) (any, error) {
			p := task.Patch{
				Title: change(c, "title", asText), Description: change(c, "description", asText), Status: change(c, "status", asStatus), Priority: change(c, "priority", asPriority),
				Assignee: change(c, "assigneeId", asID[id.User]), Workspace: change(c, "workspaceId", asID[id.Workspace]), Due: change(c, "dueDate", asDue),
				Tags: change(c, "tags", asList), Metadata: change(c, "metadata", asText),
			}
			match := c.match()
			return answered(c, func() (task.Task, error) { return c.Tasks.Update(c.ctx, c.actor, id.Task(c.subject()), match, p) })
		},
	},
	{
		who: person, name: "delete-task", on: "task", args: "ifVersion",
		does: "Removes a task (DELETE /tasks/:id).",
		do: func(c *call) (any, error) {
			match := c.match()
			return only(c, func() error { return c.Tasks.Delete(c.ctx, c.actor, id.Task(c.subject()), match) })
		},
	},
	{
		who: person, name: "reorder-tasks", on: "tasks",
		does: "Gives the tasks, separated by commas, the sort orders 0, 1, 2, … and lists them (POST /tasks/reorder).",
		do: func(c *call) (any, error) {
			named := ids[id.Task](c, c.subject())
			return answered(c, func() ([]task.Task, error) {
				return collect(func(each func(task.Task) error) error { return c.Tasks.Reorder(c.ctx, c.actor, named, each) })
			})
		},
	},
	{
		who: person, name: "reprioritize-task", on: "task", args: "reason* priority sortOrder",
		does: "Changes a task's place for a reason, which stays in its history, and lists the tasks that were changed (POST /tasks/reprioritize).",
		do: func(c *call) (any, error) {
			r := task.Reprioritization{Task: id.Task(c.subject()), Reason: c.text("reason"), SortOrder: c.count("sortOrder")}
			if c.args["priority"] != nil {
				r.Priority = new(read(c, "priority", asPriority))
			}
			return answered(c, func() ([]task.Task, error) {
				return collect(func(each func(task.Task) error) error {
					return c.Tasks.Reprioritize(c.ctx, c.actor, []task.Reprioritization{r}, each)
				})
			})
		},
	},
	{
		who: person, name: "task-history", on: "task",
		does: "Lists what happened to a task, the oldest first: changedBy, changedAt, reason, changes (GET /tasks/:id/history).",
		do: lists(func(c *call, each func(task.Change) error) error {
			return c.Tasks.History(c.ctx, c.actor, id.Task(c.subject()), task.ChangePosition{}, 0, each)
		}),
	},

	{
		who: person, name: "teams",
		does: "Lists the teams that the person belongs to: id, name, description, kind, createdBy, createdAt, updatedAt (GET /teams).",
		do: lists(func(c *call, each func(team.Team) error) error {
			return c.Teams.List(c.ctx, c.actor, teams.Position{}, 0, each)
		}),
	},
	{
		who: person, name: "get-team", on: "team",
		does: "Answers with a team (GET /teams/:id).",
		do:   answers(func(c *call) (team.Team, error) { return c.Teams.Get(c.ctx, c.actor, id.Team(c.subject())) }),
	},
	{
		who: person, name: "add-team", args: "name* description",
		does: "Makes a team whose first member the person is (POST /teams).",
		do: func(c *call) (any, error) {
			d := team.Draft{Name: c.text("name"), Description: optional[string](c, "description")}
			return answered(c, func() (team.Team, error) { return c.Teams.Create(c.ctx, c.actor, d) })
		},
	},
	{
		who: person, name: "change-team", on: "team", args: "name description",
		does: "Changes a team (PATCH /teams/:id).",
		do: func(c *call) (any, error) {
			p := team.Patch{Name: change(c, "name", asText), Description: change(c, "description", asText)}
			return answered(c, func() (team.Team, error) { return c.Teams.Update(c.ctx, c.actor, id.Team(c.subject()), p) })
		},
	},
	{
		who: person, name: "delete-team", on: "team",
		does: "Removes a team without workspaces, with its memory (DELETE /teams/:id).",
		do:   does(func(c *call) error { return c.Teams.Delete(c.ctx, c.actor, id.Team(c.subject())) }),
	},
	{
		who: person, name: "team-members", on: "team",
		does: "Lists a team's members: userId, name, email, avatarUrl, joinedAt (GET /teams/:id/members).",
		do: lists(func(c *call, each func(team.Profile) error) error {
			return c.Teams.Members(c.ctx, c.actor, id.Team(c.subject()), org.Position{}, 0, each)
		}),
	},
	{
		who: person, name: "add-team-member", on: "team", args: "userId*",
		does: "Puts a member of the organisation into a team (POST /teams/:id/members).",
		do: answers(func(c *call) (team.Profile, error) {
			return c.Teams.AddMember(c.ctx, c.actor, id.Team(c.subject()), id.User(c.text("userId")))
		}),
	},
	{
		who: person, name: "remove-team-member", on: "team", args: "userId*",
		does: "Takes a member out of a team (DELETE /teams/:id/members/:userId).",
		do: func(c *call) (any, error) {
			return only(c, func() error {
				return c.Teams.RemoveMember(c.ctx, c.actor, id.Team(c.subject()), id.User(c.text("userId")))
			})
		},
	},

	{
		who: person, name: "workspaces", args: "teamId",
		does: "Lists the workspaces that the person sees, in the person's own order: id, teamId, name, description, sortOrder, createdBy, createdAt, updatedAt (GET /workspaces).",
		do: lists(func(c *call, each func(workspaces.Placed) error) error {
			return c.Workspaces.List(c.ctx, c.actor, id.Team(c.text("teamId")), workspaces.Position{}, 0, each)
		}),
	},
	{
		who: person, name: "get-workspace", on: "workspace",
		does: "Answers with a workspace (GET /workspaces/:id).",
		do: answers(func(c *call) (workspaces.Placed, error) {
			return c.Workspaces.Get(c.ctx, c.actor, id.Workspace(c.subject()))
		}),
	},
	{
		who: person, name: "add-workspace", args: "name* teamId* description",
		does: "Makes a workspace in a team (POST /workspaces).",
		do: func(c *call) (any, error) {
			d := workspace.Draft{Name: c.text("name"), Team: id.Team(c.text("teamId")), Description: optional[string](c, "description")}
			return answered(c, func() (workspaces.Placed, error) { return c.Workspaces.Create(c.ctx, c.actor, d) })
		},
	},
	{
		who: person, name: "change-workspace", on: "workspace", args: "name description",
		does: "Changes a workspace (PATCH /workspaces/:id).",
		do: func(c *call) (any, error) {
			p := workspace.Patch{Name: change(c, "name", asText), Description: change(c, "description", asText)}
			return answered(c, func() (workspaces.Placed, error) {
				return c.Workspaces.Update(c.ctx, c.actor, id.Workspace(c.subject()), p)
			})
		},
	},
	{
		who: person, name: "delete-workspace", on: "workspace",
		does: "Removes a workspace with its tasks and files (DELETE /workspaces/:id).",
		do:   does(func(c *call) error { return c.Workspaces.Delete(c.ctx, c.actor, id.Workspace(c.subject())) }),
	},
	{
		who: person, name: "move-workspace", on: "workspace", args: "targetTeamId*",
		does: "Puts a workspace into another team (POST /workspaces/:id/move).",
		do: answers(func(c *call) (workspaces.Placed, error) {
			return c.Workspaces.Move(c.ctx, c.actor, id.Workspace(c.subject()), id.Team(c.text("targetTeamId")))
		}),
	},
	{
		who: person, name: "order-workspaces", on: "workspaces",
		does: "Puts the workspaces, separated by commas, first in the person's own order (PUT /workspaces/order).",
		do: func(c *call) (any, error) {
			named := ids[id.Workspace](c, c.subject())
			return only(c, func() error { return c.Workspaces.SetOrder(c.ctx, c.actor, named) })
		},
	},
}

var (
	asStatus   = oneOf("status", task.ParseStatus, task.Todo, task.InProgress, task.Done, task.Cancelled)
	asPriority = oneOf("priority", task.ParsePriority, task.Low, task.Medium, task.High, task.Urgent)
)

func asDue(s string) (task.Due, error) {
	d, ok := task.ParseDue(s)
	if !ok {
		return d, fault.Field("dueDate", "must be an ISO date or an RFC 3339 instant")
	}
	return d, nil
}

func asList(s string) ([]string, error) { return listOf(s), nil }

// match is the condition of a change that holds for one version alone.
func (c *call) match() tasks.Match {
	if c.args["ifVersion"] == nil {
		return nil
	}
	want := c.number("ifVersion", 0)
	return func(version int64) bool { return version == want }
}

func listTasks(c *call) (any, error) {
	f := task.Filter{
		Status: read(c, "status", asStatus), Priority: read(c, "priority", asPriority),
		Assignee: refOf[id.User](c, "assigneeId"), Workspace: refOf[id.Workspace](c, "workspaceId"), Tags: c.list("tags"),
	}
	if c.args["dueBefore"] != nil {
		f.DueBefore = new(read(c, "dueBefore", asDue))
	}
	if c.args["dueAfter"] != nil {
		f.DueAfter = new(read(c, "dueAfter", asDue))
	}
	return answered(c, func() ([]task.Task, error) {
		return collect(func(each func(task.Task) error) error { return c.Tasks.List(c.ctx, c.actor, f, each) })
	})
}

func refOf[T ~string](c *call, name string) task.Ref[T] {
	v, given := c.args[name]
	switch {
	case !given:
		return task.Ref[T]{}
	case v == nil:
		return task.Ref[T]{Given: true, Unset: true}
	}
	return task.Ref[T]{Given: true, ID: T(*v)}
}
