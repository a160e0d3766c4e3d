//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/must"
)

func TestConnectorsPage(t *testing.T) {
	s, as := startOwned(t)

	t.Run("the catalog is searched, and a local provider shows its command", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors?category=local", "Connectors")
		b.waitVisible(`//main//*[contains(text(), "Nothing is connected yet")]`)
		b.do(chromedp.WaitNotPresent(`//*[@data-provider="linear"]`))
		b.do(chromedp.SendKeys(`//input[@type="search"]`, "files"))
		b.eventually("?category=local&q=files", func() string { return read(b, chromedp.Evaluate[string](`location.search`)) })
		b.click(`//*[@data-provider="filesystem"]//a`)
		b.waitVisible(`//dialog//code[.="npx -y @modelcontextprotocol/server-filesystem"]`)
		b.click(`//dialog//button[.="Connect"]`)
		b.waitVisible(`//dialog//*[@data-status="CONNECTED"]`)
		b.checkProblems(s.base, icon)
	})
	t.Run("with the keyboard alone a key is stored, read and replaced, and the connector deleted", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors?connect=brave-search", "Connectors")
		b.waitVisible(`//dialog//input[@type="password" and @autocomplete="off"]`)
		b.keyOn(`//dialog//input[not(@type)]`, "Search", kb.Tab, "first-secret", kb.Enter)
		b.waitVisible(`//dialog//h2[.="Search"]`)
		if kept := read(b, chromedp.Evaluate[string](`JSON.stringify({ ...sessionStorage, ...localStorage })`)); strings.Contains(kept, "secret") {
			t.Errorf("the browser keeps %s", kept)
		}
		b.do(chromedp.WaitNotPresent(`//dialog//*[contains(., "first-secret")]`))
		b.tabTo("Replace the credentials")
		b.key(kb.Enter)
		b.keyOn(`//dialog//input[@type="password"]`, "second-secret", kb.Enter)
		b.do(chromedp.WaitNotPresent(`//dialog//input[@type="password"]`))
		b.tabTo("Read the credentials")
		b.key(kb.Enter)
		b.waitVisible(`//dialog//code[.="second-secret"]`)
		if log := string(s.call("GET", "/org/audit", as, nil, http.StatusOK)); strings.Count(log, "connector.credentials_read") != 1 {
			t.Errorf("the audit log is %s", log)
		}
		b.enterOn("Hide now")
		b.do(chromedp.WaitNotPresent(`//code[.="second-secret"]`))
		b.tabTo("Delete…")
		b.key(kb.Enter)
		b.waitVisible(`//h2[.="Delete Search?"]`)
		b.tabTo("Delete the connector")
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		b.do(chromedp.WaitNotPresent(`//*[@class="rows"]//b[.="Search"]`))
		b.checkProblems(s.base, icon)
	})
	t.Run("a 503 midway keeps what was typed, and the next attempt uses what the first has made", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/connectors", "Connectors")
		b.busyOnce("/credentials")
		b.do(chromedp.Navigate(s.base + "/console/connectors?connect=postgres"))
		b.do(chromedp.SendKeys(`//dialog//input[@type="password"]`, "postgres://localhost"), chromedp.Click(`//dialog//button[.="Connect"]`))
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "its credentials were not stored yet") and contains(., "request-1")]`)
		b.click(button("Try again"))
		b.waitVisible(`//dialog//*[@data-status="CONNECTED"]`)
		if all := string(s.call("GET", "/connectors", as, nil, http.StatusOK)); strings.Count(all, `"serverId":"postgres"`) != 1 {
			t.Errorf("there are the connectors %s", all)
		}
		b.checkProblems(s.base, icon)
	})
	t.Run("a viewer sees connectors and cannot change them", func(t *testing.T) {
		s.signIn("vera@collab.example", "Analytical Engines", "viewer")
		b := openPage(t, s, "Vera", "/console/connectors", "Connectors")
		b.waitVisible(`//main//*[contains(., "As a viewer you see them")]`)
		b.do(chromedp.WaitNotPresent(`//a[.="Connect"]`), chromedp.Click(`//*[@class="rows"]//a`))
		b.waitVisible(`//dialog//dt[.="Last used"]`)
		b.do(chromedp.WaitNotPresent(button("Delete…")), chromedp.WaitNotPresent(button("Read the credentials")))
	})
	t.Run("every screen is accessible", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/connectors", "Connectors")
		b.axe("connectors")
		b.do(chromedp.Navigate(s.base + "/console/connectors?connect=brave-search"))
		b.waitVisible(`//dialog//input[@type="password"]`)
		b.axe("connect")
		b.load(s.base+"/console/connectors", "Connectors")
		b.click(`//*[@class="rows"]//a`)
		b.waitVisible(`//dialog//dt[.="Last used"]`)
		b.axe("connector")
		b.click(button("Delete…"))
		b.waitVisible(button("Delete the connector"))
		b.axe("delete")
		made := decode[struct{ ID string }](t, s.call("POST", "/connectors", as, map[string]any{"providerId": "brave-search"}, http.StatusCreated)).ID
		s.call("POST", "/connectors/"+made+"/credentials", as, map[string]any{"credentials": map[string]string{"apiKey": "secret"}}, http.StatusOK)
		b.do(chromedp.Navigate(s.base + "/console/connectors?instance=" + made))
		b.enterOn("Replace the credentials")
		b.enterOn("Read the credentials")
		b.waitVisible(`//dialog//input[@type="password"]`, `//dialog//code[.="secret"]`)
		b.axe("credentials")
	})
}

