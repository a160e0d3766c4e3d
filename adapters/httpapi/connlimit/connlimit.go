// Package connlimit bounds how many connections a server has, in all and from one
// network, and the memory that they and the headers of their requests take. Where
// there is no room for a new one, those that wait for their client are closed first.
package connlimit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"collab/adapters/httpapi/budget"
)

const (
	patience    = time.Second            // how long a request may come in before its connection counts as slow
	pause       = 100 * time.Millisecond // after nothing was found to close, before it is looked for again
	maxRefusing = 64                     // refused connections that are told so at once; others are closed
	refuseTime  = 500 * time.Millisecond // for telling one
	writeSize   = 64 << 10               // of an answer, of which a client has patience for each part
)

// connSize is the memory that a connection takes: its goroutine, its buffers, and headers
// of headSize.
const connSize = 32 << 10

// Bytes that are taken of the budget, for what connections take beyond that.
const (
	headSize   = 16 << 10   // bytes and lines of headers
	headStep   = 16 << 10   // by larger headers, again and again
	lineSize   = 256        // of a line of headers beside its bytes: its place in the map
	http2Size  = 1536 << 10 // by a connection of HTTP/2: its window, one block of headers and 10,000 frames that wait to be sent
	streamSize = 32 << 10   // by a request of HTTP/2 beside its headers
)

// HTTP2 returns the configuration with which a connection of HTTP/2 takes no more than
// it is charged. The window of a connection is that of four requests, so that some that
// do not read their bodies leave room for others.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 100, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
	}
}

// refusedBody tells a client that there is no room for its connection or request.
const refusedBody = `{"statusCode":503,"message":"Too many connections","error":"Service Unavailable"}` + "\n"

// Limits are numbers of connections.
type Limits struct {
	Total   int // in all
	Address int // from one address of IPv4 or one /64 of IPv6
}

// Memory returns how many bytes so many connections take, beside what they take of the
// budget.
func (l Limits) Memory() int64 { return int64(l.Total) * connSize }

// Parse reads "total=16384,address=512" over the defaults, which these are.
func Parse(s string) (Limits, error) {
	l := Limits{Total: 16384, Address: 512}
	if s == "" {
		return l, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*int{"total": &l.Total, "address": &l.Address}[name]
		n, err := strconv.Atoi(value)
		if to == nil || seen[name] || err != nil || n < 1 || n > 1_000_000 {
			return Limits{}, fmt.Errorf("%q is not a number of connections such as address=512, of total or address", part)
		}
		seen[name], *to = true, n
	}
	return l, nil
}

// Limiter holds the connections of a server to its limits. Its ConnState is for
// http.Server.
type Limiter struct {
	limits Limits
	memory *budget.Budget
	began  time.Time
	Options

	mu      sync.Mutex
	open    map[*conn]struct{}                  // guarded by mu
	from    map[netip.Prefix]map[*conn]struct{} // guarded by mu; without networks that have none
	nothing time.Time                           // guarded by mu: when nothing was found to close

	refusing         chan struct{} // with a value for each connection that is being told
	refused, evicted atomic.Int64
}

// Options are what a limiter needs beside limits and memory.
type Options struct {
	Exempt func(netip.Addr) bool // addresses that have no limit of their own
	NewID  func() string         // makes the ids of requests that come to no handler
	Log    *slog.Logger
}

// New returns a limiter of connections that take memory of the budget for HTTP/2 and for
// large headers. A network is one holder of it. Addresses that are exempt have no limit of
// their own, and each of their connections is a holder.
func New(l Limits, memory *budget.Budget, o Options) *Limiter {
	return &Limiter{
		limits: l, memory: memory, began: time.Now(), Options: o,
		open: map[*conn]struct{}{}, from: map[netip.Prefix]map[*conn]struct{}{}, refusing: make(chan struct{}, maxRefusing),
	}
}

// Budget returns the budget of New.
func (l *Limiter) Budget() *budget.Budget { return l.memory }

// Open returns the number of connections.
func (l *Limiter) Open() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.open))
}

// Refused returns how many connections were refused.
func (l *Limiter) Refused() int64 { return l.refused.Load() }

// Evicted returns how many connections were closed for the sake of others.
func (l *Limiter) Evicted() int64 { return l.evicted.Load() }

// Listener returns a listener whose connections are limited.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection that is within the limits.
func (a listener) Accept() (net.Conn, error) {
	for {
		inner, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, limiter: a.limiter, network: a.limiter.networkOf(inner.RemoteAddr())}
		c.account = budget.Account{Budget: a.limiter.memory, Holder: c.network.String()}
		if !c.network.IsValid() {
			c.account.Holder = inner.RemoteAddr().String()
		}
		c.waiting.Store(a.limiter.now())
		if a.limiter.admit(c) {
			return c, nil
		}
		a.limiter.refuse(inner)
	}
}

