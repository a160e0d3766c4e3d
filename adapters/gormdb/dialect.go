package gormdb

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"collab/adapters/encode"
)

// dialect is one of the two databases, whose statements differ.
type dialect uint8

const (
	onSQLite dialect = iota
	onPostgres
)

// perDialect returns the results of build by dialect.
func perDialect[T any](build func(d dialect) T) [2]T {
	return [2]T{onSQLite: build(onSQLite), onPostgres: build(onPostgres)}
}

// text returns the text for the dialect.
func (d dialect) text(sqlite, postgres string) string {
	if d == onPostgres {
		return postgres
	}
	return sqlite
}

// snapshot returns the isolation level at which all statements of a transaction read one
// snapshot. SQLite has no other.
func (d dialect) snapshot() sql.IsolationLevel {
	if d == onPostgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// forUpdate returns the end of a SELECT that locks its rows against other writers until the
// transaction ends. It is empty for SQLite, which has one writer. Inserts of rows that
// reference the locked ones do not wait.
func (d dialect) forUpdate() string { return d.text("", " FOR NO KEY UPDATE") }

// in returns the condition that a column of the Postgres type has one of the values of a
// parameter made by list.
func (d dialect) in(column, values, kind string) string {
	return column + d.text(" IN (SELECT value FROM json_each("+values+"))", " = ANY("+values+"::"+kind+"[])")
}

// list returns many texts as one parameter.
func list[T ~string](d dialect, values []T) string {
	if d != onPostgres {
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = string(v)
		}
		return array(texts)
	}
	var b strings.Builder
	b.Grow(2 + 39*len(values))
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for j := range len(v) {
			if v[j] == '"' || v[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(v[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// listed returns a parameter made by list as a table with the column value, of the Postgres type.
func (d dialect) listed(values, kind string) string {
	return d.text("json_each("+values+")", "unnest("+values+"::"+kind+"[]) AS value")
}

// typed returns a parameter with a cast to the Postgres type, for SELECT lists, in which
// Postgres does not infer it.
func (d dialect) typed(parameter, kind string) string { return d.text(parameter, parameter+"::"+kind) }

// json returns a column of JSON text as an argument of JSON functions.
func (d dialect) json(column string) string { return d.text(column, column+"::json") }

// kindOfAction returns the kind of an audit entry's action, as the index of kinds has it.
func (d dialect) kindOfAction() string {
	return d.text("substr(action, 1, instr(action, '.') - 1)", "split_part(action, '.', 1)")
}

// org returns the organisation's parameter for a SELECT list.
func (d dialect) org() string { return d.text("@org", "@org::uuid") }

// records returns the rows of a parameter that is a JSON array of objects, as a table v
// with the columns. json_each would write each object as text, to be parsed again.
func (d dialect) records(rows string, columns []field) string {
	if d != onPostgres {
		return "(SELECT " + join(columns, "value->>'%' AS %") + " FROM jsonb_each(" + rows + ")) AS v"
	}
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.name + " " + c.kind
	}
	return "json_to_recordset(" + rows + "::json) AS v(" + strings.Join(list, ", ") + ")"
}

// page appends an order and a limit to a SELECT; 0 is no limit. Postgres plans a statement
// once for all values of a LIMIT parameter and assumes a tenth of the table, so the text
// has a coarse limit, and the exact one is the parameter of an outer SELECT.
func (d dialect) page(query, order string, limit int) (string, []any) {
	query += " ORDER BY " + order
	switch {
	case limit <= 0:
		return query, nil
	case d == onPostgres:
		return "SELECT * FROM (" + query + " LIMIT " + strconv.Itoa(roundLimit(limit)) + ") AS page LIMIT ?", []any{limit}
	}
	return query + " LIMIT ?", []any{limit}
}

// roundLimit rounds a limit up to one of a few values.
func roundLimit(limit int) int {
	c := 16
	for c < limit {
		c *= 2
	}
	return c
}

// array returns texts as a JSON array.
func array(texts []string) string {
	size := 2
	for _, s := range texts {
		size += len(s) + 3
	}
	b := append(make([]byte, 0, size), '[')
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = encode.AppendString(b, s)
	}
	return string(append(b, ']'))
}

// unmarshal decodes JSON, with a fast path for arrays of texts without escapes.
func unmarshal(s string, to any) error {
	// Without a backslash no quotation mark is inside a text.
	if texts, ok := to.(*[]string); ok && !strings.Contains(s, `\`) {
		if inner, ok := strings.CutPrefix(s, `["`); ok {
			*texts = strings.Split(strings.TrimSuffix(inner, `"]`), `","`)
			return nil
		}
	}
	return json.Unmarshal([]byte(s), to)
}

// dialectOf returns the dialect of a pool or a transaction.
func dialectOf(db *gorm.DB) dialect {
	if _, ok := db.Dialector.(sqliteDialector); ok {
		return onSQLite
	}
	return onPostgres
}
