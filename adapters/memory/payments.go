package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

var (
	_ ports.Payments = (*Payments)(nil)
	_ ports.Billing  = (*Payments)(nil)
)

// pageLifetime is how long a page can be paid on.
const pageLifetime = 24 * time.Hour

// Payments is a payment provider in memory. Methods stand for what customers do there and
// for the passage of time. It sends no webhooks.
type Payments struct {
	clock ports.Clock

	mu            sync.Mutex
	n             int                     // the last number in an id; guarded by mu
	customers     map[customerKey]string  // guarded by mu
	deleted       map[string]bool         // customers; guarded by mu
	pages         map[string]*page        // by session; guarded by mu
	sessions      map[string]string       // by the key of the request; guarded by mu
	subscriptions map[string]*plan.Remote // guarded by mu
}

// customerKey is the key of the request for a customer.
type customerKey struct {
	org     id.Org
	deleted string // the customer that it replaces
}

// page is a checkout session.
type page struct {
	checkout     plan.Checkout
	org          id.Org
	customer     string
	subscription string // empty: not paid
	closed       bool   // before its time
}

// NewPayments returns a provider without customers.
func NewPayments(c ports.Clock) *Payments {
	return &Payments{
		clock: c, customers: map[customerKey]string{}, deleted: map[string]bool{}, pages: map[string]*page{},
		sessions: map[string]string{}, subscriptions: map[string]*plan.Remote{},
	}
}

func (p *Payments) nextID(kind string) string {
	p.n++
	return fmt.Sprintf("%s_%d", kind, p.n)
}

// Customer returns the customer of an organisation, created when needed.
func (p *Payments) Customer(_ context.Context, o id.Org, _, deleted string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := customerKey{o, deleted}
	if p.customers[k] == "" {
		p.customers[k] = p.nextID("cus")
	}
	return p.customers[k], nil
}

// DeleteCustomer deletes a customer. Repeated requests for it still return its id.
func (p *Payments) DeleteCustomer(customer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleted[customer] = true
}

func (p *Payments) checkCustomer(customer string) error {
	for _, c := range p.customers {
		if c == customer && !p.deleted[c] {
			return nil
		}
	}
	return fault.Missing("Customer")
}

// Open creates a checkout session.
func (p *Payments) Open(_ context.Context, o id.Org, customer string, c plan.Checkout) (plan.Checkout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkCustomer(customer); err != nil {
		return c, err
	}
	if made, ok := p.sessions[c.Key]; ok {
		return p.pages[made].checkout, nil
	}
	c.Session, c.ExpiresAt = p.nextID("cs"), p.clock.Now().Add(pageLifetime)
	c.URL = "https://payments.invalid/" + c.Session
	p.sessions[c.Key], p.pages[c.Session] = c.Session, &page{checkout: c, org: o, customer: customer}
	return c, nil
}

// Session returns a checkout session.
func (p *Payments) Session(_ context.Context, session string) (plan.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.page(session)
	if err != nil {
		return plan.Session{}, err
	}
	return plan.Session{Status: g.status(p.clock.Now()), Org: g.org, Plan: g.checkout.Plan, Subscription: g.subscription}, nil
}

func (p *Payments) page(session string) (*page, error) {
	if g := p.pages[session]; g != nil {
		return g, nil
	}
	return nil, fault.Missing("Checkout session")
}

func (g *page) status(now time.Time) string {
	switch {
	case g.subscription != "":
		return "complete"
	case g.closed || !now.Before(g.checkout.ExpiresAt):
		return "expired"
	}
	return "open"
}

// Expire closes a checkout session.
func (p *Payments) Expire(_ context.Context, session string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.page(session)
	switch {
	case err != nil:
		return err
	case g.subscription != "":
		return fault.New(fault.Conflict, "The checkout is complete")
	}
	g.closed = true
	return nil
}

// Portal returns an invalid URL.
func (p *Payments) Portal(_ context.Context, customer, back string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkCustomer(customer); err != nil {
		return "", err
	}
	return "https://payments.invalid/" + p.nextID("portal"), nil
}

// Subscription returns a subscription.
func (p *Payments) Subscription(_ context.Context, subscription string) (plan.Remote, error) {
	return p.update(subscription, func(*plan.Remote) error { return nil })
}

// Change moves a subscription to another plan.
func (p *Payments) Change(_ context.Context, subscription string, to plan.Plan) error {
	_, err := p.update(subscription, func(r *plan.Remote) error {
		switch {
		case !r.Live():
			return fault.Missing("Subscription")
		case r.Status == plan.RemoteStatusPastDue && r.Plan != to:
			return fault.New(fault.Conflict, "The payment was declined")
		}
		r.Plan, r.CancelAtPeriodEnd = to, false
		return nil
	})
	return err
}

// Cancel ends a subscription.
func (p *Payments) Cancel(_ context.Context, subscription string, atOnce bool) error {
	_, err := p.update(subscription, func(r *plan.Remote) error {
		switch {
		case !r.Live():
		case atOnce:
			r.Status = plan.RemoteStatusCanceled
		default:
			r.CancelAtPeriodEnd = true
		}
		return nil
	})
	return err
}

// update changes and returns a subscription.
func (p *Payments) update(subscription string, fn func(*plan.Remote) error) (plan.Remote, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.subscriptions[subscription]
	if r == nil {
		return plan.Remote{}, fault.Missing("Subscription")
	}
	if err := fn(r); err != nil {
		return plan.Remote{}, err
	}
	return clone(*r), nil
}

// Pay completes a checkout session, with an active subscription for a month. It returns
// Conflict for a closed session.
func (p *Payments) Pay(session string) (subscription string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.page(session)
	if err != nil {
		return "", err
	}
	now := p.clock.Now()
	if status := g.status(now); status != "open" {
		return "", fault.New(fault.Conflict, "The page is %s", status)
	}
	g.subscription = p.nextID("sub")
	p.subscriptions[g.subscription] = &plan.Remote{
		ID: g.subscription, Customer: g.customer, Org: g.org, Status: plan.RemoteStatusActive, Plan: g.checkout.Plan, Seats: new(1),
		PeriodStart: &now, PeriodEnd: new(now.AddDate(0, 1, 0)), HasPaymentMethod: true,
	}
	return g.subscription, nil
}

// Fail makes a due payment fail. It returns Conflict for a subscription that has ended.
func (p *Payments) Fail(subscription string) (plan.Remote, error) {
	return p.update(subscription, func(r *plan.Remote) error {
		if !r.Live() {
			return fault.New(fault.Conflict, "The subscription is over")
		}
		r.Status = plan.RemoteStatusPastDue
		return nil
	})
}

// Renew ends a period: it pays for the next one, or ends a subscription that is cancelled at
// period end.
func (p *Payments) Renew(subscription string) (plan.Remote, error) {
	return p.update(subscription, func(r *plan.Remote) error {
		switch {
		case !r.Live():
		case r.CancelAtPeriodEnd:
			r.Status = plan.RemoteStatusCanceled
		default:
			start := *r.PeriodEnd
			r.Status, r.PeriodStart, r.PeriodEnd = plan.RemoteStatusActive, &start, new(start.AddDate(0, 1, 0))
		}
		return nil
	})
}

// Set stores a subscription.
func (p *Payments) Set(r plan.Remote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscriptions[r.ID] = new(clone(r))
}

// Forget removes a subscription.
func (p *Payments) Forget(subscription string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subscriptions, subscription)
}
