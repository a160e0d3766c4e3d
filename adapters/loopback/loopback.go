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

// CheckListen returns an error if listen, a host and a port, is not a loopback address.
func CheckListen(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", listen, err)
	}
	if !IsHost(host) {
		return fmt.Errorf("listen address %q: must be a loopback address", listen)
	}
	return nil
}

// ParseBase returns the base URL without its trailing slash. It fails if that is more
// than a scheme, a loopback host or a name below localhost, and a port.
func ParseBase(base string) (string, error) {
	trimmed := strings.TrimSuffix(base, "/")
	u, err := url.Parse(trimmed)
	switch {
	case err != nil:
		return "", fmt.Errorf("public URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("public URL %q: must be a scheme, a host and a port", base)
	case !isBrowserHost(u.Hostname()):
		return "", fmt.Errorf("public URL %q: must have a loopback host", base)
	}
	return trimmed, nil
}

// CheckServer returns the base URL of a development server, as ParseBase does. It fails for what,
// which runs beside it, outside development mode or if the server can be reached from elsewhere.
func CheckServer(what string, development bool, listen, base string) (string, error) {
	if !development {
		return "", fmt.Errorf("the %s runs in development mode only", what)
	}
	err := CheckListen(listen)
	if err == nil {
		base, err = ParseBase(base)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return base, nil
}
