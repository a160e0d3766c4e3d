package billing

import (
	"context"
	"errors"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
)

// rounds is how often something is begun again that others have changed
// meanwhile.
const rounds = 5

var errBusy = fault.New(fault.Unavailable, "The subscription is being changed by others")

// Checkout returns the address to send somebody to who buys a plan: a page of
// the provider, or, where another plan was subscribed to and has been changed,
// the page that says so.
func (s *Billing) Checkout(ctx context.Context, actor org.Actor, p plan.Plan) (string, error) {
	if err := actor.Manages(); err != nil {
		return "", err
	}
	for range rounds {
		var what plan.Order
		key := s.IDs.New()
		is, err := s.decide(ctx, actor, func(was plan.Subscription) (is plan.Subscription, err error) {
			is, what, err = was.Ordered(p, key, s.Clock.Now())
			return is, err
		})
		if err != nil {
			return "", err
		}
		switch what {
		case plan.OpenPage:
			// It may have been closed or paid without an event.
			page, lookErr := s.Payments.Session(ctx, is.Checkout.Session)
			if err = lookErr; err == nil && page.Open() {
				return is.Checkout.URL, nil
			}
			if err == nil || fault.Is(err, fault.NotFound) {
				err = s.closePage(ctx, actor.Org, s.by(ctx, actor), is)
			}
		case plan.ChangePlan:
			if err = s.change(ctx, actor, is, p); err == nil {
				return s.PaidURL, nil
			}
			if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) { // it is over, which is noted now
				err = s.follow(ctx, actor.Org, is.ProviderID, s.by(ctx, actor), lapsed(is.ProviderID), nil)
			}
		case plan.OtherPage:
			err = s.closePage(ctx, actor.Org, s.by(ctx, actor), is)
		case plan.NewPage:
			var url string
			// What was asked for before may be an old page, which the next round looks at.
			if url, err = s.openPage(ctx, actor, is); url != "" && is.Checkout.Key == key {
				return url, nil
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", errBusy
}

// change moves the subscription that there is to another plan.
func (s *Billing) change(ctx context.Context, actor org.Actor, is plan.Subscription, p plan.Plan) error {
	if _, err := s.Provider.Change(ctx, is.ProviderID, p); err != nil {
		return err
	}
	return s.follow(ctx, actor.Org, is.ProviderID, s.by(ctx, actor), lapsed(is.ProviderID), nil)
}

// openPage asks the provider for the page of the checkout. The address is empty
// where another checkout has taken its place.
func (s *Billing) openPage(ctx context.Context, actor org.Actor, is plan.Subscription) (url string, err error) {
	customer, err := s.customer(ctx, actor.Org, s.by(ctx, actor), is)
	if err != nil {
		return "", err
	}
	page, err := s.Payments.Open(ctx, actor.Org, customer, *is.Checkout)
	if err != nil {
		return "", err
	}
	_, err = s.decide(ctx, actor, func(was plan.Subscription) (plan.Subscription, error) {
		is, counts := was.Opened(page, s.Clock.Now())
		if counts {
			url = page.URL
		}
		return is, nil
	})
	if err != nil || url != "" {
		return url, err
	}
	// The page is returned to no client, and must not be paid.
	return "", s.expire(ctx, page)
}

// customer returns the provider's id of the organisation.
func (s *Billing) customer(ctx context.Context, of id.Org, as note, is plan.Subscription) (string, error) {
	if is.Customer != "" {
		return is.Customer, nil
	}
	o, err := s.Store.Directory().Organisations().Get(ctx, of)
	if err != nil {
		return "", err
	}
	made, err := s.Payments.Customer(ctx, of, o.Name)
	if err != nil {
		return "", err
	}
	is, err = s.revise(ctx, of, as, func(was plan.Subscription) (plan.Subscription, error) {
		if was.Customer == "" {
			was.Customer, was.UpdatedAt = made, s.Clock.Now()
		}
		return was, nil
	})
	return is.Customer, err
}

// closePage ends a checkout and expires its page.
func (s *Billing) closePage(ctx context.Context, o id.Org, as note, is plan.Subscription) error {
	page := *is.Checkout
	if page.Session == "" {
		// The page may not have reached the client that ordered it.
		customer, err := s.customer(ctx, o, as, is)
		if err != nil {
			return err
		}
		if page, err = s.Payments.Open(ctx, o, customer, page); err != nil {
			return err
		}
	}
	err := s.expire(ctx, page)
	if fault.Is(err, fault.Conflict) {
		err = s.paidOn(ctx, o, page)
	}
	if err != nil {
		return err
	}
	_, err = s.revise(ctx, o, as, func(was plan.Subscription) (plan.Subscription, error) {
		return was.Closed(page.Key, s.Clock.Now()), nil
	})
	return err
}

// paidOn returns nil when what came of a page that was paid on is known: it is
// the organisation's subscription, or over, or counts for nothing beside what an
// operator granted. Before that, nobody is to pay once more.
func (s *Billing) paidOn(ctx context.Context, o id.Org, page plan.Checkout) error {
	pending := fault.New(fault.Conflict, "A payment for the plan %s is being processed", page.Plan)
	paid, err := s.Return(ctx, page.Session)
	if err != nil {
		return err
	}
	if paid.Subscription == "" {
		return pending
	}
	is, err := s.Store.Directory().Subscriptions().Get(ctx, o)
	if err != nil || is.State() == plan.External || is.Billed() && is.ProviderID == paid.Subscription {
		return err
	}
	r, err := s.Provider.Subscription(ctx, paid.Subscription)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case !r.Over():
		return pending
	}
	return nil
}

// expire closes a page. One that the provider does not know is closed.
func (s *Billing) expire(ctx context.Context, page plan.Checkout) error {
	if err := s.Payments.Expire(ctx, page.Session); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// Return says what became of a page to pay on, and follows the subscription that
// came of it, should the provider's message not have come yet. It asks for no
// actor: the session is all that somebody who comes back has.
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
	err = s.follow(ctx, page.Org, page.Subscription, s.byItself("by the payment provider"), nil, nil)
	if fault.Is(err, fault.NotFound) || errors.Is(err, errBusy) {
		err = nil // the organisation is not there any more, or others are following
	}
	return page, err
}

// maxSession is the longest id of a session, in bytes.
const maxSession = 255
