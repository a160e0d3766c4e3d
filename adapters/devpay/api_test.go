package devpay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"collab/test/forms"
	"collab/test/must"
)

// expectStripeError checks the error of Stripe's library.
func expectStripeError(t *testing.T, err error, status int, kind stripe.ErrorType, code stripe.ErrorCode) {
	t.Helper()
	e := (*stripe.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v", err)
	}
	if e.HTTPStatusCode != status || e.Type != kind || e.Code != code || e.Msg == "" {
		t.Errorf("refused with %d %s %s: %s", e.HTTPStatusCode, e.Type, e.Code, e.Msg)
	}
}

func TestChangesByTheInterfaceAreSent(t *testing.T) {
	st := newFixture(t, t.TempDir())
	s := st.subscribed()
	change := &stripe.SubscriptionParams{
		Items:             []*stripe.SubscriptionItemsParams{{ID: &s.Items.Data[0].ID, Price: stripe.String("price_p")}},
		ProrationBehavior: stripe.String("always_invoice"), PaymentBehavior: stripe.String("error_if_incomplete"), CancelAtPeriodEnd: stripe.Bool(false),
	}
	for range 2 {
		is := must.Do(st.subscriptions().Update(s.ID, change)).Or(t)
		if is.Items.Data[0].Price.ID != "price_p" || is.Items.Data[0].ID != s.Items.Data[0].ID {
			t.Errorf("items %+v", is.Items.Data)
		}
	}
	events := st.service.Await(t, 2)
	sent, paid := into[stripe.Subscription](t, events[0]), into[stripe.Invoice](t, events[1])
	if forms.Types(events) != "customer.subscription.updated invoice.paid" || sent.Items.Data[0].Price.ID != "price_p" || !paid.Paid || paid.Subscription.ID != s.ID {
		t.Errorf("events %s, %+v, %+v", forms.Types(events), sent.Items.Data, paid)
	}
	is := must.Do(st.subscriptions().Update(s.ID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})).Or(t)
	if !is.CancelAtPeriodEnd || is.CancelAt != s.CurrentPeriodEnd {
		t.Errorf("the scheduled end is %+v", is)
	}
	is = must.Do(st.subscriptions().Cancel(s.ID, &stripe.SubscriptionCancelParams{Expand: []*string{stripe.String("customer")}})).Or(t)
	must.Is(t, "Analytical Engines", is.Customer.Name)
	_, err := st.subscriptions().Cancel(s.ID, nil)
	expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
	_, err = st.subscriptions().Update(s.ID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})
	expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, "")
	must.Is(t, "customer.subscription.updated customer.subscription.deleted", forms.Types(st.service.Await(t, 2)))
	st.service.Expect(t, "")
}

func TestIdempotency(t *testing.T) {
	keyed := func(name, key string) *stripe.CustomerParams {
		p := &stripe.CustomerParams{Name: &name}
		p.SetIdempotencyKey(key)
		return p
	}
	t.Run("the same key has the same response, also after a restart", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		first := must.Do(st.customers().New(keyed("Engines", "customer:1"))).Or(t)
		again := newFixture(t, directory)
		for _, from := range []*fixture{st, again} {
			c, err := from.customers().New(keyed("Engines", "customer:1"))
			if err != nil || c.ID != first.ID || c.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%v, %s became %s", err, first.ID, c.ID)
			}
		}
	})
	withProvider(t, "the same key with other parameters is refused", func(t *testing.T, st *fixture) {
		must.Do(st.customers().New(keyed("Engines", "customer:1"))).Or(t)
		_, err := st.customers().New(keyed("Royal Society", "customer:1"))
		expectStripeError(t, err, 400, stripe.ErrorTypeIdempotency, "")
		other := &stripe.BillingPortalSessionParams{Customer: stripe.String("cus_1")}
		other.SetIdempotencyKey("customer:1")
		_, err = st.portals().New(other)
		expectStripeError(t, err, 400, stripe.ErrorTypeIdempotency, "")
	})
	withProvider(t, "a key can be used again after a day or an error", func(t *testing.T, st *fixture) {
		first, _ := st.customers().New(keyed("Engines", "1"))
		st.clock.Advance(24 * time.Hour)
		if c, err := st.customers().New(keyed("Royal Society", "1")); err != nil || c.ID == first.ID {
			t.Errorf("%v, %s again", err, first.ID)
		}
		bad, good := order(first.ID, "price_of_nothing"), order(first.ID, "price_s")
		bad.SetIdempotencyKey("2")
		good.SetIdempotencyKey("2")
		if _, err := st.sessions().New(bad); err == nil {
			t.Error("a price that nobody has is sold")
		}
		must.Do(st.sessions().New(good)).Or(t)
	})
}

