package localdisk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"collab/test/must"
)

// actAsUser has the goroutine of a test act on files as a user that permissions keep from them, and that owns
// the directory, until the test ends.
func actAsUser(t *testing.T, d *Disk) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const user = 12345
	must.NoError(t, filepath.WalkDir(d.path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, user, -1))
	}))
	runtime.LockOSThread()
	must.NoError(t, syscall.Setfsuid(user)) // of the thread
	t.Cleanup(func() {
		must.NoError(t, syscall.Setfsuid(0))
		runtime.UnlockOSThread()
	})
}

func TestAFileThatCannotLoseItsNameGetsNoOther(t *testing.T) {
	d, write, read := opened(t)
	must.NoError(t, d.top.root.Mkdir("d", 0o755))
	write("d/a", "a")
	must.NoError(t, d.top.root.Chmod("d", 0o555))
	actAsUser(t, d)
	must.FailIs(t, d.renamePath("d/a", "b", exclusive), fs.ErrPermission)
	if read("d/a") != "a" || read("b") != "" {
		t.Errorf("the files have %q and %q", read("d/a"), read("b"))
	}
}
