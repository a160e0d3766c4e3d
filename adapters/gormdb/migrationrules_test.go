package gormdb

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"collab/test/must"
)

// firstRelease is the version of the schema of the first release. Later migrations run while servers of
// the present and the previous release write.
const firstRelease = 13

// exempt are the rules that migrations on Postgres may break, by file and rule, each with the reason why
// servers of both releases can still run.
var exempt = map[string]string{}

func TestMigrationsOnPostgresKeepTheRules(t *testing.T) {
	names, err := fs.Glob(migrations, "migrations/postgres/*.sql")
	if err != nil || len(names) < firstRelease {
		t.Fatalf("%d migrations, %v", len(names), err)
	}
	used := map[string]bool{}
	for _, name := range names[firstRelease:] {
		text := must.Do(fs.ReadFile(migrations, name)).Or(t)
		name = strings.TrimPrefix(name, "migrations/postgres/")
		for _, rule := range brokenRules(string(text)) {
			key := name + ": " + rule
			if used[key] = true; exempt[key] == "" {
				t.Error(key)
			}
		}
	}
	for key := range exempt {
		if !used[key] {
			t.Errorf("%s is exempt and does not occur", key)
		}
	}
}

// statementRules are the rules for single statements. A statement that matches breaks the rule, unless it
// also matches the exception or changes a table that the migration creates.
var statementRules = []struct{ rule, matches, except string }{
	{"an index is built CONCURRENTLY", `^CREATE (UNIQUE )?INDEX`, `^CREATE (UNIQUE )?INDEX CONCURRENTLY`},
	{"an index is dropped CONCURRENTLY", `^DROP INDEX`, `^DROP INDEX CONCURRENTLY IF EXISTS`},
	{"REINDEX is CONCURRENTLY", `^REINDEX`, `^REINDEX (TABLE|INDEX) CONCURRENTLY`},
	{"a new column has a default or may be null", `ADD (COLUMN )?(IF NOT EXISTS )?\w+ \w+[^,]* NOT NULL`, `ADD (COLUMN )?(IF NOT EXISTS )?\w+ \w+[^,]* DEFAULT`},
	{"a default is the same for all rows", `ADD [^,]*DEFAULT [^,]*(RANDOM|GEN_RANDOM_UUID|CLOCK_TIMESTAMP|NEXTVAL|UUID\w*) ?\(`, ``},
	{"a new column has no constraint", `ADD (COLUMN )?(IF NOT EXISTS )?\w+ [^,]*\b(REFERENCES|UNIQUE|PRIMARY KEY|CHECK|GENERATED|\w*SERIAL)\b`, `ADD CONSTRAINT`},
	{"a constraint is added NOT VALID", `ADD (CONSTRAINT|FOREIGN KEY|CHECK|UNIQUE|PRIMARY KEY|EXCLUDE)`, `NOT VALID|USING INDEX`},
	{"no column becomes NOT NULL", `ALTER (COLUMN )?\w+ SET NOT NULL`, ``},
	{"no column gets another type", `ALTER (COLUMN )?\w+ (SET DATA )?TYPE`, ``},
	{"what older servers use is neither dropped nor renamed", `^DROP (TABLE|VIEW|FUNCTION|TRIGGER)|\bDROP (COLUMN|CONSTRAINT|DEFAULT)|\bRENAME\b|^ALTER TABLE [^;]* DROP \w+`, ``},
	{"rows are not written in bulk", `^(WITH|UPDATE|DELETE|TRUNCATE|COPY|MERGE|CREATE TABLE \w+ AS)\b|^INSERT [^;]*\bSELECT\b`, ``},
	{"no table is locked or rewritten", `^(LOCK|CLUSTER|VACUUM|REFRESH)\b|SET (LOGGED|UNLOGGED|TABLESPACE|ACCESS METHOD)|^ALTER TABLE [^;]*\b(ATTACH|INHERIT)\b`, ``},
	{"blocks of code are exempted by a review", `^(DO|CALL)\b`, ``},
}

