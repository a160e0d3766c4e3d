package limits

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// dialect is how a database writes what the two do not write alike.
type dialect struct {
	uuid   string // the id of a sort of record from the value of an expression
	digits string // the ten digits of an expression
	repeat string // a text so many times, of which there is an even number
	day    string // so many days ago
}

var (
	sqliteDialect = dialect{
		uuid:   "printf('%s-0000-7000-8000-%%012x', %s)",
		digits: "printf('%%010d', %s)",
		repeat: "replace(hex(zeroblob(%[2]d / 2)), '0', '%[1]s')",
		day:    "date('now', '-'||(%s)||' day')",
	}
	postgresDialect = dialect{
		uuid:   "CAST('%s-0000-7000-8000-'||lpad(to_hex(%s), 12, '0') AS UUID)",
		digits: "lpad(CAST(%s AS TEXT), 10, '0')",
		repeat: "repeat('%s', %d)",
		day:    "to_char(now() - (%s) * interval '1 day', 'YYYY-MM-DD')",
	}
)

// database is the one that a server is on.
type database struct {
	dialect
	server *collabd.Server
	url    string // of Postgres; empty: SQLite in the server's directory
	kept   string // the copy that restore restores, of SQLite
}

// onEach runs a test with a server on SQLite and, beside it, with one on Postgres.
func onEach(t *testing.T, test func(t *testing.T, d *database), settings ...string) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		race.Skip(t, "the server is the same on Postgres, and SQLite, being Go, takes minutes")
		test(t, &database{dialect: sqliteDialect, server: collabd.Start(t, settings...)})
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		address := collabd.Postgres(t)
		test(t, &database{dialect: postgresDialect, url: address, server: collabd.Start(t, append(settings, "COLLAB_DATABASE_URL="+address)...)})
	})
}

// file is that of SQLite.
func (d *database) file() string { return filepath.Join(d.server.Dir, "collab.db") }

// open returns a connection to the database, until the test ends.
func (d *database) open(t testing.TB) *sql.DB {
	t.Helper()
	driver, source := "pgx", d.url
	if d.url == "" {
		driver, source = "sqlite", d.file()+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)&_pragma=temp_store(FILE)"
	}
	db := must.Do(sql.Open(driver, source)).Or(t)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

// keep notes what the database has, for restore. Nobody is connected to it.
func (d *database) keep(t *testing.T) {
	t.Helper()
	if d.url == "" {
		d.kept = filepath.Join(t.TempDir(), "collab.db") // on a disk, as it has several gigabytes in a soak
		copied(t, d.file(), d.kept)
		return
	}
	name := d.name(t)
	d.administer(t, "CREATE DATABASE "+name+"_filled TEMPLATE "+name+" STRATEGY FILE_COPY")
	t.Cleanup(func() { d.administer(t, "DROP DATABASE "+name+"_filled") })
}

// restore restores the state that keep recorded. The server must not be running.
func (d *database) restore(t testing.TB) {
	t.Helper()
	if d.url == "" {
		for _, end := range []string{"-wal", "-shm"} {
			if err := os.Remove(d.file() + end); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		copied(t, d.kept, d.file())
		return
	}
	name := d.name(t)
	d.administer(t, "DROP DATABASE "+name+" WITH (FORCE)", "CREATE DATABASE "+name+" TEMPLATE "+name+"_filled STRATEGY FILE_COPY")
}

// name is that of the database of Postgres.
func (d *database) name(t testing.TB) string {
	t.Helper()
	u := must.Do(url.Parse(d.url)).Or(t)
	return u.Path[1:]
}

// administer executes statements over a connection to another database of Postgres.
func (d *database) administer(t testing.TB, statements ...string) {
	t.Helper()
	u := must.Do(url.Parse(d.url)).Or(t)
	u.Path = "/postgres"
	db := must.Do(sql.Open("pgx", u.String())).Or(t)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// copied copies a file and has the copy on the disk, so that no request waits until it is written.
func copied(t testing.TB, from, to string) {
	t.Helper()
	in := must.Do(os.Open(from)).Or(t)
	defer in.Close()
	out := must.Do(os.Create(to)).Or(t)
	must.Do(io.Copy(out, in)).Or(t)
	must.NoError(t, out.Sync())
	must.NoError(t, out.Close())
}

// recordCopier multiplies records.
type recordCopier struct {
	testing.TB
	dialect
	db *sql.DB
}

// set has the expressions of columns that differ between copies; i is the copy's
// number, from 1 on.
type set map[string]string

func (f recordCopier) exec(statement string, args ...any) {
	f.Helper()
	if _, err := f.db.Exec(statement, args...); err != nil {
		f.Fatalf("%v in %.1000s", err, statement)
	}
}

// id is the expression of the id of record i. Each sort has ids of its own.
func (f recordCopier) id(sort string) string { return fmt.Sprintf(f.uuid, sort, "i") }

// repeated is the expression of a text n times.
func (f recordCopier) repeated(text string, n int) string { return fmt.Sprintf(f.repeat, text, n) }

// text is the expression of n characters of four bytes.
func (f recordCopier) text(n int) string { return f.repeated("\U0001F600", n) }

// multiply adds copies of the one record that the condition selects.
func (f recordCopier) multiply(table, where string, copies int, differ set) {
	f.Helper()
	f.exec("CREATE TEMP TABLE template AS SELECT * FROM " + table + " WHERE " + where + " LIMIT 1")
	rows := must.Do(f.db.Query("SELECT * FROM " + table + " LIMIT 0")).Or(f)
	columns := must.Do(rows.Columns()).Or(f)
	_ = rows.Close()
	values := make([]string, len(columns))
	for i, name := range columns {
		values[i] = name
		if value, ok := differ[name]; ok {
			values[i] = value
		}
	}
	done, err := f.db.Exec(fmt.Sprintf("WITH RECURSIVE c(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM c WHERE i < %d) INSERT INTO %s (%s) SELECT %s FROM template, c",
		copies, table, strings.Join(columns, ", "), strings.Join(values, ", ")))
	if err != nil {
		f.Fatalf("%s: %v", table, err)
	}
	if n, err := done.RowsAffected(); err != nil || n != int64(copies) {
		f.Fatalf("%s: %d records instead of %d, %v", table, n, copies, err)
	}
	f.exec("DROP TABLE template")
}
