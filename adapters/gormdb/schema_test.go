package gormdb

import (
	"slices"
	"testing"

	"collab/test/must"
)

// columnTypes maps the types on Postgres to those on SQLite.
var columnTypes = map[string]string{"uuid": "TEXT", "text": "TEXT", "bigint": "INTEGER", "boolean": "INTEGER", "bytea": "BLOB"}

type logEpochRow struct {
	Epoch int64 `gorm:"primaryKey"`
}

type schemaSupportRow struct {
	Oldest  int64 `gorm:"primaryKey"`
	Release string
}

// Tables whose statements are SQL texts.
var (
	_ = shared[logEpochRow]("log_epoch", "Log")
	_ = shared[schemaSupportRow]("schema_support", "Schema")
)

// texts returns the values of a query for one text column.
func texts(t *testing.T, db *DB, query string) (all []string) {
	t.Helper()
	var text string
	must.NoError(t, eachRow(t.Context(), db.read, "Text", sharedSQL(query), []any{&text}, func() error {
		all = append(all, text)
		return nil
	}))
	return all
}

func TestRowsEqualTheMigratedSchema(t *testing.T) {
	type column struct {
		kind     string
		nullable bool
	}
	onBoth(t, func(t *testing.T, db *DB) {
		columns, names := "SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1",
			"SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
		if db.dialect == onSQLite {
			columns, names = `SELECT name, type, "notnull" = 0 FROM pragma_table_info(?)`, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
		}
		known := []string{"goose_db_version"}
		for _, table := range tables {
			if table == &taskTextsTable.table && db.dialect == onPostgres {
				continue
			}
			known = append(known, table.name)
			want := map[string]column{}
			for _, f := range table.all {
				kind := f.kind
				if db.dialect == onSQLite {
					kind = columnTypes[kind]
				}
				want[f.name] = column{kind, f.nullable}
			}
			rows := must.Do(db.pools[0].Query(columns, table.name)).Or(t)
			for rows.Next() {
				var name string
				var got column
				must.NoError(t, rows.Scan(&name, &got.kind, &got.nullable))
				if name == "org_id" && !slices.Contains(tenantTables, table.name) {
					t.Errorf("%s has organisations and is not described as a tenant's", table.name)
				}
				if w, ok := want[name]; !ok {
					t.Errorf("%s.%s is in no row", table.name, name)
				} else if w != got {
					t.Errorf("%s.%s is %v, the row says %v", table.name, name, got, w)
				}
				delete(want, name)
			}
			must.NoError(t, rows.Close())
			for name := range want {
				t.Errorf("%s.%s is not in the schema", table.name, name)
			}
		}
		for _, name := range texts(t, db, names) {
			if !slices.Contains(known, name) {
				t.Errorf("the table %s has no row", name)
			}
		}
	})
}
