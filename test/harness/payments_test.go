package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/adapters/stripepay"
	"collab/app/access"
	"collab/app/billing"
	"collab/app/webhooks"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

const paidURL = "https://collab.invalid/paid"

// billingFixture is billing and its webhooks over the store in memory, with a payment provider
// whose calls fail and whose messages come late, repeatedly, in any order or not at all.
type billingFixture struct {
	t        rapid.TB
	r        *rapid.T // draws the steps and faults; nil: there are none
	clock    *memory.Clock
	store    *memory.Store
	provider *memory.Payments
	billing  *billing.Billing
	webhooks *webhooks.Webhooks
	tenants  []*tenant

	subscriptions []plan.Remote   // each subscription as last observed
	gone          map[string]bool // subscriptions that the provider no longer has
	events        []paymentEvent
	last          map[string]paymentEvent // by subscription

	forgets   bool // the provider forgets ended subscriptions, and no two messages have the same second
	faultless bool // no faults are injected
	depth     int  // of steps during calls
	disturbed bool // a fault was injected, or a step happened during a call, in the present step
}

// tenant is an organisation and its history.
type tenant struct {
	actor    org.Actor
	sessions []string // checkout sessions
	trials   int
	trialEnd time.Time // zero: there is no trial
	granted  bool
	paid     bool // it had a subscription that was paid
	failed   bool // it had a subscription whose first payment failed
}

// paymentEvent is a message of the provider.
type paymentEvent struct {
	body []byte
	at   time.Time
}

// call makes a call to the payment provider, with injected faults, and with steps during it.
func (m *billingFixture) call(name string, do func() error) error {
	what := "fine"
	if !m.faultless {
		what = rapid.SampledFrom([]string{"fine", "fine", "fine", "fine", "refused", "response lost", "before", "after"}).Draw(m.r, name)
	}
	if what != "fine" {
		m.disturbed = true
	}
	if what == "refused" {
		return fault.New(fault.Unavailable, "injected: %s was refused", name)
	}
	if what == "before" {
		m.interleave()
	}
	err := do()
	m.observe()
	switch {
	case what == "after":
		m.interleave()
	case what == "response lost" && err == nil:
		return fault.New(fault.Unavailable, "injected: the response of %s was lost", name)
	}
	return err
}

