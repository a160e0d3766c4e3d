package ports

import (
	"context"

	"collab/domain/id"
	"collab/domain/plan"
)

// Payments is where organisations pay. Keys make requests repeatable: the
// provider answers the same key the same, and makes nothing twice. NotFound for
// what the provider does not know, Unavailable when it does not answer.
type Payments interface {
	// Customer makes the provider's record of an organisation, under a key that
	// follows from the organisation, and returns its id.
	Customer(ctx context.Context, o id.Org, name string) (customer string, err error)

	// Open makes a page to pay for a plan on, under the checkout's key, and returns
	// the checkout with its session.
	Open(ctx context.Context, o id.Org, customer string, c plan.Checkout) (plan.Checkout, error)

	// Session returns what became of a page.
	Session(ctx context.Context, session string) (plan.Session, error)

	// Expire closes a page, which can then not be paid any more. It does nothing
	// to one that is closed; Conflict for one that was paid on.
	Expire(ctx context.Context, session string) error

	// Portal returns the address of the pages on which a customer looks after
	// payments. From there they come back to the address.
	Portal(ctx context.Context, customer, back string) (url string, err error)
}

// Billing is the provider's subscriptions. Its errors are those of Payments.
type Billing interface {
	// Subscription returns a subscription as it is now.
	Subscription(ctx context.Context, subscription string) (plan.Remote, error)

	// Change moves a subscription to another plan at once, the difference being
	// charged in proportion, and returns it. One that was to end goes on; Conflict
	// for one that is over.
	Change(ctx context.Context, subscription string, to plan.Plan) (plan.Remote, error)

	// Cancel ends a subscription, at once or when its period ends, and returns it.
	// It does nothing to one that is over, or that is to end so.
	Cancel(ctx context.Context, subscription string, atOnce bool) (plan.Remote, error)
}

// PaymentEvents reads the payment provider's webhook messages.
type PaymentEvents interface {
	// Read verifies the signature over the raw body and translates the message.
	// Header returns a header's value, empty when it is absent. Invalid for a bad
	// signature and for a signed body that cannot be read.
	Read(header func(name string) string, body []byte) (plan.Event, error)
}
