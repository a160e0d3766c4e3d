package gormdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"collab/domain/fault"
)

// CopySQLite writes a snapshot of the committed data to a new file, without deleted data.
// It does not block writers. NotFound if there is no database, another error if it is
// damaged or the target of a transfer that is not complete.
func CopySQLite(ctx context.Context, address, file string) (err error) {
	path, err := SQLiteFile(address)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "There is no database in %s", path)
	}
	// The cache is small: the pages are read once.
	pool, err := openSQLitePool(sqliteDSN(path, "deferred", []string{"busy_timeout(10000)", "cache_size(-4000)"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	var marked int
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ?", transferTable).Scan(&marked); err != nil {
		return failed(ctx, err, "Copy")
	}
	if marked > 0 {
		return incomplete("another database")
	}
	_, err = pool.ExecContext(ctx, "VACUUM INTO ?", file)
	return failed(ctx, err, "Copy")
}

// Copy is a SQLite database in a file that no other process opens or changes.
type Copy struct {
	Schema int64 // version of its schema
	reader sqliteReader
}

// OpenCopy opens a copy for reading. The file is not trusted: OpenCopy fails if it
// is damaged or not a database of this program.
func OpenCopy(ctx context.Context, file string) (*Copy, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	pool, err := openSQLitePool(sqliteDSN(path, "deferred", []string{"query_only(1)", "trusted_schema(0)", "cell_size_check(1)"}) + "&mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	c := &Copy{reader: sqliteReader{pool: pool}}
	if c.reader.conn, err = pool.Conn(ctx); err == nil {
		if err = c.examine(ctx); err != nil {
			err = errors.Join(err, c.reader.conn.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.Invalid, err, "The database is damaged, or not one of this program"), pool.Close())
	}
	return c, nil
}

// examine checks the whole database, and reads the version of its schema.
func (c *Copy) examine(ctx context.Context) error {
	var verdict string
	if err := c.reader.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return errors.New(verdict)
	}
	return c.reader.conn.QueryRowContext(ctx, selectVersion).Scan(&c.Schema)
}

// Close closes the file.
func (c *Copy) Close() error { return c.reader.Close() }

// Content is the content of an object or of an earlier version.
type Content struct {
	Blob     string // its name in the store
	Size     int64  // in bytes
	Checksum string // SHA-256, lower-case hexadecimal
	MimeType string
}

// selectContents selects the contents that rows name, each with its largest and its smallest size and
// checksum, and contents are the rows that name some: objects and earlier versions.
const (
	selectContents = "SELECT blob, MAX(size), MAX(checksum), MIN(size), MIN(checksum), MAX(mime_type) FROM "
	contents       = "(SELECT blob, size, checksum, mime_type FROM objects UNION ALL SELECT blob, size, checksum, mime_type FROM object_versions) AS contents"
)

// versionsSchema is the first version of the schema that has earlier versions.
const versionsSchema = 19

// Blobs ranges over the contents of the objects and earlier versions of all organisations, each once, in the
// byte order of their names. An error is the last element.
func (c *Copy) Blobs(ctx context.Context) iter.Seq2[Content, error] {
	from := contents
	if c.Schema < versionsSchema {
		from = "objects"
	}
	return contentsOf(ctx, c.reader, from)
}

// contentsOf ranges over the contents of rows with parameters, each once, in the byte order of their names. An
// error is the last element.
func contentsOf(ctx context.Context, r reader, rows string, args ...any) iter.Seq2[Content, error] {
	return func(yield func(Content, error) bool) {
		stopped := false
		err := r.rows(ctx, selectContents+rows+" GROUP BY blob ORDER BY blob", args, func(v []any) error {
			var n Content
			n.Blob, _ = v[0].(string)
			n.Size, _ = v[1].(int64)
			n.Checksum, _ = v[2].(string)
			n.MimeType, _ = v[5].(string)
			if v[3] != any(n.Size) || v[4] != any(n.Checksum) {
				return fmt.Errorf("two objects have %q with different sizes or checksums", n.Blob)
			}
			if stopped = !yield(n, nil); stopped {
				return context.Canceled
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Content{}, failed(ctx, err, "Content"))
		}
	}
}

// RaiseEpoch increments the epoch of all logs, so that cursors become invalid and clients
// read everything again. It is for a database that was restored from a backup, whose logs
// reuse numbers. It returns the new epoch.
func (db *DB) RaiseEpoch(ctx context.Context, now time.Time) (epoch int64, err error) {
	n, err := exec(ctx, db.write, "Log", sharedSQL("UPDATE log_epoch SET epoch = CASE WHEN epoch < ? THEN ? ELSE epoch + 1 END", now.Unix(), now.Unix()))
	if err == nil && n != 1 {
		err = fault.New(fault.Internal, "log_epoch has %d rows", n)
	}
	if err != nil {
		return 0, err
	}
	err = getRow(ctx, db.write, "Log", sharedSQL("SELECT epoch FROM log_epoch"), &epoch)
	return epoch, err
}
