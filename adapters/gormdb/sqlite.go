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

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"collab/domain/fault"
)

// driverName is what the pure-Go driver is registered as.
const driverName = "sqlite"

// sqliteDialector is GORM's dialect with the errors of the pure-Go driver, which
// GORM's own translation cannot read.
type sqliteDialector struct{ sqlite.Dialector }

var _ gorm.ErrorTranslator = sqliteDialector{}

func (sqliteDialector) Translate(err error) error {
	switch cause(err) {
	case causeTaken:
		return gorm.ErrDuplicatedKey
	case causeReference:
		return gorm.ErrForeignKeyViolated
	}
	return err
}

// openSQLite opens one connection for writing, whose transactions take the
// write lock when they begin, and a pool for reading that refuses to write.
func (db *DB) openSQLite(o Options) error {
	path, err := sqlitePath(o.URL)
	if err != nil {
		return err
	}
	if err := makeFile(path); err != nil {
		return err
	}
	db.dialect = onSQLite
	// The driver sets busy_timeout before the others, whatever their order.
	common := []string{"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "temp_store(MEMORY)"}
	writer, err := openSQLitePool(sqliteDSN(path, "immediate", append(common, "synchronous(FULL)", "journal_size_limit(67108864)", "cache_size(-16000)")), true)
	if err != nil {
		return err
	}
	writer.SetMaxOpenConns(1)
	if db.write, err = db.use(writer, sqliteDialector{sqlite.Dialector{Conn: writer}}, o.Logger); err != nil {
		return err
	}
	// Statistics let the planner choose among a list's indexes. Making them looks
	// at a bounded number of rows, and only of tables that have changed a lot.
	if _, err := writer.Exec("PRAGMA optimize = 0x10002"); err != nil {
		return failed(context.Background(), err, "Database")
	}
	// Each reader has a cache of its own; what is in none of them the kernel has.
	reader, err := openSQLitePool(sqliteDSN(path, "deferred", append(common, "query_only(1)", "cache_size(-4000)")), false)
	if err != nil {
		return err
	}
	readers := max(8, 2*runtime.GOMAXPROCS(0))
	reader.SetMaxOpenConns(readers)
	reader.SetMaxIdleConns(readers)
	if db.read, err = db.use(reader, sqliteDialector{sqlite.Dialector{Conn: reader}}, o.Logger); err != nil {
		return err
	}
	db.migrator = migrationOnSQLite(path)
	return nil
}

// sqlitePath returns the file that sqlite://path names.
func sqlitePath(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "sqlite://")
	if !ok || path == "" || strings.ContainsAny(path, "?#") {
		return "", fault.Field("database URL", "must be sqlite:// and the path of a file")
	}
	return filepath.Clean(path), nil
}

// makeFile makes the file, and its folder, for nobody but the process's user.
// The files that SQLite makes beside it take over its mode.
func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The database's folder cannot be made")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "The database's file cannot be made")
	}
	return f.Close()
}

func sqliteDSN(path, lock string, pragmas []string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	u.RawQuery = url.Values{"_txlock": {lock}, "_pragma": pragmas}.Encode()
	return u.String()
}
