package gormdb

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"collab/domain/fault"
	"collab/domain/id"
)

// field is a column of a table with the field of the row type that holds it.
type field struct {
	column
	index []int
	key   bool // part of the primary key
	fixed bool // not changed by save: a part of the key, or <-:create
}

// table describes the records of one table. It is made once, from the row type R
// and its gorm tags: a field with ->:false is written and not read, one with
// <-:create stays as it was inserted.
type table[R any] struct {
	name    string
	what    string // a record's name in errors
	all     []field
	fields  []field // which an INSERT names
	rest    []field // the same without the organisation
	reads   []field // which a SELECT names, without the organisation
	changes []field // which save writes
	org     *field  // nil: its rows belong to no organisation

	list     [2]string // reads for a SELECT by dialect, with the table's name before each
	names    string    // reads without it, for RETURNING
	ofOrg    string    // the condition on the organisation
	keys     string    // the condition on the primary key without the organisation
	byKey    string    // the same after that on the organisation
	getByKey [2]string // the SELECT of one row
	putByKey string    // the UPDATE of one row
}

// tenantTable is a table whose rows belong to organisations. Its statements are
// made by of, for one organisation, or by crossTenant, for a reason from crosstenant.go.
type tenantTable[R any] struct{ table[R] }

// sharedTable is a table whose rows belong to no organisation.
type sharedTable[R any] struct{ table[R] }

// expressions are what is read in place of columns, by the column's name.
type expressions map[string]func(d dialect) string

// tenantTables are the names of those described by tenant.
var tenantTables []string

// tenant describes a table whose row type has the column org_id.
func tenant[R any](what string, read expressions) *tenantTable[R] {
	t := &tenantTable[R]{describe[R](what, read)}
	if t.org == nil {
		panic(t.name + " has no org_id")
	}
	tenantTables = append(tenantTables, t.name)
	return t
}

// shared describes a table whose row type has no column org_id.
func shared[R any](what string) *sharedTable[R] {
	t := &sharedTable[R]{describe[R](what, nil)}
	if t.org != nil {
		panic(t.name + " has an org_id")
	}
	return t
}

func describe[R any](what string, read expressions) table[R] {
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	t := table[R]{name: s.Table, what: what}
	var keys []string
	for _, f := range s.Fields {
		if f.DBName == "" {
			continue
		}
		made := field{column{f.DBName, kindOf(f)}, f.StructField.Index, f.PrimaryKey, f.PrimaryKey || !f.Updatable}
		t.all = append(t.all, made)
		if f.Creatable {
			t.fields = append(t.fields, made)
		}
		switch {
		case f.DBName == "org_id":
			t.org, t.ofOrg = &made, t.name+".org_id = ?"
		case f.Readable:
			t.reads = append(t.reads, made)
		}
		if made.key && f.DBName != "org_id" {
			keys = append(keys, t.name+"."+f.DBName+" = ?")
		}
		if !made.fixed {
			t.changes = append(t.changes, made)
		}
	}
	t.keys = strings.Join(keys, " AND ")
	t.rest = t.but("org_id")
	t.byKey = t.keys
	if t.org != nil {
		t.byKey = strings.TrimSuffix(t.ofOrg+" AND "+t.keys, " AND ")
	}
	t.names = join(t.reads, "%")
	for _, d := range []dialect{onSQLite, onPostgres} {
		t.list[d] = t.selected(d, t.reads, read)
		t.getByKey[d] = "SELECT " + t.list[d] + " FROM " + t.name + " WHERE " + t.byKey
	}
	t.putByKey = "UPDATE " + t.name + " SET " + join(t.changes, "% = ?") + " WHERE " + t.byKey
	return t
}

// kindOf is the column's type on Postgres.
func kindOf(f *schema.Field) string {
	if kind := f.TagSettings["TYPE"]; kind != "" {
		return kind
	}
	return map[schema.DataType]string{schema.String: "text", schema.Int: "bigint", schema.Bool: "boolean", schema.Bytes: "bytea"}[f.DataType]
}

