package scenario

import (
	"errors"
	"slices"
	"strings"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/harness"
)

// providerActs are what happens at the providers.
var providerActs = []*act{
	{
		party: identity, name: "update-user", subject: "user", args: "name email avatarUrl",
		does: "A person changes their account: user.updated.",
		do: about((*call).subjectAccount, func(c *call, a *harness.Account) error {
			a.Name, a.Email, a.Avatar = c.or("name", a.Name), c.or("email", a.Email), c.or("avatarUrl", a.Avatar)
			return c.Identity.SendUser(c.ctx, "user.updated", a)
		}),
	},
	{
		party: identity, name: "delete-user", subject: "user",
		does: "A person deletes their account: user.deleted.",
		do: about((*call).subjectAccount, func(c *call, a *harness.Account) error {
			return c.Identity.Send(c.ctx, "user.deleted", object{"id": a.ID, "deleted": true})
		}),
	},
	{
		party: identity, name: "update-organisation", subject: "org?", args: "name slug",
		does: "An organisation gets another name or slug: organization.updated. Here and below, the id may be omitted if there is only one organisation.",
		do: about((*call).subjectOrganisation, func(c *call, o *harness.Organisation) error {
			o.Name, o.Slug = c.or("name", o.Name), c.or("slug", o.Slug)
			return c.Identity.SendOrganisation(c.ctx, "organization.updated", o)
		}),
	},
	{
		party: identity, name: "delete-organisation", subject: "org?",
		does: "An organisation is deleted: organization.deleted.",
		do: about((*call).subjectOrganisation, func(c *call, o *harness.Organisation) error {
			return c.Identity.Send(c.ctx, "organization.deleted", object{"id": o.ID, "deleted": true})
		}),
	},
	{
		party: identity, name: "set-role", subject: "user", args: "role* org quiet",
		does: "A member gets another role at the provider, by its name or ours: organizationMembership.updated. With `quiet=true` no message is sent, and only tokens have the role.",
		do: about((*call).membership, func(c *call, m membership) error {
			if m.Roles[m.org] = harness.RoleName(c.text("role")); c.flag("quiet") {
				return nil
			}
			return c.Identity.SendMembership(c.ctx, "organizationMembership.updated", m.org, m.Account, m.Roles[m.org])
		}),
	},
	{
		party: identity, name: "remove-member", subject: "user", args: "org",
		does: "A membership ends: organizationMembership.deleted.",
		do: about((*call).membership, func(c *call, m membership) error {
			role := m.Roles[m.org]
			delete(m.Roles, m.org)
			return c.Identity.SendMembership(c.ctx, "organizationMembership.deleted", m.org, m.Account, role)
		}),
	},
	{
		party: identity, name: "invite", args: "email* role org by",
		does: "A person is invited at the provider: organizationInvitation.created. Returns our id of the invitation, if the message was accepted and one is stored.",
		do:   inviteAtProvider,
	},
	{
		party: identity, name: "revoke", subject: "invitation",
		does: "An invitation is revoked at the provider: organizationInvitation.revoked.",
		do: without(func(c *call) error {
			i, o, err := c.invitation()
			if err != nil {
				return err
			}
			known := i.ProviderID
			if known == "" {
				known = c.Identity.NewInvitation()
			}
			return c.Identity.SendInvitation(c.ctx, "organizationInvitation.revoked", o, known, i.Email, harness.RoleName(string(i.Role)), nil)
		}),
	},
	{
		party: identity, name: "end-invitation", subject: "how", args: "email* role org",
		does: "An unreported invitation made at the provider is accepted or revoked: organizationInvitation.accepted, organizationInvitation.revoked. The person who accepted it needs `join`.",
		do: without(func(c *call) error {
			how := c.subject()
			if how != "accepted" && how != "revoked" {
				return &misuse{"an invitation ends accepted or revoked"}
			}
			o, err := c.organisation(c.text("org"))
			if err != nil {
				return err
			}
			return c.Identity.SendInvitation(c.ctx, "organizationInvitation."+how, o, c.Identity.NewInvitation(), c.text("email"), harness.RoleName(c.or("role", string(org.Member))), nil)
		}),
	},

	{
		party: payments, name: "pay", subject: "url", args: "late",
		does: "A person pays on the page of a checkout. With `late=true` the payment has not arrived yet. Returns the page's `status` and the `plan`.",
		do: func(c *call) (any, error) {
			session := strings.TrimPrefix(c.subject(), "https://payments.invalid/")
			if err := c.Payments.PayPage(c.ctx, session, c.flag("late")); err != nil {
				return nil, err
			}
			s, err := c.Payments.Session(c.ctx, session)
			return object{"status": s.Status, "plan": string(s.Plan)}, err
		},
	},
	{
		party: payments, name: "decline", subject: "org?",
		does: "From now on the card is declined when a period begins. Here and below, the id may be omitted if there is only one organisation.",
		do:   without(func(c *call) error { return c.decline(true) }),
	},
	{
		party: payments, name: "allow", subject: "org?",
		does: "From now on the card is accepted.",
		do:   without(func(c *call) error { return c.decline(false) }),
	},
	{
		party: payments, name: "fail", subject: "org?",
		does: "A due payment fails: invoice.payment_failed and customer.subscription.updated.",
		do: about((*call).subscription, func(c *call, r plan.Remote) error {
			return c.Payments.FailPayment(c.ctx, r.ID)
		}),
	},
	{
		party: payments, name: "recover", subject: "org?",
		does: "The failed or late payment succeeds, and its period continues: invoice.paid and customer.subscription.updated.",
		do: about((*call).subscription, func(c *call, r plan.Remote) error {
			return c.Payments.Recover(c.ctx, r)
		}),
	},
	{
		party: payments, name: "set", subject: "org?", args: "status plan seats cancelAtPeriodEnd",
		does: "The subscription is changed at the provider. Statuses: trialing, active, past_due, unpaid, paused, canceled, incomplete and incomplete_expired.",
		do: about((*call).subscription, func(c *call, r plan.Remote) error {
			r.Status, r.Plan = plan.RemoteStatus(c.or("status", string(r.Status))), plan.Plan(c.or("plan", string(r.Plan)))
			if c.given("seats") {
				r.Seats = new(int(c.number("seats", 0)))
			}
			if c.given("cancelAtPeriodEnd") {
				r.CancelAtPeriodEnd = c.flag("cancelAtPeriodEnd")
			}
			c.Payments.Set(r)
			return nil
		}),
	},
	{
		party: payments, name: "forget", subject: "org?",
		does: "The provider no longer knows the subscription.",
		do: about((*call).subscription, func(c *call, r plan.Remote) error {
			c.Payments.Remove(r.ID)
			return nil
		}),
	},

	{
		party: models, name: "say", subject: "text?", args: "input output tool args search times",
		does: "The next call (the next `times` calls) of a model returns the text. `input` and `output` are the tokens counted by the provider, at most those allowed; without them tokens are estimated. The model calls the client's `tool` with `args`, a JSON object; `search` is its web search.",
		do:   without(func(c *call) error { return c.reply(nil) }),
	},
	{
		party: models, name: "fail", subject: "how", args: "after times input",
		does: "The next call (the next `times` calls) fails: overloaded, rate-limited, network, broken, or truncated (a stream without its end). With `after` it fails after that text.",
		do: without(func(c *call) error {
			kind, ok := failures[c.subject()]
			if !ok {
				return &misuse{"a model fails overloaded, rate-limited, network, broken or truncated"}
			}
			return c.reply(&chat.Failure{Kind: kind, Cause: errors.New("planned: the provider failed")})
		}),
	},
	{
		party: models, name: "stall", subject: "text?", args: "input",
		does: "The next call sends the text and then nothing, and the clock advances by ten minutes.",
		do: without(func(c *call) error {
			err := c.reply(nil)
			if n := len(c.Model.Queue); err == nil {
				c.Model.Queue[n-1].Stalling = true
			}
			return err
		}),
	},

	{
		party: tools, name: "answer", subject: "serverId", args: "tools",
		does: "From now on the tool server responds, with these tools, separated by commas.",
		do: without(func(c *call) error {
			var a harness.ToolResponse
			if c.text("tools") != "" {
				a.Names = strings.Split(c.text("tools"), ",")
			}
			return c.Tools.SetResponse(c.subject(), a)
		}),
	},
	{
		party: tools, name: "fail", subject: "serverId", args: "message",
		does: "From now on the tool server cannot be reached, for the reason in the message.",
		do: without(func(c *call) error {
			return c.Tools.SetResponse(c.subject(), harness.ToolResponse{Err: fault.New(fault.Unavailable, "%s", c.or("message", "The server cannot be reached"))})
		}),
	},
	{
		party: tools, name: "refuse", subject: "serverId", args: "message",
		does: "From now on the tool server accepts no credentials.",
		do: without(func(c *call) error {
			return c.Tools.SetResponse(c.subject(), harness.ToolResponse{Err: fault.New(fault.Forbidden, "%s", c.or("message", "The server does not accept the credentials"))})
		}),
	},
	{
		party: tools, name: "revoke-all",
		does: "All authorizations are revoked at their provider: the next refresh of an access token fails permanently. Tokens last an hour.",
		do: without(func(c *call) error {
			c.Tools.RevokeAll()
			return nil
		}),
	},
	{
		party: tools, name: "counts",
		does: "Returns the numbers of listings of tools (`listings`), of valid authorizations (`authorizations`), and of those the server has revoked (`revoked`).",
		do: func(c *call) (any, error) {
			n := c.Tools.Counts()
			return object{"listings": n.Listings, "authorizations": n.Authorizations, "revoked": n.Revoked}, nil
		},
	},
}

