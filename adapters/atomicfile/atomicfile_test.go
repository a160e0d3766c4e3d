package atomicfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"collab/adapters/atomicfile"
	"collab/test/must"
)

func TestAFileIsCreatedOnceAndForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "secret")
	const processes = 16
	read := make([]string, processes)
	var wg sync.WaitGroup
	for i := range read {
		wg.Go(func() {
			got, err := atomicfile.ReadOrCreate(path, func() ([]byte, error) { return fmt.Appendf(nil, "made by %d", i), nil })
			must.Succeed(t, err)
			read[i] = string(got)
		})
	}
	wg.Wait()
	stored, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(stored), "made by ") {
		t.Fatalf("%q, %v", stored, err)
	}
	for _, got := range read {
		if got != string(stored) {
			t.Errorf("a process went on with %q, which is not in the file", got)
		}
	}
	must.NoError(t, atomicfile.Create(path, []byte("another")))
	if got, err := atomicfile.ReadOrCreate(path, nil); err != nil || string(got) != string(stored) {
		t.Errorf("the file was replaced with %q, %v", got, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", p, info.Mode(), err)
		}
	}
}

func TestAFileIsReplacedCompletelyOrNotAtAll(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "backup")
	look := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(directory)
		if err != nil || len(entries) != len(want) {
			t.Fatalf("%v, %v", entries, err)
		}
		for i, e := range entries {
			must.Is(t, want[i], e.Name())
		}
	}
	full := func(f *os.File) error {
		_, err := f.WriteString("half of i")
		return errors.Join(err, syscall.ENOSPC)
	}
	must.FailIs(t, atomicfile.Replace(path, full), syscall.ENOSPC)
	look()
	for _, text := range []string{"one", "other"} {
		must.NoError(t, atomicfile.Replace(path, func(f *os.File) error { return must.ErrorOf(f.WriteString(text)) }))
		must.FailIs(t, atomicfile.Replace(path, full), syscall.ENOSPC)
		look("backup")
		must.Is(t, text, string(must.Do(os.ReadFile(path)).Or(t)))
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

func TestTemporaryFilesOfKilledProcessesAreRemoved(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "backup")
	list := func() (all []string) {
		entries := must.Do(os.ReadDir(directory)).Or(t)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	others := []string{".backup-" + strings.Repeat("a", 26), ".backup-NOTES", ".other-" + strings.Repeat("A", 26)}
	for _, name := range append(others, ".backup-"+strings.Repeat("A", 26)) {
		must.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte("secret"), 0o600))
	}
	// What a process is writing is not taken for abandoned by others.
	must.NoError(t, atomicfile.Replace(path, func(f *os.File) error {
		if left := list(); len(left) != len(others)+1 || !slices.Contains(left, filepath.Base(f.Name())) {
			t.Errorf("while it is written there are %q", left)
		}
		_, err := f.WriteString("one")
		return errors.Join(err, atomicfile.Replace(path, atomicfile.Content([]byte("another"))), atomicfile.Create(path, nil))
	}))
	must.Is(t, "one", string(must.Do(os.ReadFile(path)).Or(t)))
	want := append(others, "backup")
	slices.Sort(want)
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestADocumentHoldsWhatIsOnDisk(t *testing.T) {
	errEmpty := errors.New("it is empty")
	path := filepath.Join(t.TempDir(), "deep", "document")
	open := func() (*atomicfile.Document[map[string]int], error) {
		return atomicfile.OpenDocument(path, map[string]int{"a": 1}, func(m map[string]int) error {
			if len(m) == 0 {
				return errEmpty
			}
			return nil
		})
	}
	d := must.Do(open()).Or(t)
	set := func(value int, changed bool, err error) error {
		return d.Update(func(m *map[string]int) (bool, error) {
			(*m)["a"] = value
			return changed, err
		})
	}
	expect := func(want int) {
		t.Helper()
		d.Read(func(m *map[string]int) {
			if (*m)["a"] != want {
				t.Errorf("memory has %v, want %d", *m, want)
			}
		})
		again := must.Do(open()).Or(t)
		again.Read(func(m *map[string]int) {
			if (*m)["a"] != want {
				t.Errorf("the file has %v, want %d", *m, want)
			}
		})
	}
	expect(1)
	must.NoError(t, set(2, true, nil))
	expect(2)
	must.NoError(t, set(3, false, nil))
	must.FailIs(t, set(3, true, errEmpty), errEmpty)
	expect(2)
	for _, content := range []string{"{}", "{", `{"a":"b"}`} {
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		if _, err := open(); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v", content, err)
		}
	}
	must.NoError(t, os.RemoveAll(filepath.Dir(path)))
	if err := set(4, true, nil); err == nil {
		t.Error("an update that cannot be stored succeeds")
	}
	d.Read(func(m *map[string]int) {
		if (*m)["a"] != 2 {
			t.Errorf("memory has %v after an update that was not stored", *m)
		}
	})
}
