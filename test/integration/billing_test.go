package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/stripepay"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

// billingTest is two servers on one database, and the first one's development provider,
// at which both of them have their organisations pay.
type billingTest struct {
	testing.TB
	servers  []*collabd.Server
	database string
	file     string // the provider's file
	client   *http.Client
}

func newBillingTest(t *testing.T) *billingTest {
	p := &billingTest{TB: t, database: collabd.Postgres(t), client: &http.Client{
		// The payment page is not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 50},
	}}
	first := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_STRIPE_WEBHOOK_SECRETS="+collabd.PaymentSecret, "COLLAB_DATABASE_URL="+p.database)
	p.file = filepath.Join(first.Dir, "dev-payments.json")
	second := first.Peer(t,
		"COLLAB_STRIPE_SECRET_KEY="+p.read().Key,
		"COLLAB_STRIPE_API_URL="+first.URL+"/dev/payments",
		"COLLAB_STRIPE_PRICE_STANDARD=price_standard", "COLLAB_STRIPE_PRICE_PREMIUM=price_premium")
	p.servers = []*collabd.Server{first, second}
	return p
}

// providerState is the state of the provider.
type providerState struct {
	Key           string
	Subscriptions map[string]struct {
		ID, Customer, Price, Status string
		Metadata                    map[string]string
	}
}

func (p *billingTest) read() (b providerState) {
	p.Helper()
	text, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	must.NoError(p, err)
	return b
}

// live returns the ids of an organisation's subscriptions that are not over.
func (p *billingTest) live(org string) (ids []string) {
	p.Helper()
	for id, s := range p.read().Subscriptions {
		if s.Metadata["org_id"] == org && s.Status != "canceled" {
			ids = append(ids, id)
		}
	}
	return ids
}

// owner returns the owner of a new organisation.
func (p *billingTest) owner(name string) collabd.Client {
	return p.servers[0].SignIn(p, "owner@"+strings.ReplaceAll(name, " ", "-")+".example.com", name, "owner")
}

// pay sends the form of a payment page.
func (p *billingTest) pay(page string) (status int, err error) {
	response, err := p.client.PostForm(page, url.Values{"action": {"pay"}})
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}

// checkout returns the address of the payment page.
func (p *billingTest) checkout(c collabd.Client, plan string) (status int, to string, err error) {
	status, body, err := c.Do("POST", "/billing/checkout", map[string]string{"plan": plan})
	var response struct{ URL string }
	if err == nil && status == 200 {
		err = json.Unmarshal(body, &response)
	}
	return status, response.URL, err
}

// buy has an organisation subscribe to a plan.
func (p *billingTest) buy(c collabd.Client, plan string) {
	p.Helper()
	status, page, err := p.checkout(c, plan)
	if err != nil || status != 200 {
		p.Fatalf("checkout is %d, %v", status, err)
	}
	if status, err := p.pay(page); err != nil || status != http.StatusSeeOther {
		p.Fatalf("paying is %d, %v", status, err)
	}
	p.shows(c, plan+" ACTIVE")
}

// shows fails unless both servers return the plan and status, from both endpoints.
func (p *billingTest) shows(c collabd.Client, want string) {
	p.Helper()
	for i, s := range p.servers {
		for _, path := range []string{"/billing/status", "/billing/subscription"} {
			var is struct{ Plan, Status string }
			c.At(s).Must(p, 200, "GET", path, nil, &is)
			if got := is.Plan + " " + is.Status; got != want {
				p.Errorf("server %d has %s in %s, want %s", i, got, path, want)
			}
		}
	}
}

// changes returns the subscription's entries of the audit log.
func (p *billingTest) changes(c collabd.Client) (details []string) {
	p.Helper()
	var entries []struct{ Action, Detail string }
	c.Must(p, 200, "GET", "/org/audit", nil, &entries)
	for _, e := range entries {
		if e.Action == "subscription.changed" {
			details = append(details, e.Detail)
		}
	}
	slices.Reverse(details)
	return details
}

