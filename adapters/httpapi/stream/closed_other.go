//go:build !unix

package stream

import "net"

// departed returns false: on this platform a closed connection is noticed by a failed write.
func departed(net.Conn) bool { return false }
