package localdisk

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var renameFlags = [...]uint{replacing: 0, exclusive: unix.RENAME_NOREPLACE, exchanging: unix.RENAME_EXCHANGE}

var systemRename = unix.Renameat2

// changeTimeOf returns the time of the last change of an inode, in nanoseconds since 1970.
func changeTimeOf(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }

// isFAT reports whether a file system is FAT or exFAT.
func isFAT(s *unix.Statfs_t) bool {
	return s.Type == unix.MSDOS_SUPER_MAGIC || s.Type == unix.EXFAT_SUPER_MAGIC
}

// blockSize returns the unit of the numbers of blocks. Bsize is the size of transfers, and another one on some
// file systems of user space.
func blockSize(s *unix.Statfs_t) uint64 { return uint64(s.Frsize) }

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

// isMounted reports whether the directory info, which was found at a path, is the top of a mount. Kernels before
// Linux 5.8 do not tell.
func isMounted(path string, info fs.FileInfo) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, &s)
	facts, _ := factsOf(info)
	return err == nil && s.Ino == facts.Inode && s.Attributes&s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}
