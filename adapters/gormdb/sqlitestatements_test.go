package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/must"
)

func TestCachedStatements(t *testing.T) {
	ctx := t.Context()
	pool := must.Do(openSQLitePool(sqliteDSN(filepath.Join(t.TempDir(), "cached.db"), "immediate", nil))).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, pool.Close())
	})
	pool.SetMaxOpenConns(1)
	exec := func(t *testing.T, statement string) {
		t.Helper()
		must.Do(pool.ExecContext(ctx, statement)).Or(t)
	}
	exec(t, "CREATE TABLE n (n INTEGER PRIMARY KEY); INSERT INTO n VALUES (1), (2), (3)") // several at once
	// onConn calls fn with the only connection.
	onConn := func(t *testing.T, fn func(*cachingConn)) {
		t.Helper()
		c := must.Do(pool.Conn(ctx)).Or(t)
		defer c.Close()
		must.NoError(t, c.Raw(func(raw any) error { fn(raw.(*cachingConn)); return nil }))
	}
	const query = "SELECT n FROM n WHERE n >= ? ORDER BY n"
	read := func(t *testing.T, from int, want string) {
		t.Helper()
		rows := must.Do(pool.QueryContext(ctx, query, from)).Or(t)
		if got := fmt.Sprint(drain(t, rows)); got != want {
			t.Errorf("from %d: %s, not %s", from, got, want)
		}
	}

	t.Run("a statement is prepared once and takes new arguments each time", func(t *testing.T) {
		read(t, 1, "[1 2 3]")
		var before, after *cachedStatement
		onConn(t, func(c *cachingConn) { before = c.cached[query] })
		read(t, 3, "[3]")
		onConn(t, func(c *cachingConn) { after = c.cached[query] })
		if before == nil || before != after {
			t.Errorf("%p became %p", before, after)
		}
	})

	t.Run("the same query within its own rows leaves them alone", func(t *testing.T) {
		tx := must.Do(pool.BeginTx(ctx, nil)).Or(t)
		defer tx.Rollback()
		outer := must.Do(tx.QueryContext(ctx, query, 1)).Or(t)
		defer outer.Close()
		var seen []int
		for outer.Next() {
			var n int
			must.NoError(t, outer.Scan(&n))
			seen = append(seen, n)
			inner := must.Do(tx.QueryContext(ctx, query, 2)).Or(t)
			must.Is(t, "[2 3]", fmt.Sprint(drain(t, inner)))
		}
		must.Is(t, "[1 2 3]", fmt.Sprint(seen))
	})

	t.Run("rows that are given up leave the statement usable and the database unlocked", func(t *testing.T) {
		rows := must.Do(pool.QueryContext(ctx, query, 1)).Or(t)
		rows.Next()
		must.NoError(t, rows.Close())
		exec(t, "INSERT INTO n VALUES (4)")
		read(t, 3, "[3 4]")
	})

	t.Run("a failed execution is reported and leaves the statement usable", func(t *testing.T) {
		const insert = "INSERT INTO n VALUES (?)"
		if _, err := pool.ExecContext(ctx, insert, 4); err == nil || cause(err) != causeTaken {
			t.Errorf("a second 4: %v", err)
		}
		must.Do(pool.ExecContext(ctx, insert, 5)).Or(t)
		read(t, 4, "[4 5]")
	})

	t.Run("a statement follows a change of the schema", func(t *testing.T) {
		exec(t, "CREATE INDEX n_down ON n (n DESC)")
		exec(t, "ALTER TABLE n ADD COLUMN more TEXT")
		read(t, 4, "[4 5]")
	})

	t.Run("a statement that cannot be prepared is an error and is not cached", func(t *testing.T) {
		if _, err := pool.QueryContext(ctx, "SELECT nothing"); err == nil {
			t.Error("no error")
		}
		onConn(t, func(c *cachingConn) {
			if c.cached["SELECT nothing"] != nil {
				t.Error("it is cached")
			}
		})
	})

	t.Run("at most maxStatements are cached", func(t *testing.T) {
		for i := range maxStatements + 10 {
			exec(t, fmt.Sprintf("SELECT %d", i))
		}
		onConn(t, func(c *cachingConn) {
			must.Is(t, maxStatements, len(c.cached))
		})
		read(t, 5, "[5]")
	})
}

