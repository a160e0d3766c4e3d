//go:build !linux

// Package syncfs makes all of a file system durable by one call.
package syncfs

import (
	"errors"
	"os"
)

// Sync is not supported.
func Sync(*os.File) error { return errors.ErrUnsupported }
