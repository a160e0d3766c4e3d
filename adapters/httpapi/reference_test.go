package httpapi

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"collab/test/must"
)

// rendererPath is where the page has its renderer from.
func rendererPath(t *testing.T, a *api) string {
	t.Helper()
	found := regexp.MustCompile(`<script src="([^"]+)">`).FindStringSubmatch(send(a, get("/docs")).Body.String())
	if found == nil {
		t.Fatal("the page has no renderer")
	}
	return found[1]
}

func TestReferencePageLoadsOnlyOwnResources(t *testing.T) {
	w := send(built(t), get("/docs"))
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self' '" + sourceHash(referenceScript) + "'; style-src 'unsafe-inline'; " +
			"img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Content-Type":           "text/html; charset=utf-8",
		"Referrer-Policy":        "no-referrer",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	page := w.Body.String()
	if !strings.Contains(page, "<script>"+referenceScript+"</script>") {
		t.Error("the page's own script is not the one that the policy names")
	}
	for _, address := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(address[1], "/") && !strings.HasPrefix(address[1], "data:") {
			t.Errorf("the page names %s", address[1])
		}
	}
}

func TestRendererMatchesItsChecksum(t *testing.T) {
	a := built(t)
	target := rendererPath(t, a)
	want, from, _ := strings.Cut(strings.TrimSpace(rendererSum), "  ")
	if !regexp.MustCompile(`^@scalar/api-reference@\d+\.\d+\.\d+/dist/browser/standalone\.js$`).MatchString(from) {
		t.Errorf("it comes from %q", from)
	}
	if target != "/docs/scalar-"+want[:16]+".js" {
		t.Errorf("its path is %s", target)
	}
	for accept, compressed := range map[string]bool{
		"gzip, deflate, br, zstd": true, "GZIP": true, "x-gzip": true, "*": true, "br;q=1, gzip;q=0.1": true, "gzip, *;q=0": true,
		"": false, "br": false, "gzip;q=0": false, "*, gzip;q=0": false, "gzip;q=x": false, "*;q=0": false, "identity": false,
	} {
		t.Run("for a client that accepts "+accept, func(t *testing.T) {
			r := get(target)
			if accept != "" {
				r.Header.Set("Accept-Encoding", accept)
			}
			w := send(a, r)
			h := w.Header()
			if w.Code != http.StatusOK || h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%d %v", w.Code, h)
			}
			if got := h.Get("Content-Encoding") == "gzip"; got != compressed {
				t.Fatalf("compressed: %t", got)
			}
			var script io.Reader = w.Body
			if compressed {
				script = must.Do(gzip.NewReader(w.Body)).Or(t)
			}
			sum := sha256.New()
			must.Do(io.Copy(sum, script)).Or(t)
			must.Is(t, want, hex.EncodeToString(sum.Sum(nil)))
		})
	}
	t.Run("each form has a tag of its own", func(t *testing.T) {
		r := get(target)
		plain := send(a, r).Header().Get("Etag")
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("If-None-Match", plain)
		must.Is(t, http.StatusOK, send(a, r).Code)
	})
	t.Run("HEAD says the same without the content", func(t *testing.T) {
		if w := send(a, httptest.NewRequest(http.MethodHead, target, nil)); w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Etag") == "" {
			t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
		}
	})
	for _, other := range []string{"/docs/scalar.js", "/docs/scalar-0000000000000000.js", "/docs/" + strings.ToUpper(target[len("/docs/"):]), target + "/x"} {
		t.Run(other+" is not there", func(t *testing.T) {
			refused(t, send(a, get(other)), http.StatusNotFound)
		})
	}
}
