//go:build browser

package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

// form is a field of a page of the console with the actions around it.
type form struct {
	name, address, heading string
	open                   func(*tab)    // opens the form at the address; nil: the address opens it
	field                  string        // path of the field
	first                  [2]string     // text that is saved first, and path of the element that shows it; empty: the field is disabled while it is saved
	typed                  string        // text that is typed
	more                   [2]string     // path and text of another required field
	save                   string        // path of the button that saves; empty: Enter in the field
	saved                  string        // path of the element that shows that it is saved
	change                 func() string // changes at the server what the page shows, and returns the path of what then shows it; nil: nothing changes by itself
	secret                 bool          // the text is a secret, which the browser must not store
	operators              bool          // the page is for operators
}

// refusing answers each request that is not a read with window.refused if it is set. If window.waiting is a list, the
// answers to other requests wait in it.
const refusing = `{
	const real = fetch
	window.fetch = async (address, init) => {
		if ((init?.method ?? "GET") === "GET") return real(address, init)
		if (window.refused) return Response.json({ statusCode: window.refused, message: "Refused by the test", error: "Refused" }, { status: window.refused, headers: { "X-Request-Id": "request-1", "Retry-After": "2" } })
		const answer = await real(address, init)
		if (window.waiting) await new Promise((go) => waiting.push(go))
		return answer
	}
}`

// show opens the form in a tab.
func (f form) show(b *tab, s *server) {
	b.t.Helper()
	b.load(s.base+f.address, f.heading)
	if f.open != nil {
		f.open(b)
	}
	b.waitVisible(f.field)
}

// fill types a text into the field, and the text of the other required field.
func (f form) fill(b *tab, text string) {
	b.t.Helper()
	b.typeInto(f.field, text)
	if f.more[0] != "" {
		b.typeInto(f.more[0], f.more[1])
	}
	b.keepsNoSecrets()
}

// keepsNoSecrets checks that the browser does not store the text of a field of secrets.
func (b *tab) keepsNoSecrets() {
	b.t.Helper()
	for _, secret := range read(b, chromedp.Evaluate[[]string](`(() => {
		const kept = JSON.stringify({ ...sessionStorage, ...localStorage })
		return [...document.querySelectorAll("input[type=password]")].map((e) => e.value).filter((v) => v !== "" && kept.includes(v))
	})()`)) {
		b.t.Errorf("the browser keeps %q", secret)
	}
}

// typeInto replaces the text of a field.
func (b *tab) typeInto(field, text string) {
	b.t.Helper()
	b.do(chromedp.Focus(field))
	b.run(`document.activeElement.select()`)
	b.key(text)
}

// submit saves the form.
func (f form) submit(b *tab) {
	b.t.Helper()
	if f.save == "" {
		b.keyOn(f.field, kb.Enter)
		return
	}
	b.click(f.save)
}

// checkTyped checks that the field has the typed text.
func (f form) checkTyped(b *tab) {
	b.t.Helper()
	f.checkValue(b, f.typed)
}

// checkValue checks the text of the field.
func (f form) checkValue(b *tab, want string) {
	b.t.Helper()
	b.waitVisible(f.field)
	if got := read(b, chromedp.Value(f.field)); got != want {
		b.t.Errorf("%s: the field has %q, not %q", f.name, got, want)
	}
}

// offline disconnects the tab from the network, or connects it again.
func (b *tab) offline(is bool) {
	b.t.Helper()
	call(b, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	call(b, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: is, DownloadThroughput: -1, UploadThroughput: -1})
}

// switchTo switches to another organisation by the menu.
func (b *tab) switchTo(choice, heading string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(fmt.Sprintf(`//li/button[normalize-space()=%q]`, choice)))
	b.waitConsole(heading)
}

