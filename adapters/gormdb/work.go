package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

type teamRow struct {
	ID          id.Team `gorm:"primaryKey"`
	Org         id.Org  `gorm:"column:org_id;primaryKey"`
	Name        string
	Description *string
	Kind        team.Kind
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

var teamTable = tenant[teamRow]("teams", "Team")

func (r *teamRow) team() (team.Team, error) { return team.Team(*r), nil }

type teams struct{ *conn }

func (g group) Teams() ports.Teams { return teams(g) }

func (q teams) Get(ctx context.Context, o id.Org, t id.Team) (team.Team, error) {
	return get(ctx, teamTable.of(q.read, o).key(string(t)), (*teamRow).team)
}

func (q teams) Refs(ctx context.Context, o id.Org) ([]team.Ref, error) {
	refs := teamTable.of(q.read, o).read("id", "kind", "created_by", "created_at").page("created_at, id", 0)
	return all(ctx, refs, func(r *teamRow) (team.Ref, error) { return team.Team(*r).Ref(), nil })
}

func (q teams) List(ctx context.Context, o id.Org, ts []id.Team) ([]team.Team, error) {
	return getAll(ctx, teamTable.of(q.read, o), (*teamRow).team, func(t team.Team) id.Team { return t.ID }, ts)
}

func (q teams) Add(ctx context.Context, o id.Org, t team.Team) error {
	return teamTable.of(q.write, o).add(ctx, (*teamRow)(&t))
}

func (q teams) Put(ctx context.Context, o id.Org, t team.Team) error {
	return teamTable.of(q.write, o).key(string(t.ID)).save(ctx, (*teamRow)(&t))
}

func (q teams) Remove(ctx context.Context, o id.Org, t id.Team) error {
	return q.atomic(ctx, func(c *conn) error {
		return teamTable.of(c.write, o).key(string(t)).removeEmpty(ctx, "The team still has workspaces or stored objects",
			"NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = teams.org_id AND w.team_id = teams.id)",
			"NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = teams.org_id AND x.team_id = teams.id)")
	})
}

type teamMemberRow struct {
	OrgID  id.Org       `gorm:"primaryKey"`
	Member memberFields `gorm:"embedded"`
}

// memberFields are the fields of team.Member.
type memberFields struct {
	Team     id.Team `gorm:"column:team_id;primaryKey"`
	User     id.User `gorm:"column:user_id;primaryKey"`
	JoinedAt time.Time
}

var teamMemberTable = tenant[teamMemberRow]("team_members", "Team member")

func (r *teamMemberRow) member() (team.Member, error) { return team.Member(r.Member), nil }

type teamMembers struct{ *conn }

func (g group) TeamMembers() ports.TeamMembers { return teamMembers(g) }

func (q teamMembers) Get(ctx context.Context, o id.Org, t id.Team, user id.User) (team.Member, error) {
	return get(ctx, teamMemberTable.of(q.read, o).key(string(t), string(user)), (*teamMemberRow).member)
}

func (q teamMembers) List(
	ctx context.Context, o id.Org, t id.Team, after id.Position[id.User], limit int, fn func(team.Profile) error,
) error {
	var u userRow
	s := byTime(withUser(teamMemberTable.of(q.read, o).filter("team_id = ?", string(t)), &u), byJoining, after, limit)
	return each(ctx, s, func(r *teamMemberRow) (team.Profile, error) {
		return team.Profile{Member: team.Member(r.Member), Person: org.User(u.User)}, nil
	}, fn)
}

// Put prevents the deletion of the team before it adds the member.
func (q teamMembers) Put(ctx context.Context, o id.Org, m team.Member) (int, error) {
	return atomically(ctx, q.conn, func(c *conn) (int, error) {
		if err := teamTable.of(c.write, o).key(string(m.Team)).lockKeys(ctx, 1); err != nil {
			return 0, err
		}
		members := teamMemberTable.of(c.write, o)
		if _, err := members.insert(ctx, &teamMemberRow{Member: memberFields(m)}, onConflictDoNothing); err != nil {
			return 0, err
		}
		return members.filter("team_id = ?", string(m.Team)).count(ctx)
	})
}

func (q teamMembers) Remove(ctx context.Context, o id.Org, t id.Team, user id.User) error {
	s := teamMemberTable.of(q.write, o).key(string(t), string(user))
	return s.requireRow(s.remove(ctx))
}

func (q teamMembers) OfUser(ctx context.Context, o id.Org, user id.User) ([]id.Team, error) {
	s := teamMemberTable.of(q.read, o).filter("user_id = ?", string(user)).read("team_id").page("team_id", 0)
	return all(ctx, s, func(r *teamMemberRow) (id.Team, error) { return r.Member.Team, nil })
}

func (q teamMembers) RemoveUser(ctx context.Context, o id.Org, user id.User) error {
	const ownPersonal = "EXISTS (SELECT 1 FROM teams t WHERE t.org_id = team_members.org_id" +
		" AND t.id = team_members.team_id AND t.kind = ? AND t.created_by = ?)"
	return teamMemberTable.of(q.write, o).filter("user_id = ?", string(user)).
		filter("NOT "+ownPersonal, string(team.Personal), string(user)).delete(ctx)
}

type workspaceRow struct {
	ID          id.Workspace `gorm:"primaryKey"`
	Org         id.Org       `gorm:"column:org_id;primaryKey"`
	Team        id.Team      `gorm:"column:team_id"`
	Name        string
	Description *string
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

var workspaceTable = tenant[workspaceRow]("workspaces", "Workspace")

func (r *workspaceRow) workspace() (workspace.Workspace, error) { return workspace.Workspace(*r), nil }

type workspaces struct{ *conn }

func (g group) Workspaces() ports.Workspaces { return workspaces(g) }

func (q workspaces) Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return get(ctx, workspaceTable.of(q.read, o).key(string(w)), (*workspaceRow).workspace)
}

func (q workspaces) Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error) {
	refs := workspaceTable.of(q.read, o).read("id", "team_id", "created_at").page("created_at, id", 0)
	return all(ctx, refs, func(r *workspaceRow) (workspace.Ref, error) {
		return workspace.Ref{ID: r.ID, Team: r.Team}, nil
	})
}

