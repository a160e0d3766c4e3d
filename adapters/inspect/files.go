package inspect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Free space, in bytes, below which writes are about to fail, and below which that is worth
// a note.
const (
	minSpace = 100 << 20
	lowSpace = 1 << 30
)

// Directory inspects a directory that the server writes to and creates if it does not exist.
// Variable is the environment variable that configures it.
func (f *Findings) Directory(path, variable string) (exists, ok bool) {
	existing := path
	for {
		info, err := os.Stat(existing)
		if err == nil && !info.IsDir() {
			f.Wrong("set "+variable, "%s is not a directory", existing)
			return false, false
		}
		if err == nil {
			break
		}
		if parent := filepath.Dir(existing); errors.Is(err, fs.ErrNotExist) && parent != existing {
			existing = parent
			continue
		}
		f.Wrong("set "+variable, "%s cannot be reached", path).Err = err
		return false, false
	}
	if err := CheckWritable(existing); err != nil {
		f.Wrong("give it to the user that the server runs as (chown, chmod 700), or set "+variable,
			"%s cannot be written to", existing).Err = err
		return false, false
	}
	f.Space(existing)
	return existing == path, true
}

// CheckWritable creates a file in a directory and removes it.
func CheckWritable(directory string) error {
	f, err := os.CreateTemp(directory, ".collabd-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Space inspects the free space at a directory.
func (f *Findings) Space(directory string) {
	free, _, ok := disk(directory)
	switch {
	case ok && free < minSpace:
		f.Wrong("free some: writes fail without space", "%d MiB are free at %s", free>>20, directory)
	case ok && free < lowSpace:
		f.Note("", "%d MiB are free at %s", free>>20, directory)
	}
}

// NetworkFileSystem returns the name of the file system of a directory if it is on another
// machine, else an empty string.
func NetworkFileSystem(directory string) string {
	_, network, _ := disk(directory)
	return network
}

// KeyFile is a file of keys that an inspection reads.
type KeyFile struct {
	Path      string
	Generated bool // the server creates it at its first start
	Variable  string
	Remedy    string // for a file that has no keys
}

// Read returns the content of the file, or false and adds a finding if it cannot be read.
func (k KeyFile) Read(f *Findings) (text []byte, ok bool) {
	text, err := os.ReadFile(k.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && k.Generated:
		f.Note("", "%s is created at the first start", k.Path)
		return nil, false
	case errors.Is(err, fs.ErrNotExist):
		f.Wrong(k.Remedy, "%s, the file of %s, is not there", k.Path, k.Variable)
		return nil, false
	case err != nil:
		f.Wrong("let the user that the server runs as read it", "%s cannot be read", k.Path).Err = err
		return nil, false
	}
	if info, err := os.Stat(k.Path); err == nil && info.Mode().Perm()&0o007 != 0 {
		f.Wrong("chmod 600 "+k.Path,
			"%s can be read or written by all users of this machine (%04o)", k.Path, info.Mode().Perm())
	}
	return text, true
}
