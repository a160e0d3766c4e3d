package limit

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/test/must"
)

// options are those of tests, in which every made id is made-1.
func options(exempt func(netip.Addr) bool) ConnectionOptions {
	return ConnectionOptions{Exempt: exempt, NewID: func() string { return "made-1" }, Log: slog.New(slog.DiscardHandler)}
}

func TestMalformedRequestsGetTheErrorShape(t *testing.T) {
	inner := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	l := NewConnections(ConnectionLimits{9, 9}, NewBudget(1<<30), options(func(netip.Addr) bool { return true }))
	const forged = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	server := &http.Server{
		Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1+len(forged))) // or it would come in chunks
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, forged)
		})),
		ConnContext: l.ConnContext, ConnState: l.ConnState, MaxHeaderBytes: 4 << 10,
	}
	go func() { _ = server.Serve(l.Listener(inner)) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	answer := func(t *testing.T, request string) string {
		t.Helper()
		c := must.Do(net.Dial("tcp", inner.Addr().String())).Or(t)
		defer c.Close()
		must.Do(io.WriteString(c, request)).Or(t)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		text, _ := io.ReadAll(c) // what was not read of the request may reset the connection
		return string(text)
	}
	const good = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct{ sentence, request, status, message string }{
		{"an escape that is none", "GET /api/v1/tasks/%/history HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
		{"a request line without a version", "GET /\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
		{"a request without a host", "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed: missing required Host header"},
		{"a version that is not spoken", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported", "The request line or a header of the request is malformed: unsupported protocol version"},
		{"a transfer encoding that is not known", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented", "Transfer-Encoding can only be chunked"},
		{"headers that are too long", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 9<<10), "431 Request Header Fields Too Large", "The headers of the request are longer than 64 KiB"},
		{"an expectation that is not known", "GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n", "417 Expectation Failed", "Expect can only be 100-continue"},
		{"an expectation of HTTP/1.0", "GET / HTTP/1.0\r\nExpect: more\r\n\r\n", "417 Expectation Failed", "Expect can only be 100-continue"},
		{"a bad request after a good one", good + "GET /% HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			code, name, _ := strings.Cut(c.status, " ")
			want := `{"statusCode":` + code + `,"message":"` + c.message + `","error":"` + name + `"}` + "\n"
			got := answer(t, c.request)
			head, body, _ := strings.Cut(got[strings.LastIndex(got, "HTTP/1.1 "):], "\r\n\r\n")
			if body != want || !strings.HasPrefix(head, "HTTP/1.1 "+c.status+"\r\n") || !strings.Contains(head, "\r\nX-Request-Id: made-1\r\n") || !strings.Contains(head, "\r\nContent-Type: application/json\r\n") {
				t.Errorf("got %s\n%q, want %q", head, body, want)
			}
		})
	}
	t.Run("what a handler sends stays as it is", func(t *testing.T) {
		if got := answer(t, strings.Replace(good, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)); !strings.Contains(got, forged) {
			t.Errorf("got %q", got)
		}
	})
}

func TestHTTP2FramesAreNotRewritten(t *testing.T) {
	l := NewConnections(ConnectionLimits{9, 9}, NewBudget(1<<30), options(func(netip.Addr) bool { return true }))
	client, inner := net.Pipe()
	defer client.Close()
	c := &conn{Conn: inner, limiter: l, account: Account{Budget: l.memory, Holder: "client"}}
	defer c.Close()
	c.setState(http.StateNew)
	// A frame may be cut anywhere, and its rest sent when no handler runs any more.
	const settings, rest = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "HTTP/1.1 400 Bad Request\r\n is what the content of a file says"
	go func() {
		_, _ = io.WriteString(c, settings)
		c.setState(http.StateActive)
		c.setState(http.StateIdle)
		_, _ = io.WriteString(c, rest)
	}()
	got := make([]byte, len(settings+rest))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != settings+rest {
		t.Errorf("%q is sent, %v", got, err)
	}
}
