package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"collab/domain/fault"
	"collab/ports"
)

// files keeps each blob in a file of its key below root, written without a name
// or aside and linked into place, which fails where there is something already.
type files struct {
	root string

	// nameless is whether what is being written has no name: the kernel then makes
	// and removes none, and nothing is left by a writer that dies.
	nameless bool

	// folders is held for reading from finding a folder to having something in it,
	// and for writing while an empty folder is removed.
	folders sync.RWMutex

	mu    sync.Mutex
	known map[string]struct{} // folders that are on stable storage, with all above them
}

var _ ports.Blobs = (*files)(nil)

const (
	// aside is the folder of what is being written. No key begins like this.
	aside = "!new"
	// maxKnown bounds the folders that are remembered.
	maxKnown = 1 << 16
	// abandoned is the time without a write after which a file in aside is nobody's.
	abandoned = time.Hour
)

func openFiles(dir string) (*files, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := makeAll(root); err != nil {
		return nil, err
	}
	f := &files{root: root, nameless: takesNameless(root), known: map[string]struct{}{}}
	// Whoever made the root may have died before this. A folder that we may not
	// read was not made by us.
	if err := syncDir(filepath.Dir(root)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err := f.ensure(filepath.Join(root, aside)); err != nil {
		return nil, err
	}
	err = f.tryLink()
	if err != nil && f.nameless {
		f.nameless = false // the kernel is older, or hides what is open
		err = f.tryLink()
	}
	if err != nil {
		return nil, fmt.Errorf("files cannot be kept in %s, which needs hard links: %w", dir, err)
	}
	return f, f.sweep()
}

// makeAll makes the folder and those above it that are missing.
func makeAll(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// tryLink tells at the start what Put would meet on a file system without hard
// links.
func (f *files) tryLink() error {
	file, err := f.create()
	if err != nil {
		return err
	}
	other := filepath.Join(f.root, aside, rand.Text())
	err = f.place(file, other)
	return errors.Join(err, f.drop(file), removed(os.Remove(other)))
}

// sweep removes what writers left behind that did not live to do it.
func (f *files) sweep() error {
	entries, err := os.ReadDir(filepath.Join(f.root, aside))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > abandoned {
			err = os.Remove(filepath.Join(f.root, aside, e.Name()))
		}
		if err := removed(err); err != nil {
			return err
		}
	}
	return nil
}

// removed returns nil for the error that says that there is nothing.
func removed(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// create opens a file that is no blob yet.
func (f *files) create() (*os.File, error) {
	folder := filepath.Join(f.root, aside)
	if f.nameless {
		return createNameless(folder)
	}
	return os.OpenFile(filepath.Join(folder, rand.Text()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// place gives the file a name where there is none.
func (f *files) place(file *os.File, path string) error {
	if f.nameless {
		return nameFile(file, path)
	}
	return os.Link(file.Name(), path)
}

// drop closes the file, of which nothing is left then but the name that place
// gave it. What cannot be removed now is swept later.
func (f *files) drop(file *os.File) error {
	err := file.Close()
	if !f.nameless {
		_ = os.Remove(file.Name())
	}
	return err
}

func (f *files) path(name string) string {
	return filepath.Join(f.root, filepath.FromSlash(keyOf(name)))
}

// Put has the content on the disk before it has the name, and the name before
// it returns.
func (f *files) Put(ctx context.Context, name, mimeType string, _ int64, r io.Reader) error {
	if err := begun(ctx, name); err != nil {
		return err
	}
	if err := checkType(mimeType); err != nil {
		return err
	}
	path := f.path(name)
	if _, err := os.Lstat(path); err == nil {
		return taken(nil)
	}
	file, err := f.create()
	if err != nil {
		return unavailable(err)
	}
	s := &source{ctx: ctx, r: r}
	err = s.pieces(func(p []byte) error {
		_, err := file.Write(p)
		return err
	})
	if err == nil && s.err == nil {
		err = file.Sync()
	}
	if err == nil && s.err == nil {
		if s.err = ctx.Err(); s.err == nil {
			err = f.link(file, path)
		}
	}
	err = errors.Join(err, f.drop(file))
	if err == nil && s.err == nil {
		err = syncDir(filepath.Dir(path))
	}
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, fs.ErrExist):
		return taken(err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// link gives the file its name, in a folder that it makes where there is none.
func (f *files) link(file *os.File, path string) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := f.linkOnce(file, path)
		if !errors.Is(err, fs.ErrNotExist) || attempt == attempts {
			return err
		}
		// Another process has removed a folder that we know.
		f.mu.Lock()
		clear(f.known)
		f.mu.Unlock()
	}
}

func (f *files) linkOnce(file *os.File, path string) error {
	f.folders.RLock()
	defer f.folders.RUnlock()
	if err := f.ensure(filepath.Dir(path)); err != nil {
		return err
	}
	return f.place(file, path)
}

// ensure makes a folder below root, and those above it, and has them on stable
// storage. One that is there already may not be: whoever made it may have died
// before.
func (f *files) ensure(dir string) error {
	if dir == f.root {
		return nil
	}
	f.mu.Lock()
	_, ok := f.known[dir]
	f.mu.Unlock()
	if ok {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := f.ensure(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, stat := os.Stat(dir); stat != nil || !info.IsDir() {
			return fmt.Errorf("%v", err) // not fs.ErrExist: it is no blob that is there
		}
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[dir] = struct{}{}
	return nil
}

// syncDir has the names in a folder on stable storage. The kernel joins those
// of many writers.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open reads a file.
func (f *files) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := begun(ctx, name); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fault.Field("offset", "must not be negative")
	}
	file, err := os.Open(f.path(name))
	switch {
	case isMissing(err):
		return nil, missing(err)
	case err != nil:
		return nil, unavailable(err)
	}
	if offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, unavailable(errors.Join(err, file.Close()))
		}
	}
	if length < 0 {
		return &fileReader{ctx, file, file}, nil
	}
	return &fileReader{ctx, io.LimitReader(file, length), file}, nil
}

type fileReader struct {
	ctx  context.Context
	part io.Reader
	file *os.File
}

func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.part.Read(p)
	if err != nil && err != io.EOF {
		err = unavailable(err)
	}
	return n, err
}

func (r *fileReader) Close() error { return r.file.Close() }

// Remove deletes a file, and the folders that have nothing left in them: their
// names are somebody's as well.
func (f *files) Remove(ctx context.Context, name string) error {
	if err := begun(ctx, name); err != nil {
		return err
	}
	path := f.path(name)
	if err := os.Remove(path); err != nil {
		if isMissing(err) {
			return nil
		}
		return unavailable(err)
	}
	for dir := f.prune(filepath.Dir(path)); ; dir = filepath.Dir(dir) {
		err := syncDir(dir)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == f.root {
			return unavailable(err)
		}
	}
}

// prune removes a folder and those above it as far as they are empty, and
// returns the first that is not.
func (f *files) prune(dir string) string {
	for dir != f.root && isEmpty(dir) {
		f.folders.Lock()
		err := os.Remove(dir)
		if err == nil {
			f.mu.Lock()
			delete(f.known, dir)
			f.mu.Unlock()
		}
		f.folders.Unlock()
		if removed(err) != nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// isEmpty spares writers the lock for folders that are not.
func isEmpty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return err == io.EOF
}

// List walks the folders. Files that are no blobs are passed over.
func (f *files) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	if err := f.sweep(); err != nil {
		return unavailable(err)
	}
	var stopped error
	err := filepath.WalkDir(f.root, func(path string, e fs.DirEntry, err error) error {
		if stopped = ctx.Err(); stopped != nil {
			return stopped
		}
		switch {
		case isMissing(err) && path != f.root:
			return nil
		case err != nil:
			return err
		case e.IsDir() && path == filepath.Join(f.root, aside):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		relative, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		name, ok := nameOf(filepath.ToSlash(relative))
		if !ok {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return removed(err)
		}
		stopped = each(name, info.Size(), info.ModTime())
		return stopped
	})
	switch {
	case stopped != nil:
		return stopped
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// Ready looks for the folder.
func (f *files) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(f.root, aside))
	if err == nil && !info.IsDir() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}
