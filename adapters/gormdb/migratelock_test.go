package gormdb

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"collab/test/must"
	"collab/test/postgres"
)

// migrationsWith returns a migration that creates the table t, and the last one.
func migrationsWith(last string) fs.FS {
	return fstest.MapFS{
		"1_table.sql": {Data: []byte("-- +goose Up\nCREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY);\nINSERT INTO t (id) VALUES (1);\n")},
		"2_last.sql":  {Data: []byte(last)},
	}
}

const indexMigration = `-- +goose NO TRANSACTION
-- +goose Up
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS t_id;
CREATE INDEX CONCURRENTLY t_id ON t (id);
SET lock_timeout = 250;
`

// startWriter returns the address of a Postgres database with the table t, and a transaction that has
// written to the table, so that the last migration waits for its end.
func startWriter(t *testing.T, files fs.FS) (url string, writer *sql.Tx) {
	t.Helper()
	url = postgres.URL(t)
	db := opened(t, url)
	must.NoError(t, db.migrate(t.Context(), files, 1))
	writer = must.Do(db.pools[0].BeginTx(t.Context(), nil)).Or(t)
	t.Cleanup(func() { _ = writer.Rollback() })
	must.Do(writer.ExecContext(t.Context(), "UPDATE t SET id = 2")).Or(t)
	return url, writer
}

// startMigrate runs the migrations on another goroutine.
func startMigrate(ctx context.Context, t *testing.T, url string, files fs.FS) <-chan error {
	db, done := opened(t, url), make(chan error, 1)
	go func() { done <- db.migrate(ctx, files, goose.MaxVersion) }()
	return done
}

// awaitSession waits until the database has a session that meets a condition on pg_stat_activity.
func awaitSession(t *testing.T, url, condition string) {
	t.Helper()
	awaitTrue(t, url, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "+condition+")")
}

// awaitTrue waits until the query returns true.
func awaitTrue(t *testing.T, url, query string) {
	t.Helper()
	c := must.Do(pgx.Connect(t.Context(), url)).Or(t)
	defer c.Close(context.WithoutCancel(t.Context()))
	must.Wait(t, query+" is true", func() (result bool) {
		must.NoError(t, c.QueryRow(t.Context(), query).Scan(&result))
		return result
	})
}

func TestMigratingServersDoNotBlockAConcurrentIndex(t *testing.T) {
	files := migrationsWith(indexMigration)
	url, writer := startWriter(t, files)
	first := startMigrate(t.Context(), t, url, files)
	awaitSession(t, url, "query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'")
	second := startMigrate(t.Context(), t, url, files)
	awaitSession(t, url, "query LIKE '%advisory_lock%'")
	must.NoError(t, writer.Commit())
	for _, done := range []<-chan error{first, second} {
		must.Succeed(t, <-done)
	}
	awaitTrue(t, url, "SELECT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
}

func TestAnInterruptedIndexIsRebuilt(t *testing.T) {
	files := migrationsWith(indexMigration)
	url, writer := startWriter(t, files)
	ctx, interrupt := context.WithCancel(t.Context())
	done := startMigrate(ctx, t, url, files)
	awaitSession(t, url, "query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'")
	interrupt()
	if err := <-done; err == nil {
		t.Fatal("the interrupted migration has no error")
	}
	awaitTrue(t, url, "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
	must.NoError(t, writer.Commit())
	must.NoError(t, <-startMigrate(t.Context(), t, url, files))
	awaitTrue(t, url, "SELECT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
}

// TestAMigrationThatWaitsForALockDoesNotBlockWriters writes with a longer timeout than lockTimeout.
func TestAMigrationThatWaitsForALockDoesNotBlockWriters(t *testing.T) {
	files := migrationsWith("-- +goose Up\nALTER TABLE t ADD COLUMN more TEXT;\n")
	url, writer := startWriter(t, files)
	done := startMigrate(t.Context(), t, url, files)
	awaitSession(t, url, "query LIKE 'ALTER TABLE%' AND wait_event_type = 'Lock'")
	run(t, opened(t, url+"&statement_timeout=10000"), "INSERT INTO t (id) VALUES (3)")
	must.NoError(t, writer.Commit())
	must.NoError(t, <-done)
	run(t, opened(t, url), "UPDATE t SET more = ''")
}
