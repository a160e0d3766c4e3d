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
)

const paidURL = "https://collab.invalid/paid"

// market is where organisations buy plans: billing and its messages over the
// store in memory, at a provider of which anything can be said except that it
// lies.
type market struct {
	t        rapid.TB
	r        *rapid.T // by which things happen; nil: none happen by themselves
	clock    *memory.Clock
	store    *memory.Store
	provider *memory.Payments
	billing  *billing.Billing
	webhooks *webhooks.Webhooks
	buyers   []*buyer

	deeds  []plan.Remote // every subscription as it was last
	gone   map[string]bool
	events []notice
	last   map[string]notice // the last of each subscription

	forgetful bool // the provider forgets what is over, and no two messages are of one second
	calm      bool // nothing goes wrong any more
	depth     int  // of things that happen within a call
	trouble   bool // something went wrong, or happened meanwhile, since that was last asked
	faults    []string
}

// buyer is an organisation with all that it did.
type buyer struct {
	actor    org.Actor
	pages    []string // sessions that somebody was sent to
	trials   int
	trialEnd time.Time // zero: there is no trial
	granted  bool
	sold     bool // there was a subscription that was paid for
	failed   bool // there was one that was not
}

// notice is a message of the provider.
type notice struct {
	body []byte
	at   time.Time
}

// watched is a store that holds every step of a subscription against the table.
type watched struct {
	ports.Store
	m *market
}

func (s watched) Directory() ports.Directory { return watchedDirectory{s.Store.Directory(), s.m} }

func (s watched) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	return s.Store.Atomic(ctx, func(r ports.Records) error { return fn(watchedRecords{r, s.m}) })
}

type watchedRecords struct {
	ports.Records
	m *market
}

func (r watchedRecords) Directory() ports.Directory {
	return watchedDirectory{r.Records.Directory(), r.m}
}

type watchedDirectory struct {
	ports.Directory
	m *market
}

func (d watchedDirectory) Subscriptions() ports.Subscriptions {
	return watchedSubscriptions{d.Directory.Subscriptions(), d.m}
}

type watchedSubscriptions struct {
	ports.Subscriptions
	m *market
}

func (s watchedSubscriptions) Put(ctx context.Context, o id.Org, is plan.Subscription) error {
	was, err := s.Get(ctx, o)
	if err != nil {
		return err
	}
	leads := slices.ContainsFunc(plan.Table(), func(row plan.Transition) bool {
		return row.To == is.State() && slices.Contains(row.From, was.State())
	})
	if was.State() != is.State() && !leads {
		s.m.faults = append(s.m.faults, fmt.Sprintf("from %s to %s", was.State(), is.State()))
	}
	return s.Subscriptions.Put(ctx, o, is)
}

// counter is the way to the provider, on which calls fail, and others do things
// while somebody waits for an answer.
type counter struct{ m *market }

var (
	_ ports.Payments = counter{}
	_ ports.Billing  = counter{}
)

func askProvider[V any](c counter, name string, do func() (V, error)) (v V, err error) {
	m, none := c.m, v
	what := "fine"
	if !m.calm {
		what = rapid.SampledFrom([]string{"fine", "fine", "fine", "fine", "refused", "unheard", "before", "after"}).Draw(m.r, name)
	}
	if what != "fine" {
		m.trouble = true
	}
	if what == "refused" {
		return none, fault.New(fault.Unavailable, "planned: %s was refused", name)
	}
	if what == "before" {
		m.meanwhile()
	}
	v, err = do()
	m.look()
	switch {
	case what == "after":
		m.meanwhile()
	case what == "unheard" && err == nil:
		return none, fault.New(fault.Unavailable, "planned: %s was not heard of", name)
	}
	return v, err
}

func (c counter) Customer(ctx context.Context, o id.Org, name string) (string, error) {
	return askProvider(c, "Customer", func() (string, error) { return c.m.provider.Customer(ctx, o, name) })
}

