package localdisk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"golang.org/x/sys/windows"

	"collab/domain/mirror"
)

const nonBlocking = 0

// forSync opens a file to sync it, for which the system asks for the right to write.
const forSync = os.O_RDWR

func syncFile(f *os.File) error { return f.Sync() }

// syncDirectory does nothing: the file system's journal has the names.
func syncDirectory(*os.File) error { return nil }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// renameAt is not supported.
func renameAt(directory, string, directory, string, renameMode) error { return errors.ErrUnsupported }

// hold keeps other programs from opening a file or directory in a way that prevents its removal, until release is
// called. It fails if one has.
func hold(path string) (release func(), err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, windows.DELETE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return func() { _ = windows.CloseHandle(h) }, nil
}

// keepsInodes is not asked, as there are no inodes.
func keepsInodes(*os.File) bool { return true }

// free returns how many bytes this user may still write, the most there are if that is not known.
func (d *Disk) free() (bytes uint64) {
	name, err := windows.UTF16PtrFromString(d.path)
	if err != nil || windows.GetDiskFreeSpaceEx(name, &bytes, nil, nil) != nil {
		return math.MaxUint64
	}
	return bytes
}

// setTimes sets the times of a file in a directory.
func setTimes(in directory, name string, to time.Time) error { return in.root.Chtimes(name, to, to) }

// isForeign is not known.
func isForeign(fs.FileInfo) bool { return false }

// hasLinks reports whether a file in a directory has other names too.
func hasLinks(in directory, info fs.FileInfo) bool {
	f, err := in.root.Open(info.Name())
	if err != nil {
		return false
	}
	defer discard(f)
	var facts windows.ByHandleFileInformation
	err = windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &facts)
	return err == nil && facts.NumberOfLinks > 1
}

// factsOf returns size and time. Others would need every file to be opened.
func factsOf(info fs.FileInfo) (f mirror.Facts, device uint64) {
	return mirror.Facts{Size: info.Size(), ModTime: info.ModTime().UnixNano()}, 0
}
