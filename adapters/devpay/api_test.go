package devpay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
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

func TestInterface(t *testing.T) {
	withProvider(t, "a session has the parameters of its request", func(t *testing.T, st *fixture) {
		c := st.customer("Engines")
		made := st.session(c)
		s := must.Do(st.sessions().Get(made.ID, &stripe.CheckoutSessionParams{Expand: []*string{stripe.String("customer")}})).Or(t)
		if s.Status != "open" || s.PaymentStatus != "unpaid" || s.Mode != "subscription" || s.Subscription != nil || s.ClientReferenceID != "org-1" ||
			s.Metadata["org_id"] != "org-1" || s.Metadata["plan"] != "STANDARD" || s.Customer.ID != c || s.Customer.Name != "Engines" ||
			s.ExpiresAt != st.clock.Now().Add(24*time.Hour).Unix() || s.URL != st.URL+"/dev/payments/pay/"+s.ID || len(s.ID) < 50 {
			t.Errorf("session %+v", s)
		}
	})
	withProvider(t, "a subscription has the price, the customer and the metadata of its session, and a period of one month", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		start, end := st.clock.Now().Unix(), time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC).Unix()
		if s.Status != "active" || s.Metadata["org_id"] != "org-1" || s.Items.Data[0].Price.ID != "price_s" || s.Items.Data[0].Quantity != 1 ||
			s.CurrentPeriodStart != start || s.CurrentPeriodEnd != end || s.DefaultPaymentMethod == nil || s.CancelAtPeriodEnd || s.CancelAt != 0 {
			t.Errorf("subscription %+v", s)
		}
	})
	withProvider(t, "another price is another plan, which is paid at once", func(t *testing.T, st *fixture) {
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
		st.service.Expect(t, "")
	})
	withProvider(t, "a scheduled cancellation is in both fields and can be revoked", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		is, err := st.subscriptions().Update(s.ID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})
		if err != nil || !is.CancelAtPeriodEnd || is.CancelAt != s.CurrentPeriodEnd || is.Status != "active" {
			t.Errorf("%v, %+v", err, is)
		}
		is, err = st.subscriptions().Update(s.ID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(false)})
		if err != nil || is.CancelAtPeriodEnd || is.CancelAt != 0 {
			t.Errorf("%v, %+v", err, is)
		}
		must.Is(t, "customer.subscription.updated customer.subscription.updated", forms.Types(st.service.Await(t, 2)))
	})
	withProvider(t, "a subscription is cancelled once", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		is, err := st.subscriptions().Cancel(s.ID, &stripe.SubscriptionCancelParams{Expand: []*string{stripe.String("customer")}})
		if err != nil || is.Status != "canceled" || is.Customer.Name != "Analytical Engines" {
			t.Fatalf("%v, %+v", err, is)
		}
		_, err = st.subscriptions().Cancel(s.ID, nil)
		expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.subscriptions().Update(s.ID, &stripe.SubscriptionParams{CancelAtPeriodEnd: stripe.Bool(true)})
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, "")
		if events := st.service.Await(t, 1); forms.Types(events) != "customer.subscription.deleted" || into[stripe.Subscription](t, events[0]).Status != "canceled" {
			t.Errorf("events: %s", forms.Types(events))
		}
		must.Is(t, "canceled", st.subscription(s.ID).Status)
		st.service.Expect(t, "")
	})
	withProvider(t, "an expired or paid session cannot be expired", func(t *testing.T, st *fixture) {
		c := st.customer("Engines")
		s := st.session(c)
		is, err := st.sessions().Expire(s.ID, nil)
		if err != nil || is.Status != "expired" || is.URL != "" {
			t.Errorf("%v, %+v", err, is)
		}
		_, err = st.sessions().Expire(s.ID, nil)
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, "")
		paid := st.session(c)
		st.pay(paid.ID)
		_, err = st.sessions().Expire(paid.ID, nil)
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, "")
	})
	withProvider(t, "a session expires after a day by itself", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		st.clock.Advance(24*time.Hour - time.Second)
		if is, _ := st.sessions().Get(s.ID, nil); is.Status != "open" {
			t.Errorf("it is %s", is.Status)
		}
		st.clock.Advance(time.Second)
		if is, _ := st.sessions().Get(s.ID, nil); is.Status != "expired" {
			t.Errorf("it is %s", is.Status)
		}
	})
	withProvider(t, "unknown ids are not found", func(t *testing.T, st *fixture) {
		_, err := st.sessions().Get("cs_1", nil)
		expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.sessions().Expire("cs_1", nil)
		expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.subscriptions().Get("sub_1", nil)
		expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.subscriptions().Update("sub_1", nil)
		expectStripeError(t, err, 404, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.sessions().New(order("cus_1", "price_s"))
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.sessions().New(order(st.customer("Engines"), "price_of_nothing"))
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
		_, err = st.portals().New(&stripe.BillingPortalSessionParams{Customer: stripe.String("cus_1")})
		expectStripeError(t, err, 400, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing)
	})
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
	withProvider(t, "concurrent requests with one key have one effect", func(t *testing.T, st *fixture) {
		made, wait := sync.Map{}, sync.WaitGroup{}
		for range 10 {
			wait.Go(func() {
				if c, err := st.customers().New(keyed("Engines", "1")); err != nil {
					t.Error(err)
				} else {
					made.Store(c.ID, true)
				}
			})
		}
		wait.Wait()
		n := 0
		made.Range(func(any, any) bool { n++; return true })
		must.Is(t, 1, n)
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
