package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"collab/adapters/atomicfile"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
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
		file, a.made.Format(time.RFC3339), a.version, t.blobs, inBytes(t.bytes))
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
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// verify reads an archive, and returns an error if this program cannot restore it.
func verify(ctx context.Context, f *os.File) (about, totals, error) {
	a, t, err := scan(ctx, f, func(about, entry, io.Reader) error { return nil })
	if err != nil {
		return a, t, err
	}
	return a, t, notNewer(a.schema)
}

func notNewer(schema int64) error {
	known, err := gormdb.SQLiteSchema()
	if err == nil && schema > known {
		err = fmt.Errorf("its database has the schema version %d, and this program knows %d: use a later one", schema, known)
	}
	return err
}

// RestoreFolder replaces the data folder by the content of the archive, and reports on out. A
// data folder that is not empty is moved aside if replace is set, and is an error otherwise. If
// it is interrupted, the folder has either the old state or the new one.
func RestoreFolder(ctx context.Context, c config.Config, file string, replace bool, out io.Writer) (err error) {
	if err := embedded(c); err != nil {
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
	aside, err := r.place(system.Clock{}.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Restored the state of %s, made by version %s: the database and the content of %d files, %s, are in %s.\n",
		a.made.Format(time.RFC3339), a.version, t.blobs, inBytes(t.bytes), r.folder)
	if err == nil && aside != "" {
		_, err = fmt.Fprintf(out, "The previous data is in %s: remove it when you do not need it any more.\n", aside)
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

// Unpack verifies an archive and writes its files to an existing folder, from which it first removes
// everything but the lock, which the caller must hold. If it fails, the folder is of no use.
func Unpack(ctx context.Context, file, folder string) (err error) {
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := clearFolder(folder); err != nil {
		return err
	}
	return unpack(ctx, f, folder)
}

// restoration makes a folder beside the data folder, and then replaces the data folder by it.
type restoration struct {
	folder string // the data folder, without links in its path
	new    string // the new folder
	old    fs.FileInfo
	full   bool // the data folder is not empty
	locks  []io.Closer
}

// newRestoration returns an error if the data folder may not be replaced, and locks it.
func newRestoration(c config.Config, replace bool) (r *restoration, err error) {
	r = &restoration{}
	if r.folder, err = filepath.Abs(c.DataDir); err != nil {
		return nil, err
	}
	for variable, place := range map[string][2]string{
		"COLLAB_DATABASE_URL": {c.DatabaseURL.Path(), filepath.Join(c.DataDir, databaseName)},
		"COLLAB_BLOB_URL":     {c.BlobURL.Path(), filepath.Join(c.DataDir, blobsName)},
	} {
		if !samePath(place[0], place[1]) {
			return nil, fmt.Errorf("%s: everything is restored into COLLAB_DATA_DIR; leave this unset, or name %s", variable, place[1])
		}
	}
	if real, err := filepath.EvalSymlinks(r.folder); err == nil {
		r.folder = real
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
	if r.full {
		c.DataDir, c.DatabaseURL = r.folder, config.NewURL("sqlite://"+filepath.Join(r.folder, databaseName))
		if r.locks, err = datadir.LockBoth(c, true); err != nil {
			return r, err
		}
	}
	// The lock file is moved with the folder, so that no server starts on it too early.
	staging := r.folder + ".restoring"
	lock, err := datadir.Lock(filepath.Join(staging, datadir.LockName), true)
	if errors.Is(err, datadir.ErrLocked) {
		return r, fmt.Errorf("another restore to %s is under way", r.folder)
	}
	if err != nil {
		return r, err
	}
	r.locks, r.new = append(r.locks, lock), staging
	// A killed restore may have left files behind.
	return r, clearFolder(staging)
}

// samePath reports whether two paths are the same.
func samePath(a, b string) bool {
	x, errA := filepath.Abs(a)
	y, errB := filepath.Abs(b)
	return errA == nil && errB == nil && x == y
}

// checkReplaceable returns an error unless the data folder may be replaced.
func (r *restoration) checkReplaceable(replace bool) error {
	info, err := os.Stat(r.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(filepath.Dir(r.folder), 0o700)
	}
	if err != nil {
		return err
	}
	r.old = info
	above, err := os.Stat(filepath.Dir(r.folder))
	if err != nil {
		return err
	}
	if !datadir.SameDisk(info, above) {
		return fmt.Errorf("%s is where a disk is mounted, which cannot be replaced: let COLLAB_DATA_DIR be a folder on that disk", r.folder)
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil || len(entries) == 0 {
		return err
	}
	r.full = true
	if !replace {
		return fmt.Errorf("%s is not empty: with --replace it is moved aside", r.folder)
	}
	if _, err := os.Stat(filepath.Join(r.folder, databaseName)); err != nil {
		return fmt.Errorf("%s does not look like a data folder, because it has no %s: move it away yourself", r.folder, databaseName)
	}
	return nil
}

// close removes the new folder unless it has replaced the data folder, and releases the locks.
func (r *restoration) close() error {
	var errs []error
	if r.new != "" {
		errs = append(errs, os.RemoveAll(r.new))
	}
	for _, lock := range r.locks {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// unpack writes the archive to the new folder and syncs it to the disk. It returns the epoch of
// the logs.
func (r *restoration) unpack(ctx context.Context, f *os.File, now time.Time) (epoch int64, err error) {
	if err := unpack(ctx, f, r.new); err != nil {
		return 0, err
	}
	db, err := gormdb.Open(ctx, gormdb.Options{URL: "sqlite://" + filepath.Join(r.new, databaseName)})
	if err != nil {
		return 0, withCause(err)
	}
	epoch, err = db.RaiseEpoch(ctx, now)
	if err := errors.Join(err, db.Close()); err != nil {
		return 0, withCause(err)
	}
	return epoch, r.syncFolder()
}

// syncFolder gives the new folder the owner of the old one, and syncs it to the disk.
func (r *restoration) syncFolder() error {
	return filepath.WalkDir(r.new, func(path string, e fs.DirEntry, err error) error {
		if err == nil && r.old != nil {
			err = datadir.SetOwner(path, r.old)
		}
		if err != nil {
			return err
		}
		return atomicfile.Sync(path)
	})
}

// unpack writes the archive to a folder.
func unpack(ctx context.Context, f *os.File, folder string) (err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := &unpacking{ctx: ctx, root: root}
	a, _, err := scan(ctx, f, u.entry)
	if err == nil {
		err = u.end()
	}
	if err := errors.Join(err, u.close()); err != nil {
		return err
	}
	if u.schema != a.schema {
		return fmt.Errorf("the database has the schema version %d, and the archive says %d", u.schema, a.schema)
	}
	return nil
}

// unpacking writes the entries of an archive.
type unpacking struct {
	ctx    context.Context
	root   *os.Root
	db     *gormdb.Copy
	schema int64
	next   func() (gormdb.Named, error, bool) // returns the next blob that the database names
	stop   func()
}

// entry writes one file. Content must be that which the database names next.
func (u *unpacking) entry(_ about, e entry, r io.Reader) (err error) {
	if e.name == aboutName {
		return nil
	}
	var named gormdb.Named
	if e.blob != "" {
		var found bool
		if named, err, found = u.next(); err != nil {
			return err
		}
		if !found || named.Blob != e.blob || named.Size != e.size {
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
	sum := newDigest()
	_, err = copyPieces(io.MultiWriter(f, sum), r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if e.blob != "" && sum.text() != named.Checksum {
		return fmt.Errorf("%q is not the content that the database names", e.name)
	}
	if e.name == databaseName {
		return u.open(filepath.Join(u.root.Name(), path))
	}
	return nil
}

// open opens the database to read the names of blobs.
func (u *unpacking) open(path string) error {
	db, err := gormdb.OpenCopy(u.ctx, path)
	if err != nil {
		return withCause(err)
	}
	u.db, u.schema = db, db.Schema
	u.next, u.stop = iter.Pull2(db.Blobs(u.ctx))
	return notNewer(db.Schema)
}

// end returns an error if the archive lacks content that the database names.
func (u *unpacking) end() error {
	named, err, more := u.next()
	if err == nil && more {
		err = fmt.Errorf("the archive does not have %s, which the database names", named.Blob)
	}
	return err
}

func (u *unpacking) close() error {
	if u.db == nil {
		return nil
	}
	u.stop()
	return u.db.Close()
}

// place atomically replaces the data folder by the new one. It returns the path to which the
// old one was moved, if that was not empty.
func (r *restoration) place(now time.Time) (aside string, err error) {
	above := filepath.Dir(r.folder)
	if !r.full {
		// This fails if the folder is no longer empty.
		if err := os.Rename(r.new, r.folder); err != nil {
			return "", fmt.Errorf("nothing was changed: %w", err)
		}
		r.new = ""
		return "", atomicfile.Sync(above)
	}
	// Before the exchange the new folder is renamed to the later name of the old one, so that
	// the name of a restoration in progress never has the old state.
	aside = r.folder + ".replaced-" + now.UTC().Format("20060102T150405.000Z")
	if _, err := os.Lstat(aside); err == nil {
		return "", fmt.Errorf("nothing was changed: %s is there already", aside)
	}
	if err := os.Rename(r.new, aside); err != nil {
		return "", fmt.Errorf("nothing was changed: %w", err)
	}
	r.new = aside
	if err := exchange(aside, r.folder); err != nil {
		return "", fmt.Errorf("nothing was changed: folders cannot be exchanged here; move %s away yourself and restore again: %w", r.folder, err)
	}
	r.new = ""
	return aside, atomicfile.Sync(above)
}
