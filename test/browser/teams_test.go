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

func TestTeamsPage(t *testing.T) {
	s, as := startOwned(t)
	s.grant(as, "PREMIUM")
	asBen := bearer(s.signIn("ben@collab.example", "Analytical Engines", "member").Token)
	s.signIn("vera@collab.example", "Analytical Engines", "viewer")
	type record struct{ ID, Name, TeamID string }
	workspaces := func() []record {
		t.Helper()
		return decode[[]record](t, s.call("GET", "/workspaces", as, nil, http.StatusOK))
	}
	order := func() string {
		var names []string
		for _, w := range workspaces() {
			names = append(names, w.Name)
		}
		return strings.Join(names, " ")
	}
	teamOf := func(workspace string) string {
		for _, w := range workspaces() {
			if w.Name == workspace {
				return w.TeamID
			}
		}
		return "none"
	}
	add := func(path, as string, body map[string]any) record {
		t.Helper()
		return decode[record](t, s.call("POST", path, as, body, http.StatusCreated))
	}
	setOrder := func(order ...record) {
		t.Helper()
		var ids []string
		for _, w := range order {
			ids = append(ids, w.ID)
		}
		s.call("PUT", "/workspaces/order", as, map[string]any{"order": ids}, http.StatusOK)
	}
	open := func(t *testing.T, person, address string) *tab {
		t.Helper()
		return openPage(t, s, person, "/console/teams"+address, "Teams")
	}
	row := func(name string) string { return fmt.Sprintf(`//a[@data-row and .=%q]`, name) }
	const toAdd = `//input[@aria-label="Member of the organisation to add"]`
	said := func(text string) string { return fmt.Sprintf(`//*[@id="said" and contains(., %q)]`, text) }
	// retype replaces the text of the dialog's first field with keys.
	retype := func(b *tab, keys ...string) {
		b.t.Helper()
		b.run(`document.querySelector("dialog input").focus(); document.querySelector("dialog input").select()`)
		b.key(keys...)
	}
	titlesOf := func(b *tab) string {
		return read(b, chromedp.Evaluate[string](`[...document.querySelectorAll("a[data-row]")].map((a) => a.textContent).join(" ")`))
	}

	t.Run("without teams the page says what they are, and with the keyboard they and workspaces are made, put in order and changed", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.waitVisible(`//p[starts-with(., "There are no teams yet")]`, `//button[starts-with(., "Begin with a team of everybody")]`)
		focused := func() string {
			return read(b, chromedp.Evaluate[string](`document.activeElement.labels?.[0]?.textContent ?? ""`))
		}
		b.keyOn(button("New team…"), kb.Enter)
		b.waitVisible(`//dialog//h2[.="New team"]`)
		b.eventually("Name", focused)
		b.key("Design", kb.Enter)
		b.waitVisible(`//h2[starts-with(., "Design")]`, `//p[starts-with(., "This team has no workspaces yet")]`)
		for _, name := range []string{"one", "two", "three"} {
			b.keyOn(button("New workspace…"), kb.Enter)
			b.eventually("Name", focused)
			b.key(name, kb.Enter)
			b.waitVisible(row(name))
		}
		b.focus("three")
		b.chord(kb.ArrowUp, chromedp.ModifierAlt)
		b.waitVisible(said("“three” moved to place 2 of 3, after “one”"))
		b.chord(kb.ArrowUp, chromedp.ModifierAlt)
		b.waitVisible(said("“three” moved to place 1 of 3"))
		b.eventually("three one two", order)
		b.focus("three")
		b.key("m")
		b.waitVisible(choice("Move to bottom"))
		b.key(kb.End, kb.ArrowUp, kb.Enter)
		b.eventually("one two three", order)
		b.focus("two")
		b.key(kb.Enter)
		b.waitVisible(`//dialog//h2[.="two"]`)
		b.tabTo("Description")
		b.key("What is second")
		b.chord(kb.Enter, chromedp.ModifierCtrl)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		b.focus("two")
		b.key(kb.Enter)
		b.eventually("What is second", func() string { return read(b, chromedp.Value(chromedp.CSS("dialog textarea"))) })
		b.checkProblems(s.base, icon)
	})
	design := decode[[]record](t, s.call("GET", "/teams", as, nil, http.StatusOK))[0]
	there := workspaces()
	one, two, three := there[0], there[1], there[2]
	research := add("/teams", as, map[string]any{"name": "Research"})

	t.Run("workspaces are dragged, moved to another team and back, and deleted after their name was typed", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.waitVisible(row("one"), row("three"))
		at := read(b, chromedp.Evaluate[[]float64](`["three", "one"].flatMap((name) => {
			const box = [...document.querySelectorAll("a[data-row]")].find((a) => a.textContent === name).closest("li").getBoundingClientRect()
			return [box.x + 12, box.y + 15]
		})`))
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0]+20, at[1]-20, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[2], at[3], chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, at[2], at[3], chromedp.ButtonLeft))
		b.eventually("three one two", order)
		setOrder(one, two, three)

		b.do(chromedp.Navigate(s.base + "/console/teams?workspace=" + two.ID))
		b.do(chromedp.SetValue(chromedp.CSS("dialog select"), research.ID))
		b.waitVisible(`//dialog//p[starts-with(., "Who sees the workspace changes with its team")]`)
		b.click(`//dialog//button[.="Save"]`)
		b.waitVisible(`//*[@role="status" and contains(., "“two” was moved to Research")]`)
		b.eventually(research.ID, func() string { return teamOf("two") })
		b.click(button("Undo"))
		b.eventually(design.ID, func() string { return teamOf("two") })

		last := add("/workspaces", as, map[string]any{"name": "last", "teamId": research.ID})
		b.do(chromedp.Navigate(s.base + "/console/teams?team=" + research.ID))
		b.waitVisible(row("last"))
		b.click(button("Delete…"))
		b.waitVisible(`//dialog//p[starts-with(., "The team has 1 workspace.")]`)
		b.closeDialog()
		b.focus("last")
		b.key(kb.Delete)
		b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "lost\r"))
		b.waitVisible(`//dialog//*[@role="alert" and .="That is not its name."]`)
		b.run(`fetch = ((real) => async (address, init) => {
			const response = await real(address, init)
			if (init?.method !== "DELETE") return response
			fetch = real
			throw new TypeError("the response was lost")
		})(fetch)`)
		retype(b, "last", kb.Enter)
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "cannot be reached")]`)
		b.checkProblems(s.base, icon)
		b.click(`//dialog//button[.="Try again"]`)
		b.waitVisible(`//p[starts-with(., "This team has no workspaces yet")]`)
		s.call("GET", "/workspaces/"+last.ID, as, nil, http.StatusNotFound)
	})
	t.Run("moves of two tabs are both kept, and one beside a workspace that is gone is refused and said", func(t *testing.T) {
		b := open(t, "Ada", "?team="+design.ID)
		b.waitVisible(row("one"))
		other := b.newTab()
		other.do(chromedp.Navigate(s.base + "/console/teams"))
		other.focus("three")
		other.chord(kb.ArrowUp, chromedp.ModifierAlt)
		other.chord(kb.ArrowUp, chromedp.ModifierAlt)
		other.eventually("three one two", order)
		must.Is(t, "one two three", titlesOf(b))
		b.focus("one")
		b.chord(kb.ArrowDown, chromedp.ModifierAlt)
		b.eventually("three two one", order)
		b.waitVisible(`(//a[@data-row])[1][.="three"]`)
		gone := add("/workspaces", as, map[string]any{"name": "gone", "teamId": design.ID})
		b.do(chromedp.Reload())
		b.focus("one")
		s.call("DELETE", "/workspaces/"+gone.ID, as, nil, http.StatusOK)
		b.chord(kb.ArrowDown, chromedp.ModifierAlt)
		b.waitVisible(`//*[@role="alert" and contains(., "Moving “one” failed") and contains(., "is not there any more")]`)
		b.do(chromedp.WaitNotPresent(row("gone")))
		must.Is(t, "three two one", order())
		setOrder(one, two, three)
	})
	t.Run("a 503 leaves the order as it was, and the move can be tried again", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.busyOnce("/workspaces/order")
		b.do(chromedp.Reload())
		b.focus("three")
		b.chord(kb.ArrowUp, chromedp.ModifierAlt)
		b.waitVisible(`//*[@role="alert" and contains(., "Moving “three” failed") and contains(., "request-1") and contains(., "wait 2 seconds")]`, `(//a[@data-row])[3][.="three"]`)
		b.click(button("Try again"))
		b.eventually("one three two", order)
		setOrder(one, two, three)
	})
	t.Run("two changes of a name are both shown, and a team that has got a workspace is not deleted", func(t *testing.T) {
		b := open(t, "Ada", "?team="+research.ID+"&edit=team")
		for i, keep := range []string{"Save yours", "Take theirs"} {
			mine, theirs := fmt.Sprint("Mine ", i), fmt.Sprint("Theirs ", i)
			b.do(chromedp.WaitVisible(chromedp.CSS("dialog input")))
			retype(b, mine)
			s.call("PATCH", "/teams/"+research.ID, as, map[string]string{"name": theirs}, http.StatusOK)
			b.click(`//dialog//button[.="Save"]`)
			b.waitVisible(fmt.Sprintf(`//dialog//*[@role="alert" and contains(., "name: %s")]`, theirs))
			if i == 0 {
				b.run(`fetch = ((real) => async (address, init) => {
					if (init?.method !== "PATCH") return real(address, init)
					fetch = real
					return ` + refusedBusy + `
				})(fetch)`)
			}
			b.click(button(keep))
			want := []string{mine, theirs}[i]
			if i == 0 {
				b.click(`//dialog//button[.="Try again"]`) // which asks no second time
			} else {
				b.eventually(want, func() string { return read(b, chromedp.Value(chromedp.CSS("dialog input"))) })
				b.click(`//dialog//button[.="Save"]`)
			}
			b.waitVisible(fmt.Sprintf(`//h2[starts-with(., %q)]`, want))
			b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
			must.Is(t, want, decode[record](t, s.call("GET", "/teams/"+research.ID, as, nil, http.StatusOK)).Name)
			b.click(button("Edit…"))
		}
		b.closeDialog()
		b.click(button("Delete…"))
		late := add("/workspaces", as, map[string]any{"name": "late", "teamId": research.ID})
		b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "Theirs 1\r"))
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "still has workspaces")]`, `//dialog//p[starts-with(., "The team has 1 workspace.")]`)
		s.call("DELETE", "/workspaces/"+late.ID, as, nil, http.StatusOK)
		b.do(chromedp.Reload())
		b.do(chromedp.Click(button("Delete…")), chromedp.SendKeys(chromedp.CSS("dialog input"), "Theirs 1\r"))
		b.waitVisible(said("“Theirs 1” is deleted"))
		s.call("GET", "/teams/"+research.ID, as, nil, http.StatusNotFound)
	})
	t.Run("members are added and removed, removing is undone, and who is removed sees the team no more at once", func(t *testing.T) {
		b, ben := open(t, "Ada", "?team="+design.ID), open(t, "Ben", "")
		ben.waitVisible(`//p[starts-with(., "There are no teams yet")]`)
		belongs := func() string {
			return fmt.Sprint(strings.Contains(string(s.call("GET", "/teams", asBen, nil, http.StatusOK)), design.ID))
		}
		b.keyOn(toAdd, "z", "z", kb.Enter)
		b.waitVisible(`//*[@role="alert" and starts-with(., "No other member")]`)
		b.key(kb.Backspace, kb.Backspace, "B", "E", "N")
		b.do(chromedp.WaitNotPresent(`//*[@role="alert"]`))
		b.waitVisible(`//*[@role="option" and @aria-selected="true" and contains(., "Ben")]`)
		b.key(kb.Escape)
		b.do(chromedp.WaitNotPresent(`//*[@role="listbox"]`))
		b.key(kb.ArrowDown)
		b.waitVisible(`//*[@role="option" and @aria-selected="true" and contains(., "Ben")]`)
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(`//*[@role="listbox"]`))
		b.key(kb.Enter)
		b.waitVisible(`//li[@data-member="ben@collab.example"]`)
		ben.waitVisible(`//nav[@aria-label="Teams"]//a[starts-with(., "Design")]`) // after an event of the feed
		b.click(`//button[@aria-label="Remove Ben"]`)
		b.waitVisible(`//*[@role="status" and contains(., "Ben was removed from Design")]`)
		b.do(chromedp.WaitNotPresent(`//li[@data-member="ben@collab.example"]`))
		b.eventually("false", belongs)
		ben.do(chromedp.WaitNotPresent(`//nav[@aria-label="Teams"]//a[starts-with(., "Design")]`))
		b.click(button("Undo"))
		b.waitVisible(`//li[@data-member="ben@collab.example"]`)
		b.eventually("true", belongs)
		b.checkProblems(s.base, icon)
	})
	t.Run("a member who did not make the team cannot delete it, and can leave it", func(t *testing.T) {
		b := open(t, "Ben", "?team="+design.ID)
		b.waitVisible(`//p[contains(., "Its creator, or an owner or admin, can delete it")]`, row("one"))
		b.do(chromedp.WaitNotPresent(button("Delete…")))
		b.enterOn("Leave…")
		b.waitVisible(`//dialog`)
		b.enterOn("Leave")
		b.waitVisible(`//p[starts-with(., "There are no teams yet")]`)
		b.do(chromedp.Navigate(s.base + "/console/teams?team=" + design.ID))
		b.waitVisible(`//p[starts-with(., "There is no such team")]`)
	})
	ofBen := add("/teams", asBen, map[string]any{"name": "Ben’s"})
	add("/workspaces", asBen, map[string]any{"name": "four", "teamId": ofBen.ID})
	t.Run("an owner sees the teams of others by their workspaces", func(t *testing.T) {
		b := open(t, "Ada", "?team="+ofBen.ID)
		b.waitVisible(`//nav//h2[.="Other teams"]`, `//h2[starts-with(., "Ben’s")]`, row("four"), button("Delete…"))
		b.do(chromedp.WaitNotPresent(button("Leave…")))
	})
	s.call("POST", "/auth/seed-onboarding", as, nil, http.StatusOK)
	t.Run("a viewer reads, and is offered no change", func(t *testing.T) {
		b := open(t, "Vera", "")
		b.waitVisible(row("Shared Workspace"), `//p[starts-with(., "Viewers see")]`)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("[data-grip]")), chromedp.WaitNotPresent(button("New team…")), chromedp.WaitNotPresent(button("New workspace…")))
		b.focus("Shared Workspace")
		b.key(kb.Enter)
		b.waitVisible(`//dialog//button[.="Close"]`)
		b.do(chromedp.WaitNotPresent(`//dialog//button[.="Save"]`), chromedp.WaitNotPresent(`//dialog//button[.="Delete…"]`))
		b.load(s.base+"/console/teams?new=team", "Teams")
		b.waitVisible(row("Shared Workspace"))
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
	})
	t.Run("the page is accessible, with dialogs open, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/teams", "Teams")
		for name, address := range map[string]string{
			"teams": "", "team": "?team=" + design.ID, "new": "?new=workspace", "edit": "?team=" + design.ID + "&edit=team", "workspace": "?workspace=" + one.ID,
		} {
			b.load(s.base+"/console/teams"+address, "Teams")
			b.waitVisible(row("one"))
			b.axe(name)
		}
		b.load(s.base+"/console/teams?team="+design.ID, "Teams")
		b.do(chromedp.Focus(toAdd))
		b.waitVisible(`//*[@role="option"]`)
		b.axe("adding")
		b.do(chromedp.Navigate(s.base + "/console/teams?team=" + ofBen.ID))
		b.focus("four")
		b.key(kb.Delete)
		b.waitVisible(`//dialog//p[contains(., "cannot be undone")]`)
		b.axe("delete")
		b.do(chromedp.Navigate(s.base + "/console/teams?team=" + design.ID))
		b.enterOn("Leave…")
		b.waitVisible(`//dialog`)
		b.axe("leave")
		b.do(chromedp.Navigate(s.base + "/console/teams?edit=team&team=" + design.ID))
		b.tabTo("Name")
		b.key("Mine")
		s.call("PATCH", "/teams/"+design.ID, as, map[string]string{"name": "Theirs"}, http.StatusOK)
		b.enterOn("Save")
		b.waitVisible(button("Take theirs"))
		b.axe("changed")
	})
}
