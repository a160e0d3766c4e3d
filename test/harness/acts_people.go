package harness

import (
	"context"
	"strings"

	"collab/app/access"
	"collab/app/members"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/session"
)

// peopleActs are how people come, sign in and find their way.
var peopleActs = []*act{
	{
		who: person, name: "sign-up", args: "org name email slug", open: true, begins: true,
		does: "Makes an account at the identity provider, and an organisation called `org` whose owner the person is, and signs in. Without `org` the person belongs to none. Name and address follow from who it is, unless they are given. Answers as `sign-in` does.",
		do:   signUp,
	},
	{
		who: person, name: "join", on: "org", args: "role", open: true, begins: true,
		does: "Has the identity provider make the person a member of an organisation, MEMBER unless `role` says something else, and work there from then on. Nobody asks the plan. Signing in comes with the next act.",
		do: with((*call).subjectTenant, func(c *call, t *tenant) (any, error) {
			return done, c.Identity.join(c.ctx, t, c.person, roleName(c.or("role", string(org.Member))))
		}),
	},
	{
		who: person, name: "accept", on: "invitation", open: true, begins: true,
		does: "Follows the link of an invitation: the identity provider takes it as accepted, and makes the person a member with its role. Refused once the link is worth nothing any more.",
		do:   accept,
	},
	{
		who: person, name: "sign-in", args: "org identityToken userName userEmail userAvatarUrl orgName orgSlug", open: true,
		does: "Exchanges an identity token for a service token (POST /auth/exchange-token): the one given, else a fresh one. `org` names the organisation to work in from then on. Answers with token, user, org, role, onboardingCompleted and onboardingSeeded. Whoever has no token, or one that has expired, signs in by themselves before anything that they do.",
		do:   signIn,
	},
	{
		who: person, name: "identity-token", open: true,
		does: "Answers with a token of the identity provider (`token`), which is good for a minute.",
		do:   func(c *call) (any, error) { return record{{"token", c.Identity.Token(c.person)}}, nil },
	},
	{
		who: person, name: "refresh", args: "token", open: true,
		does: "Exchanges a service token, the person's own unless one is given, for a new one (POST /auth/refresh), which counts from then on. Answers as `sign-in` does.",
		do: func(c *call) (any, error) {
			s, err := c.Access.Refresh(c.ctx, c.or("token", c.person.token), session.Client{})
			if err != nil {
				return nil, err
			}
			return s, c.World.keep(c.person, s.Token)
		},
	},
	{
		who: person, name: "me", anywhere: true,
		does: "Answers with the profile: user, org, role, onboardingCompleted, onboardingSeeded (GET /auth/me).",
		do:   answers(func(c *call) (access.Session, error) { return c.Access.Me(c.ctx, c.actor) }),
	},
	{
		who: person, name: "complete-onboarding",
		does: "Marks the person's onboarding complete (POST /auth/onboarding-complete).",
		do:   does(func(c *call) error { return c.Onboarding.Complete(c.ctx, c.actor) }),
	},
	{
		who: person, name: "seed",
		does: "Gives the organisation its first teams, workspaces and tasks (POST /auth/seed-onboarding). Answers with seeded, sharedTeamId, personalTeamId, sharedWorkspaceId, personalWorkspaceId and taskIds.",
		do: func(c *call) (any, error) {
			s, err := c.Onboarding.Seed(c.ctx, c.actor)
			return pairs(c.Clock.Now(), "seeded", s.Seeded, "sharedTeamId", s.SharedTeam, "personalTeamId", s.PersonalTeam,
				"sharedWorkspaceId", s.SharedWorkspace, "personalWorkspaceId", s.PersonalWorkspace, "taskIds", s.Tasks), err
		},
	},
}

func signUp(c *call) (any, error) {
	a := c.person
	if len(a.roles) > 0 || a.token != "" {
		return nil, &misuse{c.who + " has signed up already"}
	}
	a.name, a.email = c.or("name", a.name), c.or("email", a.email)
	if err := c.Identity.tellUser(c.ctx, "user.created", a); err != nil {
		return nil, err
	}
	if name := c.text("org"); name != "" {
		t := c.Identity.found(name, c.or("slug", slugOf(name)), a)
		if err := c.Identity.tellOrg(c.ctx, "organization.created", t); err != nil {
			return nil, err
		}
		if err := c.Identity.join(c.ctx, t, a, "org:admin"); err != nil {
			return nil, err
		}
	}
	return c.World.signIn(c.ctx, a)
}

// slugOf is a name as it stands in addresses.
func slugOf(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' }), "-")
}

func signIn(c *call) (any, error) {
	if c.given("org") {
		t, err := c.tenant("org")
		if err != nil {
			return nil, err
		}
		c.person.enter(t)
	}
	token := c.text("identityToken")
	if token == "" {
		token = c.Identity.Token(c.person)
	}
	return c.exchange(c.ctx, c.person, access.Exchange{
		IdentityToken: token, UserName: c.text("userName"), UserEmail: c.text("userEmail"), UserAvatarURL: c.text("userAvatarUrl"),
		OrgName: c.text("orgName"), OrgSlug: c.text("orgSlug"),
	})
}

// signIn has somebody sign in with a fresh token of the identity provider's.
func (w *World) signIn(ctx context.Context, a *account) (any, error) {
	return w.exchange(ctx, a, access.Exchange{IdentityToken: w.Identity.Token(a)})
}

