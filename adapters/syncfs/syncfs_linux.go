// Package syncfs makes all of a file system durable by one call.
package syncfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sync makes all that was written to the file system of an open directory durable. It fails if something could
// not be written since the directory was opened, or since the last call for it. It returns errors.ErrUnsupported
// if the file system is not one that is known to do so, and before Linux 5.17, which does not report all that fails.
func Sync(directory *os.File) error {
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(kernel.Release[:]), "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 17 {
		return errors.ErrUnsupported
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(directory.Fd()), &s); err != nil {
		return err
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return unix.Syncfs(int(directory.Fd()))
	}
	return errors.ErrUnsupported
}
