//go:build browser

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// block makes requests fail as if the server were unreachable, by the first pattern that matches the address.
func (b *tab) block(patterns ...*network.BlockPattern) {
	b.t.Helper()
	call(b, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: patterns})
}

// requested returns the addresses of requests that contain the part.
func (b *tab) requested(part string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.requests {
		if strings.Contains(address, part) {
			found = append(found, address)
		}
	}
	return found
}

const (
	// busy answers the page's calls with 503 until window.busy is reset.
	busy = `{
		const real = fetch
		window.busy = true
		window.fetch = (address, init) => window.busy && String(address).includes("/api/v1/") && !String(address).endsWith("/auth/me")
			? Promise.resolve(` + refusedBusy + `)
			: real(address, init)
	}`
	// unexplained returns the parts of a page that show a failure as if they were empty, or without its name. The
	// conversations of chats are stored on the device.
	unexplained = `[...document.querySelectorAll("main .empty:not(.begin, .talks *), main .problem:not(:has(code))")].filter((e) => e.checkVisibility()).map((e) => e.innerText)`
	// failures clicks all buttons "Try again", and returns the number of parts that have failed or are loading.
	failures = `([...document.querySelectorAll("button")].filter((e) => e.innerText === "Try again").forEach((e) => e.click()), document.querySelectorAll('.problem, [aria-busy="true"]').length)`
)

// retryAll retries until the page has no failure.
func (b *tab) retryAll() {
	b.t.Helper()
	b.eventually("0", func() string { return fmt.Sprint(read(b, chromedp.Evaluate[int](failures))) })
}

func TestPagesWithoutTheServer(t *testing.T) {
	s, as := startOwned(t)
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	b := openPage(t, s, "Ada", "/console", "Analytical Engines")
	b.resize(1280, 800, "light")
	for _, p := range consolePages(t) {
		t.Run(p.name+" says that the server is busy, and goes on", func(t *testing.T) {
			b.t = t
			other := b.newTab()
			other.runInNewPages(busy)
			other.do(chromedp.Navigate(s.base + p.path))
			other.waitVisible(`//main//*[@role="alert" and contains(., "The server is busy") and contains(., "request-1")]`)
			for _, found := range read(other, chromedp.Evaluate[[]string](unexplained)) {
				t.Errorf("the page says %q", found)
			}
			other.run("window.busy = false")
			other.retryAll()
		})
		if p.path == "/console" {
			continue
		}
		t.Run(p.name+" is not there while the server is not, and then is", func(t *testing.T) {
			b.t = t
			other := b.newTab()
			other.load(s.base+"/console", "Analytical Engines")
			other.resize(1280, 800, "light")
			other.block(&network.BlockPattern{URLPattern: s.base + "/*", Block: true})
			if p.path == "/console/sessions" {
				other.do(chromedp.Click(chromedp.CSS("button.account")))
			}
			other.click(fmt.Sprintf(`//a[@href=%q]`, p.path))
			other.waitVisible(`//main//*[@role="alert" and contains(., "cannot be reached")]`)
			other.block()
			other.retryAll()
			other.waitVisible(`//main//h1[.!=""]`)
		})
	}
	t.Run("a page whose file is gone after an upgrade is loaded with the console anew, once", func(t *testing.T) {
		b.t = t
		var blocked []*network.BlockPattern
		for _, address := range b.requested("/console/assets/") {
			blocked = append(blocked, &network.BlockPattern{URLPattern: address})
		}
		b.block(append(blocked, &network.BlockPattern{URLPattern: s.base + "/console/assets/*", Block: true})...)
		b.run("window.before = true")
		b.click(`//nav//a[@href="/console/tasks"]`)
		b.waitVisible(`//main//*[@role="alert" and contains(., "Loading the page failed")]`)
		b.eventually("false", func() string { return fmt.Sprint(read(b, chromedp.Evaluate[bool](`"before" in window`))) })
		b.waitVisible(`//main//*[@role="alert" and contains(., "Loading the page failed")]`)
		b.block()
		b.retryAll()
		b.waitConsole("Tasks")
	})
}
