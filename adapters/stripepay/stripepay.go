// Package stripepay implements payments with Stripe, or a server that has its API. The SDK
// makes the requests, with idempotency keys, retries and errors. Responses and webhook
// messages are decoded here, because the SDK's types lack the fields that other versions
// of the API have elsewhere.
package stripepay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"collab/adapters/outbound"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"

	"github.com/stripe/stripe-go/v76"
)

const (
	maxKeys = 3    // idempotency keys of one request
	maxURL  = 4096 // bytes of a URL from the provider

	orgKey  = "org_id" // of metadata
	planKey = "plan"
)

var (
	_ ports.Payments = (*Payments)(nil)
	_ ports.Billing  = (*Payments)(nil)
)

// Options configure New.
type Options struct {
	SecretKey  string
	URL        string                 // without /v1; empty: Stripe's own
	Prices     map[plan.Plan][]string // ids of prices: the first is sold, subscriptions to all have the plan
	SuccessURL string                 // redirected to after a payment, with the session's id in the query
	CancelURL  string                 // redirected to without a payment
	Client     *http.Client           // with a transport; nil: a new one
	Log        *slog.Logger           // nil: none
}

// Payments implements ports.Payments and ports.Billing.
type Payments struct {
	backend stripe.Backend
	key     string
	prices  map[plan.Plan]string // that are sold
	plans   map[string]plan.Plan
	success string
	cancel  string
	log     *slog.Logger
}

