//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/contract/provider"
	"collab/test/must"
)

// answer returns the path of the last response in a state with a text.
func answer(state, text string) string {
	return fmt.Sprintf(`(//*[@class="exchange"])[last()]//*[@class="answer" and @data-state=%q and contains(., %q)]`, state, text)
}

// announced returns the path of the announcement of a text.
func announced(text string) string { return fmt.Sprintf(`//*[@id="said" and contains(., %q)]`, text) }

// write types a message without sending it.
func (b *tab) write(text string) {
	b.t.Helper()
	b.waitVisible(`//textarea[@aria-label="Message"]`)
	b.do(chromedp.SendKeys(`//textarea[@aria-label="Message"]`, text))
}

// draft returns the text in the field of the message.
func (b *tab) draft() string {
	b.t.Helper()
	b.waitVisible(`//textarea[@aria-label="Message"]`)
	return read(b, chromedp.Value(`//textarea[@aria-label="Message"]`))
}

// replaceChatResponse answers the next request to the chat with the response of a JavaScript expression.
func (b *tab) replaceChatResponse(response string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`{
		const real = fetch
		window.fetch = (address, init) => {
			if (!String(address).endsWith("/chat")) return real(address, init)
			window.fetch = real
			return Promise.resolve(%s)
		}
	}`, response))
}

const code = "Here is **how**:\n\n```go\nfmt.Println(\"<b>no HTML</b>\")\n```\n\n- one\n- two <script>alert(1)</script>\n\n![secret](https://elsewhere.example/a.png)\n"

