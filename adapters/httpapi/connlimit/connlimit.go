// Package connlimit bounds how many connections a server has, in all and from one
// network. Where there is no room for a new one, those that wait for their client
// are closed first.
package connlimit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
)

const (
	patience    = time.Second            // how long a request may come in before its connection counts as slow
	pause       = 100 * time.Millisecond // after nothing was found to close, before it is looked for again
	maxRefusing = 64                     // refused connections that are told so at once; others are closed
	refuseTime  = 500 * time.Millisecond // for telling one
	headSize    = 8 << 10                // of a request's headers, beyond which they are large
	maxLarge    = 256                    // requests with large headers at once
	writeSize   = 64 << 10               // of an answer, of which a client has patience for each part
)

// A refused connection is told so before it has asked for anything.
const refusedBody = `{"statusCode":503,"message":"Too many connections","error":"Service Unavailable"}` + "\n"

var refusal = fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(refusedBody), refusedBody)

// Limits are numbers of connections.
type Limits struct {
	Total   int // in all
	Address int // from one address of IPv4 or one /64 of IPv6
}

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
	exempt func(netip.Addr) bool
	began  time.Time

	mu      sync.Mutex
	open    map[*conn]struct{}                  // guarded by mu
	from    map[netip.Prefix]map[*conn]struct{} // guarded by mu; without networks that have none
	nothing time.Time                           // guarded by mu: when nothing was found to close

	large            chan struct{} // with a value for each connection whose request has large headers
	refusing         chan struct{} // with a value for each connection that is being told
	refused, evicted atomic.Int64
}

// New returns a limiter. Addresses that are exempt have no limit of their own.
func New(l Limits, exempt func(netip.Addr) bool) *Limiter {
	return &Limiter{
		limits: l, exempt: exempt, began: time.Now(),
		open: map[*conn]struct{}{}, from: map[netip.Prefix]map[*conn]struct{}{}, refusing: make(chan struct{}, maxRefusing),
		large: make(chan struct{}, maxLarge),
	}
}

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
	if l.exempt(a) {
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
		_ = c.SetDeadline(time.Now().Add(refuseTime))
		if _, err := io.WriteString(c, refusal); err != nil {
			return
		}
		// What the client has sent is read before the end, or it would not see the answer.
		if w, ok := c.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c)
	}()
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
	head    atomic.Int64 // bytes that came of a request before it was handled
	large   atomic.Bool  // they are more than headSize
	closed  atomic.Bool
	timed   atomic.Bool // reading has a deadline, of a connection that was taken over
}

func (c *conn) become(state http.ConnState) {
	c.state.Store(int32(state))
	c.timed.Store(false)
	c.streams.ended.Store(0)
	if state != http.StateActive { // whose headers are still in use
		c.endHead()
	}
	switch state {
	case http.StateNew, http.StateIdle:
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
	c.head.Store(0)
	if c.large.Swap(false) {
		<-c.limiter.large
	}
}

// errLarge is for a connection that sends large headers while too many others do.
var errLarge = errors.New("connlimit: too many requests with large headers")

// readHead reads of a request that is not handled yet.
func (c *conn) readHead(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.head.Add(int64(n)) <= headSize || c.large.Load() {
		return n, err
	}
	select {
	case c.limiter.large <- struct{}{}:
		c.large.Store(true)
		if c.closed.Load() { // by another goroutine than the one that reads, as HTTP/2 does
			c.endHead()
		}
		return n, err
	default:
		c.limiter.refused.Add(1)
		return 0, errLarge
	}
}

// Read reads what comes. A connection that was taken over and reads with a deadline
// waits for a request; a stream reads nothing.
func (c *conn) Read(b []byte) (int, error) {
	switch state := http.ConnState(c.state.Load()); {
	case state == http.StateNew || state == http.StateIdle:
		return c.readHead(b)
	case !c.timed.Load():
		return c.Conn.Read(b)
	}
	c.waiting.Store(c.limiter.now())
	n, err := c.Conn.Read(b)
	c.waiting.Store(0)
	return n, err
}

// Write sends in parts, so that a client that takes a long answer is not slow.
func (c *conn) Write(b []byte) (n int, err error) {
	defer c.writing.Store(0)
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
	c.closed.Store(true)
	c.endHead()
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

// ReadFrom sends what src has, as the connection itself does it best: the kernel
// copies files.
func (c *conn) ReadFrom(src io.Reader) (int64, error) { return io.Copy(c.Conn, src) }
