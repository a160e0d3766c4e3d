package localdisk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"collab/adapters/syncfs"
	"collab/adapters/system"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/ports"
	"collab/test/must"
)

func opened(t *testing.T) (d *Disk, write func(name, content string), read func(name string) string) {
	top := t.TempDir()
	d = must.Do(Open(top, system.Clock{})).Or(t)
	t.Cleanup(func() { d.Close() })
	write = func(name, content string) {
		t.Helper()
		must.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(content), 0o666))
	}
	read = func(name string) string {
		content, _ := d.top.root.ReadFile(name)
		return string(content)
	}
	return d, write, read
}

func TestAFileThatIsChangedWhileItIsReadIsNotReadToItsEnd(t *testing.T) {
	d, write, _ := opened(t)
	write("a", "")
	must.NoError(t, os.Truncate(filepath.Join(d.path, "a"), 10*maxUnchecked))
	content := must.Do(d.Open(t.Context(), d.entryOf(d.top, mustStat(t, d, "a")))).Or(t)
	defer content.Close()
	must.Do(io.CopyN(io.Discard, content, 1)).Or(t)
	must.NoError(t, os.Truncate(filepath.Join(d.path, "a"), 9*maxUnchecked))
	n, err := io.Copy(io.Discard, content)
	must.Fail(t, err, fault.Conflict)
	if n > maxUnchecked+bufferSize {
		t.Errorf("%d bytes were read", n)
	}
}

func TestAChangeJustBeforeAReplacementIsNotLost(t *testing.T) {
	d, write, read := opened(t)
	write("a", "as it was")
	info := must.Do(d.top.root.Lstat("a")).Or(t)
	target := d.entryOf(d.top, info)
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader("from the server"))).Or(t)
	at, info, err := d.lookUp(target, d.top.open)
	must.NoError(t, err)
	defer at.root.Close()
	write("a", "by the user meanwhile")
	must.FailIs(t, d.replaceFile("x", at, info, target), errChanged)
	must.Is(t, "by the user meanwhile", read("a"))
	must.Is(t, int64(len("from the server")), must.Do(d.Staged(t.Context(), "x", 0)).Or(t))
	// The content that was replaced is not needed any more.
	target = d.entryOf(d.top, mustStat(t, d, "a"))
	must.NoError(t, d.Place(t.Context(), mirror.Placement{Name: "x", Path: "a", Target: &target})[0].Err)
	must.Is(t, "from the server", read("a"))
	must.NoError(t, fs.WalkDir(os.DirFS(d.path), mirror.StateDirectory+"/trash", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("%s is in the trash", name)
		}
		return err
	}))
}

func TestAChangeJustBeforeARenameOrAnOverwriteIsNotLost(t *testing.T) {
	d, write, read := opened(t)
	write("a", "as it was")
	info := mustStat(t, d, "a")
	e := d.entryOf(d.top, info)
	write("a", "by the user meanwhile")
	err := must.ErrorOf(d.renameFound(d.top, info, mirror.Renaming{Entry: e, Path: "b"}, d.newChanges(1)))
	must.Fail(t, err, fault.Conflict)
	must.Do(d.Stage(t.Context(), "a", 0, strings.NewReader("from the server"))).Or(t)
	must.FailIs(t, d.overwrite(d.staging, d.top, info), errChanged)
	if read("a") != "by the user meanwhile" || read("b") != "" {
		t.Errorf("the files have %q and %q", read("a"), read("b"))
	}
	if err := d.overwrite(d.staging, d.top, mustStat(t, d, "a")); err != nil || read("a") != "from the server" {
		t.Errorf("the file has %q, %v", read("a"), err)
	}
}

func TestPatternsCanBeReadWhileTheyAreSaved(t *testing.T) {
	d, _, _ := opened(t)
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for range 200 {
			err := d.top.root.WriteFile("new", []byte("*.tmp\n"), 0o666)
			if err = errors.Join(err, d.top.root.Rename("new", mirror.IgnoreFile)); err != nil {
				done <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-done:
			must.NoError(t, err)
			return
		default:
			if _, err := d.Rules(t.Context()); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Error(err)
				<-done
				return
			}
		}
	}
}

func mustStat(t *testing.T, d *Disk, name string) fs.FileInfo {
	t.Helper()
	return must.Do(d.top.root.Lstat(name)).Or(t)
}

func TestARenamedDirectoryAndTheOnesItLeftAndCameToAreSynced(t *testing.T) {
	d, write, _ := opened(t)
	must.NoError(t, errors.Join(d.top.root.MkdirAll("from/d", 0o700), d.top.root.Mkdir("to", 0o700)))
	write("from/d/x", "x")
	write("from/d/y", "y")
	must.NoError(t, d.top.root.Rename("from/d", "to/d"))
	old := mirror.Facts{ChangeTime: d.clock.Now().Add(-time.Hour).UnixNano()}
	var files []mirror.Entry
	for _, name := range []string{"to/d/x", "from/d/x", "to/d/y", "from/d/y"} {
		files = append(files, mirror.Entry{Path: name, Name: name, Facts: old})
	}
	list := func() (all []string) {
		for _, c := range d.recentChanges(files) {
			all = append(all, fmt.Sprint(c.name, c.of))
		}
		slices.Sort(all)
		return all
	}
	must.Equal(t, []string{"[0 1 2 3]", "from[1 3]", "to/d[0 2]", "to[0 2]"}, list())
	files[0].Facts.ChangeTime = d.clock.Now().UnixNano()
	if got := list(); !slices.Contains(got, "to/d/x[0]") || len(got) != 5 {
		t.Errorf("with a file that was written: %q", got)
	}
	d.clock = later{d.clock}
	if got := list(); len(got) > 0 {
		t.Errorf("after a time in which the system makes everything durable: %q", got)
	}
}

