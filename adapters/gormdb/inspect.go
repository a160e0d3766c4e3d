package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"collab/adapters/loopback"
	"collab/domain/fault"
	"collab/domain/id"
)

// condition is the state of a database.
type condition struct {
	product  string           // with its version, such as Postgres 15.18
	location string           // host, port and name, or the file; without credentials
	latency  time.Duration    // the round trip of a statement
	schema   int64            // version of the schema; zero: none, or not readable
	isTarget bool             // of a transfer that is not complete
	onlyFor  string           // the oldest release that the schema supports, if it is newer than this program
	missing  []id.Org         // organisations that do not exist
	postgres *serverCondition // nil for SQLite, and before a server has answered
	damage   string           // the first problem of SQLite's quick_check; empty: none
}

// serverCondition is the state of a Postgres server.
type serverCondition struct {
	now             time.Time // its clock, read between asked and answered of the local clock
	asked, answered time.Time
	user            string
	local           bool // on this machine
	pooled          bool // the address is that of a pooler in transaction mode
	poolMode        bool // the address has the parameter pool_mode=transaction
	maxConnections  int  // limit of the connections of one Collab server
	connectionsLeft int  // limit of the connections of the user, minus those of other programs
	encrypted       bool // the connection is
	losesCommits    bool // a commit may be lost in a crash: fsync or synchronous_commit is off
	readOnly        bool // a standby, or configured as read-only
	canCreate       bool // the user may create tables
	deniedTables    int  // number of tables, without partitions, that the user may not read and write; the schema is read only if it is zero
	utf8            bool
	superuser       bool
}

// selectOnlyFor returns the oldest release that the schema supports if that needs a newer schema than %d,
// else "".
const selectOnlyFor = "SELECT COALESCE((SELECT release FROM schema_support WHERE oldest > %d), '')"