func (q workspaces) List(ctx context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error) {
	return getAll(ctx, workspaceTable.of(q.read, o), (*workspaceRow).workspace, func(w workspace.Workspace) id.Workspace { return w.ID }, ws)
}

func (q workspaces) Add(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := teamTable.of(c.write, o).key(string(w.Team)).lockKeys(ctx, 1); err != nil {
			return err
		}
		return workspaceTable.of(c.write, o).add(ctx, (*workspaceRow)(&w))
	})
}

func (q workspaces) Put(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := teamTable.of(c.write, o).key(string(w.Team)).lockKeys(ctx, 1); err != nil {
			return err
		}
		return workspaceTable.of(c.write, o).key(string(w.ID)).save(ctx, (*workspaceRow)(&w))
	})
}

// Remove deletes the tasks and their history by cascade. It is a transaction so that it is
// run again after a deadlock with a change of the tasks.
func (q workspaces) Remove(ctx context.Context, o id.Org, w id.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		return workspaceTable.of(c.write, o).key(string(w)).removeEmpty(ctx, "The workspace still has stored objects",
			"NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = workspaces.org_id AND x.in_workspace_id = workspaces.id)")
	})
}

type orderRow struct {
	OrgID        id.Org          `gorm:"primaryKey"`
	UserID       id.User         `gorm:"primaryKey"`
	WorkspaceIDs workspace.Order `gorm:"serializer:json"` // first to last
}

var orderTable = tenant[orderRow]("workspace_orders", "Order")

func (r *orderRow) order() (workspace.Order, error) { return r.WorkspaceIDs, nil }

type orders struct{ *conn }

func (g group) Orders() ports.Orders { return orders(g) }

func (q orders) Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error) {
	order, _, err := find(ctx, orderTable.of(q.read, o).key(string(user)), (*orderRow).order)
	return order, err
}

// Update first adds an empty order, which is the same as none, so that there is a row to
// lock.
func (q orders) Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return q.atomic(ctx, func(c *conn) error {
		rows := orderTable.of(c.write, o)
		if _, err := rows.insert(ctx, &orderRow{UserID: user, WorkspaceIDs: workspace.Order{}}, onConflictDoNothing); err != nil {
			return err
		}
		row := func(order workspace.Order) *orderRow { return &orderRow{WorkspaceIDs: order} }
		_, err := update(ctx, c, rows.key(string(user)), (*orderRow).order, row, fn)
		return err
	})
}
