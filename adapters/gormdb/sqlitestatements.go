package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"sync"

	"gorm.io/gorm"
	"modernc.org/libc"
	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"
)

// maxStatements bounds the cache of a connection.
const maxStatements = 256

// openSQLitePool opens a pool whose connections cache prepared statements, which the
// driver does not. Without the cache a task and a list of 50 cost more processor time than on
// Postgres with the database; docs/performance.md compares the two as they are. A statement is
// interrupted when its context ends, which rolls back the transaction if the statement writes.
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

// sqliteConn has the methods of the driver's connections that database/sql uses.
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
	handle uintptr // the address of SQLite's connection
	cached map[string]*cachedStatement
	async  bool // its commits do not wait for the disk
}

// asyncKey is the key of contexts that begin asynchronous transactions.
type asyncKey struct{}

func withAsync(ctx context.Context, async bool) context.Context {
	if async {
		return context.WithValue(ctx, asyncKey{}, true)
	}
	return ctx
}

// ResetSession makes commits wait for the disk, before each use of the connection, except those of asynchronous
// transactions, which become durable with the next one that waits. If it fails, another connection is opened.
func (c *cachingConn) ResetSession(ctx context.Context) error {
	if c.async && ctx.Value(asyncKey{}) == nil && c.setSync(ctx, "FULL") != nil {
		return driver.ErrBadConn
	}
	return c.sqliteConn.ResetSession(ctx)
}

// setSync sets how commits wait for the disk: FULL or NORMAL; after an error they may not wait. SQLite applies the
// pragma, which is not cached, when it is prepared, and only between transactions.
func (c *cachingConn) setSync(ctx context.Context, level string) error {
	_, err := c.sqliteConn.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous = "+level, nil)
	c.async = err != nil || level == "NORMAL"
	return err
}

// begin begins a transaction that takes the write lock.
func (c *cachingConn) begin(ctx context.Context) error {
	if !c.async && ctx.Value(asyncKey{}) != nil {
		if err := c.setSync(ctx, "NORMAL"); err != nil {
			return err
		}
	}
	return c.run(ctx, "BEGIN IMMEDIATE")
}

// run executes a cached statement without parameters.
func (c *cachingConn) run(ctx context.Context, statement string) error {
	_, err := c.ExecContext(ctx, statement, nil)
	return err
}

// sqliteWritePool is a pool for whose transactions database/sql starts no goroutines: a transaction and each query in
// it would have one.
type sqliteWritePool struct{ *sql.DB }

// BeginTx implements gorm.ConnPoolBeginner.
func (p sqliteWritePool) BeginTx(ctx context.Context, _ *sql.TxOptions) (gorm.ConnPool, error) {
	conn, err := p.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := conn.Raw(func(c any) error { return c.(*cachingConn).begin(ctx) }); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sqliteTransaction{conn}, nil
}

// sqliteTransaction is a transaction of a sqliteWritePool.
type sqliteTransaction struct{ *sql.Conn }

// Commit implements gorm.TxCommitter. A commit that fails is rolled back.
func (t *sqliteTransaction) Commit() error {
	return t.end(func(c *cachingConn) error {
		err := c.run(context.Background(), "COMMIT")
		if err != nil {
			_ = c.run(context.Background(), "ROLLBACK") // it fails if SQLite has rolled back
		}
		return err
	})
}

// Rollback implements gorm.TxCommitter.
func (t *sqliteTransaction) Rollback() error {
	return t.end(func(c *cachingConn) error { return c.run(context.Background(), "ROLLBACK") })
}

func (t *sqliteTransaction) end(fn func(*cachingConn) error) error {
	return errors.Join(t.Raw(func(c any) error { return fn(c.(*cachingConn)) }), t.Close())
}

// unwatched is a context without an end for database/sql, which would start goroutines to
// wait for it. The connection watches the inner one.
type unwatched struct{ context.Context }

// Done returns nil.
func (unwatched) Done() <-chan struct{} { return nil }

// watch interrupts the running statement when ctx ends, until end is called.
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

// statement returns the cached statement of a query, or nil if it has open rows or cannot
// be prepared, in which case the connection returns the error.
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

// evict closes any one statement without open rows.
func (c *cachingConn) evict() {
	for query, s := range c.cached {
		if !s.busy {
			delete(c.cached, query)
			_ = s.Close() // it returns the error of the last execution again
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

// sqliteRows has the methods of the driver's rows.
type sqliteRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// cachedRows return their statement to the cache when they are closed.
type cachedRows struct {
	sqliteRows
	of  *cachedStatement // nil: not cached
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
