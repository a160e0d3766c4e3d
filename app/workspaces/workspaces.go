// Package workspaces is what members do with workspaces and their own order of
// them.
package workspaces

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/workspace"
	"collab/ports"
)

// Workspaces are the use cases of workspaces.
type Workspaces struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs
	sweep Sweep
}

// Sweep removes stored objects in a transaction, as objects.Objects.Sweep does.
type Sweep func(context.Context, ports.Records, id.Org, object.Filter, id.User, *object.Audience) error

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, sweep Sweep) *Workspaces {
	return &Workspaces{store: store, clock: clock, ids: ids, sweep: sweep}
}

// Placed is a workspace with its place, from 0, among all that its reader can
// see, in the reader's own order.
type Placed struct {
	workspace.Workspace
	SortOrder int
}

// List returns the workspaces that the actor can see, in the actor's own
// order; in selects those of one team.
func (s *Workspaces) List(ctx context.Context, actor org.Actor, in id.Team) ([]Placed, error) {
	all, err := placed(ctx, s.store, actor)
	if err != nil || in == "" {
		return all, err
	}
	of := all[:0]
	for _, w := range all {
		if w.Team == in {
			of = append(of, w)
		}
	}
	return of, nil
}

// Get returns a workspace that the actor can see.
func (s *Workspaces) Get(ctx context.Context, actor org.Actor, w id.Workspace) (Placed, error) {
	if !actor.SeesWorkspace(w) {
		return Placed{}, fault.Missing("Workspace")
	}
	return find(ctx, s.store, actor, w)
}

// Create makes a workspace in a team that the actor can see.
func (s *Workspaces) Create(ctx context.Context, actor org.Actor, d workspace.Draft) (made Placed, err error) {
	if err := actor.Writes(); err != nil {
		return Placed{}, err
	}
	w, err := workspace.New(id.Workspace(s.ids.New()), actor.Org, actor.User, d, s.clock.Now())
	if err != nil {
		return Placed{}, err
	}
	unknown := fault.Field("teamId", "must be a team that you can see")
	if !actor.SeesTeam(d.Team) {
		return Placed{}, unknown
	}
	err = s.locked(ctx, actor, func(r ports.Records) error {
		if err := r.Work().Workspaces().Add(ctx, actor.Org, w); err != nil {
			if fault.Is(err, fault.NotFound) {
				return unknown
			}
			return err
		}
		made, err = find(ctx, r, seeing(actor, w), w.ID)
		return err
	})
	return made, err
}

// Update changes a workspace that the actor can see.
func (s *Workspaces) Update(ctx context.Context, actor org.Actor, w id.Workspace, p workspace.Patch) (Placed, error) {
	return s.change(ctx, actor, w, func(_ ports.Records, was workspace.Workspace) (workspace.Workspace, error) {
		return was.Apply(p, s.clock.Now())
	})
}

// Move puts a workspace into another team; the actor can see both.
func (s *Workspaces) Move(ctx context.Context, actor org.Actor, w id.Workspace, to id.Team) (Placed, error) {
	unknown := fault.Field("targetTeamId", "must be a team that you can see")
	return s.change(ctx, actor, w, func(r ports.Records, was workspace.Workspace) (workspace.Workspace, error) {
		if !actor.SeesTeam(to) {
			return was, unknown
		}
		if _, err := r.Work().Teams().Get(ctx, actor.Org, to); fault.Is(err, fault.NotFound) {
			return was, unknown
		} else if err != nil {
			return was, err
		}
		if to == was.Team {
			return was, nil
		}
		from, err := audience(ctx, r, actor.Org, was.Team)
		if err != nil {
			return was, err
		}
		into, err := audience(ctx, r, actor.Org, to)
		if err != nil {
			return was, err
		}
		now := s.clock.Now()
		_, err = r.Storage().Changes().Append(ctx, actor.Org, object.Regrouped(from.Join(into), actor.User, now))
		return was.Moved(to, now), err
	})
}

// audience returns who sees what is in the team.
func audience(ctx context.Context, r ports.Records, o id.Org, t id.Team) (object.Audience, error) {
	of, err := r.Work().Teams().Get(ctx, o, t)
	if err != nil {
		return object.Audience{}, err
	}
	members, err := r.Work().TeamMembers().List(ctx, o, t)
	return object.TeamAudience(of, members), err
}