// queueActs are what can be done with a provider's webhook messages.
func queueActs(p party) []*act {
	of := func(c *call) *harness.WebhookQueue {
		if p == identity {
			return &c.Identity.Queue
		}
		return &c.Payments.Queue
	}
	return []*act{
		{
			party: p, name: "pause",
			does: "Holds messages from now on.",
			do: without(func(c *call) error {
				of(c).Paused = true
				return nil
			}),
		},
		{
			party: p, name: "deliver", args: "order copies",
			does: "Sends the held messages and stops holding: in order, or last first with `order=reversed`; each `copies` times. Returns the numbers `accepted`, and `failed` and waiting.",
			do:   func(c *call) (any, error) { return c.deliver(of(c)) },
		},
		{
			party: p, name: "redeliver", args: "last",
			does: "Sends the last message again, or the `last` ones.",
			do: without(func(c *call) error {
				return of(c).Redeliver(c.ctx, int(max(0, c.number("last", 1))))
			}),
		},
	}
}

func (c *call) deliver(q *harness.WebhookQueue) (any, error) {
	sort, known := map[string]func([]harness.Message){"kept": nil, "reversed": slices.Reverse[[]harness.Message]}[c.or("order", "kept")]
	if !known {
		return nil, &misuse{"the order is kept or reversed"}
	}
	q.Paused = false
	accepted, failed := q.Deliver(c.ctx, sort)
	for range c.times("copies") - 1 {
		if err := q.Redeliver(c.ctx, accepted); err != nil {
			return nil, err
		}
	}
	return object{"accepted": accepted, "failed": failed}, nil
}

