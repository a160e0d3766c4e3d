package harness_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"collab/app/teams"
	"collab/app/workspaces"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// TestAnOrganisationsStructureHasBounds fills an organisation: additions are refused, and its records can still be
// used and removed.
func TestAnOrganisationsStructureHasBounds(t *testing.T) {
	c := core(t)
	ctx, dir := context.Background(), c.Store.Directory()
	full := func(err error) {
		t.Helper()
		must.Fail(t, err, fault.Conflict)
	}
	must.Do(dir.Organisations().Upsert(ctx, org.Organisation{ID: "o", ProviderID: "org_1"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(t)
	user := func(n int) id.User {
		u := id.User(fmt.Sprint("u", n))
		must.Do(dir.Users().Upsert(ctx, org.User{ID: u, ProviderID: string(u)}, func(u org.User) (org.User, error) { return u, nil })).Or(t)
		must.NoError(t, dir.Members().Put(ctx, "o", org.Membership{Org: "o", User: u, Role: org.Owner, JoinedAt: start}))
		return u
	}
	// The actor is who it was, as finding it anew among so many takes long.
	locked := func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
		return c.Store.Atomic(ctx, func(r ports.Records) error {
			_, err := r.Directory().Organisations().Lock(ctx, actor.Org)
			return errors.Join(err, fn(r, actor))
		})
	}
	grouping, placing := teams.New(c.Store, c.Clock, c.IDs, c.Objects.Sweep, locked, locked), workspaces.New(c.Store, c.Clock, c.IDs, c.Objects.Sweep, locked, locked)
	actor := org.Actor{User: user(0), Org: "o", Role: org.Owner}

	var first team.Team
	for n := range team.MaxTeams {
		made := must.Do(grouping.Create(ctx, actor, team.Draft{Name: "T"})).Or(t)
		if n == 0 {
			first = made
		}
	}
	full(must.ErrorOf(grouping.Create(ctx, actor, team.Draft{Name: "T"})))

	actor.Visibility = org.NewStructure([]id.Team{first.ID}, func(func(id.Workspace, id.Team) bool) {}).
		Visibility(0, func(int) (visible, belongs bool) { return true, true })
	for n := range workspace.MaxWorkspaces {
		made := must.Do(placing.Create(ctx, actor, workspace.Draft{Name: "W", Team: first.ID})).Or(t)
		if made.SortOrder != n {
			t.Fatalf("workspace %d is at %d", n, made.SortOrder)
		}
	}
	full(must.ErrorOf(placing.Create(ctx, actor, workspace.Draft{Name: "W", Team: first.ID})))

	for n := 1; n < team.MaxMembers; n++ {
		must.Do(c.Store.Work().TeamMembers().Put(ctx, "o", team.Member{Team: first.ID, User: user(n), JoinedAt: start})).Or(t)
	}
	late := user(team.MaxMembers)
	full(must.ErrorOf(grouping.AddMember(ctx, actor, first.ID, late)))
	must.Do(grouping.AddMember(ctx, actor, first.ID, "u1")).Or(t) // who is in it
	must.NoError(t, grouping.RemoveMember(ctx, actor, first.ID, "u1"))
	must.Do(grouping.AddMember(ctx, actor, first.ID, late)).Or(t)
}

// TestEmailsOfAnOrganisationHaveARate makes and deletes invitations, which sends as many letters as resending one.
func TestEmailsOfAnOrganisationHaveARate(t *testing.T) {
	c := core(t)
	ctx := t.Context()
	actor := newOrganisation(t, c)
	invite := func() error {
		made, err := c.Members.Invite(ctx, actor, "stranger@example.com", "MEMBER")
		if err != nil {
			return err
		}
		return c.Members.Withdraw(ctx, actor, made.ID)
	}
	for range invitation.Emails.Burst {
		must.NoError(t, invite())
	}
	must.Fail(t, invite(), fault.Limited) // beyond the rate
	c.Clock.Advance(invitation.Emails.Every)
	must.NoError(t, invite())
	must.Fail(t, invite(), fault.Limited) // a second one in the same minute
	c.Clock.Advance(invitation.Emails.Every)
	made := must.Do(c.Members.Invite(ctx, actor, "stranger@example.com", "MEMBER")).Or(t)
	must.Fail(t, must.ErrorOf(c.Members.Resend(ctx, actor, made.ID)), fault.Limited) // sent again beyond the organisation's rate
}
