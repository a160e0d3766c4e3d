package stripepay

import (
	"context"
	"errors"
	"net/http"

	"collab/domain/fault"
	"collab/domain/plan"

	"github.com/stripe/stripe-go/v76"
)

// prorationBehavior charges the difference at once when a plan changes. On the next invoice it would
// be lost if the subscription is canceled before. A negative difference becomes credit.
const prorationBehavior = "always_invoice"

// paymentBehavior refuses a change of plan whose invoice cannot be paid at once. By default
// the plan changes all the same.
const paymentBehavior = "error_if_incomplete"

const declined = "The payment was declined"

// Subscription returns a subscription.
func (p *Payments) Subscription(ctx context.Context, subscriptionID string) (plan.Remote, error) {
	s, err := p.subscription(ctx, subscriptionID)
	if err != nil {
		return plan.Remote{}, err
	}
	return s.remote(p.plans), nil
}

// Change moves a subscription to another plan at once, and revokes its cancellation. It uses
// a new idempotency key each time: a stored one would replay an earlier change to the same
// plan.
func (p *Payments) Change(ctx context.Context, subscriptionID string, to plan.Plan) error {
	price, err := p.price(to)
	if err != nil {
		return err
	}
	s, err := p.subscription(ctx, subscriptionID)
	if err != nil {
		return err
	}
	item := s.item(p.plans)
	same := p.plans[item.price()] == to // at the price of the time of the purchase
	switch {
	case s.remote(p.plans).Ended():
		return fault.Missing("Subscription")
	case same && !s.cancelsAtEnd():
		return nil
	case !isID(string(item.ID)):
		return unreadable("a subscription without an item")
	}
	params := &stripe.SubscriptionParams{}
	if !same {
		params.Items = []*stripe.SubscriptionItemsParams{{ID: stripe.String(string(item.ID)), Price: &price}}
		params.ProrationBehavior, params.PaymentBehavior = stripe.String(prorationBehavior), stripe.String(paymentBehavior)
	}
	if !bool(s.CancelAtPeriodEnd) && s.cancelsAtEnd() {
		params.AddExtra("cancel_at", "") // a cancellation with cancel_at is revoked separately
	} else {
		params.CancelAtPeriodEnd = stripe.Bool(false)
	}
	_, err = p.update(ctx, subscriptionID, params)
	if r, ok := errors.AsType[*refusal](err); ok && fault.Is(err, fault.NotFound) && r.param == "" {
		err = fault.Wrap(fault.Conflict, r, declined) // no payment method; for a missing object, its parameter is named
	}
	return err
}

// Cancel ends a subscription.
func (p *Payments) Cancel(ctx context.Context, subscriptionID string, atOnce bool) error {
	s, err := p.subscription(ctx, subscriptionID)
	if err != nil || s.remote(p.plans).Ended() || !atOnce && s.cancelsAtEnd() {
		return err
	}
	if atOnce {
		params := &stripe.SubscriptionCancelParams{}
		params.AddExpand("customer")
		_, err = checked(call[subscription](ctx, p, http.MethodDelete, address(subscriptionID), params))
	} else {
		_, err = p.update(ctx, subscriptionID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})
	}
	if fault.Is(err, fault.NotFound, fault.Internal) {
		// The subscription may have ended meanwhile.
		if current, lookErr := p.subscription(ctx, subscriptionID); lookErr == nil && current.remote(p.plans).Ended() {
			return nil
		}
	}
	return err
}

func (p *Payments) subscription(ctx context.Context, subscriptionID string) (subscription, error) {
	if !isID(subscriptionID) {
		return subscription{}, fault.Missing("Subscription")
	}
	params := &stripe.SubscriptionParams{}
	params.AddExpand("customer") // for its payment method if the subscription has none
	return checked(call[subscription](ctx, p, http.MethodGet, address(subscriptionID), params))
}

func (p *Payments) update(ctx context.Context, subscriptionID string, params *stripe.SubscriptionParams) (subscription, error) {
	params.AddExpand("customer")
	return checked(call[subscription](ctx, p, http.MethodPost, address(subscriptionID), params))
}

// checked returns the subscription of a response; Unavailable if it lacks its id or status.
func checked(s subscription, err error) (subscription, error) {
	if err == nil && (!isID(string(s.ID)) || s.Status == "") {
		err = unreadable("a subscription without its id or status")
	}
	return s, err
}

func address(subscription string) string {
	return stripe.FormatURLPath("/v1/subscriptions/%s", subscription)
}
