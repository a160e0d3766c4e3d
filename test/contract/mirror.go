package contract

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// OpenedDisk is an empty directory, and what other programs do in it.
type OpenedDisk struct {
	Disk   ports.Disk
	Writer ports.DiskWriter

	Write   func(path, content string) // makes or overwrites a file, with its directories
	Read    func(path string) (content string, ok bool)
	Remove  func(path string)         // with what is below; the empty path is the directory itself
	Mkdir   func(path string)         // with those above
	Symlink func(path, target string) // nil if there are none
	Special func(path string)         // makes a file that is none, such as a socket; nil if there are none
	Hold    func(path string)         // opens a file so that nobody else can; nil if programs cannot
}

// diskFixture is the directory of a sub-test.
type diskFixture struct {
	*fixture
	OpenedDisk
}

type diskSuite map[string]func(s *diskFixture)

func (s diskSuite) run(t *testing.T, open func(t *testing.T) OpenedDisk) {
	runSuite(t, s, func(t *testing.T) *diskFixture {
		t.Parallel()
		f := &diskFixture{&fixture{T: t, ctx: t.Context()}, open(t)}
		must.Do(f.Disk.Rules(f.ctx)).Or(f.fixture)
		return f
	})
}

// unknown is what a scan is given that knows nothing.
func unknown(string) (mirror.Facts, string, bool) { return mirror.Facts{}, "", false }

// scan returns what the scope has by path.
func (s *diskFixture) scan(scope mirror.Scope) map[string]mirror.Entry {
	s.Helper()
	must.Do(s.Disk.Rules(s.ctx)).Or(s.fixture)
	found := map[string]mirror.Entry{}
	s.ok(s.Disk.Scan(s.ctx, scope, unknown, func(e mirror.Entry) error {
		if _, twice := found[e.Path]; twice {
			return fmt.Errorf("%q is found twice", e.Path)
		}
		found[e.Path] = e
		return nil
	}))
	return found
}

// entry returns a file or directory as a scan finds it.
func (s *diskFixture) entry(path string) mirror.Entry {
	s.Helper()
	e, ok := s.scan(mirror.Everything())[path]
	if !ok {
		s.Fatalf("there is no %q", path)
	}
	return e
}

// wantTree ends the sub-test unless the directory has these files, and directories, whose content
// is "/". That of ignored ones is "ignored" and "ignored/".
func (s *diskFixture) wantTree(want map[string]string) {
	s.Helper()
	got := map[string]string{}
	for path, e := range s.scan(mirror.Everything()) {
		switch e.Kind {
		case mirror.Directory:
			got[path] = "/"
		case mirror.IgnoredDirectory:
			got[path] = "ignored/"
		case mirror.IgnoredFile:
			got[path] = "ignored"
		default:
			content, _ := s.Read(path)
			if got[path] = content; e.Kind == mirror.File && e.Checksum != must.Sum(content) {
				s.Errorf("%q has the checksum %q", path, e.Checksum)
			}
		}
	}
	wantEqual(s.fixture, got, want)
}

// stage stages content under a name.
func (s *diskFixture) stage(name, content string) {
	s.Helper()
	staged := must.Do(s.Writer.Stage(s.ctx, name, 0, strings.NewReader(content))).Or(s.fixture)
	wantEqual(s.fixture, staged, must.Sum(content))
}

// wantStaged ends the sub-test unless so many bytes are staged as x.
func (s *diskFixture) wantStaged(size int64) {
	s.Helper()
	resultOf(s.Writer.Staged(s.ctx, "x", size)).is(s.fixture, size)
}

// place places the content that is staged as x.
func (s *diskFixture) place(path string, target *mirror.Entry) (mirror.Entry, error) {
	placed := s.Writer.Place(s.ctx, mirror.Placement{Name: "x", Path: path, Target: target})[0]
	return placed.Entry, placed.Err
}

// rename renames a file or directory.
func (s *diskFixture) rename(e mirror.Entry, path string) (mirror.Entry, error) {
	renamed := s.Writer.Rename(s.ctx, mirror.Renaming{Entry: e, Path: path})[0]
	return renamed.Entry, renamed.Err
}

