//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package datadir

import "os"

// flock does nothing: on this platform the operator must ensure that no server is running.
func flock(*os.File, bool) error { return nil }

// SetOwner does nothing on this platform.
func SetOwner(string, os.FileInfo) error { return nil }

// SameDisk assumes one file system.
func SameDisk(os.FileInfo, os.FileInfo) bool { return true }
