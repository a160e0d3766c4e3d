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

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
)

// command is a statement with its parameters. A selection makes one, and for SQL
// text tenantSQL, crossTenantSQL and sharedSQL do.
type command struct {
	text   string
	args   []any
	tenant tenancy
}

// tenancy is what a command says of organisations.
type tenancy uint8

const (
	sharedTenancy   tenancy = iota // its tables have none
	oneTenancy                     // it has one as its first parameter, @org in the text
	selectedTenancy                // made by a selection of one, whose parameter it is
	crossTenancy                   // it is about all, for a reason
)

// tenantSQL is a text about one organisation, which is @org in it.
func tenantSQL(o id.Org, text string, args ...any) command {
	return tenantParams(o, len(args)).sql(text, args...)
}

// params are the parameters of a text about one organisation, the first of them.
type params []any

// tenantParams has room for so many parameters beside the organisation.
func tenantParams(o id.Org, n int) params { return append(make(params, 0, 1+n), string(o)) }

// sql is tenantSQL with the parameters, and more.
func (p params) sql(text string, more ...any) command {
	return command{text, append(p, more...), oneTenancy}
}

// crossTenantSQL is a text about all organisations, for a reason from crosstenant.go.
func crossTenantSQL(_ crossTenant, text string, args ...any) command {
	return command{text, args, crossTenancy}
}

// sharedSQL is a text about tables whose rows belong to no organisation.
func sharedSQL(text string, args ...any) command { return command{text, args, sharedTenancy} }

// errNoOrganisation says that a statement would see more than one tenant.
var errNoOrganisation = errors.New("a statement on a tenant's table names no organisation")

// prepared are the texts that have been used, as the databases take them. There
// are as many as the repositories have, because values are parameters.
var prepared sync.Map // of preparedKey, to string

type preparedKey struct {
	dialect dialect
	tenant  tenancy
	text    string
}

// prepare returns the text with the dialect's placeholders, @org being the first
// parameter wherever it stands.
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
		// SQLite counts on from the highest number itself, and the driver takes
		// parameters without a number faster.
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

// confined reports whether a text about one organisation confines each tenant table
// that it names to it, by counting, and one of shared tables names none. It does not
// see a table after a comma, nor an OR beside the condition.
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

// tableName finds the tables that a text names, confinement what confines them: that
// excluded has the same organisation, as in an upsert, says nothing.
var (
	tableName   = regexp.MustCompile(`(?i)\b(?:from|join|into|update|using)\s+"?(\w+)`)
	confinement = regexp.MustCompile(`\borg_id = (?:@org|\?|[a-df-z]\w*\.org_id)|INTO \w+ \(org_id\b`)
)

func trace(ctx context.Context, db *gorm.DB, text string, err error) {
	if err != nil {
		db.Logger.Trace(ctx, time.Time{}, func() (string, int64) { return text, 0 }, err)
	}
}

// exec runs a command and returns how many rows it changed. What names the record
// in errors.
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

// eachRow runs a query, scans each row to the places and calls fn after it. Fn's
// error ends it and comes back as it is.
func eachRow(ctx context.Context, db *gorm.DB, what string, c command, to []any, fn func() error) error {
	return eachRowOn(ctx, db, db.Statement.ConnPool, what, c, to, fn)
}

// eachRowOn is eachRow on a pool or a connection of db's. GORM would copy its session and walk
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
	if p, ok := pgxPool(db, pool); ok {
		err = queryPgx(ctx, p, text, c.args, scan)
	} else {
		err = querySQL(ctx, pool, text, c.args, scan)
	}
	trace(ctx, db, text, err)
	if own != nil {
		return own
	}
	return failed(ctx, err, what)
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

// oneRow scans the only row of a query, if there is any. It runs the query to its
// end: that is when a statement that writes has written.
func oneRow(ctx context.Context, db *gorm.DB, what string, c command, to ...any) (found bool, err error) {
	note := func() error {
		found = true
		return nil
	}
	if _, ok := db.Dialector.(sqliteDialector); !ok {
		err = eachRow(ctx, db, what, c, to, note)
		return found, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	pool := db.Statement.ConnPool
	if p, ok := pool.(*sql.DB); ok && ctx.Done() != nil {
		conn, err := p.Conn(ctx) // waits no longer than the context
		if err != nil {
			return false, failed(ctx, err, what)
		}
		defer conn.Close()
		pool = conn
	}
	err = eachRowOn(unwatched{ctx}, db, pool, what, c, to, note)
	return found, err
}

// getRow is oneRow for a row that must be there.
func getRow(ctx context.Context, db *gorm.DB, what string, c command, to ...any) error {
	found, err := oneRow(ctx, db, what, c, to...)
	if err == nil && !found {
		err = fault.Missing(what)
	}
	return err
}

// cursorID is an id to compare others with. One that is no UUID, which Postgres
// cannot compare, stands before all.
func cursorID[T ~string](after T) string {
	if _, ok := id.Parse[T](string(after)); !ok {
		return "00000000-0000-0000-0000-000000000000"
	}
	return string(after)
}

// validIDs are those that can be there: Postgres compares no others with a UUID.
func validIDs[T ~string](given []T) []T {
	return slices.DeleteFunc(slices.Clone(given), func(one T) bool {
		_, ok := id.Parse[T](string(one))
		return !ok
	})
}

// instant is a time as it is kept, in milliseconds; the zero time survives it.
func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
