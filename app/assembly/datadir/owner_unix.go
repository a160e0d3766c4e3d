//go:build unix

package datadir

import (
	"os"
	"syscall"
)

// SetOwner gives a file the owner of like, if the process runs as root.
func SetOwner(path string, like os.FileInfo) error {
	s, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(s.Uid), int(s.Gid))
}

// SameDisk reports whether two files are on one file system.
func SameDisk(a, b os.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return !ok || !also || x.Dev == y.Dev
}
