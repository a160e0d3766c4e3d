//go:build browser

package browser

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"collab/test/chromium"
	"collab/test/debian"
	"collab/test/must"
)

// tabTimeout is the limit of the time of one tab, from its beginning or the last check by axe.
const tabTimeout = 4 * time.Minute

// chromiumPath installs the browser if it is missing, and returns its path.
var chromiumPath = sync.OnceValues(func() (string, error) {
	err := debian.Install(context.Background(), func() bool { return chromium.Find() != "" }, "chromium")
	return chromium.Find(), err
})

// tab is a tab of a browser of its own, without history and cookies.
type tab struct {
	context.Context
	t         *testing.T
	limit     *time.Timer // ends the context after tabTimeout
	axeScript string      // the source of axe-core; empty before its first use

	mu       sync.Mutex
	requests []string // addresses of the requests
	before   int      // requests before the last visit
	problems []string // messages of errors
}

// shared is the browser of all tests. It is started with the first tab, and again if it has ended.
var shared struct {
	context.Context
	stop func() error
}

// startBrowser starts the shared browser unless it runs.
func startBrowser(t *testing.T) {
	t.Helper()
	if shared.Context != nil && shared.Err() == nil {
		return
	}
	path := must.Do(chromiumPath()).Or(t)
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("lang", "en"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1")} // without other hosts
	for _, flag := range []string{
		"disable-quic", "hide-scrollbars",
		"disable-back-forward-cache", // whose pages get no events
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	profile := must.Do(os.MkdirTemp("", "chromium-*")).Or(t)
	whole, stop, err := chromium.Start(context.Background(), path, profile, options...)
	if err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	shared.Context, shared.stop = whole, func() error { return errors.Join(stop(), os.RemoveAll(profile)) }
}

// openTab opens a tab with a history, cookies and storage of its own.
func openTab(t *testing.T) *tab {
	t.Helper()
	startBrowser(t)
	own, _ := chromedp.NewContext(shared.Context, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		if err := chromedp.Cancel(own); err != nil {
			t.Logf("closing the tab: %v", err)
		}
	})
	limited, done := context.WithCancelCause(own)
	limit := time.AfterFunc(tabTimeout, func() { done(context.DeadlineExceeded) })
	t.Cleanup(func() {
		limit.Stop()
		done(nil)
	})
	must.NoError(t, chromedp.Do(own))
	b := &tab{Context: limited, t: t, limit: limit}
	must.NoError(t, chromedp.Listen(own, b.record))
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	return b
}

// record records the browser's requests and errors.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *log.EventEntryAdded:
		b.problems = append(b.problems, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.problems = append(b.problems, fmt.Sprintf("console.error%s", consoleText(e.Args)))
		}
	}
}

// consoleText returns the text of a console message's arguments.
func consoleText(args []*runtime.RemoteObject) (texts []string) {
	for _, a := range args {
		texts = append(texts, cmp.Or(a.Description, string(a.Value)))
	}
	return texts
}

// do runs actions, which must succeed.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.fail(err)
	}
}

// fail ends the test with a screenshot.
func (b *tab) fail(err error) {
	b.t.Helper()
	cause := context.Cause(b)
	ctx, done := context.WithTimeout(context.WithoutCancel(b.Context), 10*time.Second)
	defer done()
	b.Context = ctx // the tab's context may have ended
	b.screenshot("failure")
	where, _ := chromedp.Run(b, chromedp.Location())
	b.t.Fatalf("at %s: %v", where, errors.Join(err, cause))
}

// read returns the result of an action, which must succeed.
func read[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	found, err := chromedp.Run(b, action)
	if err != nil {
		b.fail(err)
	}
	return found
}

// call calls a method of the browser, which must succeed, and returns its result.
func call[P, R any](b *tab, method cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b, method, params)
	if err != nil {
		b.fail(err)
	}
	return result
}

// press clicks the button with this text and waits for the next page.
func (b *tab) press(text string) {
	b.t.Helper()
	response, err := chromedp.RunResponse(b, chromedp.Click(button(text)))
	if err != nil {
		b.fail(fmt.Errorf("pressing %s: %w", text, err))
	}
	b.t.Logf("%s: %d %s", text, response.Status, response.URL)
}

// fill replaces the text of the field with this label.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	field := fmt.Sprintf(`//*[@id=//label[normalize-space()=%q]/@for]`, label)
	b.do(chromedp.WaitVisible(field), chromedp.Clear(field), chromedp.SendKeys(field, text))
}

// choose clicks the choice whose label begins with the text.
func (b *tab) choose(text string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`//label[starts-with(normalize-space(), %q)]`, text))
}

// text returns the text of the page.
func (b *tab) text() string {
	b.t.Helper()
	return read(b, chromedp.Evaluate[string](`document.body.innerText`))
}

// checkText checks that the page contains the texts.
func (b *tab) checkText(texts ...string) {
	b.t.Helper()
	page := b.text()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.t.Errorf("the page does not say %q:\n%s", text, page)
		}
	}
}

// value returns the contents of the field with this id.
func (b *tab) value(id string) string {
	b.t.Helper()
	return read(b, chromedp.Value(chromedp.ID(id)))
}

// resize sets the size and the colour scheme of the screen.
func (b *tab) resize(width, height int64, colours string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	b.media("prefers-color-scheme", colours)
}

// screenshot stores a picture of the whole page among the test's artifacts, which are kept with the flag -artifacts.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if flag.Lookup("test.artifacts").Value.String() != "true" {
		return
	}
	png, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Logf("no picture: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		b.t.Logf("no picture: %v", err)
	}
}

// clearProblems removes the errors that the browser has reported.
func (b *tab) clearProblems() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil
}

// checkProblems checks that the browser has reported no errors and has sent requests only to the servers.
func (b *tab) checkProblems(servers ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.t.Errorf("the browser says: %s", problem)
	}
	for _, request := range b.requests {
		known := false
		for _, server := range servers {
			known = known || strings.HasPrefix(request, server)
		}
		if !known {
			b.t.Errorf("the browser asked for %s", request)
		}
	}
}