// wantPlaced ends the sub-test unless the entry is what a scan finds but for the checksum.
func (s *diskFixture) wantPlaced(got mirror.Entry, err error) {
	s.Helper()
	s.ok(err)
	want := s.entry(got.Path)
	want.Checksum = got.Checksum
	wantEqual(s.fixture, got, want)
}

// Disk is the suite of ports.Disk. Open returns an empty directory.
func Disk(t *testing.T, open func(t *testing.T) OpenedDisk) {
	diskSuite{
		"a scan finds files with checksums, and directories": func(s *diskFixture) {
			s.wantTree(map[string]string{})
			s.Write("a.txt", "a")
			s.Write("d/e/f.txt", "f")
			s.Write("d/empty", "")
			s.Mkdir("g")
			s.wantTree(map[string]string{"a.txt": "a", "d": "/", "d/e": "/", "d/e/f.txt": "f", "d/empty": "", "g": "/"})
			if e := s.entry("d/e/f.txt"); e.Kind != mirror.File || e.Facts.Size != 1 || e.Name != "d/e/f.txt" {
				s.Errorf("%+v", e)
			}
		},
		"a scan reads its scope alone": func(s *diskFixture) {
			for _, path := range []string{"a", "b/c", "b/d/e", "b/d/f/g", "h/i"} {
				s.Write(path, path)
			}
			for _, c := range []struct {
				scope mirror.Scope
				want  []string
			}{
				{mirror.Scope{}, nil},
				{mirror.Scope{Directories: []string{""}}, []string{"a", "b", "h"}},
				{mirror.Scope{Directories: []string{"b", "h"}}, []string{"b/c", "b/d", "h/i"}},
				{mirror.Scope{Trees: []string{"b/d"}}, []string{"b/d/e", "b/d/f", "b/d/f/g"}},
				{mirror.Scope{Trees: []string{"b/d", "b"}, Directories: []string{"b/d", ""}}, []string{"a", "b", "b/c", "b/d", "b/d/e", "b/d/f", "b/d/f/g", "h"}},
				{mirror.Scope{Trees: []string{"none", "a", "b/none/none"}, Directories: []string{"none", "a/b"}}, nil},
				{mirror.Scope{Trees: []string{mirror.StateDirectory}, Directories: []string{mirror.StateDirectory}}, nil},
			} {
				got := slices.Sorted(maps.Keys(s.scan(c.scope)))
				if !slices.Equal(got, c.want) {
					s.Errorf("%+v has %q, want %q", c.scope, got, c.want)
				}
			}
		},
		"a file with known facts has its known checksum": func(s *diskFixture) {
			s.Write("a", "one")
			s.Write("b", "one")
			s.Write("c", "one")
			known := s.scan(mirror.Everything())
			s.Write("b", "two") // the same size
			c := known["c"]
			c.Facts.ModTime++ // the time of the file is older
			known["c"] = c
			got := map[string]string{}
			s.ok(s.Disk.Scan(s.ctx, mirror.Everything(), func(name string) (mirror.Facts, string, bool) {
				e, ok := known[name]
				return e.Facts, "known", ok
			}, func(e mirror.Entry) error {
				got[e.Path] = e.Checksum
				return nil
			}))
			wantEqual(s.fixture, got, map[string]string{"a": "known", "b": must.Sum("two"), "c": must.Sum("one")})
		},
		"names are in composed form": func(s *diskFixture) {
			s.Write("\u00fc/e\u0301", "x")
			want := s.entry("\u00fc/\u00e9")
			got := s.scan(mirror.Scope{Directories: []string{"\u00fc"}})
			wantEqual(s.fixture, got, map[string]mirror.Entry{want.Path: want})
			r := must.Do(s.Disk.Open(s.ctx, want)).Or(s.fixture)
			s.ok(r.Close())
		},
		"symbolic links are found and not followed": func(s *diskFixture) {
			if s.Symlink == nil {
				s.Skip("there are none")
			}
			s.Write("d/a", "a")
			s.Symlink("l", "d")
			s.Symlink("d/m", "a")
			s.Symlink("dangling", "none")
			got := s.scan(mirror.Everything())
			for path, kind := range map[string]mirror.EntryKind{"d": mirror.Directory, "d/a": mirror.File, "l": mirror.Symlink, "d/m": mirror.Symlink, "dangling": mirror.Symlink} {
				if e, ok := got[path]; !ok || e.Kind != kind {
					s.Errorf("%q is %+v", path, e)
				}
			}
			if len(got) != 5 || len(s.scan(mirror.Scope{Trees: []string{"l"}})) != 0 {
				s.Errorf("found %+v", got)
			}
			below := got["d/a"]
			below.Path, below.Name = "l/a", "l/a"
			if _, err := s.Disk.Open(s.ctx, below); err == nil {
				s.Error("a file is read through a link")
			}
			s.stage("x", "x")
			if _, err := s.place("l/new", nil); err == nil {
				s.Error("a file is written through a link")
			}
		},
		"an error of the caller ends the scan": func(s *diskFixture) {
			s.Write("a", "")
			s.Write("b", "")
			wantStop(s.fixture, func(each func(mirror.Entry) error) error {
				return s.Disk.Scan(s.ctx, mirror.Everything(), unknown, each)
			})
		},
		"ignored files and directories are passed as such, and junk is left out": func(s *diskFixture) {
			before := must.Do(s.Disk.Rules(s.ctx)).Or(s.fixture)
			for _, path := range []string{"a.log", "keep.log", "build/x", "d/build/y", "d/.DS_Store", "Thumbs.db", "z/build", "e/file", "e/other"} {
				s.Write(path, "x")
			}
			const patterns = "*.log\n!keep.log\nbuild/\nfile\n!file/\nother\n!other/\n"
			s.Write(".collabignore", patterns)
			s.wantTree(map[string]string{
				"a.log": "ignored", "build": "ignored/", "d/build": "ignored/", "keep.log": "x", "d": "/", "z": "/", "z/build": "x",
				"e": "/", "e/file": "ignored", "e/other": "ignored", ".collabignore": patterns,
			})
			after := must.Do(s.Disk.Rules(s.ctx)).Or(s.fixture)
			if before.Hash == after.Hash {
				s.Error("the hash of the rules is the same")
			}
			for path, want := range map[string]bool{"a.log": true, "keep.log": false, "build/x": true, "q/build/r/s": true, "build": false, "d/.ds_store": true, "a": false} {
				if got := after.Ignored(path); got != want {
					s.Errorf("%q is ignored: %v", path, got)
				}
			}
			if before.Ignored("a.log") {
				s.Error("rules change")
			}
			s.Remove(".collabignore")
			again := must.Do(s.Disk.Rules(s.ctx)).Or(s.fixture)
			if again.Hash != before.Hash || again.Ignored("a.log") {
				s.Error("patterns are remembered")
			}
		},
		"a file is opened only with the facts that it was found with": func(s *diskFixture) {
			s.Write("a", "one")
			e := s.entry("a")
			r := must.Do(s.Disk.Open(s.ctx, e)).Or(s.fixture)
			content, err := io.ReadAll(r)
			resultOf(string(content), errors.Join(err, r.Close())).is(s.fixture, "one")

			r = must.Do(s.Disk.Open(s.ctx, e)).Or(s.fixture)
			s.Write("a", "a longer content")
			resultOf(io.ReadAll(r)).wantConflict(s.fixture)
			s.ok(r.Close())
			resultOf(s.Disk.Open(s.ctx, e)).wantConflict(s.fixture)
			s.Remove("a")
			resultOf(s.Disk.Open(s.ctx, e)).wantNotFound(s.fixture)
			s.Mkdir("a")
			resultOf(s.Disk.Open(s.ctx, e)).wantNotFound(s.fixture)
			s.Write("d/b", "two")
			e = s.entry("d/b")
			s.Remove("d")
			s.Write("d", "a file")
			resultOf(s.Disk.Open(s.ctx, e)).wantNotFound(s.fixture)
		},
		"files are synced, but for those that are gone or no longer files": func(s *diskFixture) {
			var files []mirror.Entry
			replace := func(path string, by func(path string)) {
				s.Write(path, path)
				if files = append(files, s.entry(path)); by != nil {
					s.Remove(path)
					by(path)
				}
			}
			replace("a", nil)
			replace("d/b", func(string) { s.Remove("d"); s.Write("d", "a file") })
			replace("c", func(string) {})
			replace("e", s.Mkdir)
			if s.Symlink != nil {
				replace("f", func(path string) { s.Symlink(path, "/etc/passwd") })
				replace("g", func(path string) { s.Symlink(path, "a") })
			}
			if s.Special != nil {
				replace("h", s.Special)
			}
			wantEqual(s.fixture, s.Disk.Sync(s.ctx, files...), make([]error, len(files)))
			wantEqual(s.fixture, len(s.Disk.Sync(s.ctx)), 0)
		},
		"a file that cannot be synced is one error": func(s *diskFixture) {
			if s.Hold == nil {
				s.Skip("programs cannot keep others from a file")
			}
			var files []mirror.Entry
			for _, path := range []string{"a", "b", "c"} {
				s.Write(path, path)
				files = append(files, s.entry(path))
			}
			s.Hold("b")
			errs := s.Disk.Sync(s.ctx, files...)
			s.ok(errs[0])
			s.wantError(errs[1], fault.Unavailable)
			s.ok(errs[2])
		},
		"nothing is found of a directory that is gone": func(s *diskFixture) {
			s.Write("a", "one")
			before := must.Do(s.Disk.Identity(s.ctx)).Or(s.fixture)
			resultOf(s.Disk.Identity(s.ctx)).is(s.fixture, before)
			s.Remove("")
			resultOf(s.Disk.Identity(s.ctx)).wantNotFound(s.fixture)
			s.wantNotFound(s.Disk.Scan(s.ctx, mirror.Everything(), unknown, func(e mirror.Entry) error { return fmt.Errorf("%q is there", e.Path) }))
		},
	}.run(t, open)
}

