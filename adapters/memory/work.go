package memory

import (
	"cmp"
	"context"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

var (
	_ ports.Work        = work{}
	_ ports.Teams       = teams{}
	_ ports.TeamMembers = teamMembers{}
	_ ports.Workspaces  = workspaces{}
	_ ports.Orders      = orders{}
)

type work records

func (w work) Teams() ports.Teams             { return teams{w.run} }
func (w work) TeamMembers() ports.TeamMembers { return teamMembers{w.run} }
func (w work) Workspaces() ports.Workspaces   { return workspaces{w.run} }
func (w work) Orders() ports.Orders           { return orders{w.run} }
func (w work) Tasks() ports.Tasks             { return tasks{w.run} }
func (w work) TaskSets() ports.TaskSets       { return taskSets{w.run} }
func (w work) TaskHistory() ports.TaskHistory { return taskHistory{w.run} }

type teams struct{ run runner }

func (s teams) Get(_ context.Context, o id.Org, t id.Team) (team.Team, error) {
	return result(s.run, func(x *tx) (team.Team, error) { return x.tenant(o).teams.get(t) })
}

func (s teams) Refs(_ context.Context, o id.Org) ([]team.Ref, error) {
	return result(s.run, func(x *tx) ([]team.Ref, error) {
		var refs []team.Ref
		for _, t := range x.tenant(o).teams.rows {
			refs = append(refs, t.Ref())
		}
		slices.SortFunc(refs, func(a, b team.Ref) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		return refs, nil
	})
}

func (s teams) List(_ context.Context, o id.Org, ts []id.Team) ([]team.Team, error) {
	return result(s.run, func(x *tx) ([]team.Team, error) { return x.tenant(o).teams.named(ts), nil })
}

func (s teams) Add(_ context.Context, o id.Org, t team.Team) error {
	return s.run(func(x *tx) error {
		home, err := x.home(o)
		if err != nil {
			return err
		}
		_, err = home.teams.find(func(v team.Team) bool {
			return v.Kind == t.Kind && (v.Kind == team.Shared || v.Kind == team.Personal && v.CreatedBy == t.CreatedBy)
		})
		if err == nil {
			return fault.New(fault.Conflict, "There is a %s team already", t.Kind)
		}
		return home.teams.add(x, t.ID, t)
	})
}

func (s teams) Put(_ context.Context, o id.Org, t team.Team) error {
	return s.run(func(x *tx) error {
		return x.tenant(o).teams.replace(x, t.ID, t)
	})
}

func (s teams) Remove(_ context.Context, o id.Org, t id.Team) error {
	return s.run(func(x *tx) error {
		home := x.tenant(o)
		if !home.teams.has(t) {
			return home.teams.missing()
		}
		if _, err := home.workspaces.find(func(v workspace.Workspace) bool { return v.Team == t }); err == nil {
			return fault.New(fault.Conflict, "The team still has workspaces")
		}
		if home.shared(func(v object.Object) bool { return v.Team != nil && *v.Team == t }) {
			return fault.New(fault.Conflict, "The team still has files")
		}
		home.teams.remove(x, t)
		home.teamMembers.removeWhere(x, func(v team.Member) bool { return v.Team == t })
		return nil
	})
}

// place is where a user was put into a team.
type place struct {
	team id.Team
	user id.User
}

type teamMembers struct{ run runner }

func (m teamMembers) Get(_ context.Context, o id.Org, t id.Team, user id.User) (team.Member, error) {
	return result(m.run, func(x *tx) (team.Member, error) { return x.tenant(o).teamMembers.get(place{t, user}) })
}

func (m teamMembers) List(_ context.Context, o id.Org, t id.Team, after org.Position, limit int, each func(team.Profile) error) error {
	profiles, err := result(m.run, func(x *tx) ([]team.Profile, error) {
		in := x.tenant(o).teamMembers.list(func(v team.Member) bool {
			return v.Team == t && (after == org.Position{} || compareJoined(v.JoinedAt, v.User, after.JoinedAt, after.User) > 0)
		}, func(a, b team.Member) int {
			return compareJoined(a.JoinedAt, a.User, b.JoinedAt, b.User)
		}, limit)
		profiles := make([]team.Profile, len(in))
		for i, v := range in {
			person, err := x.users.get(v.User)
			if err != nil {
				return nil, err
			}
			profiles[i] = team.Profile{Member: v, Person: person}
		}
		return profiles, nil
	})
	return visit(profiles, err, each)
}

func (m teamMembers) Put(_ context.Context, o id.Org, v team.Member) (int, error) {
	return result(m.run, func(x *tx) (int, error) {
		home, at := x.tenant(o), place{v.Team, v.User}
		switch {
		case !home.teams.has(v.Team):
			return 0, home.teams.missing()
		case !x.users.has(v.User):
			return 0, x.users.missing()
		case !home.teamMembers.has(at):
			home.teamMembers.put(x, at, v)
		}
		members := 0
		for at := range home.teamMembers.rows {
			if at.team == v.Team {
				members++
			}
		}
		return members, nil
	})
}

func (m teamMembers) Remove(_ context.Context, o id.Org, t id.Team, user id.User) error {
	return m.run(func(x *tx) error {
		home, at := x.tenant(o), place{t, user}
		if !home.teamMembers.has(at) {
			return home.teamMembers.missing()
		}
		home.teamMembers.remove(x, at)
		return nil
	})
}

func (m teamMembers) OfUser(_ context.Context, o id.Org, user id.User) ([]id.Team, error) {
	return result(m.run, func(x *tx) ([]id.Team, error) {
		var in []id.Team
		for at := range x.tenant(o).teamMembers.rows {
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
		home := x.tenant(o)
		home.teamMembers.removeWhere(x, func(v team.Member) bool {
			t := home.teams.rows[v.Team]
			return v.User == user && !(t.Kind == team.Personal && t.CreatedBy == user)
		})
		return nil
	})
}

type workspaces struct{ run runner }

func (s workspaces) Get(_ context.Context, o id.Org, w id.Workspace) (workspace.Workspace, error) {
	return result(s.run, func(x *tx) (workspace.Workspace, error) { return x.tenant(o).workspaces.get(w) })
}

func (s workspaces) Refs(_ context.Context, o id.Org) ([]workspace.Ref, error) {
	return result(s.run, func(x *tx) ([]workspace.Ref, error) {
		var refs []workspace.Ref
		for _, w := range x.tenant(o).workspaces.rows {
			refs = append(refs, workspace.Ref{ID: w.ID, Team: w.Team, CreatedAt: w.CreatedAt})
		}
		slices.SortFunc(refs, func(a, b workspace.Ref) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		return refs, nil
	})
}

func (s workspaces) List(_ context.Context, o id.Org, ws []id.Workspace) ([]workspace.Workspace, error) {
	return result(s.run, func(x *tx) ([]workspace.Workspace, error) { return x.tenant(o).workspaces.named(ws), nil })
}

func (s workspaces) Add(_ context.Context, o id.Org, w workspace.Workspace) error {
	return s.run(func(x *tx) error {
		home := x.tenant(o)
		if !home.teams.has(w.Team) {
			return home.teams.missing()
		}
		return home.workspaces.add(x, w.ID, w)
	})
}

func (s workspaces) Put(_ context.Context, o id.Org, w workspace.Workspace) error {
	return s.run(func(x *tx) error {
		home := x.tenant(o)
		if !home.teams.has(w.Team) {
			return home.teams.missing()
		}
		return home.workspaces.replace(x, w.ID, w)
	})
}

func (s workspaces) Remove(_ context.Context, o id.Org, w id.Workspace) error {
	return s.run(func(x *tx) error {
		home := x.tenant(o)
		if !home.workspaces.has(w) {
			return home.workspaces.missing()
		}
		if home.shared(func(v object.Object) bool { return v.Workspace != nil && *v.Workspace == w }) {
			return fault.New(fault.Conflict, "The workspace still has files")
		}
		home.workspaces.remove(x, w)
		for t, v := range home.tasks.rows {
			if v.Workspace != nil && *v.Workspace == w {
				home.removeTask(x, t)
			}
		}
		return nil
	})
}

type orders struct{ run runner }

func (s orders) Get(_ context.Context, o id.Org, user id.User) (workspace.Order, error) {
	return result(s.run, func(x *tx) (workspace.Order, error) {
		return x.tenant(o).order(user), nil
	})
}

func (s orders) Update(_ context.Context, o id.Org, user id.User, fn func(workspace.Order) (workspace.Order, error)) error {
	return s.run(func(x *tx) error {
		home, err := x.home(o)
		if err != nil {
			return err
		}
		next, err := fn(home.order(user))
		if err != nil {
			return err
		}
		home.orders.put(x, user, next)
		return nil
	})
}

// order returns a copy of the member's order, which may be empty.
func (t *tenant) order(user id.User) workspace.Order {
	return t.orders.clone(t.orders.rows[user])
}
