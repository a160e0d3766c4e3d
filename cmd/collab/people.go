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

// findByName returns a function that finds the only record of a list of which name is one of the texts, in any case.
func findByName[T any](kind, name string, namesOf func(T) []string) func(*apiclient.List[T], error) (T, error) {
	return func(list *apiclient.List[T], err error) (found T, _ error) {
		if err != nil {
			return found, err
		}
		n := 0
		for r, err := range list.All() {
			if err != nil {
				return found, err
			}
			if slices.ContainsFunc(namesOf(r), func(text string) bool { return strings.EqualFold(text, name) }) {
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
	return findByName("member", name, func(m apiclient.Member) []string {
		return []string{m.UserID, valueOr(m.Email, m.UserID), valueOr(m.Name, m.UserID)}
	})(client.ListMembers(ctx, apiclient.ListMembersParams{}))
}

func teamOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Team, error) {
	return findByName("team", name, func(t apiclient.Team) []string { return []string{t.ID, t.Name} })(client.ListTeams(ctx))
}

func workspaceOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Workspace, error) {
	return findByName("workspace", name, func(w apiclient.Workspace) []string { return []string{w.ID, w.Name} })(client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{}))
}

// workspaceID returns the id of a workspace, and nothing for nothing.
func workspaceID(ctx context.Context, client *apiclient.Client, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	w, err := workspaceOf(ctx, client, name)
	return w.ID, err
}

// removeCommand returns a command that removes what its argument names. Where a person can be asked, they are before.
func removeCommand[T any](a *app, use, short string, find func(context.Context, *apiclient.Client, string) (T, error),
	remove func(context.Context, *apiclient.Client, T) (apiclient.Success, error)) *cobra.Command {
	var yes bool
	c := command(use, short, 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		found, err := find(ctx, client, args[0])
		if err != nil {
			return err
		}
		if a.canPrompt() && !yes {
			answer, err := a.prompt(ctx, "%s: %s? [y/N] ", short, args[0])
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

// withClient returns a command that has a client.
func (a *app) withClient(run func(ctx context.Context, client *apiclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		client, err := a.newClient()
		if err != nil {
			return err
		}
		return run(c.Context(), client, args)
	}
}

// listCommand returns a command that prints the records of a response.
func listCommand[T any](a *app, use, short string, columns func(T) []column, call func(*apiclient.Client, context.Context) (*apiclient.List[T], error)) *cobra.Command {
	return command(use, short, 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printList(a, columns)(call(client, ctx))
	}))
}

func memberColumns(m apiclient.Member) []column {
	return []column{{"name", valueOr(m.Name, "")}, {"email", valueOr(m.Email, "")}, {"role", m.Role}, {"joined", formatTime(m.JoinedAt)}, {"id", m.UserID}}
}

func (a *app) membersCommand() *cobra.Command {
	var params apiclient.ListMembersParams
	list := command("list", "List members", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printList(a, memberColumns)(client.ListMembers(ctx, params))
	}))
	list.Flags().StringVar(&params.Search, "search", "", "only those with all words of this `text` in their names or e-mail addresses")
	role := command("role MEMBER ROLE", "Change a member's role", 2, 2, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		m, err := memberOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return printOne(a, memberColumns, func() (apiclient.Member, error) {
			return client.ChangeRole(ctx, m.UserID, apiclient.RoleChange{Role: strings.ToUpper(args[1])})
		})
	}))
	remove := removeCommand(a, "remove MEMBER", "Remove a member", memberOf, func(ctx context.Context, client *apiclient.Client, m apiclient.Member) (apiclient.Success, error) {
		return client.RemoveMember(ctx, m.UserID)
	})
	members := group("members", "Work with the organisation's members", list, role, remove)
	members.Long = "A MEMBER is a name, an e-mail address or an id; a ROLE is owner, admin, member or viewer."
	return members
}

func invitationOf(ctx context.Context, client *apiclient.Client, name string) (apiclient.Invitation, error) {
	return findByName("invitation", name, func(i apiclient.Invitation) []string { return []string{i.ID, i.Email} })(client.ListInvitations(ctx))
}

