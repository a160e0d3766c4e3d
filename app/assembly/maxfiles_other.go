//go:build !linux

package assembly

// maxFiles returns how many files the process may have open.
func maxFiles() (n uint64, ok bool) { return 0, false }