func (t *table[R]) selected(d dialect, fields []field, read expressions) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		if list[i] = t.name + "." + f.name; read[f.name] != nil {
			list[i] = read[f.name](d)
		}
	}
	return strings.Join(list, ", ")
}

// join writes the columns with commas between them, each as the form has it with
// the column's name for %.
func join[C interface{ title() string }](columns []C, form string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = strings.ReplaceAll(form, "%", c.title())
	}
	return strings.Join(list, ", ")
}

func (c column) title() string { return c.name }

// only returns the fields of the columns, in their order.
func (t *table[R]) only(columns ...string) []field {
	found := make([]field, len(columns))
	for i, name := range columns {
		at := slices.IndexFunc(t.all, func(f field) bool { return f.name == name })
		found[i] = t.all[at]
	}
	return found
}

// but returns the fields that an INSERT names, without those of the columns.
func (t *table[R]) but(columns ...string) []field {
	return slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return slices.Contains(columns, f.name) })
}

// columnsOf are the fields as columns.
func columnsOf(fields []field) []column {
	columns := make([]column, len(fields))
	for i, f := range fields {
		columns[i] = f.column
	}
	return columns
}

// dest returns the places that the fields of a row are scanned to.
func dest[R any](r *R, fields []field, more ...any) []any {
	row := reflect.ValueOf(r).Elem()
	to := make([]any, len(fields), len(fields)+len(more))
	for i, f := range fields {
		to[i] = row.FieldByIndex(f.index).Addr().Interface()
	}
	return append(to, more...)
}

// bind appends what the fields of a row hold, as parameters. A nil is NULL.
func bind[R any](r *R, fields []field, args []any) []any {
	row := reflect.ValueOf(r).Elem()
	for _, f := range fields {
		args = append(args, value(row.FieldByIndex(f.index)))
	}
	return args
}

func value(v reflect.Value) any {
	switch v := v.Addr().Interface().(type) {
	case *string:
		return *v
	case *int64:
		return *v
	case *bool:
		return *v
	case *sql.NullString:
		if v.Valid {
			return v.String
		}
		return nil
	case *sql.NullInt64:
		if v.Valid {
			return v.Int64
		}
		return nil
	}
	return v.Interface()
}

// inserting is a text made by inserts with the parameters of its row, and more.
func inserting[R any](o id.Org, text string, r *R, fields []field, more ...any) command {
	return params(bind(r, fields, tenantParams(o, len(fields)+len(more)))).sql(text, more...)
}

// records writes rows as a JSON array of objects, for dialect.records.
func records[R any](rows []R, fields []field) (string, error) {
	b := append(make([]byte, 0, 512), '[')
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for j, f := range fields {
			b = append(append(append(b, "{,"[min(j, 1)], '"'), f.name...), '"', ':')
			switch v := value(row.FieldByIndex(f.index)).(type) {
			case nil:
				b = append(b, "null"...)
			case int64:
				b = strconv.AppendInt(b, v, 10)
			default:
				text, err := json.Marshal(v)
				if err != nil {
					return "", err
				}
				b = append(b, text...)
			}
		}
		b = append(b, '}', ',')
	}
	return string(append(bytes.TrimSuffix(b, []byte(",")), ']')), nil
}

// setOrg makes the row one of the organisation's.
func (t *table[R]) setOrg(r *R, o string) {
	switch to := reflect.ValueOf(r).Elem().FieldByIndex(t.org.index).Addr().Interface().(type) {
	case *string:
		*to = o
	case *sql.NullString:
		*to = sql.NullString{String: o, Valid: true}
	}
}

// inserts returns by dialect the INSERT of one row, which the parameters that bind
// makes of the fields follow. Those columns besides get what an expression says.
func (t *table[R]) inserts(fields []field, columns, expressions, end string) (s [2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		values := make([]string, len(fields))
		for i, f := range fields {
			values[i] = d.param(f.column)
		}
		s[d] = t.insert(d, join(fields, "%")+columns, strings.Join(values, ", ")+expressions) + end
	}
	return s
}

