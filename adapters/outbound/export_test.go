package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// Watch has seen hear of each address that the client's guard lets it connect to.
// Where it returns an error, there is no connection.
func Watch(c *http.Client, seen func(netip.AddrPort) error) {
	d := c.Transport.(*guard).dialer
	check := d.Control
	d.Control = func(network, address string, raw syscall.RawConn) error {
		if err := check(network, address, raw); err != nil {
			return err
		}
		return seen(netip.MustParseAddrPort(address))
	}
}

// Dial replaces how the client connects.
func Dial(c *http.Client, dial func(context.Context, string, string) (net.Conn, error)) {
	c.Transport.(*guard).transport.DialContext = dial
}
