//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

func TestConsoleFrame(t *testing.T) {
	s, as := startOwned(t)
	s.call("POST", "/tasks", as, map[string]any{"title": "Translate Note G"}, http.StatusCreated)
	b := openWithoutPolicy(t)
	b.resize(1280, 800, "light")
	b.enterConsole(s, "Ada", "Analytical Engines")
	open := chromedp.CSS("#pages:popover-open")
	active := func() string {
		t.Helper()
		return read(b, chromedp.Evaluate[string](`document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.trim()`))
	}

	t.Run("on a wide screen the pages are beside the page, and that of the address is marked", func(t *testing.T) {
		b.t = t
		b.waitVisible(`//nav[@aria-label="Pages"]//ul[@aria-labelledby="group-Work"]//a[@aria-current="page" and normalize-space()="Home"]`)
		b.click(`//nav[@aria-label="Pages"]//a[normalize-space()="Tasks"]`)
		b.waitConsole("Tasks")
		b.waitVisible(`//nav//a[@aria-current="page" and normalize-space()="Tasks"]`)
		b.do(chromedp.WaitNotPresent(`//nav//a[@aria-current="page" and normalize-space()="Home"]`))
		must.Is(t, "main", active())
		if !read(b, chromedp.Evaluate[bool](`{
			const waits = document.querySelector("main").appendChild(document.createElement("p"))
			waits.className = "placeholder"
			getComputedStyle(waits).backgroundColor !== getComputedStyle(document.body).backgroundColor && (waits.remove(), true)
		}`)) {
			t.Error("what is being loaded cannot be seen on the page")
		}
	})
	t.Run("on a narrow one a menu has them, by the keyboard too", func(t *testing.T) {
		b.t = t
		b.resize(320, 700, "light")
		b.do(chromedp.Reload())
		b.waitConsole("Tasks")
		b.keyOn(`//button[@aria-label="Pages"]`, kb.Enter)
		b.do(chromedp.WaitVisible(open))
		b.key(kb.Escape)
		b.do(chromedp.WaitNotPresent(open))
		must.Is(t, "Pages", active())
		b.key(kb.Enter)
		b.do(chromedp.WaitVisible(open))
		b.tabTo("Files")
		b.key(kb.Enter)
		b.waitConsole("Files")
		b.do(chromedp.WaitNotPresent(open))
		must.Is(t, "main", active())
	})
	t.Run("the open menu is accessible, and a wider screen shows it beside the page", func(t *testing.T) {
		b.t = t
		for _, colours := range []string{"light", "dark"} {
			b.resize(320, 700, colours)
			b.do(chromedp.WaitReady(chromedp.CSS("#pages[popover]")), chromedp.Click(`//button[@aria-label="Pages"]`), chromedp.WaitVisible(open))
			b.screenshot("pages-320-" + colours)
			b.runAxe("the open menu in " + colours)
			b.resize(1280, 800, colours)
			b.do(chromedp.WaitVisible(chromedp.CSS("#pages:not([popover])")))
		}
	})
	const dialog = `//dialog[@open and contains(., "Go to")]`
	t.Run("who belongs to no organisation is told so by each page, but the first and the sessions", func(t *testing.T) {
		must.Do(collabd.IdentityToken(s.base, "nora@collab.example", "", "", "")).Or(t)
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.do(chromedp.Navigate(s.base + "/console/sign-in?to=/console/tasks"))
		b.choose("Nora")
		b.choose("–")
		b.press("Sign in")
		for page, says := range map[string]string{
			"Tasks": "You belong to no organisation yet", "Chat": "You belong to no organisation yet", "Home": "You are signed in and belong to no organisation yet",
		} {
			b.click(fmt.Sprintf(`//nav//a[normalize-space()=%q]`, page))
			b.waitConsole(page)
			b.waitVisible(fmt.Sprintf(`//p[starts-with(., %q)]`, says))
		}
		b.do(chromedp.Navigate(s.base+"/console/sessions"), chromedp.WaitVisible(`//*[@class="badge" and .="This browser"]`))
	})
	t.Run("the palette opens a task by its title, by the pointer too, and says what it does not find", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Click(chromedp.CSS("button.find")))
		b.waitVisible(dialog)
		b.axe("palette")
		b.do(chromedp.Focus(chromedp.CSS(`dialog [role="combobox"]`)))
		b.key("z", "q", "z")
		b.waitVisible(`//*[@role="status" and contains(., "Nothing has this name")]`)
		b.key(kb.Backspace, kb.Backspace, kb.Backspace, "n", "o", "t", "e", " ", "g")
		b.click(`//*[@role="option" and normalize-space()="Translate Note G"]`)
		b.waitConsole("Tasks")
		b.waitVisible(`//dialog[@open]//h2[.="Translate Note G"]`)
		b.key(kb.Escape)
		b.do(chromedp.WaitNotPresent(`//dialog[@open]`))
	})
	t.Run("the palette finds tasks, files, memories, workspaces and people by keyboard, and cancels a search for another text", func(t *testing.T) {
		b.t = t
		s.store(as, "reports/Quarterly Plan.md", "x", "text/markdown")
		s.call("PUT", "/sync/memory/org", as, map[string]any{"content": "x"}, http.StatusOK)
		team := decode[record](t, s.call("POST", "/teams", as, map[string]any{"name": "Design"}, http.StatusCreated))
		s.call("POST", "/workspaces", as, map[string]any{"name": "Brass wheels", "teamId": team.ID}, http.StatusCreated)
		s.call("POST", "/tasks", as, map[string]any{"title": "Oil the ångström mill"}, http.StatusCreated)
		for range 101 {
			s.call("POST", "/tasks", as, map[string]any{"title": "Turn the crank"}, http.StatusCreated)
		}
		b.run(`{
			const real = fetch
			let refused = false
			window.fetch = (address, init) => {
				if (String(address).includes("/sync/files?search=QU&")) return new Promise((_, reject) => (window.held = init.signal, init.signal.addEventListener("abort", () => reject(new Error("cancelled")))))
				if (refused || !String(address).includes("/sync/files?search=QUARTERLY")) return real(address, init)
				refused = true
				return Promise.resolve(` + refusedBusy + `)
			}
		}`)
		find := func(text string) {
			t.Helper()
			b.chord("k", chromedp.ModifierCtrl)
			b.waitVisible(dialog)
			b.key(strings.Split(text, "")...)
		}
		active := func(text string) string {
			return fmt.Sprintf(`//*[@role="option" and @aria-selected="true" and normalize-space()=%q]`, text)
		}
		goTo := func(text, option, heading string) {
			t.Helper()
			find(text)
			b.waitVisible(active(option))
			b.key(kb.Enter)
			b.waitConsole(heading)
		}
		find("QU")
		b.eventually("false", func() string { return read(b, chromedp.Evaluate[string](`String(window.held?.aborted)`)) })
		b.key(strings.Split("ARTERLY", "")...)
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "Loading files failed") and contains(., "request-1")]`)
		if !read(b, chromedp.Evaluate[bool](`window.held.aborted`)) {
			t.Error("the search for another text goes on")
		}
		b.tabTo("Try again")
		b.key(kb.Enter)
		b.waitVisible(active("Quarterly Plan.mdreports"))
		b.do(chromedp.WaitNotPresent(`//dialog//*[@role="alert"]`))
		b.axe("palette-found")
		b.do(chromedp.Focus(chromedp.CSS(`dialog [role="combobox"]`)))
		b.key(kb.Enter)
		b.waitConsole("Files")
		b.waitVisible(`//h2[.="Quarterly Plan.md"]`)
		goTo("org-mem", "org-memory.md", "Memories")
		goTo("wheels brass", "Brass wheels", "Teams")
		b.waitVisible(`//dialog[@open]//h2[.="Brass wheels"]`)
		b.closeDialog()
		goTo("MILL ÅNG", "Oil the ångström mill", "Tasks")
		b.waitVisible(`//dialog[@open]//h2[.="Oil the ångström mill"]`)
		b.closeDialog()
		goTo("ada@", "Adaada@collab.example", "People")
		b.load(s.base+"/console/tasks", "Tasks")
	})
	t.Run("the palette opens by its keys, finds a page, and gives the focus back", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Reload())
		b.waitConsole("Tasks")
		b.do(chromedp.Focus(`//nav//a[normalize-space()="Files"]`))
		b.chord("k", chromedp.ModifierCtrl)
		b.waitVisible(dialog, `//*[@role="option" and @aria-selected="true" and normalize-space()="Home"]`)
		b.closeDialog()
		must.Is(t, "Files", active())
		b.chord("k", chromedp.ModifierCtrl)
		b.waitVisible(dialog)
		b.key(kb.ArrowDown)
		b.waitVisible(`//*[@role="option" and @aria-selected="true" and normalize-space()="Tasks"]`)
		if !read(b, chromedp.Evaluate[bool](`document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).textContent === "Tasks"`)) {
			t.Error("the active option is not that of the field")
		}
		b.key("m", "e", "m", "o")
		b.waitVisible(`//*[@role="option" and @aria-selected="true" and normalize-space()="Memories"]`)
		b.key(kb.Enter)
		b.waitConsole("Memories")
		b.do(chromedp.WaitNotPresent(dialog))
		b.checkProblems(s.base, icon)
	})
}