// insertsRecords returns by dialect the INSERT of the rows that are in one
// parameter made by records.
func (t *table[R]) insertsRecords(fields []field, end string) (s [2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = t.insert(d, join(fields, "%"), join(fields, "v.%")) + " FROM " + d.records(columnsOf(fields)) + " WHERE 1 = 1" + end
	}
	return s
}

func (t *table[R]) insert(d dialect, names, values string) string {
	if t.org != nil {
		names, values = "org_id, "+names, d.org()+", "+values
	}
	return "INSERT INTO " + t.name + " (" + names + ") SELECT " + values
}

// keyNames are the columns of the primary key.
func (t *table[R]) keyNames() string {
	return join(slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return !f.key }), "%")
}

// replacing is what an INSERT does to the row with the same primary key.
func (t *table[R]) replacing(changes []field) string {
	return " ON CONFLICT (" + t.keyNames() + ") DO UPDATE SET " + join(changes, "% = excluded.%")
}

// sameKey is the condition that a row has the primary key of a record in v.
func (t *table[R]) sameKey() string {
	keys := slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return !f.key })
	return strings.ReplaceAll(join(keys, t.name+".% = v.%"), ", ", " AND ")
}

// adding is what an INSERT does instead to the row with the same primary key whose
// columns are sums.
func (t *table[R]) adding(columns ...string) string {
	return " ON CONFLICT (" + t.keyNames() + ") DO UPDATE SET " + join(t.only(columns...), "% = "+t.name+".% + excluded.%")
}

// of selects rows of one organisation.
func (t *tenantTable[R]) of(db *gorm.DB, o id.Org) selection[R] {
	return selection[R]{table: &t.table, db: db, org: string(o), where: t.ofOrg, args: append(make([]any, 0, 4), string(o))}
}

// crossTenant selects rows of all organisations.
func (t *tenantTable[R]) crossTenant(db *gorm.DB, reason crossTenant) selection[R] {
	return selection[R]{table: &t.table, db: db, crossing: reason != ""}
}

// ofEach selects rows of several organisations, which takes a reason, or of one.
// It reports whether any of them can be there.
func (t *tenantTable[R]) ofEach(db *gorm.DB, orgs []id.Org, reason crossTenant) (selection[R], bool) {
	switch known := ids(orgs); len(known) {
	case 0:
		return selection[R]{}, false
	case 1:
		s := t.of(db, known[0])
		s.crossing = true
		return s, true
	default:
		return t.crossTenant(db, reason).among("org_id", list(dialectOf(db), known)), true
	}
}

// on selects rows.
func (t *sharedTable[R]) on(db *gorm.DB) selection[R] { return selection[R]{table: &t.table, db: db} }

// selection is rows of a table that statements are about. Its methods that narrow
// it return another one.
type selection[R any] struct {
	*table[R]
	db       *gorm.DB
	org      string // whose rows they are
	crossing bool   // they may be anybody's: each has its organisation read, too
	keyed    bool   // the condition is the primary key
	where    string
	args     []any
	fields   []field // that are read; nil: all
	from     string  // what stands after FROM; empty: the table
	more     string  // what is read besides
	to       []any   // where that goes
	order    string
	limit    int
	lock     string
}

// key narrows the selection to the row with the primary key, the organisation
// left out.
func (s selection[R]) key(values ...any) selection[R] {
	if s.crossing {
		return s.filter(s.keys, values...)
	}
	s.where, s.keyed, s.args = s.byKey, true, append(s.args, values...)
	return s
}

// filter adds a condition, in which nothing stands beside an OR.
func (s selection[R]) filter(condition string, args ...any) selection[R] {
	if s.where != "" {
		condition = s.where + " AND " + condition
	}
	s.where, s.keyed, s.args = condition, false, append(s.args, args...)
	return s
}