// subjectAccount returns the account that an act is about.
func (c *call) subjectAccount() (*harness.Account, error) {
	return c.Identity.AccountOf(c.ctx, c.subject())
}

// membership is an account in an organisation.
type membership struct {
	*harness.Account
	org *harness.Organisation
}

// membership returns the membership that an act is about.
func (c *call) membership() (m membership, err error) {
	if m.Account, err = c.subjectAccount(); err != nil {
		return m, err
	}
	if m.org = m.Active; c.given("org") || m.org == nil {
		if m.org, err = c.organisation(c.text("org")); err != nil {
			return m, err
		}
	}
	if m.Roles[m.org] == "" {
		err = fault.Missing("Member")
	}
	return m, err
}

func inviteAtProvider(c *call) (any, error) {
	o, err := c.organisation(c.text("org"))
	if err != nil {
		return nil, err
	}
	var by *harness.Account
	if c.given("by") {
		if by, err = c.Identity.AccountOf(c.ctx, c.text("by")); err != nil {
			return nil, err
		}
	}
	invitation := c.Identity.NewInvitation()
	if err := c.Identity.SendInvitation(c.ctx, "organizationInvitation.created", o, invitation, c.text("email"), harness.RoleName(c.or("role", string(org.Member))), by); err != nil {
		return nil, err
	}
	ours, err := c.Store.Directory().Organisations().ByProvider(c.ctx, o.ID)
	if err != nil {
		return nil, err
	}
	i, err := c.Store.Directory().Invitations().ByProvider(c.ctx, ours.ID, invitation)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return object{"id": string(i.ID)}, err
}

func (c *call) decline(is bool) error {
	o, err := c.ourOrganisation()
	c.Payments.Declined[o] = is
	return err
}

// subscription returns the subscription of an organisation at the payment provider.
func (c *call) subscription() (plan.Remote, error) {
	o, err := c.ourOrganisation()
	if err != nil {
		return plan.Remote{}, err
	}
	return c.Payments.Latest(c.ctx, o)
}

var failures = map[string]chat.FailureKind{
	"overloaded": chat.Overloaded, "rate-limited": chat.RateLimited, "network": chat.Network, "broken": chat.OtherFailure, "truncated": chat.Truncated,
}

// reply sets the response of the next calls of a model.
func (c *call) reply(failure *chat.Failure) error {
	r := harness.Reply{
		Text: c.subject(), Input: c.number("input", -1), Output: c.number("output", -1),
		Tool: c.text("tool"), Args: c.or("args", "{}"), Search: c.text("search"), Failure: failure,
	}
	if failure != nil {
		r.Text = c.text("after")
	}
	for range c.times("times") {
		c.Model.Queue = append(c.Model.Queue, r)
	}
	return nil
}
