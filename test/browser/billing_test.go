//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"collab/test/must"
)

// gate is the response of /billing/status.
type gate struct {
	Allowed, HasActivePlan bool
	Plan, Status           string
}

// subscription is the response of /billing/subscription.
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
	checkStatus := func(want gate) {
		t.Helper()
		must.Is(t, want, decode[gate](t, s.call("GET", "/billing/status", as, nil, http.StatusOK)))
	}
	current := func() subscription {
		t.Helper()
		return decode[subscription](t, s.call("GET", "/billing/subscription", as, nil, http.StatusOK))
	}

	checkStatus(gate{Plan: "NO_PLAN", Status: "CANCELED"})
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	checkStatus(gate{true, true, "STANDARD", "TRIALING"})

	// By keyboard. The page can be opened again after a cancellation.
	b.do(chromedp.Navigate(post("checkout", map[string]string{"plan": "PREMIUM"})), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.checkScreens("checkout")
	b.checkText("Subscribe to PREMIUM", "Analytical Engines")
	b.enter("Cancel")
	b.checkScreens("cancelled")
	b.checkText("Checkout cancelled", "Nothing was charged.", "Back to the application")
	checkStatus(gate{true, true, "STANDARD", "TRIALING"})

	pay := post("checkout", map[string]string{"plan": "PREMIUM"})
	b.do(chromedp.Navigate(pay), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.enter("Pay")
	b.checkScreens("paid")
	b.checkText("You have subscribed to the plan PREMIUM.")
	checkStatus(gate{true, true, "PREMIUM", "ACTIVE"})
	first := current()
	if first.CurrentPeriodEnd == nil || first.CancelAtPeriodEnd || !first.HasPaymentMethod {
		t.Errorf("after the payment there is %+v", first)
	}
	b.do(chromedp.Navigate(pay), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.checkText("Paid")

	b.do(chromedp.Navigate(post("portal", nil)), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.checkScreens("portal")
	b.checkText("PREMIUM", "Active", "it is renewed")
	b.enter("Cancel at period end")
	b.checkText("it ends")
	b.enter("Keep")
	b.checkText("it is renewed")
	b.enter("Payment fails")
	b.checkScreens("portal-past-due")
	b.checkText("Past due")
	checkStatus(gate{true, false, "PREMIUM", "PAST_DUE"})
	b.enter("Payment succeeds")
	b.checkText("Active")
	checkStatus(gate{true, true, "PREMIUM", "ACTIVE"})
	if second := current(); second.CurrentPeriodEnd == nil || *second.CurrentPeriodEnd <= *first.CurrentPeriodEnd {
		t.Errorf("what was paid for ends at %v, and before at %v", second.CurrentPeriodEnd, *first.CurrentPeriodEnd)
	}

	s.call("POST", "/billing/downgrade", as, nil, http.StatusOK)
	b.do(chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.checkText("Active", "it ends")
	if ending := current(); ending.Plan != "PREMIUM" || !ending.CancelAtPeriodEnd {
		t.Errorf("after the downgrade there is %+v", ending)
	}
	b.enter("Next period")
	b.checkScreens("portal-ended")
	b.checkText("Canceled", "Ended")
	checkStatus(gate{true, true, "FREE", "ACTIVE"})
	must.Is(t, (subscription{Plan: "FREE", Status: "ACTIVE"}), current())

	b.do(chromedp.Navigate(post("checkout", map[string]string{"plan": "PREMIUM"})))
	b.enter("Pay")
	b.do(chromedp.Navigate(post("portal", nil)))
	b.enter("Cancel now")
	b.checkText("Canceled")
	checkStatus(gate{true, true, "FREE", "ACTIVE"})
	b.checkProblems(s.base)
}
