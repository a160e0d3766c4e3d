package localdisk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var renameFlags = [...]uint{replacing: 0, exclusive: unix.RENAME_NOREPLACE, exchanging: unix.RENAME_EXCHANGE}

var systemRename = unix.Renameat2

// changeTimeOf returns the time of the last change of an inode, in nanoseconds since 1970.
func changeTimeOf(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }

// syncFileSystem makes all that was written to the file system of a directory durable. It returns
// errors.ErrUnsupported if it is not one that is known to do so, and before Linux 5.8, which does
// not report what could not be written.
func syncFileSystem(at directory) error {
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(kernel.Release[:]), "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 8 {
		return errors.ErrUnsupported
	}
	f, err := at.root.Open(".")
	if err != nil {
		return err
	}
	defer discard(f)
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return err
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return unix.Syncfs(int(f.Fd()))
	}
	return errors.ErrUnsupported
}

// openBeneath opens a file for reading by its name below a directory, of the same file system and with no
// symbolic link on the way, or returns nil: kernels before Linux 5.6 and some sandboxes cannot.
func openBeneath(top *os.File, name string) *os.File {
	fd, err := unix.Openat2(int(top.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_CLOEXEC | nonBlocking, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), name)
}
