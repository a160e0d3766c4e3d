package bucket

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// takesNameless reports whether the folder is on a file system of which it is
// known that a file whose content was on the disk before it had a name has both
// there once its folder is. Others need not write a file down that has no name.
func takesNameless(dir string) bool {
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

// createNameless opens a file that is in no folder, on the folder's disk.
func createNameless(folder string) (*os.File, error) {
	return os.OpenFile(folder, unix.O_TMPFILE|os.O_WRONLY, 0o600)
}

// nameFile gives it a name, in the way for processes without privileges.
func nameFile(file *os.File, path string) error {
	open := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, open, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "linkat", Old: open, New: path, Err: err}
	}
	return nil
}
