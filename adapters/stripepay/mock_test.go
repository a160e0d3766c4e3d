package stripepay

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-mock/embedded"

	"collab/domain/plan"
	"collab/test/must"
	"collab/test/stripemock"
)

// recorder records the last request to the next handler.
type recorder struct {
	next http.Handler
	last request
}

func (h *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	if h.last, err = readRequest(r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.next.ServeHTTP(w, r)
}

// newMock returns payments at stripe-mock, which checks parameters against the published
// schema of the API.
func newMock(t testing.TB) (*Payments, *recorder) {
	t.Helper()
	r := &recorder{next: stripemock.Handler(t)}
	p := payments(t, handlerClient(r), t.Output())
	// The price of the mock's subscription must be configured.
	var fixtures struct{ Resources map[string]json.RawMessage }
	must.NoError(t, json.Unmarshal(embedded.OpenAPIFixtures, &fixtures))
	var s subscription
	must.NoError(t, decode(fixtures.Resources["subscription"], &s))
	delete(p.plans, p.prices[plan.Standard])
	p.prices[plan.Standard] = s.Items.Data[0].price()
	p.plans[p.prices[plan.Standard]] = plan.Standard
	return p, r
}

// sent checks the last request.
func (h *recorder) sent(t *testing.T, method, path, key string, form map[string]string) {
	t.Helper()
	if h.last.method != method || h.last.path != path {
		t.Errorf("the request is %s %s, want %s %s", h.last.method, h.last.path, method, path)
	}
	if key != "" && h.last.key != key {
		t.Errorf("the key is %q, want %q", h.last.key, key)
	}
	got := map[string]string{}
	for k, v := range h.last.form {
		got[k] = strings.Join(v, "|")
	}
	must.Equal(t, form, got)
}

func TestStripeMockAcceptsAllRequests(t *testing.T) {
	p, mock := newMock(t)
	ctx := t.Context()
	const subscriptionID = "sub_1OPouiJN5vQBdWExOgfg6t5C"
	one := 1
	want := plan.Remote{
		ID: subscriptionID, Status: plan.RemoteStatusActive, Plan: plan.Standard,
		PeriodStart: at(1234567890), PeriodEnd: at(1234567890), TrialEnd: at(1234567890), CancelAtPeriodEnd: true, Seats: &one,
	}

	t.Run("Customer", func(t *testing.T) {
		customer, err := p.Customer(ctx, org, "Analytical Engines", "")
		if err != nil || !strings.HasPrefix(customer, "cus_") {
			t.Errorf("got %q, %v", customer, err)
		}
		mock.sent(t, "POST", "/v1/customers", "customer:"+string(org), map[string]string{"name": "Analytical Engines", "metadata[org_id]": string(org)})
		must.Do(p.Customer(ctx, org, "Analytical Engines", "cus_1")).Or(t)
		must.Is(t, "customer:"+string(org)+":cus_1", mock.last.key)
	})
	t.Run("Open", func(t *testing.T) {
		c, err := p.Open(ctx, org, "cus_1", plan.Checkout{Key: "key_1", Plan: plan.Premium})
		if err != nil || c.Key != "key_1" || c.Plan != plan.Premium || !strings.HasPrefix(c.Session, "cs_test_") || !strings.HasPrefix(c.URL, "https://") || c.ExpiresAt != *at(1234567890) {
			t.Errorf("got %+v, %v", c, err)
		}
		mock.sent(t, "POST", "/v1/checkout/sessions", "key_1", map[string]string{
			"mode": "subscription", "line_items[0][price]": "price_premium", "line_items[0][quantity]": "1",
			"customer": "cus_1", "client_reference_id": string(org), "metadata[org_id]": string(org), "metadata[plan]": "PREMIUM",
			"subscription_data[metadata][org_id]": string(org),
			"success_url":                         "https://collab.example/api/v1/billing/checkout/success?session_id={CHECKOUT_SESSION_ID}",
			"cancel_url":                          "https://collab.example/api/v1/billing/checkout/cancel",
		})
	})
	t.Run("Session", func(t *testing.T) {
		s, err := p.Session(ctx, "cs_1")
		if err != nil || s.Status != "open" {
			t.Errorf("got %+v, %v", s, err)
		}
		mock.sent(t, "GET", "/v1/checkout/sessions/cs_1", "", map[string]string{})
	})
	t.Run("Expire", func(t *testing.T) {
		must.NoError(t, p.Expire(ctx, "cs_1"))
		mock.sent(t, "POST", "/v1/checkout/sessions/cs_1/expire", "", map[string]string{})
	})
	t.Run("Portal", func(t *testing.T) {
		page, err := p.Portal(ctx, "cus_1", "https://collab.example/settings")
		if err != nil || !strings.HasPrefix(page, "https://") {
			t.Errorf("got %q, %v", page, err)
		}
		mock.sent(t, "POST", "/v1/billing_portal/sessions", "", map[string]string{"customer": "cus_1", "return_url": "https://collab.example/settings"})
	})
	t.Run("Subscription", func(t *testing.T) {
		got, err := p.Subscription(ctx, subscriptionID)
		if err != nil || !strings.HasPrefix(got.Customer, "cus_") {
			t.Fatalf("got %+v, %v", got, err)
		}
		want.Customer = got.Customer // the expanded customer is another fixture's
		must.Equal(t, want, got)
		mock.sent(t, "GET", "/v1/subscriptions/"+subscriptionID, "", map[string]string{"expand[0]": "customer"})
	})
	t.Run("Change", func(t *testing.T) {
		is := must.Do(p.subscription(ctx, subscriptionID)).Or(t)
		must.NoError(t, p.Change(ctx, subscriptionID, plan.Premium))
		mock.sent(t, "POST", "/v1/subscriptions/"+subscriptionID, "", map[string]string{
			"items[0][id]": string(is.item(p.plans).ID), "items[0][price]": "price_premium", "proration_behavior": "always_invoice",
			"payment_behavior": "error_if_incomplete", "cancel_at": "", "expand[0]": "customer",
		})
	})
	t.Run("Cancel at once", func(t *testing.T) {
		must.NoError(t, p.Cancel(ctx, subscriptionID, true))
		mock.sent(t, "DELETE", "/v1/subscriptions/"+subscriptionID, "", map[string]string{"expand[0]": "customer"})
	})
	t.Run("Cancel at the period's end", func(t *testing.T) {
		// The mock's subscription has a scheduled cancellation, so the request is made directly.
		s, err := p.update(ctx, subscriptionID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})
		if err != nil || !bool(s.CancelAtPeriodEnd) {
			t.Errorf("got %+v, %v", s, err)
		}
		mock.sent(t, "POST", "/v1/subscriptions/"+subscriptionID, "", map[string]string{"cancel_at_period_end": "true", "expand[0]": "customer"})
	})
}

func TestStripeMockRefusesInvalidRequests(t *testing.T) {
	p, _ := newMock(t)
	for name, params := range map[string]*stripe.CheckoutSessionParams{
		"a mode that is none": {Mode: stripe.String("subscribe"), SuccessURL: &p.success},
		"a parameter more":    {Params: stripe.Params{Extra: &stripe.ExtraValues{Values: url.Values{"org": {"1"}}}}, SuccessURL: &p.success},
	} {
		_, err := call[session](t.Context(), p, http.MethodPost, "/v1/checkout/sessions", params)
		if err == nil || !strings.Contains(err.Error(), "status 400 invalid_request_error") {
			t.Errorf("%s gives %v", name, err)
		}
	}
	if _, err := call[session](t.Context(), p, http.MethodPost, "/v1/checkout/pages", &stripe.CheckoutSessionParams{}); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("got %v", err)
	}
}
