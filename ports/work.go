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

	// List returns those of the teams that are there, in the order of ts, which
	// are all different. All of them are in memory: who calls it bounds ts.
	List(ctx context.Context, o id.Org, ts []id.Team) ([]team.Team, error)

	// Add fails with Conflict on a taken id, on a second SHARED team of the
	// organisation, and on a second PERSONAL team of the same creator in it.
	Add(ctx context.Context, o id.Org, t team.Team) error

	// Put replaces a team that is there.
	Put(ctx context.Context, o id.Org, t team.Team) error

	// Remove deletes a team and its member records. Conflict while it has
	// workspaces or shared objects.
	Remove(ctx context.Context, o id.Org, t id.Team) error
}

// TeamMembers holds who was put into which team. The members of a SHARED team
// are the organisation's and not held here.
type TeamMembers interface {
	Get(ctx context.Context, o id.Org, t id.Team, user id.User) (team.Member, error)

	// List calls each with the team's members and their users by JoinedAt, then
	// user id; after and limit page it, zero values mean from the start and all.
	// An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, t id.Team, after org.Position, limit int, each func(team.Profile) error) error

	// Put adds a member; one who is there already stays as they are. It returns
	// how many members the team has then. NotFound for a team that is not there.
	Put(ctx context.Context, o id.Org, m team.Member) (members int, err error)

	// Remove takes a member out of a team. NotFound when they are not in it.
	Remove(ctx context.Context, o id.Org, t id.Team, user id.User) error

	// OfUser returns the ids of the teams that the user was put into.
	OfUser(ctx context.Context, o id.Org, user id.User) ([]id.Team, error)

	// RemoveUser takes the user out of all teams of the organisation that are not
	// their own personal team.
	RemoveUser(ctx context.Context, o id.Org, user id.User) error
}

// Workspaces holds workspaces. Changes are made under the organisation's Lock.
type Workspaces interface {
	Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error)

	// Refs returns all workspaces of the organisation by CreatedAt, then id,
	// without reading their texts.
	Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error)

	// List returns those of the workspaces that are there, in the order of ws,
	// which are all different. All of them are in memory: who calls it bounds ws.
	List(ctx context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error)

	// Add fails with Conflict on a taken id, NotFound when its team is not there.
	Add(ctx context.Context, o id.Org, w workspace.Workspace) error

	// Put replaces a workspace that is there; NotFound when its team is not there.
	Put(ctx context.Context, o id.Org, w workspace.Workspace) error

	// Remove deletes a workspace and its tasks with their history. Conflict while
	// it has shared objects.
	Remove(ctx context.Context, o id.Org, w id.Workspace) error
}

// Orders holds each member's own order of workspaces.
type Orders interface {
	// Get returns an empty order for a member who has none.
	Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error)

	// Update stores what fn makes of the order, holding it against other updates
	// of the same member.
	Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error
}

// Tasks holds tasks.
type Tasks interface {
	Get(ctx context.Context, o id.Org, t id.Task) (task.Task, error)

	// List calls each with the tasks that f selects for the actor (exactly those
	// for which f.Selects), in the order of task.Compare. An error of each ends
	// the list and is returned.
	List(ctx context.Context, o id.Org, actor org.Actor, f task.Filter, each func(task.Task) error) error

	// Add stores the task after all others of the organisation and returns it
	// with its sort order, which is greater than any committed one's (0 for the
	// first). Conflict on a taken id; NotFound when its workspace is not there.
	Add(ctx context.Context, o id.Org, t task.Task) (task.Task, error)

	// Revise reads the named tasks, holding them against other changes until the
	// transaction ends, and stores what fn makes of them, all or none. Fn gets
	// them in the order of ids and returns as many in the same order. NotFound
	// when one is missing or its workspace after fn is. The ids are all
	// different.
	Revise(ctx context.Context, o id.Org, ids []id.Task, fn func([]task.Task) ([]task.Task, error)) ([]task.Task, error)

	// Remove deletes the task and its history, if allow returns nil for it as it
	// is; its error comes back.
	Remove(ctx context.Context, o id.Org, t id.Task, allow func(task.Task) error) error

	// Unassign clears the user from every task of the organisation that is
	// assigned to them, as task.Unassigned at now does.
	Unassign(ctx context.Context, o id.Org, user id.User, now time.Time) error
}

// TaskSets reads and moves many named tasks. The ids are all different. The
// number of statements grows with the number of ids, the size of each is bounded.
type TaskSets interface {
	// Move calls fn with the index in ids and the placement of each of the tasks,
	// in any order, holding the tasks against other changes until the transaction
	// ends. It stores the sort order and the priority that fn returns, a version
	// that is one more, and now as the time of the change, of all or none; nothing
	// else of a task is read or written. NotFound when one is missing. An error of
	// fn ends the move and is returned.
	Move(ctx context.Context, o id.Org, ids []id.Task, now time.Time, fn func(i int, p task.Placement) (task.Placement, error)) error

	// List calls each with the named tasks that are there, in the order of ids. An
	// error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, ids []id.Task, each func(task.Task) error) error

	// RemoveIn deletes at most limit tasks of the workspace, those that come next after
	// the place in the order of lists, and the changes in their histories before them, at
	// most limit times 10 of those. It returns the place to go on after, and whether there
	// may be more behind it; the zero place is the start. A workspace that is not there
	// has none.
	RemoveIn(ctx context.Context, o id.Org, w id.Workspace, after task.Position, limit int) (last task.Position, more bool, err error)
}

// TaskHistory holds what happened to tasks.
type TaskHistory interface {
	// Add appends; NotFound when a task is not there.
	Add(ctx context.Context, o id.Org, changes []task.Change) error

	// List calls each with a task's changes in the order they were made (At, then
	// id), from after the place on; the zero place is the start. At most limit; 0:
	// all. An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, t id.Task, after task.ChangePosition, limit int, each func(task.Change) error) error

	// Remove deletes at most limit of a task's changes, and reports whether there
	// may be more. A task that is not there has none.
	Remove(ctx context.Context, o id.Org, t id.Task, limit int) (more bool, err error)
}
