package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/workspace"
	"collab/ports"
)

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

var _ ports.Workspaces = workspaces{}

func (q workspaces) Get(ctx context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return get(ctx, workspaceTable.of(q.read, o).key(string(w)), (*workspaceRow).workspace)
}

func (q workspaces) Refs(ctx context.Context, o id.Org) ([]workspace.Ref, error) {
	refs := workspaceTable.of(q.read, o).read("id", "team_id", "created_at").page("created_at, id", 0)
	return all(ctx, refs, func(r *workspaceRow) (workspace.Ref, error) {
		return workspace.Ref{ID: r.ID, Team: r.Team, CreatedAt: r.CreatedAt}, nil
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
		return workspaceTable.of(c.write, o).add(ctx, (*workspaceRow)(&w))
	})
}

func (q workspaces) Put(ctx context.Context, o id.Org, w workspace.Workspace) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := teamTable.of(c.write, o).key(string(w.Team)).kept(ctx); err != nil {
			return err
		}
		return workspaceTable.of(c.write, o).key(string(w.ID)).save(ctx, (*workspaceRow)(&w))
	})
}

// Remove leaves the tasks and their history to the references. It is a
// transaction even so, because that is run again when it and a change of the
// tasks have waited for each other.
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

var _ ports.Orders = orders{}

func (q orders) Get(ctx context.Context, o id.Org, user id.User) (workspace.Order, error) {
	order, _, err := find(ctx, orderTable.of(q.read, o).key(string(user)), (*orderRow).order)
	return order, err
}

// Update adds an empty order first, which is the same as none, so that there is
// a row to hold.
func (q orders) Update(ctx context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return q.atomic(ctx, func(c *conn) error {
		rows := orderTable.of(c.write, o)
		if _, err := rows.insert(ctx, &orderRow{UserID: user, WorkspaceIDs: workspace.Order{}}, nothing); err != nil {
			return err
		}
		_, err := update(ctx, rows.key(string(user)), (*orderRow).order, func(order workspace.Order) *orderRow { return &orderRow{WorkspaceIDs: order} }, fn)
		return err
	})
}
