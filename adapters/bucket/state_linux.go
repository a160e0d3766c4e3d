package bucket

import (
	"encoding/binary"
	"io/fs"
	"syscall"
)

// stateOf describes a file. Every write to it changes the description.
func stateOf(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	state := make([]byte, 0, 64)
	for _, n := range [...]int64{int64(s.Dev), int64(s.Ino), s.Size, int64(s.Mtim.Sec), int64(s.Mtim.Nsec), int64(s.Ctim.Sec), int64(s.Ctim.Nsec)} {
		state = binary.LittleEndian.AppendUint64(state, uint64(n))
	}
	return string(state)
}
