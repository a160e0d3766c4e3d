package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForwarded is how many entries of X-Forwarded-For are read.
const maxForwarded = 32

// ClientAddress returns the network address of the client of a request, without its port: the
// remote address, unless it is one of the proxies. X-Forwarded-For is then read from its
// last entry to the first that is not a proxy's; earlier entries come from the client and
// are ignored.
func ClientAddress(r *http.Request, proxies []netip.Prefix) string {
	client, _ := parseForwarded(r.RemoteAddr) // no network has the zero Addr
	if !Contains(proxies, client) {
		return hostOf(r.RemoteAddr)
	}
	read := 0
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for rest, more := line, true; more; read++ {
			var entry string
			rest, entry, more = cutLast(rest)
			before, ok := parseForwarded(entry)
			if !ok || read == maxForwarded {
				return client.String()
			}
			client = before
			if !Contains(proxies, client) {
				return client.String()
			}
		}
	}
	return client.String()
}

// parseForwarded parses an address with an optional port; IPv6 may be in brackets.
// It removes the zone and unmaps an IPv4-mapped IPv6 address.
func parseForwarded(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	var a netip.Addr
	var err error
	switch bracket := strings.HasPrefix(s, "["); {
	case bracket && strings.HasSuffix(s, "]"):
		a, err = netip.ParseAddr(s[1 : len(s)-1])
	case bracket || strings.Count(s, ":") == 1:
		var addrPort netip.AddrPort
		addrPort, err = netip.ParseAddrPort(s)
		a = addrPort.Addr()
	default:
		a, err = netip.ParseAddr(s)
	}
	return a.Unmap().WithZone(""), err == nil
}

// cutLast removes the last entry of a list; more reports whether there is another one.
func cutLast(list string) (before, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	return list[:max(i, 0)], list[i+1:], i >= 0
}

// Contains reports whether one of the networks has the address.
func Contains(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// hostOf returns the host part of a remote address.
func hostOf(remote string) string {
	if i := strings.LastIndexByte(remote, ':'); i >= 0 {
		remote = remote[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(remote, "["), "]")
}

// Network returns the key of an address's limits: an IPv4 address itself, and the /64 of an
// IPv6 address, all of which one client can have.
func Network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	return networkOf(a).String()
}

// networkOf returns the network that one client can have: an IPv4 address itself, and the /64 of an IPv6 address,
// which must not be an IPv4-mapped one.
func networkOf(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(a, bits).Masked()
}
