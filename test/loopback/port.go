// Package loopback finds ports for servers that tests stop and start again at
// the same address.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// Bounds of the ports that are tried. The system gives those from the end on to
// outgoing connections, which would take a port while its server is away.
const (
	lowest = 10_000
	end    = 32_768
)

// Start starts a server on a free port. Another process may take the port before the server
// does: then start is called with another one.
func Start(start func(port int) error) (err error) {
	for range 3 {
		port, none := Port()
		if none != nil {
			return none
		}
		if err = start(port); err == nil {
			return nil
		}
	}
	return err
}

// Port returns a free port of 127.0.0.1 that no outgoing connection gets.
func Port() (int, error) {
	above := end
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var first int
		if _, err := fmt.Sscan(string(text), &first); err == nil && first > lowest {
			above = min(above, first)
		}
	}
	var failed error
	for range 100 {
		port := lowest + rand.IntN(above-lowest)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, errors.Join(errors.New("no free port was found"), failed)
}
