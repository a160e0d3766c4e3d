package gormdb

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"collab/domain/fault"
)

//go:embed migrations
var migrations embed.FS

// migrationLock is the number of the lock that servers on Postgres take while
// they migrate.
const migrationLock = 7_305_804_385_410

// selectVersion returns the version of the schema, zero before the first
// migration.
const selectVersion = "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied"

// migration has the resources of a run of migrations.
type migration struct {
	pool    *sql.DB
	dialect goose.Dialect
	folder  string
	options []goose.ProviderOption
	close   func() error // releases the lock and the connections
}

// Migrate brings the schema to its present version, each step in a transaction. If several
// servers call it at once, one migrates and the others wait.
func (db *DB) Migrate(ctx context.Context) (err error) {
	m, err := db.migrator(ctx)
	if err != nil {
		return failed(ctx, err, "Database")
	}
	defer func() { err = errors.Join(err, m.close()) }()
	files, err := fs.Sub(migrations, m.folder)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(m.dialect, m.pool, files, append(m.options, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return failed(ctx, err, "Database")
}

// Ready returns nil if every pool answers and the schema has at least the version that this
// program knows: it is newer during a rolling update.
func (db *DB) Ready(ctx context.Context) error {
	if err := db.ping(ctx); err != nil {
		return err
	}
	want, err := latest(db.dialect)
	if err != nil {
		return err
	}
	var version int64
	found, err := oneRow(ctx, db.read, "Schema", sharedSQL(selectVersion), &version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || !found || version < want {
		return fault.Wrap(fault.Unavailable, err, "The database's schema has version %d and needs %d", version, want)
	}
	return nil
}

func (d dialect) migrations() string {
	if d == onPostgres {
		return "migrations/postgres"
	}
	return "migrations/sqlite"
}

// Schema returns the version of the schema that this program needs, which is the same on both
// databases.
func Schema() int64 {
	version, err := latest(onPostgres)
	if err != nil {
		panic(err) // the names of embedded files
	}
	return version
}

// latest returns the newest version among the embedded migrations.
func latest(d dialect) (int64, error) {
	names, err := fs.Glob(migrations, path.Join(d.migrations(), "*.sql"))
	if err != nil {
		return 0, err
	}
	var newest int64
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, err
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// migrationOnPostgres uses connections beside the pool, which may have only one, and takes
// an advisory lock that ends with its connection.
func migrationOnPostgres(config *pgx.ConnConfig) func(context.Context) (*migration, error) {
	return func(context.Context) (*migration, error) {
		pool := stdlib.OpenDB(*config)
		return &migration{
			pool: pool, dialect: goose.DialectPostgres, folder: onPostgres.migrations(),
			options: []goose.ProviderOption{goose.WithSessionLocker(advisory{})}, close: pool.Close,
		}, nil
	}
}

// advisory waits for the lock in the database, unlike goose's own locker, which polls.
type advisory struct{}

func (advisory) SessionLock(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, "SELECT pg_advisory_lock($1)", migrationLock)
	return err
}

func (advisory) SessionUnlock(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", migrationLock)
	return err
}

// migrationOnSQLite takes the write lock of a second database, which the operating system
// releases when the process ends: that of the first cannot be held over several
// transactions.
func migrationOnSQLite(file string) func(context.Context) (*migration, error) {
	return func(ctx context.Context) (*migration, error) {
		if err := makeFile(file + "-migrate"); err != nil {
			return nil, err
		}
		// The driver does not stop waiting when the context ends, so it waits in short
		// steps.
		gate, err := sql.Open(driverName, sqliteDSN(file+"-migrate", "exclusive", []string{"busy_timeout(250)"}))
		if err != nil {
			return nil, err
		}
		// A transaction ends with its context, and the lock must last until close.
		lasting := context.WithoutCancel(ctx)
		tx, err := gate.BeginTx(lasting, nil)
		for isBusy(err) && ctx.Err() == nil {
			tx, err = gate.BeginTx(lasting, nil)
		}
		if err != nil {
			return nil, errors.Join(err, gate.Close())
		}
		pool, err := sql.Open(driverName, sqliteDSN(file, "immediate", []string{"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "synchronous(FULL)"}))
		if err != nil {
			return nil, errors.Join(err, tx.Rollback(), gate.Close())
		}
		pool.SetMaxOpenConns(1)
		return &migration{
			pool: pool, dialect: goose.DialectSQLite3, folder: onSQLite.migrations(),
			close: func() error { return errors.Join(pool.Close(), tx.Rollback(), gate.Close()) },
		}, nil
	}
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlitecode.SQLITE_BUSY
}
