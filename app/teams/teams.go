// Package teams is what members do with teams.
package teams

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/ports"
)

// Teams are the use cases of teams.
type Teams struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs
	sweep Sweep
}

// Sweep removes stored objects in a transaction, as objects.Objects.Sweep does.
type Sweep func(context.Context, ports.Records, id.Org, object.Filter, id.User, *object.Audience) error

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, sweep Sweep) *Teams {
	return &Teams{store: store, clock: clock, ids: ids, sweep: sweep}
}

// List returns the teams that the actor belongs to, by creation.
func (s *Teams) List(ctx context.Context, actor org.Actor) ([]team.Team, error) {
	all, err := s.store.Work().Teams().List(ctx, actor.Org)
	if err != nil {
		return nil, err
	}
	own := all[:0]
	for _, t := range all {
		if actor.Sight != nil && actor.Sight.Teams[t.ID] {
			own = append(own, t)
		}
	}
	return own, nil
}

// Get returns a team that the actor can see.
func (s *Teams) Get(ctx context.Context, actor org.Actor, t id.Team) (team.Team, error) {
	return visible(ctx, s.store, actor, t)
}

// Create makes a team whose first member is its creator.
func (s *Teams) Create(ctx context.Context, actor org.Actor, d team.Draft) (team.Team, error) {
	if err := actor.Writes(); err != nil {
		return team.Team{}, err
	}
	now := s.clock.Now()
	made, err := team.New(id.Team(s.ids.New()), actor.Org, team.Standard, actor.User, d, now)
	if err != nil {
		return team.Team{}, err
	}
	err = s.locked(ctx, actor, func(r ports.Records) error {
		if err := r.Work().Teams().Add(ctx, actor.Org, made); err != nil {
			return err
		}
		return r.Work().TeamMembers().Put(ctx, actor.Org, team.Member{Team: made.ID, User: actor.User, JoinedAt: now})
	})
	return made, err
}

// Update changes a team that the actor belongs to or manages.
func (s *Teams) Update(ctx context.Context, actor org.Actor, t id.Team, p team.Patch) (changed team.Team, err error) {
	if err := actor.Writes(); err != nil {
		return team.Team{}, err
	}
	err = s.locked(ctx, actor, func(r ports.Records) error {
		was, err := visible(ctx, r, actor, t)
		if err != nil {
			return err
		}
		if changed, err = was.Apply(p, s.clock.Now()); err != nil {
			return err
		}
		return r.Work().Teams().Put(ctx, actor.Org, changed)
	})
	return changed, err
}

// Delete removes a team without workspaces, and its memory. Whoever saw the
// memory is told of each file.
func (s *Teams) Delete(ctx context.Context, actor org.Actor, t id.Team) error {
	if err := actor.Writes(); err != nil {
		return err
	}
	return s.locked(ctx, actor, func(r ports.Records) error {
		was, err := visible(ctx, r, actor, t)
		if err != nil {
			return err
		}
		workspaces, err := r.Work().Workspaces().List(ctx, actor.Org)
		if err != nil {
			return err
		}
		held := 0
		for _, w := range workspaces {
			if w.Team == t {
				held++
			}
		}
		if err := was.Deletable(actor, held); err != nil {
			return err
		}
		members, err := r.Work().TeamMembers().List(ctx, actor.Org, t)
		if err != nil {
			return err
		}
		seen := object.TeamAudience(was, members)
		if err := s.sweep(ctx, r, actor.Org, object.Filter{Team: t}, actor.User, &seen); err != nil {
			return err
		}
		return r.Work().Teams().Remove(ctx, actor.Org, t)
	})
}

// Members lists a team's members by when they joined. The shared team's are
// the organisation's.
func (s *Teams) Members(ctx context.Context, actor org.Actor, t id.Team) ([]team.Profile, error) {
	of, err := visible(ctx, s.store, actor, t)
	if err != nil {
		return nil, err
	}
	if of.Kind != team.Shared {
		return s.store.Work().TeamMembers().List(ctx, actor.Org, t)
	}
	var all []team.Profile
	err = s.store.Directory().Members().List(ctx, actor.Org, org.Position{}, 0, func(p org.Profile) error {
		all = append(all, team.Profile{Member: team.Member{Team: t, User: p.User, JoinedAt: p.JoinedAt}, Person: p.Person})
		return nil
	})
	return all, err
}

