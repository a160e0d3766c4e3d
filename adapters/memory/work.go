package memory

import (
	"context"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

func (r records) Teams() ports.Teams             { return teams{r.run} }
func (r records) TeamMembers() ports.TeamMembers { return teamMembers{r.run} }
func (r records) Workspaces() ports.Workspaces   { return workspaces{r.run} }
func (r records) Orders() ports.Orders           { return orders{r.run} }

type teams struct{ run runner }

func compareTeams(a, b team.Team) int { return byTime(a.CreatedAt, b.CreatedAt, a.ID, b.ID) }

func (s teams) Get(_ context.Context, o id.Org, t id.Team) (team.Team, error) {
	return result(s.run, func(x *tx) (team.Team, error) { return x.tenant(o).Teams.get(t) })
}

func (s teams) Refs(_ context.Context, o id.Org) ([]team.Ref, error) {
	return result(s.run, func(x *tx) ([]team.Ref, error) {
		var refs []team.Ref
		for _, t := range x.tenant(o).Teams.list(always, compareTeams, 0) {
			refs = append(refs, t.Ref())
		}
		return refs, nil
	})
}

func (s teams) List(_ context.Context, o id.Org, ts []id.Team) ([]team.Team, error) {
	return result(s.run, func(x *tx) ([]team.Team, error) { return x.tenant(o).Teams.getAll(ts), nil })
}

func (s teams) Add(_ context.Context, o id.Org, t team.Team) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		if _, err := tenant.Teams.find(func(v team.Team) bool {
			return v.Kind == t.Kind && (v.Kind == team.Shared || v.Kind == team.Personal && v.CreatedBy == t.CreatedBy)
		}); err == nil {
			return fault.New(fault.Conflict, "There is a %s team already", t.Kind)
		}
		return tenant.Teams.add(x, t.ID, t)
	})
}

func (s teams) Put(_ context.Context, o id.Org, t team.Team) error {
	return s.run(func(x *tx) error { return x.tenant(o).Teams.replace(x, t.ID, t) })
}

func (s teams) Remove(_ context.Context, o id.Org, t id.Team) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		if !tenant.Teams.has(t) {
			return tenant.Teams.missing()
		}
		if _, err := tenant.Workspaces.find(func(v workspace.Workspace) bool { return v.Team == t }); err == nil {
			return fault.New(fault.Conflict, "The team still has workspaces")
		}
		if tenant.shared(func(v object.Object) bool { return v.Team != nil && *v.Team == t }) {
			return fault.New(fault.Conflict, "The team still has files")
		}
		tenant.Teams.remove(x, t)
		tenant.TeamMembers.removeWhere(x, func(v team.Member) bool { return v.Team == t })
		return nil
	})
}

// teamMemberKey identifies a member of a team.
type teamMemberKey struct {
	team id.Team
	user id.User
}

type teamMembers struct{ run runner }

func (m teamMembers) Get(_ context.Context, o id.Org, t id.Team, user id.User) (team.Member, error) {
	return result(m.run, func(x *tx) (team.Member, error) { return x.tenant(o).TeamMembers.get(teamMemberKey{t, user}) })
}

func (m teamMembers) List(_ context.Context, o id.Org, t id.Team, after id.Position[id.User], limit int, each func(team.Profile) error) error {
	profiles, err := result(m.run, func(x *tx) ([]team.Profile, error) {
		compare := func(a, b team.Member) int { return byTime(a.JoinedAt, b.JoinedAt, a.User, b.User) }
		from := team.Member{JoinedAt: after.At, User: after.ID}
		in := x.tenant(o).TeamMembers.page(func(v team.Member) bool { return v.Team == t }, compare, from, limit)
		profiles := make([]team.Profile, len(in))
		for i, v := range in {
			person, err := x.Users.get(v.User)
			if err != nil {
				return nil, err
			}
			profiles[i] = team.Profile{Member: v, Person: person}
		}
		return profiles, nil
	})
	return forEach(profiles, err, each)
}

