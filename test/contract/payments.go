package contract

import (
	"net/url"
	"slices"
	"testing"

	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
)

// PaymentProvider is a payment provider that is ready for use, with the acts of its customers.
type PaymentProvider struct {
	Payments ports.Payments
	Billing  ports.Billing

	// Pay pays on the page of a checkout, and fails where nobody can.
	Pay func(c plan.Checkout) error
	// Fail has a subscription's next payment fail.
	Fail func(subscription string) error
}

// paymentFixture is what a sub-test of payments works in: an organisation that is a
// customer.
type paymentFixture struct {
	*fixture
	PaymentProvider
	org      id.Org
	customer string
}

type paymentSuite map[string]func(w *paymentFixture)

func (s paymentSuite) run(t *testing.T, open func(t *testing.T) PaymentProvider) {
	t.Helper()
	runSuite(t, s, func(t *testing.T) *paymentFixture {
		w := &paymentFixture{fixture: &fixture{T: t, ctx: t.Context()}, PaymentProvider: open(t), org: fresh[id.Org]()}
		w.customer = must.Do(w.Payments.Customer(w.ctx, w.org, "Łódź & Søn", "")).Or(w.fixture)
		return w
	})
}

// page opens a page to pay for a plan on.
func (w *paymentFixture) page(p plan.Plan) plan.Checkout {
	w.Helper()
	return must.Do(w.Payments.Open(w.ctx, w.org, w.customer, plan.Checkout{Key: nextID(), Plan: p})).Or(w.fixture)
}

// session is what became of a page.
func (w *paymentFixture) session(c plan.Checkout) plan.Session {
	w.Helper()
	return must.Do(w.Payments.Session(w.ctx, c.Session)).Or(w.fixture)
}

// subscribed is a plan that was paid for, by its id.
func (w *paymentFixture) subscribed(p plan.Plan) string {
	w.Helper()
	c := w.page(p)
	w.ok(w.Pay(c))
	return w.session(c).Subscription
}

func (w *paymentFixture) subscription(of string) plan.Remote {
	w.Helper()
	return must.Do(w.Billing.Subscription(w.ctx, of)).Or(w.fixture)
}

// is ends the sub-test unless a subscription is of the plan and status.
func (w *paymentFixture) is(r plan.Remote, p plan.Plan, status plan.RemoteStatus, ends bool) {
	w.Helper()
	if r.Plan != p || r.Status != status || (r.Live() && r.CancelAtPeriodEnd != ends) || r.Org != w.org || r.Customer != w.customer {
		w.Fatalf("the subscription is %+v, want plan %s, %s, to end: %t", r, p, status, ends)
	}
}

