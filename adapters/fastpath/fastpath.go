// Package fastpath answers plain requests that follow one another on a connection
// without what net/http does for each of them: a goroutine that watches whether the
// client leaves, deadlines, and tables of headers that nobody reads. It is for
// answers that are in memory and wait for nothing, which a proxy asks for on behalf
// of many clients over few connections.
//
// A connection begins with net/http. After several plain requests in a row it is
// taken over; the first request that is not plain goes back to net/http together
// with the connection, not looked at any further. So everything that is unusual,
// wrong or slow about a request is net/http's to decide, and the same handler
// answers either way.
package fastpath

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	after      = 3        // plain requests in a row that a connection is taken over for
	mostAfter  = 1 << 16  // as many at most, of one that went back again and again
	headSize   = 4 << 10  // bytes that a plain request has at most
	keepSize   = 16 << 10 // bytes of memory that are kept for a connection's next answer
	idleWithin = 2 * time.Minute
	idleSlack  = time.Minute      // what a deadline may be shorter, so that it is seldom set
	writeSlack = 10 * time.Second // likewise, of the handler's
)

// Options say what is plain.
type Options struct {
	// Path is the one path whose GET requests can be plain.
	Path string

	// Headers are those that the handler reads for it, in their canonical form. The
	// handler sees no others.
	Headers []string
}

// Path is the way past net/http. As a handler it stands before the one that
// answers; its listener brings connections back, to be served like any other.
type Path struct {
	Options
	next http.Handler
	back *listener

	mu       sync.Mutex
	taken    map[*lane]struct{} // guarded by mu
	draining bool               // guarded by mu
}

// New returns the way to a handler.
func New(next http.Handler, o Options) *Path {
	return &Path{Options: o, next: next, back: &listener{conns: make(chan net.Conn), closed: make(chan struct{})}, taken: map[*lane]struct{}{}}
}

// Listener is where connections come back that are no longer plain. To net/http they
// are new ones, so that a client may even go on in HTTP/2.
func (p *Path) Listener() net.Listener { return p.back }

// Drain ends the connections that were taken over, each after the answer that it
// is at, and takes no others.
func (p *Path) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	for l := range p.taken {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // what it waits for
	}
}

// streak is how many plain requests in a row came over a connection. Net/http
// serves one request of it at a time.
type streak struct{ is, wanted int }

// with counts a request, and reports whether the streak is long enough.
func (s *streak) with(plain bool) bool {
	if !plain {
		s.is = 0
		return false
	}
	s.is++
	return s.is > s.wanted
}

type streakKey struct{}

// ConnContext is for http.Server: it counts the requests of each connection.
func (p *Path) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	s := &streak{wanted: after}
	if r, ok := conn.(*returned); ok {
		s.wanted = r.wanted
	}
	return context.WithValue(ctx, streakKey{}, s)
}

// ServeHTTP answers a request, and the plain ones that follow it where it takes
// the connection over.
func (p *Path) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, ok := r.Context().Value(streakKey{}).(*streak)
	if !ok || r.ProtoMajor != 1 || !s.with(p.plain(r)) || !p.take(w, r, s.wanted) {
		p.next.ServeHTTP(w, r)
	}
}

// take takes the connection over and serves it to its end here, beginning with the
// request; false where that cannot be done.
func (p *Path) take(w http.ResponseWriter, r *http.Request, wanted int) bool {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if r, ok := conn.(*returned); ok {
		conn, ahead = r.Conn, slices.Concat(ahead, r.ahead)
	}
	l := &lane{path: p, conn: conn, request: r, wanted: min(2*wanted, mostAfter), answer: answer{conn: conn, gone: p.gone, header: http.Header{}}}
	l.in = append(make([]byte, 0, max(headSize, len(ahead))), ahead...)
	l.run()
	return true
}

// plain reports whether net/http's request would be one here.
func (p *Path) plain(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == p.Path && r.URL.RawPath == "" && r.ProtoMinor == 1 &&
		r.Body == http.NoBody && !r.Close && r.Header["Upgrade"] == nil
}

// enter notes a connection that was taken over, unless the server goes away.
func (p *Path) enter(l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.draining {
		p.taken[l] = struct{}{}
	}
	return !p.draining
}

func (p *Path) leave(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, l)
}

