package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

// idleTime is how long an idle connection is kept open.
const idleTime = 5 * time.Minute

// rollbackTimeout is how long a transaction that failed waits for Postgres before its connection is closed.
const rollbackTimeout = 5 * time.Second

func (db *DB) openPostgres(o Options) error {
	address, err := parsePostgres(o.URL)
	if err != nil {
		return err
	}
	if address.config.ValidateConnect == nil { // a standby has old rights, and stores nothing
		address.config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	pool := address.open()
	g, err := db.openGORM(pool, postgres.New(postgres.Config{Conn: pool}), o.Logger)
	if err != nil {
		return err
	}
	db.dialect, db.read, db.write = onPostgres, g, g
	if o.DirectURL != "" {
		if address, err = parsePostgres(o.DirectURL); err != nil {
			return err
		}
	}
	db.migrator = migrationOnPostgres(address.config)
	return db.openReplicas(o)
}

// open returns a pool for the address.
func (a postgresAddress) open() *sql.DB {
	pool := stdlib.OpenDB(*a.config, stdlib.OptionAfterConnect(a.set))
	pool.SetMaxOpenConns(a.conns)
	pool.SetMaxIdleConns(a.conns)
	pool.SetConnMaxIdleTime(idleTime)
	return pool
}

// Now returns the time of the server's clock. It is for Postgres only.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	var ms int64
	_, err := oneRow(ctx, db.read, "Clock", sharedSQL("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"), &ms)
	return instant(ms), err
}

// settings are those of a connection, unless the address has them. Postgres plans each statement once: otherwise
// it plans one for each execution if it expects to save more by that, and is often wrong. Transactions without
// statements and waits for locks are limited, because a server that hangs would keep its locks, and get more.
var settings = map[string]string{
	"plan_cache_mode": "force_generic_plan", "idle_in_transaction_session_timeout": "10s", "lock_timeout": "20s",
}

// set sets the settings. Poolers refuse them as parameters at start; those in transaction mode have a
// connection for one transaction.
func (a postgresAddress) set(ctx context.Context, c *pgx.Conn) error {
	if a.pooled {
		return nil
	}
	text := ""
	for name, value := range settings {
		if given := a.config.RuntimeParams; given[name] == "" && !strings.Contains(given["options"], name) {
			text += "SET " + name + " = '" + value + "'; "
		}
	}
	return c.PgConn().Exec(ctx, text).Close()
}

// pgxPool returns the pool of Postgres, on which queries outside of transactions run through
// pgx: database/sql starts a goroutine for each query that can be cancelled, and converts each
// value twice.
func pgxPool(db *gorm.DB, pool gorm.ConnPool) (*sql.DB, bool) {
	p, ok := pool.(*sql.DB)
	return p, ok && dialectOf(db) == onPostgres
}

// queryPgx runs a query on a connection of the pool, and scan with its rows.
func queryPgx(ctx context.Context, pool *sql.DB, text string, args []any, scan func(scanner) error) error {
	return onPgx(ctx, pool, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, text, args...)
		return scanAll(rows, err, func(rows pgx.Rows) error { return scan(pgxRows{rows}) })
	})
}

