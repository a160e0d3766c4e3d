//go:build !linux

package localdisk

import "errors"

// syncFileSystem is not supported.
func syncFileSystem(directory) error { return errors.ErrUnsupported }