// drain returns the numbers of rows.
func drain(t *testing.T, rows *sql.Rows) (all []int) {
	t.Helper()
	defer rows.Close()
	for rows.Next() {
		var n int
		must.NoError(t, rows.Scan(&n))
		all = append(all, n)
	}
	must.NoError(t, rows.Err())
	return all
}

// failingPragmas is a connection whose pragmas take effect and then fail.
type failingPragmas struct{ sqliteConn }

func (f failingPragmas) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := f.sqliteConn.ExecContext(ctx, query, args)
	if strings.HasPrefix(query, "PRAGMA") {
		err = errors.Join(err, errors.New("out of memory"))
	}
	return r, err
}

func TestFailedTransactionsLeaveTheWriterUsable(t *testing.T) {
	ctx := t.Context()
	pool := must.Do(openSQLitePool(sqliteDSN(filepath.Join(t.TempDir(), "failed.db"), "immediate", []string{"foreign_keys(1)", "synchronous(FULL)"}))).Or(t)
	t.Cleanup(func() { must.Succeed(t, pool.Close()) })
	pool.SetMaxOpenConns(1)
	must.Do(pool.ExecContext(ctx, "CREATE TABLE n (n INTEGER PRIMARY KEY, of INTEGER REFERENCES n DEFERRABLE INITIALLY DEFERRED)")).Or(t)
	begin := func(async bool) (*sqliteTransaction, error) {
		tx, err := sqliteWritePool{pool}.BeginTx(withAsync(ctx, async), nil)
		begun, _ := tx.(*sqliteTransaction)
		return begun, err
	}

	t.Run("a commit that fails is rolled back", func(t *testing.T) {
		tx := must.Do(begin(false)).Or(t)
		must.Do(tx.ExecContext(ctx, "INSERT INTO n VALUES (1, 2)")).Or(t)
		if err := tx.Commit(); cause(err) != causeReference {
			t.Error(err)
		}
		must.NoError(t, must.Do(begin(false)).Or(t).Commit())
	})

	for name, level := range map[string]string{"first": "NORMAL", "next": "FULL"} {
		t.Run("commits wait for the disk after the "+name+" setting failed", func(t *testing.T) {
			if level == "FULL" {
				must.NoError(t, must.Do(begin(true)).Or(t).Commit())
			}
			c := must.Do(pool.Conn(withAsync(ctx, true))).Or(t)
			must.NoError(t, c.Raw(func(raw any) error {
				of := &raw.(*cachingConn).sqliteConn
				*of = failingPragmas{*of}
				return nil
			}))
			must.NoError(t, c.Close())
			if level == "NORMAL" {
				if _, err := begin(true); err == nil {
					t.Fatal("it begins")
				}
			}
			synchronous := 0
			must.NoError(t, pool.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous))
			must.Is(t, 2, synchronous)
		})
	}
}

// TestPlansAreOfStatements asks for the plan of a LIKE, which SQLite would
// otherwise plan by what its parameter begins with.
func TestPlansAreOfStatements(t *testing.T) {
	pool := must.Do(openSQLitePool(sqliteDSN(filepath.Join(t.TempDir(), "plans.db"), "immediate", nil))).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, pool.Close())
	})
	must.Do(pool.ExecContext(t.Context(), "CREATE TABLE n (n TEXT COLLATE NOCASE PRIMARY KEY, m) WITHOUT ROWID")).Or(t)
	for query, want := range map[string]string{
		"SELECT m FROM n WHERE n LIKE 'a%' AND 'b%' = ?": "SEARCH n USING PRIMARY KEY (n>? AND n<?)",
		"SELECT m FROM n WHERE n LIKE ?":                 "SCAN n",
	} {
		var ids [3]int
		var plan string
		must.NoError(t, pool.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+query, "b%").Scan(&ids[0], &ids[1], &ids[2], &plan))
		if plan != want {
			t.Errorf("%s: %s, not %s", query, plan, want)
		}
	}
}
