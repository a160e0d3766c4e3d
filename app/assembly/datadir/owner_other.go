//go:build !unix

package datadir

import "os"

// SetOwner does nothing on this platform.
func SetOwner(string, os.FileInfo) error { return nil }

// SameDisk assumes one file system.
func SameDisk(os.FileInfo, os.FileInfo) bool { return true }