// record returns the organisation's subscription as the database has it.
func (p *billingTest) record(c collabd.Client) plan.Subscription {
	p.Helper()
	return must.Do(opened(p, p.database).Directory().Subscriptions().Get(p.Context(), id.Org(c.Org))).Or(p)
}

// hook sends a message of the provider to a server.
func (p *billingTest) hook(s *collabd.Server, body string) (int, []byte, error) {
	r, err := http.NewRequest("POST", s.URL+"/api/v1/billing/webhook", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Stripe-Signature", stripepay.Sign(collabd.PaymentSecret, time.Now(), []byte(body)))
	response, err := p.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

// changed is a message about a subscription.
func changed(message, kind, subscription, customer, org, price, status string) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":{"id":%q,"object":"subscription","status":%q,"customer":%q,
		"metadata":{"org_id":%q},"items":{"data":[{"id":"si_1","quantity":1,"price":{"id":%q}}]},
		"current_period_start":%d,"current_period_end":%d,"cancel_at_period_end":false,"default_payment_method":"pm_1"}}}`,
		message, kind, time.Now().Unix(), subscription, status, customer, org, price, time.Now().Unix(), time.Now().AddDate(0, 1, 0).Unix())
}

func TestFiftyTrialsAtOnceStartOne(t *testing.T) {
	p := newBillingTest(t)
	c := p.owner("Trials")
	statuses := atOnce(t, 50, func(i int) (int, []byte, error) { return c.At(by(p.servers, i)).Do("POST", "/billing/trial", nil) })
	if statuses[200] != 1 || statuses[409] != 49 {
		t.Errorf("statuses %v", statuses)
	}
	p.shows(c, "STANDARD TRIALING")
	if log := p.changes(c); !slices.Equal(log, []string{"NO_PLAN CANCELED -> STANDARD TRIALING"}) {
		t.Errorf("the log has %q", log)
	}
	c.Must(t, 200, "POST", "/billing/downgrade", nil, nil)
	c.Must(t, 409, "POST", "/billing/trial", nil, nil)
	p.shows(c, "FREE ACTIVE")
}

func TestCheckoutsAtOnceMakeOneSubscription(t *testing.T) {
	p := newBillingTest(t)
	both := []string{"STANDARD", "PREMIUM"}
	for _, c := range []struct {
		name  string
		n     int
		plans []string
	}{
		{"two of one plan", 2, both[:1]}, {"two of two plans", 2, both}, {"fifty of one plan", 50, both[:1]}, {"fifty of two plans", 50, both},
	} {
		for when, atOnceToo := range map[string]bool{"afterwards": false, "at once": true} {
			t.Run(c.name+", paid "+when, func(t *testing.T) {
				owner := p.owner(c.name + " " + when)
				var mu sync.Mutex
				pages, statuses := map[string]bool{}, map[int]int{}
				var all sync.WaitGroup
				for i := range c.n {
					all.Go(func() {
						status, to, err := p.checkout(owner.At(by(p.servers, i)), c.plans[i%len(c.plans)])
						mu.Lock()
						defer mu.Unlock()
						statuses[status]++
						must.Succeed(t, err)
						if strings.Contains(to, "/dev/payments/pay/") {
							pages[to] = true
							if atOnceToo {
								all.Go(func() { _, _ = p.pay(to) })
							}
						}
					})
				}
				all.Wait()
				if statuses[200] == 0 || statuses[200]+statuses[409]+statuses[503] != c.n {
					t.Errorf("statuses %v", statuses)
				}
				if len(c.plans) == 1 && !atOnceToo && (statuses[200] != c.n || len(pages) != 1) {
					t.Errorf("statuses %v, %d pages", statuses, len(pages))
				}
				for page := range pages {
					all.Go(func() { _, _ = p.pay(page) })
				}
				all.Wait()
				live := p.live(owner.Org)
				if len(live) > 1 {
					t.Fatalf("%d subscriptions are alive, after %v with %d pages", len(live), statuses, len(pages))
				}
				if len(live) == 0 { // the last page was closed by a request that then gave up
					if len(c.plans) == 1 {
						t.Errorf("nobody could pay, after %v with %d pages", statuses, len(pages))
					}
					p.buy(owner, c.plans[0])
					live = p.live(owner.Org)
				}
				plan := map[string]string{"price_standard": "STANDARD", "price_premium": "PREMIUM"}[p.read().Subscriptions[live[0]].Price]
				p.shows(owner, plan+" ACTIVE")
				t.Logf("statuses %v, %d pages", statuses, len(pages))
			})
		}
	}
}

func TestAPaymentEventIsAppliedOnce(t *testing.T) {
	p := newBillingTest(t)
	c := p.owner("Copies")
	message := changed("evt_copies", "customer.subscription.created", "sub_copies", "cus_copies", c.Org, "price_premium", "active")
	if statuses := atOnce(t, 200, func(i int) (int, []byte, error) { return p.hook(by(p.servers, i), message) }); statuses[200] != 200 {
		t.Errorf("statuses %v", statuses)
	}
	p.shows(c, "PREMIUM ACTIVE")
	if log := p.changes(c); !slices.Equal(log, []string{"NO_PLAN CANCELED -> PREMIUM ACTIVE by the payment provider"}) {
		t.Errorf("the log has %q", log)
	}
	if s := p.record(c); s.Revision != 1 {
		t.Errorf("the record was stored %d times", s.Revision)
	}

	// Many different messages about one subscription may have to come again.
	other := p.owner("Many messages")
	p.buy(other, "STANDARD")
	live := p.live(other.Org)[0]
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			message := changed(fmt.Sprintf("evt_many_%d", i), "customer.subscription.updated", live, "", other.Org, "price_premium", "past_due")
			for {
				status, body, err := p.hook(by(p.servers, i), message)
				if err == nil && status == http.StatusServiceUnavailable {
					continue
				}
				if err != nil || status != 200 {
					t.Errorf("message %d is %d %s, %v", i, status, body, err)
				}
				return
			}
		})
	}
	all.Wait()
	p.shows(other, "STANDARD ACTIVE")
	if log := p.changes(other); len(log) != 1 {
		t.Errorf("the log has %q", log)
	}
}

func TestPaymentEventsSurviveAKilledServer(t *testing.T) {
	race.Skip(t, "what a crash leaves is on the disk")
	p := newBillingTest(t)
	victim := p.servers[1]
	const orgs = 8
	for round := range 4 {
		var owners []collabd.Client
		for i := range orgs {
			owners = append(owners, p.owner(fmt.Sprintf("Killed %d-%d", round, i)))
		}
		message := func(i int) string {
			return changed(fmt.Sprintf("evt_%d_%d", round, i), "customer.subscription.created", fmt.Sprintf("sub_%d_%d", round, i),
				fmt.Sprintf("cus_%d_%d", round, i), owners[i].Org, "price_standard", "active")
		}
		var mu sync.Mutex
		answered := map[int]bool{}
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range orgs {
			all.Go(func() {
				<-begin
				status, _, err := p.hook(victim, message(i))
				mu.Lock()
				defer mu.Unlock()
				answered[i] = err == nil && status == 200
			})
		}
		close(begin)
		<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
		victim.Kill()
		all.Wait()
		must.NoError(t, victim.Restart())
		early := 0
		for i, c := range owners {
			if answered[i] {
				early++
				p.shows(c, "STANDARD ACTIVE")
			}
			if status, body, err := p.hook(by(p.servers, i), message(i)); err != nil || status != 200 {
				t.Errorf("again it is %d %s, %v", status, body, err)
			}
			p.shows(c, "STANDARD ACTIVE")
			if log := p.changes(c); len(log) != 1 {
				t.Errorf("the log has %q", log)
			}
		}
		t.Logf("round %d: %d of %d were answered before the end", round, early, orgs)
	}
}
