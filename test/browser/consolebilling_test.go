//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestBillingPage(t *testing.T) {
	s, as := startOwned(t)
	b := openPage(t, s, "Ada", "/console/billing", "Billing")
	b.waitVisible(`//main//*[contains(text(), "No plan")]`, `//main//*[contains(text(), "Not subscribed")]`)

	// The portal opens after the first checkout.
	b.enterOn("Open the portal")
	b.waitVisible(`//*[@role="alert" and contains(., "The portal opens after the first checkout")]` + requestID)

	// The trial, by keyboard.
	b.tabTo("Start the trial of 14 days…")
	b.key(kb.Enter)
	b.waitVisible(`//dialog//h2[.="Trial of Standard"]`, `//dialog//td[.="2,000,000"]`)
	b.tabTo("Start the trial")
	b.key(kb.Enter)
	b.waitVisible(`//*[@data-status="TRIALING" and .="Trial"]`)
	b.waitVisible(`//main//*[contains(., "14 days left")]`)

	// A checkout whose window the browser blocks. Nothing changes before the payment.
	waiting := `//*[@role="status" and contains(., "Waiting for the payment of Premium")]`
	b.do(chromedp.Reload())
	b.waitConsole("Billing")
	b.clickByScript(button("Buy Premium…"))
	b.waitVisible(`//dialog//td[.="unlimited"]`)
	b.clickByScript(button("Go to the payment page"))
	b.waitVisible(waiting+`[contains(., "kept the window from opening")]`, `//*[@data-status="TRIALING"]`, `//a[.="Open the payment page"]`)
	b.enterOn("I have not paid: stop waiting")
	b.do(chromedp.WaitNotPresent(waiting))

	// A checkout that is cancelled on the provider's page, closed, opened again, and paid.
	b.enterOn("Buy Premium…")
	b.waitVisible(`//dialog`)
	checkout := b.window(func() { b.enterOn("Go to the payment page") })
	b.waitVisible(waiting)
	checkout.press("Cancel")
	checkout.checkText("Checkout cancelled", "Nothing was charged")
	b.waitVisible(waiting, `//*[@data-status="TRIALING"]`)
	checkout.close()
	b.waitVisible(waiting + `[contains(., "seems to be closed")]`)
	checkout = b.window(func() { b.click(`//a[.="Open the payment page again"]`) })
	checkout.press("Pay")
	checkout.do(chromedp.Click(`//a[.="See the plan"]`))
	checkout.waitConsole("Billing")
	for _, shows := range []*tab{b, checkout} {
		shows.waitVisible(`//*[@data-status="ACTIVE" and .="Active"]`, `//li[@aria-label="Premium" and @data-current="true"]`)
	}
	b.do(chromedp.WaitNotPresent(waiting))

	// The portal, closed without a change, and opened again.
	b.bringToFront()
	b.window(func() { b.enterOn("Open the portal") }).close()
	b.waitVisible(`//*[@data-status="ACTIVE"]`)
	portal := b.window(func() { b.click(button("Open the portal")) })
	portal.press("Payment fails")
	b.bringToFront()
	b.waitVisible(`//main//*[contains(text(), "The last payment has failed")]`)
	portal.bringToFront()
	portal.press("Payment succeeds")
	b.bringToFront()
	b.waitVisible(`//*[@data-status="ACTIVE"]`)

	// A downgrade below the usage, which takes effect at the end of the period.
	s.signIn("charles@collab.example", "Analytical Engines", "member")
	b.do(chromedp.Navigate(s.base + "/console/billing"))
	b.enterOn("Change to Free…")
	b.waitVisible(`//dialog//p[contains(., "You use more than Free has")]`, `//dialog//li[contains(., "all members stay")]`)
	b.enterOn("Change to Free")
	b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
	b.waitVisible(`//*[contains(., "Premium ends on")]`)
	b.do(chromedp.WaitNotPresent(button("Change to Free…")))

	// A conflict with a concurrent change.
	b.click(button("Change to Standard…"))
	s.grant(as, "ENTERPRISE")
	b.click(button("Change to Standard and pay"))
	b.waitVisible(`//*[@role="alert" and contains(., "The subscription is managed outside the payment provider")]`)
	b.click(button("Load the plan again"))
	b.waitVisible(`//p[contains(., "The operator of this server has set the plan")]`)
	b.do(chromedp.WaitNotPresent(button("Buy Premium…")))

	t.Run("members see the plan and cannot change it", func(t *testing.T) {
		b := openPage(t, s, "Charles", "/console/billing", "Billing")
		b.waitVisible(`//main//*[contains(text(), "Owners and admins of the organisation can change the plan.")]`, `//main//*[contains(text(), "Enterprise")]`)
		b.do(chromedp.WaitNotPresent(button("Open the portal")))
	})
	t.Run("a payment that failed is warned of, and every screen is accessible", func(t *testing.T) {
		s, as := startOwned(t)
		pay := decode[struct{ URL string }](t, s.call("POST", "/billing/checkout", as, map[string]string{"plan": "PREMIUM"}, http.StatusOK)).URL
		b := openTab(t)
		b.do(chromedp.Navigate(pay))
		b.press("Pay")
		b.do(chromedp.Navigate(decode[struct{ URL string }](t, s.call("POST", "/billing/portal", as, nil, http.StatusOK)).URL))
		b.press("Payment fails")
		b.bypassPolicy()
		b.enterPage(s, "Ada", "/console/billing", "Billing")
		b.waitVisible(`//main//*[contains(text(), "The last payment has failed")]`)
		b.axe("billing")
		b.click(button("Change to Free…"))
		b.waitVisible(`//dialog//table`)
		b.axe("billing-change")
	})
}

// TestPagesOfPayments opens the pages of the development payment provider.
func TestPagesOfPayments(t *testing.T) {
	s, as := startOwned(t)
	b := openTab(t)
	open := func(path string, body any) {
		t.Helper()
		b.do(chromedp.Navigate(decode[struct{ URL string }](t, s.call("POST", "/billing/"+path, as, body, http.StatusOK)).URL), chromedp.WaitVisible(chromedp.CSS("h1")))
		b.checkScreens(path)
	}
	for _, act := range []string{"Cancel", "Pay"} {
		open("checkout", map[string]string{"plan": "PREMIUM"})
		b.enter(act)
		b.checkScreens(act)
	}
	open("portal", nil)
	for _, act := range []string{"Payment fails", "Cancel now"} {
		b.enter(act)
		b.checkScreens(act)
	}
	b.checkProblems(s.base)
}