// Payments is the suite of ports.Payments. Open is called by every sub-test.
func Payments(t *testing.T, open func(t *testing.T) PaymentProvider) {
	paymentSuite{
		"repeated requests return the same customer": func(w *paymentFixture) {
			for range 2 {
				resultOf(w.Payments.Customer(w.ctx, w.org, "Łódź & Søn", "")).is(w.fixture, w.customer)
			}
			other := must.Do(w.Payments.Customer(w.ctx, fresh[id.Org](), "Łódź & Søn", "")).Or(w.fixture)
			if w.customer == "" || other == "" || other == w.customer {
				w.Fatalf("two organisations are the customers %q and %q", w.customer, other)
			}
		},
		"repeated requests replace a deleted customer once": func(w *paymentFixture) {
			made := must.Do(w.Payments.Customer(w.ctx, w.org, "Łódź & Søn", w.customer)).Or(w.fixture)
			resultOf(w.Payments.Customer(w.ctx, w.org, "Łódź & Søn", w.customer)).is(w.fixture, made)
			if next := must.Do(w.Payments.Customer(w.ctx, w.org, "Łódź & Søn", made)).Or(w.fixture); made == w.customer || next == made || next == w.customer {
				w.Fatalf("the customers are %q, %q and %q", w.customer, made, next)
			}
		},
		"concurrent requests return the same customer": func(w *paymentFixture) {
			o, made := fresh[id.Org](), make([]string, 8)
			w.allOK(concurrently(len(made), func(i int) (err error) {
				made[i], err = w.Payments.Customer(w.ctx, o, "Concurrent", "")
				return err
			}))
			wantEqual(w.fixture, slices.Compact(made), made[:1])
		},
		"open returns the checkout with its session, address and expiry": func(w *paymentFixture) {
			for _, p := range []plan.Plan{plan.Standard, plan.Premium} {
				asked := plan.Checkout{Key: nextID(), Plan: p}
				c := must.Do(w.Payments.Open(w.ctx, w.org, w.customer, asked)).Or(w.fixture)
				at, err := url.Parse(c.URL)
				if c.Key != asked.Key || c.Plan != p || c.Session == "" || err != nil || at.Host == "" || c.ExpiresAt.IsZero() {
					w.Fatalf("the page is %+v", c)
				}
				want := plan.Session{Status: "open", Org: w.org, Plan: p}
				wantEqual(w.fixture, w.session(c), want)
			}
		},
		"each key opens one page": func(w *paymentFixture) {
			asked := plan.Checkout{Key: nextID(), Plan: plan.Standard}
			first := must.Do(w.Payments.Open(w.ctx, w.org, w.customer, asked)).Or(w.fixture)
			resultOf(w.Payments.Open(w.ctx, w.org, w.customer, asked)).is(w.fixture, first)
			if other := w.page(plan.Standard); other.Session == first.Session || other.URL == first.URL {
				w.Fatalf("two keys have the page %+v", other)
			}
		},
		"concurrent requests with one key return one page": func(w *paymentFixture) {
			asked, pages := plan.Checkout{Key: nextID(), Plan: plan.Premium}, make([]plan.Checkout, 8)
			w.allOK(concurrently(len(pages), func(i int) (err error) {
				pages[i], err = w.Payments.Open(w.ctx, w.org, w.customer, asked)
				return err
			}))
			wantEqual(w.fixture, slices.Compact(pages), pages[:1])
		},
		"open fails for an unknown customer": func(w *paymentFixture) {
			resultOf(w.Payments.Open(w.ctx, w.org, "cus_unknown", plan.Checkout{Key: nextID(), Plan: plan.Standard})).wantNotFound(w.fixture)
			resultOf(w.Payments.Portal(w.ctx, "cus_unknown", "https://app.example.com")).wantNotFound(w.fixture)
		},
		"a paid page is complete, with its subscription": func(w *paymentFixture) {
			c := w.page(plan.Premium)
			w.ok(w.Pay(c))
			s := w.session(c)
			if s.Status != "complete" || s.Subscription == "" || s.Org != w.org || s.Plan != plan.Premium {
				w.Fatalf("the session is %+v", s)
			}
			if err := w.Pay(c); err == nil {
				w.Fatal("paid twice")
			}
			wantEqual(w.fixture, w.session(c).Subscription, s.Subscription)
		},
		"a closed page stays closed": func(w *paymentFixture) {
			c := w.page(plan.Standard)
			for range 2 {
				w.ok(w.Payments.Expire(w.ctx, c.Session))
				wantEqual(w.fixture, w.session(c).Status, "expired")
			}
			if err := w.Pay(c); err == nil {
				w.Fatal("paid on a page that is closed")
			}
			wantEqual(w.fixture, w.session(c).Subscription, "")
		},
		"a paid page cannot be closed": func(w *paymentFixture) {
			c := w.page(plan.Standard)
			w.ok(w.Pay(c))
			w.wantConflict(w.Payments.Expire(w.ctx, c.Session))
			wantEqual(w.fixture, w.session(c).Status, "complete")
		},
		"of a concurrent payment and close one succeeds": func(w *paymentFixture) {
			for range 8 {
				c := w.page(plan.Standard)
				errs := concurrently(2, func(i int) error {
					if i == 0 {
						return w.Pay(c)
					}
					return w.Payments.Expire(w.ctx, c.Session)
				})
				want := map[bool]string{true: "complete", false: "expired"}[errs[0] == nil]
				if got := w.session(c).Status; got != want || (errs[0] == nil) == (errs[1] == nil) {
					w.Fatalf("the page is %s, errors %v", got, errs)
				}
			}
		},
		"unknown ids are not found": func(w *paymentFixture) {
			for _, unknown := range []string{"", "cs_unknown", "../customers", "cs_1?x=y", "cs_1#x", "%"} {
				resultOf(w.Payments.Session(w.ctx, unknown)).wantNotFound(w.fixture)
				w.wantNotFound(w.Payments.Expire(w.ctx, unknown))
			}
		},
		"a customer has a billing portal": func(w *paymentFixture) {
			for _, paid := range []bool{false, true} {
				if paid {
					w.subscribed(plan.Standard)
				}
				address := must.Do(w.Payments.Portal(w.ctx, w.customer, "https://app.example.com/settings?tab=billing")).Or(w.fixture)
				if at, err := url.Parse(address); err != nil || at.Host == "" {
					w.Fatalf("the address is %q", address)
				}
			}
		},
	}.run(t, open)
}

