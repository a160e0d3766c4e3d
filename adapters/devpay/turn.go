package devpay

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// turn is one use of the book: what may be known and done in it.
type turn struct {
	*book
	p   *Provider
	now time.Time // in whole seconds, as Stripe's times are

	told []string // the subscriptions that something has happened to
}

func (p *Provider) turn(b *book) *turn {
	return &turn{book: b, p: p, now: p.options.Clock.Now().Truncate(time.Second)}
}

// read runs fn, which changes nothing.
func (p *Provider) read(fn func(*turn) error) error {
	var err error
	p.book.Read(func(b *book) { err = fn(p.turn(b)) })
	return err
}

// change runs fn and keeps what it has changed, if it reports that it has. It
// returns what is closed once everything that has happened was delivered, or
// could not be.
func (p *Provider) change(fn func(*turn) (bool, error)) (delivered []<-chan struct{}, err error) {
	var told []string
	err = p.book.Update(func(b *book) (bool, error) {
		t := p.turn(b)
		changed, err := fn(t)
		if err != nil || !changed {
			return false, err
		}
		told = t.told
		return true, b.bound(t.now)
	})
	if err != nil {
		return nil, err
	}
	for _, s := range told {
		delivered = append(delivered, p.deliver(s))
	}
	return delivered, nil
}

