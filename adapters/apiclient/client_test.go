package apiclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server that notes requests, and a client of it whose clock stands still.
type fixture struct {
	*Client
	lock     sync.Mutex // of requests: handlers may outlive their connections
	requests []string   // method, path and the headers that matter
	waits    []time.Duration
	tokens   []string
}

// serve answers the n-th request, from 1, with answer.
func serve(t *testing.T, response func(w http.ResponseWriter, r *http.Request, body string, n int)) *fixture {
	t.Helper()
	f := &fixture{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.lock.Lock()
		f.requests = append(f.requests, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Authorization"), " ", r.Header.Get("Idempotency-Key"))))
		n := len(f.requests)
		f.lock.Unlock()
		response(w, r, string(body), n)
	}))
	t.Cleanup(server.Close)
	keys := 0
	client := must.Do(New(Config{
		Server: server.URL + "/", Token: "old", Renewed: func(token string) { f.tokens = append(f.tokens, token) },
		Now:    func() time.Time { return time.Unix(0, 0) },
		Wait:   func(_ context.Context, d time.Duration) error { f.waits = append(f.waits, d); return nil },
		Jitter: func(d time.Duration) time.Duration { return d },
		NewKey: func() string { keys++; return fmt.Sprint("key-", keys) },
	})).Or(t)
	t.Cleanup(client.http.CloseIdleConnections)
	f.Client = client
	return f
}

// count returns the number of requests.
func (f *fixture) count() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.requests)
}

func (f *fixture) expect(t *testing.T, requests ...string) {
	t.Helper()
	f.lock.Lock()
	defer f.lock.Unlock()
	must.Equal(t, requests, f.requests)
}

const stored = `{"id": "1", "path": "a", "version": 2}`

// refuse replies as the server does to an expired token.
func refuse(w http.ResponseWriter) {
	http.Error(w, `{"statusCode": 401, "message": "The token has expired", "error": "Unauthorized"}`, http.StatusUnauthorized)
}

func TestAnExpiredTokenIsRenewedOnce(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		switch {
		case r.URL.Path == "/api/v1/auth/refresh":
			fmt.Fprint(w, `{"token": "new"}`)
		case r.Header.Get("Authorization") == "Bearer old":
			refuse(w)
		default:
			fmt.Fprint(w, stored)
		}
	})
	o, err := f.UploadFile(t.Context(), UploadFileParams{Path: "a"}, Content{Reader: strings.NewReader("x"), Size: 1})
	if err != nil || o.Version != 2 {
		t.Errorf("the upload answers %+v, %v", o, err)
	}
	f.expect(t, "POST /api/v1/sync/files?path=a Bearer old key-1", "POST /api/v1/auth/refresh  key-2", "POST /api/v1/sync/files?path=a Bearer new key-1")
	must.Equal(t, []string{"new"}, f.tokens)
}

func TestATokenThatCannotBeRenewedIsAnError(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		w.Header().Set("X-Request-Id", "r1")
		refuse(w)
	})
	_, err := f.GetMe(t.Context())
	if Status(err) != 401 || err.Error() != "The token has expired (401, request r1)" {
		t.Errorf("the error is %v", err)
	}
	f.expect(t, "GET /api/v1/auth/me Bearer old", "POST /api/v1/auth/refresh  key-1")
}

func TestOnlyARefusalOfTheServerRenewsTheToken(t *testing.T) {
	for scheme, renews := range map[string]bool{"": false, "Negotiate": false, "Bearer": true} { // with a body of a proxy
		f := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
			switch {
			case r.URL.Path == "/api/v1/auth/refresh":
				fmt.Fprint(w, `{"token": "new"}`)
			case r.Header.Get("Authorization") == "Bearer old":
				w.Header().Set("WWW-Authenticate", scheme)
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
			default:
				fmt.Fprint(w, "{}")
			}
		})
		if _, err := f.GetMe(t.Context()); renews != (err == nil) || !renews && !Unanswered(err) {
			t.Errorf("%s: the error is %v", scheme, err)
		}
		requests := []string{"GET /api/v1/auth/me Bearer old"}
		if renews {
			requests = append(requests, "POST /api/v1/auth/refresh  key-1", "GET /api/v1/auth/me Bearer new")
		}
		f.expect(t, requests...)
	}
}

