package stripepay

import (
	"context"
	"errors"
	"net/http"

	"collab/domain/fault"
	"collab/domain/plan"

	"github.com/stripe/stripe-go/v76"
)

// Price is what the provider says of the price of a plan.
type Price struct {
	ID        string
	Active    bool
	Recurring bool
	Licensed  bool   // by quantity, not by what was used
	Interval  string // such as month
	Currency  string // three small letters
	Live      bool   // real money
}

type price struct {
	ID        text `json:"id"`
	Active    flag `json:"active"`
	Live      flag `json:"livemode"`
	Currency  text `json:"currency"`
	Recurring struct {
		Interval text `json:"interval"`
		Usage    text `json:"usage_type"`
	} `json:"recurring"`
}

// Price asks for the price of a plan. Unauthenticated when the provider does not
// know the key, Forbidden when the key may not read prices, NotFound when there
// is no such price, Unavailable when there is no answer.
func (p *Payments) Price(ctx context.Context, of plan.Plan) (Price, error) {
	known, err := p.price(of)
	if err != nil {
		return Price{}, err
	}
	got, err := call[price](ctx, p, http.MethodGet, stripe.FormatURLPath("/v1/prices/%s", known), &stripe.PriceParams{})
	var r *refusal
	if errors.As(err, &r) {
		switch r.status {
		case http.StatusUnauthorized:
			return Price{}, fault.Wrap(fault.Unauthenticated, r, "The payment provider does not know the key")
		case http.StatusForbidden:
			return Price{}, fault.Wrap(fault.Forbidden, r, "The key may not read prices")
		case http.StatusNotFound:
			return Price{}, fault.Wrap(fault.NotFound, r, "The payment provider does not know the price")
		}
	}
	if err != nil {
		return Price{}, err
	}
	if !isID(string(got.ID)) {
		return Price{}, unreadable("a price without an id")
	}
	usage := string(got.Recurring.Usage)
	return Price{
		ID: string(got.ID), Active: bool(got.Active), Recurring: got.Recurring.Interval != "", Licensed: usage == "" || usage == "licensed",
		Interval: word(string(got.Recurring.Interval)), Currency: word(string(got.Currency)), Live: bool(got.Live),
	}, nil
}
