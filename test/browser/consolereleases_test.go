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

// published is a release as far as the tests read it.
type published struct {
	ID, Version string
	Rollout     int `json:"rolloutPercentage"`
	Active      bool
	PausedAt    *string
	Limit       *int `json:"failureLimit"`
}

// publish publishes a release for Linux on X64 with further fields.
func (s *server) publish(as, version string, more map[string]any) published {
	s.t.Helper()
	fields := map[string]any{"version": version, "platform": "LINUX", "arch": "X64", "downloadUrl": "https://dl.example.com/collab-" + version + ".AppImage"}
	for name, value := range more {
		fields[name] = value
	}
	return decode[published](s.t, s.call("POST", "/updates", as, fields, http.StatusCreated))
}

// release returns the release with the id.
func (s *server) release(as, id string) published {
	s.t.Helper()
	for _, r := range decode[[]published](s.t, s.call("GET", "/updates/releases", as, nil, http.StatusOK)) {
		if r.ID == id {
			return r
		}
	}
	s.t.Fatalf("there is no release %s", id)
	return published{}
}

// checkUpdates checks for updates of the devices with the ids.
func (s *server) checkUpdates(version string, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.call("GET", "/updates/check?platform=linux&arch=x64&version="+version+"&clientId="+id, "", nil, http.StatusOK)
	}
}

// reportFrom sends a report of an installation from a network address.
func (s *server) reportFrom(address, version, outcome string) {
	s.t.Helper()
	status, response, err := collabd.Client{Base: s.base}.Do("POST", "/updates/reports", map[string]string{"version": version, "platform": "linux", "arch": "x64", "outcome": outcome}, "X-Forwarded-For: "+address)
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("the report answered %d: %v %s", status, err, response)
	}
}

// returnToFront sends the page the events of a tab that is activated.
func (b *tab) returnToFront() {
	b.t.Helper()
	read(b, chromedp.Evaluate[bool](`dispatchEvent(new Event("focus"))`))
}

