// Package filelock locks open files between processes. The system releases a lock when the file
// is closed or the process ends.
package filelock

import "errors"

// ErrLocked is returned if another process, or another open file of this one, holds a lock that
// excludes the requested one.
var ErrLocked = errors.New("the file is locked by another process")
