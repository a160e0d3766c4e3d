package gormdb

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"gorm.io/gorm"

	"collab/adapters/fileowner"
	"collab/domain/fault"
)

// driverName is the name of the pure-Go driver.
const driverName = "sqlite"

// sqliteDialector is GORM's dialect of SQLite over a pool of connections. GORM's own
// imports a driver in C. It has what transactions need: GORM makes neither statements nor
// tables, so the rest of the interface is nil.
type sqliteDialector struct {
	gorm.Dialector
	pool gorm.ConnPool
}

func (sqliteDialector) Name() string { return driverName }

func (d sqliteDialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	return nil
}

// openSQLite opens one connection for writing, whose transactions take the
// write lock when they begin, and a pool for reading that refuses to write.
func (db *DB) openSQLite(o Options) error {
	path, err := SQLiteFile(o.URL)
	if err != nil {
		return err
	}
	if err := makeFile(path); err != nil {
		return err
	}
	db.dialect = onSQLite
	// The driver sets busy_timeout first.
	common := []string{"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "temp_store(MEMORY)"}
	writer, err := openSQLitePool(sqliteDSN(path, "immediate", append(common, "synchronous(FULL)", "journal_size_limit(67108864)", "cache_size(-8000)")))
	if err != nil {
		return err
	}
	writer.SetMaxOpenConns(1)
	if db.write, err = db.openGORM(writer, sqliteDialector{pool: sqliteWritePool{writer}}, o.Logger); err != nil {
		return err
	}
	// The planner chooses among a list's indexes by statistics. This updates those of
	// tables that have changed a lot, and reads a bounded number of rows.
	if _, err := writer.Exec("PRAGMA optimize = 0x10002"); err != nil {
		return failed(context.Background(), err, "Database")
	}
	// Each reader has its own cache, beside the kernel's.
	reader, err := openSQLitePool(sqliteDSN(path, "deferred", append(common, "query_only(1)", "cache_size(-4000)")))
	if err != nil {
		return err
	}
	readers := max(8, 2*runtime.GOMAXPROCS(0))
	reader.SetMaxOpenConns(readers)
	reader.SetMaxIdleConns(readers)
	if db.read, err = db.openGORM(reader, sqliteDialector{pool: reader}, o.Logger); err != nil {
		return err
	}
	db.migrator = migrationOnSQLite(path)
	return nil
}

// SQLiteFile returns the file that sqlite://path names.
func SQLiteFile(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "sqlite://")
	if !ok || path == "" || strings.ContainsAny(path, "?#") {
		return "", fault.Field("database URL", "must be sqlite:// and the path of a file")
	}
	return filepath.Clean(path), nil
}

// makeFile creates the file and its directory, accessible to the process's user only or, if that is
// root, to the owner of the directory. SQLite creates its other files with the same mode and owner.
func makeFile(path string) error {
	if err := fileowner.MkdirAll(filepath.Dir(path)); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The database's directory cannot be created")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "The database's file cannot be created")
	}
	return errors.Join(fileowner.Inherit(path), f.Close())
}

func sqliteDSN(path, lock string, pragmas []string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	u.RawQuery = url.Values{"_txlock": {lock}, "_pragma": pragmas}.Encode()
	return u.String()
}
