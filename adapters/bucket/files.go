package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"collab/adapters/fileowner"
	"collab/adapters/syncfs"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
)

// files keeps each blob in the file root/key. Content is written to an unnamed file, or one
// in tempDir, and hard-linked to its path, which fails if the path exists. Files and directories that
// root makes belong to the owner of the directory that they are in.
type files struct {
	root string

	// unnamed selects O_TMPFILE for files being written. They disappear with a writer
	// that crashes.
	unnamed bool

	// ordered is set on file systems where the sync of a file makes the links durable that
	// were made to it before.
	ordered bool

	syncFile   func(*os.File) error // (*os.File).Sync, or a test's
	directory  *os.File             // root
	fileSystem *syncfs.FileSystem   // of root; nil if it cannot be synced as a whole

	// dirs is read-locked from ensuring a directory to adding a file to it, and
	// write-locked while an empty directory is removed.
	dirs sync.RWMutex

	putSlots chan struct{} // semaphore: has a value for each call of PutAll that is writing

	mu     sync.Mutex
	synced map[string]struct{} // directories that are synced, with their parents; guarded by mu
}

var (
	_ ports.Blobs    = (*files)(nil)
	_ ports.BlobSets = (*files)(nil)
)

const (
	tempDir    = "!new"    // of files being written; no key begins with it
	maxSynced  = 1 << 16   // directories in files.synced
	maxTempAge = time.Hour // since the last write; older files in tempDir are removed
	copySize   = 256 << 10 // bytes of a file that are copied at once

	maxOpen      = 128 // files that a call of PutAll has open at once, to sync each
	parallelPuts = 4   // calls that write; the others wait, so that some end early and not all of them late

	// timestampStep is more than the steps in which file systems set times: a write so soon
	// after another might set the same time.
	timestampStep = 2 * time.Second
)

func openFiles(dir string) (*files, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := mkdirAllSynced(root); err != nil {
		return nil, err
	}
	directory, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	ordered := isOrdered(root)
	f := &files{
		root: root, unnamed: ordered, ordered: ordered, syncFile: (*os.File).Sync, directory: directory, fileSystem: syncfs.Of(directory),
		putSlots: make(chan struct{}, parallelPuts), synced: map[string]struct{}{},
	}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	return f, nil
}

