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

// tx is one read or change of the state.
type tx struct {
	*state
	p   *Provider
	now time.Time // in whole seconds, as Stripe's times are

	events []message // new ones
}

func (p *Provider) tx(b *state) *tx {
	return &tx{state: b, p: p, now: p.options.Clock.Now().Truncate(time.Second)}
}

// read runs fn, which changes nothing.
func (p *Provider) read(fn func(*tx)) {
	p.state.Read(func(b *state) { fn(p.tx(b)) })
}

// change runs fn and stores the state if fn reports a change. It returns a channel for each
// new event, which is closed after its first attempt.
func (p *Provider) change(fn func(*tx) (bool, error)) (attempts []<-chan struct{}, err error) {
	var events []message
	err = p.state.Update(func(b *state) (bool, error) {
		t := p.tx(b)
		changed, err := fn(t)
		if err != nil || !changed {
			return false, err
		}
		events = t.events
		return true, b.prune(t.now)
	})
	if err != nil {
		return nil, err
	}
	for _, m := range events {
		attempts = append(attempts, p.deliver(m))
	}
	return attempts, nil
}

// newID returns an id in Stripe's form.
func (t *tx) newID(prefix string) string {
	return prefix + strings.ReplaceAll(t.p.options.IDs.New(), "-", "")
}

// addEvent puts an event about an object into the outbox.
func (t *tx) addEvent(kind string, o object) {
	id := t.newID("evt_")
	body, err := json.Marshal(object{
		"id": id, "object": "event", "api_version": apiVersion, "created": t.now.Unix(), "data": object{"object": o}, "type": kind,
	})
	if err != nil {
		panic(err) // objects have texts, numbers and other objects only
	}
	m := message{ID: id, Body: body}
	t.Outbox, t.events = append(t.Outbox, m), append(t.events, m)
}

// put stores a subscription, with an event if it has changed.
func (t *tx) put(s subscription) {
	previous := t.Subscriptions[s.ID]
	t.Subscriptions[s.ID] = s
	if !reflect.DeepEqual(previous, s) {
		t.addEvent("customer.subscription.updated", t.subscriptionObject(s))
	}
}

// addInvoice replaces the subscription's invoice by one for the rest of its period.
func (t *tx) addInvoice(s *subscription, from time.Time) {
	s.Invoice = invoice{ID: t.newID("in_"), Start: from, End: s.periodEnd()}
}

// markPaid records that the subscription's invoice was paid now.
func (t *tx) markPaid(s *subscription) { s.Invoice.PaidAt, s.Status = t.now, active }

// pay completes a checkout session. It does nothing to a completed one.
func (t *tx) pay(id string) (session, error) {
	page, err := find(t.Sessions, "checkout.session", id)
	if err != nil {
		return session{}, err
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
	t.addInvoice(&first, t.now)
	t.Subscriptions[first.ID] = first
	paid := first
	paid.PaymentMethod = t.newID("pm_")
	t.markPaid(&paid)
	page.Subscription = paid.ID
	t.Sessions[id] = page

	t.addEvent("checkout.session.completed", t.sessionObject(page))
	t.addEvent("customer.subscription.created", t.subscriptionObject(first))
	t.put(paid)
	t.addEvent("invoice.paid", t.invoiceObject(paid))
	return page, nil
}

var errExpired = &apiError{status: http.StatusConflict, message: "This checkout is closed and can no longer be paid"}

// Action is a button of the portal.
type Action string

// The actions. On a paid subscription, Fail begins the next period, whose payment fails.
const (
	Fail       Action = "fail"       // a payment fails
	Succeed    Action = "succeed"    // the failed payment is made
	Schedule   Action = "schedule"   // cancel at the end of the period
	Keep       Action = "keep"       // revoke the cancellation
	Cancel     Action = "cancel"     // cancel at once
	NextPeriod Action = "nextPeriod" // the period ends
)

// actions returns the actions that a subscription allows.
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

// act applies an action to a subscription.
func (t *tx) act(id string, a Action) error {
	s, err := find(t.Subscriptions, "subscription", id)
	if err != nil {
		return err
	}
	if !slices.Contains(s.actions(), a) {
		return &apiError{status: http.StatusConflict, message: "The status of the subscription does not allow this action"}
	}
	switch a {
	case Fail:
		if s.Status == active {
			s.Month++
			t.addInvoice(&s, s.periodStart())
		}
		s.Status = pastDue
		t.addEvent("invoice.payment_failed", t.invoiceObject(s))
		t.put(s)
	case Succeed:
		t.markPaid(&s)
		t.addEvent("invoice.paid", t.invoiceObject(s))
		t.put(s)
	case NextPeriod:
		t.endPeriod(s, s.Month+1)
	case Schedule, Keep:
		s.CancelAtPeriodEnd = a == Schedule
		t.put(s)
	case Cancel:
		t.end(s)
	}
	return nil
}

// endPeriod ends the subscription if it is to be cancelled then. Otherwise it starts the month
// and pays for it.
func (t *tx) endPeriod(s subscription, month int) {
	if s.CancelAtPeriodEnd {
		t.end(s)
		return
	}
	s.Month = month
	t.addInvoice(&s, s.periodStart())
	t.markPaid(&s)
	t.addEvent("invoice.paid", t.invoiceObject(s))
	t.put(s)
}

// overdue reports whether the subscription's period has ended and must be renewed or
// cancelled.
func (s subscription) overdue(now time.Time) bool {
	return (s.Status == active || s.Status == pastDue && s.CancelAtPeriodEnd) && !now.Before(s.periodEnd())
}

// renewDue renews or ends the subscriptions whose period has ended. Of several missed months
// only the last one has events.
func (t *tx) renewDue() {
	for _, id := range slices.Sorted(maps.Keys(t.Subscriptions)) {
		if len(t.Outbox) > maxRecords-10 {
			return // the next call continues
		}
		if s := t.Subscriptions[id]; s.overdue(t.now) {
			month := s.Month + 1
			for !t.now.Before(monthsAfter(s.Anchor, month+1)) {
				month++
			}
			t.endPeriod(s, month)
		}
	}
}

// end ends the subscription.
func (t *tx) end(s subscription) {
	s.Status, s.EndedAt = canceled, t.now
	t.Subscriptions[s.ID] = s
	t.addEvent("customer.subscription.deleted", t.subscriptionObject(s))
}

// renewDue renews or ends the subscriptions that are overdue. After an error, which is
// logged, the next request retries.
func (p *Provider) renewDue() {
	due := false
	p.read(func(t *tx) {
		for _, s := range t.Subscriptions {
			due = due || s.overdue(t.now)
		}
	})
	if !due {
		return
	}
	_, err := p.change(func(t *tx) (bool, error) {
		t.renewDue()
		return true, nil
	})
	if err != nil {
		p.options.Log.Error("development payment provider renewals failed", "error", err)
	}
}

// Pay completes a checkout session and returns its success URL. It waits until delivery of
// the events was attempted.
func (p *Provider) Pay(ctx context.Context, id string) (next string, err error) {
	attempts, err := p.change(func(t *tx) (bool, error) {
		page, err := t.pay(id)
		next = strings.ReplaceAll(page.SuccessURL, sessionPlaceholder, id)
		return len(t.events) > 0, err
	})
	p.await(ctx, attempts)
	return next, err
}

// Act applies an action to a subscription. It waits until delivery of the events was
// attempted.
func (p *Provider) Act(ctx context.Context, subscription string, a Action) error {
	attempts, err := p.change(func(t *tx) (bool, error) { return true, t.act(subscription, a) })
	p.await(ctx, attempts)
	return err
}
