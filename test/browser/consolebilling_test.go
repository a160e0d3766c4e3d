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
	b.shown(`//main//*[contains(text(), "No plan")]`, `//main//*[contains(text(), "Not subscribed")]`)

	// The portal opens after the first checkout.
	b.enterOn("Open the portal")
	b.shown(`//*[@role="alert" and contains(., "The portal opens after the first checkout")]` + requestID)

	// The trial, with the keyboard alone.
	b.tabTo("Start the trial of 14 days…")
	b.key(kb.Enter)
	b.shown(`//dialog//h2[.="Trial of Standard"]`, `//dialog//td[.="2,000,000"]`)
	b.tabTo("Start the trial")
	b.key(kb.Enter)
	b.shown(`//*[@data-status="TRIALING" and .="Trial"]`)
	b.shown(`//main//*[contains(., "14 days left")]`)

	// A checkout whose page the browser keeps from opening. Nothing changes before the payment.
	waiting := `//*[@role="status" and contains(., "Waiting for the payment of Premium")]`
	b.do(chromedp.Reload())
	b.inConsole("Billing")
	b.scripted(button("Buy Premium…"))
	b.shown(`//dialog//td[.="unlimited"]`)
	b.scripted(button("Go to the payment page"))
	b.shown(waiting+`[contains(., "kept the window from opening")]`, `//*[@data-status="TRIALING"]`, `//a[.="Open the payment page"]`)
	b.enterOn("I have not paid: stop waiting")
	b.do(chromedp.WaitNotPresent(waiting))

	// One that is cancelled on the page of the provider, closed, opened again, and paid.
	b.enterOn("Buy Premium…")
	b.shown(`//dialog`)
	checkout := b.window(func() { b.enterOn("Go to the payment page") })
	b.shown(waiting)
	checkout.press("Cancel")
	checkout.says("Checkout cancelled", "Nothing was charged")
	b.shown(waiting, `//*[@data-status="TRIALING"]`)
	checkout.close()
	b.shown(waiting + `[contains(., "seems to be closed")]`)
	checkout = b.window(func() { b.click(`//a[.="Open the payment page again"]`) })
	checkout.press("Pay")
	checkout.do(chromedp.Click(`//a[.="See the plan"]`))
	checkout.inConsole("Billing")
	for _, shows := range []*tab{b, checkout} {
		shows.shown(`//*[@data-status="ACTIVE" and .="Active"]`, `//li[@aria-label="Premium" and @data-current="true"]`)
	}
	b.do(chromedp.WaitNotPresent(waiting))

	// The portal, closed without a change, and opened again.
	b.bringToFront()
	b.window(func() { b.enterOn("Open the portal") }).close()
	b.shown(`//*[@data-status="ACTIVE"]`)
	portal := b.window(func() { b.click(button("Open the portal")) })
	portal.press("Payment fails")
	b.bringToFront()
	b.shown(`//main//*[contains(text(), "The last payment has failed")]`)
	portal.bringToFront()
	portal.press("Payment succeeds")
	b.bringToFront()
	b.shown(`//*[@data-status="ACTIVE"]`)

	// A downgrade to less than what is used, which waits for the end of the period.
	s.signedIn("charles@collab.example", "Analytical Engines", "member")
	b.do(chromedp.Navigate(s.base + "/console/billing"))
	b.enterOn("Change to Free…")
	b.shown(`//dialog//p[contains(., "You use more than Free has")]`, `//dialog//li[contains(., "all members stay")]`)
	b.enterOn("Change to Free")
	b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
	b.shown(`//*[contains(., "Premium ends on")]`)
	b.do(chromedp.WaitNotPresent(button("Change to Free…")))

	// A conflict: the change was made elsewhere meanwhile.
	b.do(chromedp.Click(button("Change to Standard…")))
	s.grant(as, "ENTERPRISE")
	b.do(chromedp.Click(button("Change to Standard and pay")))
	b.shown(`//*[@role="alert" and contains(., "The subscription is managed outside the payment provider")]`)
	b.do(chromedp.Click(button("Load the plan again")))
	b.shown(`//p[contains(., "The operator of this server has set the plan")]`)
	b.do(chromedp.WaitNotPresent(button("Buy Premium…")))

	t.Run("members see the plan and cannot change it", func(t *testing.T) {
		b := openPage(t, s, "Charles", "/console/billing", "Billing")
		b.shown(`//main//*[contains(text(), "Owners and admins of the organisation can change the plan.")]`, `//main//*[contains(text(), "Enterprise")]`)
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
		b.shown(`//main//*[contains(text(), "The last payment has failed")]`)
		b.axe("billing")
		b.do(chromedp.Click(button("Change to Free…")))
		b.shown(`//dialog//table`)
		b.axe("billing-change")
	})
}