// prepare makes root durable, creates tempDir, and checks how files can be written.
func (f *files) prepare() error {
	// The process that created root may have crashed before the sync. A parent without
	// read permission was not created by this program.
	if err := syncDir(filepath.Dir(f.root)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := f.ensureDir(filepath.Join(f.root, tempDir)); err != nil {
		return err
	}
	err := f.checkHardLinks()
	if err != nil && f.unnamed {
		f.unnamed = false // the kernel is older, or /proc is not mounted
		err = f.checkHardLinks()
	}
	if err != nil {
		return fmt.Errorf("files cannot be kept in %s, which needs hard links: %w", f.root, err)
	}
	return f.sweepTemp()
}

// mkdirAllSynced is os.MkdirAll with a sync of each parent.
func mkdirAllSynced(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := mkdirAllSynced(parent); err != nil {
			return err
		}
	}
	if err := fileowner.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// checkHardLinks returns an error if the file system has no hard links, which Put needs.
func (f *files) checkHardLinks() error {
	file, err := f.createTemp()
	if err != nil {
		return err
	}
	other := filepath.Join(f.root, tempDir, rand.Text())
	err = f.linkTemp(file, other)
	return errors.Join(err, f.closeTemp(file), ignoreNotExist(os.Remove(other)))
}

// sweepTemp removes files in tempDir that crashed writers left.
func (f *files) sweepTemp() error {
	entries, err := os.ReadDir(filepath.Join(f.root, tempDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > maxTempAge {
			err = os.Remove(filepath.Join(f.root, tempDir, e.Name()))
		}
		if err := ignoreNotExist(err); err != nil {
			return err
		}
	}
	return nil
}

// ignoreNotExist returns nil if err is that of a missing file, else err.
func ignoreNotExist(err error) error {
	if isNotExist(err) {
		return nil
	}
	return err
}

func isNotExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// createTemp creates a file to write a blob to.
func (f *files) createTemp() (*os.File, error) {
	directory := filepath.Join(f.root, tempDir)
	if f.unnamed {
		return createUnnamed(directory)
	}
	return os.OpenFile(filepath.Join(directory, rand.Text()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// linkTemp links the file to path. It returns fs.ErrExist if the path exists.
func (f *files) linkTemp(file *os.File, path string) error {
	if f.unnamed {
		return linkUnnamed(file, path)
	}
	return os.Link(file.Name(), path)
}

// closeTemp closes the file and removes its temporary name. sweepTemp removes one that remains.
func (f *files) closeTemp(file *os.File) error {
	err := file.Close()
	if !f.unnamed {
		_ = os.Remove(file.Name())
	}
	return err
}

func (f *files) path(name string) string {
	return filepath.Join(f.root, filepath.FromSlash(KeyOf(name)))
}

// Put syncs the file after it linked it, where that makes both durable. Elsewhere it syncs the
// content before it links the file, and the directory after that.
func (f *files) Put(ctx context.Context, name, mimeType string, _ int64, r io.Reader) error {
	if err := checkPut(ctx, name, mimeType); err != nil {
		return err
	}
	file, err := f.createTemp()
	if err != nil {
		return unavailable(err)
	}
	s := &source{ctx: ctx, r: r}
	err = s.copyTo(syncfs.NewWriter(file, 0))
	if s.err == nil {
		s.err = ctx.Err()
	}
	if err == nil && s.err == nil {
		err = f.linkDurably(file, f.path(name))
	}
	err = errors.Join(err, f.closeTemp(file))
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, fs.ErrExist):
		return conflict(err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// PutMemory returns the size of the buffer of copyTo.
func (f *files) PutMemory(int64) int64 { return bufferSize }

// linkDurably links the file to path. The content and the link are durable when it returns nil.
func (f *files) linkDurably(file *os.File, path string) error {
	if !f.ordered {
		if err := f.syncFile(file); err != nil {
			return err
		}
		if err := f.link(file, path); err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	}
	if err := f.link(file, path); err != nil {
		return err
	}
	if err := f.syncFile(file); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// link links the file to path and creates missing directories.
func (f *files) link(file *os.File, path string) error {
	return f.addToDir(filepath.Dir(path), nil, func() error {
		if err := f.linkTemp(file, path); err != nil {
			return err
		}
		return fileowner.Inherit(path)
	})
}

// addToDir creates the directory and its missing parents, and calls add, which adds a file to it. It syncs the
// created directories, or if unsynced is not nil adds them to it.
func (f *files) addToDir(dir string, unsynced map[string]bool, add func() error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := f.addToDirOnce(dir, unsynced, add)
		if !errors.Is(err, fs.ErrNotExist) || attempt == attempts {
			return err
		}
		// Another process has removed a directory in f.synced.
		f.mu.Lock()
		clear(f.synced)
		f.mu.Unlock()
		clear(unsynced)
	}
}

func (f *files) addToDirOnce(dir string, unsynced map[string]bool, add func() error) (err error) {
	f.dirs.RLock()
	defer f.dirs.RUnlock()
	if unsynced == nil {
		err = f.ensureDir(dir)
	} else {
		err = f.createDir(dir, unsynced)
	}
	if err != nil {
		return err
	}
	return add()
}

// PutAll writes each content to its file, and syncs the files after all are written, with one sync where the
// system can. A reader may see a file before its content is complete, which Put prevents. If PutAll fails it
// removes the files: a full disk has no room for the records by which they would be collected.
func (f *files) PutAll(ctx context.Context, contents []object.BlobContent) error {
	select {
	case f.putSlots <- struct{}{}:
		defer func() { <-f.putSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	created, err := f.putAll(ctx, contents)
	if err == nil {
		return nil
	}
	for _, c := range contents[:created] {
		_ = os.Remove(f.path(c.Name))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.KindOf(err) != fault.Internal:
		return err
	case errors.Is(err, fs.ErrExist):
		return conflict(err)
	}
	return unavailable(err)
}

// putAll returns how many of the files it has created, from the first on.
func (f *files) putAll(ctx context.Context, contents []object.BlobContent) (created int, err error) {
	if f.fileSystem != nil && len(contents) >= syncfs.MinFiles {
		return f.putSyncingFileSystem(ctx, contents)
	}
	for created < len(contents) && err == nil {
		n := 0
		n, err = f.putSyncingFiles(ctx, contents[created:min(created+maxOpen, len(contents))])
		created += n
	}
	return created, err
}

// putSyncingFileSystem writes the files, and syncs their file system once.
func (f *files) putSyncingFileSystem(ctx context.Context, contents []object.BlobContent) (created int, err error) {
	failures := f.fileSystem.Failures()
	unsynced := map[string]bool{}
	for _, c := range contents {
		file, err := f.write(ctx, c, unsynced)
		if err != nil {
			return created, err
		}
		created++
		if err := file.Close(); err != nil {
			return created, err
		}
	}
	if err = f.fileSystem.Sync(failures); err == nil {
		f.markSynced(unsynced)
	}
	return created, err
}

// putSyncingFiles writes the files, and syncs each.
func (f *files) putSyncingFiles(ctx context.Context, contents []object.BlobContent) (created int, err error) {
	var written []*os.File
	defer func() {
		for _, file := range written {
			err = errors.Join(err, file.Close())
		}
	}()
	var dirs []string
	for _, c := range contents {
		file, err := f.write(ctx, c, nil)
		if err != nil {
			return len(written), err
		}
		written = append(written, file)
		syncfs.StartWriteback(file, 0, 0)
		if dir := filepath.Dir(file.Name()); !f.ordered && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, file := range written {
		if err := f.syncFile(file); err != nil {
			return len(written), err
		}
	}
	for _, dir := range dirs {
		if err := syncDir(dir); err != nil {
			return len(written), err
		}
	}
	return len(written), nil
}

// write creates the file of a content, and missing directories as addToDir does.
func (f *files) write(ctx context.Context, c object.BlobContent, unsynced map[string]bool) (file *os.File, err error) {
	if err := checkPut(ctx, c.Name, c.MimeType); err != nil {
		return nil, err
	}
	path := f.path(c.Name)
	err = f.addToDir(filepath.Dir(path), unsynced, func() (err error) {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = file.Write(c.Content)
	if err == nil {
		err = fileowner.Inherit(path)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return file, nil
}

// ensureDir creates a directory below root and its parents, and syncs them. It syncs existing
// ones too: the process that created them may have crashed before its sync.
func (f *files) ensureDir(dir string) error {
	unsynced := map[string]bool{}
	if err := f.createDir(dir, unsynced); err != nil {
		return err
	}
	for dir := range unsynced {
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	f.markSynced(unsynced)
	return nil
}

// createDir creates a directory below root and its parents. It adds to unsynced those that are not known to be
// synced, even if they existed.
func (f *files) createDir(dir string, unsynced map[string]bool) error {
	if dir == f.root || unsynced[dir] {
		return nil
	}
	f.mu.Lock()
	_, ok := f.synced[dir]
	f.mu.Unlock()
	if ok {
		return nil
	}
	if err := f.createDir(filepath.Dir(dir), unsynced); err != nil {
		return err
	}
	if err := fileowner.Mkdir(dir); err != nil {
		if info, stat := os.Stat(dir); stat != nil || !info.IsDir() {
			return fmt.Errorf("%v", err) // without fs.ErrExist, which means that the blob exists
		}
	}
	unsynced[dir] = true
	return nil
}

// markSynced adds directories to f.synced.
func (f *files) markSynced(dirs map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.synced)+len(dirs) > maxSynced {
		clear(f.synced)
	}
	for dir := range dirs {
		f.synced[dir] = struct{}{}
	}
}

// syncDir syncs the entries of a directory. The kernel combines concurrent calls.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open reads a file.
func (f *files) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := checkOpen(ctx, name, offset); err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(name))
	switch {
	case isNotExist(err):
		return nil, notFound(err)
	case err != nil:
		return nil, unavailable(err)
	}
	r := &fileReader{ctx: ctx, file: file, remaining: length}
	if length < 0 {
		r.remaining = math.MaxInt64
	}
	if r.opened, err = file.Stat(); err == nil && offset > 0 {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, unavailable(errors.Join(err, file.Close()))
	}
	r.state = stateOf(r.opened)
	if r.opened.Mode().IsRegular() { // others have no size
		r.remaining = min(r.remaining, max(0, r.opened.Size()-offset))
	}
	return r, nil
}

// fileReader reads a part of a file.
type fileReader struct {
	ctx       context.Context
	file      *os.File
	remaining int64 // bytes of the part
	opened    fs.FileInfo
	state     string // stateOf(opened)
}

var _ ports.BlobFile = (*fileReader)(nil)

func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.remaining == 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.remaining)])
	r.remaining -= int64(n)
	if err != nil && err != io.EOF {
		err = unavailable(err)
	}
	return n, err
}

// State implements ports.BlobFile.
func (r *fileReader) State() (size int64, state string) {
	if time.Since(r.opened.ModTime()) < timestampStep || !r.unchanged() {
		return r.opened.Size(), ""
	}
	return r.opened.Size(), r.state
}

// unchanged reports whether nothing has written to the file since it was opened. It is false
// where the system cannot tell.
func (r *fileReader) unchanged() bool {
	now, err := r.file.Stat()
	return err == nil && r.state != "" && stateOf(now) == r.state
}

// WriteTo implements ports.BlobFile.
func (r *fileReader) WriteTo(w io.Writer) (written int64, err error) {
	to, ok := w.(io.ReaderFrom)
	if !ok {
		return io.Copy(w, struct{ io.Reader }{r})
	}
	for r.remaining > 0 {
		if err := r.ctx.Err(); err != nil {
			return written, err
		}
		size := min(r.remaining, copySize)
		if size == r.remaining && !r.unchanged() {
			return written, unavailable(errors.New("the file was written to while it was read"))
		}
		n, err := to.ReadFrom(&io.LimitedReader{R: r.file, N: size})
		written += n
		r.remaining -= n
		switch {
		case errors.Is(err, syscall.EIO):
			return written, unavailable(err)
		case err != nil:
			return written, err
		case n < size:
			return written, unavailable(io.ErrUnexpectedEOF)
		}
	}
	return written, nil
}

func (r *fileReader) Close() error { return r.file.Close() }

// Remove deletes a file and its parent directories that are empty then, whose names are
// also those of users.
func (f *files) Remove(ctx context.Context, name string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	path := f.path(name)
	if err := os.Remove(path); err != nil {
		if isNotExist(err) {
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

// prune removes a directory and its parents up to the first that is not empty, and
// returns that.
func (f *files) prune(dir string) string {
	for dir != f.root && isEmpty(dir) {
		f.dirs.Lock()
		err := os.Remove(dir)
		if err == nil {
			f.mu.Lock()
			delete(f.synced, dir)
			f.mu.Unlock()
		}
		f.dirs.Unlock()
		if ignoreNotExist(err) != nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// isEmpty reports whether a directory is empty or missing. prune checks it before it takes
// the write lock.
func isEmpty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return err == io.EOF
}

// List walks the directories. It skips files that are not blobs.
func (f *files) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	if err := f.sweepTemp(); err != nil {
		return unavailable(err)
	}
	var stopErr error
	err := filepath.WalkDir(f.root, func(path string, e fs.DirEntry, err error) error {
		if stopErr = ctx.Err(); stopErr != nil {
			return stopErr
		}
		switch {
		case isNotExist(err) && path != f.root:
			return nil
		case err != nil:
			return err
		case e.IsDir() && path == filepath.Join(f.root, tempDir):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		relative, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		name, ok := NameOf(filepath.ToSlash(relative))
		if !ok {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return ignoreNotExist(err)
		}
		stopErr = each(name, info.Size(), info.ModTime())
		return stopErr
	})
	switch {
	case stopErr != nil:
		return stopErr
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// Ready returns an error if tempDir is not a directory.
func (f *files) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(f.root, tempDir))
	if err == nil && !info.IsDir() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}
