package localdisk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/adapters/localdisk"
	"collab/adapters/system"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/test/contract"
	"collab/test/must"
	"collab/test/soak"
)

// opened opens a directory until the test ends, after it and the clock were made ready.
func opened(t *testing.T, path string) *localdisk.Disk {
	t.Helper()
	d := must.Do(localdisk.Open(path, system.Clock{})).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, d.Close())
	})
	return d
}

// write makes or overwrites a file, with its directories.
func write(t *testing.T, path, content string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must.NoError(t, os.WriteFile(path, []byte(content), 0o666))
}

// openForSuite opens an empty directory and acts in it as other programs do.
func openForSuite(t *testing.T) contract.OpenedDisk {
	top := filepath.Join(t.TempDir(), "top")
	must.NoError(t, os.Mkdir(top, 0o777))
	d := opened(t, top)
	at := func(path string) string { return filepath.Join(top, path) }
	return contract.OpenedDisk{
		Disk: d, Writer: d,
		Write: func(path, content string) { t.Helper(); write(t, at(path), content) },
		Read: func(path string) (string, bool) {
			content, err := os.ReadFile(at(path))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			return string(content), err == nil
		},
		Remove:  func(path string) { t.Helper(); must.NoError(t, os.RemoveAll(at(path))) },
		Mkdir:   func(path string) { t.Helper(); must.NoError(t, os.MkdirAll(at(path), 0o777)) },
		Symlink: func(path, target string) { t.Helper(); must.NoError(t, os.Symlink(target, at(path))) },
		Special: func(path string) {
			t.Helper()
			l := must.Do(net.Listen("unix", at(path))).Or(t)
			t.Cleanup(func() { l.Close() })
		},
	}
}

func TestDisk(t *testing.T)       { contract.Disk(t, openForSuite) }
func TestDiskWriter(t *testing.T) { contract.DiskWriter(t, openForSuite) }

func TestADirectoryIsOpenInOneProcess(t *testing.T) {
	top := t.TempDir()
	must.Fail(t, must.ErrorOf(localdisk.Open(filepath.Join(top, "none"), system.Clock{})), fault.NotFound) // a directory that does not exist
	d := must.Do(localdisk.Open(top, system.Clock{})).Or(t)
	must.Fail(t, must.ErrorOf(localdisk.Open(top, system.Clock{})), fault.Conflict) // opened twice
	before := must.Do(d.Identity(t.Context())).Or(t)
	must.NoError(t, d.Close())
	after := must.Do(opened(t, top).Identity(t.Context())).Or(t)
	must.Is(t, before, after)
	info := must.Do(os.Stat(filepath.Join(top, mirror.StateDirectory))).Or(t)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory has the mode %v", info.Mode())
	}
}

func TestTheStateDirectoryIsNoSymbolicLink(t *testing.T) {
	top := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(top, "d"), 0o700))
	must.NoError(t, os.Symlink("d", filepath.Join(top, mirror.StateDirectory)))
	must.Fail(t, must.ErrorOf(localdisk.Open(top, system.Clock{})), fault.Conflict)
}

// A path can lead to the state directory by a name that no list has, as the short one of Windows.
func TestNothingIsPlacedInTheStateDirectory(t *testing.T) {
	top := t.TempDir()
	d := opened(t, top)
	for _, path := range []string{mirror.StateDirectory + "/paused.json", mirror.StateDirectory + "/trash/a", mirror.StateDirectory} {
		must.Do(d.Stage(t.Context(), "staged", 0, strings.NewReader("content"))).Or(t)
		if err := d.Place(t.Context(), mirror.Placement{Name: "staged", Path: path})[0].Err; err == nil {
			t.Errorf("%s was placed", path)
		}
		must.NoError(t, os.WriteFile(filepath.Join(top, "file"), []byte("content"), 0o600))
		if err := d.Rename(t.Context(), mirror.Renaming{Entry: found(t, d)["file"], Path: path})[0].Err; err == nil {
			t.Errorf("a file was renamed to %s", path)
		}
	}
	for _, name := range []string{"tmp", "id", "lock"} {
		must.Do(os.Lstat(filepath.Join(top, mirror.StateDirectory, name))).Or(t)
	}
	for _, name := range []string{"paused.json", "trash"} {
		if _, err := os.Lstat(filepath.Join(top, mirror.StateDirectory, name)); err == nil {
			t.Errorf("the state directory has %s", name)
		}
	}
}

func TestTheStateDirectoryIsItsOwnersAlone(t *testing.T) {
	top := t.TempDir()
	state := filepath.Join(top, mirror.StateDirectory)
	must.NoError(t, os.Mkdir(state, 0o777))
	d := must.Do(localdisk.Open(top, system.Clock{})).Or(t)
	must.NoError(t, d.Close())
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if os.Chown(state, 12345, -1) != nil {
		t.Skip("only root can give files away")
	}
	must.Fail(t, must.ErrorOf(localdisk.Open(top, system.Clock{})), fault.Forbidden) // opened with the state of another user
}

