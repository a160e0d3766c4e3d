package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/session"
)

func TestFrontPage(t *testing.T) {
	a := built(t, func(o *Options) { o.Console = noConsole{} })
	r := get("/")
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	w := send(a, r)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console" || w.Header().Get("Vary") != "Accept" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w = send(a, get("/")); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a program gets %d %v", w.Code, w.Header())
	}
	if w = send(a, get("/favicon.ico")); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(w.Body.String(), "<svg ") {
		t.Errorf("the icon is %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// noConsole is a console without files.
type noConsole struct{}

func (noConsole) IsFile(string) bool { return true }

func (noConsole) Serve(http.ResponseWriter, *http.Request, session.Client, string) error {
	return fault.New(fault.NotFound, "There is no such file")
}