// scanAll runs scan with rows and closes them, unless the query failed.
func scanAll(rows pgx.Rows, err error, scan func(pgx.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	return scan(rows)
}

// pgxRows decodes texts, ids and integers itself, since pgx looks for a plan of each conversion
// in each query.
type pgxRows struct{ pgx.Rows }

// Scan implements scanner.
func (r pgxRows) Scan(to ...any) error {
	columns := r.FieldDescriptions()
	if len(columns) != len(to) {
		return r.Rows.Scan(to...) // which is an error
	}
	for i, raw := range r.RawValues() {
		if err := scanValue(r.Conn().TypeMap(), &columns[i], raw, to[i]); err != nil {
			return err
		}
	}
	return nil
}

// scanValue decodes the value of a column.
func scanValue(types *pgtype.Map, c *pgconn.FieldDescription, raw []byte, to any) error {
	isText := c.DataTypeOID == pgtype.TextOID
	isUUID := c.DataTypeOID == pgtype.UUIDOID && c.Format == pgtype.BinaryFormatCode && len(raw) == 16
	isInt := c.DataTypeOID == pgtype.Int8OID && c.Format == pgtype.BinaryFormatCode && len(raw) == 8
	switch to := to.(type) {
	case *string:
		switch {
		case isText && raw != nil:
			*to = string(raw)
			return nil
		case isUUID:
			*to = uuidText(raw)
			return nil
		}
	case *int64:
		if isInt {
			*to = int64(binary.BigEndian.Uint64(raw))
			return nil
		}
	case scanFunc:
		switch {
		case raw == nil:
			return to(nil)
		case isText:
			return to(string(raw))
		case isUUID:
			return to(uuidText(raw))
		case isInt:
			return to(int64(binary.BigEndian.Uint64(raw)))
		}
	}
	return types.Scan(c.DataTypeOID, c.Format, raw, to)
}

func uuidText(raw []byte) string { return pgtype.UUID{Bytes: [16]byte(raw), Valid: true}.String() }

// epochPool is a pool on which queries compare an organisation's epoch first.
type epochPool struct {
	gorm.ConnPool // nil
	db            *gorm.DB
	org           id.Org
	epoch         int64
}

// is returns org.ErrEpochChanged unless the epoch was found and is that of the pool.
func (p epochPool) is(epoch int64, found bool) error {
	if !found || epoch != p.epoch {
		return org.ErrEpochChanged
	}
	return nil
}

// compare queries for the epoch.
func (p epochPool) compare(ctx context.Context) error {
	var epoch int64
	found, err := oneRow(ctx, p.db, "Organisation", selectEpoch(p.org), new(string), &epoch)
	if err != nil {
		return err
	}
	return p.is(epoch, found)
}

// query queries for the epoch and then runs a query, and scan with its rows, on Postgres in one round trip.
func (p epochPool) query(ctx context.Context, text string, args []any, scan func(scanner) error) error {
	inner := p.db.Statement.ConnPool
	pool, ok := pgxPool(p.db, inner)
	if !ok {
		if err := p.compare(ctx); err != nil {
			return err
		}
		return querySQL(ctx, inner, text, args, scan)
	}
	first := selectEpoch(p.org)
	compared, err := first.prepare(onPostgres)
	if err != nil {
		return err
	}
	return onPgx(ctx, pool, func(c *pgx.Conn) error {
		return queryAfter(ctx, c, compared, first.args, text, args, func(results pgx.BatchResults) error {
			var epoch int64
			err := results.QueryRow().Scan(new(string), &epoch)
			if err == nil || errors.Is(err, pgx.ErrNoRows) {
				err = p.is(epoch, err == nil)
			}
			return err
		}, func(rows pgx.Rows) error { return scan(pgxRows{rows}) })
	})
}

// onPgx runs fn with a connection of the pool. If the connection is closed before fn has sent
// anything, fn runs again with another one.
func onPgx(ctx context.Context, pool *sql.DB, fn func(*pgx.Conn) error) error {
	conn, err := takePgx(ctx, pool, fn)
	if conn != nil {
		_ = conn.Close() // returns it to the pool
	}
	return err
}

// takePgx is onPgx, and returns the connection to close, nil if there is none.
func takePgx(ctx context.Context, pool *sql.DB, fn func(*pgx.Conn) error) (*sql.Conn, error) {
	for attempt := 1; ; attempt++ {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		err = conn.Raw(func(c any) error { return fn(c.(*stdlib.Conn).Conn()) })
		if attempt == attempts || !pgconn.SafeToRetry(err) || ctx.Err() != nil {
			return conn, err
		}
		_ = conn.Close()
	}
}

// pgxTransaction is a transaction that begins with its first statement, in the same round trip.
type pgxTransaction struct {
	gorm.ConnPool // nil
	pool          *sql.DB
	begin         string
	conn          *sql.Conn // nil before the first statement
	pgx           *pgx.Conn // of conn
}

// transactPgx runs fn in a transaction of the pool, and returns its error unchanged.
func transactPgx(ctx context.Context, db *gorm.DB, pool *sql.DB, o *sql.TxOptions, fn func(*gorm.DB) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &pgxTransaction{pool: pool, begin: "BEGIN ISOLATION LEVEL " + o.Isolation.String()}
	if o.ReadOnly {
		t.begin += " READ ONLY"
	}
	defer t.end(ctx)
	err := fn(&gorm.DB{Config: db.Config, Statement: &gorm.Statement{ConnPool: t}})
	if err != nil || t.conn == nil {
		return err
	}
	done, err := t.pgx.Exec(ctx, "COMMIT")
	if err == nil && done.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return failed(ctx, err, "Record")
}

// end rolls back what is not committed, and returns the connection to the pool, closed if that failed.
func (t *pgxTransaction) end(ctx context.Context) {
	if t.conn == nil {
		return
	}
	if t.pgx.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := t.pgx.Exec(ctx, "ROLLBACK"); err != nil {
			_ = t.pgx.Close(ctx)
		}
	}
	_ = t.conn.Close()
}

// query runs a statement, and scan with its rows.
func (t *pgxTransaction) query(ctx context.Context, text string, args []any, scan func(pgx.Rows) error) (err error) {
	if t.conn != nil {
		rows, err := t.pgx.Query(ctx, text, args...)
		return scanAll(rows, err, scan)
	}
	t.conn, err = takePgx(ctx, t.pool, func(c *pgx.Conn) error {
		t.pgx = c
		return queryAfter(ctx, c, t.begin, nil, text, args, func(begun pgx.BatchResults) error {
			_, err := begun.Exec()
			return err
		}, scan)
	})
	return err
}

