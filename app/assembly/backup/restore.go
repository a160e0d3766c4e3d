package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"collab/adapters/archive"
	"collab/adapters/atomicfile"
	"collab/adapters/filelock"
	"collab/adapters/fileowner"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/domain/fault"
)

// Check verifies a whole archive and reports its content on out.
func Check(ctx context.Context, file string, out io.Writer) (err error) {
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, t, err := verify(ctx, f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	_, err = fmt.Fprintf(out, "%s is whole: the state of %s, made by version %s, with the content of %d files, %s in all.\n",
		file, a.createdAt.Format(time.RFC3339), a.version, t.blobs, formatSize(t.bytes))
	return err
}

// openArchive opens an archive, which is read twice.
func openArchive(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// verify reads an archive, and returns an error if this program cannot restore it.
func verify(ctx context.Context, f *os.File) (archiveHeader, totals, error) {
	a, t, err := scan(ctx, f, func(archiveHeader, entry, io.Reader) error { return nil })
	if err != nil {
		return a, t, err
	}
	return a, t, checkSchema(a.schema)
}

// checkSchema returns an error if this program does not know the schema of a database.
func checkSchema(schema int64) error {
	if supported := gormdb.Schema(); schema > supported {
		return fmt.Errorf("its database has the schema version %d, and this program knows %d: use a later one",
			schema, supported)
	}
	return nil
}

// RestoreDirectory replaces the data directory by the content of the archive, and reports on out. If
// the directory is not empty, it is renamed if replace is set, and an error is returned otherwise. If
// RestoreDirectory is interrupted, the directory has either the old state or the new one.
func RestoreDirectory(ctx context.Context, c config.Config, file string, replace bool, out io.Writer) (err error) {
	if err := checkEmbedded(c); err != nil {
		return err
	}
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, t, err := verify(ctx, f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r, err := newRestoration(c, replace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	epoch, err := r.unpack(ctx, f, system.Clock{}.Now())
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	oldPath, err := r.replaceDirectory(system.Clock{}.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Restored the state of %s, made by version %s: the database and the content of %d files, %s, are in %s.\n",
		a.createdAt.Format(time.RFC3339), a.version, t.blobs, formatSize(t.bytes), r.directory)
	if err == nil && oldPath != "" {
		_, err = fmt.Fprintf(out, "The previous data is in %s: remove it when you do not need it any more.\n", oldPath)
	}
	if err == nil {
		next := "Start the server"
		if c.Production() {
			next = `Run "collabd migrate", then start the server`
		}
		_, err = fmt.Fprintf(out, "Clients will read everything again (the logs have the epoch %d). %s.\n", epoch, next)
	}
	return err
}

// Unpack verifies an archive and writes its files to an existing directory, from which it first removes
// everything but the lock, which the caller must hold. After an error the content of the directory is
// incomplete.
func Unpack(ctx context.Context, file, directory string) (err error) {
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := clearDirectory(directory); err != nil {
		return err
	}
	return unpack(ctx, f, directory)
}

// restoration creates a directory beside the data directory, and then replaces the data directory by it.
type restoration struct {
	directory string      // the data directory, without links in its path
	staging   string      // the new directory
	oldInfo   fs.FileInfo // of the data directory, nil if there is none
	notEmpty  bool        // the data directory is not empty
	locks     []io.Closer
}

// newRestoration returns an error if the data directory may not be replaced, and locks it.
func newRestoration(c config.Config, replace bool) (r *restoration, err error) {
	r = &restoration{}
	if r.directory, err = filepath.Abs(c.DataDir); err != nil {
		return nil, err
	}
	for variable, paths := range map[string][2]string{
		"COLLAB_DATABASE_URL": {c.DatabaseURL.Path(), filepath.Join(c.DataDir, databaseName)},
		"COLLAB_BLOB_URL":     {c.BlobURL.Path(), filepath.Join(c.DataDir, blobsName)},
	} {
		if !samePath(paths[0], paths[1]) {
			return nil, fmt.Errorf("%s: everything is restored into COLLAB_DATA_DIR; leave this unset, or name %s",
				variable, paths[1])
		}
	}
	if path, err := filepath.EvalSymlinks(r.directory); err == nil {
		r.directory = path
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.checkReplaceable(replace); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.notEmpty {
		c.DataDir, c.DatabaseURL = r.directory, config.NewURL("sqlite://"+filepath.Join(r.directory, databaseName))
		if r.locks, err = datadir.LockServer(c, true); err != nil {
			return r, err
		}
	}
	// The lock file is moved with the directory, so that no server starts on it too early.
	stagingPath := r.directory + ".restoring"
	lock, err := datadir.Lock(filepath.Join(stagingPath, datadir.LockName), true)
	if errors.Is(err, filelock.ErrLocked) {
		return r, fmt.Errorf("another restore to %s is under way", r.directory)
	}
	if err != nil {
		return r, err
	}
	r.locks, r.staging = append(r.locks, lock), stagingPath
	// A killed restore may have left files behind.
	return r, clearDirectory(stagingPath)
}

// samePath reports whether two paths are the same.
func samePath(a, b string) bool {
	x, errA := filepath.Abs(a)
	y, errB := filepath.Abs(b)
	return errA == nil && errB == nil && x == y
}

// checkReplaceable returns an error unless the data directory may be replaced.
func (r *restoration) checkReplaceable(replace bool) error {
	info, err := os.Stat(r.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return fileowner.MkdirAll(filepath.Dir(r.directory))
	}
	if err != nil {
		return err
	}
	r.oldInfo = info
	parent, err := os.Stat(filepath.Dir(r.directory))
	if err != nil {
		return err
	}
	if !datadir.SameDisk(info, parent) {
		return fmt.Errorf("%s is where a disk is mounted, which cannot be replaced: "+
			"let COLLAB_DATA_DIR be a directory on that disk", r.directory)
	}
	entries, err := os.ReadDir(r.directory)
	if err != nil || len(entries) == 0 {
		return err
	}
	r.notEmpty = true
	if !replace {
		return fmt.Errorf("%s is not empty: with --replace it is moved aside", r.directory)
	}
	if _, err := os.Stat(filepath.Join(r.directory, databaseName)); err != nil {
		return fmt.Errorf("%s does not look like a data directory, because it has no %s: move it away yourself",
			r.directory, databaseName)
	}
	return nil
}

// close removes the new directory unless it has replaced the data directory, and releases the locks.
func (r *restoration) close() error {
	var errs []error
	if r.staging != "" {
		errs = append(errs, os.RemoveAll(r.staging))
	}
	for _, lock := range r.locks {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// unpack writes the archive to the new directory and syncs it to the disk. It returns the epoch of
// the logs.
func (r *restoration) unpack(ctx context.Context, f *os.File, now time.Time) (epoch int64, err error) {
	if err := unpack(ctx, f, r.staging); err != nil {
		return 0, err
	}
	db, err := gormdb.Open(ctx, gormdb.Options{URL: "sqlite://" + filepath.Join(r.staging, databaseName)})
	if err != nil {
		return 0, fault.WithCause(err)
	}
	epoch, err = db.RaiseEpoch(ctx, now)
	if err := errors.Join(err, db.Close()); err != nil {
		return 0, fault.WithCause(err)
	}
	return epoch, r.syncDirectory()
}

// syncDirectory gives the new directory the owner of the old one, or of the directory above it, and syncs it to the disk.
func (r *restoration) syncDirectory() error {
	return filepath.WalkDir(r.staging, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case r.oldInfo != nil:
			err = fileowner.Set(path, r.oldInfo)
		default:
			err = fileowner.Inherit(path)
		}
		if err != nil {
			return err
		}
		return atomicfile.Sync(path)
	})
}

// unpack writes the archive to a directory.
func unpack(ctx context.Context, f *os.File, directory string) (err error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := &unpacker{ctx: ctx, root: root}
	a, _, err := scan(ctx, f, u.entry)
	if err == nil {
		err = u.checkComplete()
	}
	if err := errors.Join(err, u.close()); err != nil {
		return err
	}
	if u.schema != a.schema {
		return fmt.Errorf("the database has the schema version %d, and the archive says %d", u.schema, a.schema)
	}
	return nil
}

// unpacker writes the entries of an archive.
type unpacker struct {
	ctx    context.Context
	root   *os.Root
	db     *gormdb.Copy
	schema int64
	next   func() (gormdb.Content, error, bool) // returns the next blob that the database names
	stop   func()
}

// entry writes one file. Content must be that which the database names next.
func (u *unpacker) entry(_ archiveHeader, e entry, r io.Reader) (err error) {
	if e.name == headerName {
		return nil
	}
	var content gormdb.Content
	if e.blob != "" {
		var found bool
		if content, err, found = u.next(); err != nil {
			return err
		}
		if !found || content.Blob != e.blob || content.Size != e.size {
			return fmt.Errorf("%q is not the content that the database names", e.name)
		}
	}
	path := filepath.FromSlash(e.name)
	if err := u.root.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := u.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = archive.Copy(io.MultiWriter(f, sum), r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if e.blob != "" && hex.EncodeToString(sum.Sum(nil)) != content.Checksum {
		return fmt.Errorf("%q is not the content that the database names", e.name)
	}
	if e.name == databaseName {
		return u.open(filepath.Join(u.root.Name(), path))
	}
	return nil
}

// open opens the database to read the names of blobs.
func (u *unpacker) open(path string) error {
	db, err := gormdb.OpenCopy(u.ctx, path)
	if err != nil {
		return fault.WithCause(err)
	}
	u.db, u.schema = db, db.Schema
	u.next, u.stop = iter.Pull2(db.Blobs(u.ctx))
	return checkSchema(db.Schema)
}

// checkComplete returns an error if the archive lacks content that the database names.
func (u *unpacker) checkComplete() error {
	content, err, more := u.next()
	if err == nil && more {
		err = fmt.Errorf("the archive does not have %s, which the database names", content.Blob)
	}
	return err
}

func (u *unpacker) close() error {
	if u.db == nil {
		return nil
	}
	u.stop()
	return u.db.Close()
}

// replaceDirectory atomically replaces the data directory by the new one. It returns the path to which the
// old one was moved, if that was not empty.
func (r *restoration) replaceDirectory(now time.Time) (oldPath string, err error) {
	parent := filepath.Dir(r.directory)
	if !r.notEmpty {
		// This fails if the directory is no longer empty.
		if err := os.Rename(r.staging, r.directory); err != nil {
			return "", fmt.Errorf("nothing was changed: %w", err)
		}
		r.staging = ""
		return "", atomicfile.Sync(parent)
	}
	// Before the exchange the new directory is renamed to the later name of the old one, so that
	// the name of a restoration in progress never has the old state.
	oldPath = r.directory + ".replaced-" + now.UTC().Format("20060102T150405.000Z")
	if _, err := os.Lstat(oldPath); err == nil {
		return "", fmt.Errorf("nothing was changed: %s already exists", oldPath)
	}
	if err := os.Rename(r.staging, oldPath); err != nil {
		return "", fmt.Errorf("nothing was changed: %w", err)
	}
	r.staging = oldPath
	if err := exchange(oldPath, r.directory); err != nil {
		return "", fmt.Errorf("nothing was changed: directories cannot be exchanged here; "+
			"move %s away yourself and restore again: %w", r.directory, err)
	}
	r.staging = ""
	return oldPath, atomicfile.Sync(parent)
}
