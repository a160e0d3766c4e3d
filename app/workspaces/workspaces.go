// Package workspaces has the use cases of members for workspaces, of which each member has an order.
package workspaces

import (
	"cmp"
	"context"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/workspace"
	"collab/ports"
)

// Workspaces are the use cases of workspaces.
type Workspaces struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs
	sweep Sweep

	locked, atomic Transaction
}

// Sweep removes stored objects in a transaction, as objects.Objects.Sweep does.
type Sweep func(context.Context, ports.Records, id.Org, object.Filter, id.User, *object.Audience) (last string, err error)

// Transaction is access.Access.Locked or access.Access.Atomic.
type Transaction func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, sweep Sweep, locked, atomic Transaction) *Workspaces {
	return &Workspaces{store: store, clock: clock, ids: ids, sweep: sweep, locked: locked, atomic: atomic}
}

// Sorted is a workspace with its index among all that the actor sees, in the actor's own
// order.
type Sorted struct {
	workspace.Workspace
	SortOrder int
}

// batch is how many workspaces List reads at a time.
const batch = 50

// Position is a position in a member's order of workspaces: after the workspace or, if that
// was deleted, after Index others. The zero value is before the first.
type Position struct {
	Index int
	ID    id.Workspace
}

// List calls each with the workspaces that the actor can see, in the actor's own order; in
// selects those of one team, empty: all. After and limit page it, zero values mean from the
// start and all.
func (s *Workspaces) List(ctx context.Context, actor org.Actor, teamID id.Team, after Position, limit int, each func(Sorted) error) error {
	return s.list(ctx, s.store, actor, teamID, after, limit, each)
}

// ListUnconfirmed is List for an actor that access.Access.Cached returned: org.ErrEpochChanged,
// before any workspace, if the organisation is at another epoch than the actor.
func (s *Workspaces) ListUnconfirmed(ctx context.Context, actor org.Actor, teamID id.Team, after Position, limit int, each func(Sorted) error) error {
	return s.list(ctx, s.store.At(actor.Org, actor.Epoch()), actor, teamID, after, limit, each)
}

// list reads first, which it always does, from r.
func (s *Workspaces) list(ctx context.Context, r ports.Records, actor org.Actor, teamID id.Team, after Position, limit int, each func(Sorted) error) error {
	order, err := r.Work().Orders().Get(ctx, actor.Org, actor.User)
	if err != nil {
		return err
	}
	sorted := order.Sort(actor.Visibility.Workspaces())
	from := slices.Index(sorted, after.ID) + 1
	if from == 0 {
		from = max(0, min(after.Index, len(sorted)))
	}
	indexes := make(map[id.Workspace]int)
	var wanted []id.Workspace
	for i, w := range sorted[from:] {
		if teamID == "" || actor.Visibility.Includes(teamID, w) {
			indexes[w], wanted = from+i, append(wanted, w)
		}
	}
	shown := 0
	for chunk := range slices.Chunk(wanted, batch) {
		found, err := s.store.Work().Workspaces().List(ctx, actor.Org, chunk)
		if err != nil {
			return err
		}
		for _, w := range found {
			if err := each(Sorted{w, indexes[w.ID]}); err != nil {
				return err
			}
			if shown++; shown == limit {
				return nil
			}
		}
	}
	return nil
}

// Get returns a workspace that the actor can see.
func (s *Workspaces) Get(ctx context.Context, actor org.Actor, w id.Workspace) (Sorted, error) {
	if !actor.SeesWorkspace(w) {
		return Sorted{}, fault.Missing("Workspace")
	}
	found, err := s.store.Work().Workspaces().Get(ctx, actor.Org, w)
	if err != nil {
		return Sorted{}, err
	}
	return withSortOrder(ctx, s.store, actor, found, actor.Visibility.Workspaces())
}

// Create makes a workspace in a team that the actor can see.
func (s *Workspaces) Create(ctx context.Context, actor org.Actor, d workspace.Draft) (made Sorted, err error) {
	w, err := workspace.New(cmp.Or(d.ID, id.Workspace(s.ids.New())), actor.Org, actor.User, d, s.clock.Now())
	if err != nil {
		return Sorted{}, err
	}
	unknown := fault.Field("teamId", "must be a team that you can see")
	err = s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		if !actor.SeesTeam(d.Team) {
			return unknown
		}
		existing, err := r.Work().Workspaces().Refs(ctx, actor.Org)
		if err != nil {
			return err
		}
		if err := workspace.CheckLimit(len(existing)); err != nil {
			return err
		}
		if err := r.Work().Workspaces().Add(ctx, actor.Org, w); err != nil {
			if fault.Is(err, fault.NotFound) {
				return unknown
			}
			return err
		}
		var seen []id.Workspace
		for _, other := range existing {
			if actor.SeesTeam(other.Team) {
				seen = append(seen, other.ID)
			}
		}
		made, err = withSortOrder(ctx, r, actor, w, append(seen, w.ID))
		return err
	})
	return made, err
}

// Update changes a workspace that the actor can see.
func (s *Workspaces) Update(ctx context.Context, actor org.Actor, w id.Workspace, p workspace.Patch) (Sorted, error) {
	return s.change(ctx, actor, w, func(_ ports.Records, _ org.Actor, was workspace.Workspace) (workspace.Workspace, error) {
		return was.Apply(p, s.clock.Now())
	})
}

