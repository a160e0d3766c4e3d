package stripepay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/domain/fault"
	"collab/domain/plan"
	"collab/test/must"
)

const (
	missing   = `404 {"error":{"type":"invalid_request_error","code":"resource_missing","param":"id","message":"No such thing: 'x'"}}`
	refused   = `400 {"error":{"type":"invalid_request_error","message":"That is not possible, ada@example.org"}}`
	openPage  = `200 {"id":"cs_1","object":"checkout.session","status":"open","url":"https://checkout.example/c/pay/cs_1#x","expires_at":1800000000}`
	active    = `200 {"id":"sub_1","status":"active","customer":"cus_1","items":{"data":[{"id":"si_1","price":{"id":"price_standard"}}]}}`
	premium   = `200 {"id":"sub_1","status":"active","customer":"cus_1","items":{"data":[{"id":"si_1","price":{"id":"price_premium"}}]}}`
	canceled  = `200 {"id":"sub_1","status":"canceled","customer":"cus_1","items":{"data":[{"id":"si_1","price":{"id":"price_standard"}}]}}`
	ending    = `200 {"id":"sub_1","status":"active","cancel_at_period_end":true,"cancel_at":1800000000,"items":{"data":[{"id":"si_1","price":{"id":"price_standard"}}]}}`
	endingNew = `200 {"id":"sub_1","status":"active","cancel_at_period_end":false,"cancel_at":1800000000,"items":{"data":[{"id":"si_1","price":{"id":"price_standard"}}]}}`
)

// calls has one call of each method by name.
var calls = map[string]func(ctx context.Context, p *Payments) error{
	"Customer": func(ctx context.Context, p *Payments) error {
		return must.ErrorOf(p.Customer(ctx, org, "Analytical Engines", ""))
	},
	"Open": func(ctx context.Context, p *Payments) error {
		return must.ErrorOf(p.Open(ctx, org, "cus_1", plan.Checkout{Key: "k", Plan: plan.Standard}))
	},
	"Session": func(ctx context.Context, p *Payments) error { return must.ErrorOf(p.Session(ctx, "cs_1")) },
	"Expire":  func(ctx context.Context, p *Payments) error { return p.Expire(ctx, "cs_1") },
	"Portal": func(ctx context.Context, p *Payments) error {
		return must.ErrorOf(p.Portal(ctx, "cus_1", "https://collab.example"))
	},
	"Subscription": func(ctx context.Context, p *Payments) error { return must.ErrorOf(p.Subscription(ctx, "sub_1")) },
	"Change": func(ctx context.Context, p *Payments) error {
		return p.Change(ctx, "sub_1", plan.Premium)
	},
	"Cancel": func(ctx context.Context, p *Payments) error { return p.Cancel(ctx, "sub_1", true) },
}

