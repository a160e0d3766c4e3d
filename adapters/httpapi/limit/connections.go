package limit

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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"collab/adapters/encode"
)

const (
	slowAfter      = time.Second            // a connection that has waited longer for its client is slow
	evictionPause  = 100 * time.Millisecond // between searches for connections to close
	maxRefusing    = 64                     // refused connections that are answered concurrently; others are closed
	refusalTimeout = 500 * time.Millisecond // for answering one
	maxWrite       = 64 << 10               // bytes of a response that a client must read within slowAfter
	maxCopy        = 2 * maxWrite           // bytes of a file that the kernel copies at once, 1.2 times as fast as maxWrite
)

// connMemory is the memory of a connection, in bytes: its goroutine, its buffers,
// and headers of headMemory.
const connMemory = 32 << 10

// Bytes that connections are charged beyond that.
const (
	headMemory       = 16 << 10   // bytes and lines of headers
	headMemoryStep   = 16 << 10   // the steps in which larger headers are charged
	headerLineMemory = 256        // of a header line beside its bytes: its entry in the map
	http2Memory      = 1536 << 10 // by a connection of HTTP/2: its window, one block of headers and 10,000 frames that wait to be sent
	streamMemory     = 32 << 10   // by a request of HTTP/2 beside its headers
)

// HTTP2 returns the configuration with which a connection of HTTP/2 uses no more memory
// than it is charged. Its window is that of four requests, so that requests whose body is
// not read do not block the others.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 100, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
	}
}

// tooManyConnections is the body of the response to a refused connection or request.
var tooManyConnections = string(encode.AppendError(nil, http.StatusServiceUnavailable, "Too many connections"))

// ConnectionLimits are numbers of connections.
type ConnectionLimits struct {
	Total   int // in all
	Address int // from one address of IPv4 or one /64 of IPv6
}

// Memory returns the bytes of so many connections, beside what they are charged.
func (l ConnectionLimits) Memory() int64 { return int64(l.Total) * connMemory }

// ParseConnections reads a text such as "address=512" over the defaults, which are such a text with
// both numbers.
func ParseConnections(defaults, s string) (l ConnectionLimits, err error) {
	err = parseList(defaults, s, "number of connections such as address=512, of total or address",
		map[string]*int{"total": &l.Total, "address": &l.Address}, parseNumber(1))
	return l, err
}

// parseList parses "name=value,name=value", each name at most once, over the values of the
// known names, which are first those of the defaults unless these are empty. If parse returns
// false, parseList fails with an error that describes an entry.
func parseList[T any](defaults, s, want string, known map[string]*T, parse func(value string) (T, bool)) error {
	if defaults != "" {
		if err := parseList("", defaults, want, known, parse); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		value, ok := parse(text)
		if !ok || seen[name] || known[name] == nil {
			return fmt.Errorf("%q is not a %s", part, want)
		}
		*known[name], seen[name] = value, true
	}
	return nil
}

// parseNumber returns a function for parseList that parses a number of at least least.
func parseNumber(minimum int) func(string) (int, bool) {
	return func(value string) (int, bool) {
		n, err := strconv.Atoi(value)
		return n, err == nil && n >= minimum && n <= 1_000_000
	}
}

// Connections keeps the connections of a server within their limits. If there are too many
// for a new one, those that wait for their client are closed first. Its ConnState and
// ConnContext are for http.Server.
type Connections struct {
	limits ConnectionLimits
	memory *Budget
	began  time.Time
	ConnectionOptions

	mu             sync.Mutex
	open           map[*conn]struct{}                  // guarded by mu
	from           map[netip.Prefix]map[*conn]struct{} // guarded by mu; without empty networks
	evictionFailed time.Time                           // guarded by mu: when no connection could be closed

	refusals         chan struct{} // has a value for each connection that is being refused
	refused, evicted atomic.Int64
}

// ConnectionOptions are the options of NewConnections beside limits and memory.
type ConnectionOptions struct {
	Exempt func(netip.Addr) bool // addresses without a limit per address
	NewID  func() string         // returns the ids of requests that reach no handler
	Log    *slog.Logger
}

// NewConnections returns a limiter of connections, which are charged to the budget for
// HTTP/2 and for large headers. Each network is a holder. Exempt addresses have no limit
// per address, and each of their connections is a holder.
func NewConnections(l ConnectionLimits, memory *Budget, o ConnectionOptions) *Connections {
	return &Connections{
		limits: l, memory: memory, began: time.Now(), ConnectionOptions: o,
		open: map[*conn]struct{}{}, from: map[netip.Prefix]map[*conn]struct{}{}, refusals: make(chan struct{}, maxRefusing),
	}
}

// Budget returns the budget of NewConnections.
func (l *Connections) Budget() *Budget { return l.memory }

// Open returns the number of connections.
func (l *Connections) Open() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.open))
}

// Refused returns how many connections were refused.
func (l *Connections) Refused() int64 { return l.refused.Load() }

// Evicted returns how many connections were closed to make room for others.
func (l *Connections) Evicted() int64 { return l.evicted.Load() }

