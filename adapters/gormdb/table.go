package gormdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"collab/adapters/encode"
	"collab/domain/id"
)

// field is a column of a table with the field of the row type that holds it.
type field struct {
	name     string
	kind     string // its type on Postgres
	index    []int
	key      bool // part of the primary key
	fixed    bool // not changed by save: a part of the key, or <-:create
	null     bool // the empty value is NULL: default:null
	nullable bool // may be NULL
	isJSON   bool // serializer:json
}

// table describes the records of one table, by a row type and its gorm tags: a field with
// ->:false is written and not read, one with <-:create is not updated, one with
// default:null is NULL if it is empty, and one with serializer:json is stored as JSON.
// Times are milliseconds since 1970.
type table struct {
	name    string
	what    string // a record's name in errors
	row     reflect.Type
	all     []field
	fields  []field // of an INSERT, the organisation first
	rest    []field // the same without the organisation
	reads   []field // of a SELECT, without the organisation
	changes []field // of save
	org     *field  // nil: its rows belong to no organisation
	read    expressions

	list      [2]string // reads for a SELECT by dialect, qualified with the table's name
	names     string    // reads without it, for RETURNING
	ofOrg     string    // the condition on the organisation
	keys      string    // the condition on the primary key without the organisation
	byKey     string    // the same after that on the organisation
	getByKey  [2]string // the SELECT of one row
	putByKey  string    // the UPDATE of one row
	insertRow string    // the INSERT of one row
}

// tenantTable is a table whose rows belong to organisations. Its selections are made by of,
// for one organisation, or by crossTenant, for a reason from crosstenant.go.
type tenantTable struct{ table }

// sharedTable is a table whose rows belong to no organisation.
type sharedTable struct{ table }

// expressions are read in place of columns, by the column's name.
type expressions map[string]func(d dialect) string

// tables are all described tables, and tenantTables the names of those described by tenant.
var (
	tables       []*table
	tenantTables []string
)

// tenant describes a table whose row type has the column org_id.
func tenant[R any](name, what string) *tenantTable { return tenantReading[R](name, what, nil) }

// tenantReading is tenant for a table with expressions that are read in place of columns.
func tenantReading[R any](name, what string, read expressions) *tenantTable {
	t := &tenantTable{describe(reflect.TypeFor[R](), name, what, read)}
	if t.org == nil {
		panic(name + " has no org_id")
	}
	tables, tenantTables = append(tables, &t.table), append(tenantTables, name)
	return t
}

// shared describes a table whose row type has no column org_id.
func shared[R any](name, what string) *sharedTable {
	t := &sharedTable{describe(reflect.TypeFor[R](), name, what, nil)}
	if t.org != nil {
		panic(name + " has an org_id")
	}
	tables = append(tables, &t.table)
	return t
}

func describe(row reflect.Type, name, what string, read expressions) table {
	s, err := schema.Parse(reflect.New(row).Interface(), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	t := table{name: name, what: what, row: row, read: read}
	var keys []string
	for _, f := range s.Fields {
		if f.DBName == "" {
			continue
		}
		made := field{
			name: f.DBName, kind: kindOf(f), index: f.StructField.Index,
			key: f.PrimaryKey, fixed: f.PrimaryKey || !f.Updatable, null: f.DefaultValue == "null",
			nullable: f.DefaultValue == "null" || f.FieldType.Kind() == reflect.Pointer, isJSON: f.Serializer != nil,
		}
		isOrg := f.DBName == "org_id"
		t.all = append(t.all, made)
		if f.Creatable && !isOrg {
			t.rest = append(t.rest, made)
		}
		switch {
		case isOrg:
			t.org, t.ofOrg = &made, name+".org_id = ?"
			t.fields = append(t.fields, made)
		case f.Readable:
			t.reads = append(t.reads, made)
		}
		if made.key && !isOrg {
			keys = append(keys, name+"."+f.DBName+" = ?")
		}
		if !made.fixed {
			t.changes = append(t.changes, made)
		}
	}
	t.fields = append(t.fields, t.rest...)
	t.keys = strings.Join(keys, " AND ")
	t.byKey = t.keys
	if t.org != nil {
		t.byKey = strings.TrimSuffix(t.ofOrg+" AND "+t.keys, " AND ")
	}
	t.names = join(t.reads, "%")
	t.list = perDialect(func(d dialect) string { return t.selected(d, t.reads) })
	t.getByKey = perDialect(func(d dialect) string { return "SELECT " + t.list[d] + " FROM " + name + " WHERE " + t.byKey })
	t.putByKey = "UPDATE " + name + " SET " + join(t.changes, "% = ?") + " WHERE " + t.byKey
	t.insertRow = "INSERT INTO " + name + " (" + join(t.fields, "%") + ") VALUES (?" + strings.Repeat(", ?", len(t.fields)-1) + ")"
	return t
}

// kindOf returns the column's type on Postgres: that of the tag, uuid for ids, or that of
// the field.
func kindOf(f *schema.Field) string {
	if kind := f.TagSettings["TYPE"]; kind != "" {
		return kind
	}
	if f.IndirectFieldType.PkgPath() == reflect.TypeFor[id.Org]().PkgPath() {
		return "uuid"
	}
	return map[schema.DataType]string{
		schema.String: "text", schema.Int: "bigint", schema.Time: "bigint", schema.Bool: "boolean", schema.Bytes: "bytea",
	}[f.DataType]
}

func (t *table) selected(d dialect, fields []field) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		if list[i] = t.name + "." + f.name; t.read[f.name] != nil {
			list[i] = t.read[f.name](d)
		}
	}
	return strings.Join(list, ", ")
}

