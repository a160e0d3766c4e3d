package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"collab/adapters/memory"
	"collab/adapters/stripepay"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

// Payments is a payment provider that sends webhooks. Each period is paid when it begins,
// unless the card is declined.
type Payments struct {
	*memory.Payments
	Queue    WebhookQueue
	Declined map[id.Org]bool // whose payments fail

	deployment *Deployment
	messages   int
	known      []plan.Remote // every subscription as it was reported last
}

func newPayments(w *Deployment) *Payments {
	p := &Payments{Payments: memory.NewPayments(w.Clock), deployment: w, Declined: map[id.Org]bool{}}
	p.Queue.send = func(ctx context.Context, m Message) error {
		header := map[string]string{stripepay.HeaderSignature: stripepay.Sign(PaymentSecret, w.Clock.Now(), m.body)}
		return w.Webhooks.Payment(ctx, func(name string) string { return header[name] }, m.body, enter)
	}
	return p
}

// send queues a message about an object.
func (p *Payments) send(ctx context.Context, kind string, of map[string]any) error {
	p.messages++
	m := Message{ID: fmt.Sprintf("evt_%d", p.messages), At: p.deployment.Clock.Now()}
	var err error
	if m.body, err = json.Marshal(map[string]any{"id": m.ID, "type": kind, "created": m.At.Unix(), "data": map[string]any{"object": of}}); err != nil {
		return err
	}
	p.Queue.add(ctx, m)
	return nil
}

// SubscriptionData is a subscription as messages have it.
func SubscriptionData(r plan.Remote) map[string]any {
	data := map[string]any{
		"id": r.ID, "object": "subscription", "status": r.Status, "customer": r.Customer, "metadata": map[string]any{"org_id": r.Org},
		"items":                map[string]any{"data": []map[string]any{{"id": "si_" + r.ID, "price": map[string]any{"id": Prices[r.Plan][0]}, "quantity": *r.Seats}}},
		"current_period_start": r.PeriodStart.Unix(), "current_period_end": r.PeriodEnd.Unix(), "cancel_at_period_end": r.CancelAtPeriodEnd,
	}
	if r.HasPaymentMethod {
		data["default_payment_method"] = "pm_" + r.ID
	}
	return data
}

// InvoiceData is the last invoice of a subscription as messages have it.
func InvoiceData(r plan.Remote) map[string]any {
	return map[string]any{
		"id": "in_" + r.ID, "object": "invoice", "customer": r.Customer, "subscription": r.ID,
		"subscription_details": map[string]any{"metadata": map[string]any{"org_id": r.Org}},
		"lines":                map[string]any{"data": []map[string]any{{"type": "subscription", "subscription": r.ID, "period": map[string]any{"end": r.PeriodEnd.Unix()}}}},
	}
}

// PayPage pays on the page of a checkout; late means that the payment has not arrived yet.
func (p *Payments) PayPage(ctx context.Context, session string, late bool) error {
	subscription, err := p.Pay(session)
	if err != nil {
		return err
	}
	r, err := p.Subscription(ctx, subscription)
	if err != nil {
		return err
	}
	first, paid := r, "paid"
	first.Status = plan.RemoteStatusIncomplete
	if late {
		r, paid = first, "unpaid"
		p.Set(r)
	}
	p.known = append(p.known, r)
	err = p.send(ctx, "checkout.session.completed", map[string]any{
		"id": session, "object": "checkout.session", "mode": "subscription", "payment_status": paid, "customer": r.Customer,
		"subscription": r.ID, "client_reference_id": r.Org,
	})
	if err == nil {
		err = p.send(ctx, "customer.subscription.created", SubscriptionData(first))
	}
	if err == nil && !late {
		err = p.send(ctx, "invoice.paid", InvoiceData(r))
	}
	if err == nil && !late {
		err = p.send(ctx, "customer.subscription.updated", SubscriptionData(r))
	}
	return err
}

