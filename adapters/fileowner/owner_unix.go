//go:build unix

package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Inherit gives a file the owner of its directory, if the process runs as root and the directory is
// another user's. Without the right to do so the file stays as it is.
func Inherit(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	directory, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if s, ok := directory.Sys().(*syscall.Stat_t); !ok || s.Uid == 0 {
		return nil
	}
	if err := Set(path, directory); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// Set gives a file the owner of like, if the process runs as root.
func Set(path string, like os.FileInfo) error {
	s, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(s.Uid), int(s.Gid))
}