func TestARenewalThatFailsForNowDoesNotEndTheSession(t *testing.T) {
	for _, status := range []int{403, 503} { // of a proxy
		f := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
			if r.URL.Path == "/api/v1/auth/refresh" {
				w.WriteHeader(status)
				return
			}
			refuse(w)
		})
		f.Attempts = 1
		if _, err := f.GetMe(t.Context()); Status(err) != status {
			t.Errorf("the error is %v", err)
		}
		f.expect(t, "GET /api/v1/auth/me Bearer old", "POST /api/v1/auth/refresh  key-1")
	}
}

func TestRefusalsForNowAreRetriedWithTheSameKeyAndBody(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, body string, n int) {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case 2:
			w.WriteHeader(503)
		default:
			must.Is(t, "x", body)
			w.WriteHeader(201)
			fmt.Fprint(w, stored)
		}
	})
	must.Do(f.UploadFile(t.Context(), UploadFileParams{}, Content{Reader: strings.NewReader("x"), Size: 1})).Or(t)
	request := "POST /api/v1/sync/files Bearer old key-1"
	f.expect(t, request, request, request)
	must.Equal(t, []time.Duration{7 * time.Second, time.Second / 2}, f.waits)
}

func TestRetriesEnd(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { w.WriteHeader(503) })
	if _, err := f.GetMe(t.Context()); Status(err) != 503 || f.count() != 6 {
		t.Errorf("%d requests end in %v", f.count(), err)
	}
}

func TestALostResponseIsAskedForAgainOnlyWhereThatIsSafe(t *testing.T) {
	lost := func(http.ResponseWriter, *http.Request, string, int) { panic(http.ErrAbortHandler) }
	for name, try := range map[string]struct {
		call func(*Client) error
		want int
	}{
		"a reading":              {func(c *Client) error { _, err := c.GetMe(t.Context()); return err }, 6},
		"a change with a key":    {func(c *Client) error { _, err := c.ExchangeToken(t.Context(), Exchange{}); return err }, 6},
		"a change without a key": {func(c *Client) error { _, err := c.DeleteFile(t.Context(), "1", DeleteFileParams{}); return err }, 1},
		"a body that cannot be reread": {func(c *Client) error {
			_, err := c.UploadFile(t.Context(), UploadFileParams{}, Content{Reader: io.MultiReader(strings.NewReader("x")), Size: 1})
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, lost)
			if err := try.call(f.Client); err == nil || f.count() != try.want {
				t.Errorf("%d requests end in %v", f.count(), err)
			}
		})
	}
}

func TestRequestsSlowDownBeforeTheLimit(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, n int) {
		w.Header().Set("RateLimit-Limit", "1200")
		w.Header().Set("RateLimit-Remaining", fmt.Sprint(61-n))
		w.Header().Set("RateLimit-Reset", "57")
		fmt.Fprint(w, `{}`)
	})
	for range 4 {
		must.Do(f.GetMe(t.Context())).Or(t)
	}
	if len(f.waits) != 2 || f.waits[0] != 57*time.Second/1141 || f.waits[1] <= f.waits[0] {
		t.Errorf("the client waits %v", f.waits)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	if _, err := f.GetMe(t.Context()); Status(err) != 302 {
		t.Error(err)
	}
	f.expect(t, "GET /api/v1/auth/me Bearer old")
}

func TestAListIsReadToItsEnd(t *testing.T) {
	for body, want := range map[string]int{`[]`: 0, `[{"path": "a"}, {"path": "b"}]`: 2, `[{"path": "a"}, {"pa`: -1, `[{"path": "a"}`: -1, `{}`: -1} {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { fmt.Fprint(w, body) })
		l := must.Do(f.ListFiles(t.Context(), ListFilesParams{})).Or(t)
		got := 0
		for _, err := range l.All() {
			if got++; err != nil {
				got = -1
			}
		}
		if got != want {
			t.Errorf("%s is %d records, want %d", body, got, want)
		}
	}
}

func TestAResponseHasAnEnd(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		for piece := strings.Repeat(" ", 1<<20); ; {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	})
	if _, err := f.GetMe(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Error(err)
	}
}