func (a *app) invitationsCommand() *cobra.Command {
	columns := func(i apiclient.InvitationWithAddress) []column {
		return []column{{"email", i.Email}, {"role", i.Role}, {"expires", formatTime(i.ExpiresAt)}, {"address", i.InviteURL}}
	}
	role := "member"
	send := command("send EMAIL", "Invite somebody", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, columns, func() (apiclient.InvitationWithAddress, error) {
			return client.Invite(ctx, apiclient.Invite{Email: args[0], Role: strings.ToUpper(role)})
		})
	}))
	enumFlag(send, &role, "role", "the role", "owner", "admin", "member", "viewer")
	list := listCommand(a, "list", "List pending invitations", func(i apiclient.Invitation) []column {
		return []column{{"email", i.Email}, {"role", i.Role}, {"expires", formatTime(i.ExpiresAt)}, {"id", i.ID}}
	}, (*apiclient.Client).ListInvitations)
	resend := command("resend EMAIL", "Send an invitation again, with another address", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		i, err := invitationOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return printOne(a, columns, func() (apiclient.InvitationWithAddress, error) { return client.ResendInvitation(ctx, i.ID) })
	}))
	revoke := removeCommand(a, "revoke EMAIL", "Withdraw an invitation", invitationOf, func(ctx context.Context, client *apiclient.Client, i apiclient.Invitation) (apiclient.Success, error) {
		return client.DeleteInvitation(ctx, i.ID)
	})
	return group("invite", "Invite people to the organisation", send, list, resend, revoke)
}

func (a *app) teamsCommand() *cobra.Command {
	columns := func(t apiclient.Team) []column {
		return []column{{"name", t.Name}, {"description", valueOr(t.Description, "")}, {"id", t.ID}}
	}
	list := listCommand(a, "list", "List teams", columns, (*apiclient.Client).ListTeams)
	var description string
	add := command("add NAME", "Add a team", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		return printOne(a, columns, func() (apiclient.Team, error) {
			return client.CreateTeam(ctx, apiclient.TeamDraft{Name: args[0], Description: optionalText(description)})
		})
	}))
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := removeCommand(a, "remove TEAM", "Delete a team", teamOf, func(ctx context.Context, client *apiclient.Client, t apiclient.Team) (apiclient.Success, error) {
		return client.DeleteTeam(ctx, t.ID)
	})
	members := command("members TEAM", "List the members of a team", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return printList(a, func(m apiclient.TeamMember) []column {
			return []column{{"name", valueOr(m.Name, "")}, {"email", valueOr(m.Email, "")}, {"id", m.UserID}}
		})(client.ListTeamMembers(ctx, t.ID))
	}))
	join := command("join TEAM MEMBER", "Add a member to a team", 2, 2, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, m, err := teamAndMember(ctx, client, args)
		if err != nil {
			return err
		}
		_, err = client.AddTeamMember(ctx, t.ID, apiclient.TeamMemberDraft{UserID: m.UserID})
		return err
	}))
	leave := command("leave TEAM MEMBER", "Remove a member from a team", 2, 2, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
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

func (a *app) workspacesCommand() *cobra.Command {
	columns := func(w apiclient.Workspace) []column {
		return []column{{"name", w.Name}, {"team", w.TeamID}, {"description", valueOr(w.Description, "")}, {"id", w.ID}}
	}
	list := command("list", "List workspaces", 0, 0, a.withClient(func(ctx context.Context, client *apiclient.Client, _ []string) error {
		return printList(a, columns)(client.ListWorkspaces(ctx, apiclient.ListWorkspacesParams{}))
	}))
	var team, description string
	add := command("add NAME", "Add a workspace", 1, 1, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		t, err := teamOf(ctx, client, cmp.Or(team, "Shared"))
		if err != nil {
			return err
		}
		return printOne(a, columns, func() (apiclient.Workspace, error) {
			return client.CreateWorkspace(ctx, apiclient.WorkspaceDraft{Name: args[0], TeamID: t.ID, Description: optionalText(description)})
		})
	}))
	add.Flags().StringVar(&team, "team", "", "the team's id or `name`; Shared if it is not given")
	add.Flags().StringVar(&description, "description", "", "the description")
	remove := removeCommand(a, "remove WORKSPACE", "Delete a workspace", workspaceOf, func(ctx context.Context, client *apiclient.Client, w apiclient.Workspace) (apiclient.Success, error) {
		return client.DeleteWorkspace(ctx, w.ID)
	})
	move := command("move WORKSPACE TEAM", "Move a workspace to another team", 2, 2, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		w, err := workspaceOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		t, err := teamOf(ctx, client, args[1])
		if err != nil {
			return err
		}
		return printOne(a, columns, func() (apiclient.Workspace, error) {
			return client.MoveWorkspace(ctx, w.ID, apiclient.Move{TargetTeamID: t.ID})
		})
	}))
	return group("workspaces", "Work with workspaces", list, add, remove, move)
}
