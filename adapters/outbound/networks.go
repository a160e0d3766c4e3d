package outbound

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParseNetworks parses comma-separated networks and addresses, such as
// 10.0.0.0/8,127.0.0.1. It returns nil for an empty text.
func ParseNetworks(s string) ([]netip.Prefix, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var networks []netip.Prefix
	for entry := range strings.SplitSeq(s, ",") {
		n, err := parseNetwork(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		networks = append(networks, n)
	}
	return networks, nil
}

func parseNetwork(s string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(s)
	if a, bad := netip.ParseAddr(s); bad == nil && a.Zone() == "" {
		n, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1", s)
	case n.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q must be written as a network of IPv4", s)
	case n != n.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length: the network is %s", s, n.Masked())
	}
	return n, nil
}
