package devpay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"collab/adapters/devpay"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/test/forms"
	"collab/test/must"
)

func TestNew(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*devpay.Options)
		fails  bool
	}{
		"development on loopback is allowed":           {func(*devpay.Options) {}, false},
		"outside development it is refused":            {func(o *devpay.Options) { o.Development = false }, true},
		"listening on a network address is refused":    {func(o *devpay.Options) { o.Listen = "192.168.1.4:8080" }, true},
		"a public URL elsewhere is refused":            {func(o *devpay.Options) { o.PublicURL = "https://collab.example" }, true},
		"a file that cannot be is refused":             {func(o *devpay.Options) { o.StateFile = filepath.Join(os.DevNull, "file") }, true},
		"a file with something else inside is refused": {func(o *devpay.Options) { os.WriteFile(o.StateFile, []byte("{}"), 0o600) }, true},
		"a file that is cut off is refused":            {func(o *devpay.Options) { os.WriteFile(o.StateFile, []byte(`{"key":"sk`), 0o600) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := devpay.Options{
				Development: true, Listen: "127.0.0.1:8080", PublicURL: "http://127.0.0.1:8080", StateFile: filepath.Join(t.TempDir(), "payments.json"),
				Clock: system.Clock{}, IDs: &memory.IDs{}, Secrets: system.Secrets{},
			}
			tt.change(&o)
			p, err := devpay.New(o)
			if (err != nil) != tt.fails {
				t.Fatalf("New: %v", err)
			}
			if err == nil {
				p.Close()
			}
		})
	}
	withProvider(t, "the API's URL and key", func(t *testing.T, st *fixture) {
		if st.provider.APIURL() != st.URL+"/dev/payments" || !strings.HasPrefix(st.provider.Key(), "sk_dev_") || len(st.provider.Key()) < 40 {
			t.Errorf("%s, %s", st.provider.APIURL(), st.provider.Key())
		}
	})
}

