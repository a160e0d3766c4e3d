package billing

import (
	"context"
	"errors"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
)

// errChanged is returned if the record has changed since the provider was queried.
var errChanged = errors.New("the subscription has changed meanwhile")

// fallback returns the state of a subscription that the provider does not know.
type fallback func(was plan.Subscription) (plan.Subscription, plan.FollowResult)

// followOrEnd follows a subscription, and ends it if the provider does not know it and it is still
// the current one.
func (s *Billing) followOrEnd(ctx context.Context, o id.Org, subscription string, newEntry entryFunc) error {
	return s.follow(ctx, o, subscription, newEntry, func(was plan.Subscription) (plan.Subscription, plan.FollowResult) {
		if was.ProviderID != subscription {
			return was, plan.Superseded
		}
		return was.RemoteMissing(s.Clock.Now()), plan.Followed
	}, nil)
}

// errSuperseded is returned if another subscription takes precedence over a live one.
var errSuperseded = errors.New("another subscription counts")

// follow reads a subscription from the provider and applies its state to the organisation's.
// Before is called first in the transaction, and its error rolls it back. If the provider does
// not know the subscription, the fallback unknown applies; nil changes nothing.
func (s *Billing) follow(ctx context.Context, o id.Org, subscription string, newEntry entryFunc, unknown fallback, before func(ports.Records) error) error {
	followedOther := false // whether the other subscription was followed
	for range maxAttempts {
		read, err := s.Store.Directory().Subscriptions().Get(ctx, o)
		if err != nil {
			return err
		}
		remote, err := s.Provider.Subscription(ctx, subscription)
		gone := fault.Is(err, fault.NotFound)
		if err != nil && !gone {
			return err
		}
		result := plan.Followed
		err = s.Store.Atomic(ctx, func(r ports.Records) error {
			if before != nil {
				if err := before(r); err != nil {
					return err
				}
			}
			was, err := s.lockSubscription(ctx, r, o)
			if err != nil {
				return err
			}
			if was.Revision != read.Revision {
				return errChanged
			}
			current := was
			switch {
			case !gone && remote.Org != "" && remote.Org != o:
				s.Log.Warn("payment message names another organisation's subscription", "org", string(o), "subscription", subscription)
			case !gone && was.State() == plan.StateExternal && remote.Live():
				s.Log.Warn("externally managed organisation billed by payment provider", "org", string(o), "subscription", subscription)
			case !gone:
				current, result = was.Follow(remote, s.Clock.Now())
				if result == plan.Superseded && remote.Live() && !followedOther {
					return errSuperseded
				}
			case unknown != nil:
				current, result = unknown(was)
			}
			if current.Customer != was.Customer {
				owner, err := r.Directory().Subscriptions().ByCustomer(ctx, current.Customer)
				if err == nil && owner != o {
					s.Log.Error("subscription and customer name different organisations", "org", string(o),
						"customer_org", string(owner), "subscription", subscription)
					return nil
				}
				if err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
			return s.put(ctx, r, was, current, newEntry)
		})
		switch {
		case errors.Is(err, errChanged):
		case errors.Is(err, errSuperseded): // it may have ended without an event
			followedOther = true
			if err := s.followOrEnd(ctx, o, read.ProviderID, newEntry); err != nil {
				return err
			}
		default:
			s.logFollow(o, subscription, remote, result, err)
			return err
		}
	}
	return errBusy
}

// logFollow logs results that need an operator's attention.
func (s *Billing) logFollow(o id.Org, subscription string, r plan.Remote, result plan.FollowResult, err error) {
	switch {
	case err != nil:
	case result == plan.UnknownPrice:
		s.Log.Error("subscription price not configured", "org", string(o), "subscription", subscription)
	case result == plan.UnknownState:
		s.Log.Error("subscription status unknown", "org", string(o), "subscription", subscription, "status", string(r.Status))
	case result == plan.Superseded && r.Live():
		s.Log.Error("second live subscription ignored", "org", string(o), "subscription", subscription)
	}
}

// HandleEvent applies an event of the provider. Before is called first in each transaction,
// and its error rolls it back.
func (s *Billing) HandleEvent(ctx context.Context, e plan.Event, before func(ports.Records) error) error {
	if e.Kind == plan.Unrelated || e.Subscription == "" || e.Unpaid {
		return nil
	}
	o, err := s.orgOf(ctx, e)
	if err == nil {
		unknown := func(was plan.Subscription) (plan.Subscription, plan.FollowResult) {
			return was.Observed(e, s.Clock.Now())
		}
		err = s.follow(ctx, o, e.Subscription, s.bySystem("by the payment provider"), unknown, before)
	}
	if fault.Is(err, fault.NotFound) {
		s.Log.Warn("payment message of unknown customer ignored", "message", e.Message, "type", e.Type)
		return nil
	}
	return err
}

// orgOf returns the organisation of an event.
func (s *Billing) orgOf(ctx context.Context, e plan.Event) (id.Org, error) {
	if e.Org != "" {
		o, err := s.Store.Directory().Organisations().Get(ctx, e.Org)
		return o.ID, err
	}
	if e.Customer == "" {
		return "", fault.Missing("Customer")
	}
	return s.Store.Directory().Subscriptions().ByCustomer(ctx, e.Customer)
}

// reconcileBatch is how many subscriptions one run processes.
const reconcileBatch = 500

// Reconcile ends expired trials, follows subscriptions whose period ended without an event,
// cancels those of closed organisations, and closes payment pages of closed organisations and of
// those that an operator has granted a subscription since. Any number of servers may call it: each
// subscription is processed by one. If the provider is unavailable, the rest waits for the
// next run.
func (s *Billing) Reconcile(ctx context.Context) error {
	failed := s.cancelClosed(ctx)
	due, err := s.Store.Directory().Subscriptions().Due(ctx, s.Clock.Now(), reconcileBatch)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, o := range due {
		if !canContinue(ctx, s.reconcile(ctx, o), &failed) {
			break
		}
	}
	return failed
}

// canContinue joins an error to those of the run, unless the record has gone, and reports whether
// the run goes on.
func canContinue(ctx context.Context, err error, failed *error) bool {
	if err != nil && !fault.Is(err, fault.NotFound) {
		*failed = errors.Join(*failed, err)
	}
	return !fault.Is(err, fault.Unavailable) && ctx.Err() == nil
}

// cancelClosed closes the payment pages of closed organisations and cancels their
// subscriptions: their members can no longer use the portal, and their subscriptions are
// unknown after erasure.
func (s *Billing) cancelClosed(ctx context.Context) error {
	now := s.Clock.Now()
	closed, err := s.Store.Directory().Organisations().List(ctx, org.Filter{ClosedBefore: &now})
	if err != nil || len(closed) == 0 {
		return err
	}
	ids := make([]id.Org, len(closed))
	for i, o := range closed {
		ids[i] = o.ID
	}
	all, err := s.Store.Directory().Subscriptions().Of(ctx, ids)
	if err != nil {
		return err
	}
	var failed error
	newEntry := s.bySystem("because the organisation is closed")
	for _, o := range ids {
		current := all[o]
		if current.Checkout != nil && !canContinue(ctx, s.closePage(ctx, o, newEntry, current, s.cancelPaid), &failed) ||
			current.Cancelable() && !canContinue(ctx, s.cancelNow(ctx, o, newEntry, current.ProviderID), &failed) {
			break
		}
	}
	return failed
}

// cancelNow cancels a subscription at once, follows it, and abandons it if it is not followed.
func (s *Billing) cancelNow(ctx context.Context, o id.Org, newEntry entryFunc, subscription string) error {
	if err := s.Provider.Cancel(ctx, subscription, true); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := s.followOrEnd(ctx, o, subscription, newEntry); err != nil {
		return err
	}
	_, err := s.update(ctx, o, newEntry, func(was plan.Subscription) (plan.Subscription, error) {
		return was.EndedWhileExternal(subscription, s.Clock.Now()), nil
	})
	return err
}

// errNotDue is returned if another server has processed the subscription.
var errNotDue = errors.New("the subscription is not due any more")

// reconcile processes one due subscription.
func (s *Billing) reconcile(ctx context.Context, o id.Org) error {
	current, err := s.update(ctx, o, s.bySystem("because the trial is over"), func(was plan.Subscription) (plan.Subscription, error) {
		now := s.Clock.Now()
		if due := was.Due(); due == nil || due.After(now) {
			return was, errNotDue
		}
		current := was.At(now)
		if current.Billed() {
			current = current.Claimed(now)
		}
		return current, nil
	})
	byProvider := s.bySystem("by the payment provider")
	switch {
	case errors.Is(err, errNotDue):
		return nil
	case err != nil:
		return err
	case current.State() == plan.StateExternal && current.Checkout != nil:
		return s.closePage(ctx, o, byProvider, current, s.checkPaid)
	case !current.Billed():
		return nil
	}
	return s.followOrEnd(ctx, o, current.ProviderID, byProvider)
}