// newBillingFixture returns a fixture with organisations that have no plan.
func newBillingFixture(t rapid.TB, tenants int) *billingFixture {
	m := &billingFixture{
		t: t, clock: memory.NewClock(start), store: memory.NewStore(), gone: map[string]bool{}, last: map[string]paymentEvent{},
	}
	m.provider = memory.NewPayments(m.clock)
	ids := &memory.IDs{}
	provider := harness.FaultyPayments{Payments: m.provider, Billing: m.provider, Call: m.call}
	m.billing = billing.New(billing.Options{
		Store: m.store, Payments: provider, Provider: provider, Clock: m.clock, IDs: ids, Log: slog.New(slog.DiscardHandler), PaidURL: paidURL,
		Origin: access.Origin,
		// The tenant has no membership here.
		Reauthorize: func(_ context.Context, actor org.Actor) (org.Actor, error) { return actor, nil },
		Locked: func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
			return m.store.Atomic(ctx, func(r ports.Records) error {
				_, err := r.Directory().Organisations().Lock(ctx, actor.Org)
				return errors.Join(err, fn(r, actor))
			})
		},
	})
	m.webhooks = webhooks.New(webhooks.Options{
		Store: m.store, Payments: stripepay.NewEvents([]string{harness.PaymentSecret}, harness.Prices, m.clock), Clock: m.clock, IDs: ids, Billing: m.billing,
	})
	for i := range tenants {
		fresh := org.Organisation{ID: id.Org(ids.New()), ProviderID: fmt.Sprintf("org_%d", i), Name: fmt.Sprintf("Buyer %d", i)}
		o := must.Do(m.store.Directory().Organisations().Upsert(context.Background(), fresh, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(t)
		m.tenants = append(m.tenants, &tenant{actor: org.Actor{User: id.User(ids.New()), Org: o.ID, Role: org.Owner}})
	}
	return m
}

// observe records which subscriptions have changed at the provider, and adds their messages.
func (m *billingFixture) observe() {
	for i, was := range m.subscriptions {
		is, err := m.provider.Subscription(context.Background(), was.ID)
		if m.gone[was.ID] && fault.Is(err, fault.NotFound) {
			continue
		}
		must.NoError(m.t, err)
		if bytes.Equal(text(was), text(is)) {
			continue
		}
		m.subscriptions[i] = is
		b := m.tenants[slices.IndexFunc(m.tenants, func(b *tenant) bool { return b.actor.Org == is.Org })]
		b.paid, b.failed = b.paid || is.Live(), b.failed || is.Status == plan.RemoteStatusIncompleteExpired
		kind := "customer.subscription.updated"
		if is.Status == plan.RemoteStatusCanceled {
			kind = "customer.subscription.deleted"
		}
		m.addMessage(is.ID, kind, harness.SubscriptionData(is))
	}
}

func text(v any) []byte { return must.Get(json.Marshal(v)) }

// addMessage adds a message about a subscription, without sending it.
func (m *billingFixture) addMessage(subscription, kind string, of map[string]any) {
	if m.forgets {
		m.clock.Advance(time.Second)
	}
	n := paymentEvent{at: m.clock.Now()}
	n.body = text(object{
		"id": fmt.Sprintf("evt_%d", len(m.events)+1), "type": kind, "created": n.at.Unix(), "data": object{"object": of},
	})
	m.events = append(m.events, n)
	m.last[subscription] = n
}

// pay pays a checkout session and reports whether it was open. A late payment is still
// pending.
func (m *billingFixture) pay(b *tenant, session string, late bool) bool {
	subscription, err := m.provider.Pay(session)
	if err != nil {
		return false
	}
	r := must.Do(m.provider.Subscription(context.Background(), subscription)).Or(m.t)
	first, paid := r, "paid"
	first.Status = plan.RemoteStatusIncomplete
	if late {
		r, paid = first, "unpaid"
		m.provider.Set(r)
	}
	b.paid = b.paid || r.Live()
	m.subscriptions = append(m.subscriptions, r)
	m.addMessage(r.ID, "checkout.session.completed", object{
		"id": session, "object": "checkout.session", "mode": "subscription", "payment_status": paid, "customer": r.Customer,
		"subscription": r.ID, "client_reference_id": r.Org,
	})
	m.addMessage(r.ID, "customer.subscription.created", harness.SubscriptionData(first))
	if late {
		return true
	}
	m.addMessage(r.ID, "invoice.paid", harness.InvoiceData(r))
	m.addMessage(r.ID, "customer.subscription.updated", harness.SubscriptionData(r))
	return true
}

// send sends a message.
func (m *billingFixture) send(n paymentEvent) error {
	header := map[string]string{"Stripe-Signature": stripepay.Sign(harness.PaymentSecret, m.clock.Now(), n.body)}
	return m.webhooks.Payment(context.Background(), func(name string) string { return header[name] }, n.body, func(context.Context, string) error { return nil })
}

// sendAll sends messages, which must be accepted.
func (m *billingFixture) sendAll(all []paymentEvent) {
	for _, n := range all {
		if err := m.send(n); err != nil {
			m.t.Fatalf("%s: %v", n.body, err)
		}
	}
}

// interleave does other steps during a call.
func (m *billingFixture) interleave() {
	if m.depth == 2 {
		return
	}
	m.depth++
	for range rapid.IntRange(1, 3).Draw(m.r, "meanwhile") {
		m.step()
	}
	m.depth--
	m.disturbed = true // each step has reset it
}

// checkout asks for a plan, and keeps the checkout session if there is one.
func (m *billingFixture) checkout(b *tenant, p plan.Plan) error {
	url, err := m.billing.Checkout(context.Background(), b.actor, p)
	if session, isPage := strings.CutPrefix(url, "https://payments.invalid/"); isPage {
		b.sessions = append(b.sessions, session)
	}
	return err
}

// step does one drawn step, and checks the invariants.
func (m *billingFixture) step() {
	t, ctx := m.r, context.Background()
	b := m.tenants[rapid.IntRange(0, len(m.tenants)-1).Draw(t, "buyer")]
	plans := rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium})
	what := rapid.SampledFrom([]string{
		"trial", "checkout", "checkout", "checkout", "pay", "pay", "pay", "return", "downgrade", "portal", "reconcile", "time", "time",
		"message", "message", "message", "change", "change", "forget", "grant",
	}).Draw(t, "what")
	m.disturbed = false
	var err error
	switch what {
	case "trial":
		if _, err = m.billing.Trial(ctx, b.actor); err == nil {
			b.trials++
			b.trialEnd = m.clock.Now().Add(plan.TrialLength)
		}
	case "checkout":
		err = m.checkout(b, plans.Draw(t, "plan"))
	case "pay":
		if len(b.sessions) > 0 {
			m.pay(b, rapid.SampledFrom(b.sessions).Draw(t, "page"), rapid.IntRange(0, 3).Draw(t, "late") == 3)
		}
	case "return":
		if len(b.sessions) > 0 {
			_, err = m.billing.Return(ctx, rapid.SampledFrom(b.sessions).Draw(t, "page"))
		}
	case "downgrade":
		was := m.stored(b).State()
		if _, err = m.billing.Downgrade(ctx, b.actor); err == nil && was == plan.StateTrial {
			b.trialEnd = time.Time{}
		}
	case "portal":
		_, err = m.billing.Portal(ctx, b.actor)
	case "reconcile":
		err = m.billing.Reconcile(ctx)
	case "time":
		m.clock.Advance(rapid.SampledFrom([]time.Duration{
			time.Millisecond, time.Second, 10 * time.Minute, 25 * time.Hour, plan.TrialLength, 32 * 24 * time.Hour,
		}).Draw(t, "passes"))
	case "message":
		if len(m.events) > 0 {
			if err = m.send(m.events[rapid.IntRange(0, len(m.events)-1).Draw(t, "message")]); err != nil && !fault.Is(err, fault.Unavailable) {
				t.Fatalf("a message: %v", err)
			}
		}
	case "change":
		if len(m.subscriptions) > 0 {
			m.changeAtProvider(m.subscriptions[rapid.IntRange(0, len(m.subscriptions)-1).Draw(t, "subscription")], plans)
		}
	case "forget":
		if len(m.subscriptions) > 0 && m.forgets {
			if r := m.subscriptions[rapid.IntRange(0, len(m.subscriptions)-1).Draw(t, "subscription")]; r.Ended() {
				m.gone[r.ID] = true
				m.provider.Forget(r.ID)
			}
		}
	case "grant":
		if rapid.IntRange(0, 4).Draw(t, "seldom") == 0 {
			m.grant(b)
		}
	}
	expected := fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) || m.disturbed && fault.Is(err, fault.Unavailable)
	var joined interface{ Unwrap() []error }
	if err != nil && !expected && !errors.As(err, &joined) {
		t.Fatalf("%s: %v", what, err)
	}
	m.observe()
	m.check()
}

