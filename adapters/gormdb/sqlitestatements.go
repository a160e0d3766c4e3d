package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"

	sqlitedriver "modernc.org/sqlite"
)

// maxStatements bounds how many statements a connection keeps.
const maxStatements = 256

// openSQLitePool opens a pool whose connections keep the statements that they
// have parsed: parsing a short query takes longer than running it, and the
// driver keeps nothing by itself. Where lasting is set, no statement is
// interrupted when its context ends: one that writes would end the transaction,
// which others may share.
func openSQLitePool(dsn string, lasting bool) (*sql.DB, error) {
	c, err := sqlitedriver.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(keepingConnector{c, lasting}), nil
}

type keepingConnector struct {
	driver.Connector
	lasting bool
}

func (k keepingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &keepingConn{sqliteConn: c.(sqliteConn), kept: map[string]*keptStatement{}, lasting: k.lasting}, nil
}

// sqliteConn is what the driver's connections can do and database/sql makes use
// of.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// keepingConn is a connection with its statements. Like every driver's
// connection it is used by one goroutine at a time.
type keepingConn struct {
	sqliteConn
	kept    map[string]*keptStatement
	lasting bool
	unsafe  bool // its commits may not wait for the disk though they should
}

// fleetingKey is of a context with which a fleeting transaction begins.
type fleetingKey struct{}

func whetherFleeting(ctx context.Context, fleeting bool) context.Context {
	if fleeting {
		return context.WithValue(ctx, fleetingKey{}, true)
	}
	return ctx
}

// Every commit waits for the disk but that of a fleeting transaction: the first
// that waits after it takes it along. No statement is kept for these, as SQLite
// obeys them when they are parsed, and only between transactions.
const (
	waitForDisk = "PRAGMA synchronous = FULL"
	waitForNone = "PRAGMA synchronous = NORMAL"
)

func (c *keepingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if ctx.Value(fleetingKey{}) == nil {
		return c.sqliteConn.BeginTx(ctx, o)
	}
	if _, err := c.sqliteConn.ExecContext(context.WithoutCancel(ctx), waitForNone, nil); err != nil {
		return nil, err
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		c.waitAgain()
		return nil, err
	}
	return fleetingTx{tx, c}, nil
}

// waitAgain ends the time in which commits do not wait. A connection that does
// not obey is not used again.
func (c *keepingConn) waitAgain() {
	_, err := c.sqliteConn.ExecContext(context.Background(), waitForDisk, nil)
	c.unsafe = c.unsafe || err != nil
}

func (c *keepingConn) IsValid() bool { return !c.unsafe && c.sqliteConn.IsValid() }

type fleetingTx struct {
	driver.Tx
	c *keepingConn
}

func (t fleetingTx) Commit() error {
	defer t.c.waitAgain()
	return t.Tx.Commit()
}

func (t fleetingTx) Rollback() error {
	defer t.c.waitAgain()
	return t.Tx.Rollback()
}

// limit returns the context that a statement runs with.
func (c *keepingConn) limit(ctx context.Context) context.Context {
	if c.lasting {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

type keptStatement struct {
	driver.Stmt
	busy bool // rows of it are open
}

// statement returns the kept statement for a query, or nil where there can be
// none: it has open rows, or the query cannot be prepared, which the connection
// itself then says.
func (c *keepingConn) statement(ctx context.Context, query string) *keptStatement {
	if s, ok := c.kept[query]; ok {
		if s.busy {
			return nil
		}
		return s
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	if len(c.kept) >= maxStatements {
		c.forget()
	}
	s := &keptStatement{Stmt: prepared}
	c.kept[query] = s
	return s
}

// forget closes one statement without open rows, whichever comes first.
func (c *keepingConn) forget() {
	for query, s := range c.kept {
		if !s.busy {
			delete(c.kept, query)
			_ = s.Close() // it says again how the statement ended last time
			return
		}
	}
}

func (c *keepingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx = c.limit(ctx)
	if s := c.statement(ctx, query); s != nil {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	}
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *keepingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = c.limit(ctx)
	s := c.statement(ctx, query)
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &keptRows{sqliteRows: rows.(sqliteRows), of: s}, nil
}

func (c *keepingConn) Close() error {
	for _, s := range c.kept {
		_ = s.Close()
	}
	c.kept = nil
	return c.sqliteConn.Close()
}

// sqliteRows is what the driver's rows can do.
type sqliteRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// keptRows give their statement back when they are closed.
type keptRows struct {
	sqliteRows
	of *keptStatement
}

func (r *keptRows) Close() error {
	err := r.sqliteRows.Close()
	r.of.busy = false
	return err
}
