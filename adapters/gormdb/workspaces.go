package gormdb

import (
	"context"
	"database/sql"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/workspace"
	"collab/ports"
)

type workspaceRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	ID          string `gorm:"type:uuid;primaryKey"`
	TeamID      string `gorm:"type:uuid;not null"`
	Name        string `gorm:"not null"`
	Description sql.NullString
	CreatedBy   string `gorm:"type:uuid;not null"`
	Created     int64  `gorm:"column:created_at;not null"`
	Updated     int64  `gorm:"column:updated_at;not null"`
}

func (workspaceRow) TableName() string { return "workspaces" }

const workspaceColumns = "org_id, id, team_id, name, description, created_by, created_at, updated_at"

func rowOfWorkspace(o id.Org, w workspace.Workspace) *workspaceRow {
	return &workspaceRow{
		OrgID: string(o), ID: string(w.ID), TeamID: string(w.Team), Name: w.Name, Description: optional(w.Description),
		CreatedBy: string(w.CreatedBy), Created: w.CreatedAt.UnixMilli(), Updated: w.UpdatedAt.UnixMilli(),
	}
}

func scanWorkspace(s scanner) (workspace.Workspace, error) {
	var r workspaceRow
	if err := s.Scan(&r.OrgID, &r.ID, &r.TeamID, &r.Name, &r.Description, &r.CreatedBy, &r.Created, &r.Updated); err != nil {
		return workspace.Workspace{}, err
	}
	return workspace.Workspace{
		ID: id.Workspace(r.ID), Org: id.Org(r.OrgID), Team: id.Team(r.TeamID), Name: r.Name, Description: pointer[string](r.Description),
		CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
	}, nil
}

type workspaces struct{ *conn }

var _ ports.Workspaces = workspaces{}

func (q workspaces) Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return get(ctx, q.read, "Workspace", scanWorkspace, "SELECT "+workspaceColumns+" FROM workspaces WHERE org_id = ? AND id = ?", string(o), string(w))
}

func (q workspaces) Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error) {
	return all(ctx, q.read, "Workspace", scanWorkspaceRef, "SELECT id, team_id, created_at FROM workspaces WHERE org_id = ? ORDER BY created_at, id", string(o))
}

func scanWorkspaceRef(s scanner) (workspace.Ref, error) {
	var r workspaceRow
	err := s.Scan(&r.ID, &r.TeamID, &r.Created)
	return workspace.Ref{ID: id.Workspace(r.ID), Team: id.Team(r.TeamID), CreatedAt: instant(r.Created)}, err
}

func (q workspaces) List(ctx context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error) {
	return named(ctx, q.read, "Workspace", scanWorkspace, func(w workspace.Workspace) id.Workspace { return w.ID }, ws,
		"SELECT "+workspaceColumns+" FROM workspaces WHERE org_id = ? AND "+q.dialect.in("id", "uuid"), string(o), list(q.dialect, ids(ws)))
}

// hold holds the workspace's team against deletion: a reference that is broken
// would end a transaction on Postgres.
func (q workspaces) hold(ctx context.Context, o id.Org, t id.Team) error {
	_, err := get(ctx, q.write, "Team", scanInt, "SELECT 1 FROM teams WHERE org_id = ? AND id = ?"+q.dialect.shared(), string(o), string(t))
	return err
}

func (q workspaces) Add(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := (workspaces{c}).hold(ctx, o, w.Team); err != nil {
			return err
		}
		return add(ctx, c.write, "Workspace", rowOfWorkspace(o, w))
	})
}

func (q workspaces) Put(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := (workspaces{c}).hold(ctx, o, w.Team); err != nil {
			return err
		}
		tx := c.write.WithContext(ctx).Model(&workspaceRow{}).Where("org_id = ? AND id = ?", string(o), string(w.ID)).
			Select("*").Omit("org_id", "id").Updates(rowOfWorkspace(o, w))
		if err := failed(ctx, tx.Error, "Workspace"); err != nil {
			return err
		}
		if tx.RowsAffected == 0 {
			return fault.Missing("Workspace")
		}
		return nil
	})
}

// Remove leaves the tasks and their history to the references. It is a
// transaction even so, because that is run again when it and a change of the
// tasks have waited for each other.
func (q workspaces) Remove(ctx context.Context, o id.Org, w id.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		n, err := exec(ctx, c.write, "Workspace",
			"DELETE FROM workspaces WHERE org_id = ? AND id = ? AND NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = workspaces.org_id AND x.in_workspace_id = workspaces.id)",
			string(o), string(w))
		if fault.Is(err, fault.NotFound) {
			// An object was added meanwhile, and its reference stands.
			return fault.Wrap(fault.Conflict, err, "The workspace still has stored objects")
		}
		if err != nil || n == 1 {
			return err
		}
		if _, err := (workspaces{c}).Get(ctx, o, w); err != nil {
			return err
		}
		return fault.New(fault.Conflict, "The workspace still has stored objects")
	})
}

type orderRow struct {
	OrgID        string `gorm:"type:uuid;primaryKey"`
	UserID       string `gorm:"type:uuid;primaryKey"`
	WorkspaceIDs string `gorm:"not null"` // a JSON array, first to last
}

func (orderRow) TableName() string { return "workspace_orders" }

type orders struct{ *conn }

var _ ports.Orders = orders{}

const selectOrder = "SELECT workspace_ids FROM workspace_orders WHERE org_id = ? AND user_id = ?"

func scanOrder(s scanner) (workspace.Order, error) {
	text, err := scanText[string](s)
	if err != nil {
		return nil, err
	}
	return texts[id.Workspace](text)
}

func (q orders) Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error) {
	order, _, err := row(ctx, q.read, "Order", scanOrder, selectOrder, string(o), string(user))
	return order, err
}

// Update adds an empty order first, which is the same as none, so that there is
// a row to hold.
func (q orders) Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return q.atomic(ctx, func(c *conn) error {
		empty := orderRow{OrgID: string(o), UserID: string(user), WorkspaceIDs: "[]"}
		if err := failed(ctx, c.write.WithContext(ctx).Clauses(nothing).Create(&empty).Error, "Order"); err != nil {
			return err
		}
		order, err := get(ctx, c.write, "Order", scanOrder, selectOrder+c.dialect.held(), string(o), string(user))
		if err != nil {
			return err
		}
		if order, err = fn(order); err != nil {
			return err
		}
		ids := make([]string, len(order))
		for i, w := range order {
			ids[i] = string(w)
		}
		_, err = exec(ctx, c.write, "Order", "UPDATE workspace_orders SET workspace_ids = ? WHERE org_id = ? AND user_id = ?", array(ids), string(o), string(user))
		return err
	})
}
