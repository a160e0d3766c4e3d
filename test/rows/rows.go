// Package rows reads what is in the database of a server, from outside.
package rows

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"collab/test/must"
)

// All returns each row of each table, except those of without, as a line that begins with the table's name. The
// lines are sorted.
func All(t testing.TB, db *sql.DB, without ...string) (lines []string) {
	t.Helper()
	tables, rows := `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`, `SELECT t::text FROM %q t`
	if _, ok := db.Driver().(*sqlite.Driver); ok {
		tables, rows = `SELECT name FROM sqlite_master WHERE type = 'table'`, `SELECT * FROM %q`
	}
	for _, name := range query(t, db, tables) {
		if slices.Contains(without, name) {
			continue
		}
		for _, row := range query(t, db, fmt.Sprintf(rows, name)) {
			lines = append(lines, name+": "+row)
		}
	}
	slices.Sort(lines)
	return lines
}

// query returns the rows of a query, the columns of each with | between them.
func query(t testing.TB, db *sql.DB, statement string) (lines []string) {
	t.Helper()
	found := must.Do(db.QueryContext(t.Context(), statement)).Or(t)
	defer found.Close()
	columns := must.Do(found.Columns()).Or(t)
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for found.Next() {
		must.NoError(t, found.Scan(into...))
		parts := make([]string, len(columns))
		for i, v := range values {
			if parts[i] = v.String; !v.Valid {
				parts[i] = "NULL"
			}
		}
		lines = append(lines, strings.Join(parts, " | "))
	}
	must.NoError(t, found.Err())
	return lines
}
