package gormdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"collab/domain/fault"
)

// postgresReader reads through one connection.
type postgresReader struct{ conn *pgx.Conn }

// connectPostgres opens a connection beside any pool.
func connectPostgres(ctx context.Context, address string) (postgresReader, error) {
	a, err := parsePostgres(address)
	if err != nil {
		return postgresReader{}, err
	}
	a.config.RuntimeParams["application_name"] = "collab move"
	a.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // rows needs values in binary
	conn, err := pgx.ConnectConfig(ctx, a.config)
	return postgresReader{conn}, err
}

// openPostgresReader begins a transaction whose reads have one snapshot. Before that it takes locks that
// keep Partition from replacing tables.
func openPostgresReader(ctx context.Context, address string) (reader, error) {
	r, err := connectPostgres(ctx, address)
	if err != nil {
		return nil, err
	}
	lock, found := "", false // before the first migration no table exists
	err = r.conn.QueryRow(ctx, "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest($1::text[]) AS name", partitionedTables).Scan(&found)
	if found {
		lock = "LOCK TABLE " + strings.Join(partitionedTables, ", ") + " IN ACCESS SHARE MODE; "
	}
	if err == nil {
		_, err = r.awaitStopped(ctx)
	}
	if err == nil {
		_, err = r.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "+lock+fmt.Sprintf(withoutTimeouts, true))
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// served reports whether servers have connections to the database.
func (r postgresReader) served(ctx context.Context) (served bool, err error) {
	if _, err := r.conn.Exec(ctx, "SELECT pg_stat_clear_snapshot()"); err != nil { // a transaction caches the statistics
		return false, err
	}
	const find = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND " + ofServers + ")"
	err = r.conn.QueryRow(ctx, find).Scan(&served)
	return served, err
}

// closeAttempts is how often awaitStopped checks, every 0.1 seconds, that the connections have ended.
const closeAttempts = 20

// awaitStopped waits for the end of the connections of servers that were just stopped, and reports
// whether all have ended.
func (r postgresReader) awaitStopped(ctx context.Context) (bool, error) {
	for range closeAttempts {
		if served, err := r.served(ctx); err != nil || !served {
			return !served, err
		}
		if _, err := r.conn.Exec(ctx, "SELECT pg_sleep(0.1)"); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r postgresReader) Close() error { return r.conn.Close(context.Background()) }

func (r postgresReader) rows(ctx context.Context, text string, args []any, each func([]any) error) error {
	rows, err := r.conn.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns := rows.FieldDescriptions()
	for rows.Next() {
		values := make([]any, len(columns))
		for i, raw := range rows.RawValues() {
			if raw == nil {
				continue
			}
			switch columns[i].DataTypeOID {
			case pgtype.Int8OID:
				values[i] = int64(binary.BigEndian.Uint64(raw))
			case pgtype.BoolOID:
				values[i] = raw[0] == 1
			case pgtype.UUIDOID:
				values[i] = uuid(raw)
			case pgtype.ByteaOID:
				values[i] = append([]byte{}, raw...)
			case pgtype.TextOID, pgtype.NameOID:
				values[i] = string(raw)
			default:
				return fmt.Errorf("the column %s has a type that no table has", columns[i].Name)
			}
		}
		if err := each(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// postgresWriter writes through one connection.
type postgresWriter struct{ postgresReader }

func openPostgresWriter(ctx context.Context, address string) (writer, error) {
	r, err := connectPostgres(ctx, address)
	if err != nil {
		return nil, err
	}
	pooled, err := isPooled(ctx, r.conn)
	switch {
	case pooled:
		err = fault.New(fault.Invalid, "The target is reached through a pooler in transaction mode: give the address of Postgres itself, since a move needs a session")
	case err == nil:
		// Until finish a crash of the server may undo transactions, with the state that they stored.
		_, err = r.conn.Exec(ctx, fmt.Sprintf(withoutTimeouts, false)+"; SET synchronous_commit = off")
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return postgresWriter{r}, nil
}

func (w postgresWriter) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.conn.Exec(ctx, text, args...)
	return err
}

// lock takes a lock that ends with the connection, and returns an error if servers have the database open.
// It waits for the end of the connections of a process that was killed.
func (w postgresWriter) lock(ctx context.Context) error {
	err := w.exec(ctx, fmt.Sprintf("SET lock_timeout = '5s'; SELECT pg_advisory_lock(%d); RESET lock_timeout", int64(transferLock)))
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "55P03" {
		return errors.New("another move to the target is under way")
	}
	if err != nil {
		return err
	}
	stopped, err := w.awaitStopped(ctx)
	if err == nil && !stopped {
		err = errors.New("servers have connections to the target: stop them first")
	}
	return err
}

// copySource implements pgx.CopyFromSource.
type copySource struct {
	table *table
	next  func() (rowValues, bool, error)
	row   rowValues
	err   error
}

func (c *copySource) Next() bool {
	var ok bool
	c.row, ok, c.err = c.next()
	return ok && c.err == nil
}

// Values returns an error for texts that Postgres does not store.
func (c *copySource) Values() ([]any, error) {
	for i, v := range c.row {
		if text, ok := v.(string); ok && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
			return nil, fmt.Errorf("the record %s has a text in the column %s that Postgres does not store", c.table.key(c.row), c.table.all[i].name)
		}
	}
	return c.row, nil
}

func (c *copySource) Err() error { return c.err }

func (w postgresWriter) insert(ctx context.Context, t *table, next func() (rowValues, bool, error)) error {
	columns := make([]string, len(t.all))
	for i, f := range t.all {
		columns[i] = f.name
	}
	source := &copySource{table: t, next: next}
	_, err := w.conn.CopyFrom(ctx, pgx.Identifier{t.name}, columns, source)
	if source.err != nil {
		return source.err
	}
	return err
}

// finish updates the statistics for the planner, and commits synchronously, which makes all earlier
// commits durable too.
func (w postgresWriter) finish(ctx context.Context, commit func() error) error {
	if err := w.exec(ctx, "SET synchronous_commit = on; ANALYZE "+strings.Join(ComparedTables(), ", ")); err != nil {
		return err
	}
	return commit()
}
