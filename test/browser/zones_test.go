//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for machines without the time zone database

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

// TestFarTimeZones opens pages in time zones 14 hours before and 9.5 hours after UTC, whose date differs from the server's.
func TestFarTimeZones(t *testing.T) {
	c := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	s := &server{t, c.URL}
	me := s.signIn("ada@collab.example", "Analytical Engines", "")
	as, admin := bearer(me.Token), "X-Admin-Secret: "+collabd.AdminSecret
	s.grant(as, "PREMIUM")
	s.call("POST", "/org/invite", as, map[string]any{"email": "far@collab.example", "role": "MEMBER"}, http.StatusCreated)
	s.call("POST", "/tasks", as, map[string]any{"title": "Far away", "dueDate": "2030-01-31"}, http.StatusCreated)
	s.call("POST", "/chat", as, map[string]any{"message": "Good morning", "maxTokens": 5}, http.StatusOK)
	const written, date = "2006-01-02T15:04:05.000Z", "2006-01-02"

	for _, zone := range []string{"Pacific/Kiritimati", "Pacific/Marquesas"} {
		t.Run(zone, func(t *testing.T) {
			place := must.Do(time.LoadLocation(zone)).Or(t)
			b := openTab(t)
			must.Do(chromedp.Call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})).Or(t)
			b.resize(1280, 800, "light")
			b.enterConsole(s, "Ada", "Analytical Engines")

			now := time.Now()
			reset := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).In(place)
			b.waitVisible(fmt.Sprintf(`//p[starts-with(., "Resets") and contains(., "at 00:00 UTC")]/time[contains(@title, %q) and contains(@title, %q)]`, reset.Format("2 January 2006"), reset.Format("15:04:05")))
			b.waitVisible(fmt.Sprintf(`//*[@class="chart"]//p[@class="ends"]/span[.=%q]`, now.UTC().Format("2 January 2006")+" UTC"))

			b.load(s.base+"/console/tasks?dueAfter=2030-01-31&dueBefore=2030-01-31", "Tasks")
			b.waitVisible(`//time[@datetime="2030-01-31" and .="31 January 2030" and contains(@title, "Thursday") and contains(@title, "31 January 2030 (UTC)")]`)
			b.do(chromedp.Click(`//a[@data-row and .="Far away"]`), chromedp.WaitVisible(`//dialog//label[starts-with(., "Due (UTC)")]/input`))
			must.Is(t, "2030-01-31", read(b, chromedp.Value(`//dialog//label[starts-with(., "Due (UTC)")]/input`)))

			today := now.In(place)
			midnight := time.Date(today.Year(), today.Month(), today.Day(), 0, 0, 0, 0, place)
			b.load(s.base+"/console/audit?from="+today.Format(date)+"&to="+today.Format(date), "Audit log")
			want := "from=" + url.QueryEscape(midnight.UTC().Format(written)) + "&to=" + url.QueryEscape(midnight.Add(24*time.Hour).UTC().Format(written))
			if asked := b.requested("/api/v1/org/audit"); !slices.ContainsFunc(asked, func(address string) bool { return strings.Contains(address, want) }) {
				t.Errorf("none of %q has %s", asked, want)
			}

			b.enterOperator(s, "/console/operator/organisations?id="+me.Org.ID+"&grant=1", "Analytical Engines")
			const end = `//dialog//label[starts-with(., "Ends on")]/input`
			last := time.Date(now.Year()+2, 12, 31, 0, 0, 0, 0, place)
			b.do(chromedp.WaitVisible(end))
			b.run(fmt.Sprintf(`{
				const end = [...document.querySelectorAll("dialog label")].find((l) => l.textContent.startsWith("Ends on")).querySelector("input")
				end.value = %q
				end.dispatchEvent(new Event("input", { bubbles: true }))
			}`, last.Format(date)))
			b.waitVisible(fmt.Sprintf(`//dialog//tr[th="Ends" and td[2]=%q]`, last.Format("2 January 2006")))
			b.keyOn(end, kb.Enter)
			b.waitVisible(fmt.Sprintf(`//p[starts-with(., "Ends on")]/time[.=%q]`, last.Format("2 January 2006")))
			stored := decode[struct {
				Subscription struct{ CurrentPeriodEnd string }
			}](t, s.call("GET", "/admin/organisations/"+me.Org.ID, admin, nil, http.StatusOK))
			if want := last.UTC().Format(written); stored.Subscription.CurrentPeriodEnd != want {
				t.Errorf("the plan ends at %s, not at %s", stored.Subscription.CurrentPeriodEnd, want)
			}
			b.do(chromedp.Click(button("Set the plan…")), chromedp.WaitVisible(end))
			must.Is(t, last.Format(date), read(b, chromedp.Value(end)))

			execute(t, c, "UPDATE audit SET at = ? WHERE action = 'invitation.created'", midnight.Add(-24*time.Hour-time.Minute).UnixMilli())
			b.load(s.base+"/console/audit", "Audit log")
			b.waitVisible(`//li[contains(., "far@collab.example")]//time[.="2 days ago"]`)
		})
	}
}
