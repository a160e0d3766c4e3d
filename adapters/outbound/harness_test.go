package outbound_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"collab/adapters/outbound"
	"collab/test/must"
)

// TestMain sets a proxy that does not answer before net/http reads the environment.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	goleak.VerifyTestMain(m)
}

// Two loopback addresses: open is in the clients' Networks, closed is not.
const (
	open   = "127.0.0.1"
	closed = "127.0.0.2"
)

var opened = []netip.Prefix{netip.MustParsePrefix(open + "/32")}

// secret is in URLs; no error may contain it.
const secret = "s3cr3t"

// cause returns the error in a *url.Error, whose text has the URL.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// dns is a name server with the responses of a test.
type dns struct {
	conn net.PacketConn

	mu       sync.Mutex
	response func(name string, earlier int) []netip.Addr // earlier questions of the name and type
	asked    map[dnsmessage.Question]int
}

func newDNS(t testing.TB, response func(name string, earlier int) []netip.Addr) *dns {
	t.Helper()
	conn := must.Do(net.ListenPacket("udp", "127.0.0.1:0")).Or(t)
	d := &dns{conn: conn, response: response, asked: map[dnsmessage.Question]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return d
}

// always answers all questions with the addresses.
func always(addresses ...string) func(string, int) []netip.Addr {
	return func(string, int) []netip.Addr { return parsed(addresses...) }
}

func parsed(addresses ...string) []netip.Addr {
	var list []netip.Addr
	for _, a := range addresses {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

func (d *dns) serve() {
	buffer := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply, err := d.reply(buffer[:n]); err == nil {
			_, _ = d.conn.WriteTo(reply, from)
		}
	}
}

func (d *dns) reply(message []byte) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	addresses := d.response(strings.TrimSuffix(q.Name.String(), "."), d.asked[q])
	d.asked[q]++
	d.mu.Unlock()
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	for _, a := range addresses {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		reply.Answers = append(reply.Answers, r)
	}
	if len(addresses) == 0 {
		reply.RCode = dnsmessage.RCodeNameError
	}
	return reply.Pack()
}

func (d *dns) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, times := range d.asked {
		n += times
	}
	return n
}

func (d *dns) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

// newClient returns a client that is closed at the end of the test.
func newClient(t testing.TB, o outbound.Options) *http.Client {
	t.Helper()
	c := outbound.New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// guardLog records the addresses that the guard allowed.
type guardLog struct {
	mu   sync.Mutex
	list []netip.AddrPort
}

var errStopped = errors.New("the test stops here")

// follow records the addresses that the guard allows. With stop no connection is made.
func follow(c *http.Client, stop bool) *guardLog {
	w := &guardLog{}
	outbound.Watch(c, func(a netip.AddrPort) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.list = append(w.list, a)
		if stop {
			return errStopped
		}
		return nil
	})
	return w
}

// take returns the record and clears it.
func (w *guardLog) take() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

// addresses returns the record without ports.
func (w *guardLog) addresses() []netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []netip.Addr
	for _, a := range w.list {
		list = append(list, a.Addr())
	}
	return list
}

// serve starts a server at open.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveTLS starts a server at open with a certificate for example.com.
func serveTLS(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// port returns the port of a server.
func port(s *httptest.Server) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// trap listens at closed, on the port of the server.
func trap(t *testing.T, s *httptest.Server) net.Listener {
	t.Helper()
	l := must.Do(net.Listen("tcp", net.JoinHostPort(closed, port(s)))).Or(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// empty checks that the test's own connection is the first in the listener's queue.
func empty(t *testing.T, l net.Listener) {
	t.Helper()
	own := must.Do(net.Dial("tcp", l.Addr().String())).Or(t)
	defer func() { _ = own.Close() }()
	first := must.Do(l.Accept()).Or(t)
	defer func() { _ = first.Close() }()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Errorf("a client has connected to %s", l.Addr())
	}
}

// get makes a call and returns the body of its response.
func get(t testing.TB, c *http.Client, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	return do(c, r)
}

func do(c *http.Client, r *http.Request) (string, error) {
	res, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}
