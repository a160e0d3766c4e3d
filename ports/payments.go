package ports

import (
	"context"

	"collab/domain/id"
	"collab/domain/plan"
)

// Payments creates customers and payment pages at the payment provider. Requests carry
// idempotency keys: the provider answers a repeated key with the same result. NotFound for
// ids that the provider does not know, Unavailable if it does not answer.
type Payments interface {
	// Customer creates the provider's record of an organisation, under a key derived from
	// the organisation's id and the deleted customer that it replaces, empty for none, and
	// returns its id.
	Customer(ctx context.Context, o id.Org, name, deleted string) (customer string, err error)

	// Open creates a payment page for a plan, under the checkout's key, and returns the
	// checkout with its session. NotFound if the provider does not know the customer.
	Open(ctx context.Context, o id.Org, customer string, c plan.Checkout) (plan.Checkout, error)

	// Session returns the state of a payment page.
	Session(ctx context.Context, session string) (plan.Session, error)

	// Expire closes a payment page. It does nothing if the page is closed; Conflict if it
	// was paid.
	Expire(ctx context.Context, session string) error

	// Portal returns the address of the customer's billing portal, which links to back.
	Portal(ctx context.Context, customer, back string) (url string, err error)
}

// Billing is the provider's subscriptions. Its errors are those of Payments.
type Billing interface {
	// Subscription returns the present state of a subscription.
	Subscription(ctx context.Context, subscription string) (plan.Remote, error)

	// Change moves a subscription to another plan at once, with proration. A scheduled
	// cancellation is withdrawn. NotFound if the subscription has ended; Conflict if the
	// difference cannot be charged, which leaves the subscription as it was.
	Change(ctx context.Context, subscription string, to plan.Plan) error

	// Cancel ends a subscription, at once or when its period ends. It does nothing if the
	// subscription has ended or is to end that way.
	Cancel(ctx context.Context, subscription string, atOnce bool) error
}

// PaymentEvents reads the payment provider's webhook messages.
type PaymentEvents interface {
	// Read verifies the signature over the raw body and translates the message.
	// Header returns a header's value, empty when it is absent. Invalid for a bad
	// signature and for a signed body that cannot be read.
	Read(header func(name string) string, body []byte) (plan.Event, error)
}