// among adds the condition that a column is one of the values.
func (s selection[R]) among(column, values string) selection[R] {
	at := slices.IndexFunc(s.table.fields, func(f field) bool { return f.name == column })
	return s.filter(dialectOf(s.db).in(s.name+"."+column, s.table.fields[at].kind), values)
}

// in adds the condition that a column is among those that another selection reads.
func (s selection[R]) in(column string, of selection[R]) selection[R] {
	c := of.command()
	return s.filter(column+" IN ("+c.text+")", c.args...)
}

// after adds the condition that rows come after a place in the order, which is
// that of the columns.
func (s selection[R]) after(columns string, values ...any) selection[R] {
	return s.filter("("+columns+") > ("+strings.Repeat("?, ", len(values)-1)+"?)", values...)
}

// page orders the rows and takes the first of them; limit 0 is all.
func (s selection[R]) page(order string, limit int) selection[R] {
	s.order, s.limit = order, limit
	return s
}

// claim orders the rows, takes the first of them and holds these, and passes over
// those that somebody else holds.
func (s selection[R]) claim(order string, limit int) selection[R] {
	s.lock, s.args = " ORDER BY "+order+" LIMIT ?"+dialectOf(s.db).claimed(), append(s.args, limit)
	return s
}

// join reads from other tables, too, what more says, to the given places.
func (s selection[R]) join(from, more string, to ...any) selection[R] {
	s.from, s.more, s.to = from, more, to
	return s
}

// read reads no more than the columns.
func (s selection[R]) read(columns ...string) selection[R] {
	s.fields = s.only(columns...)
	return s
}

// held keeps the rows from other writers until the transaction ends, if lock.
func (s selection[R]) held() selection[R] {
	s.lock = dialectOf(s.db).held()
	return s
}

// made is a command with the selection's condition in it.
func (s selection[R]) made(text string, args []any) command {
	return command{text, args, settledTenancy}
}

// command returns the SELECT.
func (s selection[R]) command() command {
	d := dialectOf(s.db)
	if s.keyed && s.fields == nil && s.more == "" && s.from == "" {
		return s.made(s.getByKey[d]+s.lock, s.args)
	}
	list := s.list[d]
	if s.fields != nil {
		list = s.selected(d, s.fields, nil)
	}
	if s.crossing {
		list = strings.TrimSuffix(s.name+".org_id, "+list, ", ")
	}
	from := s.name
	if s.from != "" {
		from = s.from
	}
	where := ""
	if s.where != "" {
		where = " WHERE "
	}
	if s.order == "" {
		return s.made("SELECT "+list+s.more+" FROM "+from+where+s.where+s.lock, s.args)
	}
	text, limit := d.page("SELECT "+list+s.more+" FROM "+from+where+s.where, s.order, s.limit)
	return s.made(text+s.lock, append(s.args, limit...))
}

// scanned returns a scanner that reads every row into the same place, and the
// row that it makes a record of.
func scanned[R, T any](s selection[R], record func(*R) (T, error)) func(scanner) (T, error) {
	var r R
	fields := s.reads
	if s.fields != nil {
		fields = s.fields
	}
	if s.crossing {
		fields = append([]field{*s.table.org}, fields...)
	} else if s.table.org != nil {
		s.setOrg(&r, s.org)
	}
	to := dest(&r, fields, s.to...)
	return func(row scanner) (T, error) {
		if err := row.Scan(to...); err != nil {
			var none T
			return none, err
		}
		return record(&r)
	}
}

// each calls fn with the records, which stream. Fn's error ends it and comes back
// as it is.
func each[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error), fn func(T) error) error {
	return queryEach(ctx, s.db, s.what, scanned(s, record), fn, s.command())
}

// all returns the records, for lists that are small by nature.
func all[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error)) ([]T, error) {
	return queryAll(ctx, s.db, s.what, scanned(s, record), s.command())
}

