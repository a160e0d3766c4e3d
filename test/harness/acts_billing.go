package harness

import (
	"collab/app/billing"
	"collab/app/operator"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
)

// billingActs are what people pay for, and what the payment provider and the
// operator do.
var billingActs = []*act{
	{
		who: person, name: "billing",
		does: "Answers with the subscription: plan, status, seats, purchasedSeats, currentPeriodStart, currentPeriodEnd, cancelAtPeriodEnd, trialEnd, managedExternally, hasPaymentMethod, allowed, hasActivePlan, hadPriorSubscription (GET /billing/subscription, GET /billing/status).",
		do:   answers(func(c *call) (billing.Details, error) { return c.Billing.Subscription(c.ctx, c.actor) }),
	},
	{
		who: person, name: "start-trial",
		does: "Starts the trial, and answers as `billing` does (POST /billing/trial).",
		do:   answers(func(c *call) (billing.Details, error) { return c.Billing.Trial(c.ctx, c.actor) }),
	},
	{
		who: person, name: "checkout", args: "plan*",
		does: "Answers with the page to pay on: url and session (POST /billing/checkout). Where the plan of a subscription was changed there is no session.",
		do:   checkout,
	},
	{
		who: person, name: "pay", on: "session", args: "late", open: true,
		does: "Pays on a page. With `late=true` the payment is not there yet. Answers with status and plan, as the page does that somebody comes back to (GET /billing/checkout/success).",
		do: func(c *call) (any, error) {
			late := c.flag("late")
			return answered(c, func() (plan.Session, error) {
				if _, err := c.Payments.pay(c.ctx, c.subject(), late); err != nil {
					return plan.Session{}, err
				}
				return c.Payments.Payments.Session(c.ctx, c.subject())
			})
		},
	},
	{
		who: person, name: "downgrade",
		does: "Ends a trial at once and a paid plan when its period ends, and answers as `billing` does (POST /billing/downgrade).",
		do:   answers(func(c *call) (billing.Details, error) { return c.Billing.Downgrade(c.ctx, c.actor) }),
	},
	{
		who: person, name: "portal",
		does: "Answers with the url of the customer portal (POST /billing/portal).",
		do: func(c *call) (any, error) {
			url, err := c.Billing.Portal(c.ctx, c.actor)
			return record{{"url", unset(url)}}, err
		},
	},

	{
		who: payers, name: "decline", on: "org?",
		does: "From now on the organisation's card is declined when a period begins. Without a name it is about the only organisation that there is, here and below.",
		do:   func(c *call) (any, error) { return c.decline(true) },
	},
	{
		who: payers, name: "allow", on: "org?",
		does: "From now on the card is not declined any more.",
		do:   func(c *call) (any, error) { return c.decline(false) },
	},
	{
		who: payers, name: "fail", on: "org?",
		does: "A payment that was due was not made: the messages are invoice.payment_failed and customer.subscription.updated.",
		do: with((*call).remote, func(c *call, r plan.Remote) (any, error) {
			return done, c.Payments.fail(c.ctx, r.ID)
		}),
	},
	{
		who: payers, name: "recover", on: "org?",
		does: "The payment that had failed, or that was late, was made, and the period that it is for goes on: invoice.paid and customer.subscription.updated.",
		do: with((*call).remote, func(c *call, r plan.Remote) (any, error) {
			if r.PeriodEnd.After(c.Clock.Now()) {
				r.Status = plan.IsActive
				c.Payments.Set(r)
			} else {
				var err error
				if r, err = c.Payments.Renew(r.ID); err != nil {
					return nil, err
				}
			}
			if err := c.Payments.tell(c.ctx, "invoice.paid", invoiceData(r)); err != nil {
				return nil, err
			}
			return done, c.Payments.look(c.ctx)
		}),
	},
	{
		who: payers, name: "set", on: "org?", args: "status plan seats cancelAtPeriodEnd",
		does: "Somebody changes the subscription at the provider, whose words for the status are trialing, active, past_due, unpaid, paused, canceled, incomplete and incomplete_expired.",
		do:   setRemote,
	},
	{
		who: payers, name: "forget", on: "org?",
		does: "The provider knows the subscription no more.",
		do: with((*call).remote, func(c *call, r plan.Remote) (any, error) {
			c.Payments.Forget(r.ID)
			c.Payments.drop(r.ID)
			return done, nil
		}),
	},

	{
		who: operating, name: "grant", on: "org?", args: "plan* seats currentPeriodEnd",
		does: "Sets an organisation's subscription by hand, which is managed outside of the payment provider then (PUT /admin/organisations/:id/subscription). Answers with the organisation.",
		do: func(c *call) (any, error) {
			o, err := c.organisation("")
			if err != nil {
				return nil, err
			}
			g := plan.Grant{Plan: plan.Plan(c.text("plan")), PeriodEnd: c.time("currentPeriodEnd")}
			if n := c.count("seats"); n != nil {
				g.Seats = new(int(*n))
			}
			return answered(c, func() (operator.Overview, error) { return c.Operator.Grant(c.ctx, anOperator, o, g) })
		},
	},
	{
		who: operating, name: "set-role", on: "user", args: "role* org",
		does: "Gives a member a role (PUT /admin/organisations/:id/members/:userId/role).",
		do: func(c *call) (any, error) {
			o, err := c.organisation("org")
			if err != nil {
				return nil, err
			}
			return answered(c, func() (org.Profile, error) {
				return c.Operator.SetRole(c.ctx, anOperator, o, id.User(c.subject()), c.text("role"))
			})
		},
	},
	{
		who: operating, name: "organisations",
		does: "Lists all organisations: id, name, slug, owners, members, pendingInvitations, subscription, closedAt (GET /admin/organisations).",
		do: lists(func(c *call, each func(operator.Overview) error) error {
			return c.Operator.Organisations(c.ctx, anOperator, "", 0, each)
		}),
	},
	{
		who: operating, name: "organisation", on: "org?",
		does: "Answers with one organisation (GET /admin/organisations/:id).",
		do: func(c *call) (any, error) {
			o, err := c.organisation("")
			if err != nil {
				return nil, err
			}
			return answered(c, func() (operator.Overview, error) { return c.Operator.Organisation(c.ctx, anOperator, o) })
		},
	},
}

