package gormdb

import (
	"context"
	"database/sql"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/ports"
)

type teamRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	ID          string `gorm:"type:uuid;primaryKey"`
	Name        string `gorm:"not null"`
	Description sql.NullString
	Kind        string `gorm:"not null"`
	CreatedBy   string `gorm:"type:uuid;not null"`
	Created     int64  `gorm:"column:created_at;not null"`
	Updated     int64  `gorm:"column:updated_at;not null"`
}

func (teamRow) TableName() string { return "teams" }

var teamTable = tenant[teamRow]("Team", nil)

func rowOfTeam(t team.Team) *teamRow {
	return &teamRow{
		ID: string(t.ID), Name: t.Name, Description: optional(t.Description), Kind: string(t.Kind),
		CreatedBy: string(t.CreatedBy), Created: t.CreatedAt.UnixMilli(), Updated: t.UpdatedAt.UnixMilli(),
	}
}

func (r *teamRow) team() (team.Team, error) {
	return team.Team{
		ID: id.Team(r.ID), Org: id.Org(r.OrgID), Name: r.Name, Description: pointer[string](r.Description), Kind: team.Kind(r.Kind),
		CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
	}, nil
}

type teams struct{ *conn }

var _ ports.Teams = teams{}

func (q teams) Get(ctx context.Context, o id.Org, t id.Team) (team.Team, error) {
	return get(ctx, teamTable.of(q.read, o).key(string(t)), (*teamRow).team)
}

func (q teams) Refs(ctx context.Context, o id.Org) ([]team.Ref, error) {
	refs := teamTable.of(q.read, o).read("id", "kind", "created_by", "created_at").page("created_at, id", 0)
	return all(ctx, refs, func(r *teamRow) (team.Ref, error) {
		return team.Ref{ID: id.Team(r.ID), Kind: team.Kind(r.Kind), CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created)}, nil
	})
}

func (q teams) List(ctx context.Context, o id.Org, ts []id.Team) ([]team.Team, error) {
	return named(ctx, teamTable.of(q.read, o), (*teamRow).team, func(t team.Team) id.Team { return t.ID }, ts)
}

func (q teams) Add(ctx context.Context, o id.Org, t team.Team) error {
	return teamTable.of(q.write, o).add(ctx, rowOfTeam(t))
}

func (q teams) Put(ctx context.Context, o id.Org, t team.Team) error {
	return teamTable.of(q.write, o).key(string(t.ID)).save(ctx, rowOfTeam(t))
}

func (q teams) Remove(ctx context.Context, o id.Org, t id.Team) error {
	return q.atomic(ctx, func(c *conn) error {
		return removeEmpty(ctx, teamTable.of(c.write, o).key(string(t)), "The team still has workspaces or stored objects",
			"NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = teams.org_id AND w.team_id = teams.id)",
			"NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = teams.org_id AND x.team_id = teams.id)")
	})
}

type teamMemberRow struct {
	OrgID    string `gorm:"type:uuid;primaryKey"`
	TeamID   string `gorm:"type:uuid;primaryKey"`
	UserID   string `gorm:"type:uuid;primaryKey"`
	JoinedAt int64  `gorm:"not null"`
}

func (teamMemberRow) TableName() string { return "team_members" }

var teamMemberTable = tenant[teamMemberRow]("Team member", nil)

func (r *teamMemberRow) member() (team.Member, error) {
	return team.Member{Team: id.Team(r.TeamID), User: id.User(r.UserID), JoinedAt: instant(r.JoinedAt)}, nil
}

type teamMembers struct{ *conn }

var _ ports.TeamMembers = teamMembers{}

func (q teamMembers) Get(ctx context.Context, o id.Org, t id.Team, user id.User) (team.Member, error) {
	return get(ctx, teamMemberTable.of(q.read, o).key(string(t), string(user)), (*teamMemberRow).member)
}

func (q teamMembers) List(ctx context.Context, o id.Org, t id.Team, after org.Position, limit int, fn func(team.Profile) error) error {
	var u userRow
	s := withUser(teamMemberTable.of(q.read, o).filter("team_id = ?", string(t)), &u, after, limit)
	return each(ctx, s, func(r *teamMemberRow) (p team.Profile, err error) {
		if p.Member, err = r.member(); err == nil {
			p.Person, err = u.user()
		}
		return p, err
	}, fn)
}

// Put keeps the team from being deleted before it adds to it.
func (q teamMembers) Put(ctx context.Context, o id.Org, m team.Member) (int, error) {
	return atomically(ctx, q.conn, func(c *conn) (int, error) {
		if err := teamTable.of(c.write, o).key(string(m.Team)).kept(ctx); err != nil {
			return 0, err
		}
		members := teamMemberTable.of(c.write, o)
		row := teamMemberRow{TeamID: string(m.Team), UserID: string(m.User), JoinedAt: m.JoinedAt.UnixMilli()}
		if _, err := members.create(ctx, &row, nothing); err != nil {
			return 0, err
		}
		return members.filter("team_id = ?", string(m.Team)).count(ctx)
	})
}

func (q teamMembers) Remove(ctx context.Context, o id.Org, t id.Team, user id.User) error {
	s := teamMemberTable.of(q.write, o).key(string(t), string(user))
	return s.one(s.remove(ctx))
}

func (q teamMembers) OfUser(ctx context.Context, o id.Org, user id.User) ([]id.Team, error) {
	s := teamMemberTable.of(q.read, o).filter("user_id = ?", string(user)).read("team_id").page("team_id", 0)
	return all(ctx, s, func(r *teamMemberRow) (id.Team, error) { return id.Team(r.TeamID), nil })
}

func (q teamMembers) RemoveUser(ctx context.Context, o id.Org, user id.User) error {
	_, err := teamMemberTable.of(q.write, o).filter("user_id = ?", string(user)).filter("NOT EXISTS (SELECT 1 FROM teams t "+
		"WHERE t.org_id = team_members.org_id AND t.id = team_members.team_id AND t.kind = ? AND t.created_by = ?)", string(team.Personal), string(user)).remove(ctx)
	return err
}
