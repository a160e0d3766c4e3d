package localdisk

import (
	"syscall"

	"golang.org/x/sys/unix"
)

var renameFlags = [...]uint{replacing: 0, exclusive: unix.RENAME_NOREPLACE, exchanging: unix.RENAME_EXCHANGE}

var systemRename = unix.Renameat2

// changeTimeOf returns the time of the last change of an inode, in nanoseconds since 1970.
func changeTimeOf(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }
