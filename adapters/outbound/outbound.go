// Package outbound makes HTTP clients: for servers that the operator has configured, and
// for URLs from users, catalogs and foreign servers, whose calls reach only the public
// internet. It imports only the standard library and code.dny.dev/ssrf.
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
	dialTimeout           = 5 * time.Second // including name resolution
	tlsHandshakeTimeout   = 5 * time.Second
	responseHeaderTimeout = 10 * time.Second // after the request was sent
	idleConnTimeout       = 30 * time.Second

	maxResponseHeader = 64 << 10 // bytes
	defaultMaxBody    = 1 << 20
	maxRedirects      = 3
	maxIdleConns      = 64      // connections
	readBuffer        = 2 << 10 // bytes of each connection of NewConfigured
	writeBuffer       = 1 << 10 // likewise; a longer request is sent in two writes
)

// NewConfigured returns a client for a server that the operator has configured. It uses
// the proxy of the environment. It follows no redirects, which could send headers and body
// to another host. The timeout limits connecting and the TLS handshake, each. Bodies are not
// compressed, because compression delays streams.
func NewConfigured(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: timeout,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
			MaxIdleConnsPerHost: 512,
			IdleConnTimeout:     90 * time.Second,
			ReadBufferSize:      readBuffer,
			WriteBufferSize:     writeBuffer,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Options configure New.
type Options struct {
	Insecure bool           // http as well as https, for development
	Networks []netip.Prefix // allowed besides public ones
	Resolver *net.Resolver  // nil: the system's
	Roots    *x509.CertPool // nil: the system's
	MaxBody  int64          // bytes of a response body, decompressed; zero: 1 MiB
}

// New returns a client that calls addresses of the public internet and of
// o.Networks, over https and on any port.
//
//   - Each address is checked when its connection is made, after name resolution.
//   - At most 3 redirects are followed, each checked in the same way. None goes
//     from https to http, and none to another origin once a request of the call
//     has a body, or a header that may be a credential.
//   - It uses no proxy of the environment and no cookies.
//   - Connecting, the handshake and the header of the response have timeouts; the
//     context limits the whole call.
//   - Reading a body beyond o.MaxBody fails. If the caller sets Accept-Encoding, the
//     compressed bytes count.
//
// Blocked classifies errors of the client. A copy of the client, or another client with its
// Transport, has the same checks.
func New(o Options) *http.Client {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	g := &guard{insecure: o.Insecure, maxBody: o.MaxBody}
	g.dialer = &net.Dialer{Timeout: dialTimeout, Resolver: o.Resolver, Control: control(o.Networks)}
	g.transport = &http.Transport{
		DialContext:            g.dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		ResponseHeaderTimeout:  responseHeaderTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           maxIdleConns,
		IdleConnTimeout:        idleConnTimeout,
		ForceAttemptHTTP2:      true,
	}
	// The guard checks redirects, because libraries may replace CheckRedirect. It is set,
	// so that libraries do not resolve the names of redirects on their own.
	return &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
}

// control returns a net.Dialer.Control that refuses addresses that are neither public nor
// in one of the networks. Public are addresses in no special-purpose registry (RFC 6890),
// without the IPv6 forms that embed an IPv4 address.
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

// RoundTrip makes one request, which may follow a redirect.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if r.Response != nil && r.Header.Get("Referer") != "" {
		// net/http sets it on redirects, with the query of the previous URL.
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

// CloseIdleConnections closes idle connections.
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
	redirects, crossOrigin, credentials := 0, false, mayHaveCredentials(r)
	for at := r; at.Response != nil && at.Response.Request != nil; {
		before := at.Response.Request
		if before.URL.Scheme == "https" && at.URL.Scheme != "https" {
			return refuse("The server redirects from https to an address without it")
		}
		redirects++
		crossOrigin = crossOrigin || Origin(before.URL) != Origin(at.URL)
		credentials = credentials || mayHaveCredentials(before)
		at = before
	}
	switch {
	case crossOrigin && credentials:
		return refuse("The server redirects a call that may hold credentials to another server")
	case redirects > maxRedirects:
		return &failure{"the server redirects too often", nil}
	}
	return nil
}

// crossOriginHeaders are the headers that may be sent to another origin.
var crossOriginHeaders = []string{"Accept", "User-Agent", "Referer", "Mcp-Protocol-Version"}

// mayHaveCredentials reports whether a request has a body, or a header that is not in
// crossOriginHeaders: headers of any name can be credentials.
func mayHaveCredentials(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return true
	}
	for name := range r.Header {
		if !slices.Contains(crossOriginHeaders, name) {
			return true
		}
	}
	return false
}

// Origin returns the origin of a URL with its port.
func Origin(u *url.URL) string {
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
