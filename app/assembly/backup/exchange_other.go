//go:build !linux

package backup

import "errors"

// exchange has two folders change their names, in one step.
func exchange(string, string) error { return errors.ErrUnsupported }
