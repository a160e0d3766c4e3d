package assembly

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"collab/adapters/gormdb"
)

// lockName is the file in a data folder that its server holds alone.
const lockName = "lock"

// errHeld says that somebody else holds a lock.
var errHeld = errors.New("somebody else holds it")

// hold locks a file, which it makes where there is none, until the closer is
// called or the process ends: alone, or with all others that do not want it alone.
// It does not wait.
func hold(path string, alone bool) (io.Closer, error) {
	for {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		if err := flock(f, alone); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The folder may have been replaced before the lock was ours.
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		there, err := os.Stat(path)
		if err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := errors.Join(f.Close(), err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// openLock opens a file that is locked. Where it makes it, the file is its
// folder's owner's: a command of root's must not keep a server out for ever.
func openLock(path string) (*os.File, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(folder)
	if err == nil {
		err = owned(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeFolder makes a folder that is not there yet, whose owner is that of the one
// above it.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	return owned(path, above)
}

// holdDatabase keeps others from replacing a database on SQLite while it is open,
// and with alone from opening it. Other databases know who has them open.
func holdDatabase(c Config, alone bool) (io.Closer, error) {
	if databaseKind(c.DatabaseURL) != "sqlite" {
		return io.NopCloser(nil), nil
	}
	path, err := gormdb.SQLiteFile(c.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	held, err := hold(path+"-lock", alone)
	switch {
	case errors.Is(err, errHeld) && alone:
		return nil, fmt.Errorf("a server or another command has %s open: end it first", path)
	case errors.Is(err, errHeld):
		return nil, fmt.Errorf("%s is being restored from a backup", path)
	case err != nil:
		return nil, fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	return held, nil
}

// holdFolder makes the data folder one server's. The development providers each
// write down all that they know, over what another server's would have written.
func holdFolder(c Config) (io.Closer, error) {
	if databaseKind(c.DatabaseURL) != "sqlite" {
		return io.NopCloser(nil), nil
	}
	held, err := hold(filepath.Join(c.DataDir, lockName), true)
	switch {
	case errors.Is(err, errHeld):
		return nil, fmt.Errorf("COLLAB_DATA_DIR: another server runs on %s, or a backup is being restored to it", c.DataDir)
	case err != nil:
		return nil, fmt.Errorf("COLLAB_DATA_DIR: %w", err)
	}
	return held, nil
}