// AddMember puts a member of the organisation into a team; again is the same.
// Everybody is in the shared team already.
func (s *Teams) AddMember(ctx context.Context, actor org.Actor, t id.Team, user id.User) (added team.Profile, err error) {
	if err := actor.Writes(); err != nil {
		return team.Profile{}, err
	}
	err = s.locked(ctx, actor, func(r ports.Records) error {
		to, err := visible(ctx, r, actor, t)
		if err != nil {
			return err
		}
		m, err := r.Directory().Members().Get(ctx, actor.Org, user)
		if fault.Is(err, fault.NotFound) || err == nil && !m.Active() {
			return fault.Field("userId", "must be a member of the organisation")
		}
		if err != nil {
			return err
		}
		joined, err := s.member(ctx, r, actor.Org, to, user)
		if err != nil {
			return err
		}
		if joined == nil {
			if err := to.Joinable(); err != nil {
				return err
			}
			joined = &team.Member{Team: t, User: user, JoinedAt: s.clock.Now()}
			if err := r.Work().TeamMembers().Put(ctx, actor.Org, *joined); err != nil {
				return err
			}
			if err := s.regroup(ctx, r, actor, user); err != nil {
				return err
			}
		}
		if to.Kind == team.Shared {
			joined.JoinedAt = m.JoinedAt
		}
		person, err := r.Directory().Users().Get(ctx, user)
		added = team.Profile{Member: *joined, Person: person}
		return err
	})
	return added, err
}

// member returns the user's place in the team, nil when there is none.
func (s *Teams) member(ctx context.Context, r ports.Records, o id.Org, t team.Team, user id.User) (*team.Member, error) {
	if t.Kind == team.Shared {
		return &team.Member{Team: t.ID, User: user}, nil
	}
	profiles, err := r.Work().TeamMembers().List(ctx, o, t.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range profiles {
		if p.User == user {
			return &p.Member, nil
		}
	}
	return nil, nil
}

// RemoveMember takes a member out of a team. The last one may go too: the
// team stays visible to those who manage the organisation.
func (s *Teams) RemoveMember(ctx context.Context, actor org.Actor, t id.Team, user id.User) error {
	if err := actor.Writes(); err != nil {
		return err
	}
	return s.locked(ctx, actor, func(r ports.Records) error {
		from, err := visible(ctx, r, actor, t)
		if err != nil {
			return err
		}
		if err := from.Joinable(); err != nil {
			return err
		}
		if err := r.Work().TeamMembers().Remove(ctx, actor.Org, t, user); err != nil {
			return err
		}
		return s.regroup(ctx, r, actor, user)
	})
}

// regroup tells a user's clients that the user sees other files from here on.
func (s *Teams) regroup(ctx context.Context, r ports.Records, actor org.Actor, user id.User) error {
	_, err := r.Storage().Changes().Append(ctx, actor.Org, object.Regrouped(object.Audience{Users: []id.User{user}}, actor.User, s.clock.Now()))
	return err
}

// locked runs fn under the organisation's lock, as everything does that
// changes who sees what. An actor who was removed meanwhile is stopped there,
// so that nobody who left is put into a team.
func (s *Teams) locked(ctx context.Context, actor org.Actor, fn func(ports.Records) error) error {
	return s.store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, actor.Org); err != nil {
			return err
		}
		m, err := r.Directory().Members().Get(ctx, actor.Org, actor.User)
		if err != nil {
			return err
		}
		if err := m.Stands(); err != nil {
			return err
		}
		return fn(r)
	})
}

// visible reads a team that the actor can see; any other is not found.
func visible(ctx context.Context, r ports.Records, actor org.Actor, t id.Team) (team.Team, error) {
	if !actor.SeesTeam(t) {
		return team.Team{}, fault.Missing("Team")
	}
	return r.Work().Teams().Get(ctx, actor.Org, t)
}
