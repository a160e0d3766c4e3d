package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"collab/domain/mirror"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/soak"
)

// device is a directory, and what its user does there.
type device struct {
	*testing.T
	name, dir string
	account   collabd.Client
	random    *rand.Rand
	outside   string // where files are written before they are saved
	running   *exec.Cmd
	lines     chan string // of the running process
}

func (d *device) path(name string) string { return filepath.Join(d.dir, name) }

// command returns the process of the device.
func (d *device) command(flags ...string) *exec.Cmd {
	d.Helper()
	path := must.Do(exec.LookPath("collab")).Or(d)
	c := exec.Command(path, append([]string{"sync", d.dir}, flags...)...)
	c.Env = append(os.Environ(), "COLLAB_SERVER="+d.account.Base, "COLLAB_TOKEN="+d.account.Token, "COLLAB_DEVICE="+d.name, "COLLAB_CONFIG_DIR="+d.outside)
	return c
}

// start starts the process of the device.
func (d *device) start() {
	d.Helper()
	d.running = d.command()
	out := must.Do(d.running.StdoutPipe()).Or(d)
	d.running.Stderr = os.Stderr
	must.NoError(d, d.running.Start())
	lines := make(chan string)
	d.lines = lines
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
}

// kill kills the process after so many lines, or when a round is over. Until then the user goes on.
func (d *device) kill(after int, l *ledger) {
	d.Helper()
	for line := range d.lines {
		d.Logf("%s: %s", d.name, line)
		var r syncRound
		must.NoError(d, json.Unmarshal([]byte(line), &r))
		if after--; after < 0 || r.Done > 0 {
			break
		}
		if d.random.IntN(4) == 0 {
			d.edit(l)
		}
	}
	must.NoError(d, d.running.Process.Kill())
	for range d.lines {
	}
	if err := d.running.Wait(); d.running.ProcessState.ExitCode() >= 0 {
		d.Fatalf("%s had ended: %v", d.name, err)
	}
}

// once runs a round in a process of its own, and returns how many changes it has made.
func (d *device) once() int {
	d.Helper()
	out, err := d.command("--once").Output()
	d.Logf("%s: %s", d.name, out)
	must.NoError(d, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var r syncRound
	must.NoError(d, json.Unmarshal([]byte(lines[len(lines)-1]), &r))
	return r.Done
}

// files returns the contents of the directory by path, without the client's own.
func (d *device) files() map[string]string {
	all := map[string]string{}
	d.walk(d.dir, func(name, content string) {
		if !strings.HasPrefix(name, mirror.StateDirectory+"/") {
			all[name] = content
		}
	})
	return all
}

func (d *device) walk(top string, each func(name, content string)) {
	d.Helper()
	must.NoError(d, fs.WalkDir(os.DirFS(top), ".", func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(top, name))
		if errors.Is(err, fs.ErrNotExist) { // it was just moved
			return nil
		}
		each(name, string(content))
		return err
	}))
}

// ledger has the contents that were written, and whether somebody has knowingly overwritten or
// deleted them.
type ledger struct {
	n    int
	gone map[string]bool
	all  map[string]bool
}

// content returns a new content.
func (l *ledger) content(by string) string {
	l.n++
	c := fmt.Sprintf("content %8d of %s\n", l.n, by) // all are equally long, see edit
	l.all[c] = true
	return c
}

