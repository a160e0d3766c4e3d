package gormdb

import (
	"context"
	"database/sql"
	"errors"
)

// sqliteReader reads through one connection.
type sqliteReader struct {
	pool *sql.DB
	conn *sql.Conn
}

// openSQLiteReader opens a database that may have the write-ahead log of a server that was killed.
func openSQLiteReader(ctx context.Context, address string) (reader, error) {
	r, err := connectSQLite(ctx, address, "busy_timeout(10000)", "query_only(1)", "cache_size(-8000)")
	if err != nil {
		return nil, err
	}
	return r, nil
}

func connectSQLite(ctx context.Context, address string, pragmas ...string) (sqliteReader, error) {
	path, err := SQLiteFile(address)
	if err != nil {
		return sqliteReader{}, err
	}
	pool, err := openSQLitePool(sqliteDSN(path, "deferred", pragmas) + "&mode=rw")
	if err != nil {
		return sqliteReader{}, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return sqliteReader{}, errors.Join(err, pool.Close())
	}
	return sqliteReader{pool, conn}, nil
}

func (r sqliteReader) Close() error { return errors.Join(r.conn.Close(), r.pool.Close()) }

func (r sqliteReader) rows(ctx context.Context, text string, args []any, each func([]any) error) (err error) {
	rows, err := r.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	dest := make([]any, len(columns))
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := each(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqliteWriter writes through one connection.
type sqliteWriter struct{ sqliteReader }

// openSQLiteWriter opens a database. Until finish a crash of the machine may undo commits, with the
// state that they stored.
func openSQLiteWriter(ctx context.Context, address string) (writer, error) {
	path, err := SQLiteFile(address)
	if err == nil {
		err = makeFile(path)
	}
	if err != nil {
		return nil, err
	}
	r, err := connectSQLite(ctx, address, "busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "synchronous(NORMAL)", "temp_store(MEMORY)", "cache_size(-8000)")
	if err != nil {
		return nil, err
	}
	return sqliteWriter{r}, nil
}

func (w sqliteWriter) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.conn.ExecContext(ctx, text, args...)
	return err
}

// lock returns nil, because the caller holds the lock of the file.
func (w sqliteWriter) lock(context.Context) error { return nil }

func (w sqliteWriter) insert(ctx context.Context, t *table, next func() (rowValues, bool, error)) (err error) {
	insert, err := w.conn.PrepareContext(ctx, "INSERT INTO "+t.name+" ("+join(t.all, "%")+") VALUES ("+join(t.all, "?")+")")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	args := make([]any, len(t.all))
	for {
		r, ok, err := next()
		if err != nil || !ok {
			return err
		}
		for i, v := range r {
			if u, ok := v.(uuid); ok {
				v = u.String()
			}
			args[i] = v
		}
		var texts []any
		if t == &taskTable.table {
			d, m := t.column("description"), t.column("metadata")
			description, _ := args[d].(string)
			metadata, _ := args[m].(string)
			if len(description)+len(metadata) > maxInline {
				texts = []any{args[t.column("org_id")], args[t.column("id")], args[d], args[m]}
				args[d], args[m] = nil, ""
			}
		}
		if _, err := insert.ExecContext(ctx, args...); err != nil {
			return err
		}
		if texts != nil {
			if err := w.exec(ctx, "INSERT INTO task_texts (org_id, task_id, description, metadata) VALUES (?, ?, ?, ?)", texts...); err != nil {
				return err
			}
		}
	}
}

// finish checkpoints the write-ahead log after the commit.
func (w sqliteWriter) finish(ctx context.Context, commit func() error) error {
	if err := commit(); err != nil {
		return err
	}
	return w.exec(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
}
