//go:build !linux

package bucket

import "io/fs"

// stateOf returns an empty description: it is not known which changes would show in one.
func stateOf(fs.FileInfo) string { return "" }
