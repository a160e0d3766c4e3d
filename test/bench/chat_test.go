package main

import (
	"bytes"
	"fmt"
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

func relayed(b bareRelay) http.HandlerFunc { return b.relay }
func copied(b bareRelay) http.HandlerFunc  { return b.copied }

func TestTalks(t *testing.T) {
	const every, warm, run = 2 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond
	for name, h := range map[string]func(bareRelay) http.HandlerFunc{"as chunks of Collab": relayed, "unchanged": copied} {
		t.Run("all events that are relayed "+name+" are received and measured", func(t *testing.T) {
			direct, through := newTargets(t, h)
			for _, way := range []chatTarget{direct, through} {
				paced, err := way.pace(t.Context(), 5, every, warm, run)
				must.NoError(t, err)
				if paced.p50 <= 0 || paced.p99 < paced.p50 {
					t.Errorf("%s: %+v", way.name, paced)
				}
				churned, err := way.churn(t.Context(), 2*waves, every, run)
				must.NoError(t, err)
				if churned.p50 <= 0 || churned.p99 < churned.p50 {
					t.Errorf("%s, streams that end: %+v", way.name, churned)
				}
				if f, err := way.flood(t.Context(), 3, 1_000); err != nil || f.rate <= 0 {
					t.Errorf("%s: %v chunks/s: %v", way.name, f.rate, err)
				}
				first, err := way.begin(t.Context(), 2, warm, run)
				if err != nil || first.p50 <= 0 || first.p99 < first.p50 || first.rate <= 0 {
					t.Errorf("%s: %+v: %v", way.name, first, err)
				}
			}
			must.Succeed(t, must.ErrorOf(through.measureMemory(t.Context(), 5, warm)))
		})
	}
	t.Run("the bare server sends chunks in the format of Collab", func(t *testing.T) {
		var got string
		_, through := newTargets(t, rewriting(func(body string) string {
			got = body
			return body
		}))
		s := newStreamScript(1, 2, 0)
		s.resume()
		through.provider.script.Store(s)
		w, err := through.dial(t.Context(), 0)
		must.NoError(t, err)
		defer w.Close()
		for i := range 3 {
			read := w.chunk
			if i == 0 {
				read = func(int) error { return w.ask() }
			}
			must.NoError(t, read(i))
		}
		must.NoError(t, w.end())
		want := ""
		for i := range 3 {
			want += fmt.Sprintf("data: {\"type\":\"text\",\"text\":\"%06d is said\"}\n\n", i)
		}
		want += "data: {\"type\":\"done\",\"usage\":{\"inputTokens\":12,\"outputTokens\":7}}\n\n"
		if got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
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
		if _, err := through.pace(t.Context(), 2, every, warm, run); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("the tokens are used in turns", func(t *testing.T) {
		a := chatTarget{address: "host", path: "/chat", tokens: []string{"one", "two"}}
		for i, token := range []string{"one", "two", "one"} {
			got := string(a.request(i))
			if !strings.Contains(got, "Authorization: Bearer "+token+"\r\n") || streamOf([]byte(got)) != i {
				t.Errorf("the request %d is %q", i, got)
			}
		}
	})
}

func TestNumbersInTexts(t *testing.T) {
	for _, n := range []int{0, 7, 123456, 999999} {
		text := []byte("xxxxxx and more")
		putNumber(text, n)
		if got := number(text); got != n || !strings.HasSuffix(string(text), " and more") {
			t.Errorf("%d is %d in %q", n, got, text)
		}
	}
	for _, body := range []string{"", "stream number ", "stream number 12", "stream number 12345x"} {
		if got := streamOf([]byte(body)); got != -1 {
			t.Errorf("%q has the number %d", body, got)
		}
	}
}