// Report queues messages about the subscriptions that have changed.
func (p *Payments) Report(ctx context.Context) error {
	for i, was := range p.known {
		is, err := p.Subscription(ctx, was.ID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if equalRemotes(was, is) {
			continue
		}
		p.known[i] = is
		kind := "customer.subscription.updated"
		if is.Status == plan.RemoteStatusCanceled {
			kind = "customer.subscription.deleted"
		}
		if err := p.send(ctx, kind, SubscriptionData(is)); err != nil {
			return err
		}
	}
	return nil
}

func equalRemotes(a, b plan.Remote) bool {
	return a.Status == b.Status && a.Plan == b.Plan && a.CancelAtPeriodEnd == b.CancelAtPeriodEnd && a.HasPaymentMethod == b.HasPaymentMethod &&
		*a.Seats == *b.Seats && a.PeriodStart.Equal(*b.PeriodStart) && a.PeriodEnd.Equal(*b.PeriodEnd)
}

// due returns when the next period ends.
func (p *Payments) due() (at time.Time, ok bool) {
	for _, r := range p.known {
		if r.Status == plan.RemoteStatusActive && (!ok || r.PeriodEnd.Before(at)) {
			at, ok = *r.PeriodEnd, true
		}
	}
	return at, ok
}

// renew renews the subscriptions whose periods have ended, or has their payments fail.
func (p *Payments) renew(ctx context.Context) error {
	now := p.deployment.Clock.Now()
	for _, r := range p.known {
		if r.Status != plan.RemoteStatusActive || r.PeriodEnd.After(now) {
			continue
		}
		if p.Declined[r.Org] && !r.CancelAtPeriodEnd {
			if err := p.FailPayment(ctx, r.ID); err != nil {
				return err
			}
			continue
		}
		is, err := p.Renew(r.ID)
		if fault.Is(err, fault.NotFound) {
			p.drop(r.ID)
			return nil
		}
		if err != nil {
			return err
		}
		if is.Status == plan.RemoteStatusActive {
			if err := p.send(ctx, "invoice.paid", InvoiceData(is)); err != nil {
				return err
			}
		}
		if err := p.Report(ctx); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a subscription from those that are reported.
func (p *Payments) drop(subscription string) {
	p.known = slices.DeleteFunc(slices.Clone(p.known), func(r plan.Remote) bool { return r.ID == subscription })
}

// FailPayment has a payment fail that was due.
func (p *Payments) FailPayment(ctx context.Context, subscription string) error {
	r, err := p.Fail(subscription)
	if err != nil {
		return err
	}
	if err := p.send(ctx, "invoice.payment_failed", InvoiceData(r)); err != nil {
		return err
	}
	return p.Report(ctx)
}

// Latest returns the subscription of an organisation that was made last.
func (p *Payments) Latest(ctx context.Context, o id.Org) (plan.Remote, error) {
	for _, r := range slices.Backward(p.known) {
		if r.Org == o {
			return p.Subscription(ctx, r.ID)
		}
	}
	return plan.Remote{}, fault.Missing("Subscription")
}

// Recover has the payment of a subscription succeed that had failed, or was late.
func (p *Payments) Recover(ctx context.Context, r plan.Remote) error {
	if r.PeriodEnd.After(p.deployment.Clock.Now()) {
		r.Status = plan.RemoteStatusActive
		p.Set(r)
	} else {
		var err error
		if r, err = p.Renew(r.ID); err != nil {
			return err
		}
	}
	if err := p.send(ctx, "invoice.paid", InvoiceData(r)); err != nil {
		return err
	}
	return p.Report(ctx)
}

// Remove forgets a subscription.
func (p *Payments) Remove(subscription string) {
	p.Forget(subscription)
	p.drop(subscription)
}

// FaultyPayments is a payment provider whose calls are made by Call, which is given their names.
type FaultyPayments struct {
	ports.Payments
	ports.Billing
	Call func(name string, do func() error) error
}

// Customer implements ports.Payments.
func (p FaultyPayments) Customer(ctx context.Context, o id.Org, name, deleted string) (string, error) {
	return ask(p.Call, "Payments.Customer", func() (string, error) { return p.Payments.Customer(ctx, o, name, deleted) })
}

// Open implements ports.Payments.
func (p FaultyPayments) Open(ctx context.Context, o id.Org, customer string, c plan.Checkout) (plan.Checkout, error) {
	return ask(p.Call, "Payments.Open", func() (plan.Checkout, error) { return p.Payments.Open(ctx, o, customer, c) })
}

// Session implements ports.Payments.
func (p FaultyPayments) Session(ctx context.Context, session string) (plan.Session, error) {
	return ask(p.Call, "Payments.Session", func() (plan.Session, error) { return p.Payments.Session(ctx, session) })
}

// Expire implements ports.Payments.
func (p FaultyPayments) Expire(ctx context.Context, session string) error {
	return p.Call("Payments.Expire", func() error { return p.Payments.Expire(ctx, session) })
}

// Portal implements ports.Payments.
func (p FaultyPayments) Portal(ctx context.Context, customer, back string) (string, error) {
	return ask(p.Call, "Payments.Portal", func() (string, error) { return p.Payments.Portal(ctx, customer, back) })
}

// Subscription implements ports.Billing.
func (p FaultyPayments) Subscription(ctx context.Context, subscription string) (plan.Remote, error) {
	return ask(p.Call, "Payments.Subscription", func() (plan.Remote, error) { return p.Billing.Subscription(ctx, subscription) })
}

// Change implements ports.Billing.
func (p FaultyPayments) Change(ctx context.Context, subscription string, to plan.Plan) error {
	return p.Call("Payments.Change", func() error { return p.Billing.Change(ctx, subscription, to) })
}

// Cancel implements ports.Billing.
func (p FaultyPayments) Cancel(ctx context.Context, subscription string, atOnce bool) error {
	return p.Call("Payments.Cancel", func() error { return p.Billing.Cancel(ctx, subscription, atOnce) })
}
