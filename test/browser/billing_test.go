//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"collab/test/must"
)

// gate is what /billing/status answers.
type gate struct {
	Allowed, HasActivePlan bool
	Plan, Status           string
}

// subscription is what /billing/subscription answers.
type subscription struct {
	Plan, Status      string
	CurrentPeriodEnd  *string
	CancelAtPeriodEnd bool
	HasPaymentMethod  bool
}

func TestBilling(t *testing.T) {
	s, as := startOwned(t)
	b := openTab(t)
	post := func(path string, body any) string {
		t.Helper()
		return decode[struct{ URL string }](t, s.call("POST", "/billing/"+path, as, body, http.StatusOK)).URL
	}
	stands := func(want gate) {
		t.Helper()
		must.Is(t, want, decode[gate](t, s.call("GET", "/billing/status", as, nil, http.StatusOK)))
	}
	has := func() subscription {
		t.Helper()
		return decode[subscription](t, s.call("GET", "/billing/subscription", as, nil, http.StatusOK))
	}

	stands(gate{Plan: "NO_PLAN", Status: "CANCELED"})
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	stands(gate{true, true, "STANDARD", "TRIALING"})

	// All by the keyboard. A user who cancels may open the page again.
	b.do(chromedp.Navigate(post("checkout", map[string]string{"plan": "PREMIUM"})), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.everywhere("checkout")
	b.says("Subscribe to PREMIUM", "Analytical Engines")
	b.enter("Cancel")
	b.everywhere("cancelled")
	b.says("Checkout cancelled", "Nothing was charged.", "Back to the application")
	stands(gate{true, true, "STANDARD", "TRIALING"})

	pay := post("checkout", map[string]string{"plan": "PREMIUM"})
	b.do(chromedp.Navigate(pay), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.enter("Pay")
	b.everywhere("paid")
	b.says("You have subscribed to the plan PREMIUM.")
	stands(gate{true, true, "PREMIUM", "ACTIVE"})
	first := has()
	if first.CurrentPeriodEnd == nil || first.CancelAtPeriodEnd || !first.HasPaymentMethod {
		t.Errorf("after the payment there is %+v", first)
	}
	b.do(chromedp.Navigate(pay), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.says("Paid")

	b.do(chromedp.Navigate(post("portal", nil)), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.everywhere("portal")
	b.says("PREMIUM", "Active", "it is renewed")
	b.enter("Cancel at period end")
	b.says("it ends")
	b.enter("Keep")
	b.says("it is renewed")
	b.enter("Payment fails")
	b.everywhere("portal-past-due")
	b.says("Past due")
	stands(gate{true, false, "PREMIUM", "PAST_DUE"})
	b.enter("Payment succeeds")
	b.says("Active")
	stands(gate{true, true, "PREMIUM", "ACTIVE"})
	if second := has(); second.CurrentPeriodEnd == nil || *second.CurrentPeriodEnd <= *first.CurrentPeriodEnd {
		t.Errorf("what was paid for ends at %v, and before at %v", second.CurrentPeriodEnd, *first.CurrentPeriodEnd)
	}

	s.call("POST", "/billing/downgrade", as, nil, http.StatusOK)
	b.do(chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.says("Active", "it ends")
	if ending := has(); ending.Plan != "PREMIUM" || !ending.CancelAtPeriodEnd {
		t.Errorf("after the downgrade there is %+v", ending)
	}
	b.enter("Next period")
	b.everywhere("portal-ended")
	b.says("Canceled", "Ended")
	stands(gate{true, true, "FREE", "ACTIVE"})
	must.Is(t, (subscription{Plan: "FREE", Status: "ACTIVE"}), has())

	b.do(chromedp.Navigate(post("checkout", map[string]string{"plan": "PREMIUM"})))
	b.enter("Pay")
	b.do(chromedp.Navigate(post("portal", nil)))
	b.enter("Cancel now")
	b.says("Canceled")
	stands(gate{true, true, "FREE", "ACTIVE"})
	b.clean(s.base)
}