func (c counter) Open(ctx context.Context, o id.Org, customer string, k plan.Checkout) (plan.Checkout, error) {
	return askProvider(c, "Open", func() (plan.Checkout, error) { return c.m.provider.Open(ctx, o, customer, k) })
}

func (c counter) Session(ctx context.Context, session string) (plan.Session, error) {
	return askProvider(c, "Session", func() (plan.Session, error) { return c.m.provider.Session(ctx, session) })
}

func (c counter) Expire(ctx context.Context, session string) error {
	_, err := askProvider(c, "Expire", func() (struct{}, error) { return struct{}{}, c.m.provider.Expire(ctx, session) })
	return err
}

func (c counter) Portal(ctx context.Context, customer, back string) (string, error) {
	return askProvider(c, "Portal", func() (string, error) { return c.m.provider.Portal(ctx, customer, back) })
}

func (c counter) Subscription(ctx context.Context, subscription string) (plan.Remote, error) {
	return askProvider(c, "Subscription", func() (plan.Remote, error) { return c.m.provider.Subscription(ctx, subscription) })
}

func (c counter) Change(ctx context.Context, subscription string, to plan.Plan) (plan.Remote, error) {
	return askProvider(c, "Change", func() (plan.Remote, error) { return c.m.provider.Change(ctx, subscription, to) })
}

func (c counter) Cancel(ctx context.Context, subscription string, atOnce bool) (plan.Remote, error) {
	return askProvider(c, "Cancel", func() (plan.Remote, error) { return c.m.provider.Cancel(ctx, subscription, atOnce) })
}

// newMarket returns a market with organisations that have no plan yet.
func newMarket(t rapid.TB, buyers int) *market {
	m := &market{
		t: t, clock: memory.NewClock(start), store: memory.NewStore(), gone: map[string]bool{}, last: map[string]notice{},
	}
	m.provider = memory.NewPayments(m.clock)
	ids := &memory.IDs{}
	m.billing = billing.New(billing.Options{
		Store: watched{m.store, m}, Payments: counter{m}, Provider: counter{m}, Clock: m.clock, IDs: ids, Log: slog.New(slog.DiscardHandler), PaidURL: paidURL,
		Origin: access.Origin,
		// The buyer has no membership here.
		Locked: func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
			return watched{m.store, m}.Atomic(ctx, func(r ports.Records) error {
				_, err := r.Directory().Organisations().Lock(ctx, actor.Org)
				return errors.Join(err, fn(r, actor))
			})
		},
	})
	m.webhooks = webhooks.New(webhooks.Options{
		Store: watched{m.store, m}, Payments: stripepay.NewEvents([]string{harness.PaymentSecret}, harness.Prices, m.clock), Clock: m.clock, IDs: ids, Billing: m.billing,
	})
	for i := range buyers {
		fresh := org.Organisation{ID: id.Org(ids.New()), ProviderID: fmt.Sprintf("org_%d", i), Name: fmt.Sprintf("Buyer %d", i)}
		o, err := m.store.Directory().Organisations().Upsert(context.Background(), fresh, func(o org.Organisation) (org.Organisation, error) { return o, nil })
		if err != nil {
			t.Fatal(err)
		}
		m.buyers = append(m.buyers, &buyer{actor: org.Actor{User: id.User(ids.New()), Org: o.ID, Role: org.Owner}})
	}
	return m
}

// look takes down what has changed at the provider, and has it tell of that.
func (m *market) look() {
	for i, was := range m.deeds {
		is, err := m.provider.Subscription(context.Background(), was.ID)
		if m.gone[was.ID] && fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			m.t.Fatal(err)
		}
		if bytes.Equal(text(was), text(is)) {
			continue
		}
		m.deeds[i] = is
		b := m.buyers[slices.IndexFunc(m.buyers, func(b *buyer) bool { return b.actor.Org == is.Org })]
		b.sold, b.failed = b.sold || is.Live(), b.failed || is.Status == plan.IsExpired
		kind := "customer.subscription.updated"
		if is.Status == plan.IsCanceled {
			kind = "customer.subscription.deleted"
		}
		m.tell(is.ID, kind, harness.SubscriptionData(is))
	}
}

