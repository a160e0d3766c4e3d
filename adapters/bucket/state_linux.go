package bucket

import (
	"fmt"
	"io/fs"
	"syscall"
)

// stateOf describes a file. Every write to it changes the description.
func stateOf(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(s.Dev, s.Ino, s.Size, s.Mtim, s.Ctim)
}
