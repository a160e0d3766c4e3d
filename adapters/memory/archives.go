package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
	"collab/ports"
)

var _ ports.Snapshots = (*Store)(nil)

// Export copies the records before it calls each, which may use the store.
func (s *Store) Export(_ context.Context, o id.Org, each func(archive.Record) error) error {
	all, err := result(s.run, func(x *tx) ([]archive.Record, error) { return x.export(o) })
	return forEach(all, err, each)
}

func (x *tx) export(o id.Org) (all []archive.Record, err error) {
	organisation, err := x.Orgs.get(o)
	if organisation.Closed() {
		err = fault.Missing("Organisation")
	}
	if err != nil {
		return nil, err
	}
	t := x.tenant(o)
	add := func(r archive.Record) { all = append(all, r) }
	add(archive.Record{Organisation: &organisation})
	sub, err := t.Subscriptions.get(o)
	if err != nil {
		sub = plan.Unsubscribed(o)
	}
	add(archive.Record{Subscription: &sub})
	for _, m := range t.Members.list(org.Membership.Active, compareMembers, 0) {
		person, err := x.Users.get(m.User)
		if err != nil {
			return nil, err
		}
		add(archive.Record{Member: &org.Profile{Membership: m, Person: person}})
	}
	for _, v := range t.Invitations.list(func(i invitation.Invitation) bool { return i.StoredStatus() != invitation.Revoked }, compareInvitations, 0) {
		add(archive.Record{Invitation: &v})
	}
	t.Teams.each(compareTeams, func(v *team.Team) { add(archive.Record{Team: v}) })
	t.TeamMembers.each(
		func(a, b team.Member) int { return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.User, b.User)) },
		func(v *team.Member) { add(archive.Record{TeamMember: v}) })
	t.Workspaces.each(compareWorkspaces, func(v *workspace.Workspace) { add(archive.Record{Workspace: v}) })
	for _, user := range slices.Sorted(maps.Keys(t.Orders.rows)) {
		add(archive.Record{WorkspaceOrder: &archive.WorkspaceOrder{User: user, Workspaces: slices.Clone(t.Orders.rows[user])}})
	}
	t.Tasks.each(func(a, b task.Task) int { return cmp.Compare(a.ID, b.ID) }, func(v *task.Task) { add(archive.Record{Task: v}) })
	for _, v := range t.History.list(always, func(a, b task.Change) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	}, 0) {
		task, err := t.Tasks.get(v.Task)
		if err != nil {
			return nil, err
		}
		add(archive.Record{TaskChange: &archive.TaskChange{Change: v, Workspace: task.Workspace}})
	}
	t.Connectors.each(compareConnectors, func(v *connector.Instance) { add(archive.Record{Connector: v}) })
	t.Usage.each(compareEntries, func(v *usage.Entry) { add(archive.Record{Usage: v}) })
	for _, v := range x.Audit.list(func(e audit.Entry) bool { return e.Org == o }, func(a, b audit.Entry) int {
		return byTime(a.At, b.At, a.ID, b.ID)
	}, 0) {
		add(archive.Record{AuditEntry: &v})
	}
	t.Objects.each(func(a, b object.Object) int { return cmp.Compare(a.StorageKey(), b.StorageKey()) },
		func(v *object.Object) { add(archive.Record{Object: v}) })
	return all, nil
}

type exports struct{ run runner }

func (r records) Exports() ports.Exports { return exports{r.run} }

func (q exports) Add(_ context.Context, o id.Org, e export.Export) error {
	return q.run.in(o, func(x *tx, t *tenant) error {
		if _, err := t.Exports.find(export.Export.IsOpen); err == nil && e.IsOpen() {
			return t.Exports.errTaken()
		}
		return t.Exports.add(x, e.ID, e)
	})
}

func (q exports) Get(_ context.Context, o id.Org, exportID id.Export) (export.Export, error) {
	return result(q.run, func(x *tx) (export.Export, error) { return x.tenant(o).Exports.get(exportID) })
}

func (q exports) List(_ context.Context, o id.Org) ([]export.Export, error) {
	return result(q.run, func(x *tx) ([]export.Export, error) {
		return x.tenant(o).Exports.list(always, func(a, b export.Export) int {
			return -byTime(a.CreatedAt, b.CreatedAt, a.ID, b.ID)
		}, 0), nil
	})
}

func (q exports) Update(_ context.Context, o id.Org, exportID id.Export, fn func(export.Export) (export.Export, error)) (export.Export, error) {
	return result(q.run, func(x *tx) (export.Export, error) { return x.tenant(o).Exports.update(x, exportID, fn) })
}

func (q exports) Claim(_ context.Context, now time.Time, fn func(export.Export) (export.Export, error)) (export.Export, error) {
	return result(q.run, func(x *tx) (export.Export, error) {
		var due []export.Export
		for _, t := range x.Tenants.rows {
			due = append(due, t.Exports.list(func(e export.Export) bool { return e.DueAt != nil && !e.DueAt.After(now) }, dueFirst, 1)...)
		}
		if len(due) == 0 {
			return export.Export{}, fault.Missing("Export")
		}
		first := slices.MinFunc(due, dueFirst)
		return x.tenant(first.Org).Exports.update(x, first.ID, fn)
	})
}

func dueFirst(a, b export.Export) int {
	return cmp.Or(a.DueAt.Compare(*b.DueAt), cmp.Compare(a.Org, b.Org), cmp.Compare(a.ID, b.ID))
}

func (q exports) Prune(_ context.Context, before time.Time) error {
	return q.run.do(func(x *tx) {
		for _, t := range x.Tenants.rows {
			t.Exports.removeWhere(x, func(e export.Export) bool { return !e.IsOpen() && e.CreatedAt.Before(before) })
		}
	})
}