func TestCheckoutPage(t *testing.T) {
	withProvider(t, "it names the plan, the price and the organisation", func(t *testing.T, st *fixture) {
		p := st.Open(st.session(st.customer(`Engines <b>&amp; "Co"`)).URL)
		p.Contains(t, "Subscribe to STANDARD", "10.00 USD, every month", "Engines &lt;b&gt;&amp;amp; &#34;Co&#34;", ">Pay<", ">Cancel<")
		if p.StatusCode != http.StatusOK || p.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("answered %s %v", p.Status, p.Header)
		}
	})
	withProvider(t, "paying redirects with the session's id after the events", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		p := st.submit(s.URL, url.Values{"action": {"pay"}})
		if p.StatusCode != http.StatusSeeOther || p.Header.Get("Location") != "http://127.0.0.1:1/success?session_id="+s.ID {
			t.Errorf("answered %s, %s", p.Status, p.Header.Get("Location"))
		}
		events := st.service.Take() // at once
		if got := forms.Types(events); got != paid {
			t.Fatalf("events: %s", got)
		}
		done, made, updated, invoice := into[stripe.CheckoutSession](t, events[0]), into[stripe.Subscription](t, events[1]), into[stripe.Subscription](t, events[2]), into[stripe.Invoice](t, events[3])
		if done.ID != s.ID || done.Status != "complete" || done.PaymentStatus != "paid" || done.Mode != "subscription" || done.ClientReferenceID != "org-1" || done.Metadata["org_id"] != "org-1" || done.Subscription.ID != made.ID {
			t.Errorf("session %+v", done)
		}
		if made.Status != "incomplete" || updated.Status != "active" || updated.Metadata["org_id"] != "org-1" {
			t.Errorf("subscription %+v became %+v", made, updated)
		}
		if invoice.Status != "paid" || !invoice.Paid || invoice.Subscription.ID != made.ID || invoice.SubscriptionDetails.Metadata["org_id"] != "org-1" ||
			invoice.Lines.Data[0].Period.End != updated.CurrentPeriodEnd {
			t.Errorf("invoice %+v", invoice)
		}
		for _, e := range events {
			if e.Content.Created != st.clock.Now().Unix() || !strings.HasPrefix(e.Content.ID, "evt_") || e.Content.APIVersion != stripe.APIVersion {
				t.Errorf("event %+v", e)
			}
		}
	})
	withProvider(t, "paying twice pays once", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		for range 2 {
			if p := st.submit(s.URL, url.Values{"action": {"pay"}}); p.StatusCode != http.StatusSeeOther || !strings.Contains(p.Header.Get("Location"), "/success") {
				t.Errorf("answered %s", p.Status)
			}
		}
		st.service.Expect(t, paid)
		if p := st.Open(s.URL); !strings.Contains(p.Text, "<h1>Paid</h1>") || strings.Contains(p.Text, ">Pay<") || !strings.Contains(p.Text, "/success?session_id="+s.ID) {
			t.Errorf("the page says:\n%s", p.Text)
		}
	})
	withProvider(t, "concurrent payments pay once", func(t *testing.T, st *fixture) {
		c := st.customer("Engines")
		s := st.session(c)
		wait := sync.WaitGroup{}
		for range 10 {
			wait.Go(func() {
				st.pay(s.ID)
			})
		}
		wait.Wait()
		st.service.Expect(t, paid)
		if p := st.Open(st.portal(c)); strings.Count(p.Text, "<section") != 1 {
			t.Errorf("the portal says:\n%s", p.Text)
		}
	})
	withProvider(t, "cancelling redirects, and the session can be paid later", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		if p := st.submit(s.URL, url.Values{"action": {"cancel"}}); p.StatusCode != http.StatusSeeOther || p.Header.Get("Location") != "http://127.0.0.1:1/cancel" {
			t.Errorf("answered %s, %s", p.Status, p.Header.Get("Location"))
		}
		st.service.Expect(t, "")
		st.submit(s.URL, url.Values{"action": {"pay"}}).Expect(t, http.StatusSeeOther)
	})
	withProvider(t, "an expired session cannot be paid", func(t *testing.T, st *fixture) {
		c := st.customer("Engines")
		closed, old := st.session(c), st.session(c)
		must.Do(st.sessions().Expire(closed.ID, nil)).Or(t)
		st.clock.Advance(24 * time.Hour)
		for _, s := range []*stripe.CheckoutSession{closed, old} {
			must.Is(t, "expired", must.Do(st.sessions().Get(s.ID, nil)).Or(t).Status)
			if p := st.submit(s.URL, url.Values{"action": {"pay"}}); p.StatusCode != http.StatusConflict || !strings.Contains(p.Text, "can no longer be paid") {
				t.Errorf("answered %s:\n%s", p.Status, p.Text)
			}
			if p := st.Open(s.URL); !strings.Contains(p.Text, "This checkout is closed") || strings.Contains(p.Text, ">Pay<") {
				t.Errorf("the page says:\n%s", p.Text)
			}
		}
		st.service.Expect(t, "")
	})
	withProvider(t, "a session without a cancel URL has no button for it", func(t *testing.T, st *fixture) {
		o := order(st.customer("Engines"), "price_p")
		o.CancelURL = nil
		s := must.Do(st.sessions().New(o)).Or(t)
		if p := st.Open(s.URL); strings.Contains(p.Text, ">Cancel<") {
			t.Errorf("the page says:\n%s", p.Text)
		}
		st.submit(s.URL, url.Values{"action": {"cancel"}}).Expect(t, http.StatusBadRequest)
	})
}

