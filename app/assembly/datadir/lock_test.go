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
	"collab/test/must"
)

func TestLocksAreOfOneOrOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "lock")
	taken := func(alone bool) io.Closer {
		t.Helper()
		return must.Do(Lock(path, alone)).Or(t)
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
	must.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".replaced"))
	taken(true).Close()
	alone.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestADatabaseOnSQLiteIsOfOneServerAndOfCommands(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "shared.db"), filepath.Join(t.TempDir(), "link.db")
	must.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)))
	database := config.NewURL("sqlite://" + file)
	server := func(path string) ([]io.Closer, error) {
		return LockServer(config.Config{DataDir: t.TempDir(), DatabaseURL: config.NewURL("sqlite://" + path)}, false)
	}
	locks := must.Do(server(file)).Or(t)
	for _, path := range []string{file, link} {
		if _, err := server(path); err == nil || !strings.Contains(err.Error(), "another server runs on") {
			t.Errorf("a second server on %s: %v", path, err)
		}
	}
	command, err := LockDatabase(config.Config{DatabaseURL: database}, false)
	must.NoError(t, err)
	for _, l := range append(locks, command) {
		l.Close()
	}
	locks = must.Do(server(link)).Or(t)
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
	must.NoError(t, os.Chown(directory, owner, owner))
	outer := filepath.Join(directory, "outer")
	within := filepath.Join(outer, "within")
	lock := filepath.Join(within, LockName)
	held := must.Do(Lock(lock, true)).Or(t)
	held.Close()
	for _, path := range []string{outer, within, lock} {
		var s syscall.Stat_t
		if err := syscall.Stat(path, &s); err != nil || s.Uid != owner || s.Gid != owner {
			t.Errorf("%s is %d's: %v", path, s.Uid, err)
		}
	}
}
