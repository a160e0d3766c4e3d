package gormdb

import (
	"context"
	"database/sql"

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

var workspaceTable = tenant[workspaceRow]("Workspace", nil)

func rowOfWorkspace(w workspace.Workspace) *workspaceRow {
	return &workspaceRow{
		ID: string(w.ID), TeamID: string(w.Team), Name: w.Name, Description: optional(w.Description),
		CreatedBy: string(w.CreatedBy), Created: w.CreatedAt.UnixMilli(), Updated: w.UpdatedAt.UnixMilli(),
	}
}

func (r *workspaceRow) workspace() (workspace.Workspace, error) {
	return workspace.Workspace{
		ID: id.Workspace(r.ID), Org: id.Org(r.OrgID), Team: id.Team(r.TeamID), Name: r.Name, Description: pointer[string](r.Description),
		CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
	}, nil
}

type workspaces struct{ *conn }

var _ ports.Workspaces = workspaces{}

func (q workspaces) Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return get(ctx, workspaceTable.of(q.read, o).key(string(w)), (*workspaceRow).workspace)
}

func (q workspaces) Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error) {
	refs := workspaceTable.of(q.read, o).read("id", "team_id", "created_at").page("created_at, id", 0)
	return all(ctx, refs, func(r *workspaceRow) (workspace.Ref, error) {
		return workspace.Ref{ID: id.Workspace(r.ID), Team: id.Team(r.TeamID), CreatedAt: instant(r.Created)}, nil
	})
}

func (q workspaces) List(ctx context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error) {
	return named(ctx, workspaceTable.of(q.read, o), (*workspaceRow).workspace, func(w workspace.Workspace) id.Workspace { return w.ID }, ws)
}

func (q workspaces) Add(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := teamTable.of(c.write, o).key(string(w.Team)).kept(ctx); err != nil {
			return err
		}
		return workspaceTable.of(c.write, o).add(ctx, rowOfWorkspace(w))
	})
}

func (q workspaces) Put(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := teamTable.of(c.write, o).key(string(w.Team)).kept(ctx); err != nil {
			return err
		}
		return workspaceTable.of(c.write, o).key(string(w.ID)).save(ctx, rowOfWorkspace(w))
	})
}

// Remove leaves the tasks and their history to the references. It is a
// transaction even so, because that is run again when it and a change of the
// tasks have waited for each other.
func (q workspaces) Remove(ctx context.Context, o id.Org, w id.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		return removeEmpty(ctx, workspaceTable.of(c.write, o).key(string(w)), "The workspace still has stored objects",
			"NOT EXISTS (SELECT 1 FROM objects x WHERE x.org_id = workspaces.org_id AND x.in_workspace_id = workspaces.id)")
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

var orderTable = tenant[orderRow]("Order", nil)

func (r *orderRow) order() (workspace.Order, error) { return texts[id.Workspace](r.WorkspaceIDs) }

func rowOfOrder(order workspace.Order) (*orderRow, error) {
	ids := make([]string, len(order))
	for i, w := range order {
		ids[i] = string(w)
	}
	return &orderRow{WorkspaceIDs: array(ids)}, nil
}

func (q orders) Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error) {
	order, _, err := find(ctx, orderTable.of(q.read, o).key(string(user)), (*orderRow).order)
	return order, err
}

// Update adds an empty order first, which is the same as none, so that there is
// a row to hold.
func (q orders) Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return q.atomic(ctx, func(c *conn) error {
		rows := orderTable.of(c.write, o)
		if _, err := rows.create(ctx, &orderRow{UserID: string(user), WorkspaceIDs: "[]"}, nothing); err != nil {
			return err
		}
		_, err := update(ctx, rows.key(string(user)), (*orderRow).order, rowOfOrder, fn)
		return err
	})
}
