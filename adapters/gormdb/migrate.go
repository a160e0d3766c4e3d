package gormdb

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"collab/domain/fault"
)

//go:embed migrations
var migrations embed.FS

// migrationLock is the number of the advisory lock that servers on Postgres take while they migrate.
const migrationLock = 7_305_804_385_410

// lockPoll is the time between attempts to take migrationLock.
const lockPoll = 100 * time.Millisecond

// selectVersion returns the version of the schema, or zero before the first migration.
const selectVersion = "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied"

// migration holds the resources of a run of migrations.
type migration struct {
	pool    *sql.DB
	dialect goose.Dialect
	options []goose.ProviderOption
	close   func() error // releases the lock and the connections
}

// lockTimeout is how long a migration on Postgres waits for the lock of a table. It is short because
// later statements queue behind the migration, which is attempted up to lockAttempts times with a pause
// of lockPause.
const (
	lockTimeout  = 250 * time.Millisecond
	lockPause    = time.Second
	lockAttempts = 480
)

// Migrate brings the schema to the newest version. Each step is a transaction, or can be repeated
// after an interruption. If several servers call it at once, one migrates and the others wait. On
// Postgres it returns Unavailable if other transactions hold the lock of a table for ten minutes.
func (db *DB) Migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, db.dialect.migrations())
	if err != nil {
		return err
	}
	return db.migrate(ctx, files, goose.MaxVersion)
}

