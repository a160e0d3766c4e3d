package fastpath

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	path     = "/v1/check"
	plain    = "GET /v1/check?a=1 HTTP/1.1\r\nHost: x.example\r\n\r\n"
	patience = 10 * time.Second
)

// server is an http.Server with or without the path.
type server struct {
	*http.Server
	address string
	path    *Path // nil: without

	mu   sync.Mutex
	fast int // requests that took the path; guarded by mu
}

// start serves reply.
func start(t testing.TB, with bool) *server {
	s := &server{Server: &http.Server{ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true) // for which the first bytes of a connection are looked at
	s.Handler = http.HandlerFunc(s.reply)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{l}
	if with {
		s.path = New(s.Handler, Options{Path: path, Headers: []string{"If-None-Match", "X-Request-Id"}})
		s.Handler, s.ConnContext = s.path, s.path.ConnContext
		s.RegisterOnShutdown(s.path.Drain)
		listeners = append(listeners, s.path.Listener())
	}
	s.address = l.Addr().String()
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() { _ = s.Serve(l) })
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	return s
}

// reply shows all of a request that a handler may look at.
func (s *server) reply(w http.ResponseWriter, r *http.Request) {
	if _, ok := w.(*answer); ok {
		s.mu.Lock()
		s.fast++
		s.mu.Unlock()
	}
	if r.URL.RawQuery == "abort" {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	h.Set("Etag", `"x"`)
	if r.URL.RawQuery == "close" {
		h.Set("Connection", "close")
	}
	if r.Header.Get("If-None-Match") == `"x"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := fmt.Sprintf("%s %s %s %q %q %q %d\n", r.Method, r.RequestURI, r.URL.Path, r.URL.RawQuery, r.Host, r.Header["X-Request-Id"], r.ContentLength)
	if r.URL.RawQuery != "plain" {
		h.Set("Content-Length", fmt.Sprint(len(body)))
	}
	_, _ = io.WriteString(w, body)
}

func (s *server) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fast
}

// client is a connection whose bytes are written as they are.
type client struct {
	net.Conn
	t testing.TB
}

func dial(t testing.TB, s *server) *client {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{conn, t}
}

// ask sends a request and reads so much as its answer ends with a line of.
func (c *client) ask(request string) string {
	c.t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		c.t.Fatal(err)
	}
	var got []byte
	for b := make([]byte, 1); !bytes.Contains(got, []byte("\r\n\r\n")) || got[len(got)-1] != '\n' || bytes.HasSuffix(got, []byte("\r\n\r\n")); {
		if _, err := io.ReadFull(c, b); err != nil {
			c.t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b...)
	}
	return string(got)
}

// ended fails unless the server closes the connection.
func (c *client) ended() {
	c.t.Helper()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		c.t.Fatalf("%q, %v", b, err)
	}
}

var dates = regexp.MustCompile(`Date: [^\r]*\r\n`)

// answers sends bytes cut into parts, and returns all that comes back.
func answers(t testing.TB, s *server, stream []byte, cuts []int) string {
	c := dial(t, s)
	defer c.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, n := range cuts {
			n = min(n, len(stream))
			if _, err := c.Write(stream[:n]); err != nil {
				return // the server has closed the connection, and has its reasons
			}
			stream = stream[n:]
		}
		_, _ = c.Write(stream)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	<-done
	if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
		t.Fatalf("the connection is still open after %q", got)
	}
	return dates.ReplaceAllString(string(got), "Date: then\r\n")
}

// same reports whether answers are net/http's. It leaves in silence whoever ends a
// connection after up to three bytes of a request, unless the connection is new; and
// to net/http one that comes back is.
func same(got, want string) bool {
	return got == want || got == want+"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
}

// pieces are what streams are made of: plain requests, and what is not.
var pieces = []string{
	plain, plain, plain, plain,
	"GET /v1/check?plain HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?b=%20%zz&c HTTP/1.1\r\nhOST:x.example \r\nUser-Agent:\tx\r\nConnection: Keep-Alive\r\nX-Request-ID: one\r\nx-request-id: two\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nIf-None-Match: \"x\"\r\nX-Request-Id:\r\n\r\n",
	"GET /v1/check?close HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?abort HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check? HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?a#b HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?a b HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?\xff HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check/?a HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/%63heck?a HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET http://y.example/v1/check?a HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /other HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"HEAD /v1/check?a HTTP/1.1\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?a HTTP/1.0\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?a HTTP/1.0\r\nHost: x.example\r\nConnection: keep-alive\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: y.example\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nHost: x.example\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nConnection: keep-alive, close\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nConnection: keep-alive\r\nconnection: close\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nContent-Length: 40\r\n\r\nGET /v1/check?a HTTP/1.1\r\nHost: y\r\n\r\n..",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST /v1/check?a HTTP/1.1\r\nHost: x.example\r\nContent-Length: 3\r\n\r\nabc",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nExpect: 100-continue\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Request-Id: a\r\n b\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Request-Id : a\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Request-Id: a\x01\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Request-Id: a\xc3\xa9\tb\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX Y: a\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nnothing\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\n: a\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\nHost: x.example\n\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Request-Id: a\rb\r\n\r\n",
	"GET /v1/check?a HTTP/1.1\r\nHost: x.example\r\nX-Long: " + strings.Repeat("x", headSize) + "\r\n\r\n",
	"\r\n" + plain,
	"GET /v1/check?a HTTP/1.1\r\nHost: x.exa",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", // with one byte more, one that came back goes on in HTTP/2
	"\x16\x03\x01",
}

// Whatever is sent in whatever parts, the answers are those of net/http alone.
func TestAnswersMatchNetHTTP(t *testing.T) {
	with, without := start(t, true), start(t, false)
	rapid.Check(t, func(rt *rapid.T) {
		stream := []byte(strings.Repeat(plain, rapid.IntRange(0, after+2).Draw(rt, "plain ones")))
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "then") {
			stream = append(stream, p...)
		}
		cuts := rapid.SliceOfN(rapid.IntRange(1, 300), 0, 6).Draw(rt, "cuts")
		if got, want := answers(t, with, stream, cuts), answers(t, without, stream, cuts); !same(got, want) {
			rt.Fatalf("%q is answered with\n%s\nand by net/http with\n%s", stream, got, want)
		}
	})
	if with.taken() == 0 {
		t.Error("no request took the path")
	}
}

// A connection that goes back and is taken over again, with requests ahead of their
// answers all the while, loses none. Nothing here ends it, as the rest of a stream
// that a server does not read any more takes answers along that are on their way.
func TestLongPipelineIsAnswered(t *testing.T) {
	with, without := start(t, true), start(t, false)
	stream := []byte(strings.Repeat(strings.Repeat(plain, 30*after)+"GET /other HTTP/1.1\r\nHost: x.example\r\n\r\n", 5))
	want := answers(t, without, stream, nil)
	for _, cuts := range [][]int{nil, {5, 4000}, {headSize}, {100, 1, 1, 1000}} {
		if got := answers(t, with, stream, cuts); got != want {
			t.Errorf("cut at %v it is answered with %d bytes, not %d", cuts, len(got), len(want))
		}
	}
	if with.taken() == 0 {
		t.Error("no request took the path")
	}
}

func FuzzStream(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(p), uint16(20))
		f.Add([]byte(p+plain), uint16(0))
	}
	with, without := start(f, true), start(f, false)
	f.Fuzz(func(t *testing.T, then []byte, cut uint16) {
		stream := append([]byte(strings.Repeat(plain, after+1)), then...)
		cuts := []int{(after+1)*len(plain) + int(cut)}
		if got, want := answers(t, with, stream, cuts), answers(t, without, stream, cuts); !same(got, want) {
			t.Fatalf("%q is answered with\n%s\nand by net/http with\n%s", then, got, want)
		}
	})
}

func TestConnectionIsHijackedForPlainRequests(t *testing.T) {
	s := start(t, true)
	c := dial(t, s)
	defer c.Close()
	step := func(request string, fast int) {
		t.Helper()
		before := s.taken()
		c.ask(request)
		if got := s.taken() - before; got != fast {
			t.Fatalf("%q took the path %d times, want %d", request, got, fast)
		}
	}
	const unusual = "GET /other HTTP/1.1\r\nHost: x.example\r\n\r\n"
	for range after {
		step(plain, 0)
	}
	step(unusual, 0) // begins the streak anew
	for range after {
		step(plain, 0)
	}
	for range 10 {
		step(plain, 1)
	}
	// One that goes back needs twice as many to be taken over again.
	for n := 2 * after; n < 20*after; n *= 2 {
		step(unusual, 0)
		for range n {
			step(plain, 0)
		}
		step(plain, 1)
	}
}

func TestDrainClosesIdleConnections(t *testing.T) {
	s := start(t, true)
	var waiting []*client
	for range 5 {
		c := dial(t, s)
		defer c.Close()
		for range after + 2 {
			c.ask(plain)
		}
		waiting = append(waiting, c)
	}
	s.path.Drain()
	for _, c := range waiting {
		c.ended()
	}
	// Who comes now is answered, and no connection kept.
	c := dial(t, s)
	defer c.Close()
	for range after {
		c.ask(plain)
	}
	if got := c.ask(plain); !strings.Contains(got, "Connection: close\r\n") {
		t.Errorf("a server that goes away answers %q", got)
	}
	c.ended()
}

func TestShutdownClosesIdleConnections(t *testing.T) {
	s := start(t, true)
	c := dial(t, s)
	defer c.Close()
	for range after + 2 {
		c.ask(plain)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	c.ended()
	s.path.mu.Lock()
	defer s.path.mu.Unlock()
	if len(s.path.taken) > 0 {
		t.Errorf("%d connections are left", len(s.path.taken))
	}
}

// Connections are in every state: with net/http, taken over, on their way from one to
// the other. What is answered is answered wholly.
func TestShutdownUnderLoadTruncatesNoAnswer(t *testing.T) {
	s := start(t, true)
	var all sync.WaitGroup
	var answered atomic.Int64
	enough := make(chan struct{})
	for i := range 8 {
		c := dial(t, s)
		all.Go(func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for n := 0; ; n++ {
				request := plain
				if n%(i+after) == after {
					request = "GET /other HTTP/1.1\r\nHost: x.example\r\n\r\n"
				}
				_, err := io.WriteString(c, request)
				if err == nil {
					_, err = in.Peek(1)
				}
				if err != nil { // and nothing of an answer came
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("a connection stays open")
					}
					return
				}
				answer, err := http.ReadResponse(in, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
				}
				if err != nil {
					t.Errorf("an answer is cut: %v", err)
					return
				}
				if answered.Add(1) == 500 {
					close(enough)
				}
			}
		})
	}
	<-enough
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	all.Wait()
	if s.taken() == 0 {
		t.Error("no request took the path")
	}
}

func TestAnswerDuringShutdownIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *lane
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			l.path.Drain()
			_, _ = w.Write([]byte("ok"))
		}))
		go l.run()
		b, err := io.ReadAll(client)
		if err != nil || !bytes.Contains(b, []byte("\r\nConnection: close\r\n")) || !bytes.HasSuffix(b, []byte("\r\n\r\nok")) {
			t.Errorf("%q, %v", b, err)
		}
	})
}

func TestReturnedConnectionIsWrappedOnce(t *testing.T) {
	s := start(t, true)
	c := dial(t, s)
	defer c.Close()
	for n := after; n < 10*after; n *= 2 {
		for range n + 2 {
			c.ask(plain)
		}
		s.path.mu.Lock()
		for l := range s.path.taken {
			if _, ok := l.conn.(*net.TCPConn); !ok {
				t.Errorf("after %d requests it is a %T", n, l.conn)
			}
		}
		if len(s.path.taken) != 1 {
			t.Errorf("%d connections were taken over", len(s.path.taken))
		}
		s.path.mu.Unlock()
		c.ask("GET /other HTTP/1.1\r\nHost: x.example\r\n\r\n")
	}
}

// takable is a way to a client that can be taken over.
type takable struct {
	http.ResponseWriter
	conn net.Conn
}

func (t takable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), nil), nil
}

func TestBufferedInputIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(r.URL.RawQuery))
		}))
		ctx := context.WithValue(t.Context(), streakKey{}, &streak{is: after, wanted: after})
		l.request.Body = http.NoBody
		go l.path.ServeHTTP(takable{conn: &returned{Conn: l.conn, ahead: []byte(plain)}}, l.request.WithContext(ctx))
		defer client.Close()
		for _, want := range []string{"a", "a=1"} {
			b := make([]byte, headSize)
			if n, err := client.Read(b); err != nil || !bytes.HasSuffix(b[:n], []byte("\r\n\r\n"+want)) {
				t.Fatalf("%q, %v, want %s", b[:n], err, want)
			}
		}
	})
}

// A stream looks at the connection's file to learn whether the client has left.
func TestReturnedConnectionImplementsSyscallConn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var c net.Conn = &returned{Conn: conn}
	file, ok := c.(syscall.Conn)
	if !ok {
		t.Fatal("it has none")
	}
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	if err := raw.Read(func(uintptr) bool { asked = true; return true }); err != nil || !asked {
		t.Errorf("%t, %v", asked, err)
	}
	pipe, _ := net.Pipe()
	if _, err := (&returned{Conn: pipe}).SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe's: %v", err)
	}
}

func TestHandlerMayChangeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(r.FormValue("n")))
		}))
		l.request.URL.RawQuery = "n=1"
		go l.run()
		defer client.Close()
		for _, want := range []string{"1", "2"} {
			b := make([]byte, headSize)
			n, err := client.Read(b)
			if err != nil || !bytes.HasSuffix(b[:n], []byte("\r\n\r\n"+want)) {
				t.Errorf("%q, %v, want %s", b[:n], err, want)
			}
			if _, err := io.WriteString(client, "GET "+path+"?n=2 HTTP/1.1\r\nHost: x.example\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestIdleConnectionHoldsNoLongAnswer(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		conn, client := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		a := answer{conn: conn, gone: func() bool { return false }, header: http.Header{}}
		a.begin()
		_, _ = a.Write(make([]byte, size))
		if _, err := a.finish(); err != nil {
			t.Fatal(err)
		}
		if held := a.out.Cap() + cap(a.body); held > keepSize || size < keepSize && held < size {
			t.Errorf("of an answer of %d bytes it holds %d", size, held)
		}
		_ = conn.Close()
	}
}

func TestLongBodyIsSentWithoutCopy(t *testing.T) {
	const size = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		body, ended := make([]byte, size), false
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write(body)
			ended = true
		}))
		go l.run()
		synctest.Wait() // nobody reads the answer
		if held := l.answer.out.Cap() + cap(l.answer.body); ended || held > keepSize {
			t.Errorf("the handler has ended: %t, and %d bytes are held", ended, held)
		}
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != size || answer.ContentLength != size {
			t.Errorf("%d bytes of %d, %v", n, answer.ContentLength, err)
		}
		_ = client.Close()
	})
}

// laneOn is a lane on a pipe whose client is returned.
func laneOn(next http.Handler) (l *lane, client net.Conn) {
	server, client := net.Pipe()
	r, _ := http.NewRequest("GET", path+"?a", nil)
	r.Host = "x.example"
	p := New(next, Options{Path: path})
	return &lane{path: p, conn: server, request: r, answer: answer{conn: server, gone: p.gone, header: http.Header{}}, in: make([]byte, 0, headSize)}, client
}

func TestIdleConnectionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
		go l.run()
		began := time.Now()
		b := make([]byte, headSize)
		for range 10 { // which goes on as long as somebody asks
			if _, err := client.Read(b); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			time.Sleep(idleWithin - idleSlack - time.Second)
			if _, err := io.WriteString(client, plain); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Now()
		if _, err := client.Read(b); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(b); err != io.EOF {
			t.Fatalf("it ended with %v", err)
		}
		if rested := time.Since(last); rested > idleWithin || rested < idleWithin-idleSlack {
			t.Errorf("it was closed after %v", rested)
		}
	})
}

func TestClientThatDoesNotReadTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(40 * time.Second))
			_, _ = w.Write([]byte("ok"))
		}))
		began := time.Now()
		l.run() // nobody reads the answer
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("it was given up after %v", took)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is not closed: %v", err)
		}
	})
}

// counting is a connection that counts how often a deadline is set.
type counting struct {
	net.Conn
	set []time.Time
}

func (c *counting) SetWriteDeadline(t time.Time) error {
	c.set = append(c.set, t)
	return nil
}

func TestDeadlinesAreSetRarely(t *testing.T) {
	conn := &counting{}
	a := answer{conn: conn}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 1000 {
		_ = a.SetWriteDeadline(at.Add(time.Duration(i) * 100 * time.Millisecond))
		if late := at.Add(time.Duration(i) * 100 * time.Millisecond).Sub(conn.set[len(conn.set)-1]); late >= writeSlack || late < 0 {
			t.Fatalf("a deadline is %v too early", late)
		}
	}
	if len(conn.set) != 10 {
		t.Errorf("it was set %d times in 100 seconds", len(conn.set))
	}
	_ = a.SetWriteDeadline(at) // an earlier one counts
	if got := conn.set[len(conn.set)-1]; got != at {
		t.Errorf("it is %v", got)
	}
}

func TestWrongContentLengthIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client := laneOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("more than that"))
		}))
		go l.run()
		if b, err := io.ReadAll(client); err != nil || len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
	})
}