func (m teamMembers) Put(_ context.Context, o id.Org, v team.Member) (int, error) {
	return result(m.run, func(x *tx) (int, error) {
		tenant, at := x.tenant(o), teamMemberKey{v.Team, v.User}
		switch {
		case !tenant.Teams.has(v.Team):
			return 0, tenant.Teams.missing()
		case !x.Users.has(v.User):
			return 0, x.Users.missing()
		case !tenant.TeamMembers.has(at):
			tenant.TeamMembers.put(x, at, v)
		}
		members := 0
		for at := range tenant.TeamMembers.rows {
			if at.team == v.Team {
				members++
			}
		}
		return members, nil
	})
}

func (m teamMembers) Remove(_ context.Context, o id.Org, t id.Team, user id.User) error {
	return m.run(func(x *tx) error { return x.tenant(o).TeamMembers.delete(x, teamMemberKey{t, user}) })
}

func (m teamMembers) OfUser(_ context.Context, o id.Org, user id.User) ([]id.Team, error) {
	return result(m.run, func(x *tx) ([]id.Team, error) {
		var in []id.Team
		for at := range x.tenant(o).TeamMembers.rows {
			if at.user == user {
				in = append(in, at.team)
			}
		}
		slices.Sort(in)
		return in, nil
	})
}

func (m teamMembers) RemoveUser(_ context.Context, o id.Org, user id.User) error {
	return m.run(func(x *tx) error {
		tenant := x.tenant(o)
		tenant.TeamMembers.removeWhere(x, func(v team.Member) bool {
			t := tenant.Teams.rows[v.Team]
			return v.User == user && !(t.Kind == team.Personal && t.CreatedBy == user)
		})
		return nil
	})
}

type workspaces struct{ run runner }

func compareWorkspaces(a, b workspace.Workspace) int {
	return byTime(a.CreatedAt, b.CreatedAt, a.ID, b.ID)
}

func (s workspaces) Get(_ context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return result(s.run, func(x *tx) (workspace.Workspace, error) { return x.tenant(o).Workspaces.get(w) })
}

func (s workspaces) Refs(_ context.Context, o id.Org) ([]workspace.Ref, error) {
	return result(s.run, func(x *tx) ([]workspace.Ref, error) {
		var refs []workspace.Ref
		for _, w := range x.tenant(o).Workspaces.list(always, compareWorkspaces, 0) {
			refs = append(refs, workspace.Ref{ID: w.ID, Team: w.Team})
		}
		return refs, nil
	})
}

func (s workspaces) List(_ context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error) {
	return result(s.run, func(x *tx) ([]workspace.Workspace, error) { return x.tenant(o).Workspaces.getAll(ws), nil })
}

func (s workspaces) Add(_ context.Context, o id.Org, w workspace.Workspace) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		if !tenant.Teams.has(w.Team) {
			return tenant.Teams.missing()
		}
		return tenant.Workspaces.add(x, w.ID, w)
	})
}

func (s workspaces) Put(_ context.Context, o id.Org, w workspace.Workspace) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		if !tenant.Teams.has(w.Team) {
			return tenant.Teams.missing()
		}
		return tenant.Workspaces.replace(x, w.ID, w)
	})
}

func (s workspaces) Remove(_ context.Context, o id.Org, w id.Workspace) error {
	return s.run(func(x *tx) error {
		tenant := x.tenant(o)
		if !tenant.Workspaces.has(w) {
			return tenant.Workspaces.missing()
		}
		if tenant.shared(func(v object.Object) bool { return v.Workspace != nil && *v.Workspace == w }) {
			return fault.New(fault.Conflict, "The workspace still has files")
		}
		tenant.Workspaces.remove(x, w)
		for t, v := range tenant.Tasks.rows {
			if v.Workspace != nil && *v.Workspace == w {
				tenant.removeTask(x, t)
			}
		}
		return nil
	})
}

type orders struct{ run runner }

func (s orders) Get(_ context.Context, o id.Org, user id.User) (workspace.Order, error) {
	return result(s.run, func(x *tx) (workspace.Order, error) { return x.tenant(o).order(user), nil })
}

func (s orders) Update(_ context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		next, err := fn(tenant.order(user))
		if err == nil {
			tenant.Orders.put(x, user, next)
		}
		return err
	})
}

// order returns a copy of the member's order, which may be empty.
func (t *tenant) order(user id.User) workspace.Order {
	return clone(t.Orders.rows[user])
}
