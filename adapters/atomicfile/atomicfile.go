// Package atomicfile writes files that are complete or absent, also after a crash, and unless
// said otherwise readable by their owner only. It imports only the standard library.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Replace calls write with a temporary file in the directory of path, syncs it and renames it
// to path. If write fails, path is unchanged.
func Replace(path string, write func(*os.File) error) error {
	return ReplaceMode(path, 0o600, write)
}

// ReplaceMode is Replace for a file that others than its owner may read or write, with mode less the umask.
func ReplaceMode(path string, mode fs.FileMode, write func(*os.File) error) error {
	return in(path, func(directory *os.Root, name string) error {
		return publish(directory, name, mode, write, directory.Rename)
	})
}

// ReplaceIn is Replace for a name in an open directory. A symbolic link of that name is replaced,
// not followed.
func ReplaceIn(directory *os.Root, name string, write func(*os.File) error) error {
	return publish(directory, name, 0o600, write, directory.Rename)
}

// in calls fn with the directory of path and the name there.
func in(path string, fn func(directory *os.Root, name string) error) error {
	directory, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(fn(directory, filepath.Base(path)), directory.Close())
}

// Create writes content to path unless the file exists. It creates missing directories.
func Create(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return in(path, func(directory *os.Root, name string) error {
		return publish(directory, name, 0o600, Content(content), func(temporary, name string) error {
			// Unlike a rename, a link never replaces a file of another process.
			if err := directory.Link(temporary, name); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		})
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
	return synced(f)
}

// synced flushes an open file or directory to disk, and closes it. On Windows directories cannot be
// flushed, and the journal of the file system has their entries.
func synced(f *os.File) (err error) {
	info, err := f.Stat()
	if err == nil && !(info.IsDir() && runtime.GOOS == "windows") {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Content returns a function that writes content, to be given to Replace and ReplaceIn.
func Content(content []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(content)
		return err
	}
}

// publish writes and syncs a temporary file and calls move to give it the name.
func publish(directory *os.Root, name string, mode fs.FileMode, write func(*os.File) error, move func(temporary, name string) error) (err error) {
	if err := removeLeft(directory, name); err != nil {
		return err
	}
	f, temporary, err := createTemporary(directory, name, mode)
	if err != nil {
		return err
	}
	defer func() { // it must be open as long as it has its name
		removeErr := directory.Remove(temporary)
		if errors.Is(removeErr, fs.ErrNotExist) {
			removeErr = nil
		}
		err = errors.Join(err, removeErr, f.Close())
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = move(temporary, name)
	}
	if err != nil {
		return err
	}
	entries, err := directory.Open(".")
	if err != nil {
		return err
	}
	return synced(entries)
}

// removeLeft removes the temporary files of a name that processes have left which were killed.
func removeLeft(directory *os.Root, name string) error {
	entries, err := directory.Open(".")
	if err != nil {
		return err
	}
	files, err := entries.Readdirnames(-1)
	for _, file := range files {
		random, ok := strings.CutPrefix(file, prefix(name))
		if ok && len(random) == len(rand.Text()) && strings.Trim(random, base32) == "" {
			removeAbandoned(directory, file)
		}
	}
	return errors.Join(err, entries.Close())
}

// base32 has the characters of rand.Text.
const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// prefix returns the prefix of temporary files for a name: as much of the name as leaves room for rand.Text, which
// follows.
func prefix(name string) string {
	const maxPart = 255 - 26 - len(".-") // bytes
	if len(name) > maxPart {
		name = strings.ToValidUTF8(name[:maxPart], "")
	}
	return "." + name + "-"
}

// createTemporary creates a temporary file of a name. Nobody takes it for abandoned while it is open.
func createTemporary(directory *os.Root, name string, mode fs.FileMode) (*os.File, string, error) {
	for {
		temporary := prefix(name) + rand.Text()
		f, err := directory.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, "", err
		}
		if isOwn(directory, f, temporary) {
			return f, temporary, nil
		}
		if err := f.Close(); err != nil {
			return nil, "", err
		}
	}
}