// edit does what a person does to a file or directory, and knows which content it takes away.
func (d *device) edit(l *ledger) {
	d.Helper()
	names := slices.Sorted(maps.Keys(d.files()))
	some := func() string { return names[d.random.IntN(len(names))] }
	fresh := func() string {
		name := fmt.Sprintf("%c/%c%d", 'p'+rune(d.random.IntN(4)), 'a'+rune(d.random.IntN(12)), d.random.IntN(3))
		must.NoError(d, os.MkdirAll(filepath.Dir(d.path(name)), 0o777))
		return name
	}
	saved := filepath.Join(d.outside, "saved")
	taken := func() {
		content := must.Do(os.ReadFile(saved)).Or(d)
		l.gone[string(content)] = true
		must.NoError(d, os.Remove(saved))
	}
	// What another process has moved meanwhile is not there, or is there again.
	raced := func(err error) bool {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EINVAL) {
			d.Fatal(err)
		}
		return err != nil
	}
	rename := func(from, to string, flags uint) bool {
		return !raced(unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags))
	}
	what := d.random.IntN(12)
	if len(names) < 5 {
		what = 0
	}
	switch {
	case what < 4: // a new file
		must.NoError(d, os.WriteFile(saved, []byte(l.content(d.name)), 0o666))
		if !rename(saved, d.path(fresh()), unix.RENAME_NOREPLACE) {
			taken()
		}
	case what < 7: // a changed one
		must.NoError(d, os.WriteFile(saved, []byte(l.content(d.name)), 0o666))
		rename(saved, d.path(some()), unix.RENAME_EXCHANGE)
		taken()
	case what < 8: // a deleted one
		if rename(d.path(some()), saved, unix.RENAME_NOREPLACE) {
			taken()
		}
	case what < 9: // a renamed one
		rename(d.path(some()), d.path(fresh()), unix.RENAME_NOREPLACE)
	case what < 10: // one that an editor saves, with what was there beside it until then
		name := d.path(some())
		must.NoError(d, os.WriteFile(saved, []byte(l.content(d.name)), 0o666))
		before := rename(name, name+"~", unix.RENAME_NOREPLACE)
		if !rename(saved, name, unix.RENAME_NOREPLACE) {
			taken()
		}
		if before && rename(name+"~", saved, unix.RENAME_NOREPLACE) {
			taken()
		}
	case what < 11: // one that is changed in place. What is written after the client has replaced it is gone.
		name := d.path(some())
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if raced(err) {
			return
		}
		defer f.Close()
		before, content := must.Do(io.ReadAll(f)).Or(d), l.content(d.name)
		must.Do(f.WriteAt([]byte(content), 0)).Or(d)
		l.gone[string(before)] = true
		if now, err := os.Stat(name); err != nil || !os.SameFile(must.Do(f.Stat()).Or(d), now) {
			l.gone[content] = true
		}
	default: // a renamed directory
		directory := filepath.Dir(some())
		rename(d.path(directory), d.path(directory+"-"+fmt.Sprint(l.n)), unix.RENAME_NOREPLACE)
	}
}

// devices returns two new directories on a server.
func devices(t *testing.T, s *collabd.Server, seed uint64) (all []*device) {
	owner := s.SignIn(t, "ada@example.com", t.Name(), "owner")
	top := t.TempDir()
	for i, name := range []string{"ann", "bob"} {
		d := &device{T: t, name: name, dir: filepath.Join(top, name), account: owner, random: rand.New(rand.NewPCG(seed, uint64(i+1))), outside: filepath.Join(top, name+"-outside")}
		must.NoError(d, errors.Join(os.Mkdir(d.dir, 0o777), os.Mkdir(d.outside, 0o777)))
		d.start()
		t.Cleanup(func() {
			_ = d.running.Process.Kill() // unless the test did
			for range d.lines {
			}
			_ = d.running.Wait()
		})
		all = append(all, d)
	}
	return all
}

