package localdisk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"collab/domain/fault"
	"collab/domain/mirror"
)

// directory is an open directory that was reached through directories alone.
type directory struct {
	name string // from the top, / between segments, as the file system has it; the top is empty
	root *os.Root
	self *os.File // the directory itself, open for many renames; nil: it is opened for each
}

// file returns the open directory itself. The caller must call done when it no longer uses the file.
func (at directory) file() (f *os.File, done func(), err error) {
	if at.self != nil {
		return at.self, func() {}, nil
	}
	f, err = at.root.Open(".")
	return f, func() { discard(f) }, err
}

// close closes a directory and its file.
func (at directory) close() {
	if at.self != nil {
		discard(at.self)
	}
	discard(at.root)
}

// below returns the name of a file in the directory, from the top.
func (at directory) below(name string) string { return path.Join(at.name, name) }

// split returns the directory and the last segment of a name, the directory being empty for the
// top.
func split(name string) (parent, last string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

// errMounted is the error for a directory at which a file system is mounted.
var errMounted = errors.New("something is mounted at the directory")

// enter opens a directory in another one, unless something is mounted there, also a part of the same file system:
// nothing can be moved into it, and without it the directory is empty.
func (at directory) enter(name string) (directory, error) {
	before, err := at.root.Lstat(name)
	if err != nil {
		return directory{}, err
	}
	if !before.IsDir() {
		return directory{}, &fs.PathError{Op: "open", Path: at.below(name), Err: syscall.ENOTDIR}
	}
	root, err := at.root.OpenRoot(name)
	if err != nil {
		return directory{}, err
	}
	// A symbolic link may have taken the place of the directory.
	after, err := root.Stat(".")
	switch {
	case err != nil:
	case !os.SameFile(before, after):
		err = &fs.PathError{Op: "open", Path: at.below(name), Err: syscall.ENOTDIR}
	case isMounted(root.Name(), after):
		err = &fs.PathError{Op: "open", Path: at.below(name), Err: errMounted}
	}
	if err != nil {
		discard(root)
		return directory{}, err
	}
	return directory{name: at.below(name), root: root}, nil
}

// makeDirectory opens a directory in another one, and makes it durable if it had to be made.
func (at directory) makeDirectory(name string) (directory, error) {
	err := at.root.Mkdir(name, 0o700)
	if err == nil {
		err = at.sync()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return directory{}, err
	}
	return at.enter(name)
}

// descend calls next for each segment of a path, with the directory reached so far, which it
// closes afterwards. The result is to be closed.
func (at directory) descend(name string, next func(at directory, segment string) (directory, error)) (directory, error) {
	root, err := at.root.OpenRoot(".")
	if err != nil || name == "" {
		return directory{name: at.name, root: root}, err
	}
	at = directory{name: at.name, root: root}
	for segment := range strings.SplitSeq(name, "/") {
		below, err := next(at, segment)
		discard(at.root)
		if err != nil {
			return directory{}, err
		}
		at = below
	}
	return at, nil
}

// open opens the directory of that name below.
func (at directory) open(name string) (directory, error) {
	return at.descend(name, directory.enter)
}

// names returns the names in the directory that are accepted. It returns an ASCII name that exists without listing the
// directory, if the file system distinguishes case.
func (d *Disk) names(at directory, name string, accepted func(name string) bool) ([]string, error) {
	if !d.caseInsensitive && strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		if _, err := at.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return []string{name}, err
		}
	}
	f, err := at.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer discard(f)
	names, err := f.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return !accepted(name) }), err
}

// openOrCreate opens the directory of a path, and makes those that do not exist under any spelling of
// the same folded form. It adds those whose names are not durable yet to unsynced, for syncNames. The caller
// must hold d.directories.
func (d *Disk) openOrCreate(path string, unsynced map[string]int) (directory, error) {
	return d.top.descend(path, func(at directory, segment string) (directory, error) {
		names, err := d.names(at, segment, func(name string) bool { return mirror.KeyOf(name) == mirror.KeyOf(segment) })
		if err != nil {
			return directory{}, err
		}
		var below directory
		switch {
		case slices.Contains(names, segment):
			below, err = at.enter(segment)
		case len(names) > 0:
			below, err = at.enter(names[0])
		default:
			if err = at.root.Mkdir(segment, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
				d.created++
				d.unsynced[at.below(segment)] = d.created
				below, err = at.enter(segment)
			}
		}
		if n, ok := d.unsynced[below.name]; ok && err == nil {
			unsynced[below.name] = n
		}
		if err == nil && at.name == "" && d.isState(below) {
			discard(below.root)
			err = fault.New(fault.Forbidden, "%s is the directory of this program's own files", below.name)
		}
		return below, err
	})
}

// isState reports whether a directory is the state directory, which can have names that no list has, such
// as the short one of Windows.
func (d *Disk) isState(at directory) bool {
	state, err := d.state.root.Stat(".")
	info, infoErr := at.root.Stat(".")
	return err != nil || infoErr != nil || os.SameFile(state, info)
}

// find calls each with every directory below at whose name composes to path, one for most paths.
func (d *Disk) find(at directory, path string, each func(directory) error) error {
	if path == "" {
		return each(at)
	}
	segment, rest, _ := strings.Cut(path, "/")
	names, err := d.names(at, segment, func(name string) bool { return norm.NFC.String(name) == segment })
	if err != nil {
		return err
	}
	for _, name := range names {
		below, err := at.enter(name)
		if isGone(err) {
			continue // files are found by a scan of the directory that they are in
		}
		if err != nil {
			return err
		}
		err = d.find(below, rest, each)
		discard(below.root)
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls fn with each file of the directory. It does not follow symbolic links.
func (at directory) each(fn func(fs.FileInfo) error) error {
	f, err := at.root.Open(".")
	if err != nil {
		return err
	}
	defer discard(f)
	for {
		infos, err := f.Readdir(1024)
		for _, info := range infos {
			if err := fn(info); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sync makes the names in the directory durable.
func (at directory) sync() error {
	f, done, err := at.file()
	if err != nil {
		return err
	}
	defer done()
	return syncDirectory(f)
}
