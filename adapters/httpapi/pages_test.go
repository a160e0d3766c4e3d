package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestFrontPage(t *testing.T) {
	a := built(t, func(o *Options) { o.SignIn = "http://localhost/dev/identity/sign-in" })
	r := get("/")
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	w := send(a, r)
	policy := w.Header().Get("Content-Security-Policy")
	if w.Code != http.StatusOK || !strings.HasPrefix(policy, "default-src 'none'; img-src 'self'; style-src 'sha256-") || w.Header().Get("Vary") != "Accept" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, want := range []string{"1.2.3", `href="/docs"`, `href="http://localhost/dev/identity/sign-in"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is missing in %s", want, w.Body)
		}
	}
	if w = send(a, get("/")); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a program gets %d %v", w.Code, w.Header())
	}
	if w = send(a, get("/favicon.ico")); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(w.Body.String(), "<svg ") {
		t.Errorf("the icon is %d %v %s", w.Code, w.Header(), w.Body)
	}
}
