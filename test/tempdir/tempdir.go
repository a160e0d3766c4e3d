// Package tempdir makes directories for what tests write and nobody needs after them.
// They are in memory where the system has room for it, as databases that wait for
// a disk make tests several times slower. Tests that are about the disk use
// testing.T.TempDir.
package tempdir

import (
	"os"
	"syscall"
	"testing"
)

// memory is where Linux has a file system in memory, and room is how much must be
// free there, in bytes.
const (
	memory = "/dev/shm"
	room   = 4 << 30
)

// Parent returns the directory to make temporary directories in; empty: the system's usual
// one.
func Parent() string {
	var s syscall.Statfs_t
	if syscall.Statfs(memory, &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) >= room {
		return memory
	}
	return ""
}

// New returns a directory that is removed at the end of the test.
func New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(Parent(), "collab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
