//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/must"
)

func TestPeoplePage(t *testing.T) {
	s, as := startOwned(t)
	roleOf := func(email string) string { return s.member(as, email).Role }
	row := func(email, rest string) string { return fmt.Sprintf(`//li[@data-member=%q]%s`, email, rest) }

	t.Run("a plan without free seats is named when somebody is invited, and what was typed stays and can be sent again", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/people?invite=1", "People")
		b.waitVisible(`//p[contains(., "The only seat is used (No plan)")]//a[.="Change the plan"]`)
		b.run(`{ const field = document.querySelector("dialog input"); field.value = "x".repeat(253); field.focus(); field.addEventListener("invalid", () => (window.refused = true)) }`)
		call(b, input.ImeSetComposition, input.ImeSetCompositionParams{Text: "ni"})
		call(b, input.InsertText, input.InsertTextParams{Text: "y"})
		must.Is(t, false, read(b, chromedp.Evaluate[bool](`"refused" in window`)))
		b.run(`document.activeElement.select()`)
		call(b, input.InsertText, input.InsertTextParams{Text: "grace@collab.example"})
		b.key(kb.Enter)
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "The plan is No plan")]`)
		must.Is(t, "grace@collab.example", read(b, chromedp.Value(chromedp.CSS("dialog input"))))
		s.grant(as, "PREMIUM")
		b.click(`//dialog` + button("Try again"))
		b.waitVisible(`//dialog//p[contains(., "shown once")]`)
		for _, i := range decode[[]struct{ ID string }](t, s.call("GET", "/org/invites", as, nil, http.StatusOK)) {
			s.call("DELETE", "/org/invite/"+i.ID, as, nil, http.StatusOK)
		}
	})
	s.signIn("ben@collab.example", "Analytical Engines", "member")
	s.signIn("walter@collab.example", "Analytical Engines", "admin")

	t.Run("with the keyboard somebody is invited, and the link is shown once", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/people", "People")
		b.keyOn(button("Invite…"), kb.Enter)
		b.waitVisible(`//dialog//h2[.="Invite somebody"]`)
		b.key("grace@collab.example", kb.Enter)
		b.waitVisible(`//dialog//p[contains(., "shown once")]`)
		link := read(b, chromedp.Value(chromedp.CSS("dialog input")))
		b.closeDialog()
		b.waitVisible(`//ul[@aria-label="Invitations"]//b[.="grace@collab.example"]`)
		b.enterOn("New link for grace@collab.example")
		b.waitVisible(`//dialog//p[contains(., "shown once")]`)
		if again := read(b, chromedp.Value(chromedp.CSS("dialog input"))); again == link || !strings.HasPrefix(again, "http") {
			t.Errorf("after %s the link is %s", link, again)
		}
		b.closeDialog()
		const remove, none = "Delete the invitation of grace@collab.example", `//p[starts-with(., "No invitation is pending")]`
		b.enterOn(remove)
		b.waitVisible(none)
		if left := string(s.call("GET", "/org/invites", as, nil, http.StatusOK)); strings.Contains(left, "grace") {
			t.Errorf("stored are %s", left)
		}
		b.enterOn("Undo")
		b.waitVisible(`//dialog//h2[.="Link for grace@collab.example"]`)
		b.closeDialog()
		b.enterOn(remove)
		b.waitVisible(none)
		b.checkProblems(s.base, icon)
	})
	t.Run("who was invited without a response, and whose invitation was deleted, can be invited again", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/people?invite=1", "People")
		pending := func() []struct{ ID string } {
			return decode[[]struct{ ID string }](t, s.call("GET", "/org/invites", as, nil, http.StatusOK))
		}
		for about, discard := range map[string]func(){
			"on the page": func() { b.enterOn("Delete the invitation of grace@collab.example") },
			"elsewhere": func() {
				s.call("DELETE", "/org/invite/"+pending()[0].ID, as, nil, http.StatusOK)
				b.run(`Date.now = ((real) => () => real() + 6 * 60_000)(Date.now)`)
			},
		} {
			b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "grace@collab.example"))
			b.run(`fetch = ((real) => async (address, init) => {
				const response = await real(address, init)
				if (init?.method !== "POST") return response
				fetch = real
				throw new TypeError("the response was lost")
			})(fetch)`)
			b.key(kb.Enter)
			b.waitVisible(`//dialog//*[@role="alert" and contains(., "cannot be reached")]`)
			b.load(s.base+"/console/people", "People")
			b.waitVisible(`//ul[@aria-label="Invitations"]//b[.="grace@collab.example"]`)
			discard()
			b.eventually("0", func() string { return fmt.Sprint(len(pending())) })
			b.enterOn("Invite…")
			b.waitVisible(`//dialog//h2[.="Invite somebody"]`)
			b.click(`//dialog` + button("Invite"))
			b.waitVisible(`//dialog//p[contains(., "shown once")]`)
			if left := pending(); len(left) != 1 {
				t.Fatalf("deleted %s, the invitation was made again, and stored are %v", about, left)
			}
			s.call("DELETE", "/org/invite/"+pending()[0].ID, as, nil, http.StatusOK)
			b.load(s.base+"/console/people?invite=1", "People")
		}
		b.checkProblems(s.base, icon)
	})
	t.Run("an owner changes roles, the last one stays, and members are found and removed", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/people", "People")
		b.keyOn(row("ben@collab.example", "//select"), "v")
		b.eventually("VIEWER", func() string { return roleOf("ben@collab.example") })
		b.keyOn(row("ada@collab.example", "//select[not(@disabled)]"), "m")
		b.waitVisible(`//dialog`)
		b.enterOn("Change my role")
		b.waitVisible(`//*[@role="alert" and contains(., "last OWNER") and contains(., "Make somebody else one first")]`)
		b.tabTo("Search members")
		b.key("ben")
		b.do(chromedp.WaitNotPresent(row("ada@collab.example", "")))
		b.enterOn("Remove Ben")
		b.waitVisible(`//dialog//li[contains(., "assigned to nobody")]`)
		b.enterOn("Remove")
		b.enterOn("Clear the search")
		b.waitVisible(row("ada@collab.example", ""))
		b.eventually("none", func() string { return roleOf("ben@collab.example") })

		b.click(`//nav//a[.="Home"]`)
		b.waitConsole("Analytical Engines")
		b.click(`//nav//a[.="People"]`)
		b.waitConsole("People")
		b.run(`document.querySelector("input[type=search]").focus(), document.execCommand("insertText", false, "left"), history.back()`)
		b.waitConsole("Analytical Engines")
		must.Is(t, s.base+"/console", read(b, chromedp.Location()))
	})
	t.Run("an admin cannot change roles or remove an owner, and can leave", func(t *testing.T) {
		b := openPage(t, s, "Walter", "/console/people", "People")
		b.waitVisible(row("ada@collab.example", `//span[.="Owner"]`))
		b.do(chromedp.WaitNotPresent(`//main//select`), chromedp.WaitNotPresent(row("ada@collab.example", "//button")))
		b.enterOn("Leave…")
		b.waitVisible(`//dialog`)
		b.enterOn("Leave")
		b.waitConsole("You are not a member any more")
	})
	t.Run("an open page follows the role of its member, and says that the membership has ended", func(t *testing.T) {
		own := s.signIn("mary@collab.example", "Analytical Engines", "member")
		path := "/org/members/" + decode[struct{ User struct{ ID string } }](t, s.call("GET", "/auth/me", bearer(own.Token), nil, http.StatusOK)).User.ID
		b := openPage(t, s, "Mary", "/console/tasks", "Tasks")
		const field = `//input[@data-new]`
		s.call("PATCH", path+"/role", as, map[string]any{"role": "VIEWER"}, http.StatusOK)
		b.keyOn(field, "x", kb.Enter)
		b.waitVisible(`//main//*[@role="status" and contains(., "Your role is Viewer now")]`)
		b.do(chromedp.WaitNotPresent(field))
		s.call("PATCH", path+"/role", as, map[string]any{"role": "MEMBER"}, http.StatusOK)
		b.returnToFront()
		b.do(chromedp.WaitVisible(field), chromedp.WaitNotPresent(`//main//*[@role="status" and contains(., "Your role is")]`))
		must.Is(t, "x", read(b, chromedp.Value(field)))
		s.call("DELETE", path, as, nil, http.StatusOK)
		b.returnToFront()
		b.waitVisible(`//*[@role="alert" and contains(., "You are not a member of Analytical Engines any more")]/p/a[.="Sign in to another organisation"]`)
	})
	t.Run("the page is accessible, with dialogs open, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		for name, address := range map[string]string{"people": "", "invite": "?invite=1"} {
			b.load(s.base+"/console/people"+address, "People")
			b.waitVisible(row("ada@collab.example", ""))
			b.axe(name)
		}
		s.call("POST", "/org/invite", as, map[string]any{"email": "grace@collab.example", "role": "MEMBER"}, http.StatusCreated)
		b.do(chromedp.Navigate(s.base + "/console/people"))
		for name, opens := range map[string]string{"link": "New link for grace@collab.example", "leave": "Leave…"} {
			b.enterOn(opens)
			b.waitVisible(`//dialog`)
			b.axe(name)
			b.closeDialog()
		}
	})
}
