//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/chromium"
	"collab/test/collabd"
	"collab/test/must"
)

// icon is the prefix of the address of the browser's image in date fields.
const icon = "data:image/svg+xml"

// requestID is the path of the id of a failed request, with its button.
const requestID = `//p[starts-with(., "Request ")][string-length(code) > 10]/button[.="Copy"]`

// task is a task as far as the tests read it.
type task struct {
	ID, Title, Status, Priority string
	SortOrder                   int64
}

// tasksOf returns the stored tasks in their order.
func (s *server) tasksOf(as string) []task {
	s.t.Helper()
	return decode[[]task](s.t, s.call("GET", "/tasks?limit=1000", as, nil, http.StatusOK))
}

// titles returns the titles of tasks, joined.
func titles(tasks []task) string {
	var all []string
	for _, t := range tasks {
		all = append(all, t.Title)
	}
	return strings.Join(all, " ")
}

// eventually waits until fn returns want.
func (b *tab) eventually(want string, fn func() string) {
	b.t.Helper()
	got := ""
	for b.Err() == nil {
		if got = fn(); got == want {
			return
		}
		read(b, chromedp.Evaluate[int](`new Promise((r) => setTimeout(() => r(0), 16))`, chromedp.EvalAwaitPromise))
	}
	b.fail(fmt.Errorf("%q does not become %q", got, want))
}

// edit has the browser carry out an editing command, such as paste.
func (b *tab) edit(command string) {
	b.t.Helper()
	call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Commands: []string{command}})
}

// focus focuses the row of a task.
func (b *tab) focus(title string) {
	b.t.Helper()
	path := fmt.Sprintf(`//a[@data-row and .=%q]`, title)
	b.waitVisible(path)
	b.do(chromedp.Focus(path))
}

// choice returns the path of an entry of the open menu.
func choice(text string) string {
	return fmt.Sprintf(`//*[@role="menu"]/button[.=%q]`, text)
}

// holding makes answers to the requests in window.hold wait for release, which returns some frames after the page has got
// them.
const holding = `{
	const real = fetch
	window.held = []
	window.release = async () => {
		window.hold = undefined
		for (const go of held.splice(0)) go()
		for (let i = 0; i < 5; i++) await new Promise(requestAnimationFrame)
		return 0
	}
	window.fetch = async (address, init) => {
		const answer = await real(address, init)
		if (window.hold === (init?.method ?? "GET") + " " + new URL(address, location).pathname) await new Promise((go) => held.push(go))
		return answer
	}
}`

