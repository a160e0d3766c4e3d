//go:build unix

package stream

import (
	"errors"
	"net"
	"syscall"
)

// closedByClient reports whether the client has closed its end, without waiting. It drops data
// that the client sends to a stream.
func closedByClient(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		var some [64]byte
		for range 64 {
			n, err := syscall.Read(int(fd), some[:])
			if n > 0 || errors.Is(err, syscall.EINTR) {
				continue
			}
			closed = err == nil || !errors.Is(err, syscall.EAGAIN)
			break
		}
		return true
	})
	return closed || err != nil
}
