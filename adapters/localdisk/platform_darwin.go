package localdisk

import (
	"syscall"

	"golang.org/x/sys/unix"
)

var renameFlags = [...]uint32{replacing: 0, exclusive: unix.RENAME_EXCL, exchanging: unix.RENAME_SWAP}

var systemRename = unix.RenameatxNp

// changeTimeOf returns the time of the last change of an inode, in nanoseconds since 1970.
func changeTimeOf(s *syscall.Stat_t) int64 { return s.Ctimespec.Nano() }

// isFAT reports whether a file system is FAT or exFAT.
func isFAT(s *unix.Statfs_t) bool {
	name := unix.ByteSliceToString(s.Fstypename[:])
	return name == "msdos" || name == "exfat"
}

// blockSize returns the unit of the numbers of blocks.
func blockSize(s *unix.Statfs_t) uint64 { return uint64(s.Bsize) }
