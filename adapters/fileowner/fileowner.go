// Package fileowner gives files that root creates to the owner of their directory, so that a command
// run by root does not lock out a server that runs as another user.
package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MkdirAll creates a directory and its parents with mode 0700, each with the owner of the one above it.
func MkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(path); above != path {
		if err := MkdirAll(above); err != nil {
			return err
		}
	}
	err := Mkdir(path)
	if errors.Is(err, fs.ErrExist) {
		if info, stat := os.Stat(path); stat == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Mkdir creates a directory with mode 0700 and the owner of the one above it.
func Mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return Inherit(path)
}