var (
	lineComment  = regexp.MustCompile(`(?m)--.*$`)
	codeBlock    = regexp.MustCompile(`(?s)-- \+goose StatementBegin\n(.*?)-- \+goose StatementEnd`)
	createdTable = regexp.MustCompile(`^CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	changedTable = regexp.MustCompile(`^(?:CREATE (?:UNIQUE )?INDEX (?:\w+ )?ON|ALTER TABLE(?: IF EXISTS)?(?: ONLY)?|INSERT INTO|UPDATE|DELETE FROM|DROP TABLE(?: IF EXISTS)?) (\w+)`)
	concurrent   = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+)`)
)

// brokenRules returns the rules that a migration breaks.
func brokenRules(migration string) (rules []string) {
	var statements []string
	rest := codeBlock.ReplaceAllStringFunc(migration, func(block string) string {
		statements = append(statements, codeBlock.FindStringSubmatch(block)[1])
		return ""
	})
	statements = append(statements, strings.Split(lineComment.ReplaceAllString(rest, ""), ";")...)
	created := map[string]bool{}
	for i, s := range statements {
		statements[i] = strings.ToUpper(strings.Join(strings.Fields(lineComment.ReplaceAllString(s, "")), " "))
		if m := createdTable.FindStringSubmatch(statements[i]); m != nil {
			created[m[1]] = true
		}
	}
	statements = slices.DeleteFunc(statements, func(s string) bool { return s == "" })
	for _, r := range statementRules {
		matches, except := regexp.MustCompile(r.matches), regexp.MustCompile(r.except)
		if slices.ContainsFunc(statements, func(s string) bool {
			changed := changedTable.FindStringSubmatch(s)
			return (changed == nil || !created[changed[1]]) && matches.MatchString(s) && (r.except == "" || !except.MatchString(s))
		}) {
			rules = append(rules, r.rule)
		}
	}
	isTransaction := !strings.Contains(migration, "-- +goose NO TRANSACTION")
	for i, s := range statements {
		index := concurrent.FindStringSubmatch(s)
		isUnlimited := statements[0] == "SET LOCK_TIMEOUT = 0" && statements[len(statements)-1] == "SET LOCK_TIMEOUT = 250"
		if index != nil && (isTransaction || !isUnlimited || !slices.Contains(statements[:i], "DROP INDEX CONCURRENTLY IF EXISTS "+index[1])) {
			rules = append(rules, "an index that was interrupted is dropped first, in NO TRANSACTION, with lock_timeout 0 until the end")
		}
		if !isTransaction && index == nil && !regexp.MustCompile(`^SET LOCK_TIMEOUT|^DROP INDEX CONCURRENTLY IF EXISTS|^ALTER TABLE \w+ VALIDATE CONSTRAINT \w+$`).MatchString(s) {
			rules = append(rules, "what is not in a transaction can be repeated")
		}
		if isTransaction && len(statements) > 1 && strings.Contains(s, "VALIDATE CONSTRAINT") {
			rules = append(rules, "a constraint is validated by itself")
		}
	}
	return rules
}