func TestWhatIsSavedOnOneDeviceAppearsOnTheOther(t *testing.T) {
	all := devices(t, collabd.Start(t, "COLLAB_PLAN_STORAGE=NO_PLAN=1MiB"), 1)
	until := func(d *device, text string) {
		for line := range d.lines {
			if strings.Contains(line, text) {
				return
			}
		}
		t.Fatalf("%s has ended without %q", d.name, text)
	}
	for i := range 3 {
		from, to := all[i%2], all[(i+1)%2]
		name := fmt.Sprintf("folder %d/notes.txt", i)
		must.NoError(from, errors.Join(os.MkdirAll(filepath.Dir(from.path(name)), 0o777), os.WriteFile(from.path(name), []byte(name), 0o666)))
		until(to, name)
		if got := to.files()[name]; got != name {
			t.Errorf("%s has %q", to.name, got)
		}
	}

	// A process that runs leaves a paused directory alone.
	ann, bob := all[0], all[1]
	pausing := func(command string) {
		c := bob.command()
		c.Args = []string{"collab", "sync", command, bob.dir}
		must.NoError(bob, c.Run())
	}
	pausing("pause")
	until(bob, `"paused":true`)
	must.NoError(ann, os.WriteFile(ann.path("meanwhile"), nil, 0o666))
	until(ann, `"action":"upload","path":"meanwhile"`)
	if _, there := bob.files()["meanwhile"]; there {
		t.Error("a paused directory was changed")
	}
	pausing("resume")
	until(bob, `"action":"download","path":"meanwhile"`)

	log := bob.command()
	log.Args = []string{"collab", "sync", "log", bob.dir, "--follow", "--limit", "1"}
	out, err := log.StdoutPipe()
	must.NoError(bob, errors.Join(err, log.Start()))
	logged := bufio.NewScanner(out)
	follow := func(want string) {
		for logged.Scan() {
			if strings.HasSuffix(logged.Text(), want) {
				return
			}
		}
		t.Errorf("the log that is followed has no line %q", want)
	}
	follow("\tdown\tdownload\tmeanwhile\t")

	// What the organisation has no room for is held, and other files go on.
	must.NoError(ann, os.WriteFile(ann.path("big"), make([]byte, 2<<20), 0o666))
	until(ann, `{"path":"big","reason":"The organisation has no room for it: `)
	must.NoError(ann, os.WriteFile(ann.path("small"), nil, 0o666))
	until(bob, `"action":"download","path":"small"`)
	follow("\tdown\tdownload\tsmall\t")
	must.NoError(bob, errors.Join(log.Process.Signal(os.Interrupt), log.Wait()))

	// Another process accepts deletions for the one that runs.
	for name := range bob.files() {
		must.NoError(bob, os.Remove(bob.path(name)))
	}
	until(bob, `"stopped":"The directory is empty, and was not."`)
	once := bob.command("--accept-deletions", "--once") // ends when both sides are equal
	_ = once.Run()
	must.Is(bob, exitConflict, once.ProcessState.ExitCode())
	must.NoError(bob, bob.command("--accept-deletions").Run())
	until(ann, `"stopped":"The server has no file in this place any more`)
	must.NoError(ann, ann.command("--accept-deletions").Run())
	until(ann, `"action":"trash","path":"small"`)
}

