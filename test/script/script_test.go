// Package script holds conversations with the server in testdata, and runs them
// against the real collabd on every database. The format is described in
// conversation_test.go.
package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/must"
	"collab/test/race"
)

func TestOnSQLite(t *testing.T)   { testProfile(t, onSQLite) }
func TestOnPostgres(t *testing.T) { testProfile(t, onPostgres) }
func TestOnPostgresThroughPgBouncer(t *testing.T) {
	race.Skip(t, "the server is the same on Postgres")
	testProfile(t, onPooled)
}
func TestInMemory(t *testing.T) {
	race.Skip(t, "the suites of the ports and the harness have the maps watched")
	testProfile(t, inMemory)
}

func testProfile(t *testing.T, p profile) {
	paths, err := filepath.Glob(p.file("test/script/testdata/*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	check := described(t, p.file(documentPath))
	shared := start(t, p)
	if len(shared.hosts) > 0 { // of releases with documents of their own
		check = nil
	}
	t.Run("conversations", func(t *testing.T) {
		if p.name == onSQLite.name {
			race.Skip(t, "the server is the same on Postgres, and SQLite, being Go, takes minutes")
		}
		for _, path := range paths {
			text := must.Do(os.ReadFile(path)).Or(t)
			d := must.Do(parse(path, string(text))).Or(t)
			if p.holds != nil && !p.holds(filepath.Base(path)) {
				continue
			}
			if p.name == onPooled.name && len(d.settings) > 0 {
				continue // its server differs in nothing that concerns the database
			}
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
				t.Parallel()
				s := shared
				if len(d.settings) > 0 {
					s = start(t, p, d.settings...)
				}
				for _, c := range d.conversations {
					if p.without[c.title] != "" {
						continue
					}
					t.Run(c.title, func(t *testing.T) {
						if len(d.settings) == 0 {
							t.Parallel()
						}
						for _, wrong := range newTalk(s, check).run(c) {
							t.Errorf("%s:%d: %s", d.path, wrong.line, wrong.text)
						}
					})
				}
			})
		}
	})
	if p.name == onPostgres.name { // which takes less than SQLite, such as no null characters
		t.Run("malformed requests", func(t *testing.T) {
			race.Skip(t, "its requests come one after another")
			testMalformed(t, p)
		})
	}
}
