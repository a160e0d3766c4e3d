package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
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

// statement is SQL text whose parameters have names, as in "id = @id". All places of a name have one value. @org is
// the organisation.
type statement struct {
	text  string
	names []string // of the parameters, in the order of their numbers
}

// parse returns the statement of a text.
func parse(text string) statement {
	s := statement{text: text}
	for _, p := range parameters(text) {
		if p == "?" {
			panic("a parameter without a name in " + text)
		}
		s.names = append(s.names, p[1:])
	}
	return s
}

// parameters returns the parameters of a text in the order of their numbers: @org if the text has it, then each name
// and each question mark in the order of their first places.
func parameters(text string) (all []string) {
	for _, p, rest := cutParameter(text); p != ""; _, p, rest = cutParameter(rest) {
		switch {
		case p != "?" && slices.Contains(all, p):
		case p == orgParameter:
			all = slices.Insert(all, 0, p)
		default:
			all = append(all, p)
		}
	}
	return all
}

// cutParameter returns the first parameter of a text, @ with a name or a question mark, and what is around it.
func cutParameter(text string) (before, parameter, after string) {
	at := strings.IndexAny(text, "@?")
	if at < 0 {
		return text, "", ""
	}
	end := at + 1
	for text[at] == '@' && end < len(text) && (text[end] == '_' || 'a' <= text[end] && text[end] <= 'z') {
		end++
	}
	return text[:at], text[at:end], text[end:]
}

// hasOrg reports whether the organisation is a parameter of a text.
func hasOrg(text string) bool { return slices.Contains(parameters(text), orgParameter) }

// orgParameter is the parameter that is the organisation; it has the number 1.
const orgParameter = "@org"

// command is a statement with the values of its parameters, made by a selection, by a method of statement, or from
// SQL text by tenantSQL, crossTenantSQL or sharedSQL.
type command struct {
	text   string
	args   []any
	tenant tenancy
	names  []string // a statement's
	next   int      // the index of the name after the one that was set last
}

// tenancy is whose rows a command reads or writes.
type tenancy uint8

const (
	sharedTenancy   tenancy = iota // of tables without organisations
	oneTenancy                     // of the organisation in the first parameter, @org in the text
	selectedTenancy                // of the organisation of a selection
	crossTenancy                   // of all organisations, for a reason
)

// of returns a command for one organisation. Its other parameters are set by set and row.
func (s statement) of(o id.Org) command {
	c := s.command(oneTenancy)
	c.args[0] = string(o)
	c.next = 1
	return c
}

// crossTenant returns a command for all organisations, for a reason from crosstenant.go.
func (s statement) crossTenant(_ crossTenant) command { return s.command(crossTenancy) }

// shared returns a command for tables whose rows belong to no organisation.
func (s statement) shared() command { return s.command(sharedTenancy) }

func (s statement) command(t tenancy) command {
	args := make([]any, len(s.names))
	for i := range args {
		args[i] = unset
	}
	return command{text: s.text, args: args, tenant: t, names: s.names}
}

// unset is the value of a parameter that was not set; both drivers refuse it.
var unset any = struct{}{}

// set sets a parameter. It panics if the statement has none of the name.
func (c command) set(name string, value any) command {
	for range c.names {
		if c.next %= len(c.names); c.names[c.next] == name {
			c.args[c.next] = value
			c.next++
			return c
		}
		c.next++
	}
	panic("no parameter @" + name + " in " + c.text)
}

// row sets the parameters that have the names of the fields to their values in a row.
func (c command) row(row any, fields []field) command {
	v := reflect.ValueOf(row).Elem()
	for _, f := range fields {
		c = c.set(f.name, f.value(v.FieldByIndex(f.index)))
	}
	return c
}

// tenantSQL returns a command for one organisation, which is @org in the text; the other parameters are question
// marks.
func tenantSQL(o id.Org, text string, args ...any) command {
	return command{text: text, args: append(append(make([]any, 0, 1+len(args)), string(o)), args...), tenant: oneTenancy}
}

// crossTenantSQL returns a command for all organisations, for a reason from crosstenant.go.
func crossTenantSQL(_ crossTenant, text string, args ...any) command {
	return command{text: text, args: args, tenant: crossTenancy}
}

// sharedSQL returns a command for tables whose rows belong to no organisation.
func sharedSQL(text string, args ...any) command {
	return command{text: text, args: args, tenant: sharedTenancy}
}

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

// prepare returns the text with the dialect's placeholders, which have the numbers of parameters.
func (c command) prepare(d dialect) (string, error) {
	key := preparedKey{d, c.tenant, c.text}
	if text, ok := prepared.Load(key); ok {
		return text.(string), nil
	}
	if !c.confined() {
		return "", fault.Wrap(fault.Internal, fmt.Errorf("%w: %s", errNoOrganisation, c.text), "The database failed")
	}
	all, marks := parameters(c.text), 0 // marks follows the last question mark in all
	var b strings.Builder
	highest := 0
	before, parameter, rest := cutParameter(c.text)
	for ; parameter != ""; before, parameter, rest = cutParameter(rest) {
		number := 1 + slices.Index(all, parameter)
		if parameter == "?" {
			number = 1 + marks + slices.Index(all[marks:], "?")
			marks = number
		}
		b.WriteString(before)
		b.WriteString(d.text("?", "$"))
		// SQLite numbers a parameter without a number after the highest before it, and the driver binds those faster.
		if d == onPostgres || number != highest+1 {
			b.WriteString(strconv.Itoa(number))
		}
		highest = max(highest, number)
	}
	b.WriteString(before)
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
	return named <= len(confinement.FindAllString(c.text, -1)) && (c.tenant == selectedTenancy || hasOrg(c.text))
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
