package gormdb

import (
	"slices"
	"sync"
	"testing"

	"gorm.io/gorm/schema"
)

func contains(all []string, s string) bool { return slices.Contains(all, s) }

type logEpochRow struct {
	Epoch int64 `gorm:"primaryKey;autoIncrement:false"`
}

func (logEpochRow) TableName() string { return "log_epoch" }

// rowTypes are all rows that are kept.
var rowTypes = []any{
	userRow{}, organisationRow{}, membershipRow{}, invitationRow{}, subscriptionRow{}, teamRow{}, teamMemberRow{}, workspaceRow{}, orderRow{},
	taskRow{}, taskTagRow{}, taskHistoryRow{}, inboxRow{}, auditRow{}, replayRow{}, sessionRow{},
	logEpochRow{}, logHeadRow{}, objectRow{}, changeRow{}, blobNameRow{},
	accountRow{}, leaseRow{}, entryRow{}, userModelSumRow{}, userSumRow{}, modelSumRow{},
	connectorRow{}, credentialsRow{}, flowRow{}, clientRow{}, revocationRow{},
	releaseRow{}, releaseRevisionRow{}, adoptionRow{},
}

func parsed(t *testing.T, row any) *schema.Schema {
	t.Helper()
	s, err := schema.Parse(row, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// columnTypes says what each kind of field is kept as.
var columnTypes = map[dialect]map[string]string{
	onPostgres: {"uuid": "uuid", "string": "text", "int": "bigint", "bool": "boolean", "bytes": "bytea"},
	onSQLite:   {"uuid": "TEXT", "string": "TEXT", "int": "INTEGER", "bool": "INTEGER", "bytes": "BLOB"},
}

func TestRowsAreWhatTheMigrationsMake(t *testing.T) {
	type column struct {
		kind     string
		nullable bool
	}
	onBoth(t, func(t *testing.T, db *DB) {
		columns, tables := "SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ?",
			"SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
		if db.dialect == onSQLite {
			columns, tables = `SELECT name, type, "notnull" = 0 FROM pragma_table_info(?)`, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
		}
		var made []string
		if err := db.read.Raw(tables).Scan(&made).Error; err != nil {
			t.Fatal(err)
		}
		known := []string{"goose_db_version"}
		kept := rowTypes
		if db.dialect == onSQLite {
			kept = append(slices.Clone(rowTypes), taskTextsRow{})
		}
		for _, row := range kept {
			s := parsed(t, row)
			known = append(known, s.Table)
			want := map[string]column{}
			for _, f := range s.Fields {
				if f.DBName == "" {
					continue
				}
				kind := string(f.DataType)
				if f.TagSettings["TYPE"] != "" {
					kind = f.TagSettings["TYPE"]
				}
				want[f.DBName] = column{columnTypes[db.dialect][kind], !f.NotNull && !f.PrimaryKey}
			}
			rows, err := db.read.Raw(columns, s.Table).Rows()
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var name string
				var got column
				if err := rows.Scan(&name, &got.kind, &got.nullable); err != nil {
					t.Fatal(err)
				}
				if w, ok := want[name]; !ok {
					t.Errorf("%s.%s is in no row", s.Table, name)
				} else if w != got {
					t.Errorf("%s.%s is %v, the row says %v", s.Table, name, got, w)
				}
				delete(want, name)
			}
			if err := rows.Close(); err != nil {
				t.Fatal(err)
			}
			for name := range want {
				t.Errorf("%s.%s is not in the schema", s.Table, name)
			}
		}
		for _, table := range made {
			if !contains(known, table) {
				t.Errorf("the table %s has no row", table)
			}
		}
	})
}
