package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"collab/adapters/bucket"
	"collab/app/objects"
	"collab/test/harness"
	"collab/test/must"
)

// resumable is a resumable upload as clients decode it.
type resumable struct {
	ID, FileID   string
	Offset, Size int64
	Complete     bool
	Path         *string
	CreatedAt    string
	ExpiresAt    string
}

// toServer makes a request for a handler one for a client of the server.
func toServer(server *httptest.Server, r *http.Request) *http.Request {
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", server.Listener.Addr().String()
	return r
}

func TestInterruptedAppendKeepsReceivedContent(t *testing.T) {
	const size = 2*harness.PartSize + harness.PartSize/2 // of the content that the server receives
	text := strings.Repeat("x", size)
	for protocol, interrupt := range map[string]func(t *testing.T, server *httptest.Server, r *http.Request, received chan struct{}){
		"HTTP/1.1": func(t *testing.T, server *httptest.Server, r *http.Request, received chan struct{}) {
			conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
			defer conn.Close()
			head := "PATCH " + r.URL.Path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n"
			for name, values := range r.Header {
				head += name + ": " + values[0] + "\r\n"
			}
			must.Do(io.WriteString(conn, head+"\r\n"+text)).Or(t)
			<-received
		},
		"HTTP/2": func(t *testing.T, server *httptest.Server, r *http.Request, received chan struct{}) {
			interrupted := errors.New("interrupted")
			end := readFunc(func([]byte) (int, error) {
				<-received
				return 0, interrupted
			})
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(text), end)), 5000
			transport := &http.Transport{Protocols: server.Config.Protocols}
			defer transport.CloseIdleConnections()
			must.FailIs(t, must.ErrorOf(transport.RoundTrip(toServer(server, r))), interrupted)
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			blobs := must.Do(bucket.Open(t.Context(), "file://"+t.TempDir())).Or(t)
			o := newFileServer(t, func(s *objects.Options) { s.Blobs = blobs })
			created := read[resumable](t, send(o, syncRequest("POST", "/resumable-uploads?path=a", nil, "Upload-Complete: ?0", "Upload-Length: 5000")), http.StatusCreated)
			handled, received, left := make(chan struct{}), make(chan struct{}), size
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(handled)
				body := r.Body
				r.Body = io.NopCloser(readFunc(func(p []byte) (int, error) {
					n, err := body.Read(p)
					if left -= n; left == 0 && n > 0 {
						close(received)
					}
					return n, err
				}))
				o.ServeHTTP(w, r)
			}))
			server.Config.Protocols = &http.Protocols{}
			server.Config.Protocols.SetHTTP1(protocol == "HTTP/1.1")
			server.Config.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
			server.Start()
			defer server.Close()
			interrupt(t, server, syncRequest("PATCH", "/resumable-uploads/"+created.ID, nil, "Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0"), received)
			<-handled
			if stored := read[resumable](t, o.get("/resumable-uploads/"+created.ID), http.StatusOK); stored.Offset != size || stored.Complete {
				t.Errorf("the upload is %+v", stored)
			}
		})
	}
}

func TestCreationWithContentSends104ToClientsOfTheDraft(t *testing.T) {
	o := newFileServer(t)
	server := httptest.NewServer(o)
	defer server.Close()
	for version, wants := range map[string]bool{"8": true, "7": false, "": false} {
		r := syncRequest("POST", "/resumable-uploads?path=a"+version+"&checksum="+harness.Checksum("text"), strings.NewReader("text"), "Upload-Complete: ?1", "Upload-Draft-Interop-Version: "+version)
		var interim []string
		response := must.Do(server.Client().Do(toServer(server, r).WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, " ", header.Get("Upload-Draft-Interop-Version"), " ", header.Get("Location")))
			return nil
		}})))).Or(t)
		defer response.Body.Close()
		if got := len(interim) == 1 && strings.HasPrefix(interim[0], "104 8 "+resumablePath+"/"); got != wants || !wants && interim != nil {
			t.Errorf("version %q: the interim responses %v", version, interim)
		}
		if h := response.Header; response.StatusCode != http.StatusOK || h.Get("Upload-Complete") != "?1" || h.Get("Upload-Draft-Interop-Version") != "" {
			t.Errorf("version %q: %d %v", version, response.StatusCode, h)
		}
		if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), harness.Checksum("text")) {
			t.Errorf("version %q: %s, %v", version, body, err)
		}
	}
}