// networkOf returns what a connection counts for; the zero Prefix is nothing.
func (l *Limiter) networkOf(remote net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Prefix{}
	}
	a := at.Addr().Unmap().WithZone("")
	if l.Exempt(a) {
		return netip.Prefix{}
	}
	bits := 64
	if a.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// now is the time since the limiter began, as conn.waiting has it; never 0.
func (l *Limiter) now() int64 { return int64(time.Since(l.began)) + 1 }

// admit notes a connection if there is room for it or can be made.
func (l *Limiter) admit(c *conn) bool {
	l.mu.Lock()
	var closed []*conn
	siblings := l.from[c.network]
	ok := !c.network.IsValid() || len(siblings) < l.limits.Address
	if !ok {
		closed = l.evict(siblings, 1)
		ok = len(closed) > 0
	}
	if ok && len(l.open) >= l.limits.Total {
		ok = false
		if time.Since(l.nothing) >= pause {
			// Several at once, as all connections are looked at for it.
			more := l.evict(l.open, 1+l.limits.Total/64)
			if ok = len(more) > 0; !ok {
				l.nothing = time.Now()
			}
			closed = append(closed, more...)
		}
	}
	if ok {
		l.add(c)
	}
	l.mu.Unlock()
	l.evicted.Add(int64(len(closed)))
	for _, victim := range closed {
		_ = victim.Conn.Close()
	}
	return ok
}

// evict removes at most n connections of a set and returns them: those that have
// been idle for longest or, where none is, those that have been slow for longest.
// The caller holds mu.
func (l *Limiter) evict(set map[*conn]struct{}, n int) []*conn {
	type candidate struct {
		*conn
		since int64
	}
	var idle, slow []candidate
	for c := range set {
		waiting := c.waiting.Load()
		if waiting != 0 && c.idle() {
			idle = append(idle, candidate{c, waiting})
			continue
		}
		since := earliest(waiting, c.writing.Load(), c.streams.waitingSince())
		if since != 0 && l.now()-since >= int64(patience) {
			slow = append(slow, candidate{c, since})
		}
	}
	if len(idle) == 0 {
		idle = slow
	}
	slices.SortFunc(idle, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
	var out []*conn
	for _, c := range idle[:min(n, len(idle))] {
		l.remove(c.conn)
		out = append(out, c.conn)
	}
	return out
}

// add notes a connection. The caller holds mu.
func (l *Limiter) add(c *conn) {
	l.open[c] = struct{}{}
	if !c.network.IsValid() {
		return
	}
	if l.from[c.network] == nil {
		l.from[c.network] = map[*conn]struct{}{}
	}
	l.from[c.network][c] = struct{}{}
}

// remove forgets a connection; again does nothing. The caller holds mu.
func (l *Limiter) remove(c *conn) {
	delete(l.open, c)
	delete(l.from[c.network], c)
	if len(l.from[c.network]) == 0 {
		delete(l.from, c.network)
	}
}

// refuse tells a connection that there is no room for it, and closes it.
func (l *Limiter) refuse(c net.Conn) {
	l.refused.Add(1)
	select {
	case l.refusing <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-l.refusing }()
		defer c.Close()
		l.tell(c)
	}()
}

// tell says that there are too many connections over a connection that is closed next.
func (l *Limiter) tell(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(refuseTime))
	if _, err := c.Write(answer(l.NewID(), http.StatusServiceUnavailable, refusedBody, "Retry-After: 1\r\n")); err != nil {
		return
	}
	// What the client has sent is read before the end, or it would not see the answer.
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c)
}

// ConnState notes what a connection of the listener's does now. Others, such as
// those that wrap one, are asked for it by their method NetConn.
func (l *Limiter) ConnState(of net.Conn, state http.ConnState) {
	if c := limited(of); c != nil {
		c.become(state)
	}
}

// limited returns the listener's connection within another, nil where there is none.
func limited(of net.Conn) *conn {
	for {
		if c, ok := of.(*conn); ok {
			return c
		}
		wrapper, ok := of.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		of = wrapper.NetConn()
	}
}

