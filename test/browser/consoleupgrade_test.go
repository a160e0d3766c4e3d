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

// upgraded is in front of a server, and from some time on answers as one of another release, whose console has
// another text and other names for all its files.
type upgraded struct {
	server *httputil.ReverseProxy
	yet    atomic.Bool
}

// startUpgraded starts a server behind the one that it returns.
func startUpgraded(t *testing.T) (*server, *upgraded) {
	t.Helper()
	u := &upgraded{}
	front := httptest.NewServer(u)
	t.Cleanup(front.Close)
	behind := must.Do(url.Parse(startServer(t, "COLLAB_PUBLIC_URL="+front.URL).base)).Or(t)
	u.server = httputil.NewSingleHostReverseProxy(behind)
	u.server.ModifyResponse = u.answer
	return &server{t, front.URL}, u
}

func (u *upgraded) changes(r *http.Request) bool {
	return u.yet.Load() && strings.HasPrefix(r.URL.Path, "/console") && !strings.HasPrefix(r.URL.Path, "/console/api/")
}

func (u *upgraded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.changes(r) {
		r.URL.Path = otherNames(r.URL.Path)
		r.Header.Del("Accept-Encoding") // the proxy asks for gzip itself, and unpacks it
		r.Header.Del("If-None-Match")
	}
	u.server.ServeHTTP(w, r)
}

func (u *upgraded) answer(r *http.Response) error {
	if kind := r.Header.Get("Content-Type"); !u.changes(r.Request) || !strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(kind, "text/javascript") || r.Request.Method == http.MethodHead {
		return nil
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	next := strings.ReplaceAll(otherNames(string(content)), oldText, newText)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte(next))), int64(len(next))
	r.Header.Set("Content-Length", fmt.Sprint(len(next)))
	r.Header.Del("Etag")
	return nil
}

// The text of the console that another release has in another way.
const oldText, newText = "New task, then Enter", "What is to be done?"

var digest = regexp.MustCompile(`-[0-9A-Z]{8}\.js`)

// otherNames gives files that names, or what names them, have digests of the other release.
func otherNames(of string) string {
	return digest.ReplaceAllStringFunc(of, func(name string) string {
		letters := []byte(name[1:9])
		slices.Reverse(letters)
		return "-" + string(letters) + ".js"
	})
}

func TestUpgrade(t *testing.T) {
	s, upgrade := startUpgraded(t)
	as := bearer(s.signedIn("ada@collab.example", "Analytical Engines", "").Token)
	first := decode[struct{ ID string }](t, s.call("POST", "/tasks", as, map[string]any{"title": "Translate Note G"}, http.StatusCreated))
	field := func(placeholder string) string {
		return fmt.Sprintf(`//input[@data-new and @placeholder=%q]`, placeholder)
	}
	b := openPage(t, s, "Ada", "/console/tasks", "Tasks")
	dialog := b.beside()
	dialog.resize(1280, 800, "light")
	dialog.do(chromedp.Navigate(s.base + "/console/tasks?task=" + first.ID))
	dialog.shown(`//dialog//textarea`)
	dialog.into(`//dialog//textarea`, "With Bernoulli's numbers")
	b.shown(field(oldText))
	b.into(field(oldText), "Weave algebra")
	upgrade.yet.Store(true)

	t.Run("what is open goes on, and saves", func(t *testing.T) {
		b.t, dialog.t = t, t
		b.key(kb.Enter)
		b.shown(`//a[@data-row and .="Weave algebra"]`)
		dialog.click(`//dialog//button[.="Save"]`)
		dialog.shown(`//dialog//*[@role="status" and .="Saved"]`)
		b.into(field(oldText), "Punch cards")
	})
	t.Run("a part of the page that is gone says so, and takes nothing away", func(t *testing.T) {
		b.t = t
		b.chord("k", chromedp.ModifierCtrl)
		b.shown(`//main//*[@role="alert" and contains(., "Opening the commands failed") and contains(., "after an upgrade of the server") and contains(., "is kept")]`)
		must.Is(t, "Punch cards", read(b, chromedp.Value(field(oldText))))
	})
	t.Run("another page is of the new release, and has what was typed", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Click(`//nav//a[@href="/console/files"]`))
		b.inConsole("Files")
		b.do(chromedp.Click(`//nav//a[@href="/console/tasks"]`))
		b.inConsole("Tasks")
		b.shown(field(newText))
		must.Is(t, "Punch cards", read(b, chromedp.Value(field(newText))))
		b.chord("k", chromedp.ModifierCtrl)
		b.shown(`//dialog[@open and contains(., "Go to")]`)
	})
}
