package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

// named returns the only record whose id is name, or whose name or address it is, in any case.
func named[T any](list *apiclient.List[T], kind, name string, texts func(T) []string) (found T, err error) {
	n := 0
	for r, err := range list.All() {
		if err != nil {
			return found, err
		}
		for _, text := range texts(r) {
			if strings.EqualFold(text, name) {
				found = r
				n++
				break
			}
		}
	}
	if n != 1 {
		return found, fmt.Errorf("%d %s are called %q", n, kind, name)
	}
	return found, nil
}

func memberOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Member, error) {
	list, err := client.ListMembers(ctx)
	if err != nil {
		return apiclient.Member{}, err
	}
	return named(list, "members", name, func(m apiclient.Member) []string {
		return []string{m.UserID, or(m.Email, m.UserID), or(m.Name, m.UserID)}
	})
}

func teamOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Team, error) {
	list, err := client.ListTeams(ctx)
	if err != nil {
		return apiclient.Team{}, err
	}
	return named(list, "teams", name, func(t apiclient.Team) []string { return []string{t.ID, t.Name} })
}

func workspaceOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Workspace, error) {
	list, err := client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{})
	if err != nil {
		return apiclient.Workspace{}, err
	}
	return named(list, "workspaces", name, func(w apiclient.Workspace) []string { return []string{w.ID, w.Name} })
}

// workspaceID returns the id of a workspace, and nothing for nothing.
func workspaceID(ctx context.Context, client *apiclient.Client, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	w, err := workspaceOf(ctx, client, name)
	return w.ID, err
}

// with returns a command that has a client.
func (a *app) with(run func(ctx context.Context, client *apiclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		return run(c.Context(), client, args)
	}
}

func memberColumns() []column[apiclient.Member] {
	return []column[apiclient.Member]{
		{"name", func(m apiclient.Member) string { return or(m.Name, "") }},
		{"email", func(m apiclient.Member) string { return or(m.Email, "") }},
		{"role", func(m apiclient.Member) string { return m.Role }},
		{"joined", func(m apiclient.Member) string { return day(m.JoinedAt) }},
		{"id", func(m apiclient.Member) string { return m.UserID }},
	}
}

func (a *app) members() *cobra.Command {
	list := command("list", "List members", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListMembers(ctx)
		if err != nil {
			return err
		}
		return rows(a, list.All(), memberColumns()...)
	}))
	role := command("role MEMBER ROLE", "Change a member's role", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		m, err := memberOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		m, err = client.ChangeRole(ctx, m.UserID, apiclient.RoleChange{Role: strings.ToUpper(args[1])})
		if err != nil {
			return err
		}
		return record(a, m, memberColumns()...)
	}))
	remove := command("remove MEMBER", "Remove a member", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		m, err := memberOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		_, err = client.RemoveMember(ctx, m.UserID)
		return err
	}))
	members := group("members", "Work with the organisation's members", list, role, remove)
	members.Long = "A MEMBER is a name, an e-mail address or an id; a ROLE is owner, admin, member or viewer."
	return members
}

func invitationColumns() []column[apiclient.Invitation] {
	return []column[apiclient.Invitation]{
		{"email", func(i apiclient.Invitation) string { return i.Email }},
		{"role", func(i apiclient.Invitation) string { return i.Role }},
		{"expires", func(i apiclient.Invitation) string { return day(i.ExpiresAt) }},
		{"id", func(i apiclient.Invitation) string { return i.ID }},
	}
}

func invitationOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Invitation, error) {
	list, err := client.ListInvitations(ctx)
	if err != nil {
		return apiclient.Invitation{}, err
	}
	return named(list, "invitations", name, func(i apiclient.Invitation) []string { return []string{i.ID, i.Email} })
}

func (a *app) invitations() *cobra.Command {
	sent := func(i apiclient.InvitationWithAddress, err error) error {
		if err != nil {
			return err
		}
		return record(a, i,
			column[apiclient.InvitationWithAddress]{"email", func(i apiclient.InvitationWithAddress) string { return i.Email }},
			column[apiclient.InvitationWithAddress]{"role", func(i apiclient.InvitationWithAddress) string { return i.Role }},
			column[apiclient.InvitationWithAddress]{"expires", func(i apiclient.InvitationWithAddress) string { return day(i.ExpiresAt) }},
			column[apiclient.InvitationWithAddress]{"address", func(i apiclient.InvitationWithAddress) string { return i.InviteURL }})
	}
	role := "member"
	send := command("send EMAIL", "Invite somebody", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return sent(client.Invite(ctx, apiclient.Invite{Email: args[0], Role: strings.ToUpper(role)}))
	}))
	send.Flags().StringVar(&role, "role", role, "the role: owner, admin, member or viewer")
	list := command("list", "List pending invitations", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListInvitations(ctx)
		if err != nil {
			return err
		}
		return rows(a, list.All(), invitationColumns()...)
	}))
	resend := command("resend EMAIL", "Send an invitation again, with another address", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		i, err := invitationOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return sent(client.ResendInvitation(ctx, i.ID))
	}))
	revoke := command("revoke EMAIL", "Withdraw an invitation", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		i, err := invitationOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		_, err = client.DeleteInvitation(ctx, i.ID)
		return err
	}))
	return group("invite", "Invite people to the organisation", send, list, resend, revoke)
}

