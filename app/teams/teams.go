// Package teams has the use cases of members for teams.
package teams

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

// Teams are the use cases of teams.
type Teams struct {
	store ports.Store
	clock ports.Clock
	ids   ports.IDs
	sweep Sweep

	locked, atomic Transaction
}

// Sweep removes stored objects in a transaction, as objects.Objects.Sweep does.
type Sweep func(context.Context, ports.Records, id.Org, object.Filter, id.User, *object.Audience) (last string, err error)

// maxAudience is the largest number of members that is stored with each file of a deleted team.
const maxAudience = 100

// Transaction is access.Access.Locked or access.Access.Atomic.
type Transaction func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, sweep Sweep, locked, atomic Transaction) *Teams {
	return &Teams{store: store, clock: clock, ids: ids, sweep: sweep, locked: locked, atomic: atomic}
}

// batch is how many teams List reads at a time.
const batch = 50

// List calls each with the teams that the actor belongs to, in the order of CreatedAt; after
// and limit page it, zero values mean from the start and all.
func (s *Teams) List(ctx context.Context, actor org.Actor, after id.Position[id.Team], limit int, each func(team.Team) error) error {
	return s.list(ctx, s.store, actor, after, limit, each)
}

// ListUnconfirmed is List for an actor that access.Access.Cached returned: org.ErrEpochChanged,
// before any team, if the organisation is at another epoch than the actor.
func (s *Teams) ListUnconfirmed(ctx context.Context, actor org.Actor, after id.Position[id.Team], limit int, each func(team.Team) error) error {
	return s.list(ctx, s.store.At(actor.Org, actor.Epoch()), actor, after, limit, each)
}

// list reads first, which it always does, from r.
func (s *Teams) list(ctx context.Context, r ports.Records, actor org.Actor, after id.Position[id.Team], limit int, each func(team.Team) error) error {
	own := actor.Visibility.OwnTeams()
	if after != (id.Position[id.Team]{}) {
		refs, err := r.Work().Teams().Refs(ctx, actor.Org)
		if err != nil {
			return err
		}
		own = nil
		for _, t := range refs {
			if actor.BelongsTo(t.ID) && cmp.Or(t.CreatedAt.Compare(after.At), cmp.Compare(t.ID, after.ID)) > 0 {
				own = append(own, t.ID)
			}
		}
		r = s.store
	}
	for shown := 0; ; r = s.store {
		chunk := own[:min(batch, len(own))]
		own = own[len(chunk):]
		found, err := r.Work().Teams().List(ctx, actor.Org, chunk)
		if err != nil {
			return err
		}
		for _, t := range found {
			if err := each(t); err != nil {
				return err
			}
			if shown++; shown == limit {
				return nil
			}
		}
		if len(own) == 0 {
			return nil
		}
	}
}

// Get returns a team that the actor can see.
func (s *Teams) Get(ctx context.Context, actor org.Actor, t id.Team) (team.Team, error) {
	return visible(ctx, s.store, actor, t)
}

// Create makes a team whose first member is its creator.
func (s *Teams) Create(ctx context.Context, actor org.Actor, d team.Draft) (team.Team, error) {
	now := s.clock.Now()
	created, err := team.New(cmp.Or(d.ID, id.Team(s.ids.New())), actor.Org, team.Standard, actor.User, d, now)
	if err != nil {
		return team.Team{}, err
	}
	err = s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		existing, err := r.Work().Teams().Refs(ctx, actor.Org)
		if err != nil {
			return err
		}
		if err := team.CheckLimit(len(existing)); err != nil {
			return err
		}
		if err := r.Work().Teams().Add(ctx, actor.Org, created); err != nil {
			return err
		}
		_, err = r.Work().TeamMembers().Put(ctx, actor.Org, team.Member{Team: created.ID, User: actor.User, JoinedAt: now})
		return err
	})
	return created, err
}

