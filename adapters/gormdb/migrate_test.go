package gormdb

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"collab/adapters/inspect"
	"collab/domain/fault"
	"collab/test/must"
)

// migratedTo returns a database with the schema of an earlier version.
func migratedTo(t *testing.T, url string, version int64) *DB {
	t.Helper()
	db := opened(t, url)
	files, err := fs.Sub(migrations, db.dialect.migrations())
	if err == nil {
		err = db.migrate(t.Context(), files, version)
	}
	must.NoError(t, err)
	return db
}

func TestADatabaseForNewerServersIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db := migrated(t, url)
		must.NoError(t, db.Ready(t.Context()))
		run(t, db, "UPDATE schema_support SET oldest = oldest + 100, release = '9.0.0'")
		_, err := Open(t.Context(), Options{URL: url})
		for _, err := range []error{err, db.Ready(t.Context())} {
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "for servers from version 9.0.0 on") {
				t.Error(err)
			}
		}
		run(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000, true)")
		found := Inspect(t.Context(), Inspection{Address: url, Clocks: &inspect.Clocks{}})
		if !slices.ContainsFunc(found, func(f inspect.Finding) bool {
			return f.Severity == inspect.Wrong && strings.Contains(f.Text, "from version 9.0.0 on")
		}) {
			t.Errorf("%+v", found)
		}
	})
}
