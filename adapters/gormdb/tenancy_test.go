package gormdb

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/test/must"
)

func TestStatementsNameTheirOrganisation(t *testing.T) {
	const o = id.Org("00000001-0001-7000-8000-000000000000")
	onBoth(t, func(t *testing.T, db *DB) {
		for name, c := range map[string]command{
			"a tenant table in a shared text":         sharedSQL("SELECT id FROM tasks"),
			"one that is joined":                      sharedSQL("SELECT u.id FROM users u JOIN memberships m ON m.user_id = u.id"),
			"one in quotation marks":                  sharedSQL(`DELETE FROM "tasks"`),
			"a text that leaves the organisation out": tenantSQL(o, "SELECT id FROM tasks"),
			"one that confines one table of two":      tenantSQL(o, "SELECT t.id FROM tasks t JOIN objects x ON x.blob = t.title WHERE t.org_id = @org"),
			"a selection that asks another table":     teamTable.of(db.read, o).filter("NOT EXISTS (SELECT 1 FROM objects x WHERE x.team_id = teams.id)").command(),
			"a shared one that is joined":             userTable.on(db.read).join("users JOIN memberships ON memberships.user_id = users.id", "").command(),
			"one that names another column":           tenantSQL(o, "SELECT id FROM tasks WHERE id = ?", o),
		} {
			t.Run(name+" is refused", func(t *testing.T) {
				must.FailIs(t, must.ErrorOf(exec(t.Context(), db.write, "Task", c)), errNoOrganisation)
			})
		}
		for name, c := range map[string]command{
			"a text with the organisation":         tenantSQL(o, "SELECT id FROM tasks WHERE org_id = @org"),
			"parameters around the organisation":   tenantSQL(o, "SELECT id FROM tasks WHERE version = ? AND org_id = @org AND version = ? AND org_id = @org", 1, 2),
			"a shared text":                        sharedSQL("SELECT id FROM users WHERE id = ?", string(o)),
			"a text across tenants for its reason": crossTenantSQL(crossTenantDue, "SELECT org_id FROM subscriptions"),
		} {
			t.Run(name+" is not", func(t *testing.T) {
				must.NoError(t, eachRow(t.Context(), db.read, "Task", c, []any{new(string)}, func() error { return nil }))
			})
		}
	})
}

func TestParametersAreNumbered(t *testing.T) {
	c := tenantSQL("o", "a = ? AND org_id = @org AND b = ? AND x.org_id = @org AND c = ?", 1, 2, 3)
	for d, want := range map[dialect]string{
		onSQLite:   "a = ?2 AND org_id = ?1 AND b = ? AND x.org_id = ?1 AND c = ?",
		onPostgres: "a = $2 AND org_id = $1 AND b = $3 AND x.org_id = $1 AND c = $4",
	} {
		must.Is(t, want, must.Do(c.prepare(d)).Or(t))
	}
	c = parse("a = @before AND @org = org_id AND b = @organisations AND c = @before").of("o").
		set("organisations", 2).set("before", 1)
	for d, want := range map[dialect]string{
		onSQLite:   "a = ?2 AND ?1 = org_id AND b = ? AND c = ?2",
		onPostgres: "a = $2 AND $1 = org_id AND b = $3 AND c = $2",
	} {
		must.Is(t, want, must.Do(c.prepare(d)).Or(t))
	}
	must.Equal(t, []any{"o", 1, 2}, c.args)
}

func TestAParameterThatIsNotSetIsAnError(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		s := parse("SELECT name FROM users WHERE id = @id AND name = @name")
		_, err := oneRow(t.Context(), db.read, "User", s.shared().set("id", string(uid[id.User](kindUser, 1, 1))), new(string))
		must.Fail(t, err, fault.Internal)
	})
}

// TestStatementsGoThroughTheDescriptions looks for calls of GORM and of the pools
// that make or run statements, which two files alone may have beside what opens,
// migrates, copies and inspects a database.
func TestStatementsGoThroughTheDescriptions(t *testing.T) {
	forbidden := "Raw Exec ExecContext Query QueryContext QueryRow QueryRowContext Create Save Find First Take Updates Update Delete Scan Pluck Table Model Where"
	within := []string{"selection.go", "query.go", "sqlite.go", "sqlitestatements.go", "sqlitequeue.go", "sqlitecopy.go", "transferpostgres.go", "transfersqlite.go", "migrate.go", "partition.go", "inspect.go"}
	names := must.Do(filepath.Glob("*.go")).Or(t)
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(within, name) {
			continue
		}
		file := must.Do(parser.ParseFile(files, name, nil, 0)).Or(t)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains(strings.Fields(forbidden), method.Sel.Name) && touchesPool(method.X) {
				t.Errorf("%s: %s", files.Position(call.Pos()), method.Sel.Name)
			}
			return true
		})
	}
}

// touchesPool reports whether an expression begins with a pool of GORM's.
func touchesPool(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return touchesPool(e.Fun)
	case *ast.SelectorExpr:
		return slices.Contains([]string{"db", "read", "write", "pools"}, e.Sel.Name) || touchesPool(e.X)
	case *ast.IndexExpr:
		return touchesPool(e.X)
	case *ast.Ident:
		return e.Name == "db" || e.Name == "tx"
	}
	return false
}