// Update changes a team that the actor belongs to or manages.
func (s *Teams) Update(ctx context.Context, actor org.Actor, t id.Team, p team.Patch) (changed team.Team, err error) {
	err = s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		was, err := changeable(ctx, r, actor, t)
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

// Delete removes a team without workspaces, and its memory files, in several transactions if
// they are many. The users who saw the team get a change for each file, unless they are more
// than maxAudience, and one of their access at the end.
func (s *Teams) Delete(ctx context.Context, actor org.Actor, t id.Team) error {
	for {
		var last string
		err := s.locked(ctx, actor, func(r ports.Records, current org.Actor) (err error) {
			actor = current
			last, err = s.delete(ctx, r, current, t)
			return err
		})
		if err != nil || last == "" {
			return err
		}
		for last != "" {
			after := last
			err := s.atomic(ctx, actor, func(r ports.Records, current org.Actor) (err error) {
				actor = current
				last, err = s.sweepFiles(ctx, r, current, t, after)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
}

// delete removes the team if one transaction can delete its files. Else it deletes the first
// files, and returns the storage key of the last one.
func (s *Teams) delete(ctx context.Context, r ports.Records, actor org.Actor, t id.Team) (last string, err error) {
	if last, err = s.sweepFiles(ctx, r, actor, t, ""); err != nil || last != "" {
		return last, err
	}
	was, err := r.Work().Teams().Get(ctx, actor.Org, t)
	if err != nil {
		return "", err
	}
	audience, err := s.audience(ctx, r, was, 0)
	if err != nil {
		return "", err
	}
	if _, err := r.Storage().Changes().Append(ctx, actor.Org, object.NewAccessChange(audience, actor.User, s.clock.Now())); err != nil {
		return "", err
	}
	return "", r.Work().Teams().Remove(ctx, actor.Org, t)
}

// sweepFiles deletes the team's next files after the storage key, if the actor may delete the
// team. It returns as Sweep does.
func (s *Teams) sweepFiles(ctx context.Context, r ports.Records, actor org.Actor, t id.Team, after string) (last string, err error) {
	was, err := changeable(ctx, r, actor, t)
	if err != nil {
		return "", err
	}
	workspaces, err := r.Work().Workspaces().Refs(ctx, actor.Org)
	if err != nil {
		return "", err
	}
	used := slices.ContainsFunc(workspaces, func(w workspace.Ref) bool { return w.Team == t })
	if err := was.CheckDelete(actor, used); err != nil {
		return "", err
	}
	seen, err := s.audience(ctx, r, was, maxAudience+1)
	if err != nil {
		return "", err
	}
	audience := &seen
	if len(seen.Users) > maxAudience {
		audience = nil // while the team exists, its objects determine it
	}
	return s.sweep(ctx, r, actor.Org, object.Filter{Team: t, After: after}, actor.User, audience)
}

// audience returns who sees the team's objects, with at most limit members; 0: all.
func (s *Teams) audience(ctx context.Context, r ports.Records, t team.Team, limit int) (object.Audience, error) {
	seen := object.TeamAudience(t)
	err := r.Work().TeamMembers().List(ctx, t.Org, t.ID, id.Position[id.User]{}, limit, func(p team.Profile) error {
		seen.Users = append(seen.Users, p.User)
		return nil
	})
	return seen, err
}

// Members calls each with a team's members by when they joined; after and limit page it, zero
// values mean from the start and all. The members of the shared team are the organisation's.
func (s *Teams) Members(ctx context.Context, actor org.Actor, t id.Team, after id.Position[id.User], limit int, each func(team.Profile) error) error {
	found, err := visible(ctx, s.store, actor, t)
	if err != nil {
		return err
	}
	if found.Kind != team.Shared {
		return s.store.Work().TeamMembers().List(ctx, actor.Org, t, after, limit, each)
	}
	return s.store.Directory().Members().List(ctx, actor.Org, org.MemberFilter{After: after, Limit: limit}, func(p org.Profile) error {
		return each(team.Profile{Member: team.Member{Team: t, User: p.User, JoinedAt: p.JoinedAt}, Person: p.Person})
	})
}

// AddMember adds a member of the organisation to a team. It is idempotent, and changes nothing
// for the shared team, to which all members belong.
func (s *Teams) AddMember(ctx context.Context, actor org.Actor, t id.Team, user id.User) (added team.Profile, err error) {
	err = s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		to, err := changeable(ctx, r, actor, t)
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
		joined := team.Member{Team: t, User: user, JoinedAt: m.JoinedAt}
		if to.Kind != team.Shared {
			if joined, err = s.join(ctx, r, actor, to, user); err != nil {
				return err
			}
		}
		person, err := r.Directory().Users().Get(ctx, user)
		added = team.Profile{Member: joined, Person: person}
		return err
	})
	return added, err
}

// join returns the user's membership of the team, and adds it if there is none.
func (s *Teams) join(ctx context.Context, r ports.Records, actor org.Actor, to team.Team, user id.User) (team.Member, error) {
	joined, err := r.Work().TeamMembers().Get(ctx, actor.Org, to.ID, user)
	if !fault.Is(err, fault.NotFound) {
		return joined, err
	}
	if err := to.CheckJoin(); err != nil {
		return joined, err
	}
	joined = team.Member{Team: to.ID, User: user, JoinedAt: s.clock.Now()}
	members, err := r.Work().TeamMembers().Put(ctx, actor.Org, joined)
	if err != nil {
		return joined, err
	}
	if err := team.CheckMemberLimit(members); err != nil {
		return joined, err
	}
	return joined, s.appendAccessChange(ctx, r, actor, user)
}

// RemoveMember removes a member from a team. The last one may be removed, too: owners and
// admins of the organisation still see the team.
func (s *Teams) RemoveMember(ctx context.Context, actor org.Actor, t id.Team, user id.User) error {
	return s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		from, err := changeable(ctx, r, actor, t)
		if err != nil {
			return err
		}
		if err := from.CheckJoin(); err != nil {
			return err
		}
		if err := r.Work().TeamMembers().Remove(ctx, actor.Org, t, user); err != nil {
			return err
		}
		return s.appendAccessChange(ctx, r, actor, user)
	})
}

// appendAccessChange has the user's clients read again which files the user sees.
func (s *Teams) appendAccessChange(ctx context.Context, r ports.Records, actor org.Actor, user id.User) error {
	_, err := r.Storage().Changes().Append(ctx, actor.Org, object.NewAccessChange(object.Audience{Users: []id.User{user}}, actor.User, s.clock.Now()))
	return err
}

// visible returns a team that the actor can see; NotFound for any other.
func visible(ctx context.Context, r ports.Records, actor org.Actor, t id.Team) (team.Team, error) {
	if !actor.SeesTeam(t) {
		return team.Team{}, fault.Missing("Team")
	}
	return r.Work().Teams().Get(ctx, actor.Org, t)
}

// changeable returns a team that the actor can see and may change.
func changeable(ctx context.Context, r ports.Records, actor org.Actor, t id.Team) (team.Team, error) {
	if err := actor.CheckWrite(); err != nil {
		return team.Team{}, err
	}
	return visible(ctx, r, actor, t)
}
