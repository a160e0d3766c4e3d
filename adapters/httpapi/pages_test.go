package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/session"
)

func TestFrontPage(t *testing.T) {
	a := newAPI(t, func(o *Options) { o.Console = noConsole{} })
	w := send(a, get("/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8"))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console" || w.Header().Get("Vary") != "Accept" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	checkError(t, send(a, get("/")), http.StatusNotFound)
	if w = send(a, get("/favicon.ico")); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(w.Body.String(), "<svg ") {
		t.Errorf("the icon: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// noConsole is a console without files.
type noConsole struct{}

func (noConsole) IsFile(string) bool { return true }

func (noConsole) Serve(http.ResponseWriter, *http.Request, session.Client, string) error {
	return fault.New(fault.NotFound, "There is no such file")
}
