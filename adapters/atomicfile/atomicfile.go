// Package atomicfile writes files that are complete or absent, also after a crash, and
// readable by their owner only. It imports only the standard library.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace calls write with a temporary file in the directory of path, syncs it and renames it
// to path. If write fails, path is unchanged.
func Replace(path string, write func(*os.File) error) error {
	return publish(path, write, os.Rename)
}

// Create writes content to path unless the file exists. It creates missing directories.
func Create(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return publish(path, contentWriter(content), func(temporary, path string) error {
		// Unlike a rename, a link never replaces a file of another process.
		if err := os.Link(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// ReadOrCreate returns the content of the file at path. It creates a missing file with the
// content that generate returns. Concurrent processes return the same content.
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

// Sync flushes a file, or the entries of a directory, to disk. Windows cannot flush directories.
func Sync(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() && runtime.GOOS == "windows" {
		return nil
	}
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

// publish writes and syncs a temporary file and calls move to move it to path.
func publish(path string, write func(*os.File) error, move func(temporary, path string) error) (err error) {
	directory := filepath.Dir(path)
	f, err := os.CreateTemp(directory, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.Remove(f.Name()); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	return Sync(directory)
}