func TestChatPage(t *testing.T) {
	models := provider.Start(t)
	held := make(chan struct{})
	var failures atomic.Int64 // calls that fail
	models.Choose(func(r provider.Request) provider.Script {
		switch {
		case strings.Contains(r.Message, "slowly"):
			return provider.Script{provider.Text("It begins"), provider.Silence()}
		case strings.Contains(r.Message, "held"):
			return provider.Script{provider.Text("Half of it. "), provider.Hold(held), provider.Text("And the rest.")}
		case strings.Contains(r.Message, "search"):
			return provider.Script{provider.Text("I search. "), provider.Search("s1", "Bernoulli", provider.Result{Title: "Numbers", URL: "https://example.com/numbers"}, provider.Result{Title: "Script", URL: "javascript:alert(1)"}), provider.Text("I found it.")}
		case strings.Contains(r.Message, "tool"):
			return provider.Script{provider.Text("I call a tool."), provider.Call("c1", "get_weather", `{"city":"Oslo"}`), provider.Stop("tool_use")}
		case strings.Contains(r.Message, "fail"):
			failures.Add(1)
			return provider.Script{provider.Text("It goes well"), provider.Fail("overloaded_error", "Overloaded")}
		case strings.Contains(r.Message, "code"):
			return provider.Script{provider.Text(strings.SplitAfter(code, " ")...)}
		}
		return provider.Script{provider.Text("You said ", r.Message)}
	})
	s, as := startOwned(t, "COLLAB_ANTHROPIC_API_KEY=key", "COLLAB_ANTHROPIC_URL="+models.Anthropic())
	s.grant(as, "ENTERPRISE")
	say := func(b *tab, text string) {
		b.t.Helper()
		b.write(text)
		b.key(kb.Enter)
	}

	t.Run("an answer is streamed as Markdown without HTML and pictures, with its usage, and kept under an address", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "Show me code")
		b.waitVisible(answer("done", "tokens in"), `//*[@class="answer"]//pre[contains(., "<b>no HTML</b>")]`, `//li[contains(., "<script>alert(1)</script>")]`, announced("The answer is complete"))
		b.checkText("tokens left today", "Claude Sonnet 5.5", "Image: secret")
		streamed := read(b, chromedp.Evaluate[string](`document.querySelector(".markdown").innerHTML`))
		where := read(b, chromedp.Location())
		if !strings.Contains(where, "/console/chat?c=") {
			t.Errorf("the address is %s", where)
		}
		b.eventually("done", func() string { return read(b, chromedp.Evaluate[string](states, chromedp.EvalAwaitPromise)) })
		b.do(chromedp.Reload())
		b.waitVisible(answer("done", "tokens in"), `//nav//a[@aria-current="page" and contains(., "Show me code")]`)
		must.Is(t, streamed, read(b, chromedp.Evaluate[string](`document.querySelector(".markdown").innerHTML`)))
		title := strings.Repeat("x", 59)
		b.click(`//a[.="New chat"]`)
		b.do(chromedp.WaitNotPresent(chromedp.CSS(".exchange")), chromedp.Focus(`//textarea[@aria-label="Message"]`))
		b.run(fmt.Sprintf(`document.execCommand("insertText", false, %q)`, title+"🧵"))
		say(b, "")
		b.waitVisible(answer("done", "You said "+title), fmt.Sprintf(`//nav//span[.=%q]`, title+"…"))
		b.do(chromedp.Navigate(where))
		say(b, "Thank you")
		b.waitVisible(answer("done", "You said Thank you"))
		requests := models.Requests()
		if last := string(requests[len(requests)-1].Body); !strings.Contains(last, "Show me code") || !strings.Contains(last, "no HTML") {
			t.Errorf("the model was sent %s", last)
		}
		b.checkProblems(s.base)
	})
	t.Run("Escape stops an answer, the provider's call ends and is metered, and the text stays", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		used := func() int64 {
			return decode[struct{ Requests int64 }](t, s.call("GET", "/metering/user", as, nil, http.StatusOK)).Requests
		}
		before := used()
		say(b, "Answer slowly")
		b.waitVisible(answer("running", "It begins"), button("Stop"), announced("The answer begins"))
		b.click(button("Instructions"))
		b.waitVisible(`//dialog//textarea`)
		b.closeDialog() // which stops nothing
		b.waitVisible(answer("running", "It begins"))
		b.keyOn(`//textarea[@aria-label="Message"]`, kb.Escape)
		b.waitVisible(answer("stopped", "It begins"), announced("The answer is stopped"), button("Try again"))
		select {
		case <-models.Disconnects():
		case <-b.Done():
			t.Fatal("the provider's call goes on")
		}
		b.eventually(fmt.Sprint(before+1), func() string { return fmt.Sprint(used()) })
		b.eventually("stopped", func() string { return read(b, chromedp.Evaluate[string](states, chromedp.EvalAwaitPromise)) })
		b.do(chromedp.Reload())
		b.waitVisible(answer("stopped", "It begins"), button("Try again"))
		b.checkProblems(s.base)
	})
	t.Run("searches, calls of tools and the provider's failures are shown as such", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		b.click(`//label[contains(., "Web search")]/input`)
		say(b, "Please search")
		b.waitVisible(answer("done", "I found it."))
		b.click(`//summary[contains(., "Web search: Bernoulli")]`)
		b.waitVisible(`//details//a[.="Numbers" and @href="https://example.com/numbers"]`)
		b.do(chromedp.WaitNotPresent(`//a[starts-with(@href, "javascript")]`))
		say(b, "Use a tool")
		b.waitVisible(answer("done", "I call a tool."))
		b.click(`//summary[contains(., "Tool: get_weather") and contains(., "not run")]`)
		b.waitVisible(`//pre[contains(., "Oslo")]`)
		say(b, "Now fail")
		b.waitVisible(answer("failed", "The model is overloaded. Please retry in a few moments."), answer("failed", "It goes well"), requestID, button("Try again"), announced("The answer failed"))
		b.click(button("Try again"))
		b.eventually("2", func() string { return fmt.Sprint(failures.Load()) })
		b.waitVisible(answer("failed", "It goes well"))
		say(b, "Hello")
		b.waitVisible(answer("done", "You said Hello"))
		b.checkProblems(s.base)
	})
	t.Run("what is typed outlives refusals and reloads, and an answer that is cut off keeps its text", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		b.write("My long thought")
		b.do(chromedp.Reload())
		must.Is(t, "My long thought", b.draft())
		for status, says := range map[int]string{503: "The server is busy", 403: "tokens left today", 401: "Your session has ended"} {
			b.replaceChatResponse(strings.NewReplacer("503", fmt.Sprint(status), "busy", "No").Replace(refusedBusy))
			b.keyOn(`//textarea[@aria-label="Message"]`, kb.Enter)
			b.waitVisible(`//*[@role="alert" and contains(., "Sending failed") and contains(., "request-1")]`, fmt.Sprintf(`//body[contains(., %q)]`, says))
			if got := b.draft(); got != "My long thought" {
				t.Errorf("after %d %q is left", status, got)
			}
			b.click(button("Dismiss"))
		}
		b.do(chromedp.Reload())
		b.waitVisible(`//textarea[@aria-label="Message"]`)
		b.replaceChatResponse(refusedBusy)
		say(b, "")
		b.waitVisible(`//*[@role="alert" and contains(., "Sending failed")]`)
		b.write(", and more")
		b.run(`{
			const real = fetch
			window.fetch = async (address, init) => {
				const response = await real(address, init)
				if (String(address).endsWith("/chat")) await new Promise((go) => (window.go = go))
				return response
			}
		}`)
		leave := func() {
			b.eventually("function", func() string { return read(b, chromedp.Evaluate[string](`typeof window.go`)) })
			b.click(`//nav//a[@href="/console/people"]`)
			b.waitConsole("People")
			b.click(`//nav//a[@href="/console/chat"]`) // where the message is still being sent
			b.waitVisible(button("Stop"), `//textarea[@aria-label="Message" and @readonly]`)
		}
		b.replaceChatResponse("new Promise((go) => (window.go = () => (delete window.go, go(" + refusedBusy + "))))")
		b.click(button("Try again"))
		leave()
		b.run(`window.go()`)
		b.waitVisible(`//*[@role="alert" and contains(., "Sending failed")]`)
		b.click(button("Try again"))
		leave()
		b.click(`//nav//a[@href="/console/people"]`)
		b.waitConsole("People")
		b.run(`window.go()`)
		b.waitVisible(announced("The answer is complete"))
		must.Is(t, s.base+"/console/people", read(b, chromedp.Location()))
		b.click(`//nav//a[@href="/console/chat"]`)
		b.click(`//nav//a[contains(., "My long thought, and more")]`)
		b.waitVisible(answer("done", "You said My long thought, and more"))
		b.click(`//a[.="New chat"]`)
		b.write("My long thought")
		b.do(chromedp.Reload())
		b.waitVisible(`//textarea[@aria-label="Message"]`)
		b.replaceChatResponse("new Response('data: {\"type\":\"text\",\"text\":\"The beginning\"}\\n\\n')")
		b.keyOn(`//textarea[@aria-label="Message"]`, kb.Enter)
		b.waitVisible(answer("cut", "The beginning"), answer("cut", "cut off"), announced("cut off"))
		b.click(button("Try again"))
		b.waitVisible(answer("done", "You said My long thought"))
		say(b, "Answer slowly, and I leave")
		b.waitVisible(answer("running", "It begins"))
		b.eventually("done done running", func() string { return read(b, chromedp.Evaluate[string](states, chromedp.EvalAwaitPromise)) })
		b.do(chromedp.Reload())
		b.waitVisible(answer("cut", "It begins"), button("Try again"))
	})
	t.Run("the last message is changed and sent again, which can be undone", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "Helo")
		b.waitVisible(answer("done", "You said Helo"))
		b.click(button("Edit my message"))
		must.Is(t, "Helo", b.draft())
		say(b, " again")
		b.waitVisible(answer("done", "You said Helo again"))
		b.do(chromedp.WaitNotPresent(`//*[@class="said" and .="Helo"]`))
		b.click(button("Undo"))
		b.waitVisible(`//*[@class="said" and .="Helo"]`)
		b.do(chromedp.WaitNotPresent(`//*[@class="said" and .="Helo again"]`))
		b.click(button("Edit my message"))
		say(b, ", slowly")
		b.waitVisible(answer("running", "It begins"))
		b.click(button("Undo")) // while the answer goes on
		b.waitVisible(announced("The answer is stopped"), `//*[@class="said" and .="Helo"]`)
		b.do(chromedp.WaitNotPresent(`//*[@class="said" and .="Helo, slowly"]`))
		b.click(button("Edit my message"))
		say(b, " anew")
		b.waitVisible(answer("done", "You said Helo anew"))
		say(b, "And slowly")
		b.waitVisible(answer("running", "It begins"))
		b.click(button("Undo")) // while the answer to a later message goes on
		b.waitVisible(`//*[@class="said" and .="Helo"]`)
		b.do(chromedp.WaitNotPresent(`//*[@class="said" and .="Helo anew"]`))
		b.waitVisible(answer("running", "It begins"))
		b.click(button("Stop"))
		b.waitVisible(answer("stopped", "It begins"))
		b.checkProblems(s.base)
	})
	t.Run("with the keyboard alone conversations are begun, found, renamed, deleted and brought back", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "Brass wheels")
		b.waitVisible(answer("done", "You said Brass wheels"))
		b.do(chromedp.Focus(chromedp.CSS("h1")))
		b.tabTo("New chat")
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(chromedp.CSS(".exchange")))
		b.write("Punched cards")
		b.chord(kb.Enter, chromedp.ModifierShift)
		b.key("of paper")
		b.key(kb.Enter)
		b.waitVisible(answer("done", "You said Punched cards"), `//*[@class="said" and contains(., "of paper")]`)
		b.keyOn(`//input[@type="search"]`, "WHEELS")
		b.do(chromedp.WaitNotPresent(`//nav//a[contains(., "Punched cards")]`))
		b.tabTo("Brass wheels")
		b.key(kb.Enter)
		b.waitVisible(answer("done", "You said Brass wheels"))
		menu := `//button[@aria-haspopup="menu" and contains(@aria-label, "Brass wheels")]`
		b.keyOn(menu, kb.Enter)
		b.waitVisible(choice("Rename"))
		b.key(kb.Enter)
		b.waitVisible(`//dialog//input`)
		b.do(chromedp.SendKeys(`//dialog//input`, "Brass wheels, second order"))
		b.click(`//dialog//button[.="Save"]`)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		b.waitVisible(`//nav//a[contains(., "second order")]`)
		b.eventually("1", func() string { // a menu does not open again at once
			b.keyOn(menu, kb.Enter)
			return fmt.Sprint(read(b, chromedp.Evaluate[int](`document.querySelectorAll("[role=menu]").length`)))
		})
		b.waitVisible(choice("Delete"))
		b.run(`Object.defineProperty(IDBTransaction.prototype, "oncomplete", { set() {} })`) // nothing is said to be stored any more
		b.key("d", kb.Enter)
		b.do(chromedp.WaitNotPresent(`//nav//a[contains(., "second order")]`), chromedp.Focus(chromedp.CSS("h1")))
		b.chord("z", chromedp.ModifierCtrl)
		b.waitVisible(answer("done", "You said Brass wheels"), `//nav//a[contains(., "second order")]`)
		b.keyOn(menu, kb.Enter)
		b.waitVisible(choice("Delete"))
		b.key("d", kb.Enter)
		b.do(chromedp.WaitNotPresent(`//nav//a[contains(., "second order")]`))
		b.click(`//nav//a[@href="/console/people"]`)
		b.waitConsole("People")
		b.click(button("Undo"))
		b.do(chromedp.WaitNotPresent(button("Undo")))
		must.Is(t, s.base+"/console/people", read(b, chromedp.Location()))
		b.click(`//nav//a[@href="/console/chat"]`)
		b.waitVisible(`//nav//a[contains(., "second order")]`)
		b.checkProblems(s.base)
	})
	t.Run("two tabs with one conversation add to it, and neither loses what the other has", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "First")
		b.waitVisible(answer("done", "You said First"))
		other := b.newTab()
		other.do(chromedp.Navigate(read(b, chromedp.Location())))
		other.waitVisible(answer("done", "You said First"))
		say(b, "This is held")
		b.waitVisible(answer("running", "Half of it."))
		other.waitVisible(answer("running", "Half of it."), `//p[contains(., "Another tab is being given an answer")]`)
		close(held)
		other.waitVisible(answer("done", "And the rest."))
		say(other, "From the other")
		b.waitVisible(answer("done", "You said From the other"))
		say(b, "And back")
		other.waitVisible(answer("done", "You said And back"))
		for _, one := range []*tab{b, other} {
			one.do(chromedp.Reload())
			one.waitVisible(answer("done", "You said And back"))
			one.checkText("You said First", "And the rest.", "You said From the other")
		}
		b.checkProblems(s.base)
	})
	t.Run("damaged and older records do not break the page", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "Whole")
		b.eventually("done", func() string { return read(b, chromedp.Evaluate[string](states, chromedp.EvalAwaitPromise)) })
		read(b, chromedp.Evaluate[int](`new Promise((resolve) => {
			indexedDB.open("collab-chats").onsuccess = ({ target: { result: db } }) => {
				const t = db.transaction(["conversations", "exchanges"], "readwrite"), chats = t.objectStore("conversations"), all = t.objectStore("exchanges")
				chats.getAll().onsuccess = ({ target: { result: [c] } }) => {
					chats.put({ ...c, id: "older", form: 0, title: undefined })
					chats.put({ owner: c.owner, id: "empty" })
					all.put({ owner: c.owner, conversation: c.id, at: 1, id: "x", form: 1, message: "m", answer: { state: "done", model: "m", parts: [{ type: "text" }] } })
					all.put({ owner: c.owner, conversation: c.id, at: "soon", id: {}.x ?? "y" })
				}
				t.oncomplete = () => (db.close(), resolve(0))
			}
		})`, chromedp.EvalAwaitPromise))
		b.do(chromedp.Reload())
		b.waitVisible(answer("done", "You said Whole"))
		must.Is(t, 1, read(b, chromedp.Evaluate[int](`document.querySelectorAll(".talks li").length`)))
		b.checkProblems(s.base)
		b.do(chromedp.Navigate(s.base+"/console/chat?c=older"), chromedp.WaitVisible(`//p[contains(., "no such conversation on this device")]`))
		if version := read(b, chromedp.Evaluate[int](`new Promise((resolve) => {
			indexedDB.deleteDatabase("collab-chats").onsuccess = () => {
				indexedDB.open("collab-chats", 7).onsuccess = ({ target: { result } }) => resolve(result.version)
			}
		})`, chromedp.EvalAwaitPromise)); version != 7 {
			t.Fatalf("the database has version %d", version)
		}
		b.do(chromedp.Navigate(s.base + "/console/chat"))
		b.waitVisible(`//*[@role="alert" and contains(., "does not keep conversations")]`)
		say(b, "Still here")
		b.waitVisible(answer("done", "You said Still here"))
	})
	t.Run("signing out, and another person's sign-in, remove what the device keeps", func(t *testing.T) {
		kept := func(b *tab) string {
			return read(b, chromedp.Evaluate[string](`indexedDB.databases().then((all) => all.map((d) => d.name) + Object.keys(sessionStorage).filter((k) => k.includes("chat")))`, chromedp.EvalAwaitPromise))
		}
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		say(b, "A secret")
		b.waitVisible(answer("done", "You said A secret"))
		b.write("A draft")
		b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(button("Sign out")))
		b.waitConsole("You are signed out")
		must.Is(t, "", kept(b))
		b.do(chromedp.Navigate(s.base + "/console"))
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.do(chromedp.Navigate(s.base + "/console/chat"))
		say(b, "Another secret")
		b.waitVisible(answer("done", "You said Another secret"))
		s.signIn("charles@collab.example", "Analytical Engines", "member")
		b.do(chromedp.Navigate(s.base + "/console/sign-in"))
		b.choose("Charles")
		b.choose("Analytical Engines")
		b.press("Sign in")
		b.waitConsole("Analytical Engines")
		b.eventually("", func() string { return kept(b) })
	})
	t.Run("a VIEWER and an organisation without a plan are told why there is no chat", func(t *testing.T) {
		s.signIn("vera@collab.example", "Analytical Engines", "viewer")
		s.signIn("nora@collab.example", "Without", "")
		for account, c := range map[string]struct{ organisation, says string }{"Vera": {"Analytical Engines", "VIEWER has read-only access"}, "Nora": {"Without", "no tokens for chats"}} {
			b := openTab(t)
			b.enterConsole(s, account, c.organisation)
			b.do(chromedp.Navigate(s.base + "/console/chat"))
			b.waitVisible(fmt.Sprintf(`//p[contains(., %q)]`, c.says))
			b.do(chromedp.WaitNotPresent(`//textarea`))
			if account == "Nora" {
				b.waitVisible(`//main//a[@href="/console/billing"]`)
			}
		}
	})
	t.Run("the page is accessible, with dialogs open, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/chat", "Chat")
		b.axe("new")
		say(b, "Show me code")
		b.waitVisible(answer("done", "tokens in"))
		say(b, "Now fail")
		b.waitVisible(answer("failed", "overloaded"))
		b.axe("conversation")
		b.click(button("Instructions"))
		b.waitVisible(`//dialog//textarea`)
		b.axe("instructions")
		b.closeDialog()
		b.enterOn("Acts on “Show me code”")
		b.waitVisible(choice("Rename"))
		b.key(kb.Enter)
		b.waitVisible(`//dialog//input`)
		b.axe("rename")
	})
	t.Run("a long answer is painted in little time", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/chat", "Chat")
		var text strings.Builder
		for i := 0; text.Len() < 30_000; i++ {
			fmt.Fprintf(&text, "## Part %d\n\nSome **words** on `wheels` and [cards](https://example.com/%d), of which there are many.\n\n- one\n- two\n\n```go\nfor i := range %d {\n}\n```\n\n", i, i, i)
		}
		models.SetScripts(provider.Script{provider.Text(strings.SplitAfter(text.String(), " ")...)})
		b.run(`window.frames_ = []; { let last = performance.now(); const tick = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(tick) }; requestAnimationFrame(tick) }
			window.long_ = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => long_.push(e.duration))).observe({ type: "longtask" })`)
		began := time.Now()
		say(b, "At length")
		b.waitVisible(answer("done", "tokens in"))
		got := read(b, chromedp.Evaluate[[]float64](`[frames_.length, Math.max(0, ...long_), long_.length]`))
		t.Logf("%d characters took %v and %.0f frames, of which %.0f had a task of over 50 ms, the longest %.0f ms", text.Len(), time.Since(began), got[0], got[2], got[1])
	})
}

// states is a script that returns the states of the stored responses with a text.
const states = `new Promise((resolve) => {
	indexedDB.open("collab-chats").onsuccess = ({ target: { result: db } }) => {
		db.transaction("exchanges").objectStore("exchanges").getAll().onsuccess = ({ target: { result } }) => {
			db.close()
			resolve(result.filter((e) => e.answer.parts.length > 0).map((e) => e.answer.state).sort().join(" "))
		}
	}
})`
