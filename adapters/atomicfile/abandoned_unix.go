//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file as long as it is open. A file is abandoned if another process can lock it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// isOwn locks a temporary file that this process has made, and reports whether it may write to it: false
// if another process has found it before it was locked, and removes it. On file systems without
// locks it is true, and nobody removes files.
func isOwn(directory *os.Root, f *os.File, name string) bool {
	if err := lock(f); errors.Is(err, syscall.EWOULDBLOCK) {
		return false
	}
	made, err := f.Stat()
	if err != nil {
		return true // writing will fail as well
	}
	existing, err := directory.Lstat(name)
	return !errors.Is(err, os.ErrNotExist) && (err != nil || os.SameFile(made, existing))
}

// removeAbandoned removes a temporary file that no process has open.
func removeAbandoned(directory *os.Root, name string) {
	f, err := directory.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // gone, or another user's
	}
	if lock(f) == nil {
		_ = directory.Remove(name) // else the next one tries again
	}
	_ = f.Close() // nothing was written
}
