package gormdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
	"collab/test/postgres"
)

// partitioned partitions the tables of a database.
func partitioned(t *testing.T, db *DB) {
	t.Helper()
	must.NoError(t, db.Partition(t.Context(), func(string, int64, bool) {}))
}

func TestLaterMigrationsRunOnPartitionedTables(t *testing.T) {
	db := migratedTo(t, postgres.URL(t), firstRelease+1)
	partitioned(t, db)
	must.NoError(t, db.Migrate(t.Context()))
}

func TestSQLiteHasNoPartitions(t *testing.T) {
	must.Fail(t, migrated(t, databases[0].url(t)).Partition(t.Context(), nil), fault.Invalid)
}

// describeTables selects a description of all tables without their partitions.
const describeTables = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT concat_ws(' ', c.relname, a.attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)) AS line
		FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum WHERE attnum > 0 AND relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
	UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conparentid = 0 AND conrelid::regclass::text !~ '_p[0-9]+$'
	UNION ALL SELECT replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'public'::regnamespace AND NOT relispartition
	UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT tgisinternal
	UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
	UNION ALL SELECT concat_ws(' ', relname, relacl) FROM pg_class WHERE relname = ANY ('{usage_entries,task_history,changes}')
) AS lines`

func TestPartitioningKeepsTheDescriptionOfTables(t *testing.T) {
	address := migratedPostgres(t)
	db := opened(t, address)
	role := "reader_" + strings.ReplaceAll(strings.ToLower(t.Name()), "/", "_")[:20]
	run(t, db, "DROP ROLE IF EXISTS "+role)
	run(t, db, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, err := db.pools[0].ExecContext(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		must.Succeed(t, err)
	})
	run(t, db, "ALTER TABLE usage_entries OWNER TO "+role)
	must.Fail(t, db.Partition(t.Context(), func(string, int64, bool) {}), fault.Invalid) // the table is another role's
	run(t, db, "ALTER TABLE usage_entries OWNER TO current_user")
	run(t, db, "GRANT SELECT, INSERT ON usage_entries TO "+role)
	before := value[string](t, db.pools[0], describeTables)
	for range 2 {
		partitioned(t, db)
		must.Equal(t, before, value[string](t, db.pools[0], describeTables))
	}
	for _, table := range partitionedTables {
		must.Is(t, partitions, value[int](t, db.pools[0], "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = $1::regclass", table))
	}
	// Rights on partitions are not needed, and not among deniedTables.
	run(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	run(t, db, "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT oid FROM pg_class WHERE relispartition AND relkind = 'r' LOOP EXECUTE 'REVOKE ALL ON ' || p || ' FROM "+role+"'; END LOOP; END $$")
	u := must.Do(url.Parse(address)).Or(t)
	q := u.Query()
	q.Set("role", role)
	u.RawQuery = q.Encode()
	for denied, statement := range []string{"SELECT 1", "REVOKE UPDATE ON usage_entries FROM " + role} {
		run(t, db, statement)
		if c, err := readPostgres(t.Context(), u.String(), nil); err != nil || c.postgres.user != role || c.postgres.deniedTables != denied {
			t.Errorf("after %s: %+v, %v", statement, c.postgres, err)
		}
	}
}

// activeMember adds and removes records of every partitioned table in an organisation of its own, and
// counts the acknowledged ones.
type activeMember struct {
	db     *DB
	org    id.Org
	user   id.User
	task   task.Task
	added  map[string]int64 // rows by table
	oldest int64            // rows of the first task's history
}

func newActiveMember(t *testing.T, db *DB, n int) *activeMember {
	t.Helper()
	w := &activeMember{db: db, org: organisation(t, db, uid[id.Org](kindOrg, n, 0)), user: uid[id.User](kindUser, n, 1), added: map[string]int64{}}
	must.Do(db.Directory().Users().Upsert(t.Context(), org.User{ID: w.user, ProviderID: string(w.user)}, func(u org.User) (org.User, error) { return u, nil })).Or(t)
	const rows = 4000 // more than are copied in one transaction
	fill := fmt.Sprintf(" FROM generate_series(1, %d) AS n", rows)
	o := "'" + string(w.org) + "'::uuid"
	run(t, db, "INSERT INTO tasks (org_id, id, title, status, priority, sort_order, created_by, created_at, updated_at, version) VALUES ("+o+", "+o+", '', 'TODO', 'LOW', 0, "+o+", 0, 0, 1)")
	run(t, db, "INSERT INTO task_history (org_id, id, task_id, at, by_user, reason, fields) SELECT "+o+", gen_random_uuid(), "+o+", 0, "+o+", '', '[]'"+fill)
	run(t, db, "INSERT INTO usage_entries (org_id, id, user_id, at, day, model, provider, input, output, cache_read, cache_made, searches, provenance, outcome) SELECT "+
		o+", gen_random_uuid(), '"+string(w.user)+"', 0, 0, 'm', 'p', 1, 1, 0, 0, 0, '', ''"+fill)
	run(t, db, "INSERT INTO changes (org_id, n, type, at, audience) SELECT "+o+", n, 'access-changed', 0, '{}'"+fill)
	run(t, db, "INSERT INTO log_heads (org_id, n, floor) SELECT "+o+", MAX(n), 0"+fill)
	for _, table := range partitionedTables {
		w.added[table] = rows
	}
	w.oldest = rows
	return w
}

// write adds a record to each table, and removes some task history if n is a multiple of three. Each
// call needs another n.
func (w *activeMember) write(ctx context.Context, n int) error {
	tasks, now := w.db.Work().TasksAt(0), time.UnixMilli(int64(n)).UTC()
	if w.task.ID == "" {
		added, err := tasks.Add(ctx, w.org, task.Task{ID: uid[id.Task](kindTask, 1, n), Title: "x", Priority: task.Low, CreatedBy: w.user, CreatedAt: now, UpdatedAt: now, Version: 1}.Restore(task.Todo, nil))
		if err != nil {
			return err
		}
		w.task = added
	}
	next := w.task
	next.Version++
	err := tasks.Replace(ctx, w.org, w.task, next, []task.Change{{ID: uid[id.Entry](kindEntry, 1, n), Task: w.task.ID, At: now, By: w.user}})
	if err != nil {
		return err
	}
	w.task = next
	w.added["task_history"]++
	entry := usage.Entry{ID: uid[id.Request](kindEntry, 2, n), Org: w.org, User: w.user, At: now, Model: "m", Provider: "p", Tokens: chat.Usage{Input: 1, Output: 1}, Provenance: chat.Provider, Outcome: chat.Completed}
	if err := w.db.Usage().Ledger().Settle(ctx, w.org, entry); err != nil {
		return err
	}
	w.added["usage_entries"]++
	if err := w.db.Atomic(ctx, func(r ports.Records) error {
		return must.ErrorOf(r.Storage().Changes().Append(ctx, w.org, object.NewAccessChange(object.Audience{Everyone: true}, w.user, now)))
	}); err != nil {
		return err
	}
	w.added["changes"]++
	const batch = 10
	if n%3 > 0 || w.oldest < batch {
		return nil
	}
	w.oldest -= batch
	if _, err := w.db.Work().TaskHistory().Remove(ctx, w.org, id.Task(w.org), batch); err != nil {
		return err
	}
	w.added["task_history"] -= batch
	return nil
}

func TestPartitioningRestartsAfterAMigration(t *testing.T) {
	db := opened(t, migratedPostgres(t))
	newActiveMember(t, db, 1)
	limited, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	must.FailIs(t, db.Partition(limited, func(string, int64, bool) { interrupt() }), context.Canceled)
	run(t, db, "CREATE INDEX usage_entries_added ON usage_entries (org_id, outcome)")
	run(t, db, "ALTER TABLE usage_entries ALTER searches SET DEFAULT 7, ADD CONSTRAINT usage_entries_checked CHECK (input >= 0)")
	partitioned(t, db)
	if !value[bool](t, db.pools[0], "SELECT to_regclass('usage_entries_added') IS NOT NULL AND EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'usage_entries_checked' AND conrelid = 'usage_entries'::regclass)"+
		" AND EXISTS (SELECT 1 FROM pg_attrdef WHERE adrelid = 'usage_entries'::regclass AND pg_get_expr(adbin, adrelid) = '7')") {
		t.Error("the partitioned table lacks a change of the migration")
	}
}

func TestPartitioningWaitsForALock(t *testing.T) {
	url := migratedPostgres(t)
	db := opened(t, url)
	run(t, db, "INSERT INTO usage_entries (org_id, id, user_id, at, day, model, provider, input, output, cache_read, cache_made, searches, provenance, outcome) "+
		"SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1, repeat('m', 100), 'p', 1, 1, 0, 0, 0, 'x', 'completed' FROM generate_series(1, 10000)")
	run(t, db, stopAutovacuums)
	released := make(chan error, 1)
	lock := sync.OnceFunc(func() {
		tx, err := opened(t, url).pools[0].BeginTx(t.Context(), nil)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), "LOCK TABLE usage_entries_partitioned IN SHARE MODE")
		}
		if err != nil {
			t.Error(err)
			released <- err
			return
		}
		go func() {
			const waits = "EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
			awaitTrue(t, url, "SELECT "+waits)
			awaitTrue(t, url, "SELECT NOT "+waits)
			released <- tx.Rollback()
		}()
	})
	must.NoError(t, db.Partition(t.Context(), func(string, int64, bool) { lock() }))
	must.Succeed(t, <-released)
}

// TestPartitioningUnderLoad interrupts the partitioning later each time, while writers use prepared statements.
func TestPartitioningUnderLoad(t *testing.T) {
	url := migratedPostgres(t)
	db := opened(t, url)
	writers := []*activeMember{newActiveMember(t, db, 1), newActiveMember(t, db, 2), newActiveMember(t, opened(t, url), 3)}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var wrote atomic.Int64
	for i, w := range writers {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += len(writers) {
				if err := w.write(t.Context(), n); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				wrote.Add(1)
			}
		})
	}
	for interruption := range int64(10) {
		limited, interrupt := context.WithCancel(t.Context())
		last := wrote.Load() + 30*interruption
		all.Go(func() {
			for wrote.Load() < last && limited.Err() == nil && !t.Failed() {
				runtime.Gosched()
			}
			interrupt()
		})
		if err := db.Partition(limited, func(string, int64, bool) {}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		interrupt()
	}
	partitioned(t, db)
	stop()
	all.Wait()
	for _, w := range writers {
		for table, want := range w.added {
			if n := value[int64](t, db.pools[0], "SELECT COUNT(*) FROM "+table+" WHERE org_id = $1", string(w.org)); n != want {
				t.Errorf("%s has %d rows of %s, want %d", table, n, w.org, want)
			}
		}
	}
	must.Is(t, "", value[string](t, db.pools[0], "SELECT COALESCE(string_agg(relname, ' '), '') FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ~ '_(un)?partitioned'"))
}

func TestTransferBetweenPartitionedTables(t *testing.T) {
	from, to := migratedPostgres(t), migratedPostgres(t)
	fill(t, from, 20)
	want := digestsOf(t, from)
	for _, url := range []string{from, to} {
		db := opened(t, url)
		partitioned(t, db)
		_ = db.Close() // the target of a transfer has no servers
	}
	source := must.Do(OpenSource(t.Context(), from)).Or(t)
	awaitTrue(t, from, "SELECT COUNT(*) = 3 FROM pg_locks WHERE mode = 'AccessShareLock' AND relation = ANY ('{usage_entries,task_history,changes}'::regclass[])")
	must.NoError(t, source.Close())
	must.NoError(t, transfer(t.Context(), from, to, ignoreProgress))
	checkDigests(t, want, to)
}
