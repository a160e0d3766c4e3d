//go:build !unix

package fileowner

import "os"

// Inherit does nothing on this platform.
func Inherit(string) error { return nil }

// Set does nothing on this platform.
func Set(string, os.FileInfo) error { return nil }
