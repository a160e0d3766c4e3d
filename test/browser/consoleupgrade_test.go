//go:build browser

package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/must"
)

// upgradeProxy is a proxy before a server. When upgraded is set, it replies like a server of another release, whose console
// has another text and other file names.
type upgradeProxy struct {
	server   *httputil.ReverseProxy
	upgraded atomic.Bool
}

// startUpgradeProxy starts a server behind an upgradeProxy, and returns the proxy as a server.
func startUpgradeProxy(t *testing.T) (*server, *upgradeProxy) {
	t.Helper()
	u := &upgradeProxy{}
	front := httptest.NewServer(u)
	t.Cleanup(front.Close)
	behind := must.Do(url.Parse(startServer(t, "COLLAB_PUBLIC_URL="+front.URL).base)).Or(t)
	u.server = httputil.NewSingleHostReverseProxy(behind)
	u.server.ModifyResponse = u.response
	return &server{t, front.URL}, u
}

func (u *upgradeProxy) changes(r *http.Request) bool {
	return u.upgraded.Load() && strings.HasPrefix(r.URL.Path, "/console") && !strings.HasPrefix(r.URL.Path, "/console/api/")
}

func (u *upgradeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.changes(r) {
		r.URL.Path = renameDigests(r.URL.Path)
		r.Header.Del("Accept-Encoding") // the proxy requests and decodes gzip itself
		r.Header.Del("If-None-Match")
	}
	u.server.ServeHTTP(w, r)
}

func (u *upgradeProxy) response(r *http.Response) error {
	if kind := r.Header.Get("Content-Type"); !u.changes(r.Request) || !strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(kind, "text/javascript") || r.Request.Method == http.MethodHead {
		return nil
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	next := strings.ReplaceAll(renameDigests(string(content)), oldText, newText)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte(next))), int64(len(next))
	r.Header.Set("Content-Length", fmt.Sprint(len(next)))
	r.Header.Del("Etag")
	return nil
}

// A text of the console in the present and in the other release.
const oldText, newText = "New task, then Enter", "What is to be done?"

var digest = regexp.MustCompile(`-[0-9A-Z]{8}\.js`)

// renameDigests replaces the digests in names of files by those of the other release.
func renameDigests(of string) string {
	return digest.ReplaceAllStringFunc(of, func(name string) string {
		letters := []byte(name[1:9])
		slices.Reverse(letters)
		return "-" + string(letters) + ".js"
	})
}

func TestUpgrade(t *testing.T) {
	s, upgrade := startUpgradeProxy(t)
	as := bearer(s.signIn("ada@collab.example", "Analytical Engines", "").Token)
	first := decode[struct{ ID string }](t, s.call("POST", "/tasks", as, map[string]any{"title": "Translate Note G"}, http.StatusCreated))
	field := func(placeholder string) string {
		return fmt.Sprintf(`//input[@data-new and @placeholder=%q]`, placeholder)
	}
	b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
	dialog := b.newTab()
	dialog.resize(1280, 800, "light")
	dialog.do(chromedp.Navigate(s.base + "/console/tasks?task=" + first.ID))
	dialog.waitVisible(`//dialog//textarea`)
	dialog.typeInto(`//dialog//textarea`, "With Bernoulli's numbers")
	b.waitVisible(field(oldText))
	b.typeInto(field(oldText), "Weave algebra")
	upgrade.upgraded.Store(true)

	t.Run("what is open goes on, and saves", func(t *testing.T) {
		b.t, dialog.t = t, t
		b.key(kb.Enter)
		b.waitVisible(`//a[@data-row and .="Weave algebra"]`)
		dialog.click(`//dialog//button[.="Save"]`)
		dialog.waitVisible(`//dialog//*[@role="status" and .="Saved"]`)
		b.typeInto(field(oldText), "Punch cards")
	})
	t.Run("a part of the page that is gone says so, and takes nothing away", func(t *testing.T) {
		b.t = t
		b.chord("k", chromedp.ModifierCtrl)
		b.waitVisible(`//main//*[@role="alert" and contains(., "Opening the commands failed") and contains(., "after an upgrade of the server") and contains(., "is kept")]`)
		must.Is(t, "Punch cards", read(b, chromedp.Value(field(oldText))))
	})
	t.Run("another page is of the new release, and has what was typed", func(t *testing.T) {
		b.t = t
		b.click(`//nav//a[@href="/console/files"]`)
		b.waitConsole("Files")
		b.click(`//nav//a[@href="/console/tasks"]`)
		b.waitConsole("Tasks")
		b.waitVisible(field(newText))
		must.Is(t, "Punch cards", read(b, chromedp.Value(field(newText))))
		b.chord("k", chromedp.ModifierCtrl)
		b.waitVisible(`//dialog[@open and contains(., "Go to")]`)
	})
}
