package localdisk

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"collab/domain/mirror"
)

var renameFlags = [...]uint32{replacing: 0, exclusive: unix.RENAME_EXCL, exchanging: unix.RENAME_SWAP}

var systemRename = unix.RenameatxNp

// factsOf returns the facts of a file and the number of its file system.
func factsOf(info fs.FileInfo) (f mirror.Facts, device uint64) {
	f = mirror.Facts{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Inode, f.ChangeTime, device = s.Ino, s.Ctimespec.Nano(), uint64(s.Dev)
	}
	return f, device
}
