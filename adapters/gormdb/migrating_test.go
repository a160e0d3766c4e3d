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

// stepsOf are migrations of a table t, of which the last one is not run by began.
func stepsOf(last string) fs.FS {
	return fstest.MapFS{
		"1_table.sql": {Data: []byte("-- +goose Up\nCREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY);\nINSERT INTO t (id) VALUES (1);\n")},
		"2_last.sql":  {Data: []byte(last)},
	}
}

const indexStep = `-- +goose NO TRANSACTION
-- +goose Up
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS t_id;
CREATE INDEX CONCURRENTLY t_id ON t (id);
SET lock_timeout = 250;
`

// began returns the address of a Postgres database with the table t, and a transaction that has
// written to it, which every change of the table waits for.
func began(t *testing.T, steps fs.FS) (url string, writer *sql.Tx) {
	t.Helper()
	url = postgres.URL(t)
	db := opened(t, url)
	must.NoError(t, db.migrate(t.Context(), steps, 1))
	writer = must.Do(db.pools[0].BeginTx(t.Context(), nil)).Or(t)
	t.Cleanup(func() { _ = writer.Rollback() })
	must.Do(writer.ExecContext(t.Context(), "UPDATE t SET id = 2")).Or(t)
	return url, writer
}

// migrating runs the steps in the background.
func migrating(ctx context.Context, t *testing.T, url string, steps fs.FS) <-chan error {
	db, done := opened(t, url), make(chan error, 1)
	go func() { done <- db.migrate(ctx, steps, goose.MaxVersion) }()
	return done
}

// awaitSession waits until the database has a session that meets a condition on pg_stat_activity.
func awaitSession(t *testing.T, url, condition string) {
	t.Helper()
	awaitTrue(t, url, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "+condition+")")
}

func awaitTrue(t *testing.T, url, query string) {
	t.Helper()
	c := must.Do(pgx.Connect(t.Context(), url)).Or(t)
	defer c.Close(context.WithoutCancel(t.Context()))
	for is := false; !is; {
		must.NoError(t, c.QueryRow(t.Context(), query).Scan(&is))
	}
}

func TestServersThatMigrateAtOnceDoNotPreventAnIndex(t *testing.T) {
	steps := stepsOf(indexStep)
	url, writer := began(t, steps)
	first := migrating(t.Context(), t, url, steps)
	awaitSession(t, url, "query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'")
	second := migrating(t.Context(), t, url, steps)
	awaitSession(t, url, "query LIKE '%advisory_lock%'")
	must.NoError(t, writer.Commit())
	for _, done := range []<-chan error{first, second} {
		must.Succeed(t, <-done)
	}
	awaitTrue(t, url, "SELECT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
}

func TestAnInterruptedIndexIsMadeAgain(t *testing.T) {
	steps := stepsOf(indexStep)
	url, writer := began(t, steps)
	ctx, interrupt := context.WithCancel(t.Context())
	done := migrating(ctx, t, url, steps)
	awaitSession(t, url, "query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'")
	interrupt()
	if err := <-done; err == nil {
		t.Fatal("the interrupted migration has no error")
	}
	awaitTrue(t, url, "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
	must.NoError(t, writer.Commit())
	must.NoError(t, <-migrating(t.Context(), t, url, steps))
	awaitTrue(t, url, "SELECT indisvalid FROM pg_index WHERE indexrelid = 't_id'::regclass")
}

// TestAMigrationThatWaitsForALockLetsWritersPass writes with a timeout that is longer than a migration waits
// for its lock.
func TestAMigrationThatWaitsForALockLetsWritersPass(t *testing.T) {
	steps := stepsOf("-- +goose Up\nALTER TABLE t ADD COLUMN more TEXT;\n")
	url, writer := began(t, steps)
	done := migrating(t.Context(), t, url, steps)
	awaitSession(t, url, "query LIKE 'ALTER TABLE%' AND wait_event_type = 'Lock'")
	run(t, opened(t, url+"&statement_timeout=10000"), "INSERT INTO t (id) VALUES (3)")
	must.NoError(t, writer.Commit())
	must.NoError(t, <-done)
	run(t, opened(t, url), "UPDATE t SET more = ''")
}