// changeAtProvider changes a subscription at the provider.
func (m *billingFixture) changeAtProvider(r plan.Remote, plans *rapid.Generator[plan.Plan]) {
	if m.gone[r.ID] || r.Ended() {
		return
	}
	if r.Status == plan.RemoteStatusIncomplete {
		r.Status = rapid.SampledFrom([]plan.RemoteStatus{plan.RemoteStatusActive, plan.RemoteStatusIncompleteExpired}).Draw(m.r, "payment")
		m.provider.Set(r)
		return
	}
	ctx := context.Background()
	switch what := rapid.SampledFrom([]string{"fail", "renew", "cancel", "schedule", "switch", "status"}).Draw(m.r, "change"); what {
	case "fail":
		if _, err := m.provider.Fail(r.ID); err == nil {
			m.addMessage(r.ID, "invoice.payment_failed", harness.InvoiceData(r))
		}
	case "renew":
		if r.CancelAtPeriodEnd && m.clock.Now().Before(*r.PeriodEnd) {
			m.clock.Set(*r.PeriodEnd)
		}
		if is, err := m.provider.Renew(r.ID); err == nil && is.Live() {
			m.addMessage(r.ID, "invoice.paid", harness.InvoiceData(is))
		}
	case "switch":
		r.Plan = plans.Draw(m.r, "plan")
		m.provider.Set(r)
	case "status":
		r.Status = rapid.SampledFrom([]plan.RemoteStatus{plan.RemoteStatusPaused, plan.RemoteStatusUnpaid, plan.RemoteStatusActive, plan.RemoteStatusTrialing}).Draw(m.r, "status")
		m.provider.Set(r)
	default:
		must.NoError(m.t, m.provider.Cancel(ctx, r.ID, what == "cancel"))
	}
}

func (m *billingFixture) grant(b *tenant) {
	must.NoError(m.t, m.store.Atomic(context.Background(), func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(context.Background(), b.actor.Org); err != nil {
			return err
		}
		s, err := r.Directory().Subscriptions().Get(context.Background(), b.actor.Org)
		if err != nil {
			return err
		}
		if s, err = s.Granted(plan.Grant{Plan: plan.Enterprise}, m.clock.Now()); err != nil {
			return err
		}
		return r.Directory().Subscriptions().Put(context.Background(), b.actor.Org, s)
	}))
	b.granted = true
}