func TestACopyOfADirectoryAndOneInItsPlaceAreOthers(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must.NoError(t, os.Mkdir(top, 0o777))
	d := opened(t, top)
	original := must.Do(d.Identity(t.Context())).Or(t)
	must.NoError(t, os.CopyFS(top+"-copy", os.DirFS(top)))
	copied := must.Do(opened(t, top+"-copy").Identity(t.Context())).Or(t)
	if copied == original {
		t.Errorf("both are %q", copied)
	}
	must.NoError(t, os.Rename(top, top+"-moved"))
	must.NoError(t, os.Mkdir(top, 0o777))
	must.Fail(t, must.ErrorOf(d.Identity(t.Context())), fault.NotFound) // another directory has taken the place
	must.NoError(t, os.Remove(top))
	must.NoError(t, os.Rename(top+"-moved", top))
	must.NoError(t, os.RemoveAll(filepath.Join(top, mirror.StateDirectory)))
	must.Fail(t, must.ErrorOf(d.Identity(t.Context())), fault.NotFound) // the state directory is gone
}

func TestFilesThatAreNotRegularAreFoundAndNotRead(t *testing.T) {
	top := t.TempDir()
	d := opened(t, top)
	l := must.Do(net.Listen("unix", filepath.Join(top, "socket"))).Or(t)
	defer l.Close()
	write(t, filepath.Join(top, "\xff"), "not UTF-8")
	if got := found(t, d); len(got) != 2 || got["socket"].Kind != mirror.Special || got["\xff"].Kind != mirror.File {
		t.Errorf("found %+v", got)
	}
}

func TestTheStateOfADirectoryBelowIsIgnored(t *testing.T) {
	top := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(top, "below"), 0o777))
	d, inner := opened(t, top), filepath.Join(top, "below")
	opened(t, inner)
	write(t, filepath.Join(inner, "a"), "synchronised")
	for name, e := range found(t, d) {
		if strings.Contains(name, mirror.StateDirectory+"/") || name == "below/"+mirror.StateDirectory && e.Kind != mirror.IgnoredDirectory {
			t.Errorf("%s is %v", name, e.Kind)
		}
	}
}

func TestPatternsAreReadAsGitReadsThem(t *testing.T) {
	top := t.TempDir()
	d := opened(t, top)
	comment := "#" + strings.Repeat("x", 1<<16-2) // the longest line that the matcher reads
	for about, content := range map[string]string{
		"with a byte order mark":   "\ufeffprivate.txt\n",
		"in decomposed form":       "e\u0301/private.txt\nprivate.txt\n",
		"after a long line":        comment + "\nprivate.txt",
		"after a long line of DOS": comment[1:] + "\r\nprivate.txt\r\n",
		"before a long line":       "private.txt\n" + comment,
		"after one that is longer": comment + "x\nprivate.txt\n",
		"before one":               "private.txt\n" + comment + "x",
		"after a very long line":   comment + comment + comment + "\nprivate.txt\n",
	} {
		write(t, filepath.Join(top, mirror.IgnoreFile), content)
		if !must.Do(d.Rules(t.Context())).Or(t).Ignored("private.txt") {
			t.Errorf("%s a pattern is not followed", about)
		}
	}
	write(t, filepath.Join(top, mirror.IgnoreFile), strings.Repeat("x\n", 1<<19)+"x")
	must.Fail(t, must.ErrorOf(d.Rules(t.Context())), fault.TooLarge)
}

// unknown is what a scan is given that knows nothing.
func unknown(string) (mirror.Facts, string, bool) { return mirror.Facts{}, "", false }

// found returns what the directory has by name.
func found(t *testing.T, d *localdisk.Disk) map[string]mirror.Entry {
	t.Helper()
	all := map[string]mirror.Entry{}
	must.Do(d.Rules(t.Context())).Or(t)
	must.NoError(t, d.Scan(t.Context(), mirror.Everything(), unknown, func(e mirror.Entry) error {
		all[e.Name] = e
		return nil
	}))
	return all
}

func TestAFileThatIsReplacedKeepsItsPermissions(t *testing.T) {
	top := t.TempDir()
	d, path := opened(t, top), filepath.Join(top, "run.sh")
	write(t, path, "old")
	must.NoError(t, os.Chmod(path, 0o750))
	must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader("new"))).Or(t)
	target := found(t, d)["run.sh"]
	must.NoError(t, d.Place(t.Context(), mirror.Placement{Name: "x", Path: "run.sh", Target: &target})[0].Err)
	info := must.Do(os.Stat(path)).Or(t)
	if info.Mode() != 0o750 || info.Size() != 3 {
		t.Errorf("%d bytes with the mode %v", info.Size(), info.Mode())
	}
}

