package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/app/objects"
	"collab/test/harness"
	"collab/test/must"
)

func TestClientsThatAskAreRedirectedToTheObjectStore(t *testing.T) {
	o := newFileServer(t)
	stored := o.store(t, url.QueryEscape("Büro/100% 'neu';a=b.html"), "<script>")
	for about, row := range map[string]struct {
		query   string
		headers []string
		applied string
	}{
		"by a parameter":               {"?redirect=1", nil, ""},
		"by a parameter, for bytes":    {"?redirect=1&raw=1", nil, ""},
		"by a preference":              {"?raw=1", []string{"Prefer: respond-async, Redirect; x=y"}, "redirect"},
		"by a preference for its type": {"", []string{"Prefer: redirect", "Accept: text/html"}, "redirect"},
		"whatever part":                {"?redirect=1", []string{"Range: bytes=900-"}, ""},
		"with another version":         {"?redirect=1", []string{`If-None-Match: "7"`}, ""},
	} {
		t.Run(about, func(t *testing.T) {
			w := o.get("/files/"+stored.ID+row.query, row.headers...)
			h := w.Header()
			if w.Code != http.StatusTemporaryRedirect || w.Body.Len() != 0 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for name, want := range map[string]string{
				"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Preference-Applied": row.applied, "X-Collab-Checksum": checksum("<script>"),
				"X-Collab-Version": "1", "Vary": "Accept, Prefer",
			} {
				if got := strings.Join(h.Values(name), ", "); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			to, err := url.Parse(h.Get("Location"))
			if err != nil || !strings.HasPrefix(to.String(), harness.BlobsURL) {
				t.Fatal(to, err)
			}
			if got := to.Query().Encode(); got != (url.Values{"type": {"text/html"}, "lifetime": {"1m0s"}, "disposition": {"attachment; filename*=UTF-8''100%25%20%27neu%27%3Ba%3Db.html"}}).Encode() {
				t.Errorf("it is signed for %s", got)
			}
		})
	}
	for about, row := range map[string]struct {
		r    *http.Request
		want int
	}{
		"a HEAD is answered here":                     {request("HEAD", "/files/"+stored.ID+"?redirect=1", nil), 200},
		"the version that the client has is not sent": {request("GET", "/files/"+stored.ID+"?redirect=1", nil, `If-None-Match: "1"`), 304},
		"JSON is answered here":                       {request("GET", "/files/"+stored.ID, nil, "Prefer: redirect"), 200},
		"other preferences change nothing":            {request("GET", "/files/"+stored.ID+"?raw=1", nil, "Prefer: redirects, return=minimal"), 200},
		"JSON by an address is refused":               {request("GET", "/files/"+stored.ID+"?redirect=1&raw=0", nil), 400},
		"a parameter with another value is refused":   {request("GET", "/files/"+stored.ID+"?redirect=0", nil), 400},
		"another organisation's file is not found":    {request("GET", "/files/"+stored.ID+"?redirect=1", nil, "X-Actor: eve"), 404},
		"a file that does not exist is not found":     {request("GET", "/files/"+string(o.desk)+"?redirect=1", nil), 404},
		"a file of another member's own is not found": {request("GET", "/files/"+o.store(t, "own.md", "own", "scope=PERSONAL").ID+"?redirect=1", nil, "X-Actor: ben"), 404},
	} {
		t.Run(about, func(t *testing.T) {
			if w := send(o, row.r); w.Code != row.want || w.Header().Get("Location") != "" {
				t.Errorf("%d %s", w.Code, w.Header())
			}
		})
	}
	t.Run("bytes are sent where the store has no addresses", func(t *testing.T) {
		o := newFileServer(t, func(s *objects.Options) { s.Signed = nil })
		stored := o.store(t, "x.html", "<script>")
		w := o.get("/files/"+stored.ID+"?redirect=1", "Prefer: redirect", "Range: bytes=1-3")
		if w.Code != http.StatusPartialContent || w.Body.String() != "scr" || w.Header().Get("Preference-Applied") != "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// startedUpload is a started upload as clients read it.
type startedUpload struct {
	ID      string            `json:"id"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Expires time.Time         `json:"expiresAt"`
}

func (o *fileServer) start(body string, headers ...string) *httptest.ResponseRecorder {
	r := request("POST", "/uploads", strings.NewReader(body), headers...)
	r.Header.Set("Content-Type", "application/json")
	return send(o, r)
}

// sent starts an upload and sends the text to its address.
func (o *fileServer) sent(t testing.TB, fields, text string) startedUpload {
	t.Helper()
	w := o.start(fmt.Sprintf(`{%s, "size": %d, "checksum": %q}`, fields, len(text), checksum(text)))
	started := read[startedUpload](t, w, http.StatusCreated)
	if started.Method != "PUT" || !started.Expires.Equal(o.core.Clock.Now().Add(15*time.Minute)) || w.Header().Get("Cache-Control") != "no-store" || started.Headers["Checksum"] != checksum(text) {
		t.Fatalf("%+v with %v", started, w.Header())
	}
	must.NoError(t, o.core.Blobs.Put(t.Context(), strings.TrimPrefix(started.URL, harness.BlobsURL), "", -1, strings.NewReader(text)))
	return started
}

func (o *fileServer) finish(upload string, headers ...string) *httptest.ResponseRecorder {
	return send(o, request("POST", "/uploads/"+upload+"/complete", nil, headers...))
}

func TestACompletedUploadHasALocationAndAnEntityTag(t *testing.T) {
	o := newFileServer(t)
	started := o.sent(t, `"path": "a/new.md", "mimeType": "text/x-new", "expectedVersion": 0`, "new")
	if started.Headers["Content-Type"] != "text/x-new" {
		t.Errorf("the headers are %v", started.Headers)
	}
	for range 2 {
		w := o.finish(started.ID)
		got := read[record](t, w, http.StatusCreated)
		if w.Header().Get("Location") != prefix+"/sync/files/"+got.ID || w.Header().Get("Etag") != `"1"` || o.content(t, got.ID) != "new" {
			t.Errorf("%+v with the headers %v", got, w.Header())
		}
	}
	next := o.sent(t, `"path": "given up.md"`, "text")
	for _, status := range []int{200, 404} {
		if w := send(o, request("DELETE", "/uploads/"+next.ID, nil)); w.Code != status {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	refused(t, o.finish(next.ID), 410)
	refused(t, o.finish(o.sent(t, `"path": "c.md"`, "text").ID, "X-Actor: vic"), 403)
	refused(t, o.start(`{"path":"x.md","size":1,"checksum":"`+checksum("x")+`","expectedVersion":1}`, `If-Match: "1"`), 400)
}