// migrate runs the migrations of a directory up to a version.
func (db *DB) migrate(ctx context.Context, files fs.FS, version int64) (err error) {
	m, err := db.migrator(ctx)
	if err != nil {
		return failed(ctx, err, "Database")
	}
	defer func() { err = errors.Join(err, m.close()) }()
	provider, err := goose.NewProvider(m.dialect, m.pool, files, append(m.options, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return err
	}
	return failed(ctx, db.retryLocked(ctx, m.pool, func() error {
		_, err := provider.UpTo(ctx, version)
		return err
	}), "Database")
}

// stopAutovacuums takes the locks that autovacuums hold, and releases them. Postgres cancels an
// autovacuum when another session has waited for its lock for deadlock_timeout. Writers do not queue
// behind these locks.
const stopAutovacuums = `DO $$ DECLARE found regclass; BEGIN
	PERFORM set_config('lock_timeout', (2000 * extract(epoch FROM current_setting('deadlock_timeout')::interval))::int::text, true);
	FOR found IN SELECT DISTINCT c.oid FROM pg_locks JOIN pg_class c ON c.oid = relation JOIN pg_stat_activity USING (pid)
		WHERE database = datid AND datname = current_database() AND usesysid IS NULL
		AND mode = 'ShareUpdateExclusiveLock' AND relkind = 'r' AND pg_has_role(relowner, 'USAGE')
	LOOP EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', found); END LOOP; END $$`

// retryLocked runs fn, and repeats it while it fails because others hold the lock of a table. On conn
// it stops autovacuums that do.
func (db *DB) retryLocked(ctx context.Context, conn gorm.ConnPool, fn func() error) error {
	for attempt := 1; ; attempt++ {
		err := fn()
		if !isLockFailure(err) {
			return err
		}
		if attempt == lockAttempts {
			return fault.Wrap(fault.Unavailable, err, "A migration does not get the lock of a table that other transactions hold")
		}
		if attempt%20 == 1 {
			db.write.Logger.Warn(ctx, "migration waits for the lock of a table")
		}
		if err := sleep(ctx, lockPause); err != nil {
			return err
		}
		if attempt%5 == 1 {
			_, _ = conn.ExecContext(ctx, stopAutovacuums) // the next attempt shows whether it helped
		}
	}
}

// isLockFailure reports whether a migration failed because of lockTimeout or a deadlock.
func isLockFailure(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Ready returns nil if every pool answers and the schema has the version of this program or, during a
// rolling update, a newer one that supports it.
func (db *DB) Ready(ctx context.Context) error {
	if err := db.ping(ctx); err != nil {
		return err
	}
	want, version := Schema(), int64(0)
	unlogged := db.read.Session(&gorm.Session{Logger: logger.Discard}) // before the first migration the table does not exist
	_, err := oneRow(ctx, unlogged, "Schema", sharedSQL(selectVersion), &version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if migrated, lookup := db.hasTable(ctx, "goose_db_version"); migrated || lookup != nil {
			return fault.Wrap(fault.Unavailable, err, "The version of the database's schema could not be read")
		}
	}
	if version < want {
		return fault.New(fault.Unavailable, "The database's schema has version %d and needs %d: run collabd migrate", version, want)
	}
	return db.requireSupported(ctx, want)
}

// checkSupported is requireSupported for a schema that may be older than the table schema_support.
func (db *DB) checkSupported(ctx context.Context) error {
	if found, err := db.hasTable(ctx, "schema_support"); err != nil || !found {
		return err
	}
	return db.requireSupported(ctx, Schema())
}

// requireSupported returns an error if the database's schema supports only servers that need a newer
// version than known.
func (db *DB) requireSupported(ctx context.Context, known int64) error {
	var release string
	_, err := oneRow(ctx, db.read, "Schema", sharedSQL(fmt.Sprintf(selectOnlyFor, known)), &release)
	if err == nil && release != "" {
		err = fault.New(fault.Unavailable, "The database's schema is for servers from version %s on", release)
	}
	return err
}

func (d dialect) migrations() string { return d.text("migrations/sqlite", "migrations/postgres") }

// Schema returns the version of the schema that this program needs. It is the same for SQLite and
// Postgres.
func Schema() (newest int64) {
	names, err := fs.Glob(migrations, path.Join(onPostgres.migrations(), "*.sql"))
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		n, e := strconv.ParseInt(number, 10, 64)
		newest, err = max(newest, n), cmp.Or(err, e)
	}
	if err != nil {
		panic(err) // the embedded files have other names
	}
	return newest
}

// migrationOnPostgres uses connections beside the pool, which may have only one, and takes an advisory
// lock that ends with its connection.
func migrationOnPostgres(config *pgx.ConnConfig) func(context.Context) (*migration, error) {
	return func(ctx context.Context) (*migration, error) {
		if err := requireSession(ctx, config); err != nil {
			return nil, err
		}
		pool := stdlib.OpenDB(*config)
		return &migration{
			pool: pool, dialect: goose.DialectPostgres,
			options: []goose.ProviderOption{goose.WithSessionLocker(sessionLocker{})}, close: pool.Close,
		}, nil
	}
}

// requireSession returns an error if the address is that of a pooler in transaction mode, which shares
// sessions, with their locks and parameters, among clients.
func requireSession(ctx context.Context, config *pgx.ConnConfig) error {
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	pooled, err := isPooled(ctx, c)
	if pooled {
		err = fault.New(fault.Unavailable, "Migrations need the address of Postgres, not that of a pooler in transaction mode: set COLLAB_DATABASE_DIRECT_URL")
	}
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// sessionLocker implements lock.SessionLocker. It polls, because a statement that waits for the lock has
// a snapshot, and CREATE INDEX CONCURRENTLY under the lock waits until older snapshots end.
type sessionLocker struct{}

func (sessionLocker) SessionLock(ctx context.Context, c *sql.Conn) error {
	for locked := false; ; {
		if err := c.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", migrationLock).Scan(&locked); err != nil {
			return err
		}
		if locked {
			_, err := c.ExecContext(ctx, fmt.Sprintf(withoutTimeouts+"; SET lock_timeout = %d", false, lockTimeout.Milliseconds()))
			return err
		}
		if err := sleep(ctx, lockPoll); err != nil {
			return err
		}
	}
}

func (sessionLocker) SessionUnlock(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", migrationLock)
	return err
}

// migrationOnSQLite takes the write lock of a second database, because that of the first cannot be held
// over several transactions. The operating system releases it when the process ends.
func migrationOnSQLite(file string) func(context.Context) (*migration, error) {
	return func(ctx context.Context) (*migration, error) {
		if err := makeFile(file + "-migrate"); err != nil {
			return nil, err
		}
		// The driver does not stop waiting when the context ends, so it waits in short steps.
		lockDB, err := sql.Open(driverName, sqliteDSN(file+"-migrate", "exclusive", []string{"busy_timeout(250)"}))
		if err != nil {
			return nil, err
		}
		// A transaction ends with its context, and the lock must be held until close.
		uncancelled := context.WithoutCancel(ctx)
		tx, err := lockDB.BeginTx(uncancelled, nil)
		for isBusy(err) && ctx.Err() == nil {
			tx, err = lockDB.BeginTx(uncancelled, nil)
		}
		if err != nil {
			return nil, errors.Join(err, lockDB.Close())
		}
		pool, err := sql.Open(driverName, sqliteDSN(file, "immediate", []string{"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "synchronous(FULL)"}))
		if err != nil {
			return nil, errors.Join(err, tx.Rollback(), lockDB.Close())
		}
		pool.SetMaxOpenConns(1)
		return &migration{
			pool: pool, dialect: goose.DialectSQLite3,
			close: func() error { return errors.Join(pool.Close(), tx.Rollback(), lockDB.Close()) },
		}, nil
	}
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlitecode.SQLITE_BUSY
}
