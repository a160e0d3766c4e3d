//go:build browser

package browser

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/chromium"
	"collab/test/forms"
	"collab/test/must"
	"collab/test/nodejs"
)

// axeScreens are the screens on which accessibility is checked.
var axeScreens = []struct {
	width   int64
	colours string
}{{1280, "light"}, {1280, "dark"}, {320, "light"}, {320, "dark"}}

// waitConsole waits until a page of the console with the heading is loaded.
func (b *tab) waitConsole(heading string) {
	b.t.Helper()
	b.waitVisible(fmt.Sprintf(`//h1[normalize-space()=%q]`, heading))
	b.do(chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"]`)))
}

// load opens a page of the console at an address, and waits until it is loaded.
func (b *tab) load(address, heading string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
	b.waitConsole(heading)
}

// waitVisible waits until elements are visible.
func (b *tab) waitVisible(paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		b.do(chromedp.WaitVisible(path))
	}
}

// scrollToBottom scrolls to the end of the page, and waits until the rest is loaded.
func (b *tab) scrollToBottom() {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(`//main/section[last()]`), chromedp.WaitNotPresent(chromedp.CSS(`.placeholder, [aria-busy="true"]`)))
}

// key presses keys, one after the other.
func (b *tab) key(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.chord(k, 0)
	}
}

// chord presses a key with modifiers. The typed text is a part of the keydown event, as in a browser, so that a page
// can prevent it.
func (b *tab) chord(key string, with chromedp.Modifier) {
	b.t.Helper()
	for _, r := range key {
		events := kb.Encode(r)
		down, up := events[0], events[len(events)-1]
		down.Modifiers |= int64(with)
		up.Modifiers |= int64(with)
		if len(events) == 3 && with&^chromedp.ModifierShift == 0 {
			down.Text = events[1].Text
		}
		for _, event := range []*input.DispatchKeyEventParams{down, up} {
			call(b, input.DispatchKeyEvent, *event)
		}
	}
}

// keyOn focuses the element of a path, and presses keys.
func (b *tab) keyOn(path string, keys ...string) {
	b.t.Helper()
	b.do(chromedp.Focus(path))
	b.key(keys...)
}

// tabTo presses Tab until the focused element has the text.
func (b *tab) tabTo(text string) {
	b.t.Helper()
	b.keyTo(kb.Tab, text)
}

// keyTo waits for an element with the text or the name, and presses a key until it has the focus. The page must not have
// lost the focus since a key moved it.
func (b *tab) keyTo(key, text string) {
	b.t.Helper()
	named := fmt.Sprintf(`(e) => [(e.labels?.[0] ?? e).textContent.trim(), e.ariaLabel].some((name) => name?.startsWith(%q))`, text)
	b.eventually("true", func() string {
		return read(b, chromedp.Evaluate[string](`String(!("moved" in window && document.activeElement === document.body) && [...document.querySelectorAll("a, button, input, select, summary, textarea, [tabindex]:not(main)")].some(`+named+`))`))
	})
	for i := range 80 {
		if i > 0 {
			b.key(key)
		}
		if read(b, chromedp.Evaluate[bool](`!document.activeElement.matches("body, dialog") && (`+named+`)(document.activeElement) && (window.moved = true)`)) {
			return
		}
	}
	b.fail(fmt.Errorf("the key does not reach %q", text))
}

// enterOn focuses the element with the text or the name by Tab, and presses Enter.
func (b *tab) enterOn(text string) {
	b.t.Helper()
	b.tabTo(text)
	b.key(kb.Enter)
}

// axe checks the page's accessibility by axe-core on every screen, in the dark its colours alone. The page must be loaded
// after bypassPolicy. Without Node it skips the test.
func (b *tab) axe(name string) {
	b.t.Helper()
	for _, screen := range axeScreens {
		b.resize(screen.width, 800, screen.colours)
		b.screenshot(fmt.Sprintf("%s-%d-%s", name, screen.width, screen.colours))
		b.runAxe(fmt.Sprintf("%s at %d in %s", name, screen.width, screen.colours))
		if wide := read(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); wide > 0 {
			b.t.Errorf("%s at %d scrolls sideways by %d", name, screen.width, wide)
		}
	}
	b.resize(1280, 800, "light")
	b.checkPreferences()
	b.resize(1280, 800, "light") // checkPreferences resets the colours
}

