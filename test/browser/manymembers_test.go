//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

func TestOfManyMembers(t *testing.T) {
	c := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_RATE_LIMITS=off")
	s := &server{t, c.URL}
	as := bearer(s.signIn("ada@collab.example", "Analytical Engines", "").Token)
	s.grant(as, "PREMIUM")
	const many, numbers = 600, "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?) "
	execute(t, c, "INSERT INTO users (id, provider_id, name, email, email_key, avatar_url, created_at, updated_at, is_full, seen_at, seen_rank, seen_message) "+numbers+
		"SELECT printf('00000001-0000-7000-8000-%012d', n), 'many_' || n, printf('Person %03d', n), printf('person-%03d@collab.example', n), printf('person-%03d@collab.example', n), '', 1, 1, true, 1, 1, '' FROM s", many)
	execute(t, c, "INSERT INTO memberships (org_id, user_id, role, onboarding_completed, joined_at, used_at, provider_role, role_set_here, seen_at, seen_rank, seen_message) "+numbers+
		"SELECT (SELECT org_id FROM memberships), printf('00000001-0000-7000-8000-%012d', n), 'MEMBER', true, n, 0, '', false, 0, 0, '' FROM s", many)
	execute(t, c, "UPDATE organisations SET epoch = epoch + 1")
	zelda, dave := bearer(s.signIn("zelda@collab.example", "Analytical Engines", "admin").Token), bearer(s.signIn("dave@collab.example", "Analytical Engines", "member").Token)
	id := s.member(as, "zelda@collab.example").UserID
	first := decode[task](t, s.call("POST", "/tasks", as, map[string]any{"title": "first"}, http.StatusCreated))
	his := decode[task](t, s.call("POST", "/tasks", dave, map[string]any{"title": "his"}, http.StatusCreated))
	s.store(zelda, "report.txt", "x", "text/plain")
	s.call("POST", "/org/invite", zelda, map[string]string{"email": "grace@collab.example", "role": "MEMBER"}, http.StatusCreated)
	s.call("DELETE", "/org/members/"+s.member(as, "dave@collab.example").UserID, as, nil, http.StatusOK)
	team := decode[struct{ ID string }](t, s.call("POST", "/teams", as, map[string]any{"name": "Design"}, http.StatusCreated))
	assignee := func() string {
		return decode[struct{ AssigneeID string }](t, s.call("GET", "/tasks/"+first.ID, as, nil, http.StatusOK)).AssigneeID
	}
	const option = `//*[@role="option" and contains(., %q)]`
	const row = `//button[starts-with(@aria-label, "Assignee of first: Zelda")]`
	field := `//dialog//input[@aria-label="Assignee"]`
	value := func(b *tab, field string) func() string {
		return func() string { return read(b, chromedp.Value(field)) }
	}

	t.Run("an assignee whom the page has not loaded is found, and has the name in list, board and dialog when they are loaded again", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/tasks", "Tasks")
		b.focus("first")
		b.resize(320, 800, "light") // where the menu opens within every screen
		b.key("a")
		b.waitVisible(`//*[@role="listbox"]//p[.="The first 50: type more of the name"]`)
		b.key("zeld")
		b.waitVisible(fmt.Sprintf(option, "Zelda"))
		b.axe("many-assignee")
		b.key(kb.Enter)
		b.eventually(id, assignee)
		b.waitVisible(row)

		b.resize(1280, 800, "light")
		b.clearProblems()
		b.do(chromedp.Reload())
		b.waitVisible(row)
		if asked := b.requested("ids="); len(asked) != 1 {
			t.Errorf("names were asked for by %q", asked)
		}
		b.click(button("Board"))
		b.waitVisible(`//section[@aria-label="To do"]` + row)
		b.do(chromedp.Navigate(s.base + "/console/tasks?task=" + first.ID))
		b.waitVisible(field)
		b.eventually("Zelda", value(b, field))
		b.do(chromedp.Focus(field))
		b.waitVisible(`//dialog//*[@role="option" and .="Nobody"]`)
		b.axe("task-assignee")
		b.key(kb.ArrowDown, kb.ArrowDown)
		b.waitVisible(`//dialog//*[@role="option" and @aria-selected="true"]`)
		b.key(kb.Escape, kb.ArrowDown, kb.Enter) // a list that was closed and opened again has no choice
		b.do(chromedp.WaitNotPresent(`//dialog//*[.="Not saved yet"]`))
		b.eventually("Zelda", value(b, field))
		b.key(kb.Escape)
		b.do(chromedp.WaitNotPresent(chromedp.CSS(`[role="listbox"]`)))
		b.key("person 598")
		b.waitVisible(fmt.Sprintf(`//dialog`+option, "Person 598"))
		b.key(kb.Tab) // the only match is taken
		b.waitVisible(`//dialog//*[.="Not saved yet"]`)
		b.eventually("Person 598", value(b, field))
		b.keyOn(field, "nobody has this")
		b.waitVisible(`//dialog//*[@role="status" and .="Nobody is called this."]`)
		b.key(kb.Escape)
		b.click(`//dialog//button[.="Save"]`)
		b.eventually("00000001-0000-7000-8000-000000000598", assignee)
		b.waitVisible(`//section[@class="history"]//li[contains(., "Zelda → Person 598")]`)
		b.keyOn(field, "person 597")
		b.waitVisible(fmt.Sprintf(`//dialog`+option, "Person 597"))
		b.chord(kb.Enter, chromedp.ModifierCtrl) // saves the only match
		b.eventually("00000001-0000-7000-8000-000000000597", assignee)

		b.do(chromedp.Navigate(s.base + "/console/tasks?task=" + his.ID))
		b.waitVisible(`//section[@class="history"]//b[.="A former member"]`)
		b.do(chromedp.Navigate(s.base + "/console/tasks?assigneeId=00000001-0000-7000-8000-000000000597"))
		const filter = `//input[@role="combobox" and @aria-label="Assignee"]`
		b.waitVisible(filter, `//a[@data-row and .="first"]`)
		b.eventually("Person 597", value(b, filter))
		b.do(chromedp.Focus(filter))
		b.waitVisible(fmt.Sprintf(option, "Nobody"))
		b.key("nobody", kb.Enter)
		b.do(chromedp.WaitNotPresent(`//a[@data-row and .="first"]`))
		b.eventually("?assigneeId=null", func() string { return read(b, chromedp.Evaluate[string](`location.search`)) })
		b.key("any", kb.Enter)
		b.waitVisible(`//a[@data-row and .="first"]`)
		b.checkProblems(s.base, icon)
	})
	t.Run("a search that fails says so beside the field, and is repeated", func(t *testing.T) {
		b := openTab(t)
		b.busyOnce("search=zelda&limit=51")
		b.enterPage(s, "Ada", "/console/tasks?task="+first.ID, "Tasks")
		b.waitVisible(field)
		b.keyOn(field, "zelda")
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "The search failed")]`)
		b.click(`//dialog//*[@role="alert"]//button[.="Try again"]`)
		b.do(chromedp.WaitNotPresent(`//dialog//*[@role="alert"]`))
		b.keyOn(field, "zelda")
		b.waitVisible(fmt.Sprintf(`//dialog`+option, "Zelda"))
	})
	t.Run("files and the audit log name their authors, and the log is filtered by one", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/files?place=shared/artifacts", "Files")
		b.waitVisible(`//*[contains(., "report.txt")]/*[contains(@class, "wide") and .="Zelda"]`)
		b.load(s.base+"/console/audit", "Audit log")
		entry := `//ul[@aria-label="Entries"]/li[contains(normalize-space(.), "Zelda invited grace@collab.example as Member")]`
		b.waitVisible(entry)
		b.do(chromedp.Focus(`//input[@aria-label="Who"]`))
		b.waitVisible(`//*[@role="listbox"]//p[starts-with(., "The first 50")]`)
		b.key(kb.Tab)
		must.Is(t, "SELECT", read(b, chromedp.Evaluate[string](`document.activeElement.tagName`))) // not the list, which is gone then
		b.keyOn(`//input[@aria-label="Who"]`, "zelda")
		b.waitVisible(fmt.Sprintf(option, "Zelda"))
		b.axe("many-actors")
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(`//ul[@aria-label="Entries"]/li[contains(., "removed")]`))
		b.waitVisible(entry)
		b.eventually("?actor="+id, func() string { return read(b, chromedp.Evaluate[string](`location.search`)) })
		b.checkProblems(s.base, icon)
	})
	t.Run("people, teams and the palette find a member whom the page has not loaded", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterPage(s, "Ada", "/console/people", "People")
		b.waitVisible(`//li[@data-member="person-300@collab.example"]`, `//span[.="500 are shown."]`)
		b.keyOn(`//input[@type="search"]`, "ZELDA collab")
		b.waitVisible(`//li[@data-member="zelda@collab.example"]`)
		b.do(chromedp.WaitNotPresent(`//li[@data-member="person-300@collab.example"]`))
		b.axe("many-people")
		b.keyOn(`//li[@data-member="zelda@collab.example"]//select`, "m")
		b.waitVisible(`//*[@id="said" and contains(., "Zelda is Member now")]`)
		b.eventually("MEMBER", value(b, `//li[@data-member="zelda@collab.example"]//select`))
		b.keyOn(`//input[@type="search"]`, " nobody")
		b.waitVisible(`//p[starts-with(., "No member matches.")]`)
		b.do(chromedp.Click(button("Clear the search")), chromedp.Click(button("Show more")))
		b.waitVisible(`//li[@data-member="zelda@collab.example"]`)
		b.do(chromedp.WaitNotPresent(button("Show more")))

		b.do(chromedp.Navigate(s.base + "/console/teams?team=" + team.ID))
		const toAdd = `//input[@aria-label="Member of the organisation to add"]`
		b.waitVisible(toAdd)
		b.keyOn(toAdd, "zelda")
		b.waitVisible(fmt.Sprintf(option, "Zelda"))
		b.axe("many-adding")
		b.key(kb.Enter, kb.Enter)
		b.waitVisible(`//ul[@aria-label="Members of the team"]/li[@data-member="zelda@collab.example"]`)

		b.chord("k", chromedp.ModifierCtrl)
		b.waitVisible(`//dialog//input[@role="combobox"]`)
		b.key("zelda")
		b.waitVisible(fmt.Sprintf(`//dialog`+option, "Zelda"))
		b.checkProblems(s.base, icon)
	})
}
