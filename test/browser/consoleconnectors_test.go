//go:build browser

package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestConnectorsPage(t *testing.T) {
	s, as := startOwned(t)

	t.Run("the catalog is searched, and a local provider shows its command", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors?category=local", "Connectors")
		b.shown(`//main//*[contains(text(), "Nothing is connected yet")]`)
		b.do(chromedp.WaitNotPresent(`//*[@data-provider="linear"]`))
		b.do(chromedp.SendKeys(`//input[@type="search"]`, "files"))
		b.eventually("?category=local&q=files", func() string { return read(b, chromedp.Evaluate[string](`location.search`)) })
		b.do(chromedp.Click(`//*[@data-provider="filesystem"]//a`))
		b.shown(`//dialog//code[.="npx -y @modelcontextprotocol/server-filesystem"]`)
		b.do(chromedp.Click(`//dialog//button[.="Connect"]`))
		b.shown(`//dialog//*[@data-status="CONNECTED"]`)
		b.clean(s.base, icon)
	})
	t.Run("with the keyboard alone a key is stored, read and replaced, and the connector deleted", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors?connect=brave-search", "Connectors")
		b.shown(`//dialog//input[@type="password" and @autocomplete="off"]`)
		b.do(chromedp.Focus(`//dialog//input[not(@type)]`))
		b.key("Search", kb.Tab, "first-secret", kb.Enter)
		b.shown(`//dialog//h2[.="Search"]`)
		if kept := read(b, chromedp.Evaluate[string](`JSON.stringify({ ...sessionStorage, ...localStorage })`)); strings.Contains(kept, "secret") {
			t.Errorf("the browser keeps %s", kept)
		}
		b.do(chromedp.WaitNotPresent(`//dialog//*[contains(., "first-secret")]`))
		b.tabTo("Replace the credentials")
		b.key(kb.Enter)
		b.do(chromedp.Focus(`//dialog//input[@type="password"]`))
		b.key("second-secret", kb.Enter)
		b.do(chromedp.WaitNotPresent(`//dialog//input[@type="password"]`))
		b.tabTo("Read the credentials")
		b.key(kb.Enter)
		b.shown(`//dialog//code[.="second-secret"]`)
		if log := string(s.call("GET", "/org/audit", as, nil, http.StatusOK)); strings.Count(log, "connector.credentials_read") != 1 {
			t.Errorf("the audit log is %s", log)
		}
		b.do(chromedp.Click(button("Hide now")), chromedp.WaitNotPresent(`//code[.="second-secret"]`))
		b.tabTo("Delete…")
		b.key(kb.Enter)
		b.shown(`//h2[.="Delete Search?"]`)
		b.tabTo("Delete the connector")
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		b.do(chromedp.WaitNotPresent(`//*[@class="rows"]//b[.="Search"]`))
		b.clean(s.base, icon)
	})
	t.Run("a 503 midway keeps what was typed, and the next attempt uses what the first has made", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors", "Connectors")
		b.busyOnce("/credentials")
		b.do(chromedp.Navigate(s.base + "/console/connectors?connect=postgres"))
		b.do(chromedp.SendKeys(`//dialog//input[@type="password"]`, "postgres://localhost"), chromedp.Click(`//dialog//button[.="Connect"]`))
		b.shown(`//dialog//*[@role="alert" and contains(., "its credentials were not stored yet") and contains(., "request-1")]`)
		b.do(chromedp.Click(button("Try again")))
		b.shown(`//dialog//*[@data-status="CONNECTED"]`)
		if all := string(s.call("GET", "/connectors", as, nil, http.StatusOK)); strings.Count(all, `"serverId":"postgres"`) != 1 {
			t.Errorf("there are the connectors %s", all)
		}
		b.clean(s.base, icon)
	})
	t.Run("a viewer sees connectors and cannot change them", func(t *testing.T) {
		s.signedIn("vera@collab.example", "Analytical Engines", "viewer")
		b := openPage(t, s, "Vera", "/console/connectors", "Connectors")
		b.shown(`//main//*[contains(., "As a viewer you see them")]`)
		b.do(chromedp.WaitNotPresent(`//a[.="Connect"]`), chromedp.Click(`//*[@class="rows"]//a`))
		b.shown(`//dialog//dt[.="Last used"]`)
		b.do(chromedp.WaitNotPresent(button("Delete…")), chromedp.WaitNotPresent(button("Read the credentials")))
	})
	t.Run("every screen is accessible", func(t *testing.T) {
		b := openTab(t)
		b.bypassPolicy()
		b.enterPage(s, "Ada", "/console/connectors", "Connectors")
		b.axe("connectors")
		b.do(chromedp.Navigate(s.base + "/console/connectors?connect=brave-search"))
		b.shown(`//dialog//input[@type="password"]`)
		b.axe("connect")
		b.do(chromedp.Navigate(s.base + "/console/connectors"))
		b.inConsole("Connectors")
		b.do(chromedp.Click(`//*[@class="rows"]//a`))
		b.shown(`//dialog//dt[.="Last used"]`)
		b.axe("connector")
		b.do(chromedp.Click(button("Delete…")))
		b.shown(button("Delete the connector"))
		b.axe("delete")
	})
}

func TestConnectorsPageSignsIn(t *testing.T) {
	w := newConnectorServer(t, "Notes", direct)
	b := openPage(t, w.server, "Ada", "/console/connectors?connect=notes", "Connectors")
	other := b.beside()
	// The browser keeps windows from opening; the address is then a link.
	if !read(b, chromedp.Evaluate[bool](`window.open = () => null; true`)) {
		t.Fatal("windows cannot be kept from opening")
	}
	const link = `//dialog//a[.="Open the sign-in"]`
	b.do(chromedp.Click(button("Sign in at Notes")))
	b.shown(link, `//dialog//*[@role="status" and contains(., "Waiting for the sign-in at Notes")]`)
	b.do(chromedp.Click(`//dialog//button[.="Cancel"]`), chromedp.WaitNotPresent(link), chromedp.Click(button("Sign in at Notes")))
	b.shown(link)
	address := read(b, chromedp.Evaluate[string](`[...document.querySelectorAll("dialog a")].find((a) => a.textContent === "Open the sign-in").href`))
	other.leads(http.StatusOK, chromedp.Navigate(address))
	other.leads(http.StatusOK, chromedp.Click(button(w.continueLabel())))
	other.leads(http.StatusOK, chromedp.Click(button("Allow")))
	b.shown(`//dialog//h2[.="Notes"]`, `//dialog//*[@data-status="CONNECTED"]`, `//dialog//code[.="echo"]`)
}
