//go:build !linux

package localdisk

import (
	"errors"
	"os"
)

// syncFileSystem is not supported.
func syncFileSystem(directory) error { return errors.ErrUnsupported }

// openBeneath is not supported.
func openBeneath(*os.File, string) *os.File { return nil }