// Billing is the suite of ports.Billing. Open is called by every sub-test.
func Billing(t *testing.T, open func(t *testing.T) PaymentProvider) {
	paymentSuite{
		"a paid subscription is active, with its plan, period and organisation": func(w *paymentFixture) {
			for _, p := range []plan.Plan{plan.Standard, plan.Premium} {
				of := w.subscribed(p)
				r := w.subscription(of)
				w.is(r, p, plan.RemoteStatusActive, false)
				if r.ID != of || r.PeriodStart == nil || r.PeriodEnd == nil || !r.PeriodStart.Before(*r.PeriodEnd) || !r.HasPaymentMethod || r.Seats == nil || *r.Seats != 1 {
					w.Fatalf("the subscription is %+v", r)
				}
			}
		},
		"unknown ids are not found": func(w *paymentFixture) {
			w.subscribed(plan.Standard)
			for _, unknown := range []string{"", "sub_unknown", "../customers", "sub_1?x=y", "sub_1#x", "%"} {
				resultOf(w.Billing.Subscription(w.ctx, unknown)).wantNotFound(w.fixture)
				w.wantNotFound(w.Billing.Change(w.ctx, unknown, plan.Premium))
				w.wantNotFound(w.Billing.Cancel(w.ctx, unknown, true))
				w.wantNotFound(w.Billing.Cancel(w.ctx, unknown, false))
			}
		},
		"a payment that fails leaves a subscription past due": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			w.ok(w.Fail(of))
			w.is(w.subscription(of), plan.Standard, plan.RemoteStatusPastDue, false)
		},
		"a change of plan keeps the subscription, and can be repeated": func(w *paymentFixture) {
			of, other := w.subscribed(plan.Standard), w.subscribed(plan.Standard)
			for _, p := range []plan.Plan{plan.Premium, plan.Premium, plan.Standard, plan.Standard, plan.Premium} {
				w.ok(w.Billing.Change(w.ctx, of, p))
				w.is(w.subscription(of), p, plan.RemoteStatusActive, false)
			}
			w.is(w.subscription(other), plan.Standard, plan.RemoteStatusActive, false)
		},
		"a change of plan that is not paid changes nothing": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			w.ok(w.Fail(of))
			was := w.subscription(of)
			w.wantConflict(w.Billing.Change(w.ctx, of, plan.Premium))
			wantEqual(w.fixture, w.subscription(of), was)
		},
		"a cancellation keeps the subscription until its period ends, and can be repeated": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			end := w.subscription(of).PeriodEnd
			for range 2 {
				w.ok(w.Billing.Cancel(w.ctx, of, false))
				r := w.subscription(of)
				w.is(r, plan.Standard, plan.RemoteStatusActive, true)
				wantEqual(w.fixture, r.PeriodEnd, end)
			}
		},
		"a change of plan withdraws a cancellation": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			for _, p := range []plan.Plan{plan.Premium, plan.Premium} {
				w.ok(w.Billing.Cancel(w.ctx, of, false))
				w.ok(w.Billing.Change(w.ctx, of, p))
				w.is(w.subscription(of), p, plan.RemoteStatusActive, false)
			}
		},
		"an immediate cancellation is final, and can be repeated": func(w *paymentFixture) {
			for name, before := range map[string]func(of string) error{
				"active":     func(string) error { return nil },
				"past due":   w.Fail,
				"to be over": func(of string) error { return w.Billing.Cancel(w.ctx, of, false) },
			} {
				of := w.subscribed(plan.Premium)
				w.ok(before(of))
				for _, atOnce := range []bool{true, true, false} {
					err := w.Billing.Cancel(w.ctx, of, atOnce)
					if r := w.subscription(of); err != nil || r.ID != of || r.Status != plan.RemoteStatusCanceled || r.Live() {
						w.Fatalf("%s: %+v, %v", name, r, err)
					}
				}
				w.wantNotFound(w.Billing.Change(w.ctx, of, plan.Standard))
				w.is(w.subscription(of), plan.Premium, plan.RemoteStatusCanceled, false)
			}
		},
		"concurrent equal requests have one effect": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			for _, step := range []struct {
				do     func() error
				p      plan.Plan
				status plan.RemoteStatus
				ends   bool
			}{
				{func() error { return w.Billing.Change(w.ctx, of, plan.Premium) }, plan.Premium, plan.RemoteStatusActive, false},
				{func() error { return w.Billing.Cancel(w.ctx, of, false) }, plan.Premium, plan.RemoteStatusActive, true},
				{func() error { return w.Billing.Cancel(w.ctx, of, true) }, plan.Premium, plan.RemoteStatusCanceled, false},
			} {
				w.allOK(concurrently(8, func(int) error { return step.do() }))
				w.is(w.subscription(of), step.p, step.status, step.ends)
			}
		},
		"results belong to the caller": func(w *paymentFixture) {
			of := w.subscribed(plan.Standard)
			want := w.subscription(of)
			r := w.subscription(of)
			*r.PeriodStart, *r.PeriodEnd, *r.Seats = at(999), at(999), 999
			wantEqual(w.fixture, w.subscription(of), want)
		},
	}.run(t, open)
}