// join joins the columns with commas, each in the form with the column's name for %.
func join(columns []field, form string) string {
	list := make([]string, len(columns))
	for i, f := range columns {
		list[i] = strings.ReplaceAll(form, "%", f.name)
	}
	return strings.Join(list, ", ")
}

// column returns the index of a column in t.all, or -1.
func (t *table) column(name string) int {
	return slices.IndexFunc(t.all, func(f field) bool { return f.name == name })
}

// fieldsOf returns the fields of the columns, in their order.
func (t *table) fieldsOf(columns ...string) []field {
	found := make([]field, len(columns))
	for i, name := range columns {
		found[i] = t.all[t.column(name)]
	}
	return found
}

// except returns the fields without that of the column.
func except(fields []field, column string) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.name == column })
}

// dest returns the destinations of the fields in a row.
func dest(row any, fields []field) []any {
	v := reflect.ValueOf(row).Elem()
	to := make([]any, len(fields))
	for i, f := range fields {
		to[i] = f.dest(v.FieldByIndex(f.index).Addr())
	}
	return to
}

// scanFunc implements sql.Scanner.
type scanFunc func(v any) error

func (f scanFunc) Scan(v any) error { return f(v) }

func (f field) dest(p reflect.Value) any {
	switch to := p.Interface().(type) {
	case *time.Time:
		return scanFunc(func(v any) error {
			ms, found, err := driverValue[int64](v)
			if *to = (time.Time{}); found {
				*to = instant(ms)
			}
			return err
		})
	case **time.Time:
		return scanFunc(func(v any) error {
			if *to = nil; v == nil {
				return nil
			}
			ms, _, err := driverValue[int64](v)
			*to = new(instant(ms))
			return err
		})
	}
	switch {
	case f.isJSON:
		return scanFunc(func(v any) error {
			text, found, err := driverValue[string](v)
			if p.Elem().SetZero(); found {
				err = unmarshal(text, p.Interface())
			}
			return err
		})
	case p.Elem().Kind() == reflect.String:
		to := p.Convert(reflect.TypeFor[*string]()).Interface().(*string)
		if !f.null {
			return to
		}
		return scanFunc(func(v any) (err error) {
			*to, _, err = driverValue[string](v)
			return err
		})
	case p.Elem().Kind() == reflect.Pointer && p.Type().Elem().Elem().Kind() == reflect.String:
		of := p.Type().Elem().Elem()
		return scanFunc(func(v any) error {
			text, found, err := driverValue[string](v)
			if p.Elem().SetZero(); found {
				to := reflect.New(of)
				to.Elem().SetString(text)
				p.Elem().Set(to)
			}
			return err
		})
	}
	return p.Interface()
}

// driverValue returns a value of the driver; found is false for NULL.
func driverValue[V any](v any) (value V, found bool, err error) {
	if value, found = v.(V); !found && v != nil {
		err = fmt.Errorf("a %T is stored where a %T should be", v, value)
	}
	return value, found, err
}

// bind appends the fields of a row as parameters. A nil is NULL.
func bind(row any, fields []field, args []any) []any {
	v := reflect.ValueOf(row).Elem()
	for _, f := range fields {
		args = append(args, f.value(v.FieldByIndex(f.index)))
	}
	return args
}