func TestTasksPage(t *testing.T) {
	s, as := startOwned(t)
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	add := func(title, status string) task {
		t.Helper()
		return decode[task](t, s.call("POST", "/tasks", as, map[string]any{"title": title, "status": status}, http.StatusCreated))
	}
	for _, old := range s.tasksOf(as) {
		s.call("DELETE", "/tasks/"+old.ID, as, nil, http.StatusOK)
	}
	first, second, third := add("first", "TODO"), add("second", "TODO"), add("third", "IN_PROGRESS")
	order := func() string { return titles(s.tasksOf(as)) }

	t.Run("filters and a search are in the address, and a board and groups have a list for each status", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks?status=IN_PROGRESS", "Tasks")
		b.waitVisible(`//a[@data-row and .="third"]`, `//summary[.="Filters (1)"]`)
		b.do(chromedp.WaitNotPresent(`//a[@data-row and .="first"]`))
		b.tabTo("Status")
		b.key("d")
		b.waitVisible(`//p[starts-with(., "No task fits these filters")]`)
		b.enterOn("Clear the filters")
		b.waitVisible(`//a[@data-row and .="first"]`)

		row := func(title string) string { return fmt.Sprintf(`//a[@data-row and .=%q]`, title) }
		query := func() string { return read(b, chromedp.Evaluate[string](`location.search`)) }
		type made struct{ ID string }
		team := decode[made](t, s.call("POST", "/teams", as, map[string]string{"name": "Engineers"}, http.StatusCreated)).ID
		workspace := decode[made](t, s.call("POST", "/workspaces", as, map[string]string{"name": "Engines", "teamId": team}, http.StatusCreated)).ID
		s.call("PATCH", "/tasks/"+second.ID, as, map[string]any{"workspaceId": workspace, "tags": []string{"brass", "steam"}, "dueDate": "2100-01-02"}, http.StatusOK)
		b.do(chromedp.Reload())
		b.waitVisible(row("first"))
		b.click(`//summary[.="Filters"]`)
		for _, f := range []struct{ field, value, other, query string }{
			{`//label[starts-with(., "Workspace")]/select`, workspace, "null", "workspaceId="},
			{`//label[starts-with(., "Tags")]/input`, "gold, steam", "gold", "tags="},
			{`//label[starts-with(., "Due from")]/input`, "2100-01-02", "2100-01-03", "dueAfter="},
			{`//label[starts-with(., "Due to")]/input`, "2100-01-02", "2100-01-01", "dueBefore="},
		} {
			b.do(chromedp.SetValue(f.field, f.value))
			b.waitVisible(row("second"), `//summary[.="Filters (1)"]`)
			b.do(chromedp.WaitNotPresent(row("first")))
			if where := query(); !strings.HasPrefix(where, "?"+f.query) {
				t.Errorf("the address has %s", where)
			}
			b.do(chromedp.SetValue(f.field, f.other), chromedp.WaitNotPresent(row("second")))
			b.click(`//details//button[.="Clear"]`)
			b.waitVisible(row("first"), row("second"))
		}

		const search = `//input[@aria-label="Search tasks"]`
		b.focus("first")
		b.key("/", "ON", " Sec")
		b.do(chromedp.WaitNotPresent(row("first")))
		b.waitVisible(row("second"), `//summary[.="Filters"]`)
		b.eventually("?search=ON+Sec", query)
		b.do(chromedp.NavigateBack())
		b.waitVisible(row("first"))
		must.Is(t, "", read(b, chromedp.Value(search)))
		b.do(chromedp.NavigateForward())
		b.eventually("?search=ON+Sec", query)
		b.do(chromedp.Reload())
		b.waitVisible(row("second"))
		must.Is(t, "ON Sec", read(b, chromedp.Value(search)))
		b.focus("second") // the list with the words closes
		b.key("e")
		b.waitVisible(`//input[@data-row]`)
		b.key("2.", kb.Enter)
		b.waitVisible(`//p[starts-with(., "No task fits these filters")]`)
		b.typeInto(search, ".")
		b.key(kb.Enter)
		b.waitVisible(row("2."))
		b.do(chromedp.WaitNotPresent(row("first")))
		b.do(chromedp.SendKeys(chromedp.CSS("input.new"), "other\r")) // ends a search that it does not fit
		b.waitVisible(row("other"), row("first"))
		b.eventually("", query)
		b.do(chromedp.NavigateBack())
		b.do(chromedp.WaitNotPresent(row("first")))
		b.eventually(".", func() string { return read(b, chromedp.Value(search)) })
		b.keyOn(search, kb.Escape)
		b.waitVisible(row("first"))
		s.call("DELETE", "/tasks/"+s.tasksOf(as)[3].ID, as, nil, http.StatusOK)
		s.call("PATCH", "/tasks/"+second.ID, as, map[string]any{"title": "second", "workspaceId": nil, "tags": []string{strings.Repeat("brass", 9)}}, http.StatusOK)
		s.call("DELETE", "/workspaces/"+workspace, as, nil, http.StatusOK)
		s.call("DELETE", "/teams/"+team, as, nil, http.StatusOK)
		b.do(chromedp.Reload())
		b.waitVisible(row("second"))

		b.enterOn("Board")
		b.waitVisible(`//section[@aria-label="In progress"]//a[.="third"]`, `//section[@aria-label="To do"]//a[.="first"]`)
		if where := read(b, chromedp.Location()); !strings.HasSuffix(where, "/console/tasks?view=board") {
			t.Errorf("the address is %s", where)
		}
		if !read(b, chromedp.Evaluate[bool](`{ const due = document.querySelector("time"), { right, y } = due.getBoundingClientRect(); document.elementFromPoint(right - 1, y + 1) === due }`)) {
			t.Error("a long tag hides the day on which a task is due")
		}
		s.call("PATCH", "/tasks/"+second.ID, as, map[string]any{"tags": []string{}, "dueDate": nil}, http.StatusOK)
		b.click(button("Groups"))
		b.waitVisible(`//section[@aria-label="In progress"]//a[.="third"]`, `//section[@aria-label="To do"]//button[@aria-label="Status of first: To do"]`)
		b.checkProblems(s.base, icon)
	})
	t.Run("with the keyboard alone tasks are created, changed, moved, selected and opened", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
		b.focus("third")
		b.key("c")
		b.key("fourth", kb.Enter)
		b.waitVisible(`//a[@data-row and .="fourth"]`)
		b.focus("fourth")
		b.chord(kb.ArrowUp, chromedp.ModifierAlt)
		b.waitVisible(`//*[@id="said" and contains(., "moved to place 3, after “second”")]`)
		b.eventually("first second fourth third", order)
		b.key("e")
		b.waitVisible(`//input[@data-row]`)
		b.key("fifth", kb.Enter)
		b.waitVisible(`//a[@data-row and .="fifth"]`)
		b.eventually("first second fifth third", order)
		b.focus("fifth")
		b.key("p")
		b.waitVisible(choice("Urgent"))
		b.key("u", kb.Enter)
		b.eventually("URGENT", func() string { return s.tasksOf(as)[2].Priority })
		b.focus("fifth")
		b.chord(kb.ArrowRight, chromedp.ModifierAlt)
		b.eventually("IN_PROGRESS", func() string { return s.tasksOf(as)[2].Status })
		b.focus("fifth")
		const press = `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: %q, code: "Key%s", ctrlKey: %t, bubbles: true, cancelable: true }))`
		b.run(fmt.Sprintf(press, "ğ", "E", false)) // of a Turkish keyboard, with e elsewhere
		b.run(fmt.Sprintf(press, "€", "E", false)) // AltGr+E
		b.run(fmt.Sprintf(press, "л", "K", false)) // moves to the task before
		b.eventually("second", func() string { return read(b, chromedp.Evaluate[string](`document.activeElement.textContent`)) })
		b.run(fmt.Sprintf(press, "л", "K", true))
		b.waitVisible(`//dialog//h2[.="Go to"]`)
		b.closeDialog()
		b.focus("fifth")
		b.key(kb.Enter)
		b.waitVisible(`//dialog//h2[.="fifth"]`, `//dialog//li[contains(., "Title fourth → fifth")]`)
		b.run(`{ const area = document.querySelector("dialog textarea"); area.value = "x".repeat(196); area.focus(); area.select() }`)
		b.edit("copy")
		b.run(`document.querySelector("dialog form input").focus()`)
		b.edit("paste")
		b.eventually("This would be 201 characters. At most 200 fit here.", func() string {
			return read(b, chromedp.Evaluate[string](`document.activeElement.validationMessage`))
		})
		b.closeDialog()
		b.focus("fifth")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		b.do(chromedp.WaitNotPresent(`//a[@data-row and .="fifth"]`))
		b.chord("z", chromedp.ModifierCtrl)
		b.focus("fifth")
		b.key(kb.Delete)
		b.click(button("Dismiss"))
		b.eventually("first second third", order)
		b.checkProblems(s.base, icon)
	})
	t.Run("tasks are dragged in the order, and to another status", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks?view=board", "Tasks")
		drag := func(title, onto string) {
			t.Helper()
			b.waitVisible(fmt.Sprintf(`//a[@data-row and .=%q]`, title), fmt.Sprintf(`//a[@data-row and .=%q]`, onto))
			at := read(b, chromedp.Evaluate[[]float64](fmt.Sprintf(`[%q, %q].flatMap((title) => {
				const box = [...document.querySelectorAll("a[data-row]")].find((a) => a.textContent === title).closest("li").getBoundingClientRect()
				return [box.x + 60, box.y + 15]
			})`, title, onto)))
			b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0]+20, at[1]+20, chromedp.ButtonLeft),
				chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[2], at[3], chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, at[2], at[3], chromedp.ButtonLeft))
		}
		drag("second", "first")
		b.eventually("second first third", order)
		drag("first", "third")
		b.waitVisible(`//section[@aria-label="In progress"]//a[.="first"]`)
		b.eventually("IN_PROGRESS", func() string {
			return decode[task](t, s.call("GET", "/tasks/"+first.ID, as, nil, http.StatusOK)).Status
		})
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		s.call("PATCH", "/tasks/"+first.ID, as, map[string]string{"status": "TODO"}, http.StatusOK)
		b.checkProblems(s.base, icon)
	})
	t.Run("tasks are reprioritised together, with reasons, and others too after the response was lost", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
		b.focus("first")
		b.key("x")
		b.focus("second")
		b.key("x")
		b.enterOn("Reprioritise…")
		b.waitVisible(`//dialog`)
		b.tabTo("Priority of all")
		b.key("h")
		b.tabTo("Reason")
		b.key("The customer waits")
		b.tabTo("Reason for second")
		b.key("It is broken")
		b.run(`fetch = ((real) => async (address, init) => {
			const answer = await real(address, init)
			if (init?.method !== "POST") return answer
			fetch = real
			throw new TypeError("the response was lost")
		})(fetch)`)
		b.enterOn("Reprioritise")
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "cannot be reached")]`)
		b.closeDialog()
		b.focus("third")
		b.key("x")
		b.enterOn("Reprioritise…")
		b.waitVisible(`//dialog//h2[.="Reprioritise 3 tasks"]`)
		b.enterOn("Reprioritise")
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		for _, reason := range []struct{ id, text string }{{first.ID, "The customer waits"}, {second.ID, "It is broken"}} {
			if history := string(s.call("GET", "/tasks/"+reason.id+"/history", as, nil, http.StatusOK)); !strings.Contains(history, reason.text) {
				t.Errorf("the history lacks %q: %s", reason.text, history)
			}
		}
		b.checkProblems(s.base, icon)
	})
	t.Run("a conflict shows both sides, and either can be kept", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks?task="+third.ID, "Tasks")
		for i, keep := range []string{"Keep yours", "Take theirs"} {
			mine, theirs := fmt.Sprint("mine ", i), fmt.Sprint("theirs ", i)
			b.waitVisible(`//dialog//textarea`)
			b.tabTo("Description")
			b.key(mine)
			s.call("PATCH", "/tasks/"+third.ID, as, map[string]string{"description": theirs}, http.StatusOK)
			b.enterOn("Save")
			b.waitVisible(fmt.Sprintf(`//section[@aria-label="Yours" and contains(., %q)]`, mine), fmt.Sprintf(`//section[@aria-label="Theirs, stored" and contains(., %q)]`, theirs), requestID)
			must.Is(t, "Somebody else has changed this task", read(b, chromedp.Evaluate[string](`document.querySelector("dialog:focus h2")?.textContent ?? ""`)))
			b.enterOn(keep)
			b.do(chromedp.WaitNotPresent(button(keep)))
			want := []string{mine, theirs}[i]
			b.eventually(want, func() string {
				return decode[struct{ Description string }](t, s.call("GET", "/tasks/"+third.ID, as, nil, http.StatusOK)).Description
			})
			b.eventually(want, func() string { return read(b, chromedp.Value(chromedp.CSS("dialog textarea"))) })
		}
		b.clearProblems() // of 409
		b.checkProblems(s.base, icon)
	})
	t.Run("a 503 is said with the request's id, nothing typed is lost, and it can be tried again", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
		b.busyOnce("/tasks?limit=100")
		b.do(chromedp.Reload())
		b.waitVisible(`//*[@role="alert" and contains(., "Loading the tasks failed") and contains(., "request-1")]`)
		must.Do(chromedp.CallBrowser(b, browser.SetPermission, browser.SetPermissionParams{BrowserContextID: chromedp.FromContext(b).BrowserContextID, Permission: &browser.PermissionDescriptor{Name: "clipboard-read"}, Setting: browser.PermissionSettingGranted})).Or(t)
		b.click(button("Copy"))
		b.waitVisible(button("Copied"), `//*[@id="said" and .="Copied"]`)
		must.Is(t, "request-1", read(b, chromedp.Evaluate[string](`navigator.clipboard.readText()`, chromedp.EvalAwaitPromise)))
		b.click(button("Try again"))
		b.focus("first")
		b.busyOnce("/tasks/" + second.ID)
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		b.waitVisible(`//*[@role="alert"]`)
		b.click(button("Try again"))
		b.focus("second")
		b.key("e")
		b.waitVisible(`//input[@data-row]`)
		b.key("renamed", kb.Enter)
		b.waitVisible(`//*[@role="alert" and contains(., "Changing “second” failed") and contains(., "request-1")]`, `//a[@data-row and .="second"]`)
		b.click(button("Try again"))
		b.waitVisible(`//a[@data-row and .="renamed"]`)
		b.eventually("renamed", func() string {
			return decode[task](t, s.call("GET", "/tasks/"+second.ID, as, nil, http.StatusOK)).Title
		})
	})
	t.Run("a deleted task stays hidden when another page was shown, and one that has changed is deleted at the second attempt", func(t *testing.T) {
		made := add("temporary", "TODO")
		b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
		const row = `//a[@data-row and .="temporary"]`
		b.focus("temporary")
		b.key(kb.Enter) // which reads its version
		b.waitVisible(`//dialog//textarea`)
		b.closeDialog()
		s.call("PATCH", "/tasks/"+made.ID, as, map[string]string{"description": "theirs"}, http.StatusOK)
		b.focus("temporary")
		b.key(kb.Delete)
		b.click(button("Dismiss"))
		b.waitVisible(`//*[@role="alert" and contains(., "Deleting “temporary” failed")]`, row)
		b.click(button("Try again"))
		b.do(chromedp.WaitNotPresent(row))
		elsewhere := func() {
			b.click(`//nav//a[normalize-space()="People"]`)
			b.waitConsole("People")
			b.click(`//nav//a[normalize-space()="Tasks"]`)
			b.focus("first")
			b.do(chromedp.WaitNotPresent(row))
		}
		elsewhere()
		b.click(button("Undo"))
		b.focus("temporary")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		elsewhere()
		b.click(`//nav//a[normalize-space()="People"]`)
		b.waitConsole("People")
		b.run(`fetch = ((real) => async (address, init) => {
			if (init?.method !== "DELETE") return real(address, init)
			fetch = real
			return ` + refusedBusy + `
		})(fetch)`)
		b.click(button("Dismiss"))
		b.waitVisible(`//main/*[@role="alert" and contains(., "Deleting “temporary” failed") and contains(., "request-1")]`)
		b.click(`//nav//a[normalize-space()="Tasks"]`)
		b.focus("temporary")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		elsewhere()
		b.click(`//*[@class="undo"]/button[.="Dismiss"]`)
		b.eventually("404", func() string {
			status, _, _ := collabd.Client{Base: s.base}.Do("GET", "/tasks/"+made.ID, nil, as)
			return fmt.Sprint(status)
		})
		b.do(chromedp.WaitNotPresent(row))
	})
	t.Run("a task of a workspace that one does not see says so, and a new workspace can be chosen", func(t *testing.T) {
		asBen := bearer(s.signIn("ben@collab.example", "Analytical Engines", "member").Token)
		team := decode[task](t, s.call("POST", "/teams", as, map[string]string{"name": "Hidden"}, http.StatusCreated)).ID
		workspace := decode[task](t, s.call("POST", "/workspaces", as, map[string]string{"name": "Hidden", "teamId": team}, http.StatusCreated)).ID
		hidden := decode[task](t, s.call("POST", "/tasks", as, map[string]any{"title": "hidden", "workspaceId": workspace, "assigneeId": s.member(as, "ben@collab.example").UserID}, http.StatusCreated))
		b := openPage(t, s, "Ben", "/console/tasks?workspaceId="+workspace+"&task="+hidden.ID, "Tasks")
		for _, field := range []string{`//dialog//label[starts-with(., "Workspace")]/select`, `//details//label[starts-with(., "Workspace")]/select`} {
			b.do(chromedp.WaitReady(field + `/option[.="Another workspace"]`))
			must.Is(t, workspace, read(b, chromedp.Value(field)))
		}
		own := decode[task](t, s.call("POST", "/teams", asBen, map[string]string{"name": "Own"}, http.StatusCreated)).ID
		s.call("POST", "/workspaces", asBen, map[string]string{"name": "New", "teamId": own}, http.StatusCreated)
		b.run(`dispatchEvent(new Event("focus"))`)
		b.do(chromedp.WaitReady(`//dialog//option[.="New"]`))
		s.call("DELETE", "/tasks/"+hidden.ID, as, nil, http.StatusOK)
	})
	t.Run("answers that arrive late take nothing away that was typed or changed meanwhile, and a sign-out no deletion", func(t *testing.T) {
		b := openTab(t)
		b.runInNewPages(holding)
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		b.focus("first")
		held := func() {
			b.eventually("1", func() string { return read(b, chromedp.Evaluate[string](`String(held.length)`)) })
		}
		release := func() { read(b, chromedp.Evaluate[int](`release()`, chromedp.EvalAwaitPromise)) }

		b.run(`hold = "POST /console/api/v1/tasks"`)
		b.do(chromedp.SendKeys(chromedp.CSS("input.new"), "sixth\r"))
		held()
		b.do(chromedp.SendKeys(chromedp.CSS("input.new"), " and more"))
		release()
		b.waitVisible(`//a[@data-row and .="sixth"]`)
		must.Is(t, "sixth and more", read(b, chromedp.Value(chromedp.CSS("input.new"))))

		b.run(`hold = "GET /console/api/v1/tasks"; Date.now = ((real) => () => real() + 10_000)(Date.now); dispatchEvent(new Event("focus"))`)
		held()
		b.focus("sixth")
		b.key("e")
		b.waitVisible(`//input[@data-row]`)
		b.key("seventh", kb.Enter)
		b.eventually("seventh", func() string { return s.tasksOf(as)[len(s.tasksOf(as))-1].Title })
		release()
		b.waitVisible(`//a[@data-row and .="seventh"]`)

		last := s.tasksOf(as)[len(s.tasksOf(as))-1]
		const title = `//input[@aria-label="Title"]`
		rename := func(row, text string) {
			t.Helper()
			b.focus(row)
			b.key("e")
			b.waitVisible(title)
			b.typeInto(title, text)
		}
		kept := func() string {
			return read(b, chromedp.Evaluate[string](`JSON.stringify(Object.entries(sessionStorage).filter(([name]) => name.includes(" title ")).map(([, draft]) => JSON.parse(draft).text))`))
		}
		b.run(fmt.Sprintf(`hold = "PATCH /console/api/v1/tasks/%s"`, last.ID))
		rename("seventh", "eighth")
		b.key(kb.Enter)
		held()
		rename("eighth", "ninth")
		release()
		b.eventually(`["ninth"]`, kept)
		b.do(chromedp.Reload())
		b.focus("eighth")
		b.key("e")
		b.waitVisible(title)
		must.Is(t, "ninth", read(b, chromedp.Value(title)))
		s.call("PATCH", "/tasks/"+last.ID, as, map[string]string{"title": "theirs"}, http.StatusOK)
		b.run(`Date.now = ((real) => () => real() + 10_000)(Date.now); dispatchEvent(new Event("focus"))`)
		b.waitVisible(`//li[.//input[@aria-label="Title"]]//button[@aria-label="More for theirs"]`)
		must.Is(t, "ninth", read(b, chromedp.Value(title)))
		b.key(kb.Enter)
		b.waitVisible(`//section[@aria-label="Yours" and contains(., "ninth")]`, `//section[@aria-label="Theirs, stored" and contains(., "theirs")]`)
		b.click(button("Keep yours"))
		b.eventually("[]", kept)
		rename("ninth", "tenth")
		b.key(kb.Escape)
		b.eventually("[]", kept)

		// The first of two edits fails: before the second is typed, after the page is left, and after the second is sent.
		stored := "ninth"
		for i, failing := range []func(text string){
			func(text string) {
				release()
				b.waitVisible(fmt.Sprintf(`//*[@role="alert" and contains(., "Changing “%s” failed")]`, stored))
				b.typeInto(title, text)
				b.do(chromedp.Reload())
			},
			func(text string) {
				b.typeInto(title, text)
				b.do(chromedp.Reload())
			},
			func(text string) {
				b.typeInto(title, text)
				b.key(kb.Enter)
				release()
			},
		} {
			b.do(chromedp.Reload())
			b.focus(stored)
			b.run(`fetch = ((real) => async (address, init) => {
				if (init?.method !== "PATCH") return real(address, init)
				fetch = real
				await new Promise((go) => held.push(go))
				return ` + refusedBusy + `
			})(fetch)`)
			rename(stored, "lost")
			b.key(kb.Enter)
			held()
			b.focus("lost")
			b.key("e")
			b.waitVisible(title)
			text := fmt.Sprint("second ", i)
			failing(text)
			if i < 2 {
				b.focus(stored)
				b.key("e")
				b.waitVisible(title)
				must.Is(t, text, read(b, chromedp.Value(title)))
				b.key(kb.Enter)
			}
			b.eventually("stored", func() string {
				if s.tasksOf(as)[len(s.tasksOf(as))-1].Title == text && kept() == "[]" {
					return "stored"
				}
				return read(b, chromedp.Evaluate[string](`document.querySelector("dialog")?.textContent ?? ""`))
			})
			stored = text
		}
		rename(stored, "ninth")
		b.key(kb.Enter)
		b.eventually("[]", kept)

		b.focus("ninth")
		b.key(kb.Enter)
		b.do(chromedp.WaitVisible(chromedp.CSS("dialog textarea")), chromedp.SendKeys(chromedp.CSS("dialog textarea"), "One"))
		b.run(fmt.Sprintf(`hold = "PATCH /console/api/v1/tasks/%s"`, last.ID))
		b.click(`//dialog//button[.="Save"]`)
		held()
		b.do(chromedp.SendKeys(chromedp.CSS("dialog textarea"), ", two"))
		release()
		b.waitVisible(`//dialog//*[.="Not saved yet"]`)
		must.Is(t, "One, two", read(b, chromedp.Value(chromedp.CSS("dialog textarea"))))
		b.click(`//dialog//button[.="Save"]`)
		b.waitVisible(`//dialog//*[.="Saved"]`)
		b.closeDialog()

		b.run(fmt.Sprintf(`hold = "PATCH /console/api/v1/tasks/%s"`, last.ID))
		rename("ninth", "last")
		b.key(kb.Enter)
		held()
		b.focus("last")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		release()
		b.do(chromedp.WaitNotPresent(`//a[@data-row and .="last"]`))
		b.click(button("Undo"))
		b.focus("last")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		b.run(`fetch = ((real) => async (address, init) => {
			if (init?.method !== "DELETE") return real(address, init)
			fetch = real
			return ` + refusedBusy + `
		})(fetch)`)
		b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(button("Sign out")))
		b.waitVisible(`//*[@role="alert" and contains(., "Signing out failed")]`, `//*[@role="alert" and contains(., "Deleting “last” failed")]`)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("#account:popover-open")))
		b.focus("last")
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		b.click(`//*[@role="alert" and contains(., "Signing out failed")]/button[.="Try again"]`)
		b.waitConsole("You are signed out")
		s.call("GET", "/tasks/"+last.ID, as, nil, http.StatusNotFound)
	})
	t.Run("the page is accessible, with dialogs open, in light and dark, wide and narrow", func(t *testing.T) {
		long := strings.Repeat("W", 200)
		team := decode[task](t, s.call("POST", "/teams", as, map[string]string{"name": long}, http.StatusCreated)).ID
		s.call("POST", "/workspaces", as, map[string]string{"name": long, "teamId": team}, http.StatusCreated)
		b := openWithoutPolicy(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		for name, address := range map[string]string{"tasks": "", "board": "?view=board&priority=HIGH", "groups": "?view=groups", "task": "?task=" + third.ID} {
			b.load(s.base+"/console/tasks"+address, "Tasks")
			b.waitVisible(`//*[@data-row]`)
			b.axe(name)
		}
		b.do(chromedp.Navigate(s.base + "/console/tasks?task=" + third.ID))
		b.waitVisible(`//dialog//textarea`)
		b.tabTo("Description")
		b.key("mine")
		s.call("PATCH", "/tasks/"+third.ID, as, map[string]string{"description": "theirs of them"}, http.StatusOK)
		b.enterOn("Save")
		b.waitVisible(button("Keep yours"))
		b.axe("conflict")
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		b.focus("first")
		b.key("?")
		b.waitVisible(`//dialog//h2[.="Keyboard"]`)
		b.axe("keyboard")
		b.closeDialog()
		b.key("x")
		b.enterOn("Reprioritise…")
		b.waitVisible(`//dialog//select`)
		b.axe("reprioritise")
		b.closeDialog()
		b.focus("first")
		b.resize(320, 800, "light") // where the menu opens within every screen
		b.key("m")
		b.waitVisible(choice("Open"))
		b.axe("task-menu")
		b.key(kb.Escape, kb.Delete)
		b.tabTo("Undo") // where the offer stays
		b.axe("undo")
		b.key(kb.Enter)
		b.waitVisible(`//a[@data-row and .="first"]`)
	})
	t.Run("of 2,500 tasks few are rendered", func(t *testing.T) {
		const many = 2_500
		client := collabd.Client{Base: s.base}
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				for i := w; i < many; i += 8 {
					if status, response, err := client.Do("POST", "/tasks", map[string]string{"title": fmt.Sprint("Task ", i)}, as); err != nil || status != http.StatusCreated {
						t.Errorf("%d %s %v", status, response, err)
						return
					}
				}
			})
		}
		group.Wait()
		b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
		b.waitVisible(`//*[@data-row]`)
		b.run(`window.made = 0; document.createElementNS = ((real) => (space, name, ...more) => (window.made += name === "li", real.call(document, space, name, ...more)))(document.createElementNS)`)
		got := read(b, chromedp.Evaluate[[]float64](chromium.ScrollList, chromedp.EvalAwaitPromise))
		t.Logf("the longest stall was %.0f ms, of %.0f rows %.0f are rendered", got[0], got[1], got[2])
		if got[1] < many || got[2] > 100 {
			t.Errorf("of %.0f rows %.0f are rendered", got[1], got[2])
		}
		if made := read(b, chromedp.Evaluate[float64](`window.made`)); made == 0 || made > many/5 {
			t.Errorf("for %.0f rows %.0f elements were made", got[1], made)
		}

		b.runInNewPages(holding)
		b.do(chromedp.Navigate(s.base + "/console/tasks"))
		b.waitVisible(`//*[@data-row]`)
		held := func() {
			b.eventually("1", func() string { return read(b, chromedp.Evaluate[string](`String(held.length)`)) })
		}
		const end, height = `document.querySelector(".windowed").scrollTop = 1e9`, `document.querySelector(".windowed > ul").style.height`
		grows := func() {
			before := read(b, chromedp.Evaluate[string](height))
			read(b, chromedp.Evaluate[int](`release()`, chromedp.EvalAwaitPromise))
			b.eventually("true", func() string { return fmt.Sprint(read(b, chromedp.Evaluate[string](height)) != before) })
		}
		// A list that was scrolled to its end while it was loaded again goes on.
		b.run(`hold = "GET /console/api/v1/tasks"; Date.now = ((real) => () => real() + 10_000)(Date.now); dispatchEvent(new Event("focus"))`)
		held()
		b.run(end)
		grows()
		// A page that arrives late brings nothing back that was deleted meanwhile.
		b.run(`hold = "GET /console/api/v1/tasks"; ` + end)
		held()
		b.run(`window.gone = [...document.querySelectorAll("li[data-id]")].at(-1).dataset.id; document.querySelector("[data-id=\"" + gone + "\"] [data-row]").focus()`)
		b.key(kb.Delete)
		b.waitVisible(button("Undo"))
		grows()
		if read(b, chromedp.Evaluate[bool](`document.querySelector("[data-id=\"" + gone + "\"]") !== null`)) {
			t.Error("a deleted task is there again")
		}
		b.click(button("Undo"))
		// A task that is moved between the requests of a list is listed once.
		b.run(`hold = "GET /console/api/v1/tasks"; document.querySelector(".windowed").scrollTop = 0; Date.now = ((real) => () => real() + 10_000)(Date.now); dispatchEvent(new Event("focus"))`)
		held()
		tasks := s.tasksOf(as)
		s.call("POST", "/tasks/reorder", as, map[string]any{"taskIds": []string{tasks[0].ID}, "sortOrder": tasks[999].SortOrder + 1}, http.StatusOK)
		grows()
		must.Is(t, 1999, read(b, chromedp.Evaluate[float64](`{ const row = document.querySelector("[data-at=\"1\"]"); parseFloat(`+height+`) / parseFloat(row.style.top) }`)))

		// A task that leaves the list leaves its focus to no other.
		b.do(chromedp.Navigate(s.base + "/console/tasks?status=TODO"))
		b.waitVisible(`//*[@data-row]`)
		b.run(`window.first = document.querySelector("[data-id]").dataset.id; document.querySelector("a[data-row]").focus()`)
		b.key("s")
		b.click(`//*[@role="menu"]//button[.="Done"]`)
		b.eventually("gone", func() string {
			return read(b, chromedp.Evaluate[string]("document.querySelector(`[data-id=\"${window.first}\"]`) ? \"there\" : \"gone\""))
		})
		must.Is(t, "", read(b, chromedp.Evaluate[string](`document.activeElement.closest("[data-id]")?.innerText ?? ""`)))
	})
}