// windows returns the ids of the browser's tabs.
func (b *tab) windows() (ids []target.ID) {
	b.t.Helper()
	all, err := chromedp.Targets(b)
	if err != nil {
		b.fail(err)
	}
	for _, i := range all {
		if i.Type == "page" {
			ids = append(ids, i.TargetID)
		}
	}
	return ids
}

// window calls open, and returns the tab of the window that it opens.
func (b *tab) window(open func()) *tab {
	b.t.Helper()
	before := b.windows()
	open()
	var opened []target.ID
	b.eventually("1", func() string {
		opened = slices.DeleteFunc(b.windows(), func(id target.ID) bool { return slices.Contains(before, id) })
		return fmt.Sprint(len(opened))
	})
	context, closeTab := chromedp.NewContext(b, chromedp.WithTargetID(opened[0]))
	b.t.Cleanup(closeTab)
	w := &tab{Context: context, t: b.t}
	w.waitVisible(`//h1`)
	return w
}

// close closes the tab like its user.
func (b *tab) close() {
	b.t.Helper()
	must.NoError(b.t, chromedp.Cancel(b.Context))
}

// bringToFront activates the tab in its window.
func (b *tab) bringToFront() {
	b.t.Helper()
	call(b, page.BringToFront, cdp.Empty{})
}

// waitClosed waits until a window is closed.
func (b *tab) waitClosed(w *tab) {
	b.t.Helper()
	b.eventually("false", func() string {
		return fmt.Sprint(slices.Contains(b.windows(), chromedp.FromContext(w).Target.TargetID))
	})
}

// clickByScript clicks an element by a script, so that the browser blocks windows that it opens.
func (b *tab) clickByScript(path string) {
	b.t.Helper()
	b.waitVisible(path)
	b.run(fmt.Sprintf(`document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue.click()`, path))
}

func TestConnectorsPageSignsIn(t *testing.T) {
	w := newConnectorServer(t, "Notes", direct)
	b := openWithoutPolicy(t)
	b.enterPage(w.server, "Ada", "/console/connectors?connect=notes", "Connectors")
	const waiting = `//dialog//*[@role="status" and contains(., "Waiting for the sign-in at Notes")]`
	const declined = `//dialog//*[@role="alert" and contains(., "Notes is not connected") and contains(., "The authorization was declined")]` + requestID
	var last *tab

	t.Run("what is cancelled before the provider is asked is said, and can be begun again", func(t *testing.T) {
		b.t = t
		last = b.window(func() { b.enterOn("Sign in at Notes") })
		b.waitVisible(waiting)
		last.press("Cancel")
		last.checkText("Nothing was connected")
		b.waitVisible(declined)
	})
	t.Run("so is what is declined at the provider, and one window is open at a time", func(t *testing.T) {
		b.t = t
		b.bringToFront()
		next := b.window(func() { b.enterOn("Sign in again") })
		b.waitVisible(waiting)
		b.waitClosed(last)
		next.press(w.continueLabel())
		next.press("Deny")
		next.checkText("The authorization was declined")
		b.waitVisible(declined)
		next.close()
	})
	t.Run("a window that is closed is noticed, and can be opened again", func(t *testing.T) {
		b.t = t
		b.window(func() { b.click(button("Sign in again")) }).close()
		b.waitVisible(`//dialog//*[@role="status" and contains(., "The window seems to be closed")]`)
		next := b.window(func() { b.click(button("Open it again")) })
		b.waitVisible(waiting)
		next.press(w.continueLabel())
		next.click(button("Allow"))
		b.waitVisible(`//dialog//h2[.="Notes"]`, `//dialog//*[@data-status="CONNECTED"]`, `//dialog//code[.="echo"]`)
		b.waitClosed(next)
	})
	t.Run("where the browser keeps windows from opening, the address is a link", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.base + "/console/connectors?connect=notes"))
		b.waitConsole("Connectors")
		b.clickByScript(button("Sign in at Notes"))
		b.waitVisible(waiting, `//dialog//p[contains(., "kept the window from opening")]`)
		b.axe("waiting")
		next := b.window(func() { b.enterOn("Open the sign-in") })
		next.press(w.continueLabel())
		next.click(button("Allow"))
		b.waitVisible(`//dialog//h2[.="Notes"]`, `//dialog//*[@data-status="CONNECTED"]`)
	})
}
