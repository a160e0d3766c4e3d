package gormdb

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// dialect is what differs in the statements of the two databases.
type dialect uint8

const (
	onSQLite dialect = iota
	onPostgres
)

func (d dialect) isolation() *sql.TxOptions {
	if d == onPostgres {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return &sql.TxOptions{} // the connection's transactions are immediate
}

// snapshot is the isolation in which all is read as of one moment. SQLite has
// no other.
func (d dialect) snapshot() sql.IsolationLevel {
	if d == onPostgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// forUpdate ends a SELECT that locks its rows against other writers until the
// transaction ends; SQLite has no other writers. Inserts of rows that refer to
// them by foreign keys do not wait.
func (d dialect) forUpdate() string {
	if d == onPostgres {
		return " FOR NO KEY UPDATE"
	}
	return ""
}

// forKeyShare ends a SELECT whose rows are kept from being deleted until the
// transaction ends.
func (d dialect) forKeyShare() string {
	if d == onPostgres {
		return " FOR KEY SHARE"
	}
	return ""
}

// forUpdateSkipLocked ends a SELECT that locks rows as forUpdate does and skips rows that another
// transaction has locked.
func (d dialect) forUpdateSkipLocked() string {
	if d == onPostgres {
		return " FOR NO KEY UPDATE SKIP LOCKED"
	}
	return ""
}

// in is the condition that a column of the Postgres type is among the values of
// a parameter made by list.
func (d dialect) in(column, kind string) string {
	if d == onPostgres {
		return column + " = ANY(?::" + kind + "[])"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// list makes one parameter of many texts.
func list[T ~string](d dialect, values []T) string {
	var b strings.Builder
	b.Grow(2 + 39*len(values))
	if d != onPostgres {
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = string(v)
		}
		return array(texts)
	}
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

// param is a parameter of the Postgres type in a SELECT list, where Postgres does
// not know the type of the column that it ends up in.
func (d dialect) param(kind string) string {
	if d == onPostgres {
		return "?::" + kind
	}
	return "?"
}

// json is a column that holds JSON, for functions of it.
func (d dialect) json(column string) string {
	if d == onPostgres {
		return column + "::json"
	}
	return column
}

// org is the organisation in a SELECT list.
func (d dialect) org() string {
	if d == onPostgres {
		return "@org::uuid"
	}
	return "@org"
}

// records is the rows of a parameter that is a JSON array of objects, as the
// table v with the columns.
func (d dialect) records(columns []field) string {
	if d != onPostgres {
		return "(SELECT " + join(columns, "value->>'%' AS %") + " FROM json_each(?)) AS v"
	}
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.name + " " + c.kind
	}
	return "json_to_recordset(?::json) AS v(" + strings.Join(list, ", ") + ")"
}

// page ends a SELECT of at most limit rows in an order; 0 is all. Postgres plans
// a statement once for all limits unless one is written into it, and then thinks
// of a tenth of the table: so a coarse limit is written in, and the exact one is
// a parameter around it.
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

// roundLimit returns one of few limits, the least that is not less.
func roundLimit(limit int) int {
	c := 16
	for c < limit {
		c *= 2
	}
	return c
}

// array writes texts as a JSON array. Most of them need no escaping, and then
// their bytes are copied.
func array(texts []string) string {
	n := 2
	for _, s := range texts {
		if !isPlainJSON(s) {
			b, err := json.Marshal(texts)
			if err != nil {
				panic(err) // texts can always be written
			}
			return string(b)
		}
		n += len(s) + 3
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte('[')
	for i, s := range texts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(s)
		b.WriteByte('"')
	}
	b.WriteByte(']')
	return b.String()
}

// isPlainJSON reports whether s stands in JSON as it is: printable ASCII without
// quotation marks and backslashes.
func isPlainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// unmarshal reads JSON; of an array of texts what array wrote, faster.
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

// dialectOf is the dialect of a pool or a transaction.
func dialectOf(db *gorm.DB) dialect {
	if _, ok := db.Dialector.(sqliteDialector); ok {
		return onSQLite
	}
	return onPostgres
}