func (w *World) exchange(ctx context.Context, a *account, x access.Exchange) (any, error) {
	s, err := w.Access.Exchange(ctx, x)
	if err != nil {
		return nil, err
	}
	return s, w.keep(a, s.Token)
}

// keep notes the token that somebody uses from now on.
func (w *World) keep(a *account, token string) error {
	claims, err := w.tokens.Read(token)
	if err != nil {
		return err
	}
	a.token, a.expires = token, claims.ExpiresAt
	return nil
}

// invitation finds an invitation and the organisation that it is to.
func (w *World) invitation(ctx context.Context, i string) (invitation.Invitation, *tenant, error) {
	for _, t := range w.Identity.tenants {
		o, err := w.Store.Directory().Organisations().ByProvider(ctx, t.id)
		if err != nil {
			continue
		}
		if found, err := w.Store.Directory().Invitations().Get(ctx, o.ID, id.Invitation(i)); err == nil {
			return found, t, nil
		}
	}
	return invitation.Invitation{}, nil, fault.Missing("Invitation")
}

func accept(c *call) (any, error) {
	i, t, err := c.invitation(c.ctx, c.subject())
	if err != nil {
		return nil, err
	}
	switch {
	case i.Stored() != invitation.Pending:
		return nil, fault.Missing("Invitation")
	case i.TokenHash != "": // one that the provider made has its link there
		if _, err := members.Lookup(c.ctx, c.Store, c.Clock, c.invites[i.TokenHash]); err != nil {
			return nil, err
		}
	}
	if i.Email != "" {
		c.person.email = i.Email
	}
	known := i.ProviderID
	if known == "" {
		known = c.Identity.newInvitation()
	}
	role := roleName(string(i.Role))
	if c.person.roles[t] == "" && len(c.person.roles) == 0 {
		if err := c.Identity.tellUser(c.ctx, "user.created", c.person); err != nil {
			return nil, err
		}
	}
	if err := c.Identity.tellInvitation(c.ctx, "organizationInvitation.accepted", t, known, i.Email, role, nil); err != nil {
		return nil, err
	}
	return done, c.Identity.join(c.ctx, t, c.person, role)
}

// orgActs are what people do with members and invitations.
var orgActs = []*act{
	{
		who: person, name: "members",
		does: "Lists the members by when they joined: userId, name, email, avatarUrl, role, onboardingCompleted, joinedAt (GET /org/members).",
		do: lists(func(c *call, each func(org.Profile) error) error {
			return c.Members.List(c.ctx, c.actor, org.Position{}, 0, each)
		}),
	},
	{
		who: person, name: "change-role", on: "user", args: "role*",
		does: "Gives a member another role, and answers with the member (PATCH /org/members/:userId/role).",
		do: answers(func(c *call) (org.Profile, error) {
			return c.Members.ChangeRole(c.ctx, c.actor, id.User(c.subject()), c.text("role"))
		}),
	},
	{
		who: person, name: "remove-member", on: "user",
		does: "Ends a membership; one's own is leaving (DELETE /org/members/:userId).",
		do:   does(func(c *call) error { return c.Members.Remove(c.ctx, c.actor, id.User(c.subject())) }),
	},
	{
		who: person, name: "invite", args: "email* role*",
		does: "Makes an invitation: id, email, role, status, expiresAt, createdAt, acceptedAt, invitedBy, inviteUrl (POST /org/invite).",
		do: answers(func(c *call) (members.Invited, error) {
			return c.Members.Invite(c.ctx, c.actor, c.text("email"), c.text("role"))
		}),
	},
	{
		who: person, name: "invites",
		does: "Lists the invitations that are pending and not expired (GET /org/invites).",
		do: lists(func(c *call, each func(invitation.Invitation) error) error {
			return c.Members.Invites(c.ctx, c.actor, invitation.Position{}, 0, each)
		}),
	},
	{
		who: person, name: "resend", on: "invitation",
		does: "Gives an invitation a new link and 24 hours from now, and answers with it (POST /org/invite/:id/resend).",
		do: answers(func(c *call) (members.Invited, error) {
			return c.Members.Resend(c.ctx, c.actor, id.Invitation(c.subject()))
		}),
	},
	{
		who: person, name: "withdraw", on: "invitation",
		does: "Deletes an invitation (DELETE /org/invite/:id).",
		do:   does(func(c *call) error { return c.Members.Withdraw(c.ctx, c.actor, id.Invitation(c.subject())) }),
	},
	{
		who: person, name: "open-invitation", on: "inviteUrl", open: true,
		does: "Looks at what an invitation's link offers, without being signed in: email, role, expiresAt, organisation, inviter.",
		do: func(c *call) (any, error) {
			_, token, _ := strings.Cut(c.subject(), "token=")
			return answered(c, func() (members.Offer, error) { return members.Lookup(c.ctx, c.Store, c.Clock, token) })
		},
	},
	{
		who: person, name: "audit", args: "limit",
		does: "Lists the audit log, the newest entry first: action, actorId, operator, target, detail, createdAt (GET /org/audit).",
		do: func(c *call) (any, error) {
			limit := int(c.number("limit", 0))
			return answered(c, func() ([]audit.Entry, error) {
				return collect(func(each func(audit.Entry) error) error { return c.Members.Audit(c.ctx, c.actor, "", limit, each) })
			})
		},
	},
}