// DiskWriter is the suite of ports.DiskWriter. Open returns an empty directory.
func DiskWriter(t *testing.T, open func(t *testing.T) OpenedDisk) {
	diskSuite{
		"content is staged in parts": func(s *diskFixture) {
			s.wantStaged(0)
			s.stage("x", "hello")
			s.wantStaged(5)
			resultOf(s.Writer.Stage(s.ctx, "x", 4, strings.NewReader("p me"))).is(s.fixture, must.Sum("hellp me"))
			resultOf(s.Writer.Stage(s.ctx, "x", 9, strings.NewReader(""))).wantConflict(s.fixture)
			cut := fault.New(fault.Unavailable, "cut")
			s.wantError(must.ErrorOf(s.Writer.Stage(s.ctx, "x", 2, io.MultiReader(strings.NewReader("ro"), iotest.ErrReader(cut)))), fault.Unavailable)
			s.wantStaged(4)
			s.stage("x", "")
			s.wantStaged(0)
			s.wantTree(map[string]string{})
		},
		"staged content gets a path that is free": func(s *diskFixture) {
			s.stage("x", "content")
			s.wantPlaced(s.place("a/b/c", nil))
			s.wantTree(map[string]string{"a": "/", "a/b": "/", "a/b/c": "content"})
			s.wantStaged(0)
			resultOf(s.place("d", nil)).wantNotFound(s.fixture)
		},
		"many staged contents get their paths, each for itself": func(s *diskFixture) {
			s.Write("old/a", "old")
			s.Write("taken", "taken")
			e := s.entry("old/a")
			s.stage("a", "new")
			s.stage("b", "not placed")
			contents := []mirror.Placement{{Name: "a", Path: "old/a", Target: &e}, {Name: "b", Path: "taken"}, {Name: "missing", Path: "free"}}
			want := map[string]string{"old": "/", "old/a": "new", "taken": "taken"}
			for i := range 140 {
				name, directory := fmt.Sprint(i), fmt.Sprint("d", i/2)
				s.stage(name, "content "+name)
				contents = append(contents, mirror.Placement{Name: name, Path: directory + "/f" + name})
				want[directory], want[directory+"/f"+name] = "/", "content "+name
			}
			placed := s.Writer.Place(s.ctx, contents...)
			s.wantConflict(placed[1].Err)
			s.wantNotFound(placed[2].Err)
			for _, p := range slices.Delete(placed, 1, 3) {
				s.wantPlaced(p.Entry, p.Err)
			}
			s.wantTree(want)
			wantEqual(s.fixture, len(s.Writer.Place(s.ctx)), 0)
		},
		"a path that is taken keeps its file": func(s *diskFixture) {
			s.Write("a", "old")
			s.Write("d/e", "other")
			s.stage("x", "new")
			for _, path := range []string{"a", "a/b", "d"} {
				resultOf(s.place(path, nil)).wantConflict(s.fixture)
			}
			s.wantTree(map[string]string{"a": "old", "d": "/", "d/e": "other"})
			s.wantPlaced(s.place("b", nil))
		},
		"directories with nothing but junk make way": func(s *diskFixture) {
			s.Write("d/e/.DS_Store", "junk")
			s.Mkdir("d/f")
			s.stage("x", "new")
			s.wantPlaced(s.place("d", nil))
			s.wantTree(map[string]string{"d": "new"})
		},
		"content is replaced if it is as it was found": func(s *diskFixture) {
			s.Write("a/b", "old")
			e := s.entry("a/b")
			s.stage("x", "new")
			s.wantPlaced(s.place("a/b", &e))
			s.wantTree(map[string]string{"a": "/", "a/b": "new"})

			s.stage("x", "newer")
			resultOf(s.place("a/b", &e)).wantConflict(s.fixture)
			s.wantTree(map[string]string{"a": "/", "a/b": "new"})
			e = s.entry("a/b")
			s.Remove("a/b")
			if _, err := s.place("a/b", &e); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
				s.Errorf("a file that is gone is replaced: %v", err)
			}
			s.wantStaged(5)
		},
		"files and directories are renamed to paths that are free": func(s *diskFixture) {
			s.Write("a", "a")
			s.Write("d/e", "e")
			e, err := s.rename(s.entry("a"), "n/b")
			s.wantPlaced(e, err)
			if e.Checksum != must.Sum("a") {
				s.Errorf("the checksum is %q", e.Checksum)
			}
			s.wantPlaced(s.rename(s.entry("d"), "n/d"))
			s.wantTree(map[string]string{"n": "/", "n/b": "a", "n/d": "/", "n/d/e": "e"})

			s.Write("c", "c")
			for _, path := range []string{"n/b", "n/d", "n/b/x"} {
				resultOf(s.rename(s.entry("c"), path)).wantConflict(s.fixture)
			}
			old := s.entry("c")
			s.Write("c", "changed")
			resultOf(s.rename(old, "f")).wantConflict(s.fixture)
			s.Remove("c")
			resultOf(s.rename(old, "f")).wantNotFound(s.fixture)
			s.wantTree(map[string]string{"n": "/", "n/b": "a", "n/d": "/", "n/d/e": "e"})
		},
		"many files are renamed and removed, each for itself": func(s *diskFixture) {
			s.Write("taken", "taken")
			var renames []mirror.Renaming
			want := map[string]string{"taken": "taken"}
			for i := range 100 {
				s.Write(fmt.Sprint("a", i/3, "/b/f", i), fmt.Sprint("content ", i))
			}
			found := s.scan(mirror.Everything())
			for i := range 100 {
				directory := fmt.Sprint("n/a", i/3)
				path := fmt.Sprint(directory, "/f", i)
				renames = append(renames, mirror.Renaming{Entry: found[fmt.Sprint("a", i/3, "/b/f", i)], Path: path})
				want["n"], want[directory], want[path] = "/", "/", fmt.Sprint("content ", i)
			}
			s.Write("a1/b/f4", "changed")
			s.Remove("a2/b/f6")
			renames[10].Path = "taken"
			want["a1"], want["a1/b"], want["a1/b/f4"] = "/", "/", "changed"
			want["a3"], want["a3/b"], want["a3/b/f10"] = "/", "/", "content 10"
			for _, path := range []string{"n/a1/f4", "n/a2/f6", "n/a3/f10"} {
				delete(want, path)
			}
			renamed := s.Writer.Rename(s.ctx, renames...)
			s.wantConflict(renamed[4].Err)
			s.wantNotFound(renamed[6].Err)
			s.wantConflict(renamed[10].Err)
			s.wantTree(want)
			found = s.scan(mirror.Everything())
			var files []mirror.Entry
			for i, r := range renamed {
				if i == 4 || i == 6 || i == 10 {
					continue
				}
				s.ok(r.Err)
				wantEqual(s.fixture, r.Entry, found[renames[i].Path])
				files = append(files, r.Entry)
			}
			s.Write(files[1].Path, "changed")
			for i, err := range s.Writer.Trash(s.ctx, files...) {
				if i == 1 {
					s.wantConflict(err)
				} else {
					s.ok(err)
				}
			}
			s.wantTree(map[string]string{
				"taken": "taken", "a1": "/", "a1/b": "/", "a1/b/f4": "changed", "a3": "/", "a3/b": "/", "a3/b/f10": "content 10",
				"n": "/", "n/a0": "/", files[1].Path: "changed",
			})
		},
		"the directories that renamed files have left go if nothing but junk is left": func(s *diskFixture) {
			s.Write("a/b/c", "c")
			s.Write("a/b/.DS_Store", "junk")
			s.Write("a/d/e", "e")
			s.Write("a/d/f", "f")
			s.wantPlaced(s.rename(s.entry("a/b/c"), "c"))
			s.wantPlaced(s.rename(s.entry("a/d/e"), "a/d/g"))
			s.wantTree(map[string]string{"a": "/", "a/d": "/", "a/d/f": "f", "a/d/g": "e", "c": "c"})
			s.wantPlaced(s.rename(s.entry("a/d/f"), "n/f"))
			s.wantPlaced(s.rename(s.entry("a/d/g"), "n/g"))
			s.wantTree(map[string]string{"c": "c", "n": "/", "n/f": "f", "n/g": "e"})
		},
		"another spelling of the same name is free": func(s *diskFixture) {
			s.Write("d/readme", "x")
			s.wantPlaced(s.rename(s.entry("d/readme"), "d/README"))
			s.wantTree(map[string]string{"d": "/", "d/README": "x"})
			s.stage("x", "y")
			s.wantPlaced(s.place("D/other", nil))
			s.wantTree(map[string]string{"d": "/", "d/README": "x", "d/other": "y"})
		},
		"removed files are in the trash, and their directories go if nothing but junk is left": func(s *diskFixture) {
			s.Write("a/b/c", "c")
			s.Write("a/b/.DS_Store", "junk")
			s.Write("a/d", "d")
			old := s.entry("a/b/c")
			s.Write("a/b/c", "changed")
			s.wantConflict(s.Writer.Trash(s.ctx, old)[0])
			s.ok(s.Writer.Trash(s.ctx, s.entry("a/b/c"))[0])
			s.wantTree(map[string]string{"a": "/", "a/d": "d"})
			s.wantNotFound(s.Writer.Trash(s.ctx, old)[0])
			s.ok(s.Writer.Trash(s.ctx, s.entry("a/d"))[0])
			s.wantTree(map[string]string{})
			s.Write("a/d", "again")
			s.ok(s.Writer.Trash(s.ctx, s.entry("a/d"))[0])
			s.wantTree(map[string]string{})
		},
		"an empty directory goes with those above it, and one with files stays": func(s *diskFixture) {
			s.Mkdir("a/b")
			s.Mkdir("d/e")
			s.Write("d/f", "f")
			all := []mirror.Entry{s.entry("a/b"), s.entry("d/e"), s.entry("d")}
			for range 2 { // two are gone the second time
				s.allOK(s.Writer.Trash(s.ctx, all...))
				s.wantTree(map[string]string{"d": "/", "d/f": "f"})
			}
		},
		"old staged content is removed": func(s *diskFixture) {
			s.stage("x", "content")
			s.ok(s.Writer.Clean(s.ctx, time.Unix(0, 0), time.Unix(0, 0)))
			s.wantStaged(7)
			future := time.Now().AddDate(100, 0, 0)
			s.ok(s.Writer.Clean(s.ctx, future, future))
			s.wantStaged(0)
		},
	}.run(t, open)
}