func text(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// tell adds a message about a subscription.
func (m *market) tell(subscription, kind string, of map[string]any) {
	if m.forgetful {
		m.clock.Advance(time.Second)
	}
	n := notice{at: m.clock.Now()}
	n.body = text(object{
		"id": fmt.Sprintf("evt_%d", len(m.events)+1), "type": kind, "created": n.at.Unix(), "data": object{"object": of},
	})
	m.events = append(m.events, n)
	m.last[subscription] = n
}

// pay has somebody pay on a page that they were sent to, if they still can; late
// is a payment that is not there yet.
func (m *market) pay(b *buyer, session string, late bool) bool {
	subscription, err := m.provider.Pay(session)
	if err != nil {
		return false
	}
	r, err := m.provider.Subscription(context.Background(), subscription)
	if err != nil {
		m.t.Fatal(err)
	}
	first, paid := r, "paid"
	first.Status = plan.IsIncomplete
	if late {
		r, paid = first, "unpaid"
		m.provider.Set(r)
	}
	b.sold = b.sold || r.Live()
	m.deeds = append(m.deeds, r)
	m.tell(r.ID, "checkout.session.completed", object{
		"id": session, "object": "checkout.session", "mode": "subscription", "payment_status": paid, "customer": r.Customer,
		"subscription": r.ID, "client_reference_id": r.Org,
	})
	m.tell(r.ID, "customer.subscription.created", harness.SubscriptionData(first))
	if late {
		return true
	}
	m.tell(r.ID, "invoice.paid", harness.InvoiceData(r))
	m.tell(r.ID, "customer.subscription.updated", harness.SubscriptionData(r))
	return true
}

// send sends a message.
func (m *market) send(n notice) error {
	header := map[string]string{"Stripe-Signature": stripepay.Sign(harness.PaymentSecret, m.clock.Now(), n.body)}
	return m.webhooks.Payment(context.Background(), func(name string) string { return header[name] }, n.body)
}

// meanwhile has something else happen while somebody waits.
func (m *market) meanwhile() {
	if m.depth == 2 {
		return
	}
	m.depth++
	for range rapid.IntRange(1, 3).Draw(m.r, "meanwhile") {
		m.step()
	}
	m.depth--
	m.trouble = true // which the steps have forgotten
}

// checkout sends somebody to a page, or to where it says that nothing is to be
// paid on one.
func (m *market) checkout(b *buyer, p plan.Plan) error {
	url, err := m.billing.Checkout(context.Background(), b.actor, p)
	if session, isPage := strings.CutPrefix(url, "https://payments.invalid/"); isPage {
		b.pages = append(b.pages, session)
	}
	return err
}

// step has one thing happen.
func (m *market) step() {
	t, ctx := m.r, context.Background()
	b := m.buyers[rapid.IntRange(0, len(m.buyers)-1).Draw(t, "buyer")]
	plans := rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium})
	what := rapid.SampledFrom([]string{
		"trial", "checkout", "checkout", "checkout", "pay", "pay", "pay", "return", "downgrade", "portal", "keep", "time", "time",
		"message", "message", "message", "life", "life", "forget", "grant",
	}).Draw(t, "what")
	m.trouble = false
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
		if len(b.pages) > 0 {
			m.pay(b, rapid.SampledFrom(b.pages).Draw(t, "page"), rapid.IntRange(0, 3).Draw(t, "late") == 3)
		}
	case "return":
		if len(b.pages) > 0 {
			_, err = m.billing.Return(ctx, rapid.SampledFrom(b.pages).Draw(t, "page"))
		}
	case "downgrade":
		was := m.see(b).State()
		if _, err = m.billing.Downgrade(ctx, b.actor); err == nil && was == plan.OnTrial {
			b.trialEnd = time.Time{}
		}
	case "portal":
		_, err = m.billing.Portal(ctx, b.actor)
	case "keep":
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
	case "life":
		if len(m.deeds) > 0 {
			m.live(m.deeds[rapid.IntRange(0, len(m.deeds)-1).Draw(t, "subscription")], plans)
		}
	case "forget":
		if len(m.deeds) > 0 && m.forgetful {
			if r := m.deeds[rapid.IntRange(0, len(m.deeds)-1).Draw(t, "subscription")]; r.Ended() {
				m.gone[r.ID] = true
				m.provider.Forget(r.ID)
			}
		}
	case "grant":
		if rapid.IntRange(0, 4).Draw(t, "seldom") == 0 {
			m.grant(b)
		}
	}
	expected := fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) || m.trouble && fault.Is(err, fault.Unavailable)
	var joined interface{ Unwrap() []error }
	if err != nil && !expected && !errors.As(err, &joined) {
		t.Fatalf("%s: %v", what, err)
	}
	m.look()
	m.check()
}