// later is a clock that is ahead of another.
type later struct{ ports.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(2 * writeback) }

func TestAFileThatCannotBeSyncedIsOneError(t *testing.T) {
	d, write, _ := opened(t)
	write("a", "a")
	now := mirror.Facts{ChangeTime: d.clock.Now().UnixNano()}
	none := strings.Repeat("x", 1000) // a name that no file system has
	errs := d.Sync(t.Context(), mirror.Entry{Path: none, Name: none, Facts: now}, mirror.Entry{Path: "a", Name: "a", Facts: now})
	if !fault.Is(errs[0], fault.Unavailable) || errs[1] != nil {
		t.Errorf("%v", errs)
	}
}

func TestContentsThatCouldNotBeSyncedAreNotStagedAnyMore(t *testing.T) {
	d, _, read := opened(t)
	failure := errors.New("no")
	d.fileSystem = syncfs.New(func() error { return failure })
	var contents []mirror.Placement
	for i := range syncfs.MinFiles {
		name := fmt.Sprint(i)
		must.Do(d.Stage(t.Context(), name, 0, strings.NewReader(name))).Or(t)
		contents = append(contents, mirror.Placement{Name: name, Path: name})
	}
	for i, placed := range d.Place(t.Context(), contents...) {
		name := contents[i].Name
		if staged, err := d.Staged(t.Context(), name, 0); !fault.Is(placed.Err, fault.Unavailable) || staged > 0 || err != nil || read(name) != "" {
			t.Errorf("%s: %v, %d bytes are staged, %v, and the file has %q", name, placed.Err, staged, err, read(name))
		}
	}
}

func TestADownloadThatFillsTheDiskIsNotStaged(t *testing.T) {
	d, _, _ := opened(t)
	must.Fail(t, must.ErrorOf(d.Staged(t.Context(), "x", math.MaxInt64)), fault.Unavailable)
	full := io.MultiReader(strings.NewReader("a"), iotest.ErrReader(syscall.ENOSPC))
	must.Fail(t, must.ErrorOf(d.Stage(t.Context(), "x", 0, full)), fault.Unavailable)
	must.Is(t, int64(0), must.Do(d.Staged(t.Context(), "x", 1)).Or(t))
}

func TestAFileInThePlaceOfTheTrashIsAnError(t *testing.T) {
	d, write, read := opened(t)
	write("a", "a")
	write(mirror.StateDirectory+"/"+trashName, "")
	must.Fail(t, d.Trash(t.Context(), d.entryOf(d.top, mustStat(t, d, "a")))[0], fault.Conflict)
	must.Is(t, "a", read("a"))
}

func TestFileSystemsWithoutExclusiveRenames(t *testing.T) {
	d, write, read := opened(t)
	write("a", "a")
	write("b", "b")
	if err := d.renamePath("a", "b", exclusive); !errors.Is(err, fs.ErrExist) || read("a")+read("b") != "ab" {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := d.renamePath("a", "c", exclusive); err != nil || read("a")+read("c") != "a" {
		t.Errorf("a free name: %v", err)
	}
	if err := d.renamePath("c", "b", replacing); err != nil || read("c")+read("b") != "a" {
		t.Errorf("a replacement: %v", err)
	}
	for _, name := range []string{"d", "e"} {
		must.NoError(t, d.top.root.Mkdir(name, 0o700))
	}
	must.FailIs(t, d.renamePath("d", "e", exclusive), fs.ErrExist) // a directory to a name that is taken
	must.NoError(t, d.renamePath("d", "f", exclusive))             // a directory
}

func TestAFileThatIsStillStagedAfterAnInterruptionIsNotChanged(t *testing.T) {
	d, _, read := opened(t)
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader("placed"))).Or(t)
	must.NoError(t, d.top.root.Link(d.staging.below("x"), "a")) // as far as renamePath came
	if n, err := d.Staged(t.Context(), "x", 0); n != 0 || err != nil {
		t.Errorf("%d bytes are staged, %v", n, err)
	}
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader("staged"))).Or(t)
	must.Is(t, "placed", read("a"))
}

func TestErrorsOfTheSystemHaveKinds(t *testing.T) {
	for err, want := range map[error]fault.Kind{
		syscall.ENOENT: fault.NotFound, syscall.EEXIST: fault.Conflict, syscall.ENOTDIR: fault.Conflict, syscall.EACCES: fault.Forbidden,
		syscall.EROFS: fault.Forbidden, syscall.ENOSPC: fault.Unavailable, syscall.EIO: fault.Unavailable,
	} {
		got := failed(&fs.PathError{Op: "open", Path: "x", Err: err}, "The file x cannot be opened")
		if fault.KindOf(got) != want || !errors.Is(got, err) {
			t.Errorf("%v is %v, of kind %d", err, got, fault.KindOf(got))
		}
		if full := strings.Contains(got.Error(), "the disk is full"); full != (err == syscall.ENOSPC) {
			t.Errorf("%v is %v", err, got)
		}
	}
}
