package devpay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/devpay"
	"collab/adapters/stripepay"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/must"
)

func TestTheServiceReadsTheEvents(t *testing.T) {
	var mu sync.Mutex
	var read []plan.Event
	const secret = "whsec_test"
	const org = id.Org("0198c5a0-0000-7000-8000-000000000001")
	st := newFixture(t, t.TempDir(), func(o *devpay.Options) {
		events := stripepay.NewEvents([]string{secret}, map[plan.Plan][]string{plan.Standard: {"price_s"}, plan.Premium: {"price_p"}}, o.Clock)
		o.Emit = func(_ context.Context, _ string, body []byte) error {
			signature := stripepay.Sign(secret, o.Clock.Now(), body)
			e, err := events.Read(func(name string) string {
				return map[string]string{"Stripe-Signature": signature}[name]
			}, body)
			must.Succeed(t, err)
			mu.Lock()
			defer mu.Unlock()
			read = append(read, e)
			return nil
		}
	})
	o := order(st.customer("Engines"), "price_s")
	o.ClientReferenceID = new(string(org))
	o.Metadata["org_id"], o.SubscriptionData.Metadata["org_id"] = string(org), string(org)
	s, err := st.sessions().New(o)
	must.NoError(t, err)
	st.pay(s.ID)
	s = must.Do(st.sessions().Get(s.ID, nil)).Or(t)
	for _, a := range []devpay.Action{devpay.Fail, devpay.Succeed, devpay.Schedule, devpay.NextPeriod} {
		st.act(s.Subscription.ID, a)
	}
	var got []string
	for _, e := range read {
		if e.Org != org || e.Subscription != s.Subscription.ID || e.Unpaid || e.Customer != s.Customer.ID || e.At != st.clock.Now() {
			t.Errorf("%+v", e)
		}
		line := e.Type
		if r := e.Snapshot; r != nil {
			line += fmt.Sprintf(": %s %s until %s", r.Plan, r.Status, r.PeriodEnd.UTC().Format(time.DateOnly))
			if r.CancelAtPeriodEnd {
				line += ", and not longer"
			}
		}
		if e.PeriodEnd != nil {
			line += " until " + e.PeriodEnd.UTC().Format(time.DateOnly)
		}
		got = append(got, line)
	}
	const want = `checkout.session.completed
customer.subscription.created: STANDARD incomplete until 2026-02-28
customer.subscription.updated: STANDARD active until 2026-02-28
invoice.paid until 2026-02-28
invoice.payment_failed
customer.subscription.updated: STANDARD past_due until 2026-03-31
invoice.paid until 2026-03-31
customer.subscription.updated: STANDARD active until 2026-03-31
customer.subscription.updated: STANDARD active until 2026-03-31, and not longer
customer.subscription.deleted: STANDARD canceled until 2026-03-31, and not longer`
	must.Is(t, want, strings.Join(got, "\n"))
}