// readPostgres reads the state of a database without changing it, and which of the organisations are
// missing. It returns NotFound if the database does not exist, Unauthenticated if the server rejects
// the user, and Unavailable if it does not answer. Errors do not contain the password.
func readPostgres(ctx context.Context, address string, orgs []id.Org) (c condition, err error) {
	a, err := parsePostgres(address)
	if err != nil {
		return c, err
	}
	config := a.config
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // the mode that works through poolers
	config.RuntimeParams["application_name"] = "collab doctor"
	c.location = net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))) + "/" + config.Database
	if strings.HasPrefix(config.Host, "/") {
		c.location = config.Host + ", database " + config.Database
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return c, serverError(ctx, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	p := &serverCondition{maxConnections: a.conns, poolMode: a.pooled, local: strings.HasPrefix(config.Host, "/") || loopback.IsHost(config.Host)}
	c.postgres = p
	if p.pooled, err = isPooled(ctx, conn); err != nil {
		return c, serverError(ctx, err)
	}
	p.asked = time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&p.now); err != nil {
		return c, serverError(ctx, err)
	}
	p.answered = time.Now()
	c.latency = p.answered.Sub(p.asked)
	var version string
	err = conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1), current_user,
		least(
			current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
			CASE WHEN r.rolconnlimit < 0 THEN 100000 ELSE r.rolconnlimit END,
			CASE WHEN d.datconnlimit < 0 THEN 100000 ELSE d.datconnlimit END)
			- (SELECT count(*)::int FROM pg_stat_activity a WHERE a.datid IS NOT NULL AND a.usesysid IS NOT NULL AND NOT `+ofServers+` AND a.application_name <> 'collab doctor'),
		COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
		current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off',
		pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
		current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE'),
		(SELECT count(*)::int FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace AND n.nspname = current_schema() WHERE t.relkind IN ('r', 'p') AND NOT t.relispartition AND NOT (
			SELECT bool_and(has_table_privilege(t.oid, p)) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p)),
		current_setting('server_encoding') = 'UTF8', r.rolsuper
		FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`).Scan(
		&version, &p.user, &p.connectionsLeft, &p.encrypted, &p.losesCommits, &p.readOnly, &p.canCreate, &p.deniedTables, &p.utf8, &p.superuser)
	if err != nil {
		return c, serverError(ctx, err)
	}
	c.product = "Postgres " + version
	if p.deniedTables > 0 {
		return c, nil
	}
	var table bool
	err = conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL, to_regclass('"+transferTable+"') IS NOT NULL").Scan(&table, &c.isTarget)
	if err == nil && table {
		err = c.readSchema(orgs, func(query string, args ...any) rowScanner { return conn.QueryRow(ctx, query, args...) })
	}
	return c, serverError(ctx, err)
}

// rowScanner is a row of database/sql or of pgx.
type rowScanner interface{ Scan(dest ...any) error }

// readSchema reads the version of the schema, and which of the organisations are missing.
func (c *condition) readSchema(orgs []id.Org, row func(query string, args ...any) rowScanner) error {
	if err := row(selectVersion).Scan(&c.schema); err != nil {
		return err
	}
	if c.schema > Schema() {
		if err := row(fmt.Sprintf(selectOnlyFor, Schema())).Scan(&c.onlyFor); err != nil {
			return err
		}
	}
	if c.schema == 0 {
		return nil
	}
	for _, o := range orgs {
		var exists bool
		if err := row("SELECT EXISTS (SELECT 1 FROM organisations WHERE id = $1)", string(o)).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			c.missing = append(c.missing, o)
		}
	}
	return nil
}

// serverError returns a server's error with its kind, and without addresses and credentials.
func serverError(ctx context.Context, err error) error {
	var refusal *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &refusal):
		return failed(ctx, err, "Database")
	}
	cause := errors.New(refusal.Message + " (" + refusal.Code + ")")
	switch {
	case strings.HasPrefix(refusal.Code, "28"):
		return fault.Wrap(fault.Unauthenticated, cause, "The database rejects the user")
	case refusal.Code == "3D000":
		return fault.Wrap(fault.NotFound, cause, "The server has no such database")
	case refusal.Code == "42501":
		return fault.Wrap(fault.Forbidden, cause, "The database denies the user a right")
	}
	return fault.Wrap(fault.Unavailable, cause, "The database refuses the connection")
}

// readSQLite is readPostgres for SQLite.
func readSQLite(ctx context.Context, address string, orgs []id.Org) (c condition, err error) {
	if c.location, err = SQLiteFile(address); err != nil {
		return c, err
	}
	switch info, err := os.Stat(c.location); {
	case errors.Is(err, fs.ErrNotExist):
		return c, fault.Wrap(fault.NotFound, err, "There is no such file")
	case err != nil:
		return c, fault.Wrap(fault.Unavailable, err, "The database's file cannot be reached")
	case !info.Mode().IsRegular():
		return c, fault.New(fault.Unavailable, "The database's path is not that of a file")
	}
	// The mode is rw because the last connection to close checkpoints the write-ahead log that a crash
	// left; a read-only connection would leave its files.
	pool, err := sql.Open(driverName, sqliteDSN(c.location, "deferred", []string{"busy_timeout(5000)", "query_only(1)"})+"&mode=rw")
	if err != nil {
		return c, failed(ctx, err, "Database")
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	asked := time.Now()
	var version string
	var table bool
	err = pool.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version(), EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'goose_db_version'), EXISTS (SELECT 1 FROM sqlite_master WHERE name = '"+transferTable+"')").Scan(&version, &table, &c.isTarget)
	if err != nil {
		return c, failed(ctx, err, "Database")
	}
	c.product, c.latency = version, time.Since(asked)
	if table {
		err = c.readSchema(orgs, func(query string, args ...any) rowScanner { return pool.QueryRowContext(ctx, query, args...) })
		if err != nil {
			return c, failed(ctx, err, "Database")
		}
	}
	if c.schema == 0 {
		c.missing = slices.Clone(orgs)
	}
	var found string
	if err := pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return c, failed(ctx, err, "Database")
	}
	if found != "ok" {
		c.damage = found
	}
	return c, nil
}