// Listener returns a listener whose connections are limited.
func (l *Connections) Listener(inner net.Listener) net.Listener { return listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Connections
}

// Accept returns the next connection that is within the limits.
func (a listener) Accept() (net.Conn, error) {
	for {
		inner, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, limiter: a.limiter, network: a.limiter.networkOf(inner.RemoteAddr())}
		c.account = Account{Budget: a.limiter.memory, Holder: c.network.String()}
		if !c.network.IsValid() {
			c.account.Holder = inner.RemoteAddr().String()
		}
		c.readingSince.Store(a.limiter.now())
		if a.limiter.admit(c) {
			return c, nil
		}
		a.limiter.refuse(inner)
	}
}

// networkOf returns the network that a connection is counted for, the zero Prefix if the
// address is exempt or unknown.
func (l *Connections) networkOf(remote net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Prefix{}
	}
	a := at.Addr().Unmap().WithZone("")
	if l.Exempt(a) {
		return netip.Prefix{}
	}
	return networkOf(a)
}

// now returns the time since the limiter was made, in nanoseconds; never 0.
func (l *Connections) now() int64 { return int64(time.Since(l.began)) + 1 }

// admit adds a connection if the limits allow it or others can be closed for it, and
// reports whether it did.
func (l *Connections) admit(c *conn) bool {
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
		if time.Since(l.evictionFailed) >= evictionPause {
			// Several at once, because the search visits all connections.
			more := l.evict(l.open, 1+l.limits.Total/64)
			if ok = len(more) > 0; !ok {
				l.evictionFailed = time.Now()
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

// evict removes at most n connections of a set and returns them: those that have been idle
// for longest or, if none is, those that have been slow for longest. The caller holds mu.
func (l *Connections) evict(set map[*conn]struct{}, n int) []*conn {
	type candidate struct {
		*conn
		since int64
	}
	var idle, slow []candidate
	for c := range set {
		waiting := c.readingSince.Load()
		if waiting != 0 && c.idle() {
			idle = append(idle, candidate{c, waiting})
			continue
		}
		since := earliest(waiting, c.writingSince.Load(), c.streams.waitingSince())
		if since != 0 && l.now()-since >= int64(slowAfter) {
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

// add counts a connection. The caller holds mu.
func (l *Connections) add(c *conn) {
	l.open[c] = struct{}{}
	if !c.network.IsValid() {
		return
	}
	if l.from[c.network] == nil {
		l.from[c.network] = map[*conn]struct{}{}
	}
	l.from[c.network][c] = struct{}{}
}

// remove removes a connection, if it is counted. The caller holds mu.
func (l *Connections) remove(c *conn) {
	delete(l.open, c)
	delete(l.from[c.network], c)
	if len(l.from[c.network]) == 0 {
		delete(l.from, c.network)
	}
}

// refuse replies to a connection beyond the limits with 503, and closes it.
func (l *Connections) refuse(c net.Conn) {
	l.refused.Add(1)
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-l.refusals }()
		defer c.Close()
		l.writeRefusal(c)
	}()
}

// writeRefusal replies with 503 on a connection that is closed next.
func (l *Connections) writeRefusal(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(refusalTimeout))
	if _, err := c.Write(response(l.NewID(), http.StatusServiceUnavailable, tooManyConnections, "Retry-After: 1\r\n")); err != nil {
		return
	}
	// The client's data is read first, because closing with unread data discards the response.
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c)
}

// ConnState records the state of one of the listener's connections.
func (l *Connections) ConnState(netConn net.Conn, state http.ConnState) {
	if c, ok := netConn.(*conn); ok {
		c.setState(state)
	}
}

// earliest returns the least of the times that are not 0, or 0 if there is none.
func earliest(times ...int64) (first int64) {
	for _, t := range times {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// conn is a counted connection.
type conn struct {
	net.Conn
	limiter *Connections
	network netip.Prefix // that it is counted for; zero: none

	state        atomic.Int32 // an http.ConnState
	readingSince atomic.Int64 // since when it waits for data of its client, as of Connections.now; 0: it does not
	writingSince atomic.Int64 // since when it waits for its client to read a part of a response; 0: it does not
	streams      streams      // of HTTP/2
	unwritten    atomic.Bool  // nothing was written since net/http began to serve it
	inHandler    atomic.Bool  // the present request has reached its handler
	http2        atomic.Bool
	readDeadline atomic.Bool // a hijacked connection has a read deadline
	headRefused  bool        // its headers exceeded the budget; used by the reading goroutine only
	headLate     atomic.Bool // its headers did not come before the read deadline

	mu      sync.Mutex
	account Account // guarded by mu
	head    int64   // guarded by mu: bytes and lines of the present request's head
	large   int64   // guarded by mu: what was charged for them
	closed  bool    // guarded by mu: nothing is charged any more
}

// reserve charges n bytes to the budget and reports whether it could.
func (c *conn) reserve(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.account.Take(n)
}

// release returns all bytes of the connection, which reserves none afterwards.
func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.account.Close()
}

func (c *conn) setState(state http.ConnState) {
	if state == http.StateNew {
		c.unwritten.Store(true)
	}
	c.state.Store(int32(state))
	c.readDeadline.Store(false)
	c.streams.lastEnded.Store(0)
	if state != http.StateActive { // an active request uses its headers
		c.endHead()
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.inHandler.Store(false)
		c.readingSince.Store(c.limiter.now())
	default:
		c.readingSince.Store(0)
	}
}

// idle reports whether a connection that waits is between two requests.
func (c *conn) idle() bool {
	state := http.ConnState(c.state.Load())
	return state == http.StateIdle || state == http.StateHijacked
}

// SetReadDeadline implements net.Conn. While a request is being handled there is a deadline
// as long as its body is awaited, which is extended as it arrives.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch http.ConnState(c.state.Load()) {
	case http.StateActive:
		since := int64(0)
		if !t.IsZero() {
			since = c.limiter.now()
		}
		c.readingSince.Store(since)
	case http.StateHijacked:
		c.readDeadline.Store(!t.IsZero())
	}
	return c.Conn.SetReadDeadline(t)
}

// endHead releases the memory of the last request's headers.
func (c *conn) endHead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = 0
	if c.large > 0 && !c.closed {
		c.account.Give(c.large)
	}
	c.large = 0
}

