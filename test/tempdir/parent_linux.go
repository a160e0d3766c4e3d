package tempdir

import (
	"sync"
	"syscall"
)

// memory is where Linux has a file system in memory, and room is how much must be
// free there, in bytes.
const (
	memory = "/dev/shm"
	room   = 4 << 30
)

var removeAbandoned = sync.OnceFunc(func() { remove(memory) })

// parent returns where directories are made: in memory if it has room, or else where the system's
// are. What processes that were killed have left in memory is removed before: it would stay there
// until the machine starts again.
func parent() string {
	removeAbandoned()
	var s syscall.Statfs_t
	if syscall.Statfs(memory, &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) >= room {
		return memory
	}
	return ""
}
