package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
)

// command is a statement with its parameters, made by a selection, or from SQL text by
// tenantSQL, crossTenantSQL or sharedSQL.
type command struct {
	text   string
	args   []any
	tenant tenancy
}

// tenancy is whose rows a command reads or writes.
type tenancy uint8

const (
	sharedTenancy   tenancy = iota // of tables without organisations
	oneTenancy                     // of the organisation in the first parameter, @org in the text
	selectedTenancy                // of the organisation of a selection
	crossTenancy                   // of all organisations, for a reason
)

// tenantSQL returns a command for one organisation, which is @org in the text.
func tenantSQL(o id.Org, text string, args ...any) command {
	return tenantParams(o, len(args)).sql(text, args...)
}

// params are the parameters of a command for one organisation, which is the first.
type params []any

// tenantParams returns params with capacity for n more.
func tenantParams(o id.Org, n int) params { return append(make(params, 0, 1+n), string(o)) }

// sql is tenantSQL with the parameters and more.
func (p params) sql(text string, more ...any) command {
	return command{text, append(p, more...), oneTenancy}
}

// crossTenantSQL returns a command for all organisations, for a reason from crosstenant.go.
func crossTenantSQL(_ crossTenant, text string, args ...any) command {
	return command{text, args, crossTenancy}
}

// sharedSQL returns a command for tables whose rows belong to no organisation.
func sharedSQL(text string, args ...any) command { return command{text, args, sharedTenancy} }

// errNoOrganisation is the error of a statement that is not confined to one tenant.
var errNoOrganisation = errors.New("a statement on a tenant's table names no organisation")

// prepared are the texts that have been used, with the dialect's placeholders. Their number
// is bounded by that of the repositories' texts, because values are parameters.
var prepared sync.Map // of preparedKey, to string

type preparedKey struct {
	dialect dialect
	tenant  tenancy
	text    string
}

// prepare returns the text with the dialect's placeholders; each @org is the first
// parameter.
func (c command) prepare(d dialect) (string, error) {
	key := preparedKey{d, c.tenant, c.text}
	if text, ok := prepared.Load(key); ok {
		return text.(string), nil
	}
	if !c.confined() {
		return "", fault.Wrap(fault.Internal, fmt.Errorf("%w: %s", errNoOrganisation, c.text), "The database failed")
	}
	var b strings.Builder
	next, seen := 1, c.tenant != oneTenancy
	if !seen {
		next = 2
	}
	for i := 0; i < len(c.text); i++ {
		org := strings.HasPrefix(c.text[i:], "@org")
		switch {
		case !org && c.text[i] != '?':
			b.WriteByte(c.text[i])
			continue
		case d == onPostgres:
			b.WriteByte('$')
		default:
			b.WriteByte('?')
		}
		number := 1
		if !org {
			number = next
			next++
		}
		// SQLite numbers parameters without a number itself, and the driver binds those
		// faster.
		if d == onPostgres || org || !seen {
			b.WriteString(strconv.Itoa(number))
		}
		if org {
			seen = true
			i += len("@org") - 1
		}
	}
	prepared.Store(key, b.String())
	return b.String(), nil
}

// confined reports whether a text for one organisation has a condition for each tenant
// table that it names, by counting, and whether one for shared tables names none. It does
// not detect a table after a comma, nor an OR beside the condition.
func (c command) confined() bool {
	named := 0
	for _, table := range tableName.FindAllStringSubmatch(c.text, -1) {
		if slices.Contains(tenantTables, table[1]) {
			named++
		}
	}
	switch c.tenant {
	case sharedTenancy:
		return named == 0
	case crossTenancy:
		return true
	}
	return named <= len(confinement.FindAllString(c.text, -1)) && (c.tenant == selectedTenancy || strings.Contains(c.text, "@org"))
}

// tableName matches the tables that a text names, and confinement the conditions on the
// organisation. Excluded of an upsert always has the same organisation and is not counted.
var (
	tableName   = regexp.MustCompile(`(?i)\b(?:from|join|into|update|using)\s+"?(\w+)`)
	confinement = regexp.MustCompile(`\borg_id = (?:@org|\?|[a-df-z]\w*\.org_id)|INTO \w+ \(org_id\b`)
)

func trace(ctx context.Context, db *gorm.DB, text string, err error) {
	if err != nil {
		db.Logger.Trace(ctx, time.Time{}, func() (string, int64) { return text, 0 }, err)
	}
}

// exec runs a command and returns how many rows it changed. What names the record in
// errors.
func exec(ctx context.Context, db *gorm.DB, what string, c command) (n int64, err error) {
	text, err := c.prepare(dialectOf(db))
	if err == nil {
		var result sql.Result
		if result, err = db.Statement.ConnPool.ExecContext(ctx, text, c.args...); err == nil {
			n, err = result.RowsAffected()
		}
		trace(ctx, db, text, err)
	}
	return n, failed(ctx, err, what)
}

