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
	"testing/synctest"
	"time"

	"collab/test/must"
)

func exemptNone(netip.Addr) bool { return false }
func exemptAll(netip.Addr) bool  { return true }

// options returns options in which every new id is id-1.
func options(exempt func(netip.Addr) bool) ConnectionOptions {
	return ConnectionOptions{Exempt: exempt, NewID: func() string { return "id-1" }, Log: slog.New(slog.DiscardHandler)}
}

func TestMalformedRequestsGetTheErrorShape(t *testing.T) {
	inner := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	l := NewConnections(ConnectionLimits{9, 9}, NewBudget(1<<30), options(exemptAll))
	const errorBody = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	server := &http.Server{
		Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1+len(errorBody))) // prevents chunks
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, errorBody)
		})),
		ConnContext: l.ConnContext, ConnState: l.ConnState, MaxHeaderBytes: 4 << 10,
	}
	go func() { _ = server.Serve(l.Listener(inner)) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	roundTrip := func(t *testing.T, request string) string {
		t.Helper()
		c := must.Do(net.Dial("tcp", inner.Addr().String())).Or(t)
		defer c.Close()
		must.Do(io.WriteString(c, request)).Or(t)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		text, _ := io.ReadAll(c) // the server may reset the connection
		return string(text)
	}
	const good = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, test := range []struct{ name, request, status, message string }{
		{"invalid escape", "GET /api/v1/tasks/%/history HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
		{"no version", "GET /\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
		{"no Host header", "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed: missing required Host header"},
		{"unsupported version", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported", "The request line or a header of the request is malformed: unsupported protocol version"},
		{"unsupported transfer encoding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented", "Transfer-Encoding can only be chunked"},
		{"too long headers", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 9<<10), "431 Request Header Fields Too Large", "The headers of the request are longer than 64 KiB"},
		{"unsupported expectation", "GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n", "417 Expectation Failed", "Expect can only be 100-continue"},
		{"expectation of HTTP/1.0", "GET / HTTP/1.0\r\nExpect: more\r\n\r\n", "417 Expectation Failed", "Expect can only be 100-continue"},
		{"second request of a connection", good + "GET /% HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "The request line or a header of the request is malformed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, name, _ := strings.Cut(test.status, " ")
			want := `{"statusCode":` + code + `,"message":"` + test.message + `","error":"` + name + `"}` + "\n"
			got := roundTrip(t, test.request)
			head, body, _ := strings.Cut(got[strings.LastIndex(got, "HTTP/1.1 "):], "\r\n\r\n")
			if body != want || !strings.HasPrefix(head, "HTTP/1.1 "+test.status+"\r\n") || !strings.Contains(head, "\r\nX-Request-Id: id-1\r\n") || !strings.Contains(head, "\r\nContent-Type: application/json\r\n") {
				t.Errorf("got %s\n%q, want %q", head, body, want)
			}
		})
	}
	t.Run("the response of a handler is not rewritten", func(t *testing.T) {
		if got := roundTrip(t, strings.Replace(good, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)); !strings.Contains(got, errorBody) {
			t.Errorf("got %q", got)
		}
	})
}

func TestARequestWhoseHeadersAreLateCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewConnections(ConnectionLimits{9, 9}, NewBudget(1<<30), options(exemptAll))
		server := &http.Server{Handler: l.Handler(http.NotFoundHandler()), ConnContext: l.ConnContext, ConnState: l.ConnState, ReadHeaderTimeout: time.Second}
		in := make(pipeListener)
		defer close(in)
		go func() { _ = server.Serve(l.Listener(in)) }()
		client, far := net.Pipe()
		defer client.Close()
		in <- pipeConn{far, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))}
		must.Do(io.WriteString(client, "GET /api")).Or(t)
		got, err := io.ReadAll(client)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 503 ") || !strings.Contains(string(got), "\r\nRetry-After: 1\r\n") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestHTTP2FramesAreNotRewritten(t *testing.T) {
	l := NewConnections(ConnectionLimits{9, 9}, NewBudget(1<<30), options(exemptAll))
	client, inner := net.Pipe()
	defer client.Close()
	c := &conn{Conn: inner, limiter: l, account: Account{Budget: l.memory, Holder: "client"}}
	defer c.Close()
	c.setState(http.StateNew)
	// A frame may be sent in several writes, the last after the end of all handlers.
	const settings, rest = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "HTTP/1.1 400 Bad Request\r\n in the content of a file"
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
