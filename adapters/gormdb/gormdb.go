// Package gormdb stores every collection in SQL through GORM, on Postgres and on SQLite,
// with the same repositories and an equivalent schema for each.
//
// In both, times are milliseconds since 1970 in a BIGINT, ids
// are the database's UUIDs or text, and every key and foreign key of a tenant's
// table begins with the organisation. Statements are made from one description per
// record (table.go, selection.go); those that are SQL text are in statements.go.
package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"

	"gorm.io/gorm"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// attempts is how often a transaction is run at most, the first time included.
const attempts = 10

// Options configure Open.
type Options struct {
	// URL is sqlite://path (sqlite:///abs/x.db, sqlite://relative/x.db) or
	// postgres://…, which may have among its parameters pool_max_conns, and
	// pool_mode=transaction for a pooler in transaction mode.
	URL string

	// DirectURL is the address of the same database on Postgres for Migrate, if URL is that of a
	// pooler in transaction mode.
	DirectURL string

	// ReplicaURLs are the addresses of standbys on Postgres that From reads from.
	ReplicaURLs []string

	// Logger receives statements that failed unexpectedly, without their values. Nil:
	// nothing is logged.
	Logger *slog.Logger

	// Changed is called after each commit of a transaction that appended to an
	// organisation's log, with the last number. It must not block. Nil: it is not
	// called.
	Changed func(object.Hint)

	// Pause is called before a transaction is run again after the attempt-th time, because
	// of a conflict with concurrent ones. Nil: there is no pause. Its error ends the
	// transaction.
	Pause func(ctx context.Context, attempt int) error
}

// DB is a database with every collection.
type DB struct {
	conn
	pools   []*sql.DB
	pause   func(ctx context.Context, attempt int) error
	changed func(object.Hint)
	queue   writeQueue // for SQLite's writer
	marks   markCache  // on SQLite

	replicas replicas

	// migrator opens the connections of migrations and takes the lock that excludes those
	// of other servers.
	migrator func(ctx context.Context) (*migration, error)
}

var (
	_ ports.Store  = (*DB)(nil)
	_ ports.Epochs = (*DB)(nil)
	_ ports.Health = (*DB)(nil)
)

// conn has the handles that collections read and write with: of the pools, or of one
// transaction.
type conn struct {
	dialect dialect
	read    *gorm.DB
	write   *gorm.DB
	db      *DB

	// async is set for a transaction that a crash of the database may undo: on SQLite its
	// commit does not wait for the disk.
	async bool

	// locked has the organisations whose lock the transaction holds; nil outside
	// a transaction.
	locked map[id.Org]bool

	// heads has the heads of the logs that the transaction has locked, and appended the
	// last numbers of those that it has appended to.
	heads    map[id.Org]*lockedHead
	appended map[id.Org]int64
}

// Open opens the database, creating an empty one if SQLite has none, and fails with
// Unavailable if it does not answer, a transfer to it is not complete, or its schema is only for
// newer programs. Migrate creates the schema.
func Open(ctx context.Context, o Options) (*DB, error) {
	db, err := open(ctx, o)
	if err == nil {
		err = db.checkComplete(ctx)
	}
	if err == nil {
		err = db.checkSupported(ctx)
	}
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return nil, err
	}
	return db, nil
}

// open is Open also for the target of a transfer.
func open(ctx context.Context, o Options) (*DB, error) {
	db := &DB{pause: o.Pause, changed: o.Changed}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if db.changed == nil {
		db.changed = func(object.Hint) {}
	}
	if db.pause == nil {
		db.pause = func(ctx context.Context, _ int) error { return ctx.Err() }
	}
	db.conn.db = db
	d, err := dialectOfAddress(o.URL)
	switch {
	case err != nil:
	case d == onSQLite:
		err = db.openSQLite(o)
	default:
		err = db.openPostgres(o)
	}
	if err == nil {
		err = db.ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Close closes all connections. The database is of no use afterwards.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range db.pools {
		errs = append(errs, pool.Close())
	}
	for _, r := range db.replicas.all {
		errs = append(errs, r.conns.Close())
	}
	return errors.Join(errs...)
}

// ping pings every pool. If the server has closed a connection, it tries the next one,
// until the pool opens a new one.
func (db *DB) ping(ctx context.Context) error {
	for _, pool := range db.pools {
		err := pool.PingContext(ctx)
		for dead := pool.Stats().MaxOpenConnections; errors.Is(err, driver.ErrBadConn) && dead > 0; dead-- {
			err = pool.PingContext(ctx)
		}
		if err != nil {
			return failed(ctx, err, "Database")
		}
	}
	return nil
}

// openGORM returns a GORM handle of a pool.
func (db *DB) openGORM(pool *sql.DB, dialector gorm.Dialector, l *slog.Logger) (*gorm.DB, error) {
	db.pools = append(db.pools, pool)
	g, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logs{l},
	})
	if err != nil {
		return nil, failed(context.Background(), err, "Database")
	}
	return g, nil
}