// readHead reads a part of a request's head and charges it. If the budget is used up it
// replies with 503; from then on it fails, as net/http reads again after an error.
func (c *conn) readHead(b []byte) (int, error) {
	if !c.headRefused {
		n, err := c.Conn.Read(b)
		c.headLate.Store(errors.Is(err, os.ErrDeadlineExceeded))
		if c.chargeHead(b[:n]) {
			return n, err
		}
		c.headRefused = true
		c.limiter.refused.Add(1)
		c.limiter.writeRefusal(c.Conn)
	}
	// net/http sends no response of its own if a read fails.
	return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: errMemory}
}

// chargeHead charges a part of a head and reports whether it could.
func (c *conn) chargeHead(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head += int64(len(b)) + headerLineMemory*int64(bytes.Count(b, []byte{'\n'}))
	for c.head > headMemory+c.large && !c.closed {
		if !c.account.Take(headMemoryStep) {
			return false
		}
		c.large += headMemoryStep
	}
	return true
}

// Read implements net.Conn. A hijacked connection that reads with a deadline waits for a
// request; an event stream reads nothing.
func (c *conn) Read(b []byte) (int, error) {
	switch state := http.ConnState(c.state.Load()); {
	case (state == http.StateNew || state == http.StateIdle) && !c.http2.Load():
		return c.readHead(b)
	case !c.readDeadline.Load():
		return c.Conn.Read(b)
	}
	c.readingSince.Store(c.limiter.now())
	n, err := c.Conn.Read(b)
	c.readingSince.Store(0)
	return n, err
}

// errMemory is the error of a connection that exceeds the memory budget.
var errMemory = errors.New("limit: the memory budget of connections is used up")

// Write implements net.Conn. It writes in parts, so that a client that reads a long
// response is not counted as slow. The first bytes are a status line of HTTP/1 or the
// settings of HTTP/2, a frame that begins with a zero. A response of net/http to a
// malformed request is replaced by one with an error body.
func (c *conn) Write(b []byte) (n int, err error) {
	if c.unwritten.Swap(false) && len(b) > 0 && b[0] == 0 {
		if !c.reserve(http2Memory) {
			c.limiter.refused.Add(1)
			return 0, errMemory
		}
		c.http2.Store(true)
	}
	defer c.writingSince.Store(0)
	if !c.inHandler.Load() && !c.http2.Load() { // HTTP/2 may write parts of a response after its handler's end
		if answer := c.limiter.malformed(b, c.headLate.Load(), c.RemoteAddr()); answer != nil {
			c.writingSince.Store(c.limiter.now())
			_, err := c.Conn.Write(answer)
			return len(b), err
		}
	}
	for {
		part := b[n:min(len(b), n+maxWrite)]
		c.writingSince.Store(c.limiter.now())
		sent, err := c.Conn.Write(part)
		if n += sent; err != nil || n == len(b) {
			return n, err
		}
	}
}

// ReadFrom implements io.ReaderFrom. The kernel copies from an io.LimitedReader over a
// file, in parts of maxCopy, each with the same time as those of Write.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	limited, isLimited := r.(*io.LimitedReader)
	if !ok || !isLimited {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	defer c.writingSince.Store(0)
	part := io.LimitedReader{R: limited.R}
	for limited.N > 0 {
		size := min(limited.N, maxCopy)
		part.N = size
		c.writingSince.Store(c.limiter.now() + (size-1)/maxWrite*int64(slowAfter))
		sent, err := to.ReadFrom(&part)
		n += sent
		limited.N -= sent
		if err != nil || sent < size {
			return n, err
		}
	}
	return n, nil
}

// Close closes the connection and removes it from the limiter.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	c.release()
	return c.Conn.Close()
}

// CloseWrite closes the writing half of the connection.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn implements syscall.Conn by the connection inside.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