func (m *billingFixture) stored(b *tenant) plan.Subscription {
	return must.Do(m.billing.Subscription(context.Background(), b.actor)).Or(m.t).Subscription
}

// remote returns the subscription of the organisation at the provider that has not ended,
// paid or not; nil: there is none.
func (m *billingFixture) remote(b *tenant) *plan.Remote {
	var found *plan.Remote
	for _, r := range m.subscriptions {
		if r.Org != b.actor.Org || r.Ended() {
			continue
		}
		if found != nil {
			m.t.Fatalf("%s and %s have both not ended", found.ID, r.ID)
		}
		found = &r
	}
	return found
}

// check fails unless the invariants hold.
func (m *billingFixture) check() {
	for _, b := range m.tenants {
		m.remote(b)
		s := m.stored(b)
		if b.trials > 1 {
			m.t.Fatal("a second trial")
		}
		if s.Billed() && !slices.ContainsFunc(m.subscriptions, func(r plan.Remote) bool { return r.ID == s.ProviderID && r.Org == b.actor.Org }) {
			m.t.Fatalf("%s %s without a payment", s.Plan, s.Status())
		}
		if s.EverPaid && !b.paid && !b.granted {
			m.t.Fatal("a paid plan was active without a payment")
		}
		now := m.clock.Now()
		if s.State() == plan.StateTrial && (b.trialEnd.IsZero() || !now.Before(b.trialEnd)) {
			m.t.Fatalf("on trial at %s, until %s", now, b.trialEnd)
		}
	}
}

// settle sends the last message of each subscription, among copies of others.
func (m *billingFixture) settle() {
	m.faultless = true
	var sent []paymentEvent
	for _, n := range rapid.Permutation(m.subscriptions).Draw(m.r, "last messages") {
		if len(m.events) > 0 && rapid.Bool().Draw(m.r, "a copy") {
			sent = append(sent, rapid.SampledFrom(m.events).Draw(m.r, "copy"))
		}
		sent = append(sent, m.last[n.ID])
	}
	m.sendAll(sent)
	must.NoError(m.t, m.billing.Reconcile(context.Background()))
	m.check()
}

var stateOf = map[plan.RemoteStatus]plan.State{
	plan.RemoteStatusActive: plan.StateActive, plan.RemoteStatusPastDue: plan.StatePastDue, plan.RemoteStatusUnpaid: plan.StatePastDue, plan.RemoteStatusPaused: plan.StatePaused, plan.RemoteStatusTrialing: plan.StateProviderTrial,
}

// checkRecord fails unless the organisation's record agrees with the provider and the trial.
func (m *billingFixture) checkRecord(b *tenant) {
	s, r, now := m.stored(b), m.remote(b), m.clock.Now()
	trial := !b.trialEnd.IsZero() && now.Before(b.trialEnd)
	want := plan.StateNoPlan
	switch {
	case b.granted:
		want = plan.StateExternal
	case r != nil && r.Live():
		want = stateOf[r.Status]
		if s.ProviderID != r.ID || s.Plan != r.Plan || s.CancelAtPeriodEnd != r.CancelAtPeriodEnd || s.CurrentPeriodEnd == nil || !s.CurrentPeriodEnd.Equal(*r.PeriodEnd) ||
			s.Customer != r.Customer || !s.HasPaymentMethod {
			m.t.Fatalf("the record is %+v, the subscription %+v", s, *r)
		}
	case trial && !b.paid:
		want = plan.StateTrial
	case b.paid || b.failed || b.trials > 0:
		want = plan.StateFree
	}
	if s.State() != want {
		m.t.Fatalf("the record of %s is in %s, want %s: %+v", b.actor.Org, s.State(), want, s)
	}
}

// buy fails unless the organisation can buy the plan, or gets the conflict that it should.
func (m *billingFixture) buy(b *tenant, p plan.Plan) {
	s, r := m.stored(b), m.remote(b)
	err := m.checkout(b, p)
	switch {
	case b.granted || r != nil && (!r.Live() || r.Status == plan.RemoteStatusPastDue) || s.Billed() && s.Plan == p:
		if !fault.Is(err, fault.Conflict) {
			m.t.Fatalf("%s of %s and %s: %v", p, s.Plan, s.State(), err)
		}
	case err != nil:
		m.t.Fatalf("%s of %s and %s: %v", p, s.Plan, s.State(), err)
	case s.Billed():
		if is := m.stored(b); is.Plan != p {
			m.t.Fatalf("the plan is %s, want %s", is.Plan, p)
		}
	default:
		m.payLast(b)
	}
	m.observe()
	m.settle()
	m.checkRecord(b)
}