func TestPortalPage(t *testing.T) {
	// steps are buttons, their events, and the subscription afterwards.
	type step struct {
		press  devpay.Action
		events string
		status stripe.SubscriptionStatus
		ends   string // the end of the period
		offers string
	}
	const updated = "customer.subscription.updated"
	for name, steps := range map[string][]step{
		"a payment that fails is owed until it is made": {
			{devpay.Fail, "invoice.payment_failed " + updated, "past_due", "2026-03-31", "Payment succeeds, Payment fails, Cancel at period end, Cancel now"},
			{devpay.Fail, "invoice.payment_failed", "past_due", "2026-03-31", "Payment succeeds, Payment fails, Cancel at period end, Cancel now"},
			{devpay.Succeed, "invoice.paid " + updated, "active", "2026-03-31", "Payment fails, Next period, Cancel at period end, Cancel now"},
		},
		"periods end on the last day of a month where they must": {
			{devpay.NextPeriod, "invoice.paid " + updated, "active", "2026-03-31", "Payment fails, Next period, Cancel at period end, Cancel now"},
			{devpay.NextPeriod, "invoice.paid " + updated, "active", "2026-04-30", "Payment fails, Next period, Cancel at period end, Cancel now"},
			{devpay.NextPeriod, "invoice.paid " + updated, "active", "2026-05-31", "Payment fails, Next period, Cancel at period end, Cancel now"},
		},
		"what is to end ends with the period": {
			{devpay.Schedule, updated, "active", "2026-02-28", "Payment fails, Next period, Keep, Cancel now"},
			{devpay.NextPeriod, "customer.subscription.deleted", "canceled", "2026-02-28", ""},
		},
		"what is kept goes on": {
			{devpay.Schedule, updated, "active", "2026-02-28", "Payment fails, Next period, Keep, Cancel now"},
			{devpay.Keep, updated, "active", "2026-02-28", "Payment fails, Next period, Cancel at period end, Cancel now"},
			{devpay.NextPeriod, "invoice.paid " + updated, "active", "2026-03-31", "Payment fails, Next period, Cancel at period end, Cancel now"},
		},
		"what is cancelled is over": {
			{devpay.Cancel, "customer.subscription.deleted", "canceled", "2026-02-28", ""},
		},
		"what is owed can be cancelled": {
			{devpay.Fail, "invoice.payment_failed " + updated, "past_due", "2026-03-31", "Payment succeeds, Payment fails, Cancel at period end, Cancel now"},
			{devpay.Cancel, "customer.subscription.deleted", "canceled", "2026-03-31", ""},
		},
	} {
		withProvider(t, name, func(t *testing.T, st *fixture) {
			s := st.subscribed()
			portal := st.portal(s.Customer.ID)
			for _, step := range steps {
				p := st.submit(portal, url.Values{"subscription": {s.ID}, "action": {string(step.press)}})
				if p.StatusCode != http.StatusSeeOther || st.URL+p.Header.Get("Location") != portal {
					t.Fatalf("%s answered %s, %s:\n%s", step.press, p.Status, p.Header.Get("Location"), p.Text)
				}
				if got := forms.Types(st.service.Take()); got != step.events {
					t.Errorf("%s has the events %s", step.press, got)
				}
				now := st.subscription(s.ID)
				if end := time.Unix(now.CurrentPeriodEnd, 0).UTC().Format(time.DateOnly); now.Status != step.status || end != step.ends {
					t.Errorf("%s made it %s until %s", step.press, now.Status, end)
				}
				if got := offers(st.Open(portal)); got != step.offers {
					t.Errorf("after %s the page offers %s", step.press, got)
				}
			}
		})
	}
	withProvider(t, "a failed invoice is open and has the period", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		for range 2 {
			st.act(s.ID, devpay.Fail)
			if i := into[stripe.Invoice](t, st.service.Take()[0]); i.Paid || i.Status != "open" || i.Lines.Data[0].Period.Start != s.CurrentPeriodEnd {
				t.Errorf("invoice %+v", i)
			}
		}
	})
	withProvider(t, "it shows all subscriptions of the customer and the return URL", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		st.act(s.ID, devpay.Cancel)
		st.clock.Advance(time.Hour)
		other := must.Do(st.sessions().New(order(s.Customer.ID, "price_p"))).Or(t)
		st.pay(other.ID)
		p := st.Open(st.portal(s.Customer.ID))
		p.Contains(t, "10.00 USD, every month", `class="danger">Cancel now<`, "<strong>Payment fails</strong> declines the next payment")
		if !regexp.MustCompile(`(?s)Analytical Engines.*PREMIUM.*Active.*31 January 2026 to 28 February 2026.*it is renewed.*STANDARD.*Canceled.*31 January 2026.*href="http://127.0.0.1:1/back"`).MatchString(p.Text) {
			t.Errorf("the page says:\n%s", p.Text)
		}
	})
	withProvider(t, "a customer without a subscription gets a page with a link to the application", func(t *testing.T, st *fixture) {
		v := must.Do(st.portals().New(&stripe.BillingPortalSessionParams{Customer: stripe.String(st.customer("Engines"))})).Or(t)
		if p := st.Open(v.URL); !strings.Contains(p.Text, "There is no subscription") || !strings.Contains(p.Text, `href="http://localhost:3000/welcome"`) {
			t.Errorf("the page says:\n%s", p.Text)
		}
	})
	withProvider(t, "impossible actions are refused", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		portal, others := st.portal(s.Customer.ID), st.portal(st.customer("Royal Society"))
		for name, tt := range map[string]struct {
			address, subscription, action string
			status                        int
		}{
			"another's subscription":     {others, s.ID, "cancel", 404},
			"an unknown subscription":    {portal, "sub_1", "cancel", 404},
			"no subscription":            {portal, "", "cancel", 404},
			"an unknown action":          {portal, s.ID, "refund", 409},
			"no action":                  {portal, s.ID, "", 409},
			"a payment that is not owed": {portal, s.ID, "succeed", 409},
			"an address made up":         {st.URL + "/dev/payments/portal/1", s.ID, "cancel", 404},
		} {
			if p := st.submit(tt.address, url.Values{"subscription": {tt.subscription}, "action": {tt.action}}); p.StatusCode != tt.status {
				t.Errorf("%s: answered %s", name, p.Status)
			}
		}
		st.service.Expect(t, "")
	})
	withProvider(t, "subscriptions are renewed or ended in time, with one event", func(t *testing.T, st *fixture) {
		goes, ends, owed := st.subscribed(), st.subscribed(), st.subscribed()
		for id, a := range map[string]devpay.Action{ends.ID: devpay.Schedule, owed.ID: devpay.Fail} {
			st.act(id, a)
		}
		st.service.Take()
		st.clock.Advance(28*24*time.Hour - time.Second)
		must.Is(t, goes.CurrentPeriodEnd, st.subscription(goes.ID).CurrentPeriodEnd)
		st.service.Expect(t, "")
		st.clock.Advance(100 * 24 * time.Hour) // to 8 June
		for range 2 {
			if is := st.subscription(goes.ID); is.Status != "active" || time.Unix(is.CurrentPeriodStart, 0).UTC().Format(time.DateOnly) != "2026-05-31" || time.Unix(is.CurrentPeriodEnd, 0).UTC().Format(time.DateOnly) != "2026-06-30" {
				t.Errorf("it is %s until %d", is.Status, is.CurrentPeriodEnd)
			}
			must.Is(t, "canceled", st.subscription(ends.ID).Status)
			must.Is(t, "past_due", st.subscription(owed.ID).Status)
		}
		sent := strings.Fields(forms.Types(st.service.Await(t, 3)))
		slices.Sort(sent)
		must.Is(t, "customer.subscription.deleted customer.subscription.updated invoice.paid", strings.Join(sent, " "))
		st.service.Expect(t, "")
	})
	withProvider(t, "its URL is valid for a day", func(t *testing.T, st *fixture) {
		s := st.subscribed()
		portal := st.portal(s.Customer.ID)
		st.clock.Advance(24 * time.Hour)
		if p := st.Open(portal); p.StatusCode != http.StatusNotFound || !strings.Contains(p.Text, "has expired") {
			t.Errorf("answered %s", p.Status)
		}
		st.submit(portal, url.Values{"subscription": {s.ID}, "action": {"cancel"}}).Expect(t, http.StatusNotFound)
	})
}