// runAxe checks the accessibility of the page on the present screen.
func (b *tab) runAxe(name string) {
	b.t.Helper()
	if b.axeScript == "" {
		packages := nodejs.InstallFrom(b.t, "accessibility is not checked in this run", os.DirFS("../../adapters/console/web"))
		script := must.Do(os.ReadFile(filepath.Join(packages.Dir, "node_modules/axe-core/axe.min.js"))).Or(b.t)
		b.axeScript = string(script)
	}
	b.limit.Reset(tabTimeout)
	if !read(b, chromedp.Evaluate[bool](`"axe" in window`)) {
		b.run(b.axeScript)
	}
	found := read(b, chromedp.Evaluate[[]string](`axe.run(document, matchMedia("(prefers-color-scheme: dark)").matches
		? { runOnly: ["color-contrast", "link-in-text-block"], resultTypes: ["violations"] }
		: { rules: { "target-size": { enabled: true } }, resultTypes: ["violations"] }).then((r) =>
		r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 120) + " " + n.failureSummary.slice(0, 200))))`, chromedp.EvalAwaitPromise))
	for _, f := range found {
		b.t.Errorf("%s: %s", name, f)
	}
}

// bypassPolicy disables the content security policy of pages that are loaded later.
func (b *tab) bypassPolicy() {
	b.t.Helper()
	call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
}

// openWithoutPolicy is openTab with bypassPolicy, without which the page blocks the script of axe.
func openWithoutPolicy(t *testing.T) *tab {
	t.Helper()
	b := openTab(t)
	b.bypassPolicy()
	return b
}

// closeDialog closes the dialog by Escape, and waits until the page has removed it, before which another dialog cannot
// be told from it.
func (b *tab) closeDialog() {
	b.t.Helper()
	b.key(kb.Escape)
	b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
}

// refusedBusy is a JavaScript expression for the response of a busy server.
const refusedBusy = `Response.json({ statusCode: 503, message: "busy", error: "Service Unavailable" }, { status: 503, headers: { "X-Request-Id": "request-1", "Retry-After": "2" } })`

// busyOnce answers the first request to a path in each page that is loaded later with 503.
func (b *tab) busyOnce(path string) {
	b.t.Helper()
	b.runInNewPages(fmt.Sprintf(`{
		const real = fetch
		let answered = false
		window.fetch = (address, init) => {
			if (answered || !String(address).endsWith(%q)) return real(address, init)
			answered = true
			return Promise.resolve(%s)
		}
	}`, path, refusedBusy))
}

// choices are the accounts and organisations of the page of the sign-in.
var choices = regexp.MustCompile(`name="(account|org)" value="([^"]+)"[^>]*>(?s:.*?)<strong>([^<]*)`)

// signIn signs an account of the development provider in to the console by its requests, and gives the browser the cookies.
func (b *tab) signIn(s *server, account, organisation string) {
	b.t.Helper()
	client, fields := forms.New(b.t), url.Values{"action": {"sign-in"}}
	page := client.Open(client.Open(s.base + "/console/sign-in").Header.Get("Location"))
	for _, choice := range choices.FindAllStringSubmatch(page.Text, -1) {
		if strings.HasPrefix(html.UnescapeString(choice[3]), map[string]string{"account": account, "org": organisation}[choice[1]]) {
			fields.Set(choice[1], choice[2])
		}
	}
	back := client.Submit(page, fields)
	for _, response := range []forms.Page{page, client.Open(back.Header.Get("Location"))} {
		for _, c := range response.Cookies() {
			call(b, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: s.base + c.Path, Path: c.Path, HTTPOnly: &c.HttpOnly, SameSite: network.CookieSameSiteStrict})
		}
	}
}

// enterConsole signs an account in to the console and opens its first page.
func (b *tab) enterConsole(s *server, account, organisation string) {
	b.t.Helper()
	b.signIn(s, account, organisation)
	b.load(s.base+"/console", organisation)
}