func TestNoChangeOfAUserIsOverwrittenOrRemoved(t *testing.T) {
	t.Parallel()
	top, outside := t.TempDir(), t.TempDir()
	d, path := opened(t, top), filepath.Join(top, "a")
	saves := map[string]func(content string) error{
		"in place": func(content string) error { return os.WriteFile(path, []byte(content), 0o666) },
		"by a rename": func(content string) error {
			temporary := filepath.Join(outside, "a")
			return errors.Join(os.WriteFile(temporary, []byte(content), 0o666), os.Rename(temporary, path))
		},
	}
	changes := map[string]func(e mirror.Entry) error{
		"replaced": func(e mirror.Entry) error {
			return d.Place(t.Context(), mirror.Placement{Name: "x", Path: "a", Target: &e})[0].Err
		},
		"removed": func(e mirror.Entry) error { return d.Trash(t.Context(), e)[0] },
		"renamed": func(e mirror.Entry) error {
			return d.Rename(t.Context(), mirror.Renaming{Entry: e, Path: "b"})[0].Err
		},
	}
	for round := range soak.Count(50) {
		for how, save := range saves {
			for what, change := range changes {
				write(t, path, "before")
				e := found(t, d)["a"]
				must.Do(d.Stage(t.Context(), "x", 0, strings.NewReader("from the server"))).Or(t)
				mine := fmt.Sprintf("round %d, saved %s", round, how)
				saved := make(chan error)
				go func() { saved <- save(mine) }()
				if err := change(e); err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
					t.Fatal(err)
				}
				must.NoError(t, <-saved)
				content, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) && what == "renamed" {
					content, err = os.ReadFile(filepath.Join(top, "b")) // it was saved, then renamed
				}
				if err != nil || string(content) != mine {
					t.Fatalf("round %d: saved %s while it was %s, the file has %q, %v", round, how, what, content, err)
				}
				must.NoError(t, errors.Join(os.RemoveAll(path), os.RemoveAll(filepath.Join(top, "b"))))
			}
		}
	}
}

// day is a clock that stands still.
type day time.Time

func (d *day) Now() time.Time { return time.Time(*d) }

// trashed is a disk with a clock, whose files go to the trash.
type trashed struct {
	*testing.T
	*localdisk.Disk
	top string
	now day
}

func newTrashed(t *testing.T, now time.Time) *trashed {
	d := &trashed{T: t, top: t.TempDir(), now: day(now)}
	d.Disk = must.Do(localdisk.Open(d.top, &d.now)).Or(t)
	t.Cleanup(func() { must.NoError(t, d.Close()) })
	return d
}

func (d *trashed) trash(content string) {
	d.Helper()
	write(d.T, filepath.Join(d.top, "a/b"), content)
	must.NoError(d, d.Trash(d.Context(), found(d.T, d.Disk)["a/b"])[0])
}

// cleaned empties the trash of what is older than 30 days at a time, and returns the contents that are left.
func (d *trashed) cleaned(now time.Time) (all []string) {
	d.Helper()
	d.now = day(now)
	must.NoError(d, d.Clean(d.Context(), time.Time{}, now.AddDate(0, 0, -30)))
	in := os.DirFS(filepath.Join(d.top, mirror.StateDirectory, "trash"))
	must.NoError(d, fs.WalkDir(in, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, string(must.Do(fs.ReadFile(in, name)).Or(d)))
		}
		return err
	}))
	slices.Sort(all)
	return all
}

func TestTheTrashIsKeptForDays(t *testing.T) {
	d := newTrashed(t, time.Date(2030, 1, 1, 23, 0, 0, 0, time.UTC))
	d.trash("1")
	d.trash("2")
	d.trash("3")
	d.now = day(time.Date(2030, 1, 22, 1, 0, 0, 0, time.UTC))
	d.trash("4")
	all, first := []string{"1", "2", "3", "4"}, time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		days float64 // after the end of the first day
		want []string
	}{
		{22.9, all}, {23.1, all}, {29.9, all}, {30.1, []string{"4"}},
		{60, []string{"4"}}, {66, []string{"4"}}, {67.1, nil}, // nobody looked when it became old
	} {
		must.Equal(t, c.want, d.cleaned(first.Add(time.Duration(c.days*24*float64(time.Hour)))))
	}
}

func TestTheTrashIsKeptWhileTheClockIsWrong(t *testing.T) {
	right := time.Date(2030, 1, 30, 12, 0, 0, 0, time.UTC)
	d := newTrashed(t, right)
	d.trash("1")
	d.now = day(time.Unix(0, 0))
	d.trash("2") // no cleaning before the clock is right again
	for _, now := range []time.Time{
		right, right.AddDate(10, 0, 0), right, time.Unix(0, 0), right.AddDate(0, 0, 1),
		right.AddDate(0, 0, 33), right.AddDate(0, 0, 39), right.AddDate(0, 0, 2), right.AddDate(0, 0, 41), // never for a week
		right.AddDate(0, 0, 25),
	} {
		must.Equal(t, []string{"1", "2"}, d.cleaned(now))
	}
	must.Equal(t, nil, d.cleaned(right.AddDate(0, 0, 32)))
}
