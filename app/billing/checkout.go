package billing

import (
	"context"
	"errors"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
)

// maxAttempts is how often an operation starts again because the record changed meanwhile.
const maxAttempts = 5

var errBusy = fault.New(fault.Unavailable, "The subscription is being changed by others; try again")

// Checkout orders a plan and returns the address to send the actor to: a payment page, or
// PaidURL if an existing subscription was changed to the plan.
func (s *Billing) Checkout(ctx context.Context, actor org.Actor, p plan.Plan) (string, error) {
	for range maxAttempts {
		var step plan.CheckoutStep
		key := s.IDs.New()
		current, err := s.updateAs(ctx, actor, func(was plan.Subscription) (current plan.Subscription, err error) {
			current, step, err = was.Ordered(p, key, s.Clock.Now())
			return current, err
		})
		if err != nil {
			return "", err
		}
		switch step {
		case plan.OpenPage:
			// It may have been closed or paid without an event.
			var page plan.Session
			if page, err = s.Payments.Session(ctx, current.Checkout.Session); err == nil && page.Open() {
				if err := s.recheck(ctx, actor); err != nil {
					return "", err
				}
				return current.Checkout.URL, nil
			}
			if err == nil || fault.Is(err, fault.NotFound) {
				err = s.closePage(ctx, actor.Org, s.byActor(ctx, actor), current, s.checkPaid)
			}
		case plan.ChangePlan:
			changed := s.Provider.Change(ctx, current.ProviderID, p)
			if changed != nil && !fault.Is(changed, fault.NotFound) {
				return "", changed
			}
			err = s.followOrEnd(ctx, actor.Org, current.ProviderID, s.byActor(ctx, actor))
			if err == nil && changed == nil {
				return s.PaidURL, nil
			}
		case plan.ReplacePage:
			err = s.closePage(ctx, actor.Org, s.byActor(ctx, actor), current, s.checkPaid)
		case plan.NewPage:
			var url string
			// A page of an earlier order may be outdated; the next round checks it.
			if url, err = s.openPage(ctx, actor, current); url != "" && current.Checkout.Key == key {
				return url, nil
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", errBusy
}

// openPage creates the payment page of the checkout. The address is empty if another checkout
// has replaced it.
func (s *Billing) openPage(ctx context.Context, actor org.Actor, current plan.Subscription) (url string, err error) {
	page, err := s.open(ctx, actor.Org, s.byActor(ctx, actor), current)
	if err != nil {
		return "", err
	}
	_, err = s.updateAs(ctx, actor, func(was plan.Subscription) (plan.Subscription, error) {
		current, counts := was.WithCheckout(page, s.Clock.Now())
		if counts {
			url = page.URL
		}
		return current, nil
	})
	if err != nil || url != "" {
		return url, err
	}
	// The page is not returned to the client, and must not be paid.
	return "", s.expire(ctx, page)
}

// open opens the page of the checkout. It creates a customer if there is none, or if the
// present one was deleted at the provider.
func (s *Billing) open(ctx context.Context, o id.Org, newEntry entryFunc, current plan.Subscription) (plan.Checkout, error) {
	if current.Customer != "" {
		page, err := s.Payments.Open(ctx, o, current.Customer, *current.Checkout)
		if !fault.Is(err, fault.NotFound) {
			return page, err
		}
	}
	customer, err := s.newCustomer(ctx, o, newEntry, current.Customer)
	if err != nil {
		return plan.Checkout{}, err
	}
	return s.Payments.Open(ctx, o, customer, *current.Checkout)
}

// newCustomer creates the organisation's customer in place of the deleted one, empty if there
// was none, and returns the customer that counts.
func (s *Billing) newCustomer(ctx context.Context, of id.Org, newEntry entryFunc, deleted string) (string, error) {
	o, err := s.Store.Directory().Organisations().Get(ctx, of)
	if err != nil {
		return "", err
	}
	customer, err := s.Payments.Customer(ctx, of, o.Name, deleted)
	if err != nil {
		return "", err
	}
	current, err := s.update(ctx, of, newEntry, func(was plan.Subscription) (plan.Subscription, error) {
		if was.Customer == deleted {
			was.Customer, was.UpdatedAt = customer, s.Clock.Now()
		}
		return was, nil
	})
	return current.Customer, err
}

// settleFunc settles the subscription of a page that was paid.
type settleFunc func(ctx context.Context, o id.Org, newEntry entryFunc, page plan.Checkout) error

// closePage ends a checkout and expires its page. If it was paid, settle has to return nil first.
func (s *Billing) closePage(ctx context.Context, o id.Org, newEntry entryFunc, current plan.Subscription, settle settleFunc) error {
	page := *current.Checkout
	if page.Session == "" {
		// The request for the page may have succeeded without its response being stored.
		var err error
		if page, err = s.open(ctx, o, newEntry, current); err != nil {
			return err
		}
	}
	err := s.expire(ctx, page)
	if fault.Is(err, fault.Conflict) {
		err = settle(ctx, o, newEntry, page)
	}
	if err != nil {
		return err
	}
	_, err = s.update(ctx, o, newEntry, func(was plan.Subscription) (plan.Subscription, error) {
		return was.WithoutCheckout(page.Key, s.Clock.Now()), nil
	})
	return err
}

// checkPaid returns nil if the subscription of a paid page is settled: it is the
// organisation's, has ended, or is superseded by an operator's grant, beside which it is kept
// until the organisation is closed. Otherwise it returns Conflict, so that no one is charged twice.
func (s *Billing) checkPaid(ctx context.Context, o id.Org, newEntry entryFunc, page plan.Checkout) error {
	pending := pendingPayment(page)
	paid, err := s.Return(ctx, page.Session)
	if err != nil {
		return err
	}
	if paid.Subscription == "" {
		return pending
	}
	current, err := s.Store.Directory().Subscriptions().Get(ctx, o)
	if err != nil || current.Billed() && current.ProviderID == paid.Subscription {
		return err
	}
	if current.State() == plan.StateExternal {
		_, err := s.update(ctx, o, newEntry, func(was plan.Subscription) (plan.Subscription, error) {
			return was.PaidWhileExternal(paid.Subscription, s.Clock.Now()), nil
		})
		return err
	}
	r, err := s.Provider.Subscription(ctx, paid.Subscription)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case !r.Ended():
		return pending
	}
	return nil
}

// cancelPaid cancels the subscription of a paid page, whatever it is. It returns Conflict while
// there is none.
func (s *Billing) cancelPaid(ctx context.Context, o id.Org, newEntry entryFunc, page plan.Checkout) error {
	paid, err := s.Payments.Session(ctx, page.Session)
	if err != nil {
		return err
	}
	if paid.Subscription == "" {
		return pendingPayment(page)
	}
	return s.cancelNow(ctx, o, newEntry, paid.Subscription)
}

func pendingPayment(page plan.Checkout) error {
	return fault.New(fault.Conflict, "A payment for the plan %s is being processed", page.Plan)
}

// expire closes a payment page. A page that the provider does not know counts as closed.
func (s *Billing) expire(ctx context.Context, page plan.Checkout) error {
	if err := s.Payments.Expire(ctx, page.Session); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// Return returns the state of a payment page, and follows its subscription in case the
// provider's message has not arrived. It checks no actor, because the returning browser
// presents only the session.
func (s *Billing) Return(ctx context.Context, session string) (plan.Session, error) {
	if session == "" || len(session) > maxSession {
		return plan.Session{}, fault.Missing("Checkout")
	}
	page, err := s.Payments.Session(ctx, session)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			err = fault.Missing("Checkout")
		}
		return plan.Session{}, err
	}
	if page.Subscription == "" || page.Org == "" {
		return page, nil
	}
	err = s.follow(ctx, page.Org, page.Subscription, s.bySystem("by the payment provider"), nil, nil)
	if fault.Is(err, fault.NotFound) || errors.Is(err, errBusy) {
		err = nil // the organisation was erased, or other requests follow the subscription
	}
	return page, err
}

// maxSession is the longest id of a session, in bytes.
const maxSession = 255
