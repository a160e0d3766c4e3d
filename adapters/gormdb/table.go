package gormdb

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

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

// replaces is the INSERT of a row with all its fields, which replaces the one with
// the same primary key where the condition holds.
func (t *table[R]) replaces(condition string) string {
	return "INSERT INTO " + t.name + " (" + join(t.fields, "%") + ") VALUES (?" + strings.Repeat(", ?", len(t.fields)-1) + ")" +
		t.replacing(t.changes) + " WHERE " + condition
}

// adding is what an INSERT does instead to the row with the same primary key whose
// columns are sums.
func (t *table[R]) adding(columns ...string) string {
	return " ON CONFLICT (" + t.keyNames() + ") DO UPDATE SET " + join(t.only(columns...), "% = "+t.name+".% + excluded.%")
}

// of selects rows of one organisation.
func (t *tenantTable[R]) of(db *gorm.DB, o id.Org) selection[R] {
	return selection[R]{table: &t.table, db: db, org: string(o), where: t.ofOrg, args: []any{string(o)}}
}

// crossTenant selects rows of all organisations.
func (t *tenantTable[R]) crossTenant(db *gorm.DB, _ crossTenant) selection[R] {
	return selection[R]{table: &t.table, db: db, crossing: true}
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
