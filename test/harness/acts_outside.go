package harness

import (
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

// outsideActs are what happens at the identity provider, and how the messages of
// the providers come.
var outsideActs = slices.Concat([]*act{
	{
		who: idprovider, name: "update-user", on: "user", args: "name email avatarUrl",
		does: "Somebody changes their account: user.updated.",
		do: with((*call).account, func(c *call, a *account) (any, error) {
			a.name, a.email, a.picture = c.or("name", a.name), c.or("email", a.email), c.or("avatarUrl", a.picture)
			return done, c.Identity.tellUser(c.ctx, "user.updated", a)
		}),
	},
	{
		who: idprovider, name: "delete-user", on: "user",
		does: "Somebody deletes their account: user.deleted.",
		do: with((*call).account, func(c *call, a *account) (any, error) {
			return done, c.Identity.tell(c.ctx, "user.deleted", map[string]any{"id": a.id, "deleted": true})
		}),
	},
	{
		who: idprovider, name: "update-organisation", on: "org?", args: "name slug",
		does: "An organisation gets another name or slug: organization.updated. Without a name it is about the only organisation that there is, here and below.",
		do: with((*call).subjectTenant, func(c *call, t *tenant) (any, error) {
			t.name, t.slug = c.or("name", t.name), c.or("slug", t.slug)
			return done, c.Identity.tellOrg(c.ctx, "organization.updated", t)
		}),
	},
	{
		who: idprovider, name: "delete-organisation", on: "org?",
		does: "An organisation is deleted: organization.deleted.",
		do: with((*call).subjectTenant, func(c *call, t *tenant) (any, error) {
			return done, c.Identity.tell(c.ctx, "organization.deleted", map[string]any{"id": t.id, "deleted": true})
		}),
	},
	{
		who: idprovider, name: "set-role", on: "user", args: "role* org quiet",
		does: "A member gets another role at the provider, in its words or ours: organizationMembership.updated. With `quiet=true` there is no message, and tokens alone say it.",
		do: func(c *call) (any, error) {
			a, t, err := c.member()
			if err != nil {
				return nil, err
			}
			quiet := c.flag("quiet")
			return only(c, func() error {
				if a.roles[t] = roleName(c.text("role")); quiet {
					return nil
				}
				return c.Identity.tellMember(c.ctx, "organizationMembership.updated", t, a, a.roles[t])
			})
		},
	},
	{
		who: idprovider, name: "remove-member", on: "user", args: "org",
		does: "A membership ends: organizationMembership.deleted.",
		do: func(c *call) (any, error) {
			a, t, err := c.member()
			if err != nil {
				return nil, err
			}
			role := a.roles[t]
			delete(a.roles, t)
			return done, c.Identity.tellMember(c.ctx, "organizationMembership.deleted", t, a, role)
		},
	},
	{
		who: idprovider, name: "invite", args: "email* role org by",
		does: "Somebody is invited at the provider: organizationInvitation.created. Answers with the invitation as it is here then, unless messages are held back.",
		do:   inviteOutside,
	},
	{
		who: idprovider, name: "revoke", on: "invitation",
		does: "An invitation is taken back at the provider: organizationInvitation.revoked.",
		do: func(c *call) (any, error) {
			i, t, err := c.invitation(c.ctx, c.subject())
			if err != nil {
				return nil, err
			}
			known := i.ProviderID
			if known == "" {
				known = c.Identity.newInvitation()
			}
			return done, c.Identity.tellInvitation(c.ctx, "organizationInvitation.revoked", t, known, i.Email, roleName(string(i.Role)), nil)
		},
	},
	{
		who: idprovider, name: "end-invitation", on: "how", args: "email* role org",
		does: "An invitation that was made there, and was not reported, is accepted or revoked: organizationInvitation.accepted, organizationInvitation.revoked. Whoever accepted it comes by `join`.",
		do: func(c *call) (any, error) {
			t, err := c.tenant("org")
			if err != nil {
				return nil, err
			}
			how := c.subject()
			if how != "accepted" && how != "revoked" {
				return nil, &misuse{"an invitation ends accepted or revoked"}
			}
			return done, c.Identity.tellInvitation(c.ctx, "organizationInvitation."+how, t, c.Identity.newInvitation(), c.text("email"), roleName(c.or("role", string(org.Member))), nil)
		},
	},
}, messageActs(idprovider, func(w *World) *outbox { return &w.Identity.outbox }), messageActs(payers, func(w *World) *outbox { return &w.Payments.outbox }))

// messageActs are what can be done with a provider's messages.
func messageActs(who party, of func(*World) *outbox) []*act {
	return []*act{
		{
			who: who, name: "hold",
			does: "Holds messages back from now on.",
			do: func(c *call) (any, error) {
				of(c.World).held = true
				return done, nil
			},
		},
		{
			who: who, name: "deliver", args: "order copies",
			does: "Sends the messages that wait, and holds none back any more: in their order, or with `order=reversed` the last first; with `copies`, each so many times. Answers with how many were taken, and how many were refused and wait on.",
			do:   func(c *call) (any, error) { return c.deliver(of(c.World)) },
		},
		{
			who: who, name: "repeat", args: "last",
			does: "Sends the last message once more, or the last so many.",
			do: func(c *call) (any, error) {
				last := int(c.number("last", 1))
				return only(c, func() error { return of(c.World).repeat(c.ctx, max(0, last)) })
			},
		},
		{
			who: who, name: "messages",
			does: "Lists the messages that were sent and those that wait, the oldest first: id, type, at, waiting.",
			do: func(c *call) (any, error) {
				all := []any{}
				box := of(c.World)
				for _, m := range box.sent {
					all = append(all, pairs(c.Clock.Now(), "id", m.ID, "type", m.Type, "at", m.At, "waiting", false))
				}
				for _, m := range box.kept {
					all = append(all, pairs(c.Clock.Now(), "id", m.ID, "type", m.Type, "at", m.At, "waiting", true))
				}
				return all, nil
			},
		},
	}
}

// maxCopies is how often a message can be sent at once.
const maxCopies = 100

func (c *call) deliver(box *outbox) (any, error) {
	copies := int(c.number("copies", 1))
	if copies < 1 || copies > maxCopies {
		return nil, &misuse{"copies are 1 to 100"}
	}
	var order func([]message)
	switch c.or("order", "kept") {
	case "kept":
	case "reversed":
		order = slices.Reverse[[]message]
	default:
		return nil, &misuse{"the order is reversed, or is not given"}
	}
	if err := c.bad(); err != nil {
		return nil, err
	}
	box.held = false
	taken, refused := box.deliver(c.ctx, order)
	for range copies - 1 {
		if err := box.repeat(c.ctx, taken); err != nil {
			return nil, err
		}
	}
	return record{}.with("taken", int64(taken)).with("refused", int64(refused)), nil
}

// account returns the account that an act is about.
func (c *call) account() (*account, error) { return c.Identity.accountOf(c.ctx, c.subject()) }

// member returns a member that an act is about.
func (c *call) member() (*account, *tenant, error) {
	a, err := c.account()
	if err != nil {
		return nil, nil, err
	}
	t := a.at
	if c.given("org") || t == nil {
		if t, err = c.tenant("org"); err != nil {
			return nil, nil, err
		}
	}
	if a.roles[t] == "" {
		return nil, nil, fault.Missing("Member")
	}
	return a, t, nil
}

func inviteOutside(c *call) (any, error) {
	t, err := c.tenant("org")
	if err != nil {
		return nil, err
	}
	var by *account
	if c.given("by") {
		if by, err = c.Identity.accountOf(c.ctx, c.text("by")); err != nil {
			return nil, err
		}
	}
	invitation := c.Identity.newInvitation()
	if err := c.Identity.tellInvitation(c.ctx, "organizationInvitation.created", t, invitation, c.text("email"), roleName(c.or("role", string(org.Member))), by); err != nil {
		return nil, err
	}
	o, err := c.Store.Directory().Organisations().ByProvider(c.ctx, t.id)
	if err != nil {
		return nil, err
	}
	i, err := c.Store.Directory().Invitations().ByProvider(c.ctx, id.Org(o.ID), invitation)
	if fault.Is(err, fault.NotFound) {
		return done, nil
	}
	return i, err
}