func (f field) value(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if f.null && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0) {
		return nil
	}
	switch v := v.Addr().Interface().(type) {
	case *time.Time:
		return v.UnixMilli()
	case *[]byte:
		return *v
	case *[]string:
		return array(*v)
	}
	switch {
	case f.isJSON:
		return jsonText(v.Interface())
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	}
	return v.Int()
}

// jsonText returns a value as JSON. Every value of these rows can be encoded.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// records writes rows as a JSON array of objects, for dialect.records.
func records[R any](rows []R, fields []field) string {
	b := append(make([]byte, 0, 512), '[')
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for j, f := range fields {
			b = append(append(append(b, "{,"[min(j, 1)], '"'), f.name...), '"', ':')
			switch v := f.value(row.FieldByIndex(f.index)).(type) {
			case nil:
				b = append(b, "null"...)
			case int64:
				b = strconv.AppendInt(b, v, 10)
			case string:
				b = encode.AppendString(b, v)
			default:
				b = append(b, jsonText(v)...)
			}
		}
		b = append(b, '}', ',')
	}
	return string(append(bytes.TrimSuffix(b, []byte(",")), ']'))
}

// setOrg sets the organisation of the row.
func (t *table) setOrg(row any, o id.Org) {
	reflect.ValueOf(row).Elem().FieldByIndex(t.org.index).SetString(string(o))
}

// insertOne returns the INSERT of one row, with a parameter for each of the fields. The further columns get the
// values of expressions.
func (t *table) insertOne(d dialect, fields []field, columns, expressions string) string {
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = d.typed("@"+f.name, f.kind)
	}
	return t.insertInto(d, join(fields, "%")+columns, strings.Join(values, ", ")+expressions)
}

// insertFrom returns the INSERT of the rows of a parameter made by records, to which conditions can be added.
func (t *table) insertFrom(d dialect, rows string, fields []field) string {
	return t.insertInto(d, join(fields, "%"), join(fields, "v.%")) + " FROM " + d.records(rows, fields) + " WHERE 1 = 1"
}

// insertsRecords returns by dialect the statement that inserts @rows, which records makes.
func (t *table) insertsRecords(fields []field, end string) [2]statement {
	return perDialect(func(d dialect) statement { return parse(t.insertFrom(d, "@rows", fields) + end) })
}

func (t *table) insertInto(d dialect, names, values string) string {
	if t.org != nil {
		names, values = "org_id, "+names, d.org()+", "+values
	}
	return "INSERT INTO " + t.name + " (" + names + ") SELECT " + values
}

// keysOf returns those of the fields that are in the primary key.
func keysOf(fields []field) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return !f.key })
}

// keyNames returns the columns of the primary key.
func (t *table) keyNames() string { return join(keysOf(t.fields), "%") }

// onConflictUpdate returns the clause that updates the row with the same primary key.
func (t *table) onConflictUpdate(changes []field) string {
	return " ON CONFLICT (" + t.keyNames() + ") DO UPDATE SET " + join(changes, "% = excluded.%")
}

// sameKey returns the condition that a row has the primary key of a record in v.
func (t *table) sameKey() string {
	return strings.ReplaceAll(join(keysOf(t.fields), t.name+".% = v.%"), ", ", " AND ")
}

// onConflictAdd returns the clause that adds to the columns of the row with the same
// primary key.
func (t *table) onConflictAdd(columns ...string) string {
	return " ON CONFLICT (" + t.keyNames() + ") DO UPDATE SET " + join(t.fieldsOf(columns...), "% = "+t.name+".% + excluded.%")
}

// of selects rows of one organisation.
func (t *tenantTable) of(db *gorm.DB, o id.Org) selection {
	return selection{table: &t.table, db: db, org: o, where: t.ofOrg, args: []any{string(o)}}
}

// crossTenant selects rows of all organisations.
func (t *tenantTable) crossTenant(db *gorm.DB, _ crossTenant) selection {
	return selection{table: &t.table, db: db, crossTenants: true}
}

// ofEach selects rows of the organisations of an overview. It reports whether any of them can exist.
func (t *tenantTable) ofEach(db *gorm.DB, orgs []id.Org) (selection, bool) {
	switch known := validIDs(orgs); len(known) {
	case 0:
		return selection{}, false
	case 1:
		s := t.of(db, known[0])
		s.crossTenants = true
		return s, true
	default:
		return t.crossTenant(db, crossTenantOverview).whereIn("org_id", list(dialectOf(db), known)), true
	}
}

// on selects rows.
func (t *sharedTable) on(db *gorm.DB) selection { return selection{table: &t.table, db: db} }