func TestEveryCallReturnsTheKindOfItsError(t *testing.T) {
	for response, kind := range map[string]fault.Kind{
		missing: fault.NotFound,
		`400 {"error":{"type":"invalid_request_error","code":"resource_missing","param":"customer"}}`:             fault.NotFound,
		`400 {"error":{"type":"invalid_request_error","code":"resource_missing","param":"line_items[0][price]"}}`: fault.Internal,
		`404 {"error":{"type":"invalid_request_error","message":"Unrecognized request URL"}}`:                     fault.Internal,
		refused: fault.Internal,
		`401 {"error":{"type":"invalid_request_error","message":"Invalid API Key provided: sk_test_verysecret"}}`: fault.Internal,
		`402 {"error":{"type":"card_error","code":"card_declined"}}`:                                              fault.Conflict,
		`403 {"error":{"type":"invalid_request_error"}}`:                                                          fault.Internal,
		`400 {"error":{"type":"idempotency_error"}}`:                                                              fault.Internal,
		`409 {"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`:                              fault.Unavailable,
		`429 {"error":{"type":"invalid_request_error","code":"rate_limit"}}`:                                      fault.Unavailable,
		`429 {"error":{"type":"invalid_request_error","code":"lock_timeout"}}`:                                    fault.Unavailable,
		`400 {"error":{"type":"invalid_request_error","code":"lock_timeout"}}`:                                    fault.Unavailable,
		`500 {"error":{"type":"api_error"}}`:                                                                      fault.Unavailable,
		`503 {"error":{"type":"api_error"}}`:                                                                      fault.Unavailable,
		`502 <html>Bad gateway sk_test_verysecret</html>`:                                                         fault.Unavailable,
		`500 {}`: fault.Unavailable,
		`400 17`: fault.Unavailable,
		`200 {}`: fault.Unavailable,
		`200 `:   fault.Unavailable,
		`200 []`: fault.Unavailable,
		`200 {"`: fault.Unavailable,
		`302 {}`: fault.Unavailable,
		`lost `:  fault.Unavailable,
		`200 {"id":"../x","url":"javascript:alert(1)","status":"active","customer":"ada@example.org"}`: fault.Unavailable,
	} {
		for name, call := range calls {
			if name == "Expire" && strings.HasPrefix(response, "200 {") {
				continue // no field of the response is required
			}
			t.Run(name+" is answered "+response, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, f, log := newFake(t, map[string][]string{
						"POST /customers": {response}, "POST /checkout/sessions": {response}, "GET /checkout/sessions/cs_1": {response},
						"POST /checkout/sessions/cs_1/expire": {response}, "POST /billing_portal/sessions": {response},
						"GET /subscriptions/sub_1": {active, response}, "POST /subscriptions/sub_1": {response}, "DELETE /subscriptions/sub_1": {response},
					})
					if name == "Subscription" {
						f.responses["GET /subscriptions/sub_1"] = []string{response}
					}
					began := time.Now()
					err := call(t.Context(), p)
					if !fault.Is(err, kind) {
						t.Fatalf("got %v (kind %d), want kind %d", err, fault.KindOf(err), kind)
					}
					if took := time.Since(began); took > 3*time.Second {
						t.Errorf("it took %v", took)
					}
					for _, secret := range []string{"secret", "ada@example.org", "No such thing", "Bad gateway", "Analytical"} {
						if strings.Contains(err.Error()+log.String(), secret) {
							t.Errorf("%q is told: %v, %s", secret, err, log)
						}
					}
				})
			})
		}
	}
}

func TestCallsWithoutAResponseAreUnavailable(t *testing.T) {
	for name, client := range map[string]*http.Client{
		"no response": {Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})},
		"an answer that stops": slowClient(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				must.Fail(t, must.ErrorOf(payments(t, client, io.Discard).Subscription(t.Context(), "sub_1")), fault.Unavailable)
				if took := time.Since(began); took < attempts*attemptTimeout || took > 35*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func slowClient() *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		body, w := io.Pipe()
		context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
	})}
}

func TestACancelledCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := payments(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			cancel(gone)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}, io.Discard)
		began := time.Now()
		if _, err := p.Subscription(ctx, "sub_1"); !fault.Is(err, fault.Unavailable) || !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAResponseIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {active + strings.Repeat(" ", maxResponse), `200 {"x":"` + strings.Repeat("x", maxResponse) + `","id":"sub_1"}`}})
		must.Succeed(t, must.ErrorOf(p.Subscription(t.Context(), "sub_1")))
		must.Fail(t, must.ErrorOf(p.Subscription(t.Context(), "sub_1")), fault.Unavailable)
	})
}

func TestRetriesHaveTheSameIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy = `503 {"error":{"type":"api_error"}}`
		p, f, log := newFake(t, map[string][]string{
			"POST /customers":               {"lost ", busy, `200 {"id":"cus_1"}`},
			"POST /checkout/sessions":       {busy, "lost ", openPage},
			"GET /subscriptions/sub_1":      {active},
			"POST /subscriptions/sub_1":     {"lost ", premium},
			"POST /billing_portal/sessions": {"lost ", `200 {"url":"https://portal.example/p"}`},
		})
		for _, name := range []string{"Customer", "Open", "Change", "Portal"} {
			if err := calls[name](t.Context(), p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		keys, used := f.keys()
		if len(keys) != 5 || keys[0] != "customer:"+string(org) || keys[1] != "k" || keys[2] != "" {
			t.Fatalf("the keys are %q", keys)
		}
		must.Equal(t, map[string]int{keys[0]: 3, keys[1]: 3, "": 1, keys[3]: 2, keys[4]: 2}, used)
		if n := strings.Count(log.String(), "Initiating retry"); n != 6 {
			t.Errorf("%d retries are in the log: %s", n, log)
		}
	})
}

func TestAnUnusableKeyIsReplacedByTheNext(t *testing.T) {
	const failed = `500! {"error":{"type":"api_error"}}`
	const other = `400 {"error":{"type":"idempotency_error"}}`
	customerKey := "customer:" + string(org)
	for name, c := range map[string]struct {
		call      string
		responses []string
		keys      []string
		works     bool
	}{
		"a stored failure":                   {"Customer", []string{failed, `200 {"id":"cus_1"}`}, []string{customerKey, customerKey + ":2"}, true},
		"a failure that is not stored":       {"Customer", []string{`500 {"error":{"type":"api_error"}}`}, []string{customerKey}, false},
		"an organisation with another name":  {"Customer", []string{other, `200 {"id":"cus_1"}`}, []string{customerKey, customerKey + ":2"}, true},
		"repeated failures":                  {"Customer", []string{failed}, []string{customerKey, customerKey + ":2", customerKey + ":3"}, false},
		"a checkout's stored failure":        {"Open", []string{failed, openPage}, []string{"k", "k:2"}, true},
		"a checkout with another return URL": {"Open", []string{other, openPage}, []string{"k", "k:2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, f, _ := newFake(t, map[string][]string{"POST /customers": c.responses, "POST /checkout/sessions": c.responses})
			if err := calls[c.call](t.Context(), p); (err == nil) != c.works {
				t.Errorf("got %v", err)
			}
			if keys, _ := f.keys(); !slices.Equal(keys, c.keys) {
				t.Errorf("the keys are %q, want %q", keys, c.keys)
			}
		})
	}
}

func TestInvalidIDsAreNotRequested(t *testing.T) {
	p, f, _ := newFake(t, nil)
	for _, bad := range []string{"", ".", "..", "../customers", "a/b", "a?b=c", "a b", "é", "a\n", strings.Repeat("a", 256)} {
		_, sessionErr := p.Session(t.Context(), bad)
		_, subscriptionErr := p.Subscription(t.Context(), bad)
		changeErr, cancelErr := p.Change(t.Context(), bad, plan.Premium), p.Cancel(t.Context(), bad, true)
		for _, err := range []error{sessionErr, subscriptionErr, changeErr, cancelErr, p.Expire(t.Context(), bad)} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%q gives %v", bad, err)
			}
		}
	}
	if len(f.requests) > 0 {
		t.Errorf("asked %v", f.requests)
	}
}

func TestSession(t *testing.T) {
	for body, want := range map[string]plan.Session{
		`{"id":"cs_1","status":"complete","client_reference_id":"` + string(org) + `","metadata":{"org_id":"` + string(otherOrg) + `","plan":"PREMIUM"},"subscription":"sub_1","expires_at":1800000000}`: {
			Status: "complete", Org: org, Plan: plan.Premium, Subscription: "sub_1"},
		`{"id":"cs_1","status":"expired","client_reference_id":"someone","metadata":{"org_id":"` + string(otherOrg) + `","plan":"GOLD"},"subscription":{"id":"sub_1","status":"active"}}`: {
			Status: "expired", Org: otherOrg, Plan: plan.None, Subscription: "sub_1"},
		`{"id":"cs_1","status":"open","client_reference_id":null,"metadata":[],"subscription":null}`: {Status: "open", Plan: plan.None},
	} {
		p, _, _ := newFake(t, map[string][]string{"GET /checkout/sessions/cs_1": {"200 " + body}})
		got, err := p.Session(t.Context(), "cs_1")
		if err != nil || got != want {
			t.Errorf("%s gives %+v, %v", body, got, err)
		}
	}
}

