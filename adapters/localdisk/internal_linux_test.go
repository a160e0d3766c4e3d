package localdisk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"collab/adapters/system"
	"collab/domain/fault"
	"collab/domain/mirror"
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

// writeReadOnly makes the read-only file d/a in a read-only directory, and has the test act as a user (actAsUser).
func writeReadOnly(t *testing.T, d *Disk, write func(name, content string), content string) {
	t.Helper()
	must.NoError(t, d.top.root.Mkdir("d", 0o755))
	write("d/a", content)
	must.NoError(t, errors.Join(d.top.root.Chmod("d/a", 0o444), d.top.root.Chmod("d", 0o555)))
	actAsUser(t, d)
}

func TestAReadOnlyFileThatCouldNotBeReplacedIsReplacedLater(t *testing.T) {
	d, write, read := opened(t)
	writeReadOnly(t, d, write, "as it was")
	const content = "from the server"
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader(content))).Or(t)
	place := func() error {
		in := must.Do(d.top.open("d")).Or(t)
		defer in.root.Close()
		target := d.entryOf(in, mustStat(t, d, "d/a"))
		return d.Place(t.Context(), mirror.Placement{Name: "x", Path: "d/a", Target: &target})[0].Err
	}
	must.Fail(t, place(), fault.Forbidden)
	must.NoError(t, d.top.root.Chmod("d", 0o755))
	must.Do(d.Stage(t.Context(), "x", int64(len(content)), strings.NewReader(""))).Or(t)
	must.NoError(t, place())
	if mode := mustStat(t, d, "d/a").Mode(); mode != 0o444 || read("d/a") != content {
		t.Errorf("the file has the mode %v and %q", mode, read("d/a"))
	}
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

func TestAReadOnlyFileThatCannotBeOverwrittenStaysReadOnly(t *testing.T) {
	d, write, read := opened(t)
	writeReadOnly(t, d, write, "a")
	must.Do(d.Stage(t.Context(), "a", 0, strings.NewReader("from the server"))).Or(t)
	in := must.Do(d.top.open("d")).Or(t)
	defer in.root.Close()
	must.FailIs(t, d.overwrite(d.staging, in, mustStat(t, d, "d/a")), fs.ErrPermission)
	if mode := mustStat(t, d, "d/a").Mode(); mode != 0o444 || read("d/a") != "a" {
		t.Errorf("the file has the mode %v and %q", mode, read("d/a"))
	}
}

// TestDownloadsSideBySideLeaveRoomOnTheDisk has a disk that has room for each of them and not for both.
func TestDownloadsSideBySideLeaveRoomOnTheDisk(t *testing.T) {
	top := t.TempDir()
	err := unix.Mount("tmpfs", top, "tmpfs", 0, "size=12m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("the user may not mount")
	}
	must.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) })
	d := must.Do(Open(top, system.Clock{})).Or(t)
	t.Cleanup(func() { d.Close() })
	const size = 3 << 20
	for _, name := range []string{"x", "y"} {
		must.Is(t, int64(0), must.Do(d.Staged(t.Context(), name, size)).Or(t))
	}
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader(strings.Repeat("x", size)))).Or(t)
	must.Fail(t, must.ErrorOf(d.Stage(t.Context(), "y", 0, strings.NewReader(strings.Repeat("y", size)))), fault.Unavailable)
	must.Is(t, int64(0), must.Do(d.Staged(t.Context(), "y", 0)).Or(t))
}

func TestFileSystemsWithoutInodes(t *testing.T) {
	for kind, want := range map[int64]bool{unix.MSDOS_SUPER_MAGIC: true, unix.EXFAT_SUPER_MAGIC: true, unix.EXT4_SUPER_MAGIC: false, unix.TMPFS_MAGIC: false} {
		must.Is(t, want, isFAT(&unix.Statfs_t{Type: kind}))
	}
}

func TestRenamesThatFailKeepNoDirectoryOpen(t *testing.T) {
	d, write, _ := opened(t)
	write("a", "a")
	write("b", "b")
	e := d.entryOf(d.top, mustStat(t, d, "a"))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes directories that are forgotten
	open := func() int { return len(must.Do(os.ReadDir("/proc/self/fd")).Or(t)) }
	const renames = 50
	before := open()
	for range renames {
		must.Fail(t, d.Rename(t.Context(), mirror.Renaming{Entry: e, Path: "b"})[0].Err, fault.Conflict)
	}
	if more := open() - before; more >= renames {
		t.Errorf("%d files are open", more)
	}
}

// watching returns a watcher of a directory.
func watching(t *testing.T, d *Disk) *watcher {
	notify := must.Do(fsnotify.NewWatcher()).Or(t)
	t.Cleanup(func() { discard(notify) })
	w := &watcher{d: d, rules: must.Do(d.readRules()).Or(t), notify: notify, watched: map[string]bool{}}
	w.forget()
	w.watchTree(d.top)
	return w
}

func TestOfAnIgnoredFileOnlyTheNameIsNotified(t *testing.T) {
	d, write, _ := opened(t)
	write(mirror.IgnoreFile, "*.log\n")
	write("a", "")
	write("a.log", "")
	w := watching(t, d)
	for _, c := range []struct {
		name string
		op   fsnotify.Op
		want bool
	}{
		{"a", fsnotify.Write, true},
		{"a.log", fsnotify.Write, false},
		{"a.log", fsnotify.Chmod, false},
		{".DS_Store", fsnotify.Write | fsnotify.Chmod, false},
		{"a.log", fsnotify.Create, true},
		{"a.log", fsnotify.Create | fsnotify.Write, true},
		{"a.log", fsnotify.Rename, true},
		{"a.log", fsnotify.Remove, true},
	} {
		if got := w.event(fsnotify.Event{Name: filepath.Join(d.path, c.name), Op: c.op}); got != c.want || w.directories[""] != c.want {
			t.Errorf("%s %s: %v, %v", c.name, c.op, got, w.directories)
		}
		w.forget()
	}
}

// TestARemovalIsOfOneNameAndARenameOfAllBelow counts the names that are looked at for one event: a removal of many
// directories has an event for each of them.
func TestARemovalIsOfOneNameAndARenameOfAllBelow(t *testing.T) {
	for op, left := range map[fsnotify.Op]map[string]bool{
		fsnotify.Remove: {"": true, "d/x": true, "e": true},
		fsnotify.Rename: {"": true, "e": true},
	} {
		d, _, _ := opened(t)
		must.NoError(t, errors.Join(d.top.root.MkdirAll("d/x", 0o700), d.top.root.Mkdir("e", 0o700)))
		w := watching(t, d)
		if w.event(fsnotify.Event{Name: filepath.Join(d.path, "d"), Op: op}); !w.trees["d"] {
			t.Errorf("%s: %v", op, w.trees)
		}
		must.Equal(t, left, w.watched)
	}
}