// offers returns the buttons of a page.
func offers(p forms.Page) string {
	var names []string
	for _, b := range regexp.MustCompile(`<button[^>]*>([^<]*)</button>`).FindAllStringSubmatch(p.Text, -1) {
		names = append(names, b[1])
	}
	return strings.Join(names, ", ")
}

func TestPages(t *testing.T) {
	st := newFixture(t, t.TempDir())
	s := st.session(st.customer("Engines"))
	portal := st.portal(s.Customer.ID)
	t.Run("they have no scripts and cannot be framed or cached", func(t *testing.T) {
		for _, address := range []string{s.URL, portal, st.URL + "/dev/payments/nothing", st.URL + "/dev/payments/pay/cs_1"} {
			p := st.Open(address)
			const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
			if !strings.HasPrefix(p.Header.Get("Content-Security-Policy"), policy) || p.Header.Get("X-Frame-Options") != "DENY" ||
				p.Header.Get("Cache-Control") != "no-store" || p.Header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(p.Text, "<script") {
				t.Errorf("%s: %v", address, p.Header)
			}
		}
	})
	t.Run("the form may redirect to the service and the application", func(t *testing.T) {
		if policy := st.Open(s.URL).Header.Get("Content-Security-Policy"); !strings.HasSuffix(policy, "form-action 'self' http://127.0.0.1:1 http://127.0.0.1:1 http://localhost:3000") {
			t.Errorf("the policy is %s", policy)
		}
	})
	t.Run("style and picture are served", func(t *testing.T) {
		for path, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
			if p := st.Open(st.URL + "/dev/payments/" + path); p.StatusCode != http.StatusOK || p.Header.Get("Content-Type") != kind {
				t.Errorf("%s: %s %s", path, p.Status, p.Header.Get("Content-Type"))
			}
		}
	})
	t.Run("a form from another site is refused", func(t *testing.T) {
		for _, address := range []string{s.URL, portal} {
			st.Do(forms.Request(address, "action=pay", "https://evil.example")).Expect(t, http.StatusForbidden)
		}
	})
	t.Run("a foreign host name is refused", func(t *testing.T) {
		r, _ := http.NewRequest("GET", s.URL, nil)
		r.Host = "evil.example"
		st.Do(r).Expect(t, http.StatusForbidden)
	})
	t.Run("another method is refused", func(t *testing.T) {
		r, _ := http.NewRequest("PUT", s.URL, nil)
		if p := st.Do(r); p.StatusCode != http.StatusMethodNotAllowed || p.Header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("answered %s", p.Status)
		}
	})
	t.Run("unknown actions and huge forms are refused", func(t *testing.T) {
		st.submit(s.URL, url.Values{"action": {"steal"}}).Expect(t, http.StatusBadRequest)
		st.submit(s.URL, url.Values{"action": {strings.Repeat("x", 70_000)}}).Expect(t, http.StatusRequestEntityTooLarge)
	})
	t.Run("errors are JSON unless HTML is accepted", func(t *testing.T) {
		r, _ := http.NewRequest("GET", st.URL+"/dev/payments/pay/cs_1", nil)
		p := st.Do(r)
		var body struct{ StatusCode int }
		if err := json.Unmarshal([]byte(p.Text), &body); err != nil || body.StatusCode != http.StatusNotFound || p.StatusCode != http.StatusNotFound {
			t.Errorf("answered %s: %s", p.Status, p.Text)
		}
	})
	st.service.Expect(t, "")
}

