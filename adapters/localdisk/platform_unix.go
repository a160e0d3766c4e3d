//go:build unix

package localdisk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"collab/domain/mirror"
)

// nonBlocking opens a pipe that took the place of a file without waiting for its other end.
const nonBlocking = unix.O_NONBLOCK

// forSync opens a file to sync it.
const forSync = os.O_RDONLY | nonBlocking

func syncFile(f *os.File) error { return syncDirectory(f) }

// syncDirectory makes the names in a directory durable, on file systems that can.
func syncDirectory(f *os.File) error {
	if err := f.Sync(); !isUnsupported(err) {
		return err
	}
	return nil
}

func isFull(err error) bool     { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

// renameAt renames a file or directory in open directories. It returns errors.ErrUnsupported if
// the file system cannot do it in this way.
func renameAt(from directory, name string, to directory, newName string, mode renameMode) error {
	a, done, err := from.file()
	if err != nil {
		return err
	}
	defer done()
	b, done, err := to.file()
	if err != nil {
		return err
	}
	defer done()
	err = systemRename(int(a.Fd()), name, int(b.Fd()), newName, renameFlags[mode])
	if err != nil && isUnsupported(err) {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from.below(name), New: to.below(newName), Err: err}
	}
	return nil
}

// hold does nothing: no program prevents the removal of a file by opening it.
func hold(string) (release func(), err error) { return func() {}, nil }

// keepsInodes reports whether a directory has the same inode whenever its file system is mounted. FAT and exFAT
// store none.
func keepsInodes(directory *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(directory.Fd()), &s) != nil || !isFAT(&s)
}

// free returns how many bytes this user may still write, the most there are if that is not known.
func (d *Disk) free() uint64 {
	var s unix.Statfs_t
	if unix.Fstatfs(int(d.top.self.Fd()), &s) != nil || s.Blocks == 0 {
		return math.MaxUint64
	}
	return s.Bavail * blockSize(&s)
}

// setTimes sets the times of a file in an open directory.
func setTimes(in directory, name string, to time.Time) error {
	at := unix.NsecToTimespec(to.UnixNano())
	return unix.UtimesNanoAt(int(in.self.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// isForeign reports whether a file belongs to another user.
func isForeign(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) != os.Geteuid()
}

// hasLinks reports whether a file in a directory has other names too.
func hasLinks(_ directory, info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}

// factsOf returns the facts of a file and the number of its file system.
func factsOf(info fs.FileInfo) (f mirror.Facts, device uint64) {
	f = mirror.Facts{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Inode, f.ChangeTime, device = s.Ino, changeTimeOf(s), uint64(s.Dev)
	}
	return f, device
}
