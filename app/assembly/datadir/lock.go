// Package datadir locks data directories and SQLite databases between servers and commands.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"collab/adapters/filelock"
	"collab/adapters/fileowner"
	"collab/adapters/gormdb"
	"collab/app/assembly/config"
)

// LockName is the name of the file in a data directory that its server locks exclusively.
const LockName = "lock"

// Lock locks a file, exclusively or shared, until the closer is closed or the process ends. It
// creates the file if there is none. It does not wait: if another process holds a lock that
// excludes this one, the error is filelock.ErrLocked.
func Lock(path string, exclusive bool) (io.Closer, error) {
	for {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		if err := filelock.TryLock(f, exclusive); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The directory may have been replaced before the lock was taken.
		locked, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		existing, err := os.Stat(path)
		if err == nil && os.SameFile(locked, existing) {
			return f, nil
		}
		if err := errors.Join(f.Close(), err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// openLock opens the file of a lock. A new one, and a new directory, belong to the owner of the directory.
func openLock(path string) (*os.File, error) {
	if err := fileowner.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := fileowner.Inherit(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// databaseFile returns the path of an SQLite database, without symbolic links if it exists: all who lock it
// must mean the same file.
func databaseFile(c config.Config) (string, error) {
	path, err := gormdb.SQLiteFile(c.DatabaseURL.Text())
	if err == nil {
		var real string
		if real, err = filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
}

// LockDatabase locks an SQLite database against replacement, and if exclusive is set against
// other processes that open it. Other databases need no such lock.
func LockDatabase(c config.Config, exclusive bool) (io.Closer, error) {
	if c.Database() != "sqlite" {
		return io.NopCloser(nil), nil
	}
	path, err := databaseFile(c)
	if err != nil {
		return nil, err
	}
	lock, err := Lock(path+"-lock", exclusive)
	switch {
	case errors.Is(err, filelock.ErrLocked) && exclusive:
		return nil, fmt.Errorf("a server or another command has %s open: end it first", path)
	case errors.Is(err, filelock.ErrLocked):
		return nil, fmt.Errorf("%s is being restored from a backup; wait until that ends", path)
	case err != nil:
		return nil, fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	return lock, nil
}

// LockExisting is LockDatabase beside servers, for a database on SQLite that must exist.
func LockExisting(c config.Config) (io.Closer, error) {
	if c.Database() == "sqlite" {
		path, err := databaseFile(c)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("COLLAB_DATABASE_URL: there is no database: %w", err)
		}
	}
	return LockDatabase(c, false)
}

// lockDirectory locks the data directory for one server, because the development providers of two
// would overwrite each other's files. If the configuration has none, it does nothing.
func lockDirectory(c config.Config) (io.Closer, error) {
	if c.DataDir == "" {
		return io.NopCloser(nil), nil
	}
	lock, err := Lock(filepath.Join(c.DataDir, LockName), true)
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return nil, fmt.Errorf("COLLAB_DATA_DIR: another server runs on %s, or a backup is being restored to it", c.DataDir)
	case err != nil:
		return nil, fmt.Errorf("COLLAB_DATA_DIR: %w", err)
	}
	return lock, nil
}

// lockServerFile locks the database for one server, which caches what it alone writes. Commands may
// have the database open as well.
func lockServerFile(c config.Config) (io.Closer, error) {
	path, err := databaseFile(c)
	if err != nil {
		return nil, err
	}
	lock, err := Lock(path+"-server", true)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("COLLAB_DATABASE_URL: another server runs on %s; only a database on Postgres serves several", path)
	}
	return lock, err
}

// LockServer locks the data directory and an SQLite database for one server, the database exclusively or
// shared with commands. Servers on other databases need no such locks.
func LockServer(c config.Config, exclusive bool) (locks []io.Closer, err error) {
	if c.Database() != "sqlite" {
		return nil, nil
	}
	database := func(c config.Config) (io.Closer, error) { return LockDatabase(c, exclusive) }
	for _, lockOne := range []func(config.Config) (io.Closer, error){lockDirectory, database, lockServerFile} {
		lock, err := lockOne(c)
		if err != nil {
			for _, l := range locks {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
		locks = append(locks, lock)
	}
	return locks, nil
}