func TestARefusedExpiryOfAnOpenPageFails(t *testing.T) {
	p, _, _ := newFake(t, map[string][]string{
		"POST /checkout/sessions/cs_1/expire": {refused},
		"GET /checkout/sessions/cs_1":         {`200 {"id":"cs_1","status":"open"}`},
	})
	must.Fail(t, p.Expire(t.Context(), "cs_1"), fault.Internal)
}

func TestAChangeRequestsWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		is   string
		to   plan.Plan
		want map[string]string // the form; nil: no request
	}{
		"another plan": {active, plan.Premium, map[string]string{
			"items[0][id]": "si_1", "items[0][price]": "price_premium", "proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete", "cancel_at_period_end": "false"}},
		"the same plan":              {active, plan.Standard, nil},
		"the same plan, to end":      {ending, plan.Standard, map[string]string{"cancel_at_period_end": "false"}},
		"the same plan, with an end": {endingNew, plan.Standard, map[string]string{"cancel_at": ""}},
		"another plan, with an end": {endingNew, plan.Premium, map[string]string{
			"items[0][id]": "si_1", "items[0][price]": "price_premium", "proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete", "cancel_at": ""}},
		"the same plan, at its former price": {`200 {"id":"sub_1","status":"active","items":{"data":[{"id":"si_1","price":{"id":"price_before"}}]}}`, plan.Standard, nil},
		"the plan of the configured item": {
			`200 {"id":"sub_1","status":"active","items":{"data":[{"id":"si_0","price":{"id":"price_support"}},{"id":"si_1","price":{"id":"price_standard"}}]}}`, plan.Premium,
			map[string]string{"items[0][id]": "si_1", "items[0][price]": "price_premium", "proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete", "cancel_at_period_end": "false"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, f, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {c.is}, "POST /subscriptions/sub_1": {premium}})
			must.NoError(t, p.Change(t.Context(), "sub_1", c.to))
			var got map[string]string
			for _, r := range f.requests[1:] {
				got = map[string]string{}
				for k, v := range r.form {
					got[k] = strings.Join(v, "|")
				}
				delete(got, "expand[0]")
			}
			must.Equal(t, c.want, got)
		})
	}
}

func TestASubscriptionThatHasEndedOrIsNotPaidCannotChange(t *testing.T) {
	for is, kind := range map[string]fault.Kind{
		canceled: fault.NotFound,
		`200 {"id":"sub_1","status":"incomplete_expired"}`:        fault.NotFound,
		`200 {"id":"sub_1","status":"active"}`:                    fault.Unavailable,
		`200 {"id":"sub_1","status":"active","items":[{"id":1}]}`: fault.Unavailable,
	} {
		p, f, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {is}})
		if err := p.Change(t.Context(), "sub_1", plan.Premium); !fault.Is(err, kind) || len(f.requests) != 1 {
			t.Errorf("%s gives %v after %d requests", is, err, len(f.requests))
		}
	}
	for refused, kind := range map[string]fault.Kind{
		missing: fault.NotFound,
		`400 {"error":{"type":"invalid_request_error","code":"resource_missing","message":"This customer has no attached payment source"}}`: fault.Conflict,
	} {
		p, _, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {active}, "POST /subscriptions/sub_1": {refused}})
		must.Fail(t, p.Change(t.Context(), "sub_1", plan.Premium), kind)
	}
	p, f, _ := newFake(t, nil)
	if err := p.Change(t.Context(), "sub_1", plan.Free); !fault.Is(err, fault.Internal) || len(f.requests) != 0 {
		t.Errorf("a plan without a price gives %v after %d requests", err, len(f.requests))
	}
}

