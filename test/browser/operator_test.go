//go:build browser

package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

// enterOperator signs an operator in on a page for operators.
func (b *tab) enterOperator(s *server, address, heading string) {
	b.t.Helper()
	b.load(s.base+address, "Operator")
	b.do(chromedp.Focus(chromedp.CSS(`input[type="password"]`)))
	b.key(collabd.AdminSecret, kb.Enter)
	b.waitConsole(heading)
}

// endOperatorSession removes the cookies, as the browser does at the end of the session.
func (b *tab) endOperatorSession() {
	b.t.Helper()
	call(b, network.ClearBrowserCookies, cdp.Empty{})
}

func TestOperatorPage(t *testing.T) {
	s := startServer(t)
	b := openTab(t)
	b.resize(1280, 800, "light")
	b.bypassPolicy()
	b.load(s.base+"/console/operator", "Operator")
	field := chromedp.CSS(`input[type="password"]`)
	b.do(chromedp.WaitVisible(field))
	b.axe("operator-sign-in")

	b.do(chromedp.Focus(field))
	b.key("another secret", kb.Enter)
	b.waitVisible(`//form//*[@role="alert" and contains(., "not the operator")]`)
	must.Is(t, "another secret", read(b, chromedp.Value(field)))
	read(b, chromedp.Evaluate[int](`document.querySelector("input").select(), 0`))
	b.key(collabd.AdminSecret, kb.Enter)
	b.waitConsole("Setup")
	b.waitVisible(`//h2[starts-with(., "1. Do what remains")]`)
	must.Is(t, s.base+"/console/operator/setup", read(b, chromedp.Location()))
	b.click(`//nav/a[.="Health"]`)
	b.waitConsole("Health of one server")
	b.waitVisible(`//span[@class="badge" and .="Ready"]`, `//h2[.="Requests by minute"]`, `//h2[.="Budgets of memory"]`, `(//span[@class="key" and normalize-space()="Unknown"])[1]`)
	b.checkText("Signed in until", "the server that answered")
	b.axe("operator-health")
	b.do(chromedp.Click(`(//summary)[1]`), chromedp.WaitVisible(`(//a[@download="requests.csv"])[1]`), chromedp.WaitVisible(`(//th[.="Minute (UTC)"])[1]`))

	b.do(chromedp.Reload())
	b.waitConsole("Health of one server")
	b.endOperatorSession()
	b.click(button("Refresh"))
	b.waitVisible(`//dialog[.//h2[.="Your operator’s session has ended"]]`)
	b.key(collabd.AdminSecret, kb.Enter)
	b.do(chromedp.WaitNotPresent(`//dialog`), chromedp.WaitNotPresent(`//*[@role="alert"]`))
	b.waitConsole("Health of one server")
	b.click(button("Sign out"))
	b.waitConsole("Operator")
	b.do(chromedp.WaitVisible(field), chromedp.Reload())
	b.waitConsole("Operator")
	b.do(chromedp.WaitVisible(field))

	// A development server always has findings.
	b.runInNewPages(`{
		const real = fetch
		window.fetch = (address, init) => String(address).endsWith("/admin/doctor")
			? Promise.resolve(Response.json({ ok: true, checks: [{ check: "database", verdict: "ok", message: "answers", remedy: "", variables: [] }] }))
			: real(address, init)
	}`)
	b.enterOperator(s, "/console/operator", "Health of one server")
	b.click(`//nav/a[.="Setup"]`)
	b.waitConsole("Setup")
	b.checkText("Everything is set up.", "1 of 1 checks are done.")
}

func TestOperatorsSetup(t *testing.T) {
	// Nothing listens at the collector's address.
	s := startServer(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9/")
	b := openTab(t)
	b.resize(1280, 800, "light")
	b.bypassPolicy()
	b.busyOnce("/admin/doctor")
	b.enterOperator(s, "/console/operator/setup", "Setup")
	b.waitVisible(`//*[@role="alert" and contains(., "Loading the findings failed") and contains(., "request-1")]`)
	b.click(button("Try again"))
	group := func(name, rest string) string { return `//section[starts-with(h2, "` + name + `")]` + rest }
	b.waitVisible(group("1. Repair what is broken", `//div[dt="Traces"]//p[contains(., "refused")]`), group("2. Do what remains", `//div[dt="Production" and contains(., "COLLAB_IDENTITY_ISSUER: OpenID Connect issuer")]`))
	b.waitVisible(group("2. Do what remains", `//div[dt="Production"]//p[contains(., "COLLAB_DATABASE_URL must be set in production")]`))
	b.checkText("One thing must be repaired", "checks are done", "1 left")
	b.tabTo("Check again")
	b.click(`//summary`)
	b.waitVisible(group("In order", `//div[dt="Database" and contains(., "SQLite")]`))
	b.axe("setup")

	b.endOperatorSession()
	b.keyOn(button("Check again"), kb.Enter)
	b.waitVisible(`//h2[.="Your operator’s session has ended"]`, `//*[@role="alert" and contains(., "Checking again failed")]`)
	b.key(collabd.AdminSecret, kb.Enter)
	b.do(chromedp.WaitNotPresent(`//dialog`), chromedp.WaitNotPresent(`//*[@role="alert"]`))
	b.waitVisible(group("1. Repair what is broken", `//div[dt="Traces"]`), `//details[@open]`)
	if text := b.text(); strings.Contains(text, collabd.AdminSecret) {
		t.Error("the page shows the secret")
	}
}