// New returns the payments of an account. It uses neither the environment nor global
// settings of the SDK.
func New(o Options) (*Payments, error) {
	if err := CheckKey(o.SecretKey); err != nil {
		return nil, fmt.Errorf("COLLAB_STRIPE_SECRET_KEY: %w", err)
	}
	if o.URL != "" {
		if _, err := outbound.ParseAddress(o.URL); err != nil {
			return nil, fmt.Errorf("COLLAB_STRIPE_API_URL: %w", err)
		}
	}
	for _, page := range []string{o.SuccessURL, o.CancelURL} {
		if _, err := outbound.ParseAddress(page); err != nil {
			return nil, fmt.Errorf("the page to come back to: %w", err)
		}
	}
	p := &Payments{key: strings.TrimSpace(o.SecretKey), prices: map[plan.Plan]string{}, plans: plansOf(o.Prices), cancel: o.CancelURL, log: o.Log}
	p.success = o.SuccessURL + "?session_id={CHECKOUT_SESSION_ID}"
	for _, of := range []plan.Plan{plan.Standard, plan.Premium} {
		err := CheckPrices(strings.Join(o.Prices[of], ","))
		for _, price := range o.Prices[of] {
			price = strings.TrimSpace(price)
			if p.plans[price] != of {
				err = errPrices
			}
			p.prices[of] = cmp.Or(p.prices[of], price)
		}
		if err != nil {
			return nil, fmt.Errorf("COLLAB_STRIPE_PRICE_%s: %w", of, err)
		}
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.backend = backend(o.URL, o.Client, p.log)
	return p, nil
}

// CheckKey returns an error unless a secret key may be one.
func CheckKey(key string) error {
	if len(strings.Fields(key)) != 1 {
		return errors.New("must be one word")
	}
	return nil
}

var errPrices = errors.New("must be the id of a price of its own, or several, comma separated")

// CheckPrices returns an error unless a text has ids of prices, separated by commas.
func CheckPrices(text string) error {
	for price := range strings.SplitSeq(text, ",") {
		if !isID(strings.TrimSpace(price)) {
			return errPrices
		}
	}
	return nil
}

// plansOf returns the plans by the ids of their prices.
func plansOf(prices map[plan.Plan][]string) map[string]plan.Plan {
	plans := map[string]plan.Plan{}
	for paid, all := range prices {
		for _, price := range all {
			if price = strings.TrimSpace(price); price != "" {
				plans[price] = paid
			}
		}
	}
	return plans
}

// Customer creates the provider's customer of an organisation. The id of a deleted one is
// part of the key, under which the provider would return that one again for a day.
func (p *Payments) Customer(ctx context.Context, o id.Org, name, deleted string) (string, error) {
	key := "customer:" + string(o)
	if deleted != "" {
		key += ":" + deleted
	}
	created, err := withIdempotencyKey(p, key, func(key string) (customer, error) {
		params := &stripe.CustomerParams{Name: &name}
		params.AddMetadata(orgKey, string(o))
		params.SetIdempotencyKey(key)
		return call[customer](ctx, p, http.MethodPost, "/v1/customers", params)
	})
	if err != nil {
		return "", err
	}
	if !isID(string(created.ID)) {
		return "", unreadable("a customer without an id")
	}
	return string(created.ID), nil
}

// Open creates a checkout session for a plan.
func (p *Payments) Open(ctx context.Context, o id.Org, customer string, c plan.Checkout) (plan.Checkout, error) {
	price, err := p.price(c.Plan)
	if err != nil {
		return c, err
	}
	created, err := withIdempotencyKey(p, c.Key, func(key string) (session, error) {
		params := &stripe.CheckoutSessionParams{
			Mode:              stripe.String(string(stripe.CheckoutSessionModeSubscription)),
			LineItems:         []*stripe.CheckoutSessionLineItemParams{{Price: &price, Quantity: stripe.Int64(1)}},
			Customer:          &customer,
			ClientReferenceID: stripe.String(string(o)),
			SuccessURL:        &p.success,
			CancelURL:         &p.cancel,
			// The subscription gets the organisation in its own metadata.
			SubscriptionData: &stripe.CheckoutSessionSubscriptionDataParams{Metadata: map[string]string{orgKey: string(o)}},
		}
		params.AddMetadata(orgKey, string(o))
		params.AddMetadata(planKey, string(c.Plan))
		params.SetIdempotencyKey(key)
		return call[session](ctx, p, http.MethodPost, "/v1/checkout/sessions", params)
	})
	if err != nil {
		return c, err
	}
	if !isID(string(created.ID)) || !isPage(created.URL) || created.ExpiresAt.IsZero() {
		return c, unreadable("a checkout session without its id, page or end")
	}
	c.Session, c.URL, c.ExpiresAt = string(created.ID), string(created.URL), created.ExpiresAt.Time
	return c, nil
}

// Session returns a checkout session.
func (p *Payments) Session(ctx context.Context, sessionID string) (plan.Session, error) {
	s, err := p.session(ctx, sessionID)
	if err != nil {
		return plan.Session{}, err
	}
	return plan.Session{
		Status:       word(string(s.Status)),
		Org:          s.org(),
		Plan:         s.plan(),
		Subscription: string(s.Subscription),
	}, nil
}

func (p *Payments) session(ctx context.Context, sessionID string) (session, error) {
	if !isID(sessionID) {
		return session{}, fault.Missing("Checkout session")
	}
	s, err := call[session](ctx, p, http.MethodGet, stripe.FormatURLPath("/v1/checkout/sessions/%s", sessionID), &stripe.CheckoutSessionParams{})
	if err == nil && !isID(string(s.ID)) {
		err = unreadable("a checkout session without an id")
	}
	return s, err
}

// Expire expires a checkout session. The provider refuses to expire a closed one, whose
// status then selects the error.
func (p *Payments) Expire(ctx context.Context, sessionID string) error {
	if !isID(sessionID) {
		return fault.Missing("Checkout session")
	}
	_, err := call[session](ctx, p, http.MethodPost, stripe.FormatURLPath("/v1/checkout/sessions/%s/expire", sessionID), &stripe.CheckoutSessionExpireParams{})
	if !fault.Is(err, fault.Internal) {
		return err
	}
	s, lookErr := p.session(ctx, sessionID)
	switch {
	case lookErr != nil:
		return lookErr
	case stripe.CheckoutSessionStatus(s.Status) == stripe.CheckoutSessionStatusComplete:
		return fault.Wrap(fault.Conflict, err, "The checkout is complete")
	case stripe.CheckoutSessionStatus(s.Status) == stripe.CheckoutSessionStatusExpired:
		return nil
	}
	return err
}

// Portal creates a session of the customer portal and returns its URL.
func (p *Payments) Portal(ctx context.Context, customer, back string) (string, error) {
	params := &stripe.BillingPortalSessionParams{Customer: &customer, ReturnURL: &back}
	created, err := call[session](ctx, p, http.MethodPost, "/v1/billing_portal/sessions", params)
	if err != nil {
		return "", err
	}
	if !isPage(created.URL) {
		return "", unreadable("a portal session without its page")
	}
	return string(created.URL), nil
}

func (p *Payments) price(of plan.Plan) (string, error) {
	price := p.prices[of]
	if price == "" {
		return "", fault.New(fault.Internal, "The plan %s has no price", of)
	}
	return price, nil
}

// isPage reports whether a browser can be redirected to the address.
func isPage(address text) bool {
	u, err := url.Parse(string(address))
	return err == nil && len(address) <= maxURL && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// withIdempotencyKey makes a request with an idempotency key, and again with the next key if the key is
// unusable: the provider replays responses for a day, its own failures too, and refuses a
// key with another request, as after an organisation was renamed. The keys derive from the
// first one, so that concurrent callers use the same.
func withIdempotencyKey[T any](p *Payments, key string, request func(key string) (T, error)) (T, error) {
	for n := 1; ; n++ {
		next := key
		if n > 1 {
			next += ":" + strconv.Itoa(n)
		}
		created, err := request(next)
		var refused *refusal
		if n == maxKeys || !errors.As(err, &refused) || !refused.unusable() {
			return created, err
		}
		p.log.Warn("payment idempotency key replaced", "key", next, "error", err)
	}
}