func TestSubscriptionsConvergeToTheProvider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newBillingFixture(t, rapid.IntRange(1, 2).Draw(t, "buyers"))
		m.r, m.forgets = t, rapid.Bool().Draw(t, "forgetful")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			m.step()
		}
		m.settle()
		for _, b := range m.tenants {
			m.checkRecord(b)
			m.buy(b, rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium}).Draw(t, "bought"))
		}
	})
}

// faultlessFixture returns a fixture with one organisation and without faults.
func faultlessFixture(t *testing.T) (*billingFixture, *tenant) {
	m := newBillingFixture(t, 1)
	m.faultless = true
	return m, m.tenants[0]
}

// payLast pays the last checkout session.
func (m *billingFixture) payLast(b *tenant) {
	if page := b.sessions[len(b.sessions)-1]; !m.pay(b, page, false) {
		m.t.Fatalf("%s cannot be paid on", page)
	}
}

// subscribe buys a plan whose messages are not sent, and returns the subscription.
func (m *billingFixture) subscribe(b *tenant, p plan.Plan) string {
	must.NoError(m.t, m.checkout(b, p))
	m.payLast(b)
	return m.subscriptions[len(m.subscriptions)-1].ID
}

func (m *billingFixture) cancel(subscription string) {
	must.NoError(m.t, m.provider.Cancel(context.Background(), subscription, true))
	m.observe()
}

func TestAnExpiredCheckoutSessionIsNotReused(t *testing.T) {
	m, b := faultlessFixture(t)
	for range 2 {
		must.NoError(t, m.checkout(b, plan.Standard))
	}
	if b.sessions[0] != b.sessions[1] {
		t.Errorf("an open session is not reused: %q", b.sessions)
	}
	must.NoError(t, m.provider.Expire(context.Background(), b.sessions[0]))
	m.subscribe(b, plan.Standard)
}

func TestASubscriptionWhoseEndWasMissedIsReplaced(t *testing.T) {
	m, b := faultlessFixture(t)
	first := m.subscribe(b, plan.Standard)
	if err := m.send(m.last[first]); err != nil || m.stored(b).State() != plan.StateActive {
		t.Fatal(err, m.stored(b).State())
	}
	m.cancel(first)
	second := m.subscriptions[0]
	second.ID, second.Status, second.Plan = "sub_by_hand", plan.RemoteStatusActive, plan.Premium
	m.provider.Set(second)
	m.subscriptions = append(m.subscriptions, second)
	m.addMessage(second.ID, "customer.subscription.created", harness.SubscriptionData(second))
	must.NoError(t, m.send(m.last[second.ID]))
	m.checkRecord(b)
	must.NoError(t, m.send(m.last[first]))
	m.checkRecord(b)

	// It does not prevent another plan either.
	m.cancel(second.ID)
	m.subscribe(b, plan.Standard)
}

func TestPaymentEventsDoNotChangeAnotherOrganisation(t *testing.T) {
	m := newBillingFixture(t, 2)
	m.faultless = true
	owner, other := m.tenants[0], m.tenants[1]
	m.subscribe(owner, plan.Premium)
	forged := m.subscriptions[0]
	forged.ID, forged.Org = "sub_forged", other.actor.Org
	m.addMessage(forged.ID, "customer.subscription.created", harness.SubscriptionData(forged))
	m.sendAll(m.events)
	if s := m.stored(other); s.State() != plan.StateNoPlan {
		t.Errorf("the other organisation has %s", s.State())
	}
	if s := m.stored(owner); s.State() != plan.StateActive || s.Plan != plan.Premium {
		t.Errorf("the organisation that paid has %s %s", s.Plan, s.State())
	}
}

func TestPaymentEventsOfAnErasedOrganisationAreIgnored(t *testing.T) {
	m, b := faultlessFixture(t)
	m.subscribe(b, plan.Standard)
	must.NoError(t, must.ErrorOf(m.store.Directory().Organisations().Erase(context.Background(), b.actor.Org, m.clock.Now(), 1000)))
	m.sendAll(m.events)
	must.Do(m.billing.Return(context.Background(), b.sessions[0])).Or(t)
	if s := m.stored(b); s.Customer != "" || s.State() != plan.StateNoPlan {
		t.Errorf("there is %+v", s)
	}
}
