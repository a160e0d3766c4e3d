package outbound_test

import (
	"net/netip"
	"slices"
	"testing"

	"collab/adapters/outbound"
)

func TestParseNetworks(t *testing.T) {
	for text, want := range map[string][]netip.Prefix{
		"":                         nil,
		"  ":                       nil,
		"10.0.0.0/8,127.0.0.1":     prefixes("10.0.0.0/8", "127.0.0.1/32"),
		" 10.0.0.0/8 , fd00::/8\n": prefixes("10.0.0.0/8", "fd00::/8"),
		"::1":                      prefixes("::1/128"),
		"0.0.0.0/0,::/0":           prefixes("0.0.0.0/0", "::/0"),
	} {
		got, err := outbound.ParseNetworks(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for text, message := range map[string]string{
		"localhost":             `"localhost" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"10.0.0.0/8,":           `"" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"10.0.0.0/8 127.0.0.1":  `"10.0.0.0/8 127.0.0.1" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"10.0.0.0/33":           `"10.0.0.0/33" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"010.0.0.1":             `"010.0.0.1" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"fe80::1%eth0":          `"fe80::1%eth0" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"127.0.0.1:80":          `"127.0.0.1:80" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
		"10.1.2.3/8":            `"10.1.2.3/8" has bits beyond its length: the network is 10.0.0.0/8`,
		"fd00::1/8":             `"fd00::1/8" has bits beyond its length: the network is fd00::/8`,
		"::ffff:10.0.0.1":       `"::ffff:10.0.0.1" must be written as a network of IPv4`,
		"::ffff:10.0.0.0/104":   `"::ffff:10.0.0.0/104" must be written as a network of IPv4`,
		"10.0.0.0/8,::/0,wrong": `"wrong" is neither a network, such as 10.0.0.0/8, nor an address, such as 127.0.0.1`,
	} {
		if got, err := outbound.ParseNetworks(text); err == nil || err.Error() != message || got != nil {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}
