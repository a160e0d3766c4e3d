//go:build !unix

package datadir

import "os"

// SameDisk assumes one file system.
func SameDisk(os.FileInfo, os.FileInfo) bool { return true }
