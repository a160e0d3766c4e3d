package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"sync"

	"modernc.org/libc"
	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"
)

// maxStatements bounds how many statements a connection keeps.
const maxStatements = 256

// openSQLitePool opens a pool whose connections cache prepared statements, which the
// driver does not. Without the cache a list of 50 tasks costs 1.06 to 1.25 of the
// processor time on Postgres and a task up to 1.06, where the goal of test/bench is at
// most 1.00 and 0.81 to 0.96 and 0.63 are measured with it. A statement is interrupted when its
// context ends, which rolls back the transaction if the statement writes.
func openSQLitePool(dsn string) (*sql.DB, error) {
	c, err := sqlitedriver.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(cachingConnector{c}), nil
}

type cachingConnector struct{ driver.Connector }

func (k cachingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// The driver interrupts from a goroutine for each statement and does not export
	// the handle that interrupting needs.
	handle := uintptr(reflect.ValueOf(c).Elem().FieldByName("db").Uint())
	withoutMutex(handle)
	return &cachingConn{sqliteConn: c.(sqliteConn), handle: handle, cached: map[string]*cachedStatement{}}, nil
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

// cachingConn is a connection with its prepared statements. It is used by one
// goroutine at a time, like every driver.Conn.
type cachingConn struct {
	sqliteConn
	handle uintptr // SQLite's own connection
	cached map[string]*cachedStatement
	unsafe bool // its commits may not wait for the disk though they should
}

// asyncKey is of a context with which an async transaction begins.
type asyncKey struct{}

func withAsync(ctx context.Context, async bool) context.Context {
	if async {
		return context.WithValue(ctx, asyncKey{}, true)
	}
	return ctx
}

// Every commit waits for the disk but that of an async transaction: the first
// that waits after it takes it along. No statement is kept for these, as SQLite
// obeys them when they are parsed, and only between transactions.
const (
	waitForDisk = "PRAGMA synchronous = FULL"
	waitForNone = "PRAGMA synchronous = NORMAL"
)

func (c *cachingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if ctx.Value(asyncKey{}) == nil {
		return c.sqliteConn.BeginTx(ctx, o)
	}
	if _, err := c.sqliteConn.ExecContext(context.WithoutCancel(ctx), waitForNone, nil); err != nil {
		return nil, err
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		c.waitForDiskAgain()
		return nil, err
	}
	return asyncTx{tx, c}, nil
}

// waitForDiskAgain ends the time in which commits do not wait. A connection that does
// not obey is not used again.
func (c *cachingConn) waitForDiskAgain() {
	_, err := c.sqliteConn.ExecContext(context.Background(), waitForDisk, nil)
	c.unsafe = c.unsafe || err != nil
}

func (c *cachingConn) IsValid() bool { return !c.unsafe && c.sqliteConn.IsValid() }

type asyncTx struct {
	driver.Tx
	c *cachingConn
}

func (t asyncTx) Commit() error {
	defer t.c.waitForDiskAgain()
	return t.Tx.Commit()
}

func (t asyncTx) Rollback() error {
	defer t.c.waitForDiskAgain()
	return t.Tx.Rollback()
}

// unwatched is a context without an end for database/sql, which would start
// goroutines to wait for it. The connection watches the one inside.
type unwatched struct{ context.Context }

// Done returns nil.
func (unwatched) Done() <-chan struct{} { return nil }

// watch interrupts the statement that runs when ctx ends, until end is called.
func (c *cachingConn) watch(ctx context.Context) (end func()) {
	if u, ok := ctx.(unwatched); ok {
		ctx = u.Context
	}
	if ctx.Done() == nil {
		return func() {}
	}
	var mu sync.Mutex
	ended := false
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			tls := libc.NewTLS() // the connection's own is in use
			defer tls.Close()
			sqlitecode.Xsqlite3_interrupt(tls, c.handle)
		}
	})
	return func() {
		if stop() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}
}

type cachedStatement struct {
	driver.Stmt
	busy bool // rows of it are open
}

// statement returns the kept statement for a query, or nil where there can be
// none: it has open rows, or the query cannot be prepared, which the connection
// itself then says.
func (c *cachingConn) statement(ctx context.Context, query string) *cachedStatement {
	if s, ok := c.cached[query]; ok {
		if s.busy {
			return nil
		}
		return s
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	if len(c.cached) >= maxStatements {
		c.evict()
	}
	s := &cachedStatement{Stmt: prepared}
	c.cached[query] = s
	return s
}

// evict closes one statement without open rows, whichever comes first.
func (c *cachingConn) evict() {
	for query, s := range c.cached {
		if !s.busy {
			delete(c.cached, query)
			_ = s.Close() // it says again how the statement ended last time
			return
		}
	}
}

func (c *cachingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.watch(ctx)()
	ctx = context.WithoutCancel(ctx)
	if s := c.statement(ctx, query); s != nil {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	}
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *cachingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	end := c.watch(ctx)
	ctx = context.WithoutCancel(ctx)
	s := c.statement(ctx, query)
	var rows driver.Rows
	var err error
	if s == nil {
		rows, err = c.sqliteConn.QueryContext(ctx, query, args)
	} else {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	}
	if err != nil {
		end()
		return nil, err
	}
	if s != nil {
		s.busy = true
	}
	return &cachedRows{sqliteRows: rows.(sqliteRows), of: s, end: end}, nil
}

func (c *cachingConn) Close() error {
	for _, s := range c.cached {
		_ = s.Close()
	}
	c.cached = nil
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

// cachedRows give their statement back when they are closed.
type cachedRows struct {
	sqliteRows
	of  *cachedStatement // nil: it is not kept
	end func()           // of watching the context
}

func (r *cachedRows) Close() error {
	err := r.sqliteRows.Close()
	r.end()
	if r.of != nil {
		r.of.busy = false
	}
	return err
}
