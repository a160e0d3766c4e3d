//go:build browser

package browser

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	_ "modernc.org/sqlite"

	"collab/test/collabd"
	"collab/test/must"
)

// execute executes a statement in the server's database.
func execute(t *testing.T, c *collabd.Server, statement string, args ...any) {
	t.Helper()
	db := must.Do(sql.Open("sqlite", "file:"+filepath.Join(c.Dir, "collab.db")+"?_pragma=busy_timeout(10000)")).Or(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%v in %s", err, statement)
	}
}

// member is what the tests read of a member.
type member struct{ UserID, Name, Email, Role string }

// member returns the member with an address, with the role "none" if there is none.
func (s *server) member(as, email string) member {
	s.t.Helper()
	for _, m := range decode[[]member](s.t, s.call("GET", "/org/members", as, nil, http.StatusOK)) {
		if m.Email == email {
			return m
		}
	}
	return member{Role: "none"}
}

func TestAuditPage(t *testing.T) {
	c := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_RATE_LIMITS=off")
	s := &server{t, c.URL}
	owner := s.signIn("ada@collab.example", "Analytical Engines", "")
	as := bearer(owner.Token)
	open := func(t *testing.T, person, address string) *tab {
		t.Helper()
		return openPage(t, s, person, "/console/audit"+address, "Audit log")
	}
	entry := func(text string) string {
		return fmt.Sprintf(`//ul[@aria-label="Entries"]/li[contains(normalize-space(.), %q)]`, text)
	}
	choose := func(label string) string { return fmt.Sprintf(`//label[starts-with(., %q)]/*`, label) }
	const who = `//input[@aria-label="Who"]`
	// by filters by an actor.
	by := func(b *tab, name string) {
		b.t.Helper()
		b.keyOn(who, name)
		b.waitVisible(fmt.Sprintf(`//*[@role="option" and @aria-selected="true" and contains(., %q)]`, name))
		b.key(kb.Enter)
	}

	t.Run("an empty log says what will be in it, and a filter of it that nothing fits", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.waitVisible(`//p[starts-with(., "Nothing has been recorded yet")]`)
		b.tabTo("What")
		b.key("c") // connectors
		b.waitVisible(`//p[starts-with(., "No entry fits these filters")]`)
		b.click(button("Clear the filters"))
		b.waitVisible(`//p[starts-with(., "Nothing has been recorded yet")]`)
		b.checkProblems(s.base, icon)
	})

	s.grant(as, "PREMIUM")
	s.signIn("ben@collab.example", "Analytical Engines", "member")
	walter := bearer(s.signIn("walter@collab.example", "Analytical Engines", "admin").Token)
	s.signIn("vera@collab.example", "Analytical Engines", "viewer")
	ben, vera := s.member(as, "ben@collab.example").UserID, s.member(as, "vera@collab.example").UserID
	s.call("PATCH", "/org/members/"+ben+"/role", as, map[string]string{"role": "VIEWER"}, http.StatusOK)
	s.call("PATCH", "/org/members/"+ben+"/role", as, map[string]string{"role": "MEMBER"}, http.StatusOK)
	s.call("POST", "/org/invite", walter, map[string]string{"email": "grace@collab.example", "role": "MEMBER"}, http.StatusCreated)
	s.call("DELETE", "/org/members/"+vera, walter, nil, http.StatusOK)

	t.Run("entries are sentences with names, the newest first, and their details open by keyboard", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.waitVisible(`//ul[@aria-label="Entries"]/li[1]//*[starts-with(normalize-space(.), "Walter removed Vera (former member)")]`, entry("Walter invited grace@collab.example as Member"),
			entry("Ada changed the role of Ben from Viewer to Member"), entry("An operator of the service changed the plan from No plan to Premium"), `//p[.="5 entries, back to the beginning."]`)
		b.keyOn(entry("from Viewer to Member")+`//summary`, kb.Enter)
		b.waitVisible(`//dd[code="member.role_changed"]`, `//dd[code="127.0.0.1"]`, fmt.Sprintf(`//dd[code=%q]//a[.="All entries about it"]`, ben))
		b.do(chromedp.Reload())
		b.waitVisible(`//dd[code="member.role_changed"]`) // it is in the address
		b.do(chromedp.Click(`//a[.="All entries about it"]`), chromedp.WaitNotPresent(entry("removed")))
		b.waitVisible(entry("from Member to Viewer"), entry("from Viewer to Member"), `//*[@class="badge" and contains(., "About Ben")]`)
		b.click(`//button[@aria-label="Show entries about everything"]`)
		b.waitVisible(entry("removed"))
		b.checkProblems(s.base, icon)
	})
	t.Run("filters combine, are in the address, and the browser goes back through them", func(t *testing.T) {
		b := open(t, "Ada", "")
		b.waitVisible(entry("Ada changed"))
		by(b, "Walter")
		b.do(chromedp.WaitNotPresent(entry("Ada changed")))
		b.do(chromedp.SetValue(choose("What"), "member"), chromedp.WaitNotPresent(entry("invited")))
		b.waitVisible(entry("Walter removed"), `//*[@id="said" and contains(., "1 entry")]`)
		where := read(b, chromedp.Location())
		if !strings.Contains(where, "actor=") || !strings.Contains(where, "action=member") {
			t.Errorf("the address is %s", where)
		}
		by(b, "Operators")
		b.waitVisible(`//p[starts-with(., "No entry fits these filters")]`)
		b.run(`history.back()`)
		b.waitVisible(entry("Walter removed"))
		again := open(t, "Ada", where[strings.Index(where, "?"):])
		again.waitVisible(entry("Walter removed"))
		again.do(chromedp.WaitNotPresent(entry("invited")))
	})
	t.Run("days of this device are from the first to the last, and refused when they are crossed or no days", func(t *testing.T) {
		today := time.Now().Format("2006-01-02")
		b := open(t, "Ada", "?from="+today+"&to="+today)
		b.waitVisible(entry("Walter removed"))
		b.load(s.base+"/console/audit?to=2020-01-01", "Audit log")
		b.waitVisible(`//p[starts-with(., "No entry fits these filters")]`)
		b.load(s.base+"/console/audit?from=2026-02-02&to=2026-02-01", "Audit log")
		b.waitVisible(`//*[@role="alert" and .="The first day is after the last one."]`)
		b.load(s.base+"/console/audit?from=x", "Audit log")
		b.waitVisible(`//*[@role="alert" and contains(., "from must be a date")]`)
		b.do(chromedp.Click(`//*[@role="alert"]//button[.="Clear the filters"]`), chromedp.WaitVisible(entry("Walter removed")))
	})
	t.Run("older entries are read when the end of the list comes into view, and the CSV has what is shown", func(t *testing.T) {
		execute(t, c, "INSERT INTO audit (id, org_id, at, actor_id, is_operator, action, target, detail, address, request) "+
			"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 120) "+
			"SELECT printf('00000009-0000-7000-8000-%012d', n), org_id, at - 1000 * n, actor_id, false, 'session.ended', '=1+1', 'more than 100 sessions', '192.0.2.7', '' FROM audit, s WHERE action = 'invitation.created'")
		b := open(t, "Ada", "?action=session.ended")
		b.waitVisible(entry("Walter ended a session"))
		b.eventually("120", func() string {
			return read(b, chromedp.Evaluate[string](`scrollTo(0, document.body.scrollHeight), String(document.querySelectorAll(".entries > li").length)`))
		})
		b.waitVisible(`//p[.="120 entries, back to the beginning."]`)
		b.run(`{
			const real = URL.createObjectURL
			URL.createObjectURL = (blob) => (blob.arrayBuffer().then((bytes) => (document.body.dataset.csv = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes))), real(blob))
			document.querySelector("a[download]").addEventListener("click", (e) => e.preventDefault())
			document.querySelector("a[download]").click()
		}`)
		b.do(chromedp.WaitVisible(chromedp.CSS("body[data-csv]")))
		csv := read(b, chromedp.Evaluate[string](`document.body.dataset.csv`))
		if lines := strings.Split(csv, "\r\n"); len(lines) != 122 || lines[0] != "\ufeff"+`"time","sentence","actor","actor_id","action","target","detail","address","request_id"` || !strings.Contains(lines[1], `"'=1+1"`) {
			t.Errorf("the CSV has %d lines: %.400s", len(lines), csv)
		}
	})
	t.Run("what is recorded of plans, releases and providers is put in words", func(t *testing.T) {
		for i, of := range []struct{ actor, action, detail string }{
			{"NULL", "subscription.changed", "STANDARD TRIALING -> FREE ACTIVE because the trial is over"},
			{"NULL", "subscription.changed", "PREMIUM ACTIVE -> PREMIUM PAST_DUE by the payment provider"},
			{"NULL", "member.role_changed", "MEMBER -> ADMIN by the identity provider"},
			{"actor_id", "release.changed", "1.5.0 DARWIN ARM64 STABLE, 40 %, was 25 %"},
			{"actor_id", "connector.deleted", "postgres"},
		} {
			execute(t, c, "INSERT INTO audit (id, org_id, at, actor_id, is_operator, action, target, detail, address, request) "+
				"SELECT ?, org_id, at + 1000, "+of.actor+", false, ?, '', ?, '', '' FROM audit WHERE action = 'invitation.created'", fmt.Sprintf("00000008-0000-7000-8000-%012d", i), of.action, of.detail)
		}
		b := open(t, "Ada", "")
		b.waitVisible(entry("The service changed the plan from Standard to Free · because the trial is over"), entry("The payment provider changed the subscription · PREMIUM ACTIVE -> PREMIUM PAST_DUE"),
			entry("The identity provider changed the role of a former member from Member to Admin"), entry("Walter changed 1.5.0 for macOS · ARM64 · Stable · 40 %, was 25 %"), entry("Walter deleted the connector postgres"))
		by(b, "providers")
		b.do(chromedp.WaitNotPresent(entry("Walter deleted")))
		b.waitVisible(entry("The service changed the plan"))
	})
	t.Run("new entries appear before those that were read, which stay", func(t *testing.T) {
		b := open(t, "Ada", "")
		rows := func() string {
			return read(b, chromedp.Evaluate[string](`String(document.querySelectorAll(".entries > li").length)`))
		}
		before := 130
		b.eventually(fmt.Sprint(before), func() string {
			read(b, chromedp.Evaluate[int](`scrollTo(0, document.body.scrollHeight), 0`))
			return rows()
		})
		b.keyOn(`(`+entry("ended a session")+`)[last()]//summary`, kb.Enter)
		s.call("PATCH", "/org/members/"+ben+"/role", as, map[string]string{"role": "ADMIN"}, http.StatusOK)
		b.returnToFront()
		b.waitVisible(`//ul[@aria-label="Entries"]/li[1][contains(., "Ada changed the role of Ben from Member to Admin")]`, `//*[@id="said" and .="1 new entry"]`, `//ul[@aria-label="Entries"]/li[last()]//dl`)
		must.Is(t, fmt.Sprint(before+1), rows())
		b.run(`{
			const real = fetch
			window.fetch = (address, init) => String(address).includes("/org/audit") ? (window.fetch = real, Promise.resolve(` + refusedBusy + `)) : real(address, init)
		}`)
		s.call("PATCH", "/org/members/"+ben+"/role", as, map[string]string{"role": "MEMBER"}, http.StatusOK)
		b.eventually("true", func() string {
			b.returnToFront()
			return read(b, chromedp.Evaluate[string](`String(!!document.querySelector(".problem code"))`))
		})
		b.waitVisible(`//*[@role="alert" and contains(., "Looking for new entries failed")]`)
		b.do(chromedp.Click(button("Try again")), chromedp.WaitNotPresent(`//*[@role="alert"]`))
		b.waitVisible(`//ul[@aria-label="Entries"]/li[1][contains(., "from Admin to Member")]`)
	})
	t.Run("who has left is chosen in the filter by name, and has none once the account is deleted", func(t *testing.T) {
		b := open(t, "Ada", "?actor="+vera)
		b.eventually("Vera (former member)", func() string { return read(b, chromedp.Value(who)) })
		b.do(chromedp.Focus(who))
		b.waitVisible(`//*[@role="option" and .="Vera (former member)"]`)
		execute(t, c, "UPDATE users SET name = '', email = '', email_key = '', deleted_at = 1 WHERE id = ?", vera)
		b.do(chromedp.Navigate(s.base+"/console/audit"), chromedp.WaitVisible(entry("Walter removed a former member")))
		execute(t, c, "UPDATE users SET name = 'Vera', deleted_at = NULL WHERE id = ?", vera)
	})
	t.Run("members have no such page, and are told so at its address", func(t *testing.T) {
		b := open(t, "Ben", "")
		b.waitVisible(`//p[contains(., "has no access to this page")]`)
		b.do(chromedp.WaitNotPresent(`//nav//a[.="Audit log"]`))
	})
	t.Run("the page is accessible, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		for name, address := range map[string]string{"audit": "?from=2020-01-01", "audit-none": "?actor=operator&action=connector"} {
			b.load(s.base+"/console/audit"+address, "Audit log")
			if name == "audit" {
				b.click(entry("Walter removed") + `//summary`)
				b.waitVisible(`//dd[code="member.removed"]`)
			}
			b.axe(name)
		}
	})
}

