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

func TestOperatorsOrganisations(t *testing.T) {
	s := startServer(t)
	owner := s.signIn("ada@collab.example", "Analytical Engines", "")
	s.signIn("ben@collab.example", "Analytical Engines", "member")
	for i := range 51 {
		s.signIn("grace@collab.example", fmt.Sprintf("Company %02d", i), "")
	}
	const list = "/console/operator/organisations"
	one := list + "?id=" + owner.Org.ID
	open := func(t *testing.T, address, heading string) *tab {
		t.Helper()
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.enterOperator(s, address, heading)
		b.clearProblems() // of 401 before the sign-in
		return b
	}
	type organisation struct {
		Subscription struct {
			Plan              string
			PurchasedSeats    *int
			ManagedExternally bool
		}
	}
	planOf := func() string {
		o := decode[organisation](t, s.call("GET", "/admin/organisations/"+owner.Org.ID, "X-Admin-Secret: "+collabd.AdminSecret, nil, http.StatusOK))
		return o.Subscription.Plan
	}
	roleOf := func(email string) string { return s.member(bearer(owner.Token), email).Role }
	audited := func(action, detail string) {
		t.Helper()
		for _, e := range decode[[]struct {
			Action, Detail string
			Operator       bool
		}](t, s.call("GET", "/org/audit", bearer(owner.Token), nil, http.StatusOK)) {
			if e.Operator && e.Action == action && e.Detail == detail {
				return
			}
		}
		t.Errorf("the audit log of the organisation has no %s by an operator with %s", action, detail)
	}
	named := func(name string) string { return fmt.Sprintf(`//ul[@aria-label="Organisations"]//a[.=%q]`, name) }
	field := func(label string) string { return fmt.Sprintf(`//dialog//label[starts-with(., %q)]/*`, label) }
	role := func(email string) string { return fmt.Sprintf(`//li[@data-member=%q]//select`, email) }

	t.Run("with the keyboard an organisation is found and opened, and the list has pages", func(t *testing.T) {
		b := open(t, list, "Organisations")
		b.waitVisible(named("Company 00"), named("Analytical Engines"), `//nav//a[@aria-current="page" and .="Organisations"]`)
		b.do(chromedp.WaitNotPresent(named("Company 50")), chromedp.Click(`//a[.="Next page"]`))
		b.waitVisible(named("Company 50"))
		b.do(chromedp.WaitNotPresent(named("Company 00")), chromedp.Click(`//a[.="First page"]`))
		b.waitVisible(named("Company 00"))
		b.tabTo("Search")
		b.do(chromedp.Focus(chromedp.CSS(`input[type="search"]`)))
		b.key("nothing like it", kb.Enter)
		b.waitVisible(`//p[starts-with(., "No organisation has this in its name")]`)
		b.click(button("Show all"))
		b.do(chromedp.Focus(chromedp.CSS(`input[type="search"]`)))
		b.key("aNALYTICAL", kb.Enter)
		b.do(chromedp.WaitNotPresent(named("Company 00")))
		b.tabTo("Analytical Engines")
		b.key(kb.Enter)
		b.waitConsole("Analytical Engines")
		b.checkText("No plan", "1 owner", "Its owners and admins may publish releases", owner.Org.ID)
		b.do(chromedp.NavigateBack())
		b.waitConsole("Organisations")
		b.waitVisible(named("Analytical Engines"))
		b.do(chromedp.NavigateBack())
		b.waitVisible(named("Company 00"))
		must.Is(t, "", read(b, chromedp.Value(chromedp.CSS(`input[type="search"]`))))
		b.load(s.base+list+"?q="+owner.Org.ID, "Organisations")
		b.waitVisible(named("Analytical Engines"))
		b.load(s.base+list+"?id=01900000-0000-7000-8000-000000000000", "There is no such organisation")
		b.clearProblems() // of 404
		b.checkProblems(s.base, icon)
	})
	t.Run("a plan is set after it was shown beside the present one, and what was typed outlasts errors and the session", func(t *testing.T) {
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.busyOnce("/subscription")
		b.enterOperator(s, one, "Analytical Engines")
		b.keyOn(button("Set the plan…"), kb.Enter)
		b.waitVisible(`//dialog//h2[.="Plan of Analytical Engines"]`, `//dialog//p[contains(., "can no longer buy or change a plan itself")]`)
		b.keyOn(field("Plan"), "e")
		b.keyOn(field("Seats"), "25")
		b.waitVisible(`//dialog//tr[th="Plan" and td[1]="No plan" and td[2]="Enterprise"]`, `//dialog//tr[th="Seats" and td[2]="25"]`)
		b.key(kb.Enter)
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "Setting the plan failed") and contains(., "request-1")]`)
		must.Is(t, "NO_PLAN", planOf())

		b.endOperatorSession()
		b.click(`//dialog//button[.="Try again"]`)
		b.waitVisible(`//h2[.="Your operator’s session has ended"]`)
		b.key("not it", kb.Enter)
		b.waitVisible(`//form//*[@role="alert" and contains(., "not the operator")]`)
		read(b, chromedp.Evaluate[int](`document.querySelector("input[type=password]").select(), 0`))
		b.key(collabd.AdminSecret, kb.Enter)
		b.do(chromedp.WaitNotPresent(`//h2[.="Your operator’s session has ended"]`))
		must.Is(t, "25", read(b, chromedp.Value(field("Seats"))))
		b.do(chromedp.Reload())
		b.waitVisible(`//dialog//tr[th="Plan" and td[2]="Enterprise"]`, `//dialog//tr[th="Seats" and td[2]="25"]`)
		b.click(`//dialog//button[.="Set the plan"]`)
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "request-1")]`) // of this load of the page
		b.do(chromedp.Click(`//dialog//button[.="Set the plan"]`), chromedp.WaitNotPresent(`//dialog`))
		b.waitVisible(`//p[contains(@class, "figure") and starts-with(., "Enterprise")]`, `//*[@id="said" and contains(., "is Enterprise now")]`)
		must.Is(t, "ENTERPRISE", planOf())
		audited("subscription.changed", "NO_PLAN -> ENTERPRISE")
		b.click(button("Set the plan…"))
		b.waitVisible(`//dialog//tr[th="Set by" and td[1]="an operator"]`)
		b.closeDialog()
	})
	t.Run("an organisation gets an owner, keeps one, and nothing changes before it is confirmed", func(t *testing.T) {
		b := open(t, one, "Analytical Engines")
		b.keyOn(role("ben@collab.example"), "o")
		b.waitVisible(`//dialog//h2[.="Role in Analytical Engines"]`, `//dialog//tr[th="Ben" and td[1]="Member" and td[2]="Owner"]`)
		b.closeDialog()
		must.Is(t, "MEMBER", roleOf("ben@collab.example"))
		b.keyOn(role("ada@collab.example"), "v")
		b.click(button("Make Viewer"))
		b.waitVisible(`//dialog//*[@role="alert" and contains(., "last OWNER") and contains(., "Make somebody else one first")]`)
		b.closeDialog()
		b.keyOn(role("ben@collab.example"), "o")
		b.tabTo("Make Owner")
		b.key(kb.Enter)
		b.do(chromedp.WaitNotPresent(`//dialog`))
		b.waitVisible(`//p[contains(., "2 owners")]`)
		must.Is(t, "OWNER", roleOf("ben@collab.example"))
		audited("member.role_changed", "MEMBER -> OWNER")
	})
	t.Run("what cannot be loaded is said with the request's id, and loaded again", func(t *testing.T) {
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.busyOnce("limit=50")
		b.busyOnce("limit=100")
		b.busyOnce("/sign-in")
		b.load(s.base+list, "Operator")
		b.do(chromedp.Focus(chromedp.CSS(`input[type="password"]`)))
		b.key(collabd.AdminSecret, kb.Enter)
		b.waitVisible(`//form//*[@role="alert" and contains(., "request-1")]`)
		b.key(kb.Enter)
		b.waitVisible(`//*[@role="alert" and contains(., "Loading the organisations failed") and contains(., "request-1")]`)
		b.do(chromedp.WaitNotPresent(named("Company 00")), chromedp.Click(button("Try again")))
		b.waitVisible(named("Company 00"))
		b.click(named("Analytical Engines"))
		b.waitVisible(`//*[@role="alert" and contains(., "Loading the members failed")]`)
		b.click(button("Try again"))
		b.waitVisible(role("ada@collab.example"))
	})
	t.Run("the pages are accessible, with dialogs open, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.resize(1280, 800, "light")
		b.enterOperator(s, list, "Organisations")
		b.axe("organisations")
		b.load(s.base+list+"?q=nothing", "Organisations")
		b.axe("no-organisation")
		b.load(s.base+one, "Analytical Engines")
		b.waitVisible(role("ada@collab.example"))
		b.axe("organisation")
		b.keyOn(role("ada@collab.example"), "v")
		b.waitVisible(`//dialog`)
		b.axe("organisation-role")
		b.closeDialog()
		b.click(button("Set the plan…"))
		b.waitVisible(`//dialog`)
		b.axe("organisation-plan")
		b.endOperatorSession()
		b.click(`//dialog//button[.="Set the plan"]`)
		b.waitVisible(`//h2[.="Your operator’s session has ended"]`)
		b.axe("operator-session-ended")
		if text := b.text(); strings.Contains(text, collabd.AdminSecret) {
			t.Error("the page shows the secret")
		}
	})
}
