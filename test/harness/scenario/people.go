package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"collab/app/access"
	"collab/app/changes"
	"collab/app/connectors"
	"collab/app/members"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/test/harness"
)

// personActs are what people do beside requests: in their browsers, at the identity provider,
// and with open streams.
var personActs = []*act{
	{
		party: person, name: "sign-up", args: "org name email slug", begins: true,
		does: "Creates an account at the identity provider and an organisation called `org` with the person as its owner, and signs in. Without `org` the person belongs to none. Name and address default to ones made from the person's name. Returns the result of `sign-in`.",
		do:   signUp,
	},
	{
		party: person, name: "join", subject: "org", args: "role", begins: true,
		does: "The identity provider makes the person a member of an organisation (MEMBER unless `role` is given), which becomes the active one. The plan is not checked. The next request signs in.",
		do: about((*call).subjectOrganisation, func(c *call, o *harness.Organisation) error {
			return c.Identity.AddMember(c.ctx, o, c.account, harness.RoleName(c.or("role", string(org.Member))))
		}),
	},
	{
		party: person, name: "accept", subject: "invitation", begins: true,
		does: "Follows the link of an invitation: the identity provider accepts it and makes the person a member with its role. Refused if the link is no longer valid.",
		do:   without(accept),
	},
	{
		party: person, name: "sign-in", args: "org",
		does: "Exchanges a new identity token for a service token, of the organisation if given. Returns the response of POST /auth/exchange-token.",
		do: func(c *call) (any, error) {
			if c.given("org") {
				o, err := c.organisation(c.text("org"))
				if err != nil {
					return nil, err
				}
				c.account.Active = o
			}
			return c.signIn(c.ctx, c.account)
		},
	},
	{
		party: person, name: "identity-token",
		does: "Returns a token of the identity provider (`token`), valid for a minute.",
		do:   func(c *call) (any, error) { return object{"token": c.Identity.Token(c.account)}, nil },
	},
	{
		party: person, name: "open-invitation", subject: "inviteUrl",
		does: "Reads the invitation of a link without a sign-in: email, role.", begins: true,
		do: func(c *call) (any, error) {
			_, token, _ := strings.Cut(c.subject(), "token=")
			o, err := members.Lookup(c.ctx, c.Store, c.Clock, token)
			return object{"email": o.Email, "role": string(o.Role)}, err
		},
	},
	{
		party: person, name: "leave",
		does: "The person's client aborts the response to the next request after its first part.",
		do: without(func(c *call) error {
			c.leaves = true
			return nil
		}),
	},
	{
		party: person, name: "confirm", subject: "state",
		does: "Opens the authUrl of an authorization in the person's browser and confirms going to the provider. Returns the name of the connector (`label`).",
		do: func(c *call) (any, error) {
			a, err := c.Connectors.Confirmation(c.ctx, c.subject())
			if err != nil {
				return nil, err
			}
			_, err = c.Connectors.Confirm(c.ctx, c.subject(), c.browser())
			return object{"label": a.Label}, err
		},
	},
	{
		party: person, name: "consent", subject: "state", args: "error iss",
		does: "Returns from the provider in the person's browser, with consent or with an error such as access_denied. `iss` is the issuer in the response.",
		do: without(func(c *call) error {
			a := connectors.AuthorizationResponse{State: c.subject(), Error: c.text("error"), Issuer: c.or("iss", harness.Issuer), Redirect: connector.Redirect(harness.CallbackURL, harness.Issuer)}
			if a.Error == "" {
				a.Code = "code"
			}
			return c.Connectors.Finish(c.ctx, a, c.browser())
		}),
	},
	{
		party: person, name: "subscribe", args: "since",
		does: "Subscribes to the changes from now or from a cursor (GET /sync/changes), and ends the person's previous subscription. Returns the `cursor`.",
		do:   subscribe,
	},
	{
		party: person, name: "events",
		does: "Lists the subscription's events since the last listing (`events`), the current `cursor`, and the reason if it has ended (`ended`): expired or removed.",
		do:   events,
	},
}

func (c *call) subjectOrganisation() (*harness.Organisation, error) {
	return c.organisation(c.subject())
}

// browser is the secret that the person's browser holds.
func (c *call) browser() string { return "the browser of " + c.account.ID }

func signUp(c *call) (any, error) {
	a := c.account
	if len(a.Roles) > 0 || c.sessions[a].token != "" {
		return nil, &misuse{c.actor + " has signed up already"}
	}
	a.Name, a.Email = c.or("name", a.Name), c.or("email", a.Email)
	if err := c.Identity.SendUser(c.ctx, "user.created", a); err != nil {
		return nil, err
	}
	if name := c.text("org"); name != "" {
		o := c.Identity.AddOrganisation(name, c.or("slug", slugOf(name)), a)
		if err := c.Identity.SendOrganisation(c.ctx, "organization.created", o); err != nil {
			return nil, err
		}
		if err := c.Identity.AddMember(c.ctx, o, a, "org:admin"); err != nil {
			return nil, err
		}
	}
	return c.signIn(c.ctx, a)
}

