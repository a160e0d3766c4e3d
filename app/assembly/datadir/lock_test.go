package datadir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"collab/adapters/filelock"
	"collab/app/assembly/config"
)

func TestLocksAreOfOneOrOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "lock")
	taken := func(alone bool) io.Closer {
		t.Helper()
		l, err := Lock(path, alone)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	refused := func(alone bool) {
		t.Helper()
		if l, err := Lock(path, alone); !errors.Is(err, filelock.ErrLocked) {
			t.Errorf("%v, %v", l, err)
		}
	}
	one, other := taken(false), taken(false)
	refused(true)
	one.Close()
	refused(true)
	other.Close()
	alone := taken(true)
	refused(false)
	refused(true)
	// A directory that is replaced has locks of its own.
	if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+".replaced"); err != nil {
		t.Fatal(err)
	}
	taken(true).Close()
	alone.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestADatabaseOnSQLiteIsOfOneServerAndOfCommands(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "shared.db"), filepath.Join(t.TempDir(), "link.db")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	database := config.NewURL("sqlite://" + file)
	server := func(path string) ([]io.Closer, error) {
		return LockBoth(config.Config{DataDir: t.TempDir(), DatabaseURL: config.NewURL("sqlite://" + path)}, false)
	}
	locks, err := server(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if _, err := server(path); err == nil || !strings.Contains(err.Error(), "another server runs on") {
			t.Errorf("a second server on %s: %v", path, err)
		}
	}
	command, err := LockDatabase(config.Config{DatabaseURL: database}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(locks, command) {
		l.Close()
	}
	if locks, err = server(link); err != nil {
		t.Fatal(err)
	}
	for _, l := range locks {
		l.Close()
	}
}

func TestLocksOfRootAreTheFoldersOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const owner = 12345
	directory := t.TempDir()
	if err := os.Chown(directory, owner, owner); err != nil {
		t.Fatal(err)
	}
	within := filepath.Join(directory, "within")
	if err := MakeDirectory(within); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(within, LockName)
	held, err := Lock(lock, true)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	for _, path := range []string{within, lock} {
		var s syscall.Stat_t
		if err := syscall.Stat(path, &s); err != nil || s.Uid != owner || s.Gid != owner {
			t.Errorf("%s is %d's: %v", path, s.Uid, err)
		}
	}
}
