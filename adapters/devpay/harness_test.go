package devpay_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"
	portalsession "github.com/stripe/stripe-go/v76/billingportal/session"
	checkoutsession "github.com/stripe/stripe-go/v76/checkout/session"
	stripecustomer "github.com/stripe/stripe-go/v76/customer"
	stripesubscription "github.com/stripe/stripe-go/v76/subscription"
	"go.uber.org/goleak"

	"collab/adapters/devpay"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/test/forms"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a provider on a real listener, with the service's webhook, a clock
// moved by hand and pauses that end when the test says so.
type fixture struct {
	*httptest.Server
	*forms.Browser
	t        *testing.T
	provider *devpay.Provider
	options  devpay.Options
	clock    *memory.Clock
	service  *forms.Service[stripe.Event]
	pauses   chan pause
}

// pause is a call of After.
type pause struct {
	length time.Duration
	over   chan time.Time
}

// withProvider runs a sub-test with a provider of its own.
func withProvider(t *testing.T, name string, test func(t *testing.T, st *fixture)) {
	t.Run(name, func(t *testing.T) { test(t, newFixture(t, t.TempDir())) })
}

// newFixture starts a provider whose file is in directory.
func newFixture(t *testing.T, directory string, change ...func(*devpay.Options)) *fixture {
	t.Helper()
	st := &fixture{
		Browser: forms.New(t), t: t, clock: memory.NewClock(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)), service: &forms.Service[stripe.Event]{}, pauses: make(chan pause, 100),
	}
	st.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { st.provider.ServeHTTP(w, r) }))
	st.options = devpay.Options{
		Development: true, Listen: st.Listener.Addr().String(), PublicURL: st.URL, AppURL: "http://localhost:3000/welcome",
		StateFile: filepath.Join(directory, "payments.json"), Prices: map[string]string{"price_s": "STANDARD", "price_p": "PREMIUM"},
		Clock: st.clock, IDs: &memory.IDs{}, Secrets: system.Secrets{}, Emit: st.service.Emit,
		After: func(d time.Duration) <-chan time.Time {
			p := pause{d, make(chan time.Time, 1)}
			st.pauses <- p
			return p.over
		},
	}
	for _, c := range change {
		c(&st.options)
	}
	st.provider = must.Do(devpay.New(st.options)).Or(t)
	t.Cleanup(func() {
		st.provider.Close()
		st.Server.Close()
	})
	return st
}

// endPause ends the next pause, with which the clock advances, and returns its duration.
func (st *fixture) endPause() time.Duration {
	st.t.Helper()
	select {
	case p := <-st.pauses:
		st.clock.Advance(p.length)
		p.over <- time.Time{}
		return p.length
	case <-time.After(time.Minute):
		st.t.Fatal("nobody pauses")
		return 0
	}
}

// backend returns a backend of Stripe's library for the provider.
func (st *fixture) backend() stripe.Backend {
	return stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(st.provider.APIURL()), HTTPClient: st.Browser.Client, MaxNetworkRetries: stripe.Int64(0),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}, EnableTelemetry: stripe.Bool(false),
	})
}

func (st *fixture) customers() stripecustomer.Client {
	return stripecustomer.Client{B: st.backend(), Key: st.provider.Key()}
}

func (st *fixture) sessions() checkoutsession.Client {
	return checkoutsession.Client{B: st.backend(), Key: st.provider.Key()}
}

func (st *fixture) subscriptions() stripesubscription.Client {
	return stripesubscription.Client{B: st.backend(), Key: st.provider.Key()}
}

func (st *fixture) portals() portalsession.Client {
	return portalsession.Client{B: st.backend(), Key: st.provider.Key()}
}

// customer creates a customer.
func (st *fixture) customer(name string) string {
	st.t.Helper()
	c := must.Do(st.customers().New(&stripe.CustomerParams{Name: stripe.String(name), Metadata: map[string]string{"org_id": "org-1"}})).Or(st.t)
	return c.ID
}

// order returns the parameters of a session.
func order(customer, price string) *stripe.CheckoutSessionParams {
	return &stripe.CheckoutSessionParams{
		Mode: stripe.String("subscription"), Customer: stripe.String(customer), ClientReferenceID: stripe.String("org-1"),
		LineItems:  []*stripe.CheckoutSessionLineItemParams{{Price: stripe.String(price), Quantity: stripe.Int64(1)}},
		SuccessURL: stripe.String("http://127.0.0.1:1/success?session_id={CHECKOUT_SESSION_ID}"), CancelURL: stripe.String("http://127.0.0.1:1/cancel"),
		Metadata:         map[string]string{"org_id": "org-1", "plan": "STANDARD"},
		SubscriptionData: &stripe.CheckoutSessionSubscriptionDataParams{Metadata: map[string]string{"org_id": "org-1"}},
	}
}

// session creates a checkout session.
func (st *fixture) session(customer string) *stripe.CheckoutSession {
	st.t.Helper()
	return must.Do(st.sessions().New(order(customer, "price_s"))).Or(st.t)
}

// subscribed pays for a new customer's subscription, takes its events and returns it.
func (st *fixture) subscribed() *stripe.Subscription {
	st.t.Helper()
	s := st.session(st.customer("Analytical Engines"))
	st.pay(s.ID)
	s = must.Do(st.sessions().Get(s.ID, nil)).Or(st.t)
	st.service.Take()
	return st.subscription(s.Subscription.ID)
}

// pay completes a session.
func (st *fixture) pay(session string) {
	st.t.Helper()
	must.Do(st.provider.Pay(st.t.Context(), session)).Or(st.t)
}

// act applies an action to a subscription.
func (st *fixture) act(subscription string, a devpay.Action) {
	st.t.Helper()
	must.NoError(st.t, st.provider.Act(st.t.Context(), subscription, a))
}

func (st *fixture) subscription(id string) *stripe.Subscription {
	st.t.Helper()
	return must.Do(st.subscriptions().Get(id, nil)).Or(st.t)
}

// portal returns the URL of a new portal session.
func (st *fixture) portal(customer string) string {
	st.t.Helper()
	v, err := st.portals().New(&stripe.BillingPortalSessionParams{Customer: stripe.String(customer), ReturnURL: stripe.String("http://127.0.0.1:1/back")})
	must.NoError(st.t, err)
	return v.URL
}

// into reads the object of an event.
func into[T any](t *testing.T, e forms.Event[stripe.Event]) T {
	t.Helper()
	var o T
	must.NoError(t, json.Unmarshal(e.Content.Data.Raw, &o))
	return o
}

// submit sends the form of a page, as a browser does.
func (st *fixture) submit(address string, fields url.Values) forms.Page {
	st.t.Helper()
	return st.Do(forms.Request(address, fields.Encode(), st.URL))
}

// ask sends a request to the API and returns the response.
func (st *fixture) ask(method, path, form string, headers ...string) (forms.Page, map[string]any) {
	st.t.Helper()
	r := must.Do(http.NewRequest(method, st.provider.APIURL()+path, strings.NewReader(form))).Or(st.t)
	r.Header.Set("Authorization", "Bearer "+st.provider.Key())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	p := st.Do(r)
	body := map[string]any{}
	if err := json.Unmarshal([]byte(p.Text), &body); err != nil {
		st.t.Fatalf("%s %s answered %s: %s", method, path, p.Status, p.Text)
	}
	return p, body
}
