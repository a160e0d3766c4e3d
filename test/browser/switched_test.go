//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// onNewPages has a script run in the pages that are loaded from now on.
func (b *tab) onNewPages(script string) {
	b.t.Helper()
	if _, err := chromedp.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		b.fail(err)
	}
}

func TestAPageOfTheOrganisationThatWasLeft(t *testing.T) {
	s := startServer(t)
	first := bearer(s.signedIn("ada@collab.example", "Analytical Engines", "").Token)
	second := bearer(s.signedIn("ada@collab.example", "Difference Engines", "").Token)
	for _, as := range []string{first, second} {
		s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	}
	s.call("PUT", "/sync/memory/org", second, map[string]any{"content": "# Difference"}, http.StatusOK)

	b := openTab(t)
	b.enterConsole(s, "Ada", "Analytical Engines")
	b.do(chromedp.Navigate(s.base + "/console/files?place=shared/artifacts"))
	b.shown(`//p[contains(., "Nothing is here yet")]`)
	other := b.beside()
	other.onNewPages(`BroadcastChannel.prototype.postMessage = () => undefined`) // the first tab learns nothing
	other.do(chromedp.Navigate(s.base + "/console/tasks"))
	other.inConsole("Tasks")
	other.do(chromedp.SendKeys(chromedp.CSS("input.new"), "of Analytical Engines"))
	other.do(chromedp.Navigate(s.base + "/console/memories?memory=org"))
	other.inConsole("Memories")
	other.do(chromedp.SendKeys(`//textarea[@id="text"]`, "# Analytical"))
	other.shown(`//*[.="Not saved"]`)
	other.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.Click(`//li/button[normalize-space()="Difference Engines owner"]`))
	other.inConsole("Difference Engines")

	t.Run("stores nothing in the other organisation", func(t *testing.T) {
		b.upload("secret.txt")
		b.shown(uploaded("secret.txt", "failed")+`[contains(., "another account or organisation")]`, `//*[@role="alert" and contains(., "Your session has ended")]`)
		if _, there := s.stored(second)["secret.txt"]; there {
			t.Error("the file is in the other organisation")
		}
	})
	t.Run("leaves no draft in the other organisation", func(t *testing.T) {
		other.do(chromedp.Navigate(s.base + "/console/memories?memory=org"))
		other.inConsole("Memories")
		if text := other.value("text"); text != "# Difference" {
			t.Errorf("the memory is %q", text)
		}
		other.do(chromedp.Navigate(s.base + "/console/tasks"))
		other.inConsole("Tasks")
		if text := read(other, chromedp.Value(chromedp.CSS("input.new"))); text != "" {
			t.Errorf("the new task is %q", text)
		}
	})
}
