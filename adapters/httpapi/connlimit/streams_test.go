package connlimit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serve serves a handler behind a limiter, and returns a client of one protocol that
// connects from an address.
func serve(t *testing.T, l *Limiter, version int, h http.HandlerFunc) (doors entrance, client *http.Client) {
	doors = make(entrance)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	server := &http.Server{Handler: l.Handler(h), ConnState: l.ConnState, ConnContext: l.ConnContext, Protocols: protocols}
	go func() { _ = server.Serve(l.Listener(doors)) }()
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return knock(doors), nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		close(doors)
		_ = server.Close()
	})
	return doors, &http.Client{Transport: transport}
}

// knock connects, and returns the client's end.
func knock(doors entrance) net.Conn {
	client, inner := net.Pipe()
	doors <- end{inner, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:4000"))}
	return client
}

func TestRequestsThatWaitForTheirClientMakeRoom(t *testing.T) {
	for _, version := range []int{1, 2} {
		for path, want := range map[string]int64{"/body": 1, "/answer": 1, "/work": 0} {
			t.Run(fmt.Sprintf("HTTP %d%s", version, path), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := New(Limits{1, 9}, func(netip.Addr) bool { return false })
					doors, client := serve(t, l, version, func(w http.ResponseWriter, r *http.Request) {
						switch r.URL.Path {
						case "/body":
							_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour))
							_, _ = io.ReadAll(r.Body)
						case "/answer":
							_, _ = w.Write(make([]byte, 8<<20))
						case "/work":
							<-r.Context().Done()
						}
					})
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					body, never := io.Pipe()
					defer never.Close()
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://server"+path, nil)
						if path == "/body" {
							r.Body = body
						}
						if answer, err := client.Do(r); err == nil {
							<-ctx.Done()
							_ = answer.Body.Close()
						}
					}()
					time.Sleep(2 * patience)
					other := knock(doors)
					synctest.Wait()
					if l.Evicted() != want || l.Refused() != 1-want || l.Open() != 1 {
						t.Errorf("%d evicted, %d refused, %d open", l.Evicted(), l.Refused(), l.Open())
					}
					_ = other.Close()
					leave()
					_ = never.Close()
					<-ended
				})
			})
		}
	}
}

func TestAClientThatTakesALongAnswerIsNotSlow(t *testing.T) {
	for _, version := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Limits{1, 9}, func(netip.Addr) bool { return false })
			doors, client := serve(t, l, version, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, 64<<20))
			})
			answer, err := client.Get("http://server/")
			if err != nil {
				t.Fatal(err)
			}
			for range 160 {
				time.Sleep(patience / 20)
				if _, err := io.CopyN(io.Discard, answer.Body, 100<<10); err != nil {
					t.Fatal(err)
				}
			}
			other := knock(doors)
			synctest.Wait()
			if l.Evicted() != 0 || l.Refused() != 1 {
				t.Errorf("HTTP/%d: %d evicted, %d refused", version, l.Evicted(), l.Refused())
			}
			_ = other.Close()
			_ = answer.Body.Close()
		})
	}
}

func TestRequestsOfHTTP2WithLargeHeadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{2 * maxLarge, 2 * maxLarge}, func(netip.Addr) bool { return false })
		goOn := make(chan struct{})
		_, client := serve(t, l, 2, func(http.ResponseWriter, *http.Request) { <-goOn })
		send := func(size int) error {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", nil)
			r.Header.Set("X-Large", strings.Repeat("x", size))
			answer, err := client.Do(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			return err
		}
		results := make(chan error, maxLarge+1)
		for range maxLarge {
			go func() { results <- send(headSize) }()
		}
		synctest.Wait()
		if err := send(headSize); err == nil || l.Refused() != 1 {
			t.Errorf("one more: %v, %d refused", err, l.Refused())
		}
		go func() { results <- send(headSize / 2) }()
		synctest.Wait()
		close(goOn)
		for range maxLarge + 1 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if err := send(headSize); err != nil {
			t.Errorf("after all have ended: %v", err)
		}
	})
}
