// Package backup writes archives of the embedded profile and restores them.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"collab/adapters/archive"
	"collab/adapters/atomicfile"
	"collab/adapters/bucket"
	"collab/adapters/filelock"
	"collab/adapters/fileowner"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/domain/fault"
	"collab/ports"
)

// maxAttempts is how often a backup is started if content that the database names disappears
// meanwhile.
const maxAttempts = 3

// Write writes an archive of the embedded profile, with the program's version, to a file and
// reports its content on out; if file is "-" it writes to out and reports on log. Servers may
// be running. An existing file is replaced after the whole archive was synced.
func Write(ctx context.Context, c config.Config, version, file string, out, log io.Writer) (err error) {
	if err := checkEmbedded(c); err != nil {
		return err
	}
	lock, err := datadir.LockExisting(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	blobs, err := bucket.Open(ctx, c.BlobURL.Text())
	if err != nil {
		return fmt.Errorf("COLLAB_BLOB_URL: %w", err)
	}
	defer func() { err = errors.Join(err, blobs.Close()) }()

	var t totals
	if file == "-" {
		t, err = pack(ctx, c, version, blobs, out)
		out = log
	} else if err = checkTarget(c, file); err == nil {
		err = atomicfile.Replace(file, func(f *os.File) (err error) {
			t, err = packWithRetry(ctx, c, version, blobs, f)
			return err
		})
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the backup was interrupted: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	_, err = fmt.Fprintf(out, "Backed up the database and the content of %d files, %s, to %s. "+
		"It has keys in it: protect it like a password.\n", t.blobs, formatSize(t.bytes), file)
	for _, keyFile := range []struct{ variable, path, name string }{
		{"COLLAB_TOKEN_KEYS", c.TokenKeys, SmallFiles[0]}, {"COLLAB_SECRETS_KEYS", c.SecretsKeys, SmallFiles[1]},
	} {
		if keyFile.path != "" && filepath.Clean(keyFile.path) != filepath.Join(c.DataDir, keyFile.name) && err == nil {
			_, err = fmt.Fprintf(out, "It does not have the file of %s, %s: keep a copy of that as well.\n", keyFile.variable, keyFile.path)
		}
	}
	return err
}

// checkEmbedded returns an error unless all data is stored on this machine.
func checkEmbedded(c config.Config) error {
	switch c.Database() {
	case "postgres":
		return errors.New("COLLAB_DATABASE_URL names Postgres: back it up with pg_dump or its continuous archiving, " +
			"and the content of files by the versions that the bucket of COLLAB_BLOB_URL keeps")
	case "memory":
		return errors.New("COLLAB_DATABASE_URL names memory, which keeps nothing")
	}
	if c.BlobURL.Scheme() != "file" {
		return errors.New("COLLAB_BLOB_URL does not name a directory: a backup is of the database on SQLite with the " +
			"content of files beside it; let the bucket keep versions, and copy the database by sqlite3's .backup")
	}
	return nil
}

// checkTarget returns an error if file exists and is neither empty nor a backup, or if it is in
// a directory that is backed up, where a restore would move it and a collection remove it.
func checkTarget(c config.Config, file string) error {
	parent, err := realPath(filepath.Dir(file))
	if err != nil {
		return err
	}
	for _, directory := range []string{c.DataDir, c.BlobURL.Path()} {
		directory, err := realPath(directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if inside, err := filepath.Rel(directory, parent); err == nil && filepath.IsLocal(inside) {
			return fmt.Errorf("%s is in %s, which is backed up: name a file elsewhere", file, directory)
		}
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s already exists and is not a regular file: name another file", file)
	}
	if info.Size() == 0 {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	ok, err := isArchive(f, info.Size())
	if err == nil && !ok {
		err = fmt.Errorf("%s already exists and is not a backup: name another file", file)
	}
	return errors.Join(err, f.Close())
}

// isArchive reports whether a file begins as an archive does, and has its checksumFrame.
func isArchive(f io.ReaderAt, size int64) (bool, error) {
	head, tail := make([]byte, len(zstdMagic)), make([]byte, len(checksumFrame))
	bodySize := size - int64(len(checksumFrame)+sha256.Size)
	if bodySize < int64(len(head)) {
		return false, nil
	}
	_, err := f.ReadAt(head, 0)
	if err == nil {
		_, err = f.ReadAt(tail, bodySize)
	}
	return bytes.Equal(head, zstdMagic) && bytes.Equal(tail, checksumFrame), err
}

// realPath returns the absolute path without symbolic links.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// errMissingBlob is returned if the store lacks content that the database names.
var errMissingBlob = errors.New("the store of blobs does not have what the database names")

// packWithRetry packs into a file, at most maxAttempts times if content is missing: it is removed
// object.BlobGracePeriod after its last reference, and a new copy of the database does not name it.
func packWithRetry(ctx context.Context, c config.Config, version string, blobs ports.Blobs, f *os.File) (totals, error) {
	for attempt := 1; ; attempt++ {
		t, err := pack(ctx, c, version, blobs, f)
		if !errors.Is(err, errMissingBlob) || attempt == maxAttempts {
			return t, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return t, err
		}
		if err := f.Truncate(0); err != nil {
			return t, err
		}
	}
}

// pack writes an archive of a snapshot of the database, the content that it names, and the
// other files of the data directory. Meanwhile the snapshot is stored in the data directory.
func pack(ctx context.Context, c config.Config, version string, blobs ports.Blobs, out io.Writer) (t totals, err error) {
	directory := filepath.Join(c.DataDir, ".backup")
	if err := fileowner.MkdirAll(directory); err != nil {
		return t, err
	}
	lock, err := datadir.Lock(filepath.Join(directory, datadir.LockName), true)
	if errors.Is(err, filelock.ErrLocked) {
		return t, errors.New("another backup is being made")
	}
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, clearDirectory(directory), lock.Close()) }()
	// A killed backup may have left files behind.
	if err := clearDirectory(directory); err != nil {
		return t, err
	}
	createdAt := system.Clock{}.Now().UTC().Truncate(time.Second)
	file := filepath.Join(directory, databaseName)
	if err := gormdb.CopySQLite(ctx, c.DatabaseURL.Text(), file); err != nil {
		return t, fault.WithCause(err)
	}
	db, err := gormdb.OpenCopy(ctx, file)
	if err != nil {
		return t, fault.WithCause(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if db.Schema == 0 {
		return t, errors.New("the database has no schema yet: there is nothing to back up")
	}
	if err := checkSchema(db.Schema); err != nil { // it may name content that this program does not know of
		return t, err
	}
	manifest, err := os.CreateTemp(directory, "manifest-*")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, manifest.Close()) }()
	w, err := newArchiver(out, archiveHeader{createdAt, version, db.Schema}, manifest)
	if err != nil {
		return t, err
	}
	if err := addFile(ctx, w, databaseName, file); err != nil {
		return t, err
	}
	// The state of development providers is copied after the database, because like real
	// providers they may have newer state, but not older.
	for _, name := range SmallFiles {
		text, err := os.ReadFile(filepath.Join(c.DataDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = w.add(entry{name: name, size: int64(len(text))}, bytes.NewReader(text))
		}
		if err != nil {
			return t, err
		}
	}
	for content, err := range db.Blobs(ctx) {
		if err == nil {
			err = addBlob(ctx, w, blobs, content)
		}
		if err != nil {
			return t, err
		}
	}
	return w.totals, w.close()
}

func addFile(ctx context.Context, w *archiver, name, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = w.add(entry{name: name, size: info.Size()}, archive.ContextReader{Ctx: ctx, Reader: f})
	return err
}

func addBlob(ctx context.Context, w *archiver, blobs ports.Blobs, content gormdb.Content) (err error) {
	r, err := blobs.Open(ctx, content.Blob, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("%w: %s. Put it back or delete its file, then back up again", errMissingBlob, content.Blob)
	}
	if err != nil {
		return fault.WithCause(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	name := blobsName + "/" + bucket.KeyOf(content.Blob)
	e, err := w.add(entry{name: name, blob: content.Blob, size: content.Size}, r)
	if err == nil && e.sum != content.Checksum {
		err = errors.New("its checksum is not the one that the database has")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", content.Blob, fault.WithCause(err))
	}
	return nil
}

// clearDirectory removes everything in a directory except its lock.
func clearDirectory(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == datadir.LockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(directory, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