func (s *Workspaces) change(ctx context.Context, actor org.Actor, w id.Workspace, fn func(ports.Records, workspace.Workspace) (workspace.Workspace, error)) (changed Placed, err error) {
	if err := actor.Writes(); err != nil {
		return Placed{}, err
	}
	if !actor.SeesWorkspace(w) {
		return Placed{}, fault.Missing("Workspace")
	}
	err = s.locked(ctx, actor, func(r ports.Records) error {
		was, err := r.Work().Workspaces().Get(ctx, actor.Org, w)
		if err != nil {
			return err
		}
		next, err := fn(r, was)
		if err != nil {
			return err
		}
		if err := r.Work().Workspaces().Put(ctx, actor.Org, next); err != nil {
			return err
		}
		changed, err = find(ctx, r, actor, w)
		return err
	})
	return changed, err
}

// Delete removes a workspace with its tasks and files. Whoever saw the files is
// told of each.
func (s *Workspaces) Delete(ctx context.Context, actor org.Actor, w id.Workspace) error {
	if err := actor.Writes(); err != nil {
		return err
	}
	if !actor.SeesWorkspace(w) {
		return fault.Missing("Workspace")
	}
	return s.locked(ctx, actor, func(r ports.Records) error {
		gone, err := r.Work().Workspaces().Get(ctx, actor.Org, w)
		if err != nil {
			return err
		}
		seen, err := audience(ctx, r, actor.Org, gone.Team)
		if err != nil {
			return err
		}
		if err := s.sweep(ctx, r, actor.Org, object.Filter{Workspace: w, Scope: object.Shared}, actor.User, &seen); err != nil {
			return err
		}
		return r.Work().Workspaces().Remove(ctx, actor.Org, w)
	})
}

// SetOrder puts the named workspaces first in the actor's own order.
func (s *Workspaces) SetOrder(ctx context.Context, actor org.Actor, named []id.Workspace) error {
	if err := actor.Writes(); err != nil {
		return err
	}
	return s.store.Atomic(ctx, func(r ports.Records) error {
		visible, err := visible(ctx, r, actor)
		if err != nil {
			return err
		}
		return r.Work().Orders().Update(ctx, actor.Org, actor.User, func(o workspace.Order) (workspace.Order, error) {
			return o.Arrange(named, visible)
		})
	})
}

func (s *Workspaces) locked(ctx context.Context, actor org.Actor, fn func(ports.Records) error) error {
	return s.store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, actor.Org); err != nil {
			return err
		}
		return fn(r)
	})
}

// seeing returns the actor with a workspace of its own making in sight.
func seeing(actor org.Actor, w workspace.Workspace) org.Actor {
	sight := &org.Sight{Teams: actor.Sight.Teams, Workspaces: map[id.Workspace]id.Team{w.ID: w.Team}}
	for k, v := range actor.Sight.Workspaces {
		sight.Workspaces[k] = v
	}
	actor.Sight = sight
	return actor
}

func visible(ctx context.Context, r ports.Records, actor org.Actor) ([]workspace.Workspace, error) {
	all, err := r.Work().Workspaces().List(ctx, actor.Org)
	if err != nil {
		return nil, err
	}
	seen := all[:0]
	for _, w := range all {
		if actor.SeesWorkspace(w.ID) {
			seen = append(seen, w)
		}
	}
	return seen, nil
}

func placed(ctx context.Context, r ports.Records, actor org.Actor) ([]Placed, error) {
	seen, err := visible(ctx, r, actor)
	if err != nil {
		return nil, err
	}
	order, err := r.Work().Orders().Get(ctx, actor.Org, actor.User)
	if err != nil {
		return nil, err
	}
	list := make([]Placed, 0, len(seen))
	for i, w := range order.Sort(seen) {
		list = append(list, Placed{w, i})
	}
	return list, nil
}

func find(ctx context.Context, r ports.Records, actor org.Actor, w id.Workspace) (Placed, error) {
	all, err := placed(ctx, r, actor)
	if err != nil {
		return Placed{}, err
	}
	for _, p := range all {
		if p.ID == w {
			return p, nil
		}
	}
	return Placed{}, fault.Missing("Workspace")
}
