// Package outbound makes HTTP clients: of servers that the operator has configured, and
// of addresses that come from users, from catalogs and from the answers of foreign
// servers, where a call reaches the public internet and nothing else. It is a leaf: it
// imports the standard library and the guard of addresses alone.
package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dialLimit      = 5 * time.Second // names included
	handshakeLimit = 5 * time.Second
	headLimit      = 10 * time.Second // from the request's end to that of the answer's head
	idleLimit      = 30 * time.Second

	maxHead        = 64 << 10 // bytes
	defaultMaxBody = 1 << 20
	maxRedirects   = 3
	maxIdle        = 64      // connections
	bufferSize     = 2 << 10 // bytes of each connection of NewConfigured
	maxIdlePerHost = 2
)

// NewConfigured returns a client of a server that the operator has configured. It uses
// the proxy of the environment and follows no redirects, which would take headers and
// body to another host. Connecting and the TLS handshake have the timeout each. Bodies
// are not compressed, which would hold streams back.
func NewConfigured(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: timeout,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			ReadBufferSize:      bufferSize,
			WriteBufferSize:     bufferSize,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Options configure New.
type Options struct {
	Insecure bool           // http as well as https, for development
	Networks []netip.Prefix // allowed although they are not public
	Resolver *net.Resolver  // nil: the system's
	Roots    *x509.CertPool // nil: the system's
	MaxBody  int64          // bytes of an answer's body, decompressed; zero: 1 MiB
}

// New returns a client that calls addresses of the public internet and of
// o.Networks, over https and on any port.
//
//   - Each address is checked when its connection is made, after its name was
//     resolved, so it does not matter what a name stood for earlier.
//   - At most 3 redirects are followed, each checked in the same way. None goes
//     from https to http, and none to another origin once a request of the call
//     has a body, or a header that may be a credential.
//   - It uses no proxy of the environment and no cookies.
//   - Connecting, the handshake and the head of the answer have limits of their
//     own; the time of the whole call is the context's.
//   - Reading a body beyond o.MaxBody fails. If the caller sets Accept-Encoding, the
//     compressed bytes count.
//
// Blocked and Cause classify errors of the client. A copy of the client, or another client
// with its Transport, has the same checks.
func New(o Options) *http.Client {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	g := &guard{insecure: o.Insecure, maxBody: o.MaxBody}
	g.dialer = &net.Dialer{Timeout: dialLimit, Resolver: o.Resolver, Control: control(o.Networks)}
	g.transport = &http.Transport{
		DialContext:            g.dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeLimit,
		ResponseHeaderTimeout:  headLimit,
		MaxResponseHeaderBytes: maxHead,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleLimit,
		ForceAttemptHTTP2:      true,
	}
	// The guard decides on redirects, where no library can replace what it says.
	// With this one set, libraries do not look up the names in them on their own.
	return &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
}

// control refuses to connect a socket to an address that is neither public nor in
// one of the networks. Public is what the registries of special addresses
// (RFC 6890) leave over; the forms of IPv6 that carry an address of IPv4 are not.
func control(networks []netip.Prefix) func(network, address string, _ syscall.RawConn) error {
	var v4, v6 []netip.Prefix
	for _, n := range networks {
		if n.Addr().Is4() {
			v4 = append(v4, n)
		} else {
			v6 = append(v6, n)
		}
	}
	guardian := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return func(network, address string, c syscall.RawConn) error {
		if guardian.Safe(network, address, c) != nil {
			return refuse("The address leads into a network that is not public")
		}
		return nil
	}
}

// guard is the transport of New's clients.
type guard struct {
	insecure  bool
	maxBody   int64
	dialer    *net.Dialer
	transport *http.Transport
}

// RoundTrip makes one call, which may be one that a redirect asks for.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if r.Response != nil && r.Header.Get("Referer") != "" {
		// The client sets it on redirects, with the query of the address before.
		r = r.Clone(r.Context())
		r.Header.Del("Referer")
	}
	res, err := g.transport.RoundTrip(r)
	if err != nil {
		return nil, failed(err)
	}
	if _, err := res.Location(); err != nil && err != http.ErrNoLocation {
		_ = res.Body.Close()
		return nil, refuse("The server redirects to something that is no address")
	}
	res.Body = body{http.MaxBytesReader(nil, res.Body, g.maxBody)}
	return res, nil
}

// CloseIdleConnections closes the connections that wait for another call.
func (g *guard) CloseIdleConnections() { g.transport.CloseIdleConnections() }

// check checks the URL of a request and its redirects.
func (g *guard) check(r *http.Request) error {
	switch u := r.URL; {
	case u.Scheme != "https" && !g.insecure:
		return refuse("The address must begin with https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return refuse("The address must begin with https:// or http://")
	case u.User != nil:
		return refuse("The address must not hold a user name or a password")
	case u.Hostname() == "":
		return refuse("The address must name a host")
	}
	return checkRedirects(r)
}

// checkRedirects checks the redirects that led to the request. The earlier requests have the
// headers that layers above the guard have added.
func checkRedirects(r *http.Request) error {
	redirects, elsewhere, carrying := 0, false, carries(r)
	for at := r; at.Response != nil && at.Response.Request != nil; {
		before := at.Response.Request
		if before.URL.Scheme == "https" && at.URL.Scheme != "https" {
			return refuse("The server redirects from https to an address without it")
		}
		redirects++
		elsewhere = elsewhere || origin(before.URL) != origin(at.URL)
		carrying = carrying || carries(before)
		at = before
	}
	switch {
	case elsewhere && carrying:
		return refuse("The server redirects a call that may hold credentials to another server")
	case redirects > maxRedirects:
		return &failure{"the server redirects too often", nil}
	}
	return nil
}

// harmless are the headers that may be sent to another origin.
var harmless = []string{"Accept", "User-Agent", "Referer", "Mcp-Protocol-Version"}

// carries reports whether a request has a body or may have credentials, which can be in
// headers of any name.
func carries(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return true
	}
	for name := range r.Header {
		if !slices.Contains(harmless, name) {
			return true
		}
	}
	return false
}

// origin is what decides whether two addresses are of one server.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// body is a response body whose read errors are described by failed.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = failed(err)
	}
	return n, err
}