func TestExportPage(t *testing.T) {
	c := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	s := &server{t, c.URL}
	owner := s.signIn("ada@collab.example", "Analytical Engines", "")
	as := bearer(owner.Token)
	s.grant(as, "PREMIUM")
	s.signIn("walter@collab.example", "Analytical Engines", "admin")
	for _, path := range []string{"a.md", "b.md"} {
		s.call("POST", "/sync/files", as, map[string]any{"path": path, "kind": "TEMPLATE", "content": path}, http.StatusCreated)
	}
	open := func(t *testing.T, person string) *tab {
		t.Helper()
		return openPage(t, s, person, "/console/export", "Export")
	}
	row := func(status, rest string) string { return fmt.Sprintf(`//li[@data-export=%q]%s`, status, rest) }
	ada, walter := s.member(as, "ada@collab.example").UserID, s.member(as, "walter@collab.example").UserID
	const running = "01900000-0000-7000-8000-000000000001"
	// put stores an export that another server has claimed for an hour.
	put := func(t *testing.T, user string) {
		t.Helper()
		execute(t, c, "INSERT INTO exports (org_id, id, user_id, status, created_at, claim, due_at, attempts, records, files, files_done, bytes, size, error) VALUES (?, ?, ?, 'RUNNING', ?, 'c', ?, 1, 1204, 17, 12, 48213, 0, '')",
			owner.Org.ID, running, user, time.Now().UnixMilli(), time.Now().Add(time.Hour).UnixMilli())
	}

	t.Run("by keyboard an archive is made, and downloaded through the console", func(t *testing.T) {
		b := open(t, "Ada")
		b.waitVisible(`//p[starts-with(., "You have not made one")]`)
		b.tabTo("Make an archive")
		b.key(kb.Enter)
		b.waitVisible(row("READY", `//p[contains(., "2 files")]`))
		b.run(`HTMLAnchorElement.prototype.click = function () { document.body.dataset.to = this.href }`)
		b.tabTo("Download")
		b.key(kb.Enter)
		b.do(chromedp.WaitVisible(chromedp.CSS("body[data-to]")))
		to := read(b, chromedp.Evaluate[string](`document.body.dataset.to`))
		if !strings.HasPrefix(to, s.base+"/console/api/v1/org/exports/") {
			t.Errorf("the archive is at %s", to)
		}
		must.Is(t, "200 application/gzip 31", read(b, chromedp.Evaluate[string](fmt.Sprintf(`fetch(%q).then(async (r) => r.status + " " + r.headers.get("Content-Type") + " " + new Uint8Array(await r.arrayBuffer())[0])`, to), chromedp.EvalAwaitPromise)))
		b.checkProblems(s.base, icon)
	})
	t.Run("progress goes on after a reload, another cannot begin meanwhile, and a failure is explained", func(t *testing.T) {
		put(t, ada)
		b := open(t, "Ada")
		b.waitVisible(row("RUNNING", `//progress[@aria-label="12 of 17 files"]`), `//button[.="Make an archive" and @disabled]`)
		b.do(chromedp.Reload())
		b.waitConsole("Export")
		b.waitVisible(row("RUNNING", `//p[contains(., "1,204 records read, 12 of 17 files")]`))
		execute(t, c, "UPDATE exports SET files_done = 16 WHERE id = ?", running)
		b.waitVisible(row("RUNNING", `//progress[@aria-label="16 of 17 files"]`))
		execute(t, c, "UPDATE exports SET status = 'FAILED', due_at = NULL, claim = NULL, error = 'The archive could not be made', finished_at = created_at WHERE id = ?", running)
		b.waitVisible(row("FAILED", `//p[contains(., "The archive could not be made")]`), `//button[.="Make an archive" and not(@disabled)]`, `//*[@id="said" and .="The export has failed"]`)
	})
	t.Run("an archive that expires while it is shown is not offered any more", func(t *testing.T) {
		b := open(t, "Ada")
		b.waitVisible(row("READY", "//button"))
		execute(t, c, "UPDATE exports SET expires_at = 1 WHERE status = 'READY'")
		b.click(row("READY", "//button"))
		b.waitVisible(row("EXPIRED", `//p[contains(., "The archive was removed")]`))
		b.do(chromedp.WaitNotPresent(row("READY", "")))
	})
	t.Run("an archive of another owner is not shown, and said to be the reason of a conflict", func(t *testing.T) {
		execute(t, c, "DELETE FROM exports WHERE id = ?", running)
		put(t, walter)
		b := open(t, "Ada")
		b.do(chromedp.WaitNotPresent(row("RUNNING", "")), chromedp.Click(button("Make an archive")))
		b.waitVisible(`//*[@role="alert" and contains(., "Asking for the export failed") and contains(., "Another owner has asked for it")]`)
		execute(t, c, "DELETE FROM exports WHERE id = ?", running)
		b.click(button("Try again"))
		b.waitVisible(row("READY", "//button"))
		b.do(chromedp.WaitNotPresent(`//*[@role="alert"]`))
	})
	t.Run("a 503 while asking is said, the same request is sent again, and another one after a lost response", func(t *testing.T) {
		b := openTab(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.busyOnce("/org/export")
		b.load(s.base+"/console/export", "Export")
		before := len(decode[[]any](t, s.call("GET", "/org/exports", as, nil, http.StatusOK)))
		b.click(button("Make an archive"))
		b.waitVisible(`//*[@role="alert" and contains(., "Asking for the export failed") and contains(., "request-1")]`)
		b.click(button("Try again"))
		made := func() string {
			return read(b, chromedp.Evaluate[string](`String(document.querySelectorAll(".exports li[data-export=READY], .exports li[data-export=EXPIRED]").length)`))
		}
		b.eventually(fmt.Sprint(before+1), made)
		b.run(`fetch = ((real) => async (address, init) => {
			const response = await real(address, init)
			if (init?.method !== "POST") return response
			fetch = real
			while ((await (await real("/console/api/v1/org/exports")).json()).some((e) => e.finishedAt === null));
			throw new TypeError("the response was lost")
		})(fetch)`)
		b.click(button("Make an archive"))
		b.eventually(fmt.Sprint(before+2), made)
		b.do(chromedp.WaitNotPresent(`//*[@role="alert"]`))
		b.click(`//button[.="Make an archive" and not(@disabled)]`)
		b.eventually(fmt.Sprint(before+3), made)
	})
	t.Run("admins have no such page", func(t *testing.T) {
		b := open(t, "Walter")
		b.waitVisible(`//p[contains(., "has no access to this page")]`)
		b.do(chromedp.WaitNotPresent(`//nav//a[.="Export"]`))
	})
	t.Run("the page is accessible, with every status, in light and dark, wide and narrow", func(t *testing.T) {
		put(t, ada)
		execute(t, c, "INSERT INTO exports (org_id, id, user_id, status, created_at, attempts, records, files, files_done, bytes, size, finished_at, error) VALUES (?, '01900000-0000-7000-8000-000000000002', ?, 'FAILED', 1, 3, 0, 0, 0, 0, 0, 1, 'Servers stopped while they made the archive; request it again')", owner.Org.ID, ada)
		b := openWithoutPolicy(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.load(s.base+"/console/export", "Export")
		b.waitVisible(row("RUNNING", ""), row("READY", ""), row("EXPIRED", ""), row("FAILED", ""))
		b.axe("export")
	})
}
