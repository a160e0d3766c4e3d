package gormdb

import (
	"context"
	"database/sql"

	"collab/domain/fault"
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

const teamColumns = "org_id, id, name, description, kind, created_by, created_at, updated_at"

func rowOfTeam(o id.Org, t team.Team) *teamRow {
	return &teamRow{
		OrgID: string(o), ID: string(t.ID), Name: t.Name, Description: optional(t.Description), Kind: string(t.Kind),
		CreatedBy: string(t.CreatedBy), Created: t.CreatedAt.UnixMilli(), Updated: t.UpdatedAt.UnixMilli(),
	}
}

func scanTeam(s scanner) (team.Team, error) {
	var r teamRow
	if err := s.Scan(&r.OrgID, &r.ID, &r.Name, &r.Description, &r.Kind, &r.CreatedBy, &r.Created, &r.Updated); err != nil {
		return team.Team{}, err
	}
	return team.Team{
		ID: id.Team(r.ID), Org: id.Org(r.OrgID), Name: r.Name, Description: pointer[string](r.Description), Kind: team.Kind(r.Kind),
		CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
	}, nil
}

type teams struct{ *conn }

var _ ports.Teams = teams{}

func (q teams) Get(ctx context.Context, o id.Org, t id.Team) (team.Team, error) {
	return get(ctx, q.read, "Team", scanTeam, "SELECT "+teamColumns+" FROM teams WHERE org_id = ? AND id = ?", string(o), string(t))
}

func (q teams) Refs(ctx context.Context, o id.Org) ([]team.Ref, error) {
	return all(ctx, q.read, "Team", scanTeamRef, "SELECT id, kind, created_by, created_at FROM teams WHERE org_id = ? ORDER BY created_at, id", string(o))
}

func scanTeamRef(s scanner) (team.Ref, error) {
	var r teamRow
	err := s.Scan(&r.ID, &r.Kind, &r.CreatedBy, &r.Created)
	return team.Ref{ID: id.Team(r.ID), Kind: team.Kind(r.Kind), CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created)}, err
}

func (q teams) List(ctx context.Context, o id.Org, ts []id.Team) ([]team.Team, error) {
	return named(ctx, q.read, "Team", scanTeam, func(t team.Team) id.Team { return t.ID }, ts,
		"SELECT "+teamColumns+" FROM teams WHERE org_id = ? AND "+q.dialect.in("id", "uuid"), string(o), list(q.dialect, ids(ts)))
}

func (q teams) Add(ctx context.Context, o id.Org, t team.Team) error {
	return add(ctx, q.write, "Team", rowOfTeam(o, t))
}

func (q teams) Put(ctx context.Context, o id.Org, t team.Team) error {
	tx := q.write.WithContext(ctx).Model(&teamRow{}).Where("org_id = ? AND id = ?", string(o), string(t.ID)).
		Select("*").Omit("org_id", "id").Updates(rowOfTeam(o, t))
	if err := failed(ctx, tx.Error, "Team"); err != nil {
		return err
	}
	if tx.RowsAffected == 0 {
		return fault.Missing("Team")
	}
	return nil
}

func (q teams) Remove(ctx context.Context, o id.Org, t id.Team) error {
	return q.atomic(ctx, func(c *conn) error {
		n, err := exec(ctx, c.write, "Team",
			"DELETE FROM teams WHERE org_id = ? AND id = ? AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = teams.org_id AND w.team_id = teams.id)"+
				" AND NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = teams.org_id AND x.team_id = teams.id)",
			string(o), string(t))
		if fault.Is(err, fault.NotFound) {
			// One of them was added meanwhile, and its reference stands.
			return fault.Wrap(fault.Conflict, err, "The team still has workspaces or stored objects")
		}
		if err != nil || n == 1 {
			return err
		}
		if _, err := (teams{c}).Get(ctx, o, t); err != nil {
			return err
		}
		return fault.New(fault.Conflict, "The team still has workspaces or stored objects")
	})
}

type teamMemberRow struct {
	OrgID    string `gorm:"type:uuid;primaryKey"`
	TeamID   string `gorm:"type:uuid;primaryKey"`
	UserID   string `gorm:"type:uuid;primaryKey"`
	JoinedAt int64  `gorm:"not null"`
}

