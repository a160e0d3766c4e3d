package mirrorstate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"collab/adapters/mirrorstate"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"
)

func TestMirrorState(t *testing.T) {
	contract.MirrorState(t, func(t *testing.T) (ports.MirrorState, func() ports.MirrorState) {
		directory := bound(t)
		s := opened(t, directory)
		return s, func() ports.MirrorState {
			must.NoError(t, s.Close())
			return opened(t, directory)
		}
	})
}

// bound returns a new directory with a state directory.
func bound(t *testing.T) string {
	directory := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(directory, mirror.StateDirectory), 0o700))
	return directory
}

func opened(t *testing.T, directory string) *mirrorstate.State {
	t.Helper()
	s := must.Do(mirrorstate.Open(directory)).Or(t)
	t.Cleanup(func() { must.NoError(t, s.Close()) })
	return s
}

func TestAStateIsOpenOnce(t *testing.T) {
	directory := bound(t)
	s := opened(t, directory)
	for range 2 {
		must.Fail(t, must.ErrorOf(mirrorstate.Open(directory)), fault.Conflict) // opened again
	}
	must.NoError(t, s.Put(t.Context(), nil, &object.Cursor{N: 1}))
}

func TestAStateNeedsNoSharedMemory(t *testing.T) {
	directory := bound(t)
	for range 2 { // a new one, and one that exists
		s := must.Do(mirrorstate.Open(directory)).Or(t)
		must.NoError(t, s.Put(t.Context(), nil, &object.Cursor{N: 1}))
		path := filepath.Join(directory, mirror.StateDirectory, "state.db")
		if _, err := os.Lstat(path + "-shm"); err == nil {
			t.Error("there is a file of shared memory")
		}
		// Without shared memory it still is a log that is written ahead.
		content := must.Do(os.ReadFile(path)).Or(t)
		if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 || content[18] != 2 || content[19] != 2 {
			t.Errorf("the journal mode is not WAL: the header has versions %d and %d, the log is %v, %v", content[18], content[19], log, err)
		}
		must.NoError(t, s.Close())
	}
}

func TestADamagedStateIsSetAsideAndAnotherBegun(t *testing.T) {
	path := func(directory string) string { return filepath.Join(directory, mirror.StateDirectory, "state.db") }
	for about, damage := range map[string]func(content []byte) []byte{
		"no database": func([]byte) []byte {
			return []byte("this is no database, and long enough to be read as one ... ... ... ... ... ... ... ... ...")
		},
		"a page overwritten": func(b []byte) []byte { copy(b[4096:], make([]byte, 8)); return b },
		"cut":                func(b []byte) []byte { return b[:len(b)-4096] },
	} {
		t.Run(about, func(t *testing.T) {
			directory := bound(t)
			place := mirror.Binding{Server: "s", Org: "o", User: "u", Place: "personal"}
			for n := range int64(2) {
				s := opened(t, directory)
				bind := place
				bind.Root, bind.Ignore = "root", "rules"
				must.NoError(t, s.Bind(t.Context(), bind))
				var rows []mirror.Row
				for key := range 200 {
					rows = append(rows, mirror.Row{Key: string(rune('a' + key)), Local: &mirror.Entry{Path: "p"}})
				}
				must.NoError(t, s.Put(t.Context(), rows, &object.Cursor{N: 1}))
				must.NoError(t, s.Close())
				content := must.Do(os.ReadFile(path(directory))).Or(t)
				must.NoError(t, os.WriteFile(path(directory), damage(content), 0o600))

				s = opened(t, directory)
				if s.Damaged() == "" {
					t.Fatal("the damage was not noticed")
				}
				must.Do(os.Stat(s.Damaged())).Or(t)
				c := must.Do(s.Cursor(t.Context())).Or(t)
				if c.N != 0 {
					t.Errorf("the cursor is %v", c)
				}
				must.Is(t, place, must.Do(s.Binding(t.Context())).Or(t))
				must.NoError(t, s.Close())
				found := must.Do(filepath.Glob(path(directory) + ".damaged*")).Or(t)
				if int64(len(found)) != n+1 {
					t.Errorf("set aside: %q", found)
				}
			}
		})
	}
}

func TestAStateOfALaterVersionIsLeftAlone(t *testing.T) {
	directory := bound(t)
	s := opened(t, directory)
	must.NoError(t, s.Close())
	path := filepath.Join(directory, mirror.StateDirectory, "state.db")
	content := must.Do(os.ReadFile(path)).Or(t)
	content[63]++ // the last byte of user_version
	must.NoError(t, os.WriteFile(path, content, 0o600))
	must.Fail(t, must.ErrorOf(mirrorstate.Open(directory)), fault.Conflict)
}

func TestNoSymbolicLinkIsFollowedOutOfOrInTheStateDirectory(t *testing.T) {
	for _, name := range []string{"", "state.db", "state.db-wal", "state.db-journal", "binding.json"} {
		t.Run(name, func(t *testing.T) {
			directory, outside := bound(t), filepath.Join(t.TempDir(), "outside")
			planted := filepath.Join(directory, mirror.StateDirectory, name)
			if name == "" {
				must.NoError(t, os.Remove(planted))
				must.NoError(t, os.Mkdir(outside, 0o700))
			}
			must.NoError(t, os.Symlink(outside, planted))
			s, err := mirrorstate.Open(directory)
			if err == nil {
				_, err = s.Binding(t.Context())
				must.NoError(t, s.Close())
			}
			if err == nil || fault.Is(err, fault.NotFound) {
				t.Errorf("opened: %v", err)
			}
			if entries, _ := os.ReadDir(outside); len(entries) > 0 {
				t.Errorf("the link was followed: %v", entries)
			}
			if _, err := os.Stat(outside); err == nil && name != "" {
				t.Error("the link was followed")
			}
		})
	}
}

func TestALogHasTheLastLinesAndCanBeFollowed(t *testing.T) {
	directory := must.Do(mirrorstate.OpenDirectory(bound(t))).Or(t)
	defer directory.Close()
	log := mirrorstate.Log{Directory: directory}
	written := 0
	write := func(lines int) {
		for range lines {
			written++
			must.Do(fmt.Fprintf(&log, "%0100d\n", written)).Or(t)
		}
	}
	var read []int
	each := func(line []byte) error {
		n, err := strconv.Atoi(string(line))
		read = append(read, n)
		return err
	}
	must.NoError(t, mirrorstate.ReadLog(directory, each, func() bool { return false }))
	write(30_000) // the files are renamed twice
	must.NoError(t, log.Close())
	write(1)
	must.NoError(t, mirrorstate.ReadLog(directory, each, func() bool {
		if written < 45_000 { // they are renamed again between two looks
			write(5000)
			return true
		}
		return false
	}))
	must.NoError(t, log.Close())
	if first, last := read[0], read[len(read)-1]; last != written || len(read) != last-first+1 || first > 20_000 || first < 9_000 {
		t.Errorf("%d lines from %d to %d were read of %d", len(read), first, last, written)
	}
	entries := must.Do(os.ReadDir(directory.Name())).Or(t)
	if len(entries) != 2 {
		t.Errorf("the files are %v", entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes and the mode %v, %v", e.Name(), info.Size(), info.Mode(), err)
		}
	}
}