// live has something happen to a subscription at the provider.
func (m *market) live(r plan.Remote, plans *rapid.Generator[plan.Plan]) {
	if m.gone[r.ID] || r.Ended() {
		return
	}
	if r.Status == plan.IsIncomplete {
		r.Status = rapid.SampledFrom([]plan.RemoteStatus{plan.IsActive, plan.IsExpired}).Draw(m.r, "payment")
		m.provider.Set(r)
		return
	}
	ctx := context.Background()
	switch what := rapid.SampledFrom([]string{"fail", "renew", "cancel", "schedule", "switch", "status"}).Draw(m.r, "life"); what {
	case "fail":
		if _, err := m.provider.Fail(r.ID); err == nil {
			m.tell(r.ID, "invoice.payment_failed", harness.InvoiceData(r))
		}
	case "renew":
		if r.CancelAtPeriodEnd && m.clock.Now().Before(*r.PeriodEnd) {
			m.clock.Set(*r.PeriodEnd)
		}
		if is, err := m.provider.Renew(r.ID); err == nil && is.Live() {
			m.tell(r.ID, "invoice.paid", harness.InvoiceData(is))
		}
	case "switch":
		r.Plan = plans.Draw(m.r, "plan")
		m.provider.Set(r)
	case "status":
		r.Status = rapid.SampledFrom([]plan.RemoteStatus{plan.IsPaused, plan.IsUnpaid, plan.IsActive, plan.IsTrialing}).Draw(m.r, "status")
		m.provider.Set(r)
	default:
		if _, err := m.provider.Cancel(ctx, r.ID, what == "cancel"); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *market) grant(b *buyer) {
	err := m.store.Atomic(context.Background(), func(r ports.Records) error {
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
	})
	if err != nil {
		m.t.Fatal(err)
	}
	b.granted = true
}

func (m *market) see(b *buyer) plan.Subscription {
	d, err := m.billing.Subscription(context.Background(), b.actor)
	if err != nil {
		m.t.Fatal(err)
	}
	return d.Subscription
}

// alive returns the subscription of the organisation that the provider bills, or
// will should the payment come.
func (m *market) alive(b *buyer) *plan.Remote {
	var found *plan.Remote
	for _, r := range m.deeds {
		if r.Org != b.actor.Org || r.Ended() {
			continue
		}
		if found != nil {
			m.t.Fatalf("%s and %s are both alive", found.ID, r.ID)
		}
		found = &r
	}
	return found
}

// check is what holds at any time.
func (m *market) check() {
	if len(m.faults) > 0 {
		m.t.Fatalf("off the table: %s", strings.Join(m.faults, "; "))
	}
	for _, b := range m.buyers {
		m.alive(b)
		s := m.see(b)
		if b.trials > 1 {
			m.t.Fatal("a second trial")
		}
		if s.Billed() && !slices.ContainsFunc(m.deeds, func(r plan.Remote) bool { return r.ID == s.ProviderID && r.Org == b.actor.Org }) {
			m.t.Fatalf("%s %s without a payment", s.Plan, s.Status())
		}
		if s.EverPaid && !b.sold && !b.granted {
			m.t.Fatal("a paid plan was active without a payment")
		}
		now := m.clock.Now()
		if s.State() == plan.OnTrial && (b.trialEnd.IsZero() || !now.Before(b.trialEnd)) {
			m.t.Fatalf("on trial at %s, until %s", now, b.trialEnd)
		}
	}
}

// settle has the last message of each subscription come, among copies of others.
func (m *market) settle() {
	m.calm = true
	var sent []notice
	for _, n := range rapid.Permutation(m.deeds).Draw(m.r, "last messages") {
		if len(m.events) > 0 && rapid.Bool().Draw(m.r, "a copy") {
			sent = append(sent, rapid.SampledFrom(m.events).Draw(m.r, "copy"))
		}
		sent = append(sent, m.last[n.ID])
	}
	for _, n := range sent {
		if err := m.send(n); err != nil {
			m.t.Fatalf("%s: %v", n.body, err)
		}
	}
	if err := m.billing.Reconcile(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	m.check()
}

var stateOf = map[plan.RemoteStatus]plan.State{
	plan.IsActive: plan.Paying, plan.IsPastDue: plan.Owing, plan.IsUnpaid: plan.Owing, plan.IsPaused: plan.Suspended, plan.IsTrialing: plan.ProviderTrial,
}

// truth fails unless the record says what is so.
func (m *market) truth(b *buyer) {
	s, r, now := m.see(b), m.alive(b), m.clock.Now()
	trial := !b.trialEnd.IsZero() && now.Before(b.trialEnd)
	want := plan.Unplanned
	switch {
	case b.granted:
		want = plan.External
	case r != nil && r.Live():
		want = stateOf[r.Status]
		if s.ProviderID != r.ID || s.Plan != r.Plan || s.CancelAtPeriodEnd != r.CancelAtPeriodEnd || s.CurrentPeriodEnd == nil || !s.CurrentPeriodEnd.Equal(*r.PeriodEnd) ||
			s.Customer != r.Customer || !s.HasPaymentMethod {
			m.t.Fatalf("the record is %+v, the subscription %+v", s, *r)
		}
	case trial && !b.sold:
		want = plan.OnTrial
	case b.sold || b.failed || b.trials > 0:
		want = plan.OnFree
	}
	if s.State() != want {
		m.t.Fatalf("%s ends in %s, want %s: %+v", b.actor.Org, s.State(), want, s)
	}
}

// buy fails unless whoever wants to can buy what is to be had.
func (m *market) buy(b *buyer, p plan.Plan) {
	s, r := m.see(b), m.alive(b)
	err := m.checkout(b, p)
	switch {
	case b.granted || r != nil && !r.Live() || s.Billed() && s.Plan == p:
		if !fault.Is(err, fault.Conflict) {
			m.t.Fatalf("%s of %s and %s: %v", p, s.Plan, s.State(), err)
		}
	case err != nil:
		m.t.Fatalf("%s of %s and %s: %v", p, s.Plan, s.State(), err)
	case s.Billed():
		if is := m.see(b); is.Plan != p {
			m.t.Fatalf("the plan is %s, want %s", is.Plan, p)
		}
	default:
		if page := b.pages[len(b.pages)-1]; !m.pay(b, page, false) {
			m.t.Fatalf("%s cannot be paid on", page)
		}
	}
	m.look()
	m.settle()
	m.truth(b)
}

func TestAnyCourseOfPaymentsEndsInTheLastTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMarket(t, rapid.IntRange(1, 2).Draw(t, "buyers"))
		m.r, m.forgetful = t, rapid.Bool().Draw(t, "forgetful")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			m.step()
		}
		m.settle()
		for _, b := range m.buyers {
			m.truth(b)
			m.buy(b, rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium}).Draw(t, "bought"))
		}
	})
}

