package syncfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Of returns the file system of a directory, which is to stay open. It returns nil if the file system is not one
// that is known to report what it could not write, and before Linux 5.17, which does not report all that fails.
func Of(directory *os.File) *FileSystem {
	var kernel unix.Utsname
	var major, minor int
	if err := unix.Uname(&kernel); err != nil {
		return nil
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(kernel.Release[:]), "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 17 {
		return nil
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(directory.Fd()), &s); err != nil {
		return nil
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return New(func() error { return unix.Syncfs(int(directory.Fd())) })
	}
	return nil
}