// lane is a connection that was taken over.
type lane struct {
	path    *Path
	conn    net.Conn
	in      []byte        // what came and was not answered
	request *http.Request // the first one, which no handler gets: the others share its connection and context
	wanted  int           // of the connection's next streak, where it goes back
	idle    time.Time     // when waiting for a request ends, as it was set
	answer  answer
}

// run answers requests as long as they are plain, beginning with the one that
// net/http has read.
func (l *lane) run() {
	handed := false
	defer func() {
		l.path.leave(l)
		if !handed {
			_ = l.conn.Close()
		}
	}()
	first := *l.request
	r := &first
	if !l.path.enter(l) {
		l.serve(r)
		return
	}
	for l.serve(r) && l.wait() {
		end := bytes.Index(l.in, headEnd)
		plain := false
		if end >= 0 {
			r, plain = l.read(l.in[:end+len(lineEnd)])
		}
		if !plain {
			// From here on a server that goes away is net/http's business again.
			l.path.leave(l)
			_ = l.conn.SetDeadline(time.Time{})
			handed = l.path.back.put(&returned{l.conn, l.in, l.wanted})
			return
		}
		l.in = append(l.in[:0], l.in[end+len(headEnd):]...)
	}
}

// serve answers a request; false ends the connection.
func (l *lane) serve(r *http.Request) bool {
	a := &l.answer
	a.begin()
	l.path.next.ServeHTTP(a, r)
	more, err := a.finish()
	return more && err == nil
}

// wait returns when something of the next request is there; false ends the
// connection.
func (l *lane) wait() bool {
	if len(l.in) > 0 {
		return true
	}
	if now := time.Now(); l.idle.Sub(now) < idleWithin-idleSlack {
		l.idle = now.Add(idleWithin)
		if l.conn.SetReadDeadline(l.idle) != nil || l.path.gone() {
			return false
		}
	}
	n, err := l.conn.Read(l.in[:cap(l.in)])
	l.in = l.in[:n]
	return n > 0 && err == nil
}

// gone reports whether the server goes away: a deadline that was set since Drain
// does not end what waits.
func (p *Path) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// read returns the request of a head, which is its lines with their ends.
func (l *lane) read(head []byte) (*http.Request, bool) {
	query, head, ok := l.path.target(head)
	if !ok {
		return nil, false
	}
	r := new(http.Request)
	*r = *l.request
	r.RequestURI = l.path.Path + "?" + string(query)
	r.URL = &url.URL{Path: l.path.Path, RawQuery: r.RequestURI[len(l.path.Path)+1:]}
	r.Header = http.Header{}
	hosts := 0
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, lineEnd)
		head = rest
		name, value, ok := header(line)
		if !ok {
			return nil, false
		}
		switch kind := l.path.kind(name); kind {
		case other:
		case special:
			return nil, false
		case connection:
			if !bytes.EqualFold(value, keepAlive) {
				return nil, false
			}
		case host:
			if hosts++; string(value) != l.request.Host {
				return nil, false
			}
		default:
			known := l.path.Headers[kind]
			r.Header[known] = append(r.Header[known], string(value))
		}
	}
	return r, hosts == 1
}

// returned is a connection that goes back to net/http, with what was read of it
// ahead.
type returned struct {
	net.Conn
	ahead  []byte
	wanted int
}

// Read reads what was read before, and then what comes.
func (r *returned) Read(b []byte) (int, error) {
	if len(r.ahead) == 0 {
		r.ahead = nil
		return r.Conn.Read(b)
	}
	n := copy(b, r.ahead)
	r.ahead = r.ahead[n:]
	return n, nil
}

// NetConn returns the connection that went back.
func (r *returned) NetConn() net.Conn { return r.Conn }

// CloseWrite ends what the client reads, before the connection is closed.
func (r *returned) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn is the connection's own, which knows nothing of what was read ahead.
// Streams ask it whether the client has left.
func (r *returned) SyscallConn() (syscall.RawConn, error) {
	if c, ok := r.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// listener accepts the connections that come back.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

var errClosed = errors.New("fastpath: the listener is closed")

// put hands a connection over; false says that nobody takes it any more.
func (l *listener) put(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept returns the next connection that comes back.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, errClosed
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names the listener, which has no address of its own.
func (l *listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "fastpath" }
func (address) String() string  { return "connections that come back" }