// calmMarket is a market with one organisation where nothing goes wrong.
func calmMarket(t *testing.T) (*market, *buyer) {
	m := newMarket(t, 1)
	m.calm = true
	return m, m.buyers[0]
}

// pays has an organisation buy a plan, of which we hear nothing, and returns the
// subscription.
func (m *market) pays(b *buyer, p plan.Plan) string {
	if err := m.checkout(b, p); err != nil {
		m.t.Fatal(err)
	}
	if page := b.pages[len(b.pages)-1]; !m.pay(b, page, false) {
		m.t.Fatalf("%s cannot be paid on", page)
	}
	return m.deeds[len(m.deeds)-1].ID
}

func (m *market) ends(subscription string) {
	if _, err := m.provider.Cancel(context.Background(), subscription, true); err != nil {
		m.t.Fatal(err)
	}
	m.look()
}

func TestAPlanWhoseSubscriptionIsOverCanBeBoughtAgain(t *testing.T) {
	for _, p := range []plan.Plan{plan.Standard, plan.Premium} {
		m, b := calmMarket(t)
		for range 3 {
			m.ends(m.pays(b, p))
			p = plan.Premium
		}
		m.pays(b, p)
		m.check()
	}
}

func TestAPageThatWasClosedIsNotHandedOutAgain(t *testing.T) {
	m, b := calmMarket(t)
	for range 2 {
		if err := m.checkout(b, plan.Standard); err != nil {
			t.Fatal(err)
		}
	}
	if b.pages[0] != b.pages[1] {
		t.Errorf("an open page is handed out again, and they are %q", b.pages)
	}
	if err := m.provider.Expire(context.Background(), b.pages[0]); err != nil {
		t.Fatal(err)
	}
	m.pays(b, plan.Standard)
}

