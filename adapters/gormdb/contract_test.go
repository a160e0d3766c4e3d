package gormdb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"collab/test/contract"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/tempdir"
)

// databases are the kinds of databases with functions that return addresses of empty ones and of
// ones with the newest schema.
var databases = []struct {
	name          string
	url, migrated func(t testing.TB) string
}{
	{"SQLite", emptySQLite, func(t testing.TB) string {
		url := emptySQLite(t)
		must.NoError(t, migrateAt(t.Context(), url))
		return url
	}},
	{"Postgres", postgres.URL, migratedPostgres},
}

func emptySQLite(t testing.TB) string {
	return "sqlite://" + filepath.Join(tempdir.New(t), "data", "collab.db")
}

var migratedPostgres = postgres.Copies(migrateAt)

// migrateAt brings the database at an address to the newest schema.
func migrateAt(ctx context.Context, url string) error {
	db, err := Open(ctx, Options{URL: url})
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// onEach runs a test with the address of an empty database of each kind.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, d.url(t)) })
	}
}

// onBoth runs a test on a fresh, migrated database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, db *DB)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, opened(t, d.migrated(t))) })
	}
}

// run executes a statement.
func run(t testing.TB, db *DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.pools[0].ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%v in %s", err, statement)
	}
}

// value returns the only value of a query.
func value[V any](t testing.TB, pool *sql.DB, query string, args ...any) (v V) {
	t.Helper()
	must.NoError(t, pool.QueryRowContext(t.Context(), query, args...).Scan(&v))
	return v
}

// opened returns a database that is closed at the end of the test.
func opened(t testing.TB, url string) *DB {
	t.Helper()
	db := must.Do(Open(t.Context(), Options{URL: url})).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, db.Close())
	})
	return db
}

// migrated returns an opened database with the newest schema.
func migrated(t testing.TB, url string) *DB {
	t.Helper()
	db := opened(t, url)
	must.NoError(t, db.Migrate(t.Context()))
	return db
}

func TestStore(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		prepared.Clear()
		testStore(t, db)
		t.Run("plans", func(t *testing.T) { testPlans(t, db.dialect) })
	})
}

func testStore(t *testing.T, db *DB) {
	contract.Store(t, func(*testing.T) contract.Opened {
		return contract.Opened{Store: db, Epochs: db, Snapshots: db, Apart: db.dialect == onPostgres}
	})
}

func TestMigrateByManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		dbs := make([]*DB, 8)
		for i := range dbs {
			dbs[i] = opened(t, url)
		}
		var log bytes.Buffer
		empty := must.Do(Open(t.Context(), Options{URL: url, Logger: slog.New(slog.NewTextHandler(&log, nil))})).Or(t)
		err := empty.Ready(t.Context())
		if want := fmt.Sprintf("The database's schema has version 0 and needs %d: run collabd migrate", Schema()); err == nil || err.Error() != want || log.Len() > 0 {
			t.Errorf("Ready of an empty database returned %v and logged %q", err, log.String())
		}
		must.NoError(t, empty.Close())
		errs := make([]error, len(dbs))
		var all sync.WaitGroup
		for i, db := range dbs {
			all.Go(func() {
				if errs[i] = db.Migrate(t.Context()); errs[i] == nil {
					errs[i] = db.Ready(t.Context())
				}
			})
		}
		all.Wait()
		for i, err := range errs {
			if err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		}
		must.Is(t, Schema(), value[int64](t, dbs[0].pools[0], "SELECT COUNT(*) FROM goose_db_version WHERE version_id > 0"))
	})
}