func TestHostileRequests(t *testing.T) {
	st := newFixture(t, t.TempDir())
	c := st.customer("Engines")
	s := st.subscribed()
	st.service.Take()
	session := func(change ...string) string {
		v := url.Values{"mode": {"subscription"}, "customer": {c}, "line_items[0][price]": {"price_s"}, "success_url": {"http://localhost/"}}
		for i := 0; i < len(change); i += 2 {
			v.Set(change[i], change[i+1])
		}
		return v.Encode()
	}
	many := url.Values{}
	for i := range 51 {
		many.Set(fmt.Sprintf("metadata[k%d]", i), "v")
	}
	subscription := "/v1/subscriptions/" + s.ID
	for name, tt := range map[string]struct {
		method, path, form string
		status             int
		says               string
	}{
		"another mode":                         {"POST", "/v1/checkout/sessions", session("mode", "payment"), 400, "mode"},
		"no price":                             {"POST", "/v1/checkout/sessions", session("line_items[0][price]", ""), 400, "Missing required param"},
		"a price made up on the spot":          {"POST", "/v1/checkout/sessions", session("line_items[0][price_data][unit_amount]", "1"), 400, "unknown parameter"},
		"a second item":                        {"POST", "/v1/checkout/sessions", session("line_items[1][price]", "price_p"), 400, "unknown parameter"},
		"a quantity below one":                 {"POST", "/v1/checkout/sessions", session("line_items[0][quantity]", "0"), 400, "Invalid integer"},
		"a quantity that is no number":         {"POST", "/v1/checkout/sessions", session("line_items[0][quantity]", "1e3"), 400, "Invalid integer"},
		"a quantity without an end":            {"POST", "/v1/checkout/sessions", session("line_items[0][quantity]", "9999999999999999999"), 400, "Invalid integer"},
		"no address to go on to":               {"POST", "/v1/checkout/sessions", session("success_url", ""), 400, "Missing required param"},
		"an address that runs":                 {"POST", "/v1/checkout/sessions", session("success_url", "javascript:alert(1)"), 400, "Not a valid URL"},
		"an address on this server alone":      {"POST", "/v1/checkout/sessions", session("success_url", "/success"), 400, "Not a valid URL"},
		"an address that ends the policy":      {"POST", "/v1/checkout/sessions", session("cancel_url", "http://a;script-src/"), 400, "Not a valid URL"},
		"a reference that is too long":         {"POST", "/v1/checkout/sessions", session("client_reference_id", strings.Repeat("x", 201)), 400, "at most 200"},
		"a customer sent twice":                {"POST", "/v1/checkout/sessions", session() + "&customer=cus_1", 400, "more than once"},
		"a misspelt parameter":                 {"POST", "/v1/customers", "nme=Engines", 400, "unknown parameter: nme"},
		"a name without an end":                {"POST", "/v1/customers", "name=" + strings.Repeat("x", 5001), 400, "at most 5000"},
		"too much metadata":                    {"POST", "/v1/customers", many.Encode(), 400, "at most 50 keys"},
		"metadata with a long key":             {"POST", "/v1/customers", "metadata[" + strings.Repeat("x", 41) + "]=1", 400, "at most 40"},
		"metadata inside of metadata":          {"POST", "/v1/customers", "metadata[a][b]=1", 400, "Invalid metadata key"},
		"metadata without an end":              {"POST", "/v1/customers", "metadata[a=1", 400, "Invalid metadata key"},
		"a huge form":                          {"POST", "/v1/customers", "name=" + strings.Repeat("x", 70_000), 413, "too large"},
		"a form that cannot be read":           {"POST", "/v1/customers", "name=%zz", 400, "cannot be read"},
		"an unknown price of a subscription":   {"POST", subscription, "items[0][id]=" + s.Items.Data[0].ID + "&items[0][price]=x", 400, "No such price"},
		"an item of another subscription":      {"POST", subscription, "items[0][id]=si_1&items[0][price]=price_p", 400, "No such subscription item"},
		"a second item of a subscription":      {"POST", subscription, "items[0][price]=price_p", 400, "one item"},
		"an unknown way to share costs":        {"POST", subscription, "items[0][id]=" + s.Items.Data[0].ID + "&items[0][price]=price_p&proration_behavior=never", 400, "proration_behavior"},
		"an unknown way to pay":                {"POST", subscription, "items[0][id]=" + s.Items.Data[0].ID + "&items[0][price]=price_p&proration_behavior=always_invoice", 400, "payment_behavior"},
		"neither yes nor no":                   {"POST", subscription, "cancel_at_period_end=maybe", 400, "Invalid boolean"},
		"something else in the place of an id": {"GET", subscription + "?expand[]=latest_invoice", "", 400, "cannot be expanded"},
		"something unknown about its end":      {"DELETE", subscription + "?refund=all", "", 400, "unknown parameter"},
		"a change of an unknown subscription":  {"POST", "/v1/subscriptions/sub_1", "cancel_at_period_end=true", 404, "No such subscription"},
		"the end of an unknown subscription":   {"DELETE", "/v1/subscriptions/sub_1", "", 404, "No such subscription"},
		"a path that is not there":             {"GET", "/v1/charges", "", 404, "Unrecognized request URL (GET: /v1/charges)"},
		"a method that is not there":           {"PUT", "/v1/customers", "name=Engines", 404, "Unrecognized request URL (PUT: /v1/customers)"},
		"a list of everybody":                  {"GET", "/v1/customers", "", 404, "Unrecognized request URL"},
		"an id with another path in its place": {"GET", "/v1/subscriptions/..%2f..%2fportal", "", 404, "No such subscription"},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			p, body := st.ask(tt.method, tt.path, tt.form)
			e, _ := body["error"].(map[string]any)
			message, _ := e["message"].(string)
			if p.StatusCode != tt.status || e["type"] != "invalid_request_error" || !strings.Contains(message, tt.says) {
				t.Errorf("answered %s: %s", p.Status, p.Text)
			}
		})
	}
	t.Run("another type of body is refused", func(t *testing.T) {
		if p, _ := st.ask("POST", "/v1/customers", `{"name":"Engines"}`, "Content-Type", "application/json"); p.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("answered %s", p.Status)
		}
	})
	t.Run("a long idempotency key is refused", func(t *testing.T) {
		if p, _ := st.ask("POST", "/v1/customers", "name=Engines", "Idempotency-Key", strings.Repeat("x", 256)); p.StatusCode != http.StatusBadRequest {
			t.Errorf("answered %s", p.Status)
		}
	})
	for name, credentials := range map[string]string{"no key": "", "another key": "Bearer sk_dev_1", "half a key": "Bearer " + st.provider.Key()[:20], "an empty key": "Bearer "} {
		t.Run(name+" is refused", func(t *testing.T) {
			p, body := st.ask("GET", subscription, "", "Authorization", credentials)
			if p.StatusCode != http.StatusUnauthorized || body["error"] == nil || strings.Contains(p.Text, "sk_dev") {
				t.Errorf("answered %s: %s", p.Status, p.Text)
			}
		})
	}
	t.Run("the refused requests changed nothing", func(t *testing.T) {
		if now := st.subscription(s.ID); now.Items.Data[0].Price.ID != "price_s" || now.CancelAtPeriodEnd || now.Status != "active" {
			t.Errorf("the subscription is %+v", now)
		}
		st.service.Expect(t, "")
	})
}
