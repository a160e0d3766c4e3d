package memory_test

import (
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/contract"
	"collab/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func paid(*testing.T) contract.PaymentProvider {
	p := memory.NewPayments(memory.NewClock(start))
	return contract.PaymentProvider{
		Payments: p, Billing: p,
		Pay:  func(c plan.Checkout) error { return must.ErrorOf(p.Pay(c.Session)) },
		Fail: func(subscription string) error { return must.ErrorOf(p.Fail(subscription)) },
	}
}

func TestPayments(t *testing.T) { contract.Payments(t, paid) }

func TestBilling(t *testing.T) { contract.Billing(t, paid) }

func TestACheckoutSessionExpires(t *testing.T) {
	clock := memory.NewClock(start)
	p := memory.NewPayments(clock)
	customer := must.Do(p.Customer(t.Context(), id.Org("o"), "O", "")).Or(t)
	c := must.Do(p.Open(t.Context(), "o", customer, plan.Checkout{Key: "k", Plan: plan.Standard})).Or(t)
	clock.Set(c.ExpiresAt)
	_, payErr := p.Pay(c.Session)
	s, err := p.Session(t.Context(), c.Session)
	if !fault.Is(payErr, fault.Conflict) || err != nil || s.Status != "expired" || p.Expire(t.Context(), c.Session) != nil {
		t.Errorf("%+v, errors %v and %v", s, payErr, err)
	}
	must.Fail(t, must.ErrorOf(p.Pay("cs_unknown")), fault.NotFound) // a page that is not there
}

func TestASubscriptionIsRenewedOrOverWhenItsPeriodEnds(t *testing.T) {
	p, end := memory.NewPayments(memory.NewClock(start)), start.AddDate(0, 1, 0)
	p.Set(plan.Remote{ID: "sub", Status: plan.RemoteStatusPastDue, Plan: plan.Standard, PeriodStart: &start, PeriodEnd: &end})
	r, err := p.Renew("sub")
	if err != nil || r.Status != plan.RemoteStatusActive || !r.PeriodStart.Equal(end) || !r.PeriodEnd.Equal(end.AddDate(0, 1, 0)) {
		t.Errorf("renewed: %+v, %v", r, err)
	}
	must.NoError(t, p.Cancel(t.Context(), "sub", false))
	for range 2 {
		if r, err := p.Renew("sub"); err != nil || r.Status != plan.RemoteStatusCanceled {
			t.Errorf("over: %+v, %v", r, err)
		}
	}
	must.Fail(t, must.ErrorOf(p.Fail("sub")), fault.Conflict) // a payment after the end
	p.Forget("sub")
	must.Fail(t, must.ErrorOf(p.Subscription(t.Context(), "sub")), fault.NotFound) // forgotten
}
