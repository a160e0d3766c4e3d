package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

// named returns a function that finds the only record of a list of which name is one of the texts, in any case.
func named[T any](kind, name string, texts func(T) []string) func(*apiclient.List[T], error) (T, error) {
	return func(list *apiclient.List[T], err error) (found T, _ error) {
		if err != nil {
			return found, err
		}
		n := 0
		for r, err := range list.All() {
			if err != nil {
				return found, err
			}
			if slices.ContainsFunc(texts(r), func(text string) bool { return strings.EqualFold(text, name) }) {
				found = r
				n++
			}
		}
		switch n {
		case 0:
			return found, fmt.Errorf("there is no %s %q", kind, name)
		case 1:
			return found, nil
		}
		return found, fmt.Errorf("%d %ss are called %q: name one by its id", n, kind, name)
	}
}

func memberOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Member, error) {
	return named("member", name, func(m apiclient.Member) []string {
		return []string{m.UserID, or(m.Email, m.UserID), or(m.Name, m.UserID)}
	})(client.ListMembers(ctx, apiclient.ListMembersParams{}))
}

func teamOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Team, error) {
	return named("team", name, func(t apiclient.Team) []string { return []string{t.ID, t.Name} })(client.ListTeams(ctx))
}

func workspaceOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Workspace, error) {
	return named("workspace", name, func(w apiclient.Workspace) []string { return []string{w.ID, w.Name} })(client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{}))
}

// workspaceID returns the id of a workspace, and nothing for nothing.
func workspaceID(ctx context.Context, client *apiclient.Client, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	w, err := workspaceOf(ctx, client, name)
	return w.ID, err
}

// removes returns a command that removes what its argument names. Where a person can be asked, they are before.
func removes[T any](a *app, use, short string, find func(context.Context, *apiclient.Client, string) (T, error),
	remove func(context.Context, *apiclient.Client, T) (apiclient.Success, error)) *cobra.Command {
	var yes bool
	c := command(use, short, 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		found, err := find(ctx, client, args[0])
		if err != nil {
			return err
		}
		if a.canAsk() && !yes {
			answer, err := a.question(ctx, "%s: %s? [y/N] ", short, args[0])
			if err != nil {
				return err
			}
			if !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
				return exitError{exitCancelled, errors.New("nothing was removed")}
			}
		}
		_, err = remove(ctx, client, found)
		return err
	}))
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
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

// lists returns a command that prints the records of a response.
func lists[T any](a *app, use, short string, columns func(T) []column, call func(*apiclient.Client, context.Context) (*apiclient.List[T], error)) *cobra.Command {
	return command(use, short, 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return all(a, columns)(call(client, ctx))
	}))
}

func memberColumns(m apiclient.Member) []column {
	return []column{{"name", or(m.Name, "")}, {"email", or(m.Email, "")}, {"role", m.Role}, {"joined", day(m.JoinedAt)}, {"id", m.UserID}}
}

func (a *app) members() *cobra.Command {
	var found apiclient.ListMembersParams
	list := command("list", "List members", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return all(a, memberColumns)(client.ListMembers(ctx, found))
	}))
	list.Flags().StringVar(&found.Search, "search", "", "only those with all words of this `text` in their names or e-mail addresses")
	role := command("role MEMBER ROLE", "Change a member's role", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		m, err := memberOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return one(a, memberColumns, func() (apiclient.Member, error) {
			return client.ChangeRole(ctx, m.UserID, apiclient.RoleChange{Role: strings.ToUpper(args[1])})
		})
	}))
	remove := removes(a, "remove MEMBER", "Remove a member", memberOf, func(ctx context.Context, client *apiclient.Client, m apiclient.Member) (apiclient.Success, error) {
		return client.RemoveMember(ctx, m.UserID)
	})
	members := group("members", "Work with the organisation's members", list, role, remove)
	members.Long = "A MEMBER is a name, an e-mail address or an id; a ROLE is owner, admin, member or viewer."
	return members
}

func invitationOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Invitation, error) {
	return named("invitation", name, func(i apiclient.Invitation) []string { return []string{i.ID, i.Email} })(client.ListInvitations(ctx))
}

