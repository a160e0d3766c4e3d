package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
)

// isOwn returns true: nobody removes a file that is open.
func isOwn(*os.Root, *os.File, string) bool { return true }

// removeAbandoned removes a temporary file that no process has open.
func removeAbandoned(directory *os.Root, name string) {
	path, err := syscall.UTF16PtrFromString(filepath.Join(directory.Name(), name))
	if err != nil {
		return
	}
	file, err := syscall.CreateFile(path, syscall.GENERIC_READ, 0, nil, syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return // it cannot be opened alone
	}
	if syscall.CloseHandle(file) == nil {
		_ = directory.Remove(name) // else the next one tries again
	}
}