func TestUploadWithLongerContentCannotBeContinued(t *testing.T) {
	o := newFileServer(t)
	checkEnded := func(about string, r *http.Request) {
		t.Helper()
		r.ContentLength = -1
		w := send(o, r)
		checkError(t, w, http.StatusBadRequest)
		if h := w.Header(); h.Get(uploadComplete) != "?1" || h.Get("Location") != "" {
			t.Errorf("%s: %v", about, h)
		}
	}
	checkEnded("a creation", syncRequest("POST", "/resumable-uploads?path=a", strings.NewReader("longer"), "Upload-Complete: ?0", "Upload-Length: 4"))
	created := read[resumable](t, send(o, syncRequest("POST", "/resumable-uploads?path=a", nil, "Upload-Complete: ?0", "Upload-Length: 4")), http.StatusCreated)
	checkEnded("a request that appends", syncRequest("PATCH", "/resumable-uploads/"+created.ID, strings.NewReader("longer"), "Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0"))
	checkError(t, o.get("/resumable-uploads/"+created.ID), http.StatusNotFound)
}

func TestReplayedCreationHasTheHeadersOfTheUpload(t *testing.T) {
	o := newFileServer(t)
	create := func() http.Header {
		w := send(o, syncRequest("POST", "/resumable-uploads?path=a", nil, "Upload-Complete: ?0", "Upload-Length: 5000", keyHeader))
		must.Is(t, http.StatusCreated, w.Code)
		return w.Header()
	}
	first, again := create(), create()
	must.Is(t, "true", again.Get("Idempotent-Replayed"))
	for _, name := range []string{"Location", uploadComplete, uploadOffset, uploadLength, uploadLimit} {
		if first.Get(name) == "" || again.Get(name) != first.Get(name) {
			t.Errorf("%s is %q, and then %q", name, first.Get(name), again.Get(name))
		}
	}
}

func TestCreationWithAKeyTakesLongContent(t *testing.T) {
	o := newFileServer(t, func(s *objects.Options) { s.MaxSize = 3 << 20 })
	create := func(content, length string) *httptest.ResponseRecorder {
		return send(o, syncRequest("POST", "/resumable-uploads?path=a", strings.NewReader(content), "Upload-Complete: ?0", "Upload-Length: "+length, keyHeader, "Content-Type: application/json"))
	}
	long := strings.Repeat("x", 2<<20)
	for range 2 {
		must.Is(t, int64(len(long)), read[resumable](t, create(long, "3000000"), http.StatusCreated).Offset)
	}
	for _, other := range []*httptest.ResponseRecorder{create(long, "3000001"), create(long[1:], "3000000")} {
		checkError(t, other, http.StatusUnprocessableEntity)
	}
	message := checkError(t, create(strings.Repeat("x", 3<<20+1), "3145729"), http.StatusRequestEntityTooLarge).Message
	must.Is(t, "The content must be at most 3145728 bytes", message)
	must.Is(t, 0, o.budgets.callers.Used())
}

func TestMalformedUploadHeadersAlwaysGetTheSameError(t *testing.T) {
	c := &call{r: syncRequest("PATCH", "/resumable-uploads/x", nil, "Upload-Complete: ?1", "Upload-Offset: x", "Upload-Length: x")}
	for range 50 {
		_, err := c.uploadHeaders()
		must.Is(t, "Upload-Offset must be a number of bytes", fmt.Sprint(err))
	}
}
