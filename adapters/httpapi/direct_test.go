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

func TestDownloadRedirectsToTheObjectStore(t *testing.T) {
	o := newFileServer(t)
	file := "/files/" + o.store(t, url.QueryEscape("Büro/100% 'neu';a=b.html"), "<script>").ID
	for name, test := range map[string]struct {
		query   string
		headers []string
		applied string // the preference
	}{
		"parameter":                      {"?redirect=1", nil, ""},
		"parameter for raw content":      {"?redirect=1&raw=1", nil, ""},
		"preference for raw content":     {"?raw=1", []string{"Prefer: respond-async, Redirect; x=y"}, "redirect"},
		"preference for the file's type": {"", []string{"Prefer: redirect", "Accept: text/html"}, "redirect"},
		"range":                          {"?redirect=1", []string{"Range: bytes=900-"}, ""},
		"other entity tag":               {"?redirect=1", []string{`If-None-Match: "7"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := o.get(file+test.query, test.headers...)
			if w.Code != http.StatusTemporaryRedirect || w.Body.Len() != 0 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			checkHeader(t, w.Header(), map[string]string{
				"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Preference-Applied": test.applied, "X-Collab-Checksum": harness.Checksum("<script>"),
				"X-Collab-Version": "1", "Vary": "Accept, Prefer",
			})
			to, err := url.Parse(w.Header().Get("Location"))
			if err != nil || !strings.HasPrefix(to.String(), harness.BlobsURL) {
				t.Fatal(to, err)
			}
			must.Equal(t, url.Values{"type": {"text/html"}, "lifetime": {"1m0s"}, "disposition": {"attachment; filename*=UTF-8''100%25%20%27neu%27%3Ba%3Db.html"}}, to.Query())
		})
	}
	for name, test := range map[string]struct {
		r    *http.Request
		want int
	}{
		"HEAD":                        {syncRequest("HEAD", file+"?redirect=1", nil), 200},
		"current entity tag":          {syncRequest("GET", file+"?redirect=1", nil, `If-None-Match: "1"`), 304},
		"preference for JSON":         {syncRequest("GET", file, nil, "Prefer: redirect"), 200},
		"other preferences":           {syncRequest("GET", file+"?raw=1", nil, "Prefer: redirects, return=minimal"), 200},
		"parameter for JSON":          {syncRequest("GET", file+"?redirect=1&raw=0", nil), 400},
		"parameter of another value":  {syncRequest("GET", file+"?redirect=0", nil), 400},
		"other organisation's file":   {syncRequest("GET", file+"?redirect=1", nil, "X-Actor: eve"), 404},
		"missing file":                {syncRequest("GET", "/files/"+string(o.desk)+"?redirect=1", nil), 404},
		"other member's private file": {syncRequest("GET", "/files/"+o.store(t, "own.md", "own", "scope=PERSONAL").ID+"?redirect=1", nil, "X-Actor: ben"), 404},
	} {
		t.Run(name, func(t *testing.T) {
			if w := send(o, test.r); w.Code != test.want || w.Header().Get("Location") != "" {
				t.Errorf("%d %s, want %d", w.Code, w.Header(), test.want)
			}
		})
	}
	t.Run("store without signed addresses", func(t *testing.T) {
		o := newFileServer(t, func(s *objects.Options) { s.Signed = nil })
		stored := o.store(t, "x.html", "<script>")
		w := o.get("/files/"+stored.ID+"?redirect=1", "Prefer: redirect", "Range: bytes=1-3")
		if w.Code != http.StatusPartialContent || w.Body.String() != "scr" || w.Header().Get("Preference-Applied") != "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// startedUpload is a started upload as clients decode it.
type startedUpload struct {
	ID      string            `json:"id"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Expires time.Time         `json:"expiresAt"`
}

func (o *fileServer) start(body string, headers ...string) *httptest.ResponseRecorder {
	return send(o, syncRequest("POST", "/uploads", strings.NewReader(body), append(headers, "Content-Type: application/json")...))
}

// sent starts an upload and stores the text at its address.
func (o *fileServer) sent(t testing.TB, fields, text string) startedUpload {
	t.Helper()
	w := o.start(fmt.Sprintf(`{%s, "size": %d, "checksum": %q}`, fields, len(text), harness.Checksum(text)))
	started := read[startedUpload](t, w, http.StatusCreated)
	if started.Method != "PUT" || !started.Expires.Equal(o.core.Clock.Now().Add(15*time.Minute)) || w.Header().Get("Cache-Control") != "no-store" || started.Headers["Checksum"] != harness.Checksum(text) {
		t.Fatalf("%+v with %v", started, w.Header())
	}
	must.NoError(t, o.core.Blobs.Put(t.Context(), strings.TrimPrefix(started.URL, harness.BlobsURL), "", -1, strings.NewReader(text)))
	return started
}

func (o *fileServer) finish(upload string, headers ...string) *httptest.ResponseRecorder {
	return send(o, syncRequest("POST", "/uploads/"+upload+"/complete", nil, headers...))
}

func TestCompletedUploadHasLocationAndEntityTag(t *testing.T) {
	o := newFileServer(t)
	started := o.sent(t, `"path": "a/new.md", "mimeType": "text/x-new", "expectedVersion": 0`, "new")
	must.Is(t, "text/x-new", started.Headers["Content-Type"])
	for range 2 {
		w := o.finish(started.ID)
		got := read[record](t, w, http.StatusCreated)
		if w.Header().Get("Location") != prefix+"/sync/files/"+got.ID || w.Header().Get("Etag") != `"1"` || o.content(t, got.ID) != "new" {
			t.Errorf("%+v with the headers %v", got, w.Header())
		}
	}
	canceled := o.sent(t, `"path": "b.md"`, "text")
	for _, status := range []int{200, 404} {
		must.Is(t, status, send(o, syncRequest("DELETE", "/uploads/"+canceled.ID, nil)).Code)
	}
	checkError(t, o.finish(canceled.ID), 410)
	checkError(t, o.finish(o.sent(t, `"path": "c.md"`, "text").ID, "X-Actor: vic"), 403)
	for _, c := range [][3]string{
		{`1,"expectedVersion":1`, `If-Match: "1"`, "expectedVersion must be given only once"},
		{`1,"expectedVersion":-1`, "", "expectedVersion must be the number of a version"},
		{`-1`, "", "size must not be negative"},
	} {
		w := o.start(`{"path":"x.md","checksum":"`+harness.Checksum("x")+`","size":`+c[0]+`}`, c[1])
		must.Is(t, c[2], checkError(t, w, 400).Message)
	}
}
