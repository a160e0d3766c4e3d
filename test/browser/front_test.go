//go:build browser

package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestTheFrontPageLeadsOn(t *testing.T) {
	s, b := startServer(t), openTab(t)
	b.do(chromedp.Navigate(s.base+"/"), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.picture("front")
	b.accessible()
	b.says("is running here", "Sign in", "Read the documents")
	b.leads(http.StatusOK, chromedp.Click(`//a[normalize-space()="How to get a token"]`))
	b.await("the section on tokens", `(() => {
		const found = document.querySelector("[id$='/description/how-to-get-a-token']")?.getBoundingClientRect()
		return found && found.top >= 0 && found.top < innerHeight ? "it is in sight" : ""
	})()`)
	b.do(chromedp.Navigate(s.base + "/"))
	b.leads(http.StatusOK, chromedp.Click(`//a[normalize-space()="Sign in"]`))
	b.says("Sign in")
}