func TestASubscriptionWhoseEndWasMissedIsReplaced(t *testing.T) {
	m, b := calmMarket(t)
	first := m.pays(b, plan.Standard)
	if err := m.send(m.last[first]); err != nil || m.see(b).State() != plan.Paying {
		t.Fatal(err, m.see(b).State())
	}
	m.ends(first)
	second := m.deeds[0]
	second.ID, second.Status, second.Plan = "sub_by_hand", plan.IsActive, plan.Premium
	m.provider.Set(second)
	m.deeds = append(m.deeds, second)
	m.tell(second.ID, "customer.subscription.created", harness.SubscriptionData(second))
	if err := m.send(m.last[second.ID]); err != nil {
		t.Fatal(err)
	}
	m.truth(b)
	if err := m.send(m.last[first]); err != nil {
		t.Fatal(err)
	}
	m.truth(b)

	// Nor is it in the way of another plan.
	m.ends(second.ID)
	m.pays(b, plan.Standard)
}

func TestAMessageGivesNothingToAnotherOrganisation(t *testing.T) {
	m := newMarket(t, 2)
	m.calm = true
	rich, poor := m.buyers[0], m.buyers[1]
	m.pays(rich, plan.Premium)
	stolen := m.deeds[0]
	stolen.ID, stolen.Org = "sub_stolen", poor.actor.Org
	m.tell(stolen.ID, "customer.subscription.created", harness.SubscriptionData(stolen))
	for _, n := range m.events {
		if err := m.send(n); err != nil {
			t.Errorf("%s: %v", n.body, err)
		}
	}
	if s := m.see(poor); s.State() != plan.Unplanned {
		t.Errorf("the other has %s", s.State())
	}
	if s := m.see(rich); s.State() != plan.Paying || s.Plan != plan.Premium {
		t.Errorf("who paid has %s %s", s.Plan, s.State())
	}
}

func TestAnErasedOrganisationIgnoresMessages(t *testing.T) {
	m, b := calmMarket(t)
	m.pays(b, plan.Standard)
	if err := m.store.Directory().Organisations().Erase(context.Background(), b.actor.Org, m.clock.Now()); err != nil {
		t.Fatal(err)
	}
	for _, n := range m.events {
		if err := m.send(n); err != nil {
			t.Errorf("%s: %v", n.body, err)
		}
	}
	if _, err := m.billing.Return(context.Background(), b.pages[0]); err != nil {
		t.Error(err)
	}
	if s := m.see(b); s.Customer != "" || s.State() != plan.Unplanned {
		t.Errorf("there is %+v", s)
	}
}
