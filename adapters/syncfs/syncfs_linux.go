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

// StartWriteback has the kernel write length bytes of a file from offset, 0: all from there, which a sync then waits
// for.
func StartWriteback(file *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(file.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE) // the sync tells what cannot be written
}

// waitForWriteback returns when the kernel has written length bytes of a file from offset. It does nothing where the
// system does not have the call.
func waitForWriteback(file *os.File, offset, length int64) error {
	err := unix.SyncFileRange(int(file.Fd()), offset, length, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	switch err {
	case nil, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM:
		return nil
	}
	return os.NewSyscallError("sync_file_range", err)
}
