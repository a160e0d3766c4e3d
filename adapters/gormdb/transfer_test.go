package gormdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/adapters/inspect"
	"collab/domain/id"
	"collab/test/must"
	"collab/test/race"
)

// notTransferred are the tables that a transfer leaves out, with the reason.
var notTransferred = map[string]string{
	"goose_db_version": "migrations write it",
	"log_epoch":        "Finish writes it",
	"schema_support":   "migrations write it",
	"request_counts":   "they are of the last minutes",
	"exports":          "their archives are not moved",
	"uploads":          "incomplete uploads are not moved",
	"upload_parts":     "incomplete uploads are not moved",
	"task_texts":       "tasks are read with their texts",
}

func TestEveryTableIsTransferredOrHasAReason(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		for _, name := range texts(t, db, selectTables[db.dialect]+" NOT LIKE 'sqlite_%'") {
			if !slices.Contains(ComparedTables(), name) && notTransferred[name] == "" {
				t.Errorf("%s is neither copied nor left out with a reason", name)
			}
		}
		references := "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
		if db.dialect == onSQLite {
			references = `SELECT s.name, f."table" FROM sqlite_schema s, pragma_foreign_key_list(s.name) f WHERE s.type = 'table'`
		}
		var from, to string
		must.NoError(t, eachRow(t.Context(), db.read, "Reference", sharedSQL(references), []any{&from, &to}, func() error {
			if i := slices.Index(TransferTables, from); i >= 0 && i <= slices.Index(TransferTables, to) {
				t.Errorf("%s is copied before %s, which it refers to", from, to)
			}
			return nil
		}))
	})
}

// example returns the i-th record of a table in an organisation. The values of its columns vary with
// i, and it refers to the i-th records of other tables.
func example(table *table, org, i int) rowValues {
	name := func(kind, i int) uuid {
		return uuid{15: byte(i), 14: byte(i >> 8), 13: byte(kind), 12: byte(org + 1), 6: 0x70, 8: 0x80}
	}
	references := map[string]string{"user_id": "users", "team_id": "teams", "workspace_id": "workspaces", "in_workspace_id": "workspaces", "task_id": "tasks", "connector_id": "connectors"}
	r := make(rowValues, len(table.all))
	for c, f := range table.all {
		text := fmt.Sprintf("%s %d %d é\u0301 🙂 \"'\\\t\n", f.name, org, i)
		switch f.kind {
		case "uuid":
			r[c] = name(slices.Index(TransferTables, table.name), i)
			if referenced := references[f.name]; referenced != "" {
				r[c] = name(slices.Index(TransferTables, referenced), i%6)
			}
			if f.name == "org_id" {
				r[c] = name(slices.Index(TransferTables, "organisations"), 0)
			}
		case "text":
			r[c] = text
			if i%3 == 2 {
				r[c] = strings.Repeat(text, 60)
			}
		case "bigint":
			r[c] = []int64{-62135596800000, 0, 1<<63 - 1, int64(i)}[i%4]
			if f.key {
				r[c] = int64(7 * i)
			}
		case "boolean":
			r[c] = i%2 == 0
		case "bytea":
			r[c] = [][]byte{{}, {0, 1, 255}, []byte(text)}[i%3]
		}
		if f.nullable && i%2 == 1 {
			r[c] = nil
		}
		switch table.name + "." + f.name {
		case "tasks.tags":
			r[c] = fmt.Sprintf(`["tag %d","%d"]`, i, org)
			if i%2 == 1 {
				r[c] = nil
			}
		case "objects.blob":
			r[c] = fmt.Sprintf("org/%d/%d@1", org, i)
		case "release_revision.one":
			r[c] = true
		}
	}
	return r
}

