// Package localdisk implements ports.Disk, ports.DiskWriter and ports.Watcher on a directory of
// this machine. It reaches files through os.Root and open directories alone, so it neither leaves
// the directory nor follows symbolic links.
package localdisk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/text/unicode/norm"

	"collab/adapters/filelock"
	"collab/adapters/syncfs"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/ports"
)

var (
	_ ports.Disk       = (*Disk)(nil)
	_ ports.DiskWriter = (*Disk)(nil)
	_ ports.Watcher    = (*Disk)(nil)
)

// Names in mirror.StateDirectory.
const (
	lockName    = "lock"
	idName      = "id"
	stagingName = "tmp"
	trashName   = "trash"
)

// Disk is a directory that this process has locked. It is safe for concurrent use.
type Disk struct {
	path    string // absolute
	top     directory
	state   directory // mirror.StateDirectory
	staging directory // for staged content, in state
	lock    *os.File
	clock   ports.Clock

	fileSystem *syncfs.FileSystem // of the directory; nil if it cannot be synced as a whole

	device uint64 // of the directory; 0 if unknown

	caseInsensitive bool          // names that differ in case are one file
	normalizing     bool          // names are listed in another Unicode form than they were created in
	maxName         int           // bytes of a name
	timeResolution  time.Duration // two changes that are closer may have the same time

	rules atomic.Pointer[rules] // the last result of Rules

	watching atomic.Bool   // all changes are notified
	settled  chan struct{} // has a value when the notification that Settle waits for has arrived

	// Held while directories are made for a file, or removed with one, so that no directory is
	// removed into which a file is about to be moved.
	directories sync.Mutex
	unsynced    map[string]int // directories from openOrCreate whose names are not durable yet, numbered by created
	created     int            // the number of directories that openOrCreate has made
}

// Open opens an existing directory, makes its state directory if there is none, and locks it
// until Close or the end of the process. NotFound if there is no such directory, Conflict if
// another process has it open.
func Open(path string, clock ports.Clock) (*Disk, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, failed(err, "The directory cannot be found")
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, failed(err, "The directory %s cannot be opened", path)
	}
	d := &Disk{path: path, top: directory{root: root}, clock: clock, unsynced: map[string]int{}, settled: make(chan struct{}, 1)}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Vacant reports whether a directory has nothing in it but system files and directories, not even its state
// directory.
func Vacant(path string) (bool, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return false, failed(err, "The directory %s cannot be opened", path)
	}
	defer discard(root)
	vacant := true
	err = directory{root: root}.each(func(info fs.FileInfo) error {
		vacant = vacant && (isSystemDirectory(info.Name()) || isSystemFile(info.Name()))
		return nil
	})
	return vacant, failed(err, "The directory %s cannot be read", path)
}