// earliest returns the least of times that are not 0, else 0.
func earliest(times ...int64) (first int64) {
	for _, t := range times {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	limiter *Limiter
	network netip.Prefix // what it counts for; zero: nothing

	state   atomic.Int32 // an http.ConnState
	waiting atomic.Int64 // since when it waits for its client to send, as of Limiter.now; 0: it does not
	writing atomic.Int64 // since when it waits for its client to take a part of an answer; 0: it does not
	streams streams      // of HTTP/2
	fresh   atomic.Bool  // nothing has been sent since net/http began to serve it
	handled atomic.Bool  // the present request has come to its handler
	http2   atomic.Bool
	timed   atomic.Bool // reading has a deadline, of a connection that was taken over
	refused bool        // there was no memory for its headers; of the goroutine that reads

	mu      sync.Mutex
	account budget.Account // guarded by mu
	head    int64          // guarded by mu: bytes and lines that came of a request before it was handled
	large   int64          // guarded by mu: what was taken for them
	closed  bool           // guarded by mu: nothing is taken any more
}

// take takes n bytes of the budget and reports whether it may.
func (c *conn) take(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.account.Take(n)
}

// settle gives back all that the connection has taken, which takes nothing any more.
func (c *conn) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.account.Close()
}

func (c *conn) become(state http.ConnState) {
	if state == http.StateNew { // again, of one that fastpath hands back
		c.fresh.Store(true)
	}
	c.state.Store(int32(state))
	c.timed.Store(false)
	c.streams.ended.Store(0)
	if state != http.StateActive { // whose headers are still in use
		c.endHead()
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.handled.Store(false)
		c.waiting.Store(c.limiter.now())
	default:
		c.waiting.Store(0)
	}
}

// idle reports whether a connection that waits is between two requests.
func (c *conn) idle() bool {
	state := http.ConnState(c.state.Load())
	return state == http.StateIdle || state == http.StateHijacked
}

// SetReadDeadline sets when reading ends. While a request is being handled there is
// a deadline as long as its body is awaited, which is set anew when enough of it
// has come.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch http.ConnState(c.state.Load()) {
	case http.StateActive:
		since := int64(0)
		if !t.IsZero() {
			since = c.limiter.now()
		}
		c.waiting.Store(since)
	case http.StateHijacked:
		c.timed.Store(!t.IsZero())
	}
	return c.Conn.SetReadDeadline(t)
}

// endHead forgets the headers of the request before.
func (c *conn) endHead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = 0
	if c.large > 0 && !c.closed {
		c.account.Give(c.large)
	}
	c.large = 0
}

// readHead reads of a request that is not handled yet. After it has refused one it reads
// nothing: net/http reads again after an error.
func (c *conn) readHead(b []byte) (int, error) {
	if !c.refused {
		n, err := c.Conn.Read(b)
		if c.chargeHead(b[:n]) {
			return n, err
		}
		c.refused = true
		c.limiter.refused.Add(1)
		c.limiter.tell(c.Conn)
	}
	// Net/http gives no answer of its own where reading from the network fails.
	return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: errMemory}
}

// chargeHead takes memory for a part of headers and reports whether it may.
func (c *conn) chargeHead(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head += int64(len(b)) + lineSize*int64(bytes.Count(b, []byte{'\n'}))
	for c.head > headSize+c.large && !c.closed {
		if !c.account.Take(headStep) {
			return false
		}
		c.large += headStep
	}
	return true
}

// Read reads what comes. A connection that was taken over and reads with a deadline
// waits for a request; a stream reads nothing.
func (c *conn) Read(b []byte) (int, error) {
	switch state := http.ConnState(c.state.Load()); {
	case (state == http.StateNew || state == http.StateIdle) && !c.http2.Load():
		return c.readHead(b)
	case !c.timed.Load():
		return c.Conn.Read(b)
	}
	c.waiting.Store(c.limiter.now())
	n, err := c.Conn.Read(b)
	c.waiting.Store(0)
	return n, err
}

// errMemory is for a connection that there is no memory for.
var errMemory = errors.New("connlimit: the budget of connections is used up")

// Write sends in parts, so that a client that takes a long answer is not slow. What is
// sent first is a status line of HTTP/1 or the settings of HTTP/2, a frame that begins
// with a zero. What net/http answers itself, to a request that it cannot read, is sent in
// the form of all errors.
func (c *conn) Write(b []byte) (n int, err error) {
	if c.fresh.Swap(false) && len(b) > 0 && b[0] == 0 && !c.http2.Load() {
		if !c.take(http2Size) {
			c.limiter.refused.Add(1)
			return 0, errMemory
		}
		c.http2.Store(true)
	}
	defer c.writing.Store(0)
	if !c.handled.Load() && !c.http2.Load() { // HTTP/2 may write the middle of an answer after its handler's end
		if answer := c.limiter.malformed(b, c.RemoteAddr()); answer != nil {
			c.writing.Store(c.limiter.now())
			_, err := c.Conn.Write(answer)
			return len(b), err
		}
	}
	for {
		part := b[n:min(len(b), n+writeSize)]
		c.writing.Store(c.limiter.now())
		sent, err := c.Conn.Write(part)
		if n += sent; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Close closes the connection, which counts no more.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	c.settle()
	return c.Conn.Close()
}

// CloseWrite ends what the client reads.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn returns the connection's own.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
