package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

// Watch calls seen with each address that the guard allows. An error prevents the connection.
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

// Dial sets the dial function of the client.
func Dial(c *http.Client, dial func(context.Context, string, string) (net.Conn, error)) {
	c.Transport.(*guard).transport.DialContext = dial
}
