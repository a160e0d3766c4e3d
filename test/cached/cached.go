// Package cached keeps what tests build or download for longer than one run, in the
// user's cache directory.
package cached

import (
	"os"
	"path/filepath"
	"syscall"
)

// Directory returns the directory of the name below collab-tests in the user's cache directory.
// Where it is missing, fill makes its content in a directory that has another name until
// it is whole. Processes that ask for the same directory wait for each other. The name
// changes whenever the content is to.
func Directory(name string, fill func(dir string) error) (path string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "collab-tests")
	path = filepath.Join(cache, name)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir, err := os.MkdirTemp(cache, name+".new-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		return "", err
	}
	return path, os.Rename(dir, path)
}
