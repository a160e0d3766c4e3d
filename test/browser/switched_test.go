//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// runInNewPages runs a script in each page that is loaded later.
func (b *tab) runInNewPages(script string) {
	b.t.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// TestAPageOfTheOrganisationThatWasLeft proves that the page stores nothing in the other organisation.
func TestAPageOfTheOrganisationThatWasLeft(t *testing.T) {
	s := startServer(t)
	first := bearer(s.signIn("ada@collab.example", "Analytical Engines", "").Token)
	second := bearer(s.signIn("ada@collab.example", "Difference Engines", "").Token)
	for _, as := range []string{first, second} {
		s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	}

	b := openTab(t)
	b.enterConsole(s, "Ada", "Analytical Engines")
	b.do(chromedp.Navigate(s.base + "/console/files?place=shared/artifacts"))
	b.waitVisible(`//p[contains(., "Nothing is here yet")]`)
	other := b.newTab()
	other.runInNewPages(`BroadcastChannel.prototype.postMessage = () => undefined`) // the first tab gets no message
	other.load(s.base+"/console/tasks", "Tasks")
	other.switchTo("Difference Engines owner", "Difference Engines")

	b.upload("secret.txt")
	b.waitVisible(uploaded("secret.txt", "failed")+`[contains(., "The session of this page has ended")]`, `//*[@role="alert" and contains(., "Your session has ended")]`)
	if _, there := s.stored(second)["secret.txt"]; there {
		t.Error("the file is in the other organisation")
	}
}