// Atomic runs fn in a transaction: READ COMMITTED on Postgres, immediate on SQLite, where
// it is the only writer and may share the commit with others. After a conflict with
// concurrent transactions it is run again, a bounded number of times.
func (db *DB) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	return db.transact(ctx, false, func(c *conn) error { return fn(c) })
}

// At sends a query for the epoch along with each query on Postgres, and before it on SQLite.
// Whatever writes has no connections.
func (db *DB) At(o id.Org, epoch int64) ports.Records {
	at := &gorm.DB{Config: db.read.Config, Statement: &gorm.Statement{ConnPool: epochPool{db: db.read, org: o, epoch: epoch}}}
	return &conn{dialect: db.dialect, read: at}
}

func (db *DB) transact(ctx context.Context, async bool, fn func(*conn) error) error {
	return db.retry(ctx, func() error { return db.once(ctx, async, fn) })
}

// retry runs fn, and again after conflicts with concurrent transactions.
func (db *DB) retry(ctx context.Context, fn func() error) error {
	for attempt := 1; ; attempt++ {
		err := fn()
		if err == nil || attempt == attempts || !retryable(err) {
			return err
		}
		if e := db.pause(ctx, attempt); e != nil {
			return e
		}
	}
}

func (db *DB) once(ctx context.Context, async bool, fn func(*conn) error) error {
	c := &conn{
		dialect: db.dialect, db: db, async: async,
		locked: map[id.Org]bool{}, heads: map[id.Org]*lockedHead{}, appended: map[id.Org]int64{},
	}
	run := db.ownTransaction
	if db.dialect == onSQLite {
		run = db.grouped
	}
	err := run(ctx, c, func(c *conn) error {
		if err := fn(c); err != nil {
			return err
		}
		return c.storeUsage(ctx)
	})
	if err != nil {
		return err
	}
	for o, n := range c.appended {
		db.changed(object.Hint{Org: o, N: n})
	}
	return nil
}

// ownTransaction runs fn in a transaction of its own, on Postgres.
func (db *DB) ownTransaction(ctx context.Context, c *conn, fn func(*conn) error) error {
	return transaction(ctx, db.write, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *gorm.DB) error {
		c.read, c.write = tx, tx
		return fn(c)
	})
}

// transaction runs fn in a transaction. It returns an error of fn unchanged.
func transaction(ctx context.Context, db *gorm.DB, o *sql.TxOptions, fn func(*gorm.DB) error) error {
	if pool, ok := pgxPool(db, db.Statement.ConnPool); ok {
		return transactPgx(ctx, db, pool, o, fn)
	}
	var own error
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		own = fn(tx)
		return own
	}, o)
	if own != nil {
		return own
	}
	return failed(ctx, err, "Record")
}

// inTransaction reports whether c is a transaction.
func (c *conn) inTransaction() bool { return c.locked != nil }

// atomic runs fn in c's transaction, or in a new one if c is not a transaction.
func (c *conn) atomic(ctx context.Context, fn func(*conn) error) error {
	if c.inTransaction() {
		return fn(c)
	}
	return c.db.transact(ctx, false, fn)
}

// atomicWithLog is atomic with the log of an organisation locked.
func (c *conn) atomicWithLog(ctx context.Context, o id.Org, fn func(*conn) error) error {
	return c.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); err != nil {
			return err
		}
		return fn(c)
	})
}

// atomically is atomic for functions with a result.
func atomically[T any](ctx context.Context, c *conn, fn func(*conn) (T, error)) (v T, err error) {
	err = c.atomic(ctx, func(c *conn) error {
		v, err = fn(c)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// atomicAsync is atomic for changes that a crash of the database may undo, unless c is a
// transaction.
func (c *conn) atomicAsync(ctx context.Context, fn func(*conn) error) error {
	if c.inTransaction() {
		return fn(c)
	}
	return c.db.transact(ctx, true, fn)
}

// oneAsync is atomicAsync for changes of one statement, which is a transaction by itself on Postgres.
func (c *conn) oneAsync(ctx context.Context, fn func(*conn) error) error {
	if c.dialect == onPostgres {
		return fn(c)
	}
	return c.atomicAsync(ctx, fn)
}

func (c *conn) Directory() ports.Directory     { return group{c} }
func (c *conn) Work() ports.Work               { return group{c} }
func (c *conn) Journal() ports.Journal         { return group{c} }
func (c *conn) Storage() ports.Storage         { return storage{c} }
func (c *conn) Usage() ports.Usage             { return group{c} }
func (c *conn) Connections() ports.Connections { return group{c} }
func (c *conn) Deployment() ports.Deployment   { return group{c} }

// group implements all groups of collections except Storage. The methods that return the collections stand
// beside the collections' types. As methods of conn they would be compiled for each type that embeds it, half a
// megabyte in all.
type group struct{ *conn }

// storage implements the group Storage.
type storage struct{ *conn }
