package bucket

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// isOrdered reports whether the directory is on a file system with unnamed files where the sync
// of a file makes the links durable that were made to it before: ext4, with or without a journal,
// and XFS; a tmpfs keeps nothing. Other file systems may ignore the sync of a file without a
// name, or sync no links.
func isOrdered(dir string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false
	}
	switch int64(s.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// createUnnamed creates a file without a name on the file system of the directory.
func createUnnamed(folder string) (*os.File, error) {
	return os.OpenFile(folder, unix.O_TMPFILE|os.O_WRONLY, 0o600)
}

// linkUnnamed links the file to path. It uses /proc, which needs no privileges.
func linkUnnamed(file *os.File, path string) error {
	open := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, open, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "linkat", Old: open, New: path, Err: err}
	}
	return nil
}
