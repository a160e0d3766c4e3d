package gormdb

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/ports"
)

var _ ports.Snapshots = (*DB)(nil)

// Export reads in one transaction.
func (db *DB) Export(ctx context.Context, o id.Org, fn func(archive.Record) error) error {
	return db.snapshot(ctx, func(tx *gorm.DB) error {
		c := &conn{dialect: db.dialect, db: db, read: tx}
		organisation, err := organisations{c}.Get(ctx, o)
		if err == nil && organisation.Closed() {
			err = fault.Missing("Organisation")
		}
		if err == nil {
			err = fn(archive.Record{Organisation: &organisation})
		}
		if err != nil {
			return err
		}
		sub, err := subscriptions{c}.Get(ctx, o)
		if err == nil {
			err = fn(archive.Record{Subscription: &sub})
		}
		if err == nil {
			err = members{c}.List(ctx, o, org.MemberFilter{}, func(p org.Profile) error { return fn(archive.Record{Member: &p}) })
		}
		for _, step := range exportSteps(ctx, tx, o, fn) {
			if err == nil {
				err = step()
			}
		}
		return err
	})
}

// exportSteps returns the queries of the tables after those of the organisation and its members.
func exportSteps(ctx context.Context, tx *gorm.DB, o id.Org, fn func(archive.Record) error) []func() error {
	var in sql.NullString // the workspace of a change's task
	history := historyTable.of(tx, o).join("task_history JOIN tasks ON tasks.org_id = task_history.org_id AND tasks.id = task_history.task_id",
		", tasks.workspace_id", &in)
	return []func() error{
		exportEach(ctx, invitationTable.of(tx, o).filter("status <> ?", string(invitation.Revoked)).page("created_at, id", 0), (*invitationRow).invitation,
			fn, func(v *invitation.Invitation) archive.Record { return archive.Record{Invitation: v} }),
		exportEach(ctx, teamTable.of(tx, o).page("created_at, id", 0), (*teamRow).team,
			fn, func(v *team.Team) archive.Record { return archive.Record{Team: v} }),
		exportEach(ctx, teamMemberTable.of(tx, o).page("team_id, user_id", 0), (*teamMemberRow).member,
			fn, func(v *team.Member) archive.Record { return archive.Record{TeamMember: v} }),
		exportEach(ctx, workspaceTable.of(tx, o).page("created_at, id", 0), (*workspaceRow).workspace,
			fn, func(v *workspace.Workspace) archive.Record { return archive.Record{Workspace: v} }),
		exportEach(ctx, orderTable.of(tx, o).page("user_id", 0), func(r *orderRow) (archive.WorkspaceOrder, error) {
			return archive.WorkspaceOrder{User: r.UserID, Workspaces: r.WorkspaceIDs}, nil
		}, fn, func(v *archive.WorkspaceOrder) archive.Record { return archive.Record{WorkspaceOrder: v} }),
		exportEach(ctx, taskTable.of(tx, o).page("tasks.id", 0), (*taskRow).task,
			fn, func(v *task.Task) archive.Record { return archive.Record{Task: v} }),
		exportEach(ctx, history.page("task_history.task_id, task_history.at, task_history.id", 0), func(r *taskHistoryRow) (archive.TaskChange, error) {
			c, err := r.change()
			made := archive.TaskChange{Change: c}
			if in.Valid {
				made.Workspace = new(id.Workspace(in.String))
			}
			return made, err
		}, fn, func(v *archive.TaskChange) archive.Record { return archive.Record{TaskChange: v} }),
		exportEach(ctx, connectorTable.of(tx, o).page("created_at, id", 0), (*connectorRow).instance,
			fn, func(v *connector.Instance) archive.Record { return archive.Record{Connector: v} }),
		exportEach(ctx, entryTable.of(tx, o).page("at, id", 0), (*entryRow).entry,
			fn, func(v *usage.Entry) archive.Record { return archive.Record{Usage: v} }),
		exportEach(ctx, auditTable.of(tx, o).page("at, id", 0), (*auditRow).entry,
			fn, func(v *audit.Entry) archive.Record { return archive.Record{AuditEntry: v} }),
		exportEach(ctx, objectTable.of(tx, o).page("storage_key", 0), (*objectRow).object,
			fn, func(v *object.Object) archive.Record { return archive.Record{Object: v} }),
	}
}

// exportEach returns a function that passes the records of a selection to fn.
func exportEach[R, T any](
	ctx context.Context, s selection, record func(*R) (T, error),
	fn func(archive.Record) error, as func(*T) archive.Record,
) func() error {
	return func() error {
		return each(ctx, s, record, func(v T) error { return fn(as(&v)) })
	}
}