// Close releases the directory. No method may be called after it.
func (d *Disk) Close() error {
	var errs []error
	for _, at := range []directory{d.staging, d.state, d.top} {
		if at.self != nil {
			errs = append(errs, at.self.Close())
		}
		if at.root != nil {
			errs = append(errs, at.root.Close())
		}
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// prepare makes and locks the state directory, and determines how the file system treats names and times.
func (d *Disk) prepare() error {
	info, err := d.top.root.Stat(".")
	if err != nil {
		return failed(err, "The directory cannot be read")
	}
	_, d.device = factsOf(info)
	if d.top.self, err = d.top.root.Open("."); err != nil {
		return failed(err, "The directory cannot be opened")
	}
	state := filepath.Join(d.path, mirror.StateDirectory)
	if d.state, err = d.top.makeDirectory(mirror.StateDirectory); err != nil {
		return failed(err, "The directory %s cannot be made", state)
	}
	if info, err = d.state.root.Stat("."); err != nil {
		return failed(err, "The directory %s cannot be read", state)
	}
	if isForeign(info) {
		return fault.New(fault.Forbidden, "The directory %s belongs to another user", state)
	}
	if info.Mode().Perm()&0o077 != 0 {
		_ = d.state.root.Chmod(".", 0o700) // some file systems have no permissions
	}
	d.lock, err = d.state.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = filelock.TryLock(d.lock, true)
	}
	if errors.Is(err, filelock.ErrLocked) {
		return fault.New(fault.Conflict, "Another process synchronises %s: end it first", d.path)
	}
	if err != nil {
		return failed(err, "The lock of the directory cannot be taken")
	}
	if d.staging, err = d.state.makeDirectory(stagingName); err != nil {
		return failed(err, "The directory for downloads cannot be made")
	}
	if d.staging.self, err = d.staging.root.Open("."); err != nil {
		return failed(err, "The directory for downloads cannot be opened")
	}
	d.fileSystem = syncfs.Of(d.staging.self)
	if err := d.identify(); err != nil {
		return failed(err, "The directory cannot be marked")
	}
	if err := d.probe(); err != nil {
		return failed(err, "The file system cannot be tried out")
	}
	return nil
}

// identify gives the directory a random id if it has none.
func (d *Disk) identify() error {
	if id, err := d.state.root.ReadFile(idName); err == nil && len(id) > 0 {
		return nil
	}
	f, err := d.state.root.OpenFile(idName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(rand.Text())
	return errors.Join(err, f.Sync(), f.Close(), d.state.sync(), d.top.sync())
}

// probe determines the properties of the file system with a file in the staging directory.
func (d *Disk) probe() (err error) {
	const created, otherCase, decomposed = "probe-\u00e9", "PROBE-\u00e9", "probe-e\u0301"
	f, err := d.staging.root.OpenFile(created, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.staging.root.Remove(created)) }()
	if err := f.Close(); err != nil {
		return err
	}
	_, err = d.staging.root.Lstat(otherCase)
	d.caseInsensitive = err == nil
	err = d.staging.each(func(info fs.FileInfo) error {
		d.normalizing = d.normalizing || info.Name() == decomposed
		return nil
	})
	if err != nil {
		return err
	}
	// A file system keeps a time to its own precision, and the kernel takes it from a clock
	// that ticks at least every 10 ms.
	precise := time.Unix(1_600_000_001, 123_456_700)
	if err := d.staging.root.Chtimes(created, precise, precise); err != nil {
		return err
	}
	info, err := d.staging.root.Lstat(created)
	if err != nil {
		return err
	}
	d.timeResolution = 20 * time.Millisecond
	if !info.ModTime().Equal(precise) {
		d.timeResolution = 2 * time.Second
	}
	for d.maxName = 255; d.maxName > 64; d.maxName-- {
		if _, err := d.staging.root.Lstat(strings.Repeat("x", d.maxName)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil
}

// Identity returns a random id that is stored in the directory with its inode, or 0 where that
// changes. Device numbers, which can change when the machine starts, are no part of it.
func (d *Disk) Identity(context.Context) (string, error) {
	if err := d.present(); err != nil {
		return "", err
	}
	info, err := d.top.root.Stat(".")
	if err != nil {
		return "", failed(err, "The directory cannot be read")
	}
	id, err := d.state.root.ReadFile(idName)
	if err != nil {
		return "", failed(err, "The id of the directory cannot be read")
	}
	facts, _ := factsOf(info)
	if !keepsInodes(d.top.self) {
		facts.Inode = 0
	}
	return fmt.Sprintf("%s-%d", strings.TrimSpace(string(id)), facts.Inode), nil
}

// present returns an error unless the directory that was opened, with its state directory, is
// still the one of the path.
func (d *Disk) present() error {
	for _, at := range []directory{d.top, d.state} {
		opened, err := at.root.Stat(".")
		if err != nil {
			return failed(err, "The directory cannot be read")
		}
		now, err := os.Lstat(filepath.Join(d.path, filepath.FromSlash(at.name)))
		if at.name == "" {
			now, err = os.Stat(d.path)
		}
		if err != nil {
			return failed(err, "The directory %s cannot be found", filepath.Join(d.path, at.name))
		}
		if !os.SameFile(opened, now) {
			return fault.New(fault.NotFound, "Another directory has taken the place of %s", filepath.Join(d.path, at.name))
		}
	}
	return nil
}

// entryOf returns what a scan finds of a file or directory, without a checksum.
func (d *Disk) entryOf(in directory, info fs.FileInfo) mirror.Entry {
	name := in.below(info.Name())
	if d.normalizing {
		name = in.below(norm.NFD.String(info.Name()))
	}
	e := mirror.Entry{Path: norm.NFC.String(name), Name: name}
	var device uint64
	e.Facts, device = factsOf(info)
	switch mode := info.Mode(); {
	case mode.IsDir() && device != d.device:
		e.Kind = mirror.Unreadable // nothing can be moved between file systems
	case mode.IsDir():
		e.Kind = mirror.Directory
	case mode.IsRegular():
		e.Kind = mirror.File
	case mode&fs.ModeSymlink != 0:
		e.Kind = mirror.Symlink
	default:
		e.Kind = mirror.Special
	}
	return e
}

// failed returns an error of the kinds that the port names.
func failed(err error, format string, args ...any) error {
	kind := fault.Unavailable
	switch {
	case err == nil:
		return nil
	case fault.KindOf(err) != fault.Internal, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		kind = fault.NotFound
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, errChanged):
		kind = fault.Conflict
	case errors.Is(err, fs.ErrPermission), isReadOnly(err):
		kind = fault.Forbidden
	case isFull(err):
		return fault.Wrap(kind, err, "%s: the disk is full", fmt.Sprintf(format, args...))
	}
	return fault.Wrap(kind, err, format, args...)
}

// isGone reports whether an error says that there is no such file or directory.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// discard closes a file or directory that was only read.
func discard(c io.Closer) { _ = c.Close() }
