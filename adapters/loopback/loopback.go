// Package loopback tells addresses of this machine from those of others. It is a leaf:
// it imports the standard library alone.
package loopback

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// IsHost reports whether host, without port and brackets, is localhost or an address of
// the loopback networks. Names below localhost do not count: resolvers may map them to any
// address.
func IsHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// isBrowserHost is IsHost for a host that browsers resolve. They map names below localhost
// to this machine themselves (RFC 6761).
func isBrowserHost(host string) bool {
	return IsHost(host) || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// IsRequest reports whether a request names a loopback host, or a name below localhost.
// One that does not may come from a page of another site whose name resolves to this
// machine.
func IsRequest(r *http.Request) bool {
	return isBrowserHost((&url.URL{Host: r.Host}).Hostname())
}

// CheckServer returns the base URL of a development server, which its errors call what, without its trailing
// slash. It fails outside development mode, if listen, a host and a port, is not a loopback address, or if the
// base URL is more than a scheme, a loopback host or a name below localhost, and a port.
func CheckServer(what string, development bool, listen, base string) (string, error) {
	if !development {
		return "", fmt.Errorf("the %s runs in development mode only", what)
	}
	host, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: listen address %q: %w", what, listen, err)
	case !IsHost(host):
		return "", fmt.Errorf("%s: listen address %q: must be a loopback address", what, listen)
	}
	trimmed := strings.TrimSuffix(base, "/")
	u, err := url.Parse(trimmed)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: public URL: %w", what, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%s: public URL %q: must be a scheme, a host and a port", what, base)
	case !isBrowserHost(u.Hostname()):
		return "", fmt.Errorf("%s: public URL %q: must have a loopback host", what, base)
	}
	return trimmed, nil
}
