// Package onboarding seeds new organisations and completes the onboarding of members.
package onboarding

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/seed"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

// Onboarding are the use cases of onboarding.
type Onboarding struct {
	clock ports.Clock
	ids   ports.IDs

	locked, atomic Transaction
}

// Transaction is access.Access.Locked or access.Access.Atomic.
type Transaction func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error

func New(clock ports.Clock, ids ports.IDs, locked, atomic Transaction) *Onboarding {
	return &Onboarding{clock: clock, ids: ids, locked: locked, atomic: atomic}
}

// Complete marks the actor's onboarding complete. It is idempotent.
func (s *Onboarding) Complete(ctx context.Context, actor org.Actor) error {
	return s.atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		m, err := r.Directory().Members().GetLocked(ctx, actor.Org, actor.User)
		if err != nil {
			return err
		}
		return r.Directory().Members().Put(ctx, actor.Org, m.Onboarded())
	})
}

// Seeded has the records that Seed created; the zero value if the organisation was seeded before.
type Seeded struct {
	Seeded            bool
	SharedTeam        id.Team
	PersonalTeam      id.Team
	SharedWorkspace   id.Workspace
	PersonalWorkspace id.Workspace
	Tasks             []id.Task // the personal ones, then the shared ones
}

// Seed makes the organisation's first teams, workspaces and tasks. Concurrent and repeated
// calls make them once, as an organisation can have only one shared team.
func (s *Onboarding) Seed(ctx context.Context, actor org.Actor) (Seeded, error) {
	var seeded Seeded
	err := s.locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		// Lists order by id what was created at the same time, so ids are made in that order.
		seeded = Seeded{
			Seeded:     true,
			SharedTeam: id.Team(s.ids.New()), PersonalTeam: id.Team(s.ids.New()),
			PersonalWorkspace: id.Workspace(s.ids.New()), SharedWorkspace: id.Workspace(s.ids.New()),
		}
		if err := s.team(ctx, r, actor, seeded.SharedTeam, team.Shared, seed.SharedTeam); err != nil {
			return err
		}
		if err := s.team(ctx, r, actor, seeded.PersonalTeam, team.Personal, seed.PersonalTeam); err != nil {
			return err
		}
		own := team.Member{Team: seeded.PersonalTeam, User: actor.User, JoinedAt: s.clock.Now()}
		if _, err := r.Work().TeamMembers().Put(ctx, actor.Org, own); err != nil {
			return err
		}
		personal, shared := seed.Tasks()
		if err := s.workspace(ctx, r, actor, &seeded, seeded.PersonalWorkspace, seeded.PersonalTeam, seed.PersonalWorkspace, personal); err != nil {
			return err
		}
		return s.workspace(ctx, r, actor, &seeded, seeded.SharedWorkspace, seeded.SharedTeam, seed.SharedWorkspace, shared)
	})
	if fault.Is(err, fault.Conflict) {
		return Seeded{}, nil
	}
	if err != nil {
		return Seeded{}, err
	}
	return seeded, nil
}

func (s *Onboarding) team(ctx context.Context, r ports.Records, actor org.Actor, t id.Team, kind team.Kind, name string) error {
	created, err := team.New(t, actor.Org, kind, actor.User, team.Draft{Name: name}, s.clock.Now())
	if err != nil {
		return err
	}
	return r.Work().Teams().Add(ctx, actor.Org, created)
}

func (s *Onboarding) workspace(
	ctx context.Context, r ports.Records, actor org.Actor, seeded *Seeded, w id.Workspace, in id.Team,
	name string, tasks []task.Draft,
) error {
	now := s.clock.Now()
	space, err := workspace.New(w, actor.Org, actor.User, workspace.Draft{Name: name, Team: in}, now)
	if err != nil {
		return err
	}
	if err := r.Work().Workspaces().Add(ctx, actor.Org, space); err != nil {
		return err
	}
	for _, d := range tasks {
		d.Workspace = &w
		t, err := task.New(id.Task(s.ids.New()), actor.Org, actor.User, d, now)
		if err != nil {
			return err
		}
		if _, err := r.Work().Tasks().Add(ctx, actor.Org, t); err != nil {
			return err
		}
		seeded.Tasks = append(seeded.Tasks, t.ID)
	}
	return nil
}