func TestCancelIsIdempotent(t *testing.T) {
	for name, c := range map[string]struct {
		is     []string
		atOnce bool
		does   []string // answers to the next request
		asked  string
	}{
		"at once":                    {[]string{active}, true, []string{canceled}, "DELETE"},
		"at once, scheduled to end":  {[]string{ending}, true, []string{canceled}, "DELETE"},
		"at once, ended":             {[]string{canceled}, true, nil, ""},
		"at the end":                 {[]string{active}, false, []string{ending}, "POST"},
		"at the end, again":          {[]string{ending}, false, nil, ""},
		"at the end, with a date":    {[]string{endingNew}, false, nil, ""},
		"at the end, ended":          {[]string{canceled}, false, nil, ""},
		"at once, over meanwhile":    {[]string{active, canceled}, true, []string{missing}, "DELETE"},
		"at the end, over meanwhile": {[]string{active, canceled}, false, []string{refused}, "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			p, f, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": c.is, "POST /subscriptions/sub_1": c.does, "DELETE /subscriptions/sub_1": c.does})
			must.NoError(t, p.Cancel(t.Context(), "sub_1", c.atOnce))
			asked := ""
			for _, r := range f.requests {
				if r.method != http.MethodGet {
					asked += r.method
				}
			}
			must.Is(t, c.asked, asked)
		})
	}
}

func TestRefusedCancelsStayRefused(t *testing.T) {
	p, _, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {active}, "DELETE /subscriptions/sub_1": {missing}})
	must.Fail(t, p.Cancel(t.Context(), "sub_1", true), fault.NotFound)
}

func TestRequestsHaveTheKeyAndNoNameOfTheMachine(t *testing.T) {
	p, f, _ := newFake(t, map[string][]string{"GET /subscriptions/sub_1": {active}})
	must.Do(p.Subscription(t.Context(), "sub_1")).Or(t)
	h := f.requests[0].header
	if h.Get("Authorization") != "Bearer "+secretKey || h.Get("Stripe-Version") != "2023-10-16" {
		t.Errorf("got %v", h)
	}
	for _, name := range []string{"X-Stripe-Client-User-Agent", "X-Stripe-Client-Telemetry"} {
		if h.Get(name) != "" {
			t.Errorf("%s is %q", name, h.Get(name))
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	good := Options{SecretKey: secretKey, Prices: prices, SuccessURL: "https://x.example/s", CancelURL: "https://x.example/c"}
	must.Do(New(good)).Or(t)
	for name, spoil := range map[string]func(o *Options){
		"no key":                  func(o *Options) { o.SecretKey = " " },
		"a key of two lines":      func(o *Options) { o.SecretKey = "sk_1\nsk_2" },
		"an address without host": func(o *Options) { o.URL = "api.stripe.com" },
		"no success URL":          func(o *Options) { o.SuccessURL = "" },
		"a page with a query":     func(o *Options) { o.CancelURL = "https://x.example/?a=b" },
		"no prices":               func(o *Options) { o.Prices = nil },
		"a price that is missing": func(o *Options) { o.Prices = map[plan.Plan][]string{plan.Standard: {"price_1"}} },
		"one price twice": func(o *Options) {
			o.Prices = map[plan.Plan][]string{plan.Standard: {"price_1"}, plan.Premium: {"price_2", " price_1"}}
		},
		"a price without an id": func(o *Options) {
			o.Prices = map[plan.Plan][]string{plan.Standard: {"price_1", ""}, plan.Premium: {"price_2"}}
		},
		"an invalid price": func(o *Options) {
			o.Prices = map[plan.Plan][]string{plan.Standard: {"10 EUR"}, plan.Premium: {"price_1"}}
		},
	} {
		o := good
		spoil(&o)
		if _, err := New(o); err == nil || strings.Contains(err.Error(), "sk_") {
			t.Errorf("%s gives %v", name, err)
		}
	}
}
