//go:build !unix

package stream

import "net"

// closedByClient returns false: on this platform a closed connection is noticed by a failed write.
func closedByClient(net.Conn) bool { return false }