func TestBrokenRules(t *testing.T) {
	const begin, index = "-- +goose Up\n", "-- +goose NO TRANSACTION\n-- +goose Up\nSET lock_timeout = 0;\nDROP INDEX CONCURRENTLY IF EXISTS i;\nCREATE INDEX CONCURRENTLY i ON tasks (a);\nSET lock_timeout = 250;\n"
	for _, valid := range []string{
		index,
		begin + "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY);\nCREATE INDEX i ON t (a); -- UPDATE tasks\nINSERT INTO t (a) SELECT 1;",
		begin + "ALTER TABLE tasks ADD COLUMN a BIGINT, ADD COLUMN b BOOLEAN NOT NULL DEFAULT false;",
		begin + "ALTER TABLE tasks ADD CONSTRAINT c CHECK (a > 0) NOT VALID;",
		begin + "ALTER TABLE tasks VALIDATE CONSTRAINT c;",
		begin + "-- +goose StatementBegin\nCREATE FUNCTION f() RETURNS trigger AS $$ BEGIN UPDATE x SET a = 1; RETURN NULL; END $$ LANGUAGE plpgsql;\n-- +goose StatementEnd\nCREATE TRIGGER f AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION f();",
	} {
		if rules := brokenRules(valid); len(rules) > 0 {
			t.Errorf("%s\nbreaks %q", valid, rules)
		}
	}
	for statement, rule := range map[string]string{
		"CREATE INDEX i ON tasks (a)":              "an index is built CONCURRENTLY",
		"CREATE UNIQUE INDEX i ON tasks (a)":       "an index is built CONCURRENTLY",
		"CREATE INDEX CONCURRENTLY i ON tasks (a)": "an index that was interrupted is dropped first, in NO TRANSACTION, with lock_timeout 0 until the end",
		"DROP INDEX i":        "an index is dropped CONCURRENTLY",
		"REINDEX TABLE tasks": "REINDEX is CONCURRENTLY",
		"ALTER TABLE tasks ADD COLUMN a BIGINT NOT NULL":                              "a new column has a default or may be null",
		"ALTER TABLE tasks ADD a UUID DEFAULT gen_random_uuid()":                      "a default is the same for all rows",
		"ALTER TABLE tasks ADD COLUMN a BIGINT CHECK (a > 0)":                         "a new column has no constraint",
		"ALTER TABLE tasks ADD CONSTRAINT c CHECK (a > 0)":                            "a constraint is added NOT VALID",
		"ALTER TABLE tasks ADD FOREIGN KEY (a) REFERENCES teams (id)":                 "a constraint is added NOT VALID",
		"ALTER TABLE tasks ALTER COLUMN a SET NOT NULL":                               "no column becomes NOT NULL",
		"ALTER TABLE tasks ALTER a TYPE TEXT":                                         "no column gets another type",
		"ALTER TABLE tasks DROP COLUMN a":                                             "what older servers use is neither dropped nor renamed",
		"ALTER TABLE tasks DROP a":                                                    "what older servers use is neither dropped nor renamed",
		"ALTER TABLE tasks RENAME TO t":                                               "what older servers use is neither dropped nor renamed",
		"DROP TABLE tasks":                                                            "what older servers use is neither dropped nor renamed",
		"UPDATE tasks SET a = 1":                                                      "rows are not written in bulk",
		"INSERT INTO teams (a)\n  SELECT a FROM tasks":                                "rows are not written in bulk",
		"LOCK TABLE tasks":                                                            "no table is locked or rewritten",
		"ALTER TABLE tasks ATTACH PARTITION p FOR VALUES IN (1)":                      "no table is locked or rewritten",
		"ALTER TABLE tasks ADD COLUMN a TEXT;ALTER TABLE tasks VALIDATE CONSTRAINT c": "a constraint is validated by itself",
	} {
		if rules := brokenRules(begin + statement + ";\n"); !slices.Contains(rules, rule) {
			t.Errorf("%s breaks %q instead of %q", statement, rules, rule)
		}
	}
	for _, changed := range []string{
		strings.Replace(index, "SET lock_timeout = 0;\n", "", 1), strings.Replace(index, "SET lock_timeout = 250;\n", "", 1),
		strings.Replace(index, "DROP INDEX CONCURRENTLY IF EXISTS i;\n", "", 1), strings.Replace(index, "-- +goose NO TRANSACTION\n", "", 1),
		strings.Replace(index, "SET lock_timeout = 250", "CREATE TABLE t ();\nSET lock_timeout = 250", 1),
	} {
		if len(brokenRules(changed)) == 0 {
			t.Errorf("%s\nbreaks no rule", changed)
		}
	}
}
