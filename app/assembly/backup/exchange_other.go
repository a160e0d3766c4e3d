//go:build !linux

package backup

import "errors"

// exchange is not supported on this platform.
func exchange(string, string) error { return errors.ErrUnsupported }
