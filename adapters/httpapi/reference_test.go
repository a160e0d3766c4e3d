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

func TestReferencePageLoadsOnlyOwnResources(t *testing.T) {
	w := send(newAPI(t), get("/docs"))
	checkHeader(t, w.Header(), map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self' '" + sourceHash(referenceScript) + "'; style-src 'unsafe-inline'; " +
			"img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Content-Type":           "text/html; charset=utf-8",
		"Referrer-Policy":        "no-referrer",
		"X-Content-Type-Options": "nosniff",
	})
	page := w.Body.String()
	if !strings.Contains(page, "<script>"+referenceScript+"</script>") {
		t.Error("the page's script is not the one in the policy")
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(link[1], "/") && !strings.HasPrefix(link[1], "data:") {
			t.Errorf("the page links to %s", link[1])
		}
	}
}

func TestRendererMatchesItsChecksum(t *testing.T) {
	a := newAPI(t)
	want, from, _ := strings.Cut(strings.TrimSpace(rendererSum), "  ")
	if !regexp.MustCompile(`^@scalar/api-reference@\d+\.\d+\.\d+/dist/browser/standalone\.js$`).MatchString(from) {
		t.Errorf("the checksum is of %q", from)
	}
	target := "/docs/scalar-" + want[:16] + ".js"
	if page := send(a, get("/docs")).Body.String(); !strings.Contains(page, `<script src="`+target+`">`) {
		t.Errorf("%s is not in the page %s", target, page)
	}
	for accept, compressed := range map[string]bool{"gzip, deflate, br, zstd": true, "": false} {
		t.Run("Accept-Encoding "+accept, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodHead, target, nil)
			if accept != "" {
				r.Header.Set("Accept-Encoding", accept)
			}
			w := send(a, r)
			must.Is(t, http.StatusOK, w.Code)
			checkHeader(t, w.Header(), map[string]string{
				"Content-Type": "text/javascript; charset=utf-8", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding",
			})
			if (w.Header().Get("Content-Encoding") == "gzip") != compressed || !compressed && w.Body.Len() > 0 || w.Header().Get("Etag") == "" {
				t.Errorf("%v with %d bytes", w.Header(), w.Body.Len())
			}
		})
	}
	t.Run("each encoding has the script, and another entity tag", func(t *testing.T) {
		plain, compressed := send(a, get(target)), send(a, get(target, "Accept-Encoding: gzip"))
		for _, script := range []io.Reader{plain.Body, must.Do(gzip.NewReader(compressed.Body)).Or(t)} {
			sum := sha256.New()
			must.Do(io.Copy(sum, script)).Or(t)
			must.Is(t, want, hex.EncodeToString(sum.Sum(nil)))
		}
		must.Is(t, http.StatusOK, send(a, get(target, "Accept-Encoding: gzip", "If-None-Match: "+plain.Header().Get("Etag"))).Code)
	})
	for _, other := range []string{"/docs/scalar.js", "/docs/scalar-0000000000000000.js", "/docs/" + strings.ToUpper(target[len("/docs/"):]), target + "/x"} {
		t.Run(other, func(t *testing.T) { checkError(t, send(a, get(other)), http.StatusNotFound) })
	}
}