// Move moves a workspace to another team. The actor must see both teams.
func (s *Workspaces) Move(ctx context.Context, actor org.Actor, w id.Workspace, to id.Team) (Sorted, error) {
	unknown := fault.Field("targetTeamId", "must be a team that you can see")
	return s.change(ctx, actor, w, func(r ports.Records, actor org.Actor, was workspace.Workspace) (workspace.Workspace, error) {
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
		now := s.clock.Now()
		_, err := r.Storage().Changes().Append(ctx, actor.Org, object.NewAccessChange(object.Audience{Teams: []id.Team{was.Team, to}}, actor.User, now))
		return was.Moved(to, now), err
	})
}

func (s *Workspaces) change(
	ctx context.Context, actor org.Actor, w id.Workspace,
	fn func(ports.Records, org.Actor, workspace.Workspace) (workspace.Workspace, error),
) (changed Sorted, err error) {
	err = s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		was, err := changeable(ctx, r, actor, w)
		if err != nil {
			return err
		}
		next, err := fn(r, actor, was)
		if err != nil {
			return err
		}
		if err := r.Work().Workspaces().Put(ctx, actor.Org, next); err != nil {
			return err
		}
		changed, err = withSortOrder(ctx, r, actor, next, actor.Visibility.Workspaces())
		return err
	})
	return changed, err
}

// Delete removes a workspace with its tasks and files. The users who see the team get a change
// for each file. A large workspace is emptied in several transactions before it is removed; an
// interrupted deletion is continued by the next call.
func (s *Workspaces) Delete(ctx context.Context, actor org.Actor, w id.Workspace) error {
	for more := true; more; {
		err := s.locked(ctx, actor, func(r ports.Records, current org.Actor) error {
			actor = current
			found, err := changeable(ctx, r, actor, w)
			if err != nil {
				return err
			}
			if _, more, err = r.Work().TaskSets().RemoveIn(ctx, actor.Org, w, task.Position{}, task.RemovedTogether); err != nil || more {
				return err
			}
			last, err := s.sweepFiles(ctx, r, actor, found, "")
			if more = last != ""; err != nil || more {
				return err
			}
			return r.Work().Workspaces().Remove(ctx, actor.Org, w)
		})
		if err == nil && more {
			err = s.empty(ctx, actor, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty deletes tasks and files in transactions without the organisation's lock. Each starts
// after the last deleted one, because Postgres would scan the deleted rows again. Records that
// are added meanwhile remain for Delete.
func (s *Workspaces) empty(ctx context.Context, actor org.Actor, w id.Workspace) error {
	part := func(fn func(ports.Records, workspace.Workspace) error) error {
		return s.atomic(ctx, actor, func(r ports.Records, current org.Actor) error {
			actor = current
			found, err := changeable(ctx, r, actor, w)
			if err != nil {
				return err
			}
			return fn(r, found)
		})
	}
	var position task.Position
	for more := true; more; {
		after := position
		err := part(func(r ports.Records, _ workspace.Workspace) (err error) {
			position, more, err = r.Work().TaskSets().RemoveIn(ctx, actor.Org, w, after, task.RemovedTogether)
			return err
		})
		if err != nil {
			return err
		}
	}
	for last, more := "", true; more; more = last != "" {
		after := last
		err := part(func(r ports.Records, found workspace.Workspace) (err error) {
			last, err = s.sweepFiles(ctx, r, actor, found, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepFiles removes files of the workspace as Sweep does.
func (s *Workspaces) sweepFiles(ctx context.Context, r ports.Records, actor org.Actor, w workspace.Workspace, after string) (last string, err error) {
	f := object.Filter{Workspace: w.ID, Scope: object.Shared, After: after}
	return s.sweep(ctx, r, actor.Org, f, actor.User, &object.Audience{Teams: []id.Team{w.Team}})
}

// SetOrder moves the named workspaces to the start of the actor's own order.
func (s *Workspaces) SetOrder(ctx context.Context, actor org.Actor, named []id.Workspace) error {
	return s.atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		refs, err := r.Work().Workspaces().Refs(ctx, actor.Org)
		if err != nil {
			return err
		}
		all := make([]id.Workspace, len(refs))
		for i, w := range refs {
			all[i] = w.ID
		}
		return r.Work().Orders().Update(ctx, actor.Org, actor.User, func(o workspace.Order) (workspace.Order, error) {
			return o.Arrange(named, all, actor.SeesWorkspace)
		})
	})
}

// changeable returns the workspace if the actor may change it.
func changeable(ctx context.Context, r ports.Records, actor org.Actor, w id.Workspace) (workspace.Workspace, error) {
	if err := actor.CheckWrite(); err != nil {
		return workspace.Workspace{}, err
	}
	if !actor.SeesWorkspace(w) {
		return workspace.Workspace{}, fault.Missing("Workspace")
	}
	return r.Work().Workspaces().Get(ctx, actor.Org, w)
}

// withSortOrder returns the workspace with its index in the actor's own order. Seen are the
// workspaces that the actor sees, by creation.
func withSortOrder(ctx context.Context, r ports.Records, actor org.Actor, w workspace.Workspace, seen []id.Workspace) (Sorted, error) {
	order, err := r.Work().Orders().Get(ctx, actor.Org, actor.User)
	return Sorted{w, slices.Index(order.Sort(seen), w.ID)}, err
}