var anOperator = org.Actor{Operator: true}

func checkout(c *call) (any, error) {
	p, ok := plan.Parse(c.text("plan"))
	if !ok {
		p = plan.Plan(c.text("plan"))
	}
	url, err := c.Billing.Checkout(c.ctx, c.actor, p)
	if err != nil {
		return nil, err
	}
	s, err := c.Store.Directory().Subscriptions().Get(c.ctx, c.actor.Org)
	if err != nil || s.Checkout == nil || s.Checkout.URL != url {
		return record{{"url", url}, {"session", nil}}, err
	}
	return record{{"url", url}, {"session", s.Checkout.Session}}, nil
}

func (c *call) decline(is bool) (any, error) {
	o, err := c.organisation("")
	c.Payments.declined[o] = is
	return done, err
}

// remote returns the subscription of an organisation at the provider.
func (c *call) remote() (plan.Remote, error) {
	o, err := c.organisation("")
	if err != nil {
		return plan.Remote{}, err
	}
	return c.Payments.of(c.ctx, o)
}

func setRemote(c *call) (any, error) {
	r, err := c.remote()
	if err != nil {
		return nil, err
	}
	if c.given("status") {
		r.Status = plan.RemoteStatus(c.text("status"))
	}
	if c.given("plan") {
		r.Plan = plan.Plan(c.text("plan"))
	}
	if n := c.count("seats"); n != nil {
		r.Seats = new(int(*n))
	}
	if c.given("cancelAtPeriodEnd") {
		r.CancelAtPeriodEnd = c.flag("cancelAtPeriodEnd")
	}
	return only(c, func() error {
		c.Payments.Set(r)
		return c.Payments.look(c.ctx)
	})
}
