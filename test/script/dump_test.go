package script

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"collab/test/must"
)

// dumper reads every row of every table of a server's database, from outside.
type dumper struct {
	db     *sql.DB
	tables string // the query for the tables' names
	rows   string // the query for a table's rows, with %s for its name
}

func newDumper(t *testing.T, s *server) *dumper {
	t.Helper()
	d := &dumper{
		tables: `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1`,
		rows:   `SELECT t::text FROM %s t`,
	}
	driver, address := "pgx", s.database
	if path, ok := strings.CutPrefix(s.database, "sqlite://"); ok {
		driver, address = "sqlite", "file:"+path+"?mode=ro"
		d.tables = `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1`
		d.rows = `SELECT * FROM %s`
	}
	d.db = must.Do(sql.Open(driver, address)).Or(t)
	t.Cleanup(func() { _ = d.db.Close() })
	return d
}

// announced is the table of names under which content is about to be stored. What
// was refused while its content came leaves one there until it is collected.
const announced = "blob_names"

// dump returns the database's rows as lines in an order of their own.
func (d *dumper) dump(t *testing.T) []string {
	t.Helper()
	tables := must.Do(d.query(d.tables)).Or(t)
	var lines []string
	for _, name := range tables {
		if name == announced {
			continue
		}
		rows, err := d.query(fmt.Sprintf(d.rows, `"`+name+`"`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, row := range rows {
			lines = append(lines, name+": "+row)
		}
	}
	slices.Sort(lines)
	return lines
}

func (d *dumper) query(query string) ([]string, error) {
	rows, err := d.db.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var lines []string
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		parts := make([]string, len(columns))
		for i, v := range values {
			parts[i] = v.String
			if !v.Valid {
				parts[i] = "NULL"
			}
		}
		lines = append(lines, strings.Join(parts, " | "))
	}
	return lines, rows.Err()
}