// eachRow runs a query, scans each row into the destinations and calls fn after it. An
// error of fn ends it and is returned unchanged.
func eachRow(ctx context.Context, db *gorm.DB, what string, c command, to []any, fn func() error) error {
	return eachRowOn(ctx, db, db.Statement.ConnPool, what, c, to, fn)
}

// rowsOf runs a query and returns what row is after the scan of each row into the destinations, which
// are row or fields of it.
func rowsOf[T any](ctx context.Context, db *gorm.DB, what string, c command, row *T, to ...any) (all []T, err error) {
	err = eachRow(ctx, db, what, c, to, func() error {
		all = append(all, *row)
		return nil
	})
	return all, err
}

// eachRowOn is eachRow on a pool or a connection of db's. GORM would copy its session and run
// through its callbacks for each query, which takes longer than a short query itself.
func eachRowOn(ctx context.Context, db *gorm.DB, pool gorm.ConnPool, what string, c command, to []any, fn func() error) error {
	text, err := c.prepare(dialectOf(db))
	if err != nil {
		return failed(ctx, err, what)
	}
	var own error // fn's
	scan := func(rows scanner) error {
		for rows.Next() {
			if err := rows.Scan(to...); err != nil {
				return err
			}
			if own = fn(); own != nil {
				return nil
			}
		}
		return rows.Err()
	}
	err = query(ctx, db, pool, text, c.args, scan)
	trace(ctx, db, text, err)
	if own != nil {
		return own
	}
	return failed(ctx, err, what)
}

// query runs a query on a pool or a connection of db's, and scan with its rows.
func query(ctx context.Context, db *gorm.DB, pool gorm.ConnPool, text string, args []any, scan func(scanner) error) error {
	switch pool := pool.(type) {
	case epochPool:
		return pool.query(ctx, text, args, scan)
	case stalePool:
		if read, err := pool.query(ctx, text, args, scan); read {
			return err
		}
		return query(ctx, db, pool.db.read.Statement.ConnPool, text, args, scan)
	case *pgxTransaction:
		return pool.query(ctx, text, args, func(rows pgx.Rows) error { return scan(pgxRows{rows}) })
	}
	if p, ok := pgxPool(db, pool); ok {
		return queryPgx(ctx, p, text, args, scan)
	}
	return querySQL(ctx, pool, text, args, scan)
}

// scanner is rows of database/sql or of pgx.
type scanner interface {
	Next() bool
	Scan(to ...any) error
	Err() error
}

func querySQL(ctx context.Context, pool gorm.ConnPool, text string, args []any, scan func(scanner) error) error {
	rows, err := pool.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scan(rows)
}

// oneRow scans the only row of a query, if there is any. It reads the query to its end,
// because a statement that writes has finished only then.
func oneRow(ctx context.Context, db *gorm.DB, what string, c command, to ...any) (found bool, err error) {
	setFound := func() error {
		found = true
		return nil
	}
	if dialectOf(db) == onPostgres {
		err = eachRow(ctx, db, what, c, to, setFound)
		return found, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	pool := db.Statement.ConnPool
	if at, ok := pool.(epochPool); ok {
		if err := at.compare(ctx); err != nil {
			return false, err
		}
		pool = at.db.Statement.ConnPool
	}
	if p, ok := pool.(interface {
		Conn(context.Context) (*sql.Conn, error)
	}); ok && ctx.Done() != nil {
		conn, err := p.Conn(ctx) // waits no longer than the context
		if err != nil {
			return false, failed(ctx, err, what)
		}
		defer conn.Close()
		pool = conn
	}
	err = eachRowOn(unwatched{ctx}, db, pool, what, c, to, setFound)
	return found, err
}

// getRow is oneRow that returns NotFound without a row.
func getRow(ctx context.Context, db *gorm.DB, what string, c command, to ...any) error {
	found, err := oneRow(ctx, db, what, c, to...)
	return required(found, err, what)
}

// cursorID returns an id as a bound of a comparison. One that is not a UUID, which Postgres
// cannot compare, is before all.
func cursorID[T ~string](after T) string {
	if _, ok := id.Parse[T](string(after)); !ok {
		return "00000000-0000-0000-0000-000000000000"
	}
	return string(after)
}

// validIDs returns the ids that are UUIDs: Postgres compares no others with one.
func validIDs[T ~string](given []T) []T {
	return slices.DeleteFunc(slices.Clone(given), func(one T) bool {
		_, ok := id.Parse[T](string(one))
		return !ok
	})
}

// instant returns a stored time, which is in milliseconds; it preserves the zero time.
func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