// slugOf returns a name as it stands in addresses.
func slugOf(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' }), "-")
}

// invitation finds an invitation and the organisation that it is to.
func (c *call) invitation() (invitation.Invitation, *harness.Organisation, error) {
	for _, o := range c.Identity.Organisations {
		ours, err := c.Store.Directory().Organisations().ByProvider(c.ctx, o.ID)
		if err != nil {
			continue
		}
		if found, err := c.Store.Directory().Invitations().Get(c.ctx, ours.ID, id.Invitation(c.subject())); err == nil {
			return found, o, nil
		}
	}
	return invitation.Invitation{}, nil, fault.Missing("Invitation")
}

func accept(c *call) error {
	i, o, err := c.invitation()
	if err != nil {
		return err
	}
	switch {
	case i.StoredStatus() != invitation.Pending:
		return fault.Missing("Invitation")
	case i.TokenHash != "": // one that the provider made has its link there
		if _, err := members.Lookup(c.ctx, c.Store, c.Clock, c.InviteToken(i.TokenHash)); err != nil {
			return err
		}
	}
	a, role := c.account, harness.RoleName(string(i.Role))
	if i.Email != "" {
		a.Email = i.Email
	}
	known := i.ProviderID
	if known == "" {
		known = c.Identity.NewInvitation()
	}
	if len(a.Roles) == 0 {
		if err := c.Identity.SendUser(c.ctx, "user.created", a); err != nil {
			return err
		}
	}
	if err := c.Identity.SendInvitation(c.ctx, "organizationInvitation.accepted", o, known, i.Email, role, nil); err != nil {
		return err
	}
	return c.Identity.AddMember(c.ctx, o, a, role)
}

// subscription is a person's subscription to the changes. It is read without HTTP, as a
// response does not say that nothing more is on its way.
type subscription struct {
	*changes.Subscriber
	org     id.Org
	allowed func(context.Context) error // nil while the person may follow the changes
}

func subscribe(c *call) (any, error) {
	token, err := c.token(c.ctx, c.account)
	if err != nil {
		return nil, err
	}
	caller, err := c.Access.Verify(c.ctx, token)
	if err != nil {
		return nil, err
	}
	ctx := access.NewContext(c.ctx, caller.Request(""))
	actor, err := c.Access.Authorize(ctx, caller)
	if err == nil {
		err = actor.CheckMember()
	}
	if err != nil {
		return nil, err
	}
	if c.api.ticks == nil {
		c.api.ticks = make(chan time.Time)
		if err := c.api.feed.Start(c.api.ticks); err != nil {
			return nil, err
		}
	}
	s, err := c.api.feed.Subscribe(ctx, actor, c.text("since"), c.given("since"))
	if err != nil {
		return nil, err
	}
	if before := c.subscriptions[c.actor]; before != nil {
		before.Close()
	}
	reauthorize := c.Access.Reauthorizer(ctx)
	c.subscriptions[c.actor] = &subscription{Subscriber: s, org: actor.Org, allowed: func(ctx context.Context) error {
		_, err := reauthorize(ctx, actor)
		return err
	}}
	at, _ := s.Start()
	return object{"cursor": at.String()}, nil
}

// feedTimeout is how long the feed may take to read the log. It is only reached by a feed that
// is broken.
const feedTimeout = 30 * time.Second

func events(c *call) (any, error) {
	s := c.subscriptions[c.actor]
	if s == nil {
		return nil, &misuse{c.actor + " has no subscription"}
	}
	heads, err := c.Store.Storage().Changes().Heads(c.ctx, []id.Org{s.org})
	if err != nil {
		return nil, err
	}
	head := heads[s.org].Cursor()
	ends := s.allowed(c.ctx) != nil
	ctx, cancel := context.WithTimeout(c.ctx, feedTimeout)
	defer cancel()
	for range 2 { // the second reading begins after the first has ended
		select {
		case c.api.ticks <- c.Clock.Now():
		case <-ctx.Done():
		}
	}
	events := []any{}
	for frames := make([][]byte, 0, 64); ; frames = frames[:0] {
		frames = s.Take(frames)
		for _, f := range frames {
			events = append(events, event(string(f)))
		}
		at, _ := s.TakeCursor()
		ended := s.Ended()
		if len(frames) == 0 && (ended != "" || !ends && at.Epoch == head.Epoch && at.N >= head.N) {
			got := object{"cursor": at.String(), "events": events}
			if ended != "" {
				got["ended"] = string(ended)
			}
			return got, nil
		}
		if len(frames) > 0 {
			continue
		}
		select {
		case <-s.Woken():
		case <-ctx.Done():
			return nil, fmt.Errorf("the feed is at %s, and not at %s", at, head)
		}
	}
}