// named returns the records with the ids, in the order of these.
func named[R, T any, K ~string](ctx context.Context, s selection[R], record func(*R) (T, error), key func(T) K, given []K) ([]T, error) {
	places := make(map[K]int, len(given))
	for i, k := range given {
		places[k] = i
	}
	found, err := all(ctx, s.among("id", list(dialectOf(s.db), ids(given))), record)
	slices.SortFunc(found, func(a, b T) int { return places[key(a)] - places[key(b)] })
	return found, err
}

// find returns the only record, if there is any.
func find[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error)) (T, bool, error) {
	return queryRow(ctx, s.db, s.what, scanned(s, record), s.command())
}

// get returns the only record, or NotFound.
func get[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error)) (T, error) {
	v, found, err := find(ctx, s, record)
	if err == nil && !found {
		err = fault.Missing(s.what)
	}
	return v, err
}

// count returns how many rows there are.
func (s selection[R]) count(ctx context.Context) (int, error) {
	text := "SELECT COUNT(*) FROM " + s.name
	if s.where != "" {
		text += " WHERE " + s.where
	}
	n, _, err := queryRow(ctx, s.db, s.what, scanInt, s.made(text, s.args))
	return int(n), err
}

// keep returns how many rows there are, and keeps them from being deleted until
// the transaction ends: a reference that is broken would end it on Postgres.
func (s selection[R]) keep(ctx context.Context) (int, error) {
	text := "SELECT 1 FROM " + s.name + " WHERE " + s.where + " ORDER BY " + s.name + ".id" + dialectOf(s.db).shared()
	found, err := queryAll(ctx, s.db, s.what, scanInt, s.made(text, s.args))
	return len(found), err
}

// kept is keep for one row, which must be there.
func (s selection[R]) kept(ctx context.Context) error {
	n, err := s.keep(ctx)
	if err == nil && n == 0 {
		err = fault.Missing(s.what)
	}
	return err
}

// add inserts a row; one whose key is taken is a Conflict that leaves the
// transaction usable.
func (s selection[R]) add(ctx context.Context, r *R) error {
	n, err := s.create(ctx, r, nothing)
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "%s is there already", s.what)
	}
	return err
}

// insertRecords runs what insertsRecords made for the fields of rows, after
// parameters that it may have before them.
func (s selection[R]) insertRecords(ctx context.Context, text [2]string, rows []R, fields []field, args ...any) (int64, error) {
	written, err := records(rows, fields)
	if err != nil {
		return 0, failed(ctx, err, s.what)
	}
	c := sharedSQL(text[dialectOf(s.db)], append(args, written)...)
	if s.org != "" {
		c = tenantSQL(id.Org(s.org), c.text, c.args...)
	}
	return exec(ctx, s.db, s.what, c)
}

// put inserts a row or replaces the one with the same primary key.
func (s selection[R]) put(ctx context.Context, r *R) error {
	_, err := s.create(ctx, r, replace)
	return err
}

func (s selection[R]) create(ctx context.Context, r *R, conflict clause.OnConflict) (int64, error) {
	if s.org != "" {
		s.setOrg(r, s.org)
	}
	tx := s.db.WithContext(ctx).Clauses(conflict).Create(r)
	return tx.RowsAffected, failed(ctx, tx.Error, s.what)
}

// save writes what can change of a row over the one with the key. NotFound
// without it.
func (s selection[R]) save(ctx context.Context, r *R) error {
	args := append(bind(r, s.changes, make([]any, 0, len(s.changes)+len(s.args))), s.args...)
	text := s.putByKey
	if !s.keyed {
		text = "UPDATE " + s.name + " SET " + join(s.changes, "% = ?") + " WHERE " + s.where
	}
	return s.one(exec(ctx, s.db, s.what, s.made(text, args)))
}

// set changes the rows and returns how many they are.
func (s selection[R]) set(ctx context.Context, sets string, args ...any) (int64, error) {
	all := append(append(make([]any, 0, len(args)+len(s.args)), args...), s.args...)
	return exec(ctx, s.db, s.what, s.made("UPDATE "+s.name+" SET "+sets+" WHERE "+s.where, all))
}