// ExecContext implements gorm.ConnPool.
func (t *pgxTransaction) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	var n int64
	err := t.query(ctx, text, args, func(rows pgx.Rows) error {
		rows.Close()
		n = rows.CommandTag().RowsAffected()
		return rows.Err()
	})
	return driver.RowsAffected(n), err
}

// queryAfter sends two statements in one round trip, and runs check with the results of the first, and then
// scan with the rows of the second.
func queryAfter(
	ctx context.Context, c *pgx.Conn, first string, firstArgs []any, text string, args []any,
	check func(pgx.BatchResults) error, scan func(pgx.Rows) error,
) error {
	var both pgx.Batch
	both.Queue(first, firstArgs...)
	both.Queue(text, args...)
	results := c.SendBatch(ctx, &both)
	defer results.Close()
	if err := check(results); err != nil {
		return err
	}
	rows, err := results.Query()
	return scanAll(rows, err, scan)
}

// postgresAddress is what the address of a database on Postgres says.
type postgresAddress struct {
	config *pgx.ConnConfig
	conns  int  // that the pool may have: pool_max_conns, else four times as many as processors, at least 16
	pooled bool // pool_mode=transaction: a pooler gives each transaction any of its connections
}

// parsePostgres reads an address. Statements through a pooler are unnamed, with descriptions that
// the client keeps, unless the address has default_query_exec_mode.
func parsePostgres(address string) (a postgresAddress, err error) {
	u, err := url.Parse(address)
	if err != nil {
		// The parser's message may contain the password.
		return a, fault.Field("database URL", "is not an address of the form postgres://user:password@host:port/database")
	}
	a.conns = max(16, 4*runtime.GOMAXPROCS(0))
	params, _ := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // pgx takes a plus sign for itself, as libpq does
	if v := params.Get("pool_max_conns"); v != "" {
		if a.conns, err = strconv.Atoi(v); err != nil || a.conns < 1 || a.conns > 10_000 {
			return a, fault.Field("database URL", "must have a pool_max_conns between 1 and 10000")
		}
	}
	switch params.Get("pool_mode") {
	case "", "session":
	case "transaction":
		a.pooled = true
	default:
		return a, fault.Field("database URL", "must have a pool_mode that is session or transaction")
	}
	isModeGiven := params.Has("default_query_exec_mode")
	params.Del("pool_max_conns")
	params.Del("pool_mode")
	u.RawQuery = strings.ReplaceAll(params.Encode(), "+", "%20")
	if a.config, err = pgx.ParseConfig(u.String()); err != nil {
		return a, fault.Wrap(fault.Invalid, err, "The database URL is not understood") // pgx leaves the password out
	}
	name := serverName
	if given := a.config.RuntimeParams["application_name"]; given != "" && given != serverName {
		name += ": " + given
	}
	a.config.RuntimeParams["application_name"] = name
	if a.pooled && !isModeGiven {
		a.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	dial := a.config.DialFunc
	a.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := setUserTimeout(c); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	return a, nil
}

// userTimeout is how long data may be unacknowledged before a connection counts as broken. Linux waits for a
// quarter of an hour by itself, and with it a job whose statement has no time limit, if Postgres's machine is gone.
const userTimeout = 30 * time.Second

// serverName is the name of the connections of servers. One in the address or the environment follows it.
const serverName = "collab"

// ofServers is the condition for the rows of pg_stat_activity that are connections of servers.
const ofServers = "(application_name = '" + serverName + "' OR application_name LIKE '" + serverName + ": %')"

// withoutTimeouts lifts the limits on the duration of statements and transactions, for the rest of
// the transaction if its parameter is true. Versions of Postgres have different ones of these.
const withoutTimeouts = "SELECT set_config(name, '0', %t) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout')"

// isPooled reports whether a pooler in transaction mode is between: then statements of one connection
// run on several connections to Postgres.
func isPooled(ctx context.Context, c *pgx.Conn) (pooled bool, err error) {
	pid := func(c *pgx.Conn) (n uint32) {
		if err == nil {
			err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&n)
		}
		return n
	}
	first := pid(c)
	if err != nil || first == c.PgConn().PID() {
		return false, err
	}
	other, err := pgx.ConnectConfig(ctx, c.Config())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, other.Close(context.WithoutCancel(ctx))) }()
	for n := 0; n < 5 && !pooled && err == nil; n++ {
		// The pooler gives the transaction the connection that c has used last, or c another one.
		_, err = other.Exec(ctx, "BEGIN")
		pooled = pid(other) == first || pid(c) != first
		if err == nil {
			_, err = other.Exec(ctx, "ROLLBACK")
		}
	}
	return pooled && err == nil, err
}