func TestReleasesPage(t *testing.T) {
	s, as := startOwned(t, "COLLAB_TRUSTED_PROXIES=127.0.0.1/32", "COLLAB_RATE_LIMITS=off")
	old := s.publish(as, "1.0.0", nil)
	now := s.publish(as, "1.1.0", map[string]any{"rolloutPercentage": 10, "failureLimit": 10, "failureMinimum": 20, "releaseNotes": "- **Faster** wheels"})
	s.publish(as, "2.0.0-beta.1", map[string]any{"platform": "DARWIN", "arch": "UNIVERSAL", "channel": "BETA", "active": false})
	var devices []string
	for n := range 40 {
		devices = append(devices, fmt.Sprint("device-", n))
	}
	s.checkUpdates("1.0.0", devices...)
	badge := func(text string) string { return fmt.Sprintf(`//*[@class="badge" and .=%q]`, text) }
	row := func(version, state string) string {
		return fmt.Sprintf(`//ul[@aria-label="Releases"]//a[b=%q]/span[.=%q]`, version, state)
	}

	t.Run("the list has the states of releases, filters in the address, and adoption as a chart and a table", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases", "Releases")
		b.waitVisible(row("1.1.0", "Rolling out at 10 %"), row("1.0.0", "Superseded"), row("2.0.0-beta.1", "Withdrawn"), `//figure`, `//nav//a[.="Releases" and @aria-current]`)
		b.enterOn("Figures")
		b.waitVisible(`//table//th[.="1.0.0"]`)
		b.tabTo("Platform")
		b.key("m")
		b.do(chromedp.WaitNotPresent(row("1.1.0", "Rolling out at 10 %")))
		b.waitVisible(`//p[starts-with(., "No device of these has checked")]`)
		if where := read(b, chromedp.Location()); !strings.HasSuffix(where, "/console/releases?platform=DARWIN") {
			t.Errorf("the address is %s", where)
		}
		b.tabTo("State")
		b.key("p")
		b.waitVisible(`//p[starts-with(., "No release fits these filters")]`)
		b.checkProblems(s.base)
	})
	t.Run("by keyboard the slider says how many devices it reaches, and only Apply moves the rollout", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases?release="+now.ID, "1.1.0")
		b.waitVisible(`//p[@id="reach" and contains(., "10 % reaches about 4 of ")]`)
		b.do(chromedp.Focus(chromedp.CSS(`input[type="range"]`)))
		for range 20 {
			b.key(kb.ArrowRight)
		}
		b.waitVisible(`//p[@id="reach" and contains(., "30 % reaches about 12 of ")]`, badge("Rolling out at 10 %"))
		must.Is(t, 10, s.release(as, now.ID).Rollout)
		b.tabTo("Apply 30 %")
		b.key(kb.Enter)
		b.waitVisible(badge("Rolling out at 30 %"), `//*[@id="said" and contains(., "The rollout is at 30 %")]`)
		must.Is(t, 30, s.release(as, now.ID).Rollout)
		b.checkProblems(s.base)
	})
	t.Run("a change of another manager is noticed, and what was chosen stays", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases?release="+now.ID, "1.1.0")
		b.do(chromedp.Focus(chromedp.CSS(`input[type="range"]`)))
		b.key(kb.ArrowRight)
		b.waitVisible(button("Apply 31 %"))
		s.call("PATCH", "/updates/"+now.ID, as, map[string]any{"rolloutPercentage": 50}, http.StatusOK)
		b.returnToFront()
		b.waitVisible(badge("Rolling out at 50 %"), `//*[@role="alert" and contains(., "Somebody else has set the rollout to 50 % meanwhile")]`, button("Apply 31 %"))
		b.do(chromedp.Click(button("Back to 50 %")), chromedp.WaitNotPresent(button("Apply 31 %")))
		b.checkProblems(s.base)
	})
	t.Run("a device's place in the rollout is explained, and the feeds can be copied", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases?release="+now.ID, "1.1.0")
		b.do(chromedp.SendKeys(`//label[starts-with(., "Ids of devices")]/input`, "device-9, device-161"), chromedp.Click(button("Check")))
		b.waitVisible(`//tr[contains(., "device-9") and contains(., "Yes") and contains(., "in the rollout")]`, `//tr[contains(., "device-161") and contains(., "No") and contains(., "not in the rollout yet")]`)
		b.waitVisible(fmt.Sprintf(`//code[.=%q]`, s.base+"/api/v1/updates/feeds/electron?arch=x64"), `//li[contains(., "Tauri") and contains(., "has not got a signature")]`)
		b.checkProblems(s.base)
	})
	t.Run("reports pause the rollout while the page is open, and it says why", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases?release="+now.ID, "1.1.0")
		b.waitVisible(`//section[@aria-label="Pausing by itself" and contains(., "more than 10 % of at least 20")]`)
		for n := range 25 {
			outcome := "success"
			if n%4 == 0 {
				outcome = "failure"
			}
			s.reportFrom(fmt.Sprint("198.51.100.", n+1), "1.1.0", outcome)
		}
		s.call("GET", "/updates/releases/"+now.ID+"/reports", as, nil, http.StatusOK) // the server stores what it has
		b.returnToFront()
		b.waitVisible(badge("Paused by itself at 50 %"), `//p[contains(., "7 of 25 reported installations had failed") and contains(., "more than 10 %")]`, `//section[@aria-label="Reported installations"]//figure`)
		b.enterOn("Resume the rollout")
		b.waitVisible(badge("Rolling out at 50 %"), `//section[@aria-label="Pausing by itself" and contains(., "So far none count")]`)
		b.enterOn("Pause the rollout")
		b.waitVisible(badge("Paused by hand at 50 %"))
		b.enterOn("Resume the rollout")
		b.waitVisible(badge("Rolling out at 50 %"))
		b.enterOn("Withdraw")
		b.waitVisible(badge("Withdrawn"))
		if s.release(as, now.ID).Active {
			t.Error("the release is active after it was withdrawn")
		}
		b.enterOn("Restore")
		b.waitVisible(badge("Rolling out at 50 %"))
		b.tabTo("Failures allowed")
		b.key(kb.Delete)
		b.enterOn("Save the rule")
		b.waitVisible(`//p[starts-with(., "The rollout does not pause by itself")]`)
		if limit := s.release(as, now.ID).Limit; limit != nil {
			t.Errorf("the limit is %d", *limit)
		}
		b.checkProblems(s.base)
	})
	t.Run("with the keyboard alone a release is published, a duplicate is explained, and nothing typed is lost", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/releases", "Releases")
		b.enterOn("Publish…")
		b.waitConsole("Publish a release")
		fill := func(label, text string) {
			b.tabTo(label)
			b.key(text)
		}
		fill("Version", "1.0.0+again")
		fill("Platform", "l")
		fill("Architecture", "x")
		fill("Address of the download", "https://dl.example.com/again.AppImage")
		b.waitVisible(`//p[contains(., "There is a release of this version for Linux · x64 · Stable")]`)
		b.key(kb.Enter)
		b.waitVisible(`//*[@role="alert" and contains(., "Publishing failed") and contains(., "what was published is never replaced")]`)
		b.do(chromedp.Reload())
		b.waitConsole("Publish a release")
		must.Is(t, "https://dl.example.com/again.AppImage", read(b, chromedp.Value(`//label[starts-with(., "Address of the download")]/input`)))
		fill("Version", "1.0.1")
		b.waitVisible(`//p[contains(., "The latest is 1.1.0")]`)
		b.key(kb.Backspace, kb.Backspace, kb.Backspace, "2.0")
		fill("Release notes", "Everything is new")
		fill("Rollout to begin with", "20")
		b.key(kb.Enter)
		b.waitConsole("1.2.0")
		b.waitVisible(badge("Rolling out at 20 %"), `//*[contains(@class, "markdown") and contains(., "Everything is new")]`)
		b.enterOn("← All releases")
		b.waitVisible(row("1.2.0", "Rolling out at 20 %"), row("1.1.0", "Superseded"))
	})
	t.Run("a 503 is said beside what failed, and a 403 of an organisation that does not publish is a page", func(t *testing.T) {
		b := openTab(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		b.busyOnce("/updates/" + old.ID)
		b.load(s.base+"/console/releases?release="+old.ID, "1.0.0")
		b.click(button("Withdraw"))
		b.waitVisible(`//*[@role="alert" and contains(., "Changing the release failed") and contains(., "request-1")]`, badge("Superseded"))
		b.click(button("Withdraw"))
		b.waitVisible(badge("Withdrawn"))

		other := startServer(t, "COLLAB_RELEASE_ORGS=01900000-0000-7000-8000-000000000000")
		other.signIn("ada@collab.example", "Analytical Engines", "")
		b.enterConsole(other, "Ada", "Analytical Engines")
		b.do(chromedp.Navigate(other.base + "/console/releases"))
		b.waitConsole("Releases")
		b.waitVisible(`//p[contains(., "This organisation does not publish releases")]`)
	})
	t.Run("the page is accessible, in light and dark, wide and narrow", func(t *testing.T) {
		b := openWithoutPolicy(t)
		b.enterConsole(s, "Ada", "Analytical Engines")
		for name, at := range map[string][2]string{"releases": {"", "Releases"}, "release": {"?release=" + now.ID, "1.1.0"}, "publish": {"?publish=new", "Publish a release"}} {
			b.load(s.base+"/console/releases"+at[0], at[1])
			b.axe(name)
		}
	})
}