func (a *app) invitations() *cobra.Command {
	columns := func(i apiclient.InvitationWithAddress) []column {
		return []column{{"email", i.Email}, {"role", i.Role}, {"expires", day(i.ExpiresAt)}, {"address", i.InviteURL}}
	}
	role := "member"
	send := command("send EMAIL", "Invite somebody", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return one(a, columns, func() (apiclient.InvitationWithAddress, error) {
			return client.Invite(ctx, apiclient.Invite{Email: args[0], Role: strings.ToUpper(role)})
		})
	}))
	oneOf(send, &role, "role", "the role", "owner", "admin", "member", "viewer")
	list := lists(a, "list", "List pending invitations", func(i apiclient.Invitation) []column {
		return []column{{"email", i.Email}, {"role", i.Role}, {"expires", day(i.ExpiresAt)}, {"id", i.ID}}
	}, (*apiclient.Client).ListInvitations)
	resend := command("resend EMAIL", "Send an invitation again, with another address", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		i, err := invitationOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return one(a, columns, func() (apiclient.InvitationWithAddress, error) { return client.ResendInvitation(ctx, i.ID) })
	}))
	revoke := removes(a, "revoke EMAIL", "Withdraw an invitation", invitationOf, func(ctx context.Context, client *apiclient.Client, i apiclient.Invitation) (apiclient.Success, error) {
		return client.DeleteInvitation(ctx, i.ID)
	})
	return group("invite", "Invite people to the organisation", send, list, resend, revoke)
}

func (a *app) teams() *cobra.Command {
	columns := func(t apiclient.Team) []column {
		return []column{{"name", t.Name}, {"description", or(t.Description, "")}, {"id", t.ID}}
	}
	list := lists(a, "list", "List teams", columns, (*apiclient.Client).ListTeams)
	var description string
	add := command("add NAME", "Add a team", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return one(a, columns, func() (apiclient.Team, error) {
			return client.CreateTeam(ctx, apiclient.TeamDraft{Name: args[0], Description: given(description)})
		})
	}))
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := removes(a, "remove TEAM", "Delete a team", teamOf, func(ctx context.Context, client *apiclient.Client, t apiclient.Team) (apiclient.Success, error) {
		return client.DeleteTeam(ctx, t.ID)
	})
	members := command("members TEAM", "List the members of a team", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return all(a, func(m apiclient.TeamMember) []column {
			return []column{{"name", or(m.Name, "")}, {"email", or(m.Email, "")}, {"id", m.UserID}}
		})(client.ListTeamMembers(ctx, t.ID))
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
	columns := func(w apiclient.Workspace) []column {
		return []column{{"name", w.Name}, {"team", w.TeamID}, {"description", or(w.Description, "")}, {"id", w.ID}}
	}
	list := command("list", "List workspaces", 0, 0, a.with(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return all(a, columns)(client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{}))
	}))
	var team, description string
	add := command("add NAME", "Add a workspace", 1, 1, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, cmp.Or(team, "Shared"))
		if err != nil {
			return err
		}
		return one(a, columns, func() (apiclient.Workspace, error) {
			return client.CreateWorkspace(ctx, apiclient.WorkspaceDraft{Name: args[0], TeamID: t.ID, Description: given(description)})
		})
	}))
	add.Flags().StringVar(&team, "team", "", "the team's id or `name`; Shared if it is not given")
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := removes(a, "remove WORKSPACE", "Delete a workspace", workspaceOf, func(ctx context.Context, client *apiclient.Client, w apiclient.Workspace) (apiclient.Success, error) {
		return client.DeleteWorkspace(ctx, w.ID)
	})
	move := command("move WORKSPACE TEAM", "Move a workspace to another team", 2, 2, a.with(func(ctx context.Context, client *apiclient.Client, args []string) error {
		w, err := workspaceOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		t, err := teamOf(ctx, client, args[1])
		if err != nil {
			return err
		}
		return one(a, columns, func() (apiclient.Workspace, error) {
			return client.MoveWorkspace(ctx, w.ID, apiclient.Move{TargetTeamID: t.ID})
		})
	}))
	return group("workspaces", "Work with workspaces", list, add, remove, move)
}
