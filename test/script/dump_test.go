package script

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"collab/test/must"
)

// announced is the table of names under which content is about to be stored. What
// was refused while its content came leaves one there until it is collected.
const announced = "blob_names"

// opened opens a server's database, from outside.
func opened(t *testing.T, s *server) *sql.DB {
	t.Helper()
	driver, address := "pgx", s.database
	if path, ok := strings.CutPrefix(s.database, "sqlite://"); ok {
		driver, address = "sqlite", "file:"+path+"?mode=ro"
	}
	db := must.Do(sql.Open(driver, address)).Or(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