func (teamMemberRow) TableName() string { return "team_members" }

func scanTeamProfile(s scanner) (team.Profile, error) {
	var m teamMemberRow
	var u userRow
	if err := s.Scan(append([]any{&m.TeamID, &m.UserID, &m.JoinedAt}, u.dest()...)...); err != nil {
		return team.Profile{}, err
	}
	return team.Profile{
		Member: team.Member{Team: id.Team(m.TeamID), User: id.User(m.UserID), JoinedAt: instant(m.JoinedAt)},
		Person: u.user(),
	}, nil
}

type teamMembers struct{ *conn }

var _ ports.TeamMembers = teamMembers{}

func (q teamMembers) Get(ctx context.Context, o id.Org, t id.Team, user id.User) (team.Member, error) {
	joined, err := get(ctx, q.read, "Team member", scanInt,
		"SELECT joined_at FROM team_members WHERE org_id = ? AND team_id = ? AND user_id = ?", string(o), string(t), string(user))
	if err != nil {
		return team.Member{}, err
	}
	return team.Member{Team: t, User: user, JoinedAt: instant(joined)}, nil
}

func (q teamMembers) List(ctx context.Context, o id.Org, t id.Team, after org.Position, limit int, fn func(team.Profile) error) error {
	text, args := "SELECT m.team_id, m.user_id, m.joined_at, "+userColumns+
		" FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.org_id = ? AND m.team_id = ?", []any{string(o), string(t)}
	if after != (org.Position{}) {
		text, args = text+" AND (m.joined_at, m.user_id) > (?, ?)", append(args, after.JoinedAt.UnixMilli(), place(after.User))
	}
	text += " ORDER BY m.joined_at, m.user_id"
	if limit > 0 {
		text, args = text+" LIMIT ?", append(args, limit)
	}
	return each(ctx, q.read, "Team member", scanTeamProfile, fn, text, args...)
}

// Put holds the team against deletion before it adds to it: a reference that is
// broken would end a transaction on Postgres.
func (q teamMembers) Put(ctx context.Context, o id.Org, m team.Member) (members int, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		if _, err := get(ctx, c.write, "Team", scanInt,
			"SELECT 1 FROM teams WHERE org_id = ? AND id = ?"+c.dialect.shared(), string(o), string(m.Team)); err != nil {
			return err
		}
		tx := c.write.WithContext(ctx).Clauses(nothing).Create(&teamMemberRow{
			OrgID: string(o), TeamID: string(m.Team), UserID: string(m.User), JoinedAt: m.JoinedAt.UnixMilli(),
		})
		if err := failed(ctx, tx.Error, "Team member"); err != nil {
			return err
		}
		n, err := get(ctx, c.read, "Team member", scanInt, "SELECT COUNT(*) FROM team_members WHERE org_id = ? AND team_id = ?", string(o), string(m.Team))
		members = int(n)
		return err
	})
	return members, err
}

func (q teamMembers) Remove(ctx context.Context, o id.Org, t id.Team, user id.User) error {
	n, err := exec(ctx, q.write, "Team member", "DELETE FROM team_members WHERE org_id = ? AND team_id = ? AND user_id = ?", string(o), string(t), string(user))
	if err == nil && n == 0 {
		err = fault.Missing("Team member")
	}
	return err
}

func (q teamMembers) OfUser(ctx context.Context, o id.Org, user id.User) ([]id.Team, error) {
	return all(ctx, q.read, "Team member", scanText[id.Team],
		"SELECT team_id FROM team_members WHERE org_id = ? AND user_id = ? ORDER BY team_id", string(o), string(user))
}

func (q teamMembers) RemoveUser(ctx context.Context, o id.Org, user id.User) error {
	_, err := exec(ctx, q.write, "Team member", `DELETE FROM team_members WHERE org_id = ? AND user_id = ? AND NOT EXISTS
		(SELECT 1 FROM teams t WHERE t.org_id = team_members.org_id AND t.id = team_members.team_id AND t.kind = ? AND t.created_by = ?)`,
		string(o), string(user), string(team.Personal), string(user))
	return err
}
