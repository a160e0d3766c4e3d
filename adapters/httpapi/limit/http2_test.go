package limit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/test/must"
)

// serve serves a handler with the limits, over HTTP/1.1 or HTTP/2, and returns a client.
func serve(t *testing.T, l *Connections, version int, h http.HandlerFunc) (listener pipeListener, client *http.Client) {
	listener = make(pipeListener)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	server := &http.Server{HTTP2: HTTP2(), Handler: l.Handler(h), ConnState: l.ConnState, ConnContext: l.ConnContext, Protocols: protocols}
	go func() { _ = server.Serve(l.Listener(listener)) }()
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return connect(listener), nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		close(listener)
		_ = server.Close()
	})
	return listener, &http.Client{Transport: transport}
}

// connect returns the client's end of a connection from 192.0.2.1.
func connect(listener pipeListener) net.Conn {
	client, server := net.Pipe()
	listener <- pipeConn{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:4000"))}
	return client
}

func TestRequestsThatWaitForTheirClientAreEvicted(t *testing.T) {
	for _, version := range []int{1, 2} {
		for path, want := range map[string]int64{"/body": 1, "/answer": 1, "/copy": 1, "/work": 0} {
			runSynctest(t, fmt.Sprintf("HTTP %d%s", version, path), func(t *testing.T) {
				l := NewConnections(ConnectionLimits{1, 9}, NewBudget(1<<30), options(exemptNone))
				listener, client := serve(t, l, version, func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/body":
						_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour))
						_, _ = io.ReadAll(r.Body)
					case "/answer":
						_, _ = w.Write(make([]byte, 8<<20))
					case "/copy":
						w.Header().Set("Content-Length", "8388608")
						_, _ = io.Copy(w, bytes.NewReader(make([]byte, 8<<20)))
					case "/work":
						<-r.Context().Done()
					}
				})
				ctx, disconnect := context.WithCancel(t.Context())
				defer disconnect()
				body, unwritten := io.Pipe()
				defer unwritten.Close()
				done := make(chan struct{})
				go func() {
					defer close(done)
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://server"+path, nil)
					if path == "/body" {
						r.Body = body
					}
					if response, err := client.Do(r); err == nil {
						<-ctx.Done()
						_ = response.Body.Close()
					}
				}()
				time.Sleep(2 * slowAfter)
				other := connect(listener)
				synctest.Wait()
				if l.Evicted() != want || l.Refused() != 1-want || l.Open() != 1 {
					t.Errorf("%d evicted, %d refused, %d open", l.Evicted(), l.Refused(), l.Open())
				}
				_ = other.Close()
				disconnect()
				_ = unwritten.Close()
				<-done
			})
		}
	}
}

func TestClientReadingALongResponseIsNotSlow(t *testing.T) {
	for _, version := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			l := NewConnections(ConnectionLimits{1, 9}, NewBudget(1<<30), options(exemptNone))
			listener, client := serve(t, l, version, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, 64<<20))
			})
			response := must.Do(client.Get("http://server/")).Or(t)
			for range 160 {
				time.Sleep(slowAfter / 20)
				must.Do(io.CopyN(io.Discard, response.Body, 100<<10)).Or(t)
			}
			other := connect(listener)
			synctest.Wait()
			if l.Evicted() != 0 || l.Refused() != 1 {
				t.Errorf("HTTP/%d: %d evicted, %d refused", version, l.Evicted(), l.Refused())
			}
			_ = other.Close()
			_ = response.Body.Close()
		})
	}
}

func TestHTTP2RequestsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 60 << 10
		memory := NewBudget(2 * (http2Memory + 10*(streamMemory+size)))
		l := NewConnections(ConnectionLimits{10, 10}, memory, options(exemptNone))
		end := make(chan struct{})
		_, client := serve(t, l, 2, func(http.ResponseWriter, *http.Request) { <-end })
		send := func() (*http.Response, error) {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", nil)
			r.Header.Set("X-Large", strings.Repeat("x", size-1000))
			return client.Do(r)
		}
		responses := make(chan *http.Response, 10)
		for range 10 {
			go func() {
				response, err := send()
				must.Succeed(t, err)
				responses <- response
			}()
		}
		synctest.Wait()
		refused, err := send()
		if err != nil || refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" || refused.Header.Get("X-Request-Id") != "id-1" || l.Refused() != 1 {
			t.Errorf("one more request: %v, %v, %d refused", refused, err, l.Refused())
		}
		close(end)
		for range 10 {
			must.Is(t, http.StatusOK, (<-responses).StatusCode)
		}
		must.Is(t, http2Memory, memory.Used())
		must.Is(t, http.StatusOK, must.Do(send()).Or(t).StatusCode) // after the end of all
	})
}

func TestHTTP2ConnectionIsChargedBeforeItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewBudget(3 * http2Memory)
		l := NewConnections(ConnectionLimits{10, 10}, memory, options(exemptNone))
		listener, _ := serve(t, l, 2, nil)
		begin := func() (open bool) {
			c := connect(listener)
			go func() { _, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") }()
			_, err := io.ReadFull(c, make([]byte, 9))
			t.Cleanup(func() { _ = c.Close() })
			go func() { _, _ = io.Copy(io.Discard, c) }()
			return err == nil
		}
		if !begin() || memory.Used() != http2Memory {
			t.Errorf("the first connection holds %d bytes", memory.Used())
		}
		if begin() || l.Refused() != 1 {
			t.Errorf("another connection of the address is open, %d refused", l.Refused())
		}
	})
}

func TestRequestWithoutHeaderMemoryIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := options(exemptNone)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		l := NewConnections(ConnectionLimits{9, 9}, NewBudget(headMemoryStep), o)
		listener, _ := serve(t, l, 1, nil)
		c := connect(listener)
		go func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n")
			_, _ = io.WriteString(c, strings.Repeat("x: y\r\n", 500))
		}()
		response, _ := io.ReadAll(c)
		synctest.Wait()
		if strings.Count(string(response), "HTTP/1.1 ") != 1 || !strings.Contains(string(response), tooManyConnections) || l.Refused() != 1 || log.Len() > 0 {
			t.Errorf("%q, %d refused, the log is %s", response, l.Refused(), &log)
		}
	})
}