func (a *app) teams() *cobra.Command {
	columns := []column[apiclient.Team]{
		{"name", func(t apiclient.Team) string { return t.Name }},
		{"description", func(t apiclient.Team) string { return or(t.Description, "") }},
		{"id", func(t apiclient.Team) string { return t.ID }},
	}
	list := command("list", "List teams", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListTeams(ctx)
		if err != nil {
			return err
		}
		return rows(a, list.All(), columns...)
	}))
	var description string
	add := command("add NAME", "Add a team", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := client.CreateTeam(ctx, apiclient.TeamDraft{Name: args[0], Description: given(description)})
		if err != nil {
			return err
		}
		return record(a, t, columns...)
	}))
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := command("remove TEAM", "Delete a team", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		_, err = client.DeleteTeam(ctx, t.ID)
		return err
	}))
	members := command("members TEAM", "List the members of a team", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		list, err := client.ListTeamMembers(ctx, t.ID)
		if err != nil {
			return err
		}
		return rows(a, list.All(),
			column[apiclient.TeamMember]{"name", func(m apiclient.TeamMember) string { return or(m.Name, "") }},
			column[apiclient.TeamMember]{"email", func(m apiclient.TeamMember) string { return or(m.Email, "") }},
			column[apiclient.TeamMember]{"id", func(m apiclient.TeamMember) string { return m.UserID }})
	}))
	join := command("join TEAM MEMBER", "Add a member to a team", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, m, err := teamAndMember(ctx, client, args)
		if err != nil {
			return err
		}
		_, err = client.AddTeamMember(ctx, t.ID, apiclient.TeamMemberDraft{UserID: m.UserID})
		return err
	}))
	leave := command("leave TEAM MEMBER", "Remove a member from a team", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, m, err := teamAndMember(ctx, client, args)
		if err != nil {
			return err
		}
		_, err = client.RemoveTeamMember(ctx, t.ID, m.UserID)
		return err
	}))
	return group("teams", "Work with teams", list, add, remove, members, join, leave)
}

func teamAndMember(ctx context.Context, client *apiclient.Client, args []string) (t apiclient.Team, m apiclient.Member, err error) {
	if t, err = teamOf(ctx, client, args[0]); err == nil {
		m, err = memberOf(ctx, client, args[1])
	}
	return t, m, err
}

func (a *app) workspaces() *cobra.Command {
	columns := []column[apiclient.Workspace]{
		{"name", func(w apiclient.Workspace) string { return w.Name }},
		{"team", func(w apiclient.Workspace) string { return w.TeamID }},
		{"description", func(w apiclient.Workspace) string { return or(w.Description, "") }},
		{"id", func(w apiclient.Workspace) string { return w.ID }},
	}
	list := command("list", "List workspaces", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		list, err := client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{})
		if err != nil {
			return err
		}
		return rows(a, list.All(), columns...)
	}))
	var team, description string
	add := command("add NAME", "Add a workspace", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, cmp.Or(team, "Shared"))
		if err != nil {
			return err
		}
		w, err := client.CreateWorkspace(ctx, apiclient.WorkspaceDraft{Name: args[0], TeamID: t.ID, Description: given(description)})
		if err != nil {
			return err
		}
		return record(a, w, columns...)
	}))
	add.Flags().StringVar(&team, "team", "", "the team's id or `name`; Shared if it is not given")
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := command("remove WORKSPACE", "Delete a workspace", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		w, err := workspaceOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		_, err = client.DeleteWorkspace(ctx, w.ID)
		return err
	}))
	move := command("move WORKSPACE TEAM", "Move a workspace to another team", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		w, err := workspaceOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		t, err := teamOf(ctx, client, args[1])
		if err != nil {
			return err
		}
		w, err = client.MoveWorkspace(ctx, w.ID, apiclient.Move{TargetTeamID: t.ID})
		if err != nil {
			return err
		}
		return record(a, w, columns...)
	}))
	return group("workspaces", "Work with workspaces", list, add, remove, move)
}