// await waits until everything was delivered, or nobody is interested any more.
func await(ctx context.Context, delivered []<-chan struct{}) {
	for _, done := range delivered {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// newID returns an id as Stripe has them.
func (t *turn) newID(prefix string) string {
	return prefix + strings.ReplaceAll(t.p.options.IDs.New(), "-", "")
}

// tell adds an event about a subscription. Before are the fields of the object
// that were different.
func (t *turn) tell(kind, subscription string, o, before object) error {
	data := object{"object": o}
	if before != nil {
		data["previous_attributes"] = before
	}
	id := t.newID("evt_")
	body, err := json.Marshal(object{
		"id": id, "object": "event", "api_version": APIVersion, "created": t.now.Unix(), "data": data, "livemode": false,
		"pending_webhooks": 1, "request": object{"id": nil, "idempotency_key": nil}, "type": kind,
	})
	if err != nil {
		return err
	}
	t.Outbox = append(t.Outbox, message{ID: id, Subscription: subscription, Body: body})
	if !slices.Contains(t.told, subscription) {
		t.told = append(t.told, subscription)
	}
	return nil
}

// put keeps a subscription and tells of what is different about it, if anything
// is.
func (t *turn) put(s subscription) error {
	was, is := t.subscriptionObject(t.Subscriptions[s.ID]), t.subscriptionObject(s)
	t.Subscriptions[s.ID] = s
	before := object{}
	for name, value := range was {
		if !reflect.DeepEqual(value, is[name]) {
			before[name] = value
		}
	}
	if len(before) == 0 {
		return nil
	}
	return t.tell("customer.subscription.updated", s.ID, is, before)
}

// bill gives the subscription an invoice for what remains of its present period.
func (t *turn) bill(s *subscription, reason string, from time.Time) {
	s.Invoice = invoice{
		ID: t.newID("in_"), Reason: reason, Price: s.Price, Quantity: s.Quantity,
		Start: from, End: s.periodEnd(), CreatedAt: t.now,
	}
}

// charge makes one more attempt to have the invoice paid.
func (t *turn) charge(s *subscription, works bool) {
	s.Invoice.Attempts++
	s.Status = pastDue
	if works {
		s.Invoice.PaidAt, s.Status = t.now, active
	}
}

// pay pays on a page. It does nothing on one that was paid on.
func (t *turn) pay(id string) (session, error) {
	page, known := t.Sessions[id]
	if !known {
		return session{}, missing("checkout.session", id)
	}
	switch page.status(t.now) {
	case complete:
		return page, nil
	case expired:
		return session{}, errExpired
	}
	first := subscription{
		ID: t.newID("sub_"), Item: t.newID("si_"), Customer: page.Customer, Price: page.Price, Quantity: page.Quantity,
		Metadata: page.SubscriptionMetadata, Status: incomplete, Anchor: t.now,
	}
	t.bill(&first, "subscription_create", t.now)
	t.Subscriptions[first.ID] = first
	paid := first
	paid.PaymentMethod = t.newID("pm_")
	t.charge(&paid, true)
	page.Subscription, page.Invoice = paid.ID, paid.Invoice.ID
	t.Sessions[id] = page

	if err := t.tell("checkout.session.completed", paid.ID, t.sessionObject(page), nil); err != nil {
		return session{}, err
	}
	if err := t.tell("customer.subscription.created", paid.ID, t.subscriptionObject(first), nil); err != nil {
		return session{}, err
	}
	if err := t.put(paid); err != nil {
		return session{}, err
	}
	return page, t.tell("invoice.paid", paid.ID, t.invoiceObject(paid), nil)
}

var errExpired = &refusal{status: http.StatusConflict, message: "This checkout is closed, and nobody can pay on it any more"}

// Action is something that happens to a subscription, at the press of a button.
type Action string

// The actions. Where a payment fails on a subscription that is paid, it is the
// next period's, which begins at once.
const (
	Fail       Action = "fail"       // a payment fails
	Succeed    Action = "succeed"    // the payment that had failed is made
	Schedule   Action = "schedule"   // it is to end with its period
	Keep       Action = "keep"       // it is not to end
	Cancel     Action = "cancel"     // it ends now
	NextPeriod Action = "nextPeriod" // its period is over
)

// actions returns what can happen to a subscription.
func (s subscription) actions() []Action {
	var list []Action
	switch s.Status {
	case active:
		list = append(list, Fail, NextPeriod)
	case pastDue:
		list = append(list, Succeed, Fail)
	default:
		return nil
	}
	if s.CancelAtPeriodEnd {
		return append(list, Keep, Cancel)
	}
	return append(list, Schedule, Cancel)
}

// act makes an action happen to a subscription.
func (t *turn) act(id string, a Action) error {
	s, known := t.Subscriptions[id]
	if !known {
		return missing("subscription", id)
	}
	if !slices.Contains(s.actions(), a) {
		return &refusal{status: http.StatusConflict, message: "That cannot happen to the subscription as it is now"}
	}
	switch a {
	case Fail:
		if s.Status == active {
			s.Month++
			t.bill(&s, "subscription_cycle", s.periodStart())
		}
		t.charge(&s, false)
		if err := t.tell("invoice.payment_failed", id, t.invoiceObject(s), nil); err != nil {
			return err
		}
	case Succeed:
		t.charge(&s, true)
		if err := t.tell("invoice.paid", id, t.invoiceObject(s), nil); err != nil {
			return err
		}
	case NextPeriod:
		if s.CancelAtPeriodEnd {
			return t.end(s)
		}
		return t.renew(s, s.Month+1)
	case Schedule, Keep:
		t.schedule(&s, a == Schedule)
	case Cancel:
		return t.end(s)
	}
	return t.put(s)
}

// renew begins a month of the subscription, and has it paid.
func (t *turn) renew(s subscription, month int) error {
	s.Month = month
	t.bill(&s, "subscription_cycle", s.periodStart())
	t.charge(&s, true)
	if err := t.tell("invoice.paid", s.ID, t.invoiceObject(s), nil); err != nil {
		return err
	}
	return t.put(s)
}

// overdue reports whether the subscription's period is over and nothing has come
// of that.
func (s subscription) overdue(now time.Time) bool {
	return (s.Status == active || s.Status == pastDue && s.CancelAtPeriodEnd) && !now.Before(s.periodEnd())
}

// settle does what time has brought: subscriptions whose period is over are
// renewed, or end. Of several months that nobody has seen only the last is told.
func (t *turn) settle() (err error) {
	for _, id := range slices.Sorted(maps.Keys(t.Subscriptions)) {
		s := t.Subscriptions[id]
		switch {
		case err != nil || len(t.Outbox) > maxRecords-10:
			return err // the rest is for the next time
		case !s.overdue(t.now):
		case s.CancelAtPeriodEnd:
			err = t.end(s)
		default:
			month := s.Month + 1
			for !t.now.Before(monthsAfter(s.Anchor, month+1)) {
				month++
			}
			err = t.renew(s, month)
		}
	}
	return err
}

// schedule says whether the subscription ends with its period.
func (t *turn) schedule(s *subscription, ends bool) {
	switch {
	case ends && !s.CancelAtPeriodEnd:
		s.CanceledAt = t.now
	case !ends:
		s.CanceledAt = time.Time{}
	}
	s.CancelAtPeriodEnd = ends
}

// end ends the subscription.
func (t *turn) end(s subscription) error {
	s.Status, s.EndedAt = canceled, t.now
	if s.CanceledAt.IsZero() {
		s.CanceledAt = t.now
	}
	t.Subscriptions[s.ID] = s
	return t.tell("customer.subscription.deleted", s.ID, t.subscriptionObject(s), nil)
}

// settle does what time has brought since it was last asked for. A failure is
// in the log, and what it was about is tried again with the next request.
func (p *Provider) settle() {
	due := false
	err := p.read(func(t *turn) error {
		for _, s := range t.Subscriptions {
			due = due || s.overdue(t.now)
		}
		return nil
	})
	if err == nil && due {
		_, err = p.change(func(t *turn) (bool, error) { return true, t.settle() })
	}
	if err != nil {
		p.options.Log.Error("development payment provider: renewals", "error", err)
	}
}

// Pay pays on the page of a checkout session and returns the address where
// whoever has paid goes on. It returns when the service has heard of it, or could
// not be reached.
func (p *Provider) Pay(ctx context.Context, id string) (next string, err error) {
	delivered, err := p.change(func(t *turn) (bool, error) {
		page, err := t.pay(id)
		next = strings.ReplaceAll(page.SuccessURL, sessionPlaceholder, id)
		return len(t.told) > 0, err
	})
	await(ctx, delivered)
	return next, err
}

// Act makes an action happen to a subscription. It returns when the service has
// heard of it, or could not be reached.
func (p *Provider) Act(ctx context.Context, subscription string, a Action) error {
	delivered, err := p.change(func(t *turn) (bool, error) { return true, t.act(subscription, a) })
	await(ctx, delivered)
	return err
}