func TestForms(t *testing.T) {
	s, as := startOwned(t)
	s.grant(as, "PREMIUM")
	s.signIn("ada@collab.example", "Difference Engines", "")
	created := func(path string, body any) string {
		t.Helper()
		return decode[struct{ ID string }](t, s.call("POST", path, as, body, http.StatusCreated)).ID
	}
	task := created("/tasks", map[string]any{"title": "Translate Note G"})
	s.store(as, "plan.txt", "x", "text/plain")
	release := created("/updates", map[string]any{"version": "1.0.0", "platform": "LINUX", "arch": "ARM64", "channel": "STABLE", "downloadUrl": "https://example.com/1", "rolloutPercentage": 5})
	rollout := created("/updates", map[string]any{"version": "1.1.0", "platform": "LINUX", "arch": "X64", "channel": "STABLE", "downloadUrl": "https://example.com/1", "rolloutPercentage": 5})
	created("/tasks", map[string]any{"title": "Choose the cards"})
	team := created("/teams", map[string]any{"name": "Engineers"})
	connector := created("/connectors", map[string]any{"providerId": "brave-search", "name": "Search for errors"})
	s.call("POST", "/connectors/"+connector+"/credentials", as, map[string]any{"credentials": map[string]string{"apiKey": "first-secret"}}, http.StatusOK)
	organisation := decode[session](t, s.call("GET", "/auth/me", as, nil, http.StatusOK)).Org.ID
	onRow := func(title, key string) func(*tab) {
		return func(b *tab) {
			row := fmt.Sprintf(`//a[@data-row and .=%q]`, title)
			b.waitVisible(row)
			b.keyOn(row, key)
		}
	}
	forms := []form{
		{
			name: "a new task", address: "/console/tasks", heading: "Tasks", field: `//input[@data-new]`, first: [2]string{"Warp the loom", `//a[@data-row and .="Warp the loom"]`}, typed: "Weave algebra", saved: `//a[@data-row and .="Weave algebra"]`,
			change: func() string {
				created("/tasks", map[string]any{"title": "Punch cards"})
				return `//a[@data-row and .="Punch cards"]`
			},
		},
		{
			name: "a task", address: "/console/tasks?task=" + task, heading: "Tasks", field: `//dialog//textarea`, first: [2]string{"In French", `//dialog//ul/li[starts-with(., "Description")]`}, typed: "With Bernoulli's numbers",
			save: `//dialog//button[.="Save"]`, saved: `//dialog//*[@role="status" and .="Saved"]`,
		},
		{
			name: "the priority of selected tasks", address: "/console/tasks", heading: "Tasks", field: `//dialog//textarea`, first: [2]string{"It is late", `//*[@role="status" and contains(., "1 task reprioritised")]`}, typed: "The card is torn",
			open: func(b *tab) {
				onRow("Choose the cards", "x")(b)
				b.click(button("Reprioritise…"))
				b.keyOn(`//dialog//select[@required]`, "h")
			},
			save: `//dialog//button[.="Reprioritise"]`, saved: `//*[@role="status" and contains(., "1 task reprioritised")]`,
		},
		{
			name: "a message", address: "/console/chat", heading: "Chat", field: `//textarea[@aria-label="Message"]`, typed: "Good morning", save: button("Send"), saved: answer("done", "tokens"),
		},
		{
			name: "a file's path", address: "/console/files?place=shared/artifacts", heading: "Files", field: `//dialog//input[@id="path"]`, first: [2]string{"our plan.txt", `//*[@class="undo" and contains(., "our plan.txt")]`}, typed: "plans/plan.txt",
			open: func(b *tab) {
				b.waitVisible(entry("plan.txt"))
				b.keyOn(entry("plan.txt"), kb.F2)
			},
			save: `//dialog//button[.="Save"]`, saved: `//*[@class="undo" and contains(., "plans/plan.txt")]`,
			change: func() string {
				s.store(as, "beside.txt", "x", "text/plain")
				return entry("beside.txt")
			},
		},
		{
			name: "a memory", address: "/console/memories?memory=org", heading: "Memories", field: `//textarea[@id="text"]`, first: [2]string{"# Mine", `//p[contains(., "Version 1")]`}, typed: "# Ours", save: button("Save"), saved: `//p[contains(., "Version 2")]`,
		},
		{
			name: "a release", address: "/console/releases?publish=new", heading: "Publish a release", field: `//form//input[@required and @title]`, first: [2]string{"1.3.0", `//h1[.="1.3.0"]`}, typed: "1.4.0",
			more: [2]string{`//form//input[@type="url"]`, "https://example.com/2"}, save: button("Publish"), saved: `//h1[contains(., "1.4.0")]`,
		},
		{
			name: "a rule of a release", address: "/console/releases?release=" + release, heading: "1.0.0", field: `//section[@aria-label="Pausing by itself"]//input`, first: [2]string{"6", `//p[contains(., "more than 6 %")]`}, typed: "7",
			save: button("Save the rule"), saved: `//p[contains(., "more than 7 %")]`,
			change: func() string {
				s.call("PATCH", "/updates/"+release, as, map[string]any{"rolloutPercentage": 30}, http.StatusOK)
				return `//*[@class="badge" and .="Rolling out at 30 %"]`
			},
		},
		{
			name: "a rollout", address: "/console/releases?release=" + rollout, heading: "1.1.0", field: `//input[@class="percent"]`, first: [2]string{"20", `//*[@class="badge" and .="Rolling out at 20 %"]`}, typed: "25",
			save: `//section[@aria-label="Rollout"]//button[@type="submit"]`, saved: `//*[@class="badge" and .="Rolling out at 25 %"]`,
		},
		{
			name: "an invitation", address: "/console/people?invite=1", heading: "People", field: `//dialog//input`, first: [2]string{"mary@collab.example", `//dialog//p[contains(., "shown once")]`}, typed: "grace@collab.example", save: `//dialog//button[.="Invite"]`, saved: `//dialog//p[contains(., "shown once")]`,
			change: func() string {
				s.signIn("ben@collab.example", "Analytical Engines", "member")
				return `//li[@data-member="ben@collab.example"]`
			},
		},
		{
			name: "a team", address: "/console/teams?new=team", heading: "Teams", field: `//dialog//input`, first: [2]string{"Loom keepers", `//nav[@aria-label="Teams"]//a[contains(., "Loom keepers")]`}, typed: "Card punchers", save: `//dialog//button[.="Create"]`, saved: `//nav[@aria-label="Teams"]//a[contains(., "Card punchers")]`,
			change: func() string {
				created("/teams", map[string]any{"name": "Weavers"})
				return `//nav[@aria-label="Teams"]//a[contains(., "Weavers")]`
			},
		},
		{
			name: "a team's description", address: "/console/teams?edit=team&team=" + team, heading: "Teams", field: `//dialog//textarea`, first: [2]string{"By day", `//p[@class="text" and .="By day"]`}, typed: "By day and by night",
			save: `//dialog//button[.="Save"]`, saved: `//p[@class="text" and .="By day and by night"]`,
		},
		{
			name: "a connector", address: "/console/connectors?connect=brave-search", heading: "Connectors", field: `//dialog//input[not(@type)]`, first: [2]string{"Search for looms", `//dialog//h2[.="Search for looms"]`}, typed: "Search for cards",
			more: [2]string{`//dialog//input[@type="password"]`, "secret"}, save: `//dialog//button[.="Connect"]`, saved: `//dialog//h2[.="Search for cards"]`,
			change: func() string {
				created("/connectors", map[string]any{"providerId": "brave-search", "name": "Search for engines"})
				return `//*[@class="rows"]//b[.="Search for engines"]`
			},
		},
		{
			name: "other credentials of a connector", address: "/console/connectors?instance=" + connector, heading: "Connectors", field: `//dialog//input[@type="password"]`, typed: "other-secret", secret: true,
			open: func(b *tab) { b.click(button("Replace the credentials")) },
			save: `//dialog//button[.="Store the credentials"]`, saved: button("Replace the credentials"),
			change: func() string {
				created("/connectors", map[string]any{"providerId": "brave-search", "name": "Search for wheels"})
				return `//*[@class="rows"]//b[.="Search for wheels"]`
			},
		},
		{
			name: "a plan by an operator", address: "/console/operator/organisations?grant=1&id=" + organisation, heading: "Analytical Engines", field: `//dialog//input[@type="number"]`,
			first: [2]string{"20", `//*[@id="said" and contains(., "is Premium now")]`}, typed: "25", save: `//dialog//button[.="Set the plan"]`, saved: `//*[@id="said" and contains(., "is Premium now")]`, operators: true,
		},
	}

	b := openPage(t, s, "Ada", "/console", "Analytical Engines")
	tabs := make([]*tab, len(forms))
	// each runs for each form with its tab, within a limit of time of its own.
	each := func(about string, run func(t *testing.T, b *tab, f form)) {
		b.limit.Reset(tabTimeout)
		for i, f := range forms {
			if tabs[i] == nil {
				continue
			}
			t.Run(f.name+" "+about, func(t *testing.T) {
				tabs[i].t = t
				run(t, tabs[i], f)
			})
		}
	}
	for i := range forms {
		tabs[i] = b.newTab()
		tabs[i].resize(1280, 800, "light")
		tabs[i].runInNewPages(refusing)
		if forms[i].operators {
			tabs[i].enterOperator(s, forms[i].address, forms[i].heading)
		}
	}
	alert := func(f form, texts ...string) string {
		path := `//*[@role="alert"`
		if strings.HasPrefix(f.field, "//dialog") { // behind which nothing can be used
			path = "//dialog" + path
		}
		for _, text := range texts {
			path += fmt.Sprintf(" and contains(., %q)", text)
		}
		return path + "]"
	}

	each("keeps what is typed while something is saved, and says why it is not, with the request's id", func(t *testing.T, b *tab, f form) {
		f.show(b, s)
		if f.first[0] != "" {
			f.fill(b, f.first[0])
			b.run(`window.waiting = []`)
			f.submit(b)
			b.eventually("1", func() string { return read(b, chromedp.Evaluate[string](`String(waiting.length)`)) })
			b.typeInto(f.field, f.typed)
			b.run(`const [go] = waiting; window.waiting = undefined; go()`)
			b.waitVisible(f.first[1])
			f.show(b, s)
			f.checkTyped(b)
		}
		f.fill(b, f.typed)
		for status, texts := range map[int][]string{
			http.StatusConflict:           {"Refused by the test", "request-1"},
			http.StatusServiceUnavailable: {"The server is busy", "wait 2 seconds", "request-1"},
		} {
			b.run(fmt.Sprint("window.refused = ", status))
			f.submit(b)
			b.waitVisible(alert(f, texts...))
			f.checkTyped(b)
		}
		b.run("window.refused = 0")
	})
	each("stays while the network is gone, and shows what others changed meanwhile", func(t *testing.T, b *tab, f form) {
		if f.change == nil {
			t.Skip("nothing on the page changes by itself")
		}
		b.offline(true)
		changed := f.change()
		b.offline(false)
		b.waitVisible(changed)
		f.checkTyped(b)
	})

	const ended = `//h2[.="Your operator’s session has ended"]`
	again := s.signIn("ada@collab.example", "Analytical Engines", "")
	s.call("DELETE", "/auth/sessions", bearer(again.Token), nil, http.StatusOK)
	as = bearer(s.signIn("ada@collab.example", "Analytical Engines", "").Token)
	each("says that the session has ended, where it can be seen, and keeps what was typed", func(t *testing.T, b *tab, f form) {
		if f.operators {
			if !read(b, chromedp.Evaluate[bool](`fetch("/console/operator/sign-out", { method: "POST" }).then((r) => r.ok)`, chromedp.EvalAwaitPromise)) {
				t.Fatal("the session cannot be ended")
			}
		}
		f.submit(b)
		if f.operators {
			b.waitVisible(ended)
		} else {
			b.waitVisible(alert(f, "Sign in again in a new tab"))
		}
		f.checkTyped(b)
	})
	b.t = t
	b.enterConsole(s, "Ada", "Analytical Engines")
	each("goes on after a new sign-in", func(t *testing.T, b *tab, f form) {
		if f.operators {
			b.key(collabd.AdminSecret)
			b.keepsNoSecrets()
			b.key(kb.Enter)
		}
		b.do(chromedp.WaitNotPresent(`//*[@class="notice" and @role="alert"]`), chromedp.WaitNotPresent(ended))
		f.checkTyped(b)
	})

	b.switchTo("Difference Engines owner", "Difference Engines")
	each("is not shown to another organisation", func(t *testing.T, b *tab, f form) {
		if f.operators {
			t.Skip("operators are of no organisation")
		}
		b.waitConsole("Difference Engines")
		b.do(chromedp.Navigate(s.base+f.address), chromedp.WaitVisible(`//main//h1`), chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"]`)))
		if page := read(b, chromedp.Evaluate[string](`[...document.querySelectorAll("input, textarea")].map((e) => e.value).join("\n")`)); strings.Contains(page, f.typed) {
			t.Errorf("the page has %q", page)
		}
	})
	b.switchTo("Analytical Engines owner", "Analytical Engines")
	each("is there again in its own, and is saved", func(t *testing.T, b *tab, f form) {
		b.waitConsole("Analytical Engines")
		f.show(b, s)
		if f.secret {
			f.checkValue(b, "")
			b.typeInto(f.field, f.typed)
		}
		f.checkTyped(b)
		if f.more[0] != "" {
			b.typeInto(f.more[0], f.more[1])
		}
		f.submit(b)
		b.waitVisible(f.saved)
	})

	t.Run("a title that was refused in its row is there again", func(t *testing.T) {
		b := tabs[0]
		b.t = t
		const field = `//input[@aria-label="Title"]`
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		onRow("Translate Note G", "e")(b)
		b.typeInto(field, "Translate Note A")
		b.run("window.refused = 503")
		b.key(kb.Enter)
		b.waitVisible(`//*[@role="alert" and contains(., "Translate Note G") and contains(., "The server is busy")]`)
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		onRow("Translate Note G", "e")(b)
		must.Is(t, "Translate Note A", read(b, chromedp.Value(field)))
		b.key(kb.Enter)
		b.waitVisible(`//a[@data-row and .="Translate Note A"]`)
		b.do(chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"]`)))
		onRow("Translate Note A", "e")(b)
		b.typeInto(field, "Translate Note B")
		b.key(kb.Escape)
		b.waitVisible(`//a[@data-row and .="Translate Note A"]`)
		if kept := read(b, chromedp.Evaluate[json.RawMessage](`({ ...sessionStorage })`)); strings.Contains(string(kept), "Translate Note") {
			t.Errorf("the tab keeps %s", kept)
		}
	})

	t.Run("an operator's sign-out removes what was typed", func(t *testing.T) {
		b, f := tabs[len(tabs)-1], forms[len(forms)-1]
		b.t = t
		f.show(b, s)
		b.typeInto(f.field, "30")
		b.closeDialog()
		b.click(button("Sign out"))
		b.waitConsole("Operator")
		if kept := read(b, chromedp.Evaluate[string](`JSON.stringify({ ...sessionStorage })`)); strings.Contains(kept, "plan") {
			t.Errorf("the tab keeps %s", kept)
		}
	})

	t.Run("a sign-out in another tab removes what was typed", func(t *testing.T) {
		b.t, tabs[0].t = t, t
		f := forms[0]
		f.show(tabs[0], s)
		tabs[0].typeInto(f.field, "secret")
		b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(button("Sign out")))
		b.waitConsole("You are signed out")
		tabs[0].waitConsole("You are signed out")
		kept := read(tabs[0], chromedp.Evaluate[json.RawMessage](`({ ...sessionStorage, ...localStorage })`))
		if strings.Contains(string(kept), "secret") {
			t.Errorf("the tab keeps %s", kept)
		}
	})
}