// remove deletes the rows and returns how many they were.
func (s selection[R]) remove(ctx context.Context) (int64, error) {
	return exec(ctx, s.db, s.what, s.made("DELETE FROM "+s.name+" WHERE "+s.where, s.args))
}

// one is NotFound where a statement changed nothing.
func (s selection[R]) one(n int64, err error) error {
	if err == nil && n == 0 {
		err = fault.Missing(s.what)
	}
	return err
}

// update holds the only row and stores what fn makes of its record, in a
// transaction. It returns what is stored.
func update[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error), row func(T) (*R, error), fn func(T) (T, error)) (v T, err error) {
	there, err := get(ctx, s.held(), record)
	if err != nil {
		return v, err
	}
	next, err := fn(there)
	if err != nil {
		return v, err
	}
	r, err := row(next)
	if err != nil {
		return v, failed(ctx, err, s.what)
	}
	if s.org != "" {
		s.setOrg(r, s.org)
	}
	if err := s.save(ctx, r); err != nil {
		return v, err
	}
	v, err = record(r)
	return v, failed(ctx, err, s.what)
}

// change changes the only row and returns its record as it is then.
func change[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error), sets string, args ...any) (T, error) {
	text := "UPDATE " + s.name + " SET " + sets + " WHERE " + s.where + " RETURNING " + s.names
	return queryGet(ctx, s.db, s.what, scanned(s, record), s.made(text, append(args, s.args...)))
}

// replaces is the INSERT of a row with all its fields, which replaces the one with
// the same primary key where the condition holds.
func (t *table[R]) replaces(condition string) string {
	return "INSERT INTO " + t.name + " (" + join(t.fields, "%") + ") VALUES (?" + strings.Repeat(", ?", len(t.fields)-1) + ")" +
		t.replacing(t.changes) + " WHERE " + condition
}

// takeOver lets the key decide: the row is inserted, or replaces the one with its
// primary key where the condition holds, and else that one's record comes back. It
// may be gone by then, and then all begins again.
func takeOver[R, T any](ctx context.Context, s selection[R], r *R, record func(*R) (T, error), condition string, arg any, key ...any) (v T, err error) {
	put := s.made(s.replaces(condition)+" RETURNING "+s.names, append(bind(r, s.table.fields, nil), arg))
	for range attempts {
		for _, try := range []func() (T, bool, error){
			func() (T, bool, error) { return queryRow(ctx, s.db, s.what, scanned(s, record), put) },
			func() (T, bool, error) { return find(ctx, s.key(key...), record) },
		} {
			if v, found, err := try(); err != nil || found {
				return v, err
			}
		}
	}
	return v, fault.New(fault.Unavailable, "%s is in use by too many at once", s.what)
}

// upsert finds the record by the provider's id, or adds fresh, and stores what fn
// makes of it, in a transaction in which the record is held against others.
func upsert[R, T any](ctx context.Context, s selection[R], provider string, record func(*R) (T, error), row func(T) *R, fresh T, fn func(T) (T, error)) (T, error) {
	s = s.filter("provider_id = ?", provider)
	there, found, err := find(ctx, s.held(), record)
	if err != nil {
		return fresh, err
	}
	if !found {
		made, err := fn(fresh)
		if err != nil {
			return fresh, err
		}
		added := row(made)
		if n, err := s.create(ctx, added, nothing); err != nil {
			return fresh, err
		} else if n == 1 {
			return record(added)
		}
		// Another was faster, or the id is taken under another key.
		there, found, err = find(ctx, s.held(), record)
		if err == nil && !found {
			err = fault.New(fault.Conflict, "%s is there already", s.what)
		}
		if err != nil {
			return fresh, err
		}
	}
	next, err := fn(there)
	if err != nil {
		return fresh, err
	}
	changed := row(next)
	if err := s.save(ctx, changed); err != nil {
		return fresh, err
	}
	return record(changed)
}

// atomically is atomic for what has a result.
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
