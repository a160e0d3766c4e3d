//go:build !linux

package localdisk

import (
	"io/fs"
	"os"
)

// openBeneath is not supported.
func openBeneath(*os.File, string) *os.File { return nil }

// isMounted is not supported.
func isMounted(string, fs.FileInfo) bool { return false }
