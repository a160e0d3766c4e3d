package integration

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"

	inmemory "collab/adapters/memory"
	"collab/adapters/stripepay"
	"collab/app/billing"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/collabd"
	"collab/test/race"
	"collab/test/stripemock"
)

// providersMock is the payment provider's own mock, which holds every request to
// the published description of its interface. It keeps nothing: what it says of a
// subscription is always the same.
type providersMock struct {
	*httptest.Server
	price string // of its subscription

	mu   sync.Mutex
	seen []string // method, path and status of each request; guarded by mu
}

func newProvidersMock(t *testing.T) *providersMock {
	t.Helper()
	mock := stripemock.Handler(t)
	m := &providersMock{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		mock.ServeHTTP(answer, r)
		m.mu.Lock()
		m.seen = append(m.seen, fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, answer.Code))
		m.mu.Unlock()
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(m.Close)
	var all struct {
		Resources struct {
			Subscription struct {
				Items struct {
					Data []struct{ Price struct{ ID string } }
				}
			}
		}
	}
	if err := json.Unmarshal(embedded.OpenAPIFixtures, &all); err != nil {
		t.Fatal(err)
	}
	m.price = all.Resources.Subscription.Items.Data[0].Price.ID
	return m
}

// asked returns the requests since it was last called.
func (m *providersMock) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.seen
	m.seen = nil
	return all
}

// What an organisation does is asked of the provider in requests that its own
// mock takes.
func TestTheProvidersOwnMockTakesWhatIsAsked(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	t.Parallel()
	mock := newProvidersMock(t)
	s := collabd.Start(t, "COLLAB_STRIPE_SECRET_KEY=sk_test_123", "COLLAB_STRIPE_API_URL="+mock.URL, "COLLAB_STRIPE_WEBHOOK_SECRETS="+collabd.PaymentSecret,
		"COLLAB_STRIPE_PRICE_STANDARD="+mock.price, "COLLAB_STRIPE_PRICE_PREMIUM=price_premium")
	asked := func(want ...string) {
		t.Helper()
		got := strings.Join(mock.asked(), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("asked\n%s\nwithout %s", got, w)
			}
		}
		for line := range strings.Lines(got) {
			if !strings.HasSuffix(strings.TrimSpace(line), " 200") {
				t.Errorf("the mock refuses %s", line)
			}
		}
	}
	var page struct{ URL string }
	var is struct{ Plan, Status string }

	buyer := s.SignIn(t, "owner@buyers.example.com", "buyers", "owner")
	buyer.Must(t, 200, "POST", "/billing/trial", nil, &is)
	buyer.Must(t, 200, "POST", "/billing/checkout", map[string]string{"plan": "PREMIUM"}, &page)
	if !strings.HasPrefix(page.URL, "https://") {
		t.Errorf("the page is %q", page.URL)
	}
	asked("POST /v1/customers 200", "POST /v1/checkout/sessions 200")
	buyer.Must(t, 200, "POST", "/billing/portal", nil, &page)
	asked("POST /v1/billing_portal/sessions 200")
	// The page for the other plan takes the place of the first, which is closed.
	buyer.Must(t, 200, "POST", "/billing/checkout", map[string]string{"plan": "STANDARD"}, &page)
	asked("/expire 200", "POST /v1/checkout/sessions 200")

	// The provider's message brings the subscription that the mock knows.
	body := fmt.Sprintf(`{"id":"evt_mock_1","object":"event","type":"customer.subscription.updated","created":%d,"data":{"object":{"id":"sub_mock","object":"subscription","status":"active","metadata":{"org_id":%q},"items":{"data":[{"id":"si_1","price":{"id":%q}}]}}}}`,
		time.Now().Unix(), buyer.Org, mock.price)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/billing/webhook", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Payment-Signature", stripepay.Sign(collabd.PaymentSecret, time.Now(), []byte(body)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the message is answered %s, %v", answer.Status, err)
	}
	asked("GET /v1/subscriptions/sub_mock 200")
	buyer.Must(t, 200, "GET", "/billing/subscription", nil, &is)
	if is.Plan != "STANDARD" || is.Status != "ACTIVE" {
		t.Errorf("the subscription is %+v", is)
	}
	buyer.Must(t, 200, "POST", "/billing/checkout", map[string]string{"plan": "PREMIUM"}, &page)
	asked("POST /v1/subscriptions/sub_mock 200")
	buyer.Must(t, 200, "POST", "/billing/downgrade", nil, &is)
	asked("GET /v1/subscriptions/sub_mock 200") // the mock's is to end already
}

func TestAPeriodThatIsOverIsAskedAfterAtTheProvidersOwnMock(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	t.Parallel()
	mock := newProvidersMock(t)
	end := time.Date(2026, 4, 2, 9, 0, 0, 0, time.UTC)
	clock, store, ids, log := inmemory.NewClock(end.Add(3*24*time.Hour-time.Millisecond)), inmemory.NewStore(), &inmemory.IDs{}, slog.New(slog.DiscardHandler)
	payments, err := stripepay.New(stripepay.Options{
		SecretKey: "sk_test_123", URL: mock.URL, Prices: map[plan.Plan]string{plan.Standard: mock.price, plan.Premium: "price_premium"},
		SuccessURL: "https://collab.example.com/success", CancelURL: "https://collab.example.com/cancel", Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := org.Organisation{ID: id.Org(ids.New()), ProviderID: "org_buyers", Name: "Buyers"}
	if _, err := store.Directory().Organisations().Upsert(t.Context(), o, func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
		t.Fatal(err)
	}
	was, _ := plan.Unsubscribed(o.ID).Follow(plan.Remote{ID: "sub_mock", Status: plan.IsPastDue, Plan: plan.Premium, PeriodEnd: &end}, end.AddDate(0, -1, 0))
	if err := store.Directory().Subscriptions().Put(t.Context(), o.ID, was); err != nil {
		t.Fatal(err)
	}
	b := billing.New(billing.Options{Store: store, Payments: payments, Provider: payments, Clock: clock, IDs: ids, Log: log})
	for _, want := range []struct {
		asked  string
		status plan.Status
	}{{"", plan.PastDue}, {"GET /v1/subscriptions/sub_mock 200", plan.Active}, {"", plan.Active}} {
		if err := b.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		is, err := store.Directory().Subscriptions().Get(t.Context(), o.ID)
		if asked := strings.Join(mock.asked(), "\n"); err != nil || asked != want.asked || is.Status() != want.status {
			t.Errorf("at %v it asked %q, and the subscription is %s, %v", clock.Now(), asked, is.Status(), err)
		}
		clock.Advance(time.Millisecond)
	}
}