func TestFile(t *testing.T) {
	t.Run("a restart keeps the key, pages and subscriptions", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		s := st.subscribed()
		page := st.session(s.Customer.ID)
		portal := st.portal(s.Customer.ID)
		again := newFixture(t, directory)
		if again.provider.Key() != st.provider.Key() {
			t.Error("the key is another")
		}
		if is := again.subscription(s.ID); is.Status != "active" || is.CurrentPeriodEnd != s.CurrentPeriodEnd || is.Items.Data[0].ID != s.Items.Data[0].ID {
			t.Errorf("subscription %+v", is)
		}
		again.pay(page.ID)
		must.Is(t, http.StatusOK, again.Open(strings.Replace(portal, st.URL, again.URL, 1)).StatusCode)
	})
	t.Run("a payment that cannot be stored is not made and has no events", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "data")
		st := newFixture(t, directory)
		s := st.session(st.customer("Engines"))
		must.NoError(t, os.RemoveAll(directory))
		if p := st.submit(s.URL, url.Values{"action": {"pay"}}); p.StatusCode != http.StatusInternalServerError || !strings.Contains(p.Text, "Something went wrong") {
			t.Errorf("answered %s:\n%s", p.Status, p.Text)
		}
		if p, body := st.ask("POST", "/v1/customers", "name=x"); p.StatusCode != http.StatusInternalServerError || body["error"].(map[string]any)["type"] != "api_error" {
			t.Errorf("answered %s: %s", p.Status, p.Text)
		}
		must.Is(t, "open", must.Do(st.sessions().Get(s.ID, nil)).Or(t).Status)
		st.service.Expect(t, "")
	})
	t.Run("old records are removed, used ones are not", func(t *testing.T) {
		directory := t.TempDir()
		file := filepath.Join(directory, "payments.json")
		st := newFixture(t, directory, func(o *devpay.Options) {
			state := map[string]any{"key": "sk_dev_1"}
			for kind, record := range map[string]map[string]any{
				"customers": {"createdAt": "2026-01-01T00:00:00Z"}, "answers": {"createdAt": "2026-01-31T11:00:00Z"},
				"sessions": {"createdAt": "2026-01-01T00:00:00Z", "expired": true}, "visits": {"createdAt": "2026-01-31T11:00:00Z"},
				"subscriptions": {"anchor": "2026-01-01T00:00:00Z", "status": "canceled"},
			} {
				records := map[string]any{}
				for i := range 1000 {
					records[fmt.Sprint("old", i)] = record
				}
				state[kind] = records
			}
			state["customers"].(map[string]any)["cus_1"] = map[string]any{"id": "cus_1", "createdAt": "2025-01-01T00:00:00Z"}
			state["subscriptions"].(map[string]any)["sub_1"] = map[string]any{"id": "sub_1", "customer": "cus_1", "status": "active", "anchor": "2025-01-01T00:00:00Z", "price": "price_s"}
			text, _ := json.Marshal(state)
			os.WriteFile(file, text, 0o600)
		})
		st.pay(st.session("cus_1").ID)
		st.portal("cus_1")
		text := must.Do(os.ReadFile(file)).Or(t)
		var kept struct{ Customers, Sessions, Subscriptions, Visits, Answers map[string]json.RawMessage }
		must.NoError(t, json.Unmarshal(text, &kept))
		for kind, records := range map[string]map[string]json.RawMessage{"customers": kept.Customers, "sessions": kept.Sessions, "subscriptions": kept.Subscriptions, "visits": kept.Visits, "answers": kept.Answers} {
			if len(records) != 1000 {
				t.Errorf("%d %s", len(records), kind)
			}
		}
		if kept.Customers["cus_1"] == nil || kept.Subscriptions["sub_1"] == nil {
			t.Error("what is alive was forgotten")
		}
	})
	t.Run("new records are refused while all are in use", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory, func(o *devpay.Options) {
			subscriptions := map[string]any{}
			for i := range 1000 {
				subscriptions[fmt.Sprint("sub", i)] = map[string]any{"status": "active", "customer": "cus_1", "anchor": "2026-01-01T00:00:00Z"}
			}
			text, _ := json.Marshal(map[string]any{
				"key": "sk_dev_1", "customers": map[string]any{"cus_1": map[string]any{"id": "cus_1"}}, "subscriptions": subscriptions,
				"sessions": map[string]any{}, "visits": map[string]any{}, "answers": map[string]any{},
			})
			os.WriteFile(o.StateFile, text, 0o600)
		})
		if p := st.submit(st.session("cus_1").URL, url.Values{"action": {"pay"}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, "no room for more") {
			t.Errorf("answered %s:\n%s", p.Status, p.Text)
		}
		st.service.Expect(t, "")
	})
}
