//go:build unix

package datadir

import (
	"os"
	"syscall"
)

// SameDisk reports whether two files are on one file system.
func SameDisk(a, b os.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return !ok || !ok2 || x.Dev == y.Dev
}