// fill writes examples of all tables to a migrated database: n tasks and at most six other
// records of each table to each of two organisations.
func fill(t testing.TB, url string, n int) {
	t.Helper()
	target, err := OpenTarget(t.Context(), url, "a test")
	must.NoError(t, err)
	defer target.Close()
	err = target.transaction(t.Context(), func() error {
		if err := target.conn.exec(t.Context(), "DELETE FROM release_revision"); err != nil {
			return err
		}
		for _, name := range TransferTables {
			var all []rowValues
			for org := range 2 {
				count := 6
				switch name {
				case "tasks":
					count = n
				case "organisations", "subscriptions", "log_heads":
					count = 1
				case "release_revision":
					count = 1 - org
				}
				for i := range count {
					all = append(all, example(tableNamed(name), org, i))
				}
			}
			next := func() (rowValues, bool, error) {
				if len(all) == 0 {
					return nil, false, nil
				}
				r := all[0]
				all = all[1:]
				return r, true, nil
			}
			if err := target.conn.insert(t.Context(), tableNamed(name), next); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	must.NoError(t, err)
}

// transfer copies everything, in transactions of few records.
func transfer(ctx context.Context, from, to string, each func(n int) error) (err error) {
	source, err := OpenSource(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := OpenTarget(ctx, to, "a test")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	target.chunk = batchRows
	if err := target.Begin(ctx, source); err != nil {
		return err
	}
	for _, name := range TransferTables {
		if err := target.Load(ctx, source, name, each); err != nil {
			return err
		}
	}
	epoch, err := source.Epoch(ctx)
	if err != nil {
		return err
	}
	return target.Finish(ctx, epoch)
}

// execute executes a statement on a database that has no other connections.
func execute(t testing.TB, url, statement string) {
	t.Helper()
	db := opened(t, url)
	run(t, db, statement)
	db.Close()
}

func ignoreProgress(int) error { return nil }

// digestsOf returns the digests of a database by table and organisation, and its epoch.
func digestsOf(t testing.TB, url string) map[string]Digest {
	t.Helper()
	source := must.Do(OpenSource(t.Context(), url)).Or(t)
	defer source.Close()
	all := map[string]Digest{}
	for _, name := range ComparedTables() {
		digests := must.Do(source.Digests(t.Context(), name, func(int) {})).Or(t)
		for o, d := range digests {
			all[name+" "+string(o)] = d
		}
	}
	epoch := must.Do(source.Epoch(t.Context())).Or(t)
	all["epoch"] = Digest{Records: epoch}
	return all
}

// checkDigests fails the test unless the database has the digests.
func checkDigests(t testing.TB, want map[string]Digest, url string) {
	t.Helper()
	if got := digestsOf(t, url); !maps.Equal(got, want) {
		t.Errorf("the digests are\n%v\nwant\n%v", got, want)
	}
}

// onPairs runs a test for each pair of kinds of databases. From returns addresses of migrated ones, and
// to of empty ones.
func onPairs(t *testing.T, test func(t *testing.T, from, to func(testing.TB) string)) {
	for _, from := range databases {
		for _, to := range databases {
			t.Run("from "+from.name+" to "+to.name, func(t *testing.T) { test(t, from.migrated, to.url) })
		}
	}
}

func TestATransferCopiesEveryValue(t *testing.T) {
	onPairs(t, func(t *testing.T, newFrom, newTo func(testing.TB) string) {
		from, to := newFrom(t), newTo(t)
		fill(t, from, 20)
		execute(t, from, "UPDATE log_epoch SET epoch = 12345")
		want := digestsOf(t, from)
		must.NoError(t, transfer(t.Context(), from, to, ignoreProgress))
		checkDigests(t, want, to)
		if n := len(want); n < len(TransferTables) || want["epoch"].Records != 12345 {
			t.Errorf("%d digests are compared, the epoch is %d", n, want["epoch"].Records)
		}
		db := migrated(t, to)
		must.NoError(t, db.Ready(t.Context()))
		org := id.Org(example(tableNamed("tasks"), 1, 0)[0].(uuid).String())
		run(t, db, "UPDATE tasks SET title = 'by hand' WHERE org_id = '"+string(org)+"' AND sort_order = 0")
		got := digestsOf(t, to)
		for name, d := range want {
			if same := got[name] == d; same != (name != "tasks "+string(org)) {
				t.Errorf("after a change by hand %s is the same: %v", name, same)
			}
		}
	})
}

func TestAnInterruptedTransferContinues(t *testing.T) {
	race.Skip(t, "its many attempts copy as one does")
	onPairs(t, func(t *testing.T, newFrom, newTo func(testing.TB) string) {
		from, to := newFrom(t), newTo(t)
		fill(t, from, 2*batchRows+3)
		want := digestsOf(t, from)
		errFault := errors.New("planned")
		attempts, inTable := 0, 0
		for limit := 1; ; limit += 5 { // each attempt ends at a later call
			calls := 0
			err := transfer(t.Context(), from, to, func(int) error {
				if calls++; calls > limit {
					return errFault
				}
				return nil
			})
			if err == nil {
				break
			}
			must.FailIs(t, err, errFault)
			attempts++
			db := must.Do(open(t.Context(), Options{URL: to})).Or(t)
			var n int
			if err := db.pools[0].QueryRowContext(t.Context(), "SELECT count(*) FROM tasks").Scan(&n); err == nil && n > 0 && n < 2*(2*batchRows+3) {
				inTable++
			}
			db.Close()
			if _, err := Open(t.Context(), Options{URL: to}); err == nil || !strings.Contains(err.Error(), "collabd move") {
				t.Fatalf("an incomplete target is opened: %v", err)
			}
			if _, err := OpenSource(t.Context(), to); err == nil {
				t.Fatal("an incomplete target is a source")
			}
			if _, err := OpenTarget(t.Context(), to, "another"); err == nil || !strings.Contains(err.Error(), "a test") {
				t.Fatalf("another transfer continues: %v", err)
			}
		}
		checkDigests(t, want, to)
		if attempts < 5 || inTable == 0 {
			t.Errorf("%d attempts were interrupted, %d of them in the middle of a table", attempts, inTable)
		}
	})
}

func TestATransferIsAbandoned(t *testing.T) {
	onPairs(t, func(t *testing.T, newFrom, newTo func(testing.TB) string) {
		from, to := newFrom(t), newTo(t)
		fill(t, from, 20)
		calls := 0
		err := transfer(t.Context(), from, to, func(int) error {
			if calls++; calls > 50 {
				return errors.New("planned")
			}
			return nil
		})
		if err == nil {
			t.Fatal("the transfer was not interrupted")
		}
		found := Inspect(t.Context(), Inspection{Address: to, Clocks: &inspect.Clocks{}})
		if !slices.ContainsFunc(found, func(f inspect.Finding) bool { return f.Part == "schema" && f.Severity == inspect.Wrong }) {
			t.Errorf("the incomplete target is inspected as %v", found)
		}
		target := must.Do(OpenTarget(t.Context(), to, "")).Or(t)
		must.NoError(t, errors.Join(target.Abandon(t.Context()), target.Close()))
		opened(t, to).Close()
		must.NoError(t, transfer(t.Context(), from, to, ignoreProgress))
		checkDigests(t, digestsOf(t, from), to)
	})
}

func TestATargetWithoutAnOriginIsUsedOrAbandoned(t *testing.T) {
	onPairs(t, func(t *testing.T, newFrom, newTo func(testing.TB) string) {
		from, to := newFrom(t), newTo(t)
		fill(t, from, 6)
		const mark = "CREATE TABLE " + transferTable + " (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
		execute(t, to, mark)
		target := must.Do(OpenTarget(t.Context(), to, "")).Or(t)
		must.NoError(t, errors.Join(target.Abandon(t.Context()), target.Close()))
		for _, empty := range []string{to, newTo(t)} { // with and without the schema
			execute(t, empty, mark)
			must.NoError(t, transfer(t.Context(), from, empty, ignoreProgress))
		}
	})
}

func TestTargetsWithDataOrAnotherSchemaAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, to string) {
		refused := func(want, statement string) {
			t.Helper()
			execute(t, to, statement)
			if target, err := OpenTarget(t.Context(), to, "a test"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %v: not %q", target, err, want)
			}
			db := opened(t, to)
			if found, err := db.hasTable(t.Context(), transferTable); err != nil || found {
				t.Errorf("the refused target was written to: %v", err)
			}
			db.Close()
		}
		refused("has the table notes", "CREATE TABLE notes (a TEXT)")
		execute(t, to, "DROP TABLE notes")
		migrated(t, to).Close()
		refused("records in the table inbox", "INSERT INTO inbox (source, message, noted_at) VALUES ('a', 'b', 1)")
		execute(t, to, "DELETE FROM inbox")
		refused("records in the table release_revision", "UPDATE release_revision SET n = 1")
		refused("has version 5", "DELETE FROM goose_db_version WHERE version_id > 5")
		db := opened(t, to)
		if db.dialect == onSQLite {
			return // its lock is the caller's
		}
		if _, err := OpenTarget(t.Context(), to, "a test"); err == nil || !strings.Contains(err.Error(), "stop them first") {
			t.Errorf("a target with a server is opened: %v", err)
		}
	})
}

func TestParametersOfAnAddressDoNotChangeATransfer(t *testing.T) {
	address := migratedPostgres(t)
	fill(t, address, 6)
	want := digestsOf(t, address)
	u := must.Do(url.Parse(address)).Or(t)
	params := u.Query()
	params.Set("default_query_exec_mode", "simple_protocol")
	params.Set("statement_timeout", "5000")
	u.RawQuery = params.Encode()
	checkDigests(t, want, u.String())
	w, err := openPostgresWriter(t.Context(), u.String())
	must.NoError(t, err)
	defer w.Close()
	must.NoError(t, w.rows(t.Context(), "SELECT current_setting('statement_timeout')", nil, func(values []any) error {
		must.Is(t, "0", values[0])
		return nil
	}))
}

func TestAnErrorNamesTextsThatPostgresDoesNotStore(t *testing.T) {
	from, to := databases[0].migrated(t), databases[1].url(t)
	fill(t, from, 6)
	execute(t, from, "UPDATE tasks SET title = 'a' || char(0) WHERE sort_order = 0")
	if err := transfer(t.Context(), from, to, ignoreProgress); err == nil || !strings.Contains(causes(err), "the column title") {
		t.Errorf("the error is %v", err)
	}
}

// causes returns the texts of an error and of those that it wraps.
func causes(err error) (all string) {
	for ; err != nil; err = errors.Unwrap(err) {
		all += err.Error() + "\n"
	}
	return all
}

func TestValuesOfSQLiteAreConvertedExactly(t *testing.T) {
	const canonical = "0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
	for kind, values := range map[string][2][]any{
		"uuid":    {{canonical}, {strings.ToUpper(canonical), "0198a1b2c3d47e5f8a6b7c8d9e0f1a2b", "", int64(1), []byte(canonical)}},
		"boolean": {{int64(0), int64(1)}, {int64(2), int64(-1), "true", 1.0}},
		"bigint":  {{int64(-1 << 63), int64(1<<63 - 1)}, {"1", 1.5, []byte{1}}},
		"text":    {{"", "\x00", "é", "\xff"}, {int64(1), []byte("a")}},
		"bytea":   {{[]byte(nil), []byte{0}}, {"a", int64(1)}},
	} {
		f := field{name: "column", kind: kind}
		for _, v := range append(values[0], nil) {
			if converted, err := f.fromSQLite(v); err != nil || (converted == nil) != (v == nil) {
				t.Errorf("%#v of kind %s is not converted: %v, %v", v, kind, converted, err)
			}
		}
		for _, v := range values[1] {
			if converted, err := f.fromSQLite(v); err == nil {
				t.Errorf("%#v of kind %s is converted to %#v", v, kind, converted)
			}
		}
	}
}

func TestDigestsOfDifferentRecordsDiffer(t *testing.T) {
	value := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return append([]byte{}, b...) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rowValues(rapid.SliceOfN(value, 1, 4).Draw(t, "a")), rowValues(rapid.SliceOfN(value, 1, 4).Draw(t, "b"))
		same := fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
		if (string(a.append(nil)) == string(b.append(nil))) != same {
			t.Fatalf("%#v and %#v are encoded the same: %v", a, b, !same)
		}
		var one, other, fewer Digest
		for _, r := range []rowValues{a, b, a} {
			one.Add(r.append(nil))
		}
		for _, r := range []rowValues{b, a, a} {
			other.Add(r.append(nil))
		}
		fewer.Add(a.append(nil))
		if one != other || one == fewer {
			t.Fatal("digests depend on the order of records, or not on the records")
		}
	})
}