// MirrorState is the suite of ports.MirrorState. Open returns an empty state, and a function that
// opens it again as another process would later.
func MirrorState(t *testing.T, open func(t *testing.T) (state ports.MirrorState, again func() ports.MirrorState)) {
	type stateFixture struct {
		*fixture
		ports.MirrorState
		again func() ports.MirrorState
	}
	rowsOf := func(s *stateFixture, from ports.MirrorState) map[string]mirror.Row {
		s.Helper()
		rows := map[string]mirror.Row{}
		s.ok(from.Rows(s.ctx, func(r mirror.Row) error {
			rows[r.Key] = r
			return nil
		}))
		return rows
	}
	full := func(key string) mirror.Row {
		return mirror.Row{
			Key:     key,
			Synced:  &mirror.Synced{ID: fresh[id.Object](), Version: 3, Checksum: "c1", Path: key + "1", Name: key + "2"},
			Remote:  &mirror.Record{ID: fresh[id.Object](), Path: key + "3", Version: 1 << 40, Checksum: "c2", Size: 1 << 50, Deleted: true},
			Local:   &mirror.Entry{Path: key + "4", Name: "e\u0301\xff", Kind: mirror.Unreadable, Facts: mirror.Facts{Size: 1 << 60, ModTime: -5, ChangeTime: 1 << 62, Inode: 1<<64 - 1}, Checksum: "c3"},
			Missing: true,
		}
	}
	runSuite(t, map[string]func(s *stateFixture){
		"rows are stored with each of their parts": func(s *stateFixture) {
			want := map[string]mirror.Row{"F": full("F")}
			for key, r := range map[string]mirror.Row{"S": {Synced: full("S").Synced}, "R": {Remote: full("R").Remote}, "L": {Local: full("L").Local}, "\xff'": full("\xff'")} {
				r.Key = key
				want[key] = r
			}
			s.ok(s.Put(s.ctx, slices.Collect(maps.Values(want)), nil))
			wantEqual(s.fixture, rowsOf(s, s.MirrorState), want)

			changed := full("S")
			changed.Local = nil
			want["S"] = changed
			delete(want, "R")
			s.ok(s.Put(s.ctx, []mirror.Row{changed, {Key: "R"}, {Key: "none"}}, nil))
			wantEqual(s.fixture, rowsOf(s, s.again()), want)
		},
		"the cursor is stored with rows": func(s *stateFixture) {
			resultOf(s.Cursor(s.ctx)).is(s.fixture, object.Cursor{})
			s.ok(s.Put(s.ctx, []mirror.Row{full("A")}, &object.Cursor{Epoch: 2, N: 7}))
			s.ok(s.Put(s.ctx, []mirror.Row{full("B")}, nil))
			s.ok(s.Put(s.ctx, nil, &object.Cursor{Epoch: 3, N: 1}))
			resultOf(s.Cursor(s.ctx)).is(s.fixture, object.Cursor{Epoch: 3, N: 1})
			later := s.again()
			resultOf(later.Cursor(s.ctx)).is(s.fixture, object.Cursor{Epoch: 3, N: 1})
			if rows := rowsOf(s, later); len(rows) != 2 {
				s.Errorf("the rows are %v", rows)
			}
		},
		"a directory is bound to one place": func(s *stateFixture) {
			resultOf(s.Binding(s.ctx)).wantNotFound(s.fixture)
			b := mirror.Binding{Server: "https://s", Org: fresh[id.Org](), User: fresh[id.User](), Place: "WORKSPACE/x", Root: "r", Ignore: "i"}
			b.Window = mirror.DeletionWindow{Known: 7, Since: 1 << 60, Stopped: true}
			s.ok(s.Bind(s.ctx, mirror.Binding{Server: "http://earlier"}))
			s.ok(s.Bind(s.ctx, b))
			resultOf(s.again().Binding(s.ctx)).is(s.fixture, b)
		},
		"an error of the caller ends the rows": func(s *stateFixture) {
			s.ok(s.Put(s.ctx, []mirror.Row{full("A"), full("B")}, nil))
			wantStop(s.fixture, func(each func(mirror.Row) error) error { return s.Rows(s.ctx, each) })
		},
		"rows are stored at the same time": func(s *stateFixture) {
			s.allOK(concurrently(concurrent, func(i int) error { return s.Put(s.ctx, []mirror.Row{full(fmt.Sprint(i))}, nil) }))
			if rows := rowsOf(s, s.again()); len(rows) != concurrent {
				s.Errorf("%d rows", len(rows))
			}
		},
	}, func(t *testing.T) *stateFixture {
		t.Parallel()
		s := &stateFixture{fixture: &fixture{T: t, ctx: t.Context()}}
		s.MirrorState, s.again = open(t)
		return s
	})
}
