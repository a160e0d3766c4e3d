package harness_test

import (
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/test/must"
)

// TestAnOrganisationsStructureHasBounds adds the last team, workspace and member that there may be: further ones are
// refused, and the records can still be used and removed.
func TestAnOrganisationsStructureHasBounds(t *testing.T) {
	c, ctx := core(t), t.Context()
	ada := newOrganisation(t, c)
	work := c.Store.Work()
	first := must.Do(c.Teams.Create(ctx, ada, team.Draft{Name: "T"})).Or(t)
	for range team.MaxTeams - 2 {
		v := first
		v.ID = id.Team(c.IDs.New())
		must.NoError(t, work.Teams().Add(ctx, ada.Org, v))
	}
	ada = must.Do(c.Access.Reauthorize(ctx, ada)).Or(t)
	must.Do(c.Teams.Create(ctx, ada, team.Draft{Name: "T"})).Or(t)
	must.Fail(t, must.ErrorOf(c.Teams.Create(ctx, ada, team.Draft{Name: "T"})), fault.Conflict)

	for range workspace.MaxWorkspaces - 1 {
		must.NoError(t, work.Workspaces().Add(ctx, ada.Org, workspace.Workspace{ID: id.Workspace(c.IDs.New()), Org: ada.Org, Team: first.ID}))
	}
	made := must.Do(c.Workspaces.Create(ctx, ada, workspace.Draft{Name: "W", Team: first.ID})).Or(t)
	must.Is(t, workspace.MaxWorkspaces-1, made.SortOrder)
	must.Fail(t, must.ErrorOf(c.Workspaces.Create(ctx, ada, workspace.Draft{Name: "W", Team: first.ID})), fault.Conflict)

	join := func() id.User {
		u := id.User(c.IDs.New())
		must.Do(c.Store.Directory().Users().Upsert(ctx, org.User{ID: u, ProviderID: string(u)}, func(u org.User) (org.User, error) { return u, nil })).Or(t)
		must.NoError(t, c.Store.Directory().Members().Put(ctx, ada.Org, org.Membership{Org: ada.Org, User: u, Role: org.Member, JoinedAt: start}))
		return u
	}
	for range team.MaxMembers - 2 {
		must.Do(work.TeamMembers().Put(ctx, ada.Org, team.Member{Team: first.ID, User: join(), JoinedAt: start})).Or(t)
	}
	last, late := join(), join()
	must.Do(c.Teams.AddMember(ctx, ada, first.ID, last)).Or(t)
	must.Fail(t, must.ErrorOf(c.Teams.AddMember(ctx, ada, first.ID, late)), fault.Conflict)
	must.Do(c.Teams.AddMember(ctx, ada, first.ID, last)).Or(t) // who is in it
	must.NoError(t, c.Teams.RemoveMember(ctx, ada, first.ID, last))
	must.Do(c.Teams.AddMember(ctx, ada, first.ID, late)).Or(t)
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
		return c.Members.DeleteInvitation(ctx, actor, made.ID)
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