func TestDevicesAndServersThatAreKilledLoseNothingAndConverge(t *testing.T) {
	seed := soak.Seed(t)
	t.Logf("COLLAB_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := collabd.Start(t)
	devices := devices(t, s, seed)
	l := &ledger{gone: map[string]bool{}, all: map[string]bool{}}
	for range soak.Count(50) {
		for _, d := range devices {
			for range 1 + random.IntN(20) {
				d.edit(l)
			}
		}
		d := devices[random.IntN(len(devices))]
		d.kill(random.IntN(60), l)
		if random.IntN(3) == 0 {
			s.Kill()
			must.NoError(t, s.Restart())
		}
		d.edit(l)
		d.start()
	}
	for _, d := range devices {
		d.kill(0, l)
	}
	for rounds := 0; ; rounds++ {
		steps := 0
		for _, d := range devices {
			steps += d.once()
		}
		if steps == 0 {
			break
		}
		if rounds == 5 {
			t.Fatalf("after %d rounds of each device there is still something to do", rounds)
		}
	}
	ann, bob := devices[0].files(), devices[1].files()
	must.Equal(t, ann, bob) // the devices
	stored := map[string]string{}
	var manifest []struct{ Path, Checksum string }
	devices[0].account.Must(t, 200, "GET", "/sync/manifest", nil, &manifest)
	for _, o := range manifest {
		stored[o.Path] = o.Checksum
	}
	kept := map[string]bool{}
	for name, content := range ann {
		kept[content] = true
		ann[name] = must.Sum(content)
	}
	must.Equal(t, stored, ann) // server and devices
	for _, d := range devices {
		d.walk(filepath.Join(d.dir, mirror.StateDirectory, "trash"), func(_, content string) { kept[content] = true })
	}
	for content := range l.all {
		if !kept[content] && !l.gone[content] {
			t.Errorf("%q is lost", content)
		}
	}
	for content := range kept {
		if !l.all[content] {
			t.Errorf("a file has %q, which nobody wrote", content)
		}
	}
	if len(ann) < 5 {
		t.Errorf("only %d files are left", len(ann))
	}
}

// TestALargeFileThatIsChangedInTheMiddleGoesOnAfterKills kills each device in the middle of each transfer.
func TestALargeFileThatIsChangedInTheMiddleGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	const size = 40 << 20
	s := collabd.Start(t)
	proxy := newKiller(t, s, size/2)
	account := s.SignIn(t, "ada@example.com", t.Name(), "owner")
	account.Base = proxy.URL
	var all []*device
	for _, name := range []string{"ann", "bob"} {
		d := &device{T: t, name: name, dir: t.TempDir(), account: account, outside: t.TempDir()}
		must.Is(d, 0, d.once())
		all = append(all, d)
	}
	content := make([]byte, size)
	must.Do(rand.NewChaCha8([32]byte{}).Read(content)).Or(t)
	must.NoError(t, os.WriteFile(all[0].path("film"), content, 0o666))
	for range 2 {
		for _, d := range all {
			proxy.twice(t, size, func() *exec.Cmd { return d.command("--once") })
		}
		for _, d := range all {
			must.Is(d, 0, d.once())
			if files := d.files(); len(files) != 1 || files["film"] != string(content) {
				t.Errorf("%s has %d files, and not the one that was written", d.name, len(files))
			}
		}
		copy(content[size/2:], "changed in place")
		f := must.Do(os.OpenFile(all[0].path("film"), os.O_WRONLY, 0)).Or(t)
		must.Do(f.WriteAt(content[size/2:size/2+16], size/2)).Or(t)
		must.NoError(t, f.Close())
	}
}

func TestAnEmptyDirectoryInThePlaceOfASynchronisedOneIsNotFilled(t *testing.T) {
	s := collabd.Start(t)
	top := t.TempDir()
	d := &device{T: t, name: "ann", dir: filepath.Join(top, "disk"), account: s.SignIn(t, "ada@example.com", t.Name(), "owner"), outside: filepath.Join(top, "outside")}
	must.NoError(d, errors.Join(os.Mkdir(d.dir, 0o777), os.Mkdir(d.outside, 0o777), os.WriteFile(d.path("a"), []byte("content"), 0o666)))
	d.once()
	// As if the disk were not mounted, with what systems keep there.
	mounted := filepath.Join(top, "mounted")
	must.NoError(d, errors.Join(os.Rename(d.dir, mounted), os.MkdirAll(d.path("lost+found"), 0o777)))
	for _, flag := range []string{"--once", "--dry-run"} {
		out, err := d.command(flag).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitGuard || !strings.Contains(string(out), "is a disk not mounted?") {
			t.Errorf("with %s: %v, %s", flag, err, out)
		}
		entries := must.Do(os.ReadDir(d.dir)).Or(d)
		if len(entries) != 1 {
			t.Errorf("with %s the directory has %v", flag, entries)
		}
	}
	// It is mounted again.
	must.NoError(d, errors.Join(os.RemoveAll(d.dir), os.Rename(mounted, d.dir)))
	if n := d.once(); n != 0 {
		t.Errorf("%d changes were made", n)
	}
	// Somebody begins anew, first by hand and then after a question.
	must.NoError(d, os.RemoveAll(d.path(mirror.StateDirectory)))
	d.once()
	must.NoError(d, errors.Join(os.RemoveAll(d.dir), os.Mkdir(d.dir, 0o777)))
	if out, err := d.command("--once", "--accept-deletions").CombinedOutput(); err != nil || d.files()["a"] != "content" {
		t.Errorf("%v, %s", err, out)
	}
}
