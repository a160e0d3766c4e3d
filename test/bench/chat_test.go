package main

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/test/must"
)

// newTargets returns a provider as a target, and the handler that h makes of the bare server's relay.
func newTargets(t *testing.T, h func(bareRelay) http.HandlerFunc) (direct, through chatTarget) {
	t.Helper()
	p, err := listenProvider()
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, p.close()) })
	relay := newBareRelay()
	t.Cleanup(relay.client.CloseIdleConnections)
	s := testServer(t, h(relay))
	direct = chatTarget{name: "the provider", address: p.address(), path: "/v1/messages", provider: p}
	return direct, chatTarget{name: "server", address: s.address, path: bareChat + "?provider=" + url.QueryEscape(p.address()), process: s, provider: p}
}

// rewriting returns a relay that changes the complete response.
func rewriting(change func(body string) string) func(bareRelay) http.HandlerFunc {
	return func(b bareRelay) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			whole := &bufferedResponse{header: http.Header{}}
			b.relay(whole, r)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(change(whole.body.String())))
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// bufferedResponse implements http.ResponseWriter and http.Flusher.
type bufferedResponse struct {
	header http.Header
	body   bytes.Buffer
}

func (g *bufferedResponse) Header() http.Header         { return g.header }
func (g *bufferedResponse) WriteHeader(int)             {}
func (g *bufferedResponse) Write(b []byte) (int, error) { return g.body.Write(b) }
func (g *bufferedResponse) Flush()                      {}

func TestOtherStreamsThanTheExpectedOneAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(string) string
		want   string
	}{
		"that lacks a chunk": {func(s string) string { return strings.Replace(s, chunkBegins+"000500", ": "+"000500", 1) }, "the chunk 501 came where 500 was next"},
		"that repeats one":   {func(s string) string { return strings.Replace(s, "000501", "000500", 1) }, "the chunk 500 came where 501 was next"},
		"that ends early":    {func(s string) string { return s[:len(s)/2] }, "EOF"},
		"that says done early": {func(s string) string {
			before, after, _ := strings.Cut(s, chunkBegins+"001000")
			return before + doneBegins + after
		}, "over before the chunk 1000"},
		"that goes on":             {func(s string) string { return strings.Replace(s, doneBegins, chunkBegins+"001001", 1) }, "one too many"},
		"that says something more": {func(s string) string { return s + "data: more\n\n" }, "follows the end"},
		"that fails":               {func(s string) string { return strings.Replace(s, doneBegins, errorBegins, 1) }, "the stream failed"},
	} {
		t.Run("a stream "+name+" is an error", func(t *testing.T) {
			direct, through := newTargets(t, rewriting(c.change))
			s := newStreamScript(1, 1_000, 0)
			s.resume() // the response is sent when it is complete
			direct.provider.script.Store(s)
			w, err := through.dial(t.Context(), 0)
			must.NoError(t, err)
			defer w.Close()
			r := &openStreams{chatTarget: through, script: s}
			if err = w.ask(); err == nil {
				err = r.listen(w, s.sent[0])
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ended with %v, not %q", err, c.want)
			}
		})
	}
	t.Run("one that is refused is an error", func(t *testing.T) {
		_, through := newTargets(t, func(bareRelay) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no room", http.StatusForbidden) }
		})
		if _, err := through.pace(t.Context(), 2, 2*time.Millisecond, 10*time.Millisecond, 40*time.Millisecond); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
			t.Errorf("it ended with %v", err)
		}
	})
}
