//go:build !linux

package gormdb

import "net"

// setUserTimeout does nothing: other systems give up by themselves sooner, or have no such setting.
func setUserTimeout(net.Conn) error { return nil }