func TestAChangeIsAValueOrNullOrAbsent(t *testing.T) {
	var p struct {
		A Change[string] `json:"a,omitzero"`
		B Change[string] `json:"b,omitzero"`
		C Change[string] `json:"c,omitzero"`
	}
	p.A, p.B = Set("x"), Clear[string]()
	f := serve(t, func(_ http.ResponseWriter, _ *http.Request, body string, _ int) {
		must.Is(t, `{"a":"x","b":null}`, body)
	})
	response := must.Do(f.Do(t.Context(), "PATCH", "/x", nil, p)).Or(t)
	response.Body.Close()
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	f := serve(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ int) {
		cancel(left)
		<-r.Context().Done()
	})
	if _, err := f.GetMe(ctx); !errors.Is(err, left) || f.count() != 1 {
		t.Errorf("%d requests end in %v", f.count(), err)
	}
}

// muted is a connection that, once it is dead, loses what is written to it, as one does whose network has changed.
type muted struct {
	net.Conn
	dead atomic.Bool
}

func (m *muted) Write(p []byte) (int, error) {
	if m.dead.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// pipes is a listener to whose connections the other ends are near.
type pipes struct {
	far    chan net.Conn
	closed context.Context
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.far:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (pipes) Close() error { return nil }

func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestADeadConnectionOfHTTP2IsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, stop := context.WithCancel(t.Context())
		to := pipes{make(chan net.Conn), closed}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })}
		go func() { _ = server.Serve(to) }()
		c := must.Do(New(Config{Server: "http://collab.example.com"})).Or(t)
		var near []*muted
		transport := c.Transport.(*http.Transport)
		transport.Protocols = protocols
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			one, other := net.Pipe()
			to.far <- other
			near = append(near, &muted{Conn: one})
			return near[len(near)-1], nil
		}
		must.Do(c.GetMe(t.Context())).Or(t)
		near[0].dead.Store(true)
		began := time.Now()
		must.Do(c.GetMe(t.Context())).Or(t)
		if took := time.Since(began); len(near) != 2 || took > time.Minute {
			t.Errorf("it takes %v and %d connections", took, len(near))
		}
		transport.CloseIdleConnections()
		stop()
		must.NoError(t, server.Close())
	})
}

// lateContent is content of one byte that takes ten minutes to be read.
type lateContent struct{ read bool }

func (l *lateContent) Read(p []byte) (int, error) {
	if l.read {
		return 0, io.EOF
	}
	time.Sleep(10 * time.Minute)
	l.read = true
	return copy(p, "x"), nil
}

func TestAnUploadIsCreatedAfterTheReasonOfAnEarlierRefusalHasGoneAndThenResumed(t *testing.T) {
	for _, replayed := range []bool{true, false} {
		var keys []string
		f := serve(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
			key := r.Header.Get("Idempotency-Key")
			if r.Method == http.MethodPost && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			if r.Method == http.MethodPost && (key == keys[0] || key == "") {
				if replayed {
					w.Header().Set("Idempotent-Replayed", "true")
				}
				w.WriteHeader(403)
				return
			}
			w.WriteHeader(201)
			fmt.Fprint(w, `{"id": "1"}`)
		})
		for range 2 { // the second time after an interruption
			u, err := f.OpenUpload(t.Context(), CreateResumableUploadParams{Path: "a"}, 1)
			if (err == nil) != replayed || replayed && u.ID != "1" {
				t.Errorf("the upload is %+v, %v; replayed: %v", u, err, replayed)
			}
		}
		if want := map[bool]int{true: 2, false: 1}[replayed]; len(keys) != want {
			t.Errorf("the keys are %q; replayed: %v", keys, replayed)
		}
	}
}

func TestAnUploadEndsIfTheServerTakesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		server  func(net.Conn)
		content Content
		took    time.Duration
		err     error
	}{
		"a server that reads nothing": {func(net.Conn) {}, Content{Reader: strings.NewReader(strings.Repeat("x", 1<<20)), Size: 1 << 20}, idleTimeout, errStalled},
		"content that is read slowly": {func(c net.Conn) {
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
		}, Content{Reader: &lateContent{}, Size: 1}, 10 * time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var far net.Conn
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					near, other := net.Pipe()
					far = other
					go test.server(far)
					return near, nil
				}}
				c := must.Do(New(Config{Server: "http://collab.example.com", Attempts: 1, Transport: transport})).Or(t)
				began := time.Now()
				if _, err := c.ReplaceFile(t.Context(), "id", ReplaceFileParams{}, test.content); !errors.Is(err, test.err) || time.Since(began) != test.took {
					t.Errorf("it ended after %v with %v", time.Since(began), err)
				}
				transport.CloseIdleConnections()
				far.Close()
			})
		})
	}
}