// enterPage signs an account of Analytical Engines in to the console, and opens a page on a wide screen.
func (b *tab) enterPage(s *server, account, address, heading string) {
	b.t.Helper()
	b.resize(1280, 800, "light")
	b.signIn(s, account, "Analytical Engines")
	b.load(s.base+address, heading)
}

// openPage is enterPage in a new browser.
func openPage(t *testing.T, s *server, account, address, heading string) *tab {
	t.Helper()
	b := openTab(t)
	b.enterPage(s, account, address, heading)
	return b
}

func TestConsole(t *testing.T) {
	s, as := startOwned(t)
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	s.call("POST", "/chat", as, map[string]any{"message": "Good morning", "maxTokens": 5}, http.StatusOK)
	s.call("POST", "/sync/files", as, map[string]any{"path": "reports/january.md", "content": "# January", "mimeType": "text/markdown"}, http.StatusCreated)

	t.Run("home shows quota, plan, usage, storage and changes, and loads little", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console", "Analytical Engines")
		call(b, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
		traffic, err := chromium.Watch(b)
		if err != nil {
			b.fail(err)
		}
		b.do(chromedp.Reload())
		b.waitConsole("Analytical Engines")
		b.waitVisible(`//h2[.="Tokens by day"]`, `//figure`)
		b.checkText("Tokens today", "of 2,000,000 left", "at 00:00 UTC", "Standard", "Trial", "the trial ends on", "local-1", "1 member")
		loaded := traffic.Take()
		bytes := chromium.Bytes(loaded, "")
		t.Logf("the first load is %d requests and %.0f bytes", len(loaded), bytes)
		if len(loaded) > chromium.FirstLoadRequests || bytes > chromium.FirstLoadBytes {
			t.Errorf("the first load is %d requests and %.0f bytes: %v", len(loaded), bytes, loaded)
		}
		b.scrollToBottom()
		b.checkText("reports/january.md was added", "Ada joined", "earlier versions")
		b.do(chromedp.Click(`//summary[.="Figures"]`), chromedp.WaitVisible(`//table//th[.="local-1"]`))
		if csv := read(b, chromedp.Evaluate[string](`(() => {
			const link = document.querySelector("a[download]")
			link.addEventListener("click", (e) => e.preventDefault())
			link.click()
			return fetch(link.href).then((r) => r.text(), () => link.href)
		})()`, chromedp.EvalAwaitPromise)); !strings.HasPrefix(csv, "blob:"+s.base) {
			t.Errorf("the CSV is %q", csv) // connect-src keeps the page from reading it, a download may
		}
		b.clearProblems() // of reading it
		b.do(chromedp.SetValue(`//label[starts-with(., "By")]/select`, "user"))
		b.waitVisible(`//figcaption/span[contains(., "Ada")]`)
		b.do(chromedp.Reload())
		b.waitVisible(`//figcaption/span[contains(., "Ada")]`) // as the address says
		b.checkProblems(s.base)
	})
	t.Run("charts and lists say if there is more than they read", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console", "Analytical Engines")
		b.runInNewPages(`{
			const real = fetch, day = new Date().toISOString().slice(0, 10)
			const record = { date: day, day, model: "m", version: "1.0.0", totalTokens: 1, checks: 1, id: "x", path: "gone.txt", size: 1 }
			window.fetch = (address, init) => /metering.daily|updates.adoption|deleted=true/.test(address)
				? Promise.resolve(Response.json([record], { headers: { Link: '</?cursor=more>; rel="next"' } }))
				: real(address, init)
		}`)
		for address, said := range map[string]string{
			"/console":          `//figure/p[contains(., "are missing or not all")]`,
			"/console/releases": `//figure/p[contains(., "are missing or not all")]`,
			"/console/files?place=shared/artifacts&deleted=1": `//p[.="There are more: the first 2 are shown."]`,
		} {
			b.do(chromedp.Navigate(s.base + address))
			b.waitVisible(said)
		}
	})
	t.Run("home on a large screen loads what is below only after the figures of today", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console", "Analytical Engines")
		b.resize(1920, 1080, "light")
		b.runInNewPages(`new MutationObserver((_, observer) => {
			if (document.querySelectorAll("p.figure").length < 2 || !document.querySelector("figure")) return
			window.figuresAt = performance.now()
			observer.disconnect()
		}).observe(document, { childList: true, subtree: true })`)
		b.do(chromedp.Reload())
		b.waitVisible(`//li[contains(., "Ada joined")]`, `//section[h2="Storage"]//p[@class="figure"]`)
		b.waitConsole("Analytical Engines")
		loads := read(b, chromedp.Evaluate[[2][]string](`performance.getEntries().filter((e) => e.entryType === "navigation" || e.entryType === "resource")
			.reduce((all, e) => (all[e.startTime < window.figuresAt ? 0 : 1].push(e.name), all), [[], []])`))
		if first, later := loads[0], loads[1]; len(first) > chromium.FirstLoadRequests || len(later) == 0 {
			t.Errorf("the first load is %d requests: %q, and %q after it", len(first), first, later)
		}
		b.checkProblems(s.base)
	})
	t.Run("home follows what others change, and shows what can be loaded", func(t *testing.T) {
		ben := s.signIn("ben@collab.example", "Analytical Engines", "member")
		b := openTab(t)
		b.busyOnce("/org/members?limit=500")
		b.resize(1280, 800, "light")
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.scrollToBottom()
		b.waitVisible(`//*[@role="alert" and contains(., "Loading who joined failed")]`, `//li[contains(., "reports/january.md was added")]`)
		b.click(button("Try again"))
		b.waitVisible(`//li[contains(., "Ada joined")]`)
		for _, path := range []string{"reports/march.md", "reports/april.md"} { // the second while the feed is live
			s.store(bearer(ben.Token), path, "# A month", "text/markdown")
			b.waitVisible(fmt.Sprintf(`//li[contains(., "%s was added")]`, path))
		}
		made := decode[record](t, s.call("POST", "/tasks", bearer(ben.Token), map[string]any{"title": "Oil the wheels"}, http.StatusCreated))
		s.call("PATCH", "/tasks/"+made.ID, bearer(ben.Token), map[string]any{"status": "IN_PROGRESS"}, http.StatusOK)
		left := read(b, chromedp.Text(`//section[h2="Tokens today"]//p[@class="figure"]`))
		s.call("POST", "/chat", as, map[string]any{"message": "Good evening", "maxTokens": 5}, http.StatusOK)
		b.returnToFront()
		b.waitVisible(`//li[contains(., "Oil the wheels was changed and is in progress")]`)
		b.eventually("true", func() string {
			return fmt.Sprint(read(b, chromedp.Text(`//section[h2="Tokens today"]//p[@class="figure"]`)) != left)
		})
		b.checkProblems(s.base)
	})
	t.Run("every page is accessible, in light and dark, wide and narrow, with the menu open", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.load(s.base+"/console", "Sign in to Collab")
		b.axe("sign-in")
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.scrollToBottom()
		b.click(`//summary[.="Figures"]`)
		b.axe("home")
		b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.WaitVisible(button("Sign out")))
		b.waitVisible(`//li/button[@aria-current]`)
		b.axe("menu")
		b.load(s.base+"/console/sessions", "Sessions")
		b.axe("sessions")
		b.load(s.base+"/console/nothing", "There is no such page")
		b.axe("missing")
		b.enterOn("AE")
		b.enterOn("Sign out")
		b.waitConsole("You are signed out")
		b.axe("signed-out")
	})
	t.Run("with the keyboard alone one signs in, ends a session and signs out", func(t *testing.T) {
		b := openTab(t)
		b.load(s.base+"/console/sessions?from=here", "Sign in to Collab")
		b.tabTo("Sign in")
		b.key(kb.Enter)
		b.waitVisible(button("Sign in"))
		b.tabTo("Sign in")
		b.key(kb.Enter)
		b.waitConsole("Sessions")
		must.Is(t, s.base+"/console/sessions?from=here", read(b, chromedp.Location()))
		b.waitVisible(`//*[@class="badge" and .="This browser"]`)
		b.checkText("Chrome on Linux")
		b.tabTo("Skip to the page")
		b.key(kb.Enter)
		b.eventually("main", func() string { return read(b, chromedp.Evaluate[string](`document.activeElement.id`)) })
		b.tabTo("End")
		b.key(kb.Enter)
		b.eventually("H1", func() string { return read(b, chromedp.Evaluate[string](`document.activeElement.tagName`)) })
		b.do(chromedp.Focus(chromedp.CSS("a.brand")))
		b.key(kb.Enter)
		b.waitConsole("Analytical Engines")
		b.do(chromedp.Focus(chromedp.CSS("button.account")))
		b.key(kb.Enter)
		b.tabTo("Sign out everywhere")
		b.key(kb.Enter)
		b.waitConsole("You are signed out")
		b.checkText("and at the identity provider")
		s.call("GET", "/auth/me", as, nil, http.StatusUnauthorized)
		b.do(chromedp.Reload())
		b.waitConsole("Sign in to Collab")
		b.clearProblems() // of 401
		b.checkProblems(s.base)
	})
	t.Run("the menu switches to another organisation of the person, in all tabs", func(t *testing.T) {
		s.signIn("ada@collab.example", "Difference Engines", "member")
		b := openPage(t, s, "Ada", "/console", "Analytical Engines")
		other := b.newTab()
		other.load(s.base+"/console/sessions", "Sessions")
		if moved := read(b, chromedp.Evaluate[float64](`(async () => {
			document.querySelector("button.account").click()
			const last = () => [...document.querySelectorAll("#account > button")].at(-1).getBoundingClientRect().top
			const before = last()
			if (document.querySelector("#account li")) return -1
			while (!document.querySelector("#account li")) await new Promise(requestAnimationFrame)
			return last() - before
		})()`, chromedp.EvalAwaitPromise)); moved != 0 {
			t.Errorf("the menu moves by %v when the organisations arrive", moved)
		}
		b.waitVisible(`//li/button[@aria-current="true" and normalize-space()="Analytical Engines owner"]`)
		b.enterOn("Difference Engines member")
		b.waitConsole("Difference Engines")
		other.waitConsole("Difference Engines")
		b.do(chromedp.Click(chromedp.CSS("button.account")))
		b.waitVisible(`//li/button[@aria-current="true" and normalize-space()="Difference Engines member"]`)
		b.checkProblems(s.base)
	})
	t.Run("what fails is said beside it and can be tried again, and an ended session is named", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console", "Analytical Engines")
		b.busyOnce("/metering/quota")
		b.do(chromedp.Reload())
		b.waitVisible(`//*[@role="alert" and contains(., "Loading today's quota failed") and contains(., "The server is busy") and contains(., "request-1")]`, `//figure`)
		b.click(button("Try again"))
		b.waitVisible(`//p[contains(., "of 2,000,000 left")]`)

		again := s.signIn("ada@collab.example", "Analytical Engines", "")
		s.call("DELETE", "/auth/sessions", bearer(again.Token), nil, http.StatusOK)
		b.do(chromedp.Focus(chromedp.CSS("button.account")))
		b.key(kb.Enter)
		b.tabTo("Sessions")
		b.key(kb.Enter)
		const notice = `//*[@role="alert" and contains(., "Your session has ended")]`
		b.waitVisible(notice+`//a[.="Sign in again in a new tab" and @target="_blank"]`, `//main//*[@role="alert" and contains(., "The session of this page has ended")]`)
		b.axe("session-ended")
		other := b.newTab()
		other.enterConsole(s, "Ada", "Analytical Engines")
		b.do(chromedp.WaitNotPresent(notice))

		b.run(`fetch = ((real) => async (address, init) => {
			const answer = await real(address, init)
			if (!String(address).endsWith("/sign-out")) return answer
			fetch = real
			throw new TypeError("the response was lost")
		})(fetch)`)
		b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(button("Sign out everywhere")))
		b.click(`//*[@role="alert" and contains(., "Signing out failed")]/button[.="Try again"]`)
		b.waitConsole("You are signed out")
	})
}
