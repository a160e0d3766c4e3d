package integration

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"collab/adapters/gormdb"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/tempdir"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }

// database is one that servers run on.
type database struct {
	url            string // for servers
	driver, source string // for database/sql
	servers        int    // how many run on it
}

func sqliteDatabase(t testing.TB) database {
	file := filepath.Join(tempdir.New(t), "collab.db")
	return database{"sqlite://" + file, "sqlite", "file:" + file + "?_pragma=busy_timeout(10000)", 1}
}

func postgresDatabase(t testing.TB) database {
	url := collabd.Postgres(t)
	return database{url, "pgx", url, 2}
}

// onBoth runs a test on SQLite with one server and on Postgres with two.
func onBoth(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("on SQLite with one server", func(t *testing.T) { test(t, sqliteDatabase(t)) })
	t.Run("on Postgres with two servers", func(t *testing.T) { test(t, postgresDatabase(t)) })
}

// start starts the servers.
func (d database) start(t testing.TB, settings ...string) []*collabd.Server {
	t.Helper()
	return collabd.StartSeveral(t, d.servers, append(settings, "COLLAB_DATABASE_URL="+d.url)...)
}

// rows opens the database beside the servers, as SQL.
func (d database) rows(t testing.TB) *sql.DB {
	t.Helper()
	db := must.Do(sql.Open(d.driver, d.source)).Or(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// opened opens a database beside the servers, as a store.
func opened(t testing.TB, url string) *gormdb.DB {
	t.Helper()
	db := must.Do(gormdb.Open(t.Context(), gormdb.Options{URL: url})).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, db.Close())
	})
	return db
}
