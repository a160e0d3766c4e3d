package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
)

// Teams holds teams. Changes are made under the organisation's Lock.
type Teams interface {
	Get(ctx context.Context, o id.Org, t id.Team) (team.Team, error)

	// Refs returns all teams of the organisation by CreatedAt, then id, without
	// reading their texts.
	Refs(ctx context.Context, o id.Org) ([]team.Ref, error)

	// List returns those of the teams that exist, in the order of ts, which are all
	// different. The caller bounds ts, as the result is held in memory.
	List(ctx context.Context, o id.Org, ts []id.Team) ([]team.Team, error)

	// Add fails with Conflict on a taken id, on a second SHARED team of the
	// organisation, and on a second PERSONAL team of the same creator in it.
	Add(ctx context.Context, o id.Org, t team.Team) error

	// Put replaces an existing team.
	Put(ctx context.Context, o id.Org, t team.Team) error

	// Remove deletes a team and its member records. Conflict if it has workspaces or
	// shared objects.
	Remove(ctx context.Context, o id.Org, t id.Team) error
}

// TeamMembers holds the members of teams, except those of SHARED teams, which are the
// organisation's.
type TeamMembers interface {
	Get(ctx context.Context, o id.Org, t id.Team, user id.User) (team.Member, error)

	// List calls each with the team's members and their users by JoinedAt, then
	// user id; after and limit page it, zero values mean from the start and all.
	// An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, t id.Team, after id.Position[id.User], limit int, each func(team.Profile) error) error

	// Put adds a member, and leaves an existing one unchanged. It returns the team's
	// number of members. NotFound if the team does not exist.
	Put(ctx context.Context, o id.Org, m team.Member) (members int, err error)

	// Remove removes a member from a team. NotFound if the user is not in it.
	Remove(ctx context.Context, o id.Org, t id.Team, user id.User) error

	// OfUser returns the ids of the teams that the user is a member of.
	OfUser(ctx context.Context, o id.Org, user id.User) ([]id.Team, error)

	// RemoveUser removes the user from all teams of the organisation except their personal
	// one.
	RemoveUser(ctx context.Context, o id.Org, user id.User) error
}

// Workspaces holds workspaces. Changes are made under the organisation's Lock.
type Workspaces interface {
	Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error)

	// Refs returns all workspaces of the organisation by CreatedAt, then id,
	// without reading their texts.
	Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error)

	// List returns those of the workspaces that exist, in the order of ws, which are all
	// different. The caller bounds ws, as the result is held in memory.
	List(ctx context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error)

	// Add fails with Conflict on a taken id, NotFound if its team does not exist.
	Add(ctx context.Context, o id.Org, w workspace.Workspace) error

	// Put replaces an existing workspace; NotFound if its team does not exist.
	Put(ctx context.Context, o id.Org, w workspace.Workspace) error

	// Remove deletes a workspace and its tasks with their history. Conflict if it has
	// shared objects.
	Remove(ctx context.Context, o id.Org, w id.Workspace) error
}

// Orders holds each member's own order of workspaces.
type Orders interface {
	// Get returns an empty order for a member who has none.
	Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error)

	// Update locks the member's order and stores what fn returns for it.
	Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error
}

// Tasks holds tasks.
type Tasks interface {
	Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error)

	// List calls each with the tasks that f selects for the actor (exactly those
	// for which f.Selects), in the order of task.Compare. Words are looked for in
	// the first f.ExamineLimit of the tasks that meet its other conditions. An error of
	// each ends the list and is returned.
	List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, each func(task.Task) error) error

	// Add stores the task after all others of the organisation and returns it with its
	// sort order, which is greater than any committed one's (0 for the first). Conflict on
	// a taken id; NotFound if its workspace does not exist.
	Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error)

	// Revise locks the task until the transaction ends, and stores and returns what fn returns
	// for it. NotFound if it does not exist, or its workspace after fn.
	Revise(ctx context.Context, o id.Org, t id.Task, fn func(task.Task) (task.Task, error)) (task.Task, error)

	// Remove deletes the task and its history if allow returns nil for it; else it returns
	// allow's error.
	Remove(ctx context.Context, o id.Org, t id.Task, allow func(task.Task) error) error

	// Unassign applies task.Unassigned at now to every task of the organisation that is
	// assigned to the user.
	Unassign(ctx context.Context, o id.Org, user id.User, now time.Time) error
}

// TasksAt has methods of Tasks for actors whose rights may have changed meanwhile. Each is the
// method of Tasks if the organisation's epoch is the given one (see Epochs); otherwise it does
// nothing and returns NotFound. It sees what Epochs sees.
type TasksAt interface {
	Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error)
	// List returns NotFound also if f selects nothing.
	List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, each func(task.Task) error) error
	Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error)
	// Replace stores next in place of was, which has the same workspace, and appends changes of
	// the task. NotFound also if the stored task has another version or time of change than was, which
	// may have been read at any time before: the same id may be another task's since.
	Replace(ctx context.Context, o id.Org, was, next task.Task, changes []task.Change) error
}

// TaskSets adds, reads and moves many tasks by their ids, which are all different, in statements
// of bounded size.
type TaskSets interface {
	// Add stores tasks as they are, with their sort orders. Conflict if an id is taken, NotFound
	// if a workspace does not exist; a transaction in which it fails must be given up.
	Add(ctx context.Context, o id.Org, tasks []task.Task) error

	// Move locks the tasks until the transaction ends, and calls fn with the index in ids
	// and the placement of each, in any order. It stores the sort order and priority that
	// fn returns, increments the version and sets the time of the change to now, for all
	// or none; other fields are neither read nor written. NotFound if one does not exist.
	// An error of fn ends the move and is returned.
	Move(ctx context.Context, o id.Org, ids []id.Task, now time.Time, fn func(i int, p task.Placement) (task.Placement, error)) error

	// List calls each with those of the tasks that exist, in the order of ids. An error of
	// each ends the list and is returned.
	List(ctx context.Context, o id.Org, ids []id.Task, each func(task.Task) error) error

	// RemoveIn deletes at most limit tasks of the workspace from after a position in the
	// order of lists, and before them at most 10 times limit changes of their histories.
	// It returns the position to continue from, and whether there may be more. The zero
	// position is the start. A workspace that does not exist has no tasks.
	RemoveIn(ctx context.Context, o id.Org, w id.Workspace, after task.Position, limit int) (last task.Position, more bool, err error)
}

// TaskHistory holds the changes of tasks.
type TaskHistory interface {
	// Add appends changes; NotFound if a task does not exist.
	Add(ctx context.Context, o id.Org, changes []task.Change) error

	// List calls each with at most limit of a task's changes by At, then id, from after
	// the position; the zero position is the start, limit 0 means all. An error of each
	// ends the list and is returned.
	List(ctx context.Context, o id.Org, t id.Task, after id.Position[id.Entry], limit int, each func(task.Change) error) error

	// Remove deletes at most limit of a task's changes, and reports whether there may be
	// more. A task that does not exist has none.
	Remove(ctx context.Context, o id.Org, t id.Task, limit int) (more bool, err error)
}
