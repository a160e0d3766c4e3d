package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"collab/domain/fault"
)

// failed returns the error of the core for an error of the database. What names the record.
// If a context ended the statement, it returns the context's error.
func failed(ctx context.Context, err error, what string) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return err
	}
	switch cause(err) {
	case causeTaken:
		return fault.Wrap(fault.Conflict, err, "%s is there already", what)
	case causeReference:
		return fault.Wrap(fault.NotFound, err, "%s belongs to a record that was not found", what)
	case causeInvalidText:
		return fault.Wrap(fault.NotFound, err, "%s not found", what)
	case causeUnreachable:
		return fault.Wrap(fault.Unavailable, err, "The database does not answer")
	}
	return fault.Wrap(fault.Internal, err, "The database failed")
}

// The causes of errors that callers distinguish.
const (
	causeOther = iota
	causeTaken
	causeReference
	causeInvalidText
	causeUnreachable
)

func cause(err error) int {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	var network net.Error
	var connecting *pgconn.ConnectError
	switch {
	case errors.As(err, &connecting): // also if the server refused the connection
		return causeUnreachable
	case errors.As(err, &pg):
		switch pg.Code {
		case "23505":
			return causeTaken
		case "23503":
			return causeReference
		case "22P02", "22021": // a text that is no UUID, or that cannot be stored at all, names nothing
			return causeInvalidText
		// A standby that only reads, idle in a transaction, a lock is held, shut down, crashed, starting, idle.
		case "25006", "25P03", "55P03", "57P01", "57P02", "57P03", "57P05":
			return causeUnreachable
		}
		switch pg.Code[:min(2, len(pg.Code))] {
		case "08", "53": // the connection, the server's resources
			return causeUnreachable
		}
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case sqlitecode.SQLITE_CONSTRAINT:
			switch lite.Code() {
			case sqlitecode.SQLITE_CONSTRAINT_UNIQUE, sqlitecode.SQLITE_CONSTRAINT_PRIMARYKEY:
				return causeTaken
			case sqlitecode.SQLITE_CONSTRAINT_FOREIGNKEY:
				return causeReference
			}
		case sqlitecode.SQLITE_BUSY, sqlitecode.SQLITE_LOCKED, sqlitecode.SQLITE_IOERR, sqlitecode.SQLITE_FULL, sqlitecode.SQLITE_CANTOPEN:
			return causeUnreachable
		}
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, os.ErrDeadlineExceeded), pgconn.SafeToRetry(err):
		return causeUnreachable
	}
	return causeOther
}

// retryable reports whether a transaction failed only because of concurrent ones, or
// because fn ignored an error, after which Postgres rejects all statements. If that error
// had another cause, fn gets it again when it is run again.
func retryable(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, errUndone) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "25P02": // serialization failure, deadlock, in a failed transaction
		return true
	}
	return false
}
