// Package atomicfile writes files that are complete or absent, also after a crash.
// They are readable by their owner alone. It is a leaf: it imports the standard
// library alone.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace has write fill a temporary file in the folder of path, and renames it to
// path once it is on disk. A file at path is replaced. If write fails, path is as it
// was.
func Replace(path string, write func(*os.File) error) error {
	return publish(path, write, os.Rename)
}

// Create writes content to path unless a file exists there, which it leaves alone. It
// makes the folders that are missing.
func Create(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return publish(path, contentWriter(content), func(temporary, path string) error {
		// Unlike a rename, a link never replaces what another process has made.
		if err := os.Link(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// ReadOrCreate returns the content of the file at path. If there is none, it first
// creates one with what generate returns. Of several processes that do so at once one
// creates the file, and all return the same content.
func ReadOrCreate(path string, generate func() ([]byte, error)) ([]byte, error) {
	content, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	if content, err = generate(); err != nil {
		return nil, err
	}
	if err := Create(path, content); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Sync flushes a file, or the names in a folder, to disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func contentWriter(content []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(content)
		return err
	}
}

// publish writes a temporary file, flushes it, and has name give it its path.
func publish(path string, write func(*os.File) error, name func(temporary, path string) error) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return Sync(folder)
}
