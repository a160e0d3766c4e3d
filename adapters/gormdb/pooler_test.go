package gormdb

import (
	"strings"
	"testing"

	"collab/test/must"
	"collab/test/postgres"
	"collab/test/race"
)

func TestStoreThroughPgBouncerOnPartitionedTables(t *testing.T) {
	race.Skip(t, "it is the same on Postgres without a pooler and partitions")
	direct := migratedPostgres(t)
	partitioned(t, opened(t, direct))
	testStore(t, opened(t, postgres.Pooled(t, direct)))
}

func TestThroughPgBouncer(t *testing.T) {
	direct := postgres.URL(t)
	pooled := postgres.Pooled(t, direct)
	unnamed := strings.Replace(pooled, "pool_mode=transaction", "", 1)

	t.Run("the parameters of sessions are Postgres' own", func(t *testing.T) {
		db := opened(t, pooled)
		for _, name := range []string{"plan_cache_mode", "idle_in_transaction_session_timeout", "synchronous_commit", "lock_timeout", "statement_timeout"} {
			for range 2 * 8 { // connections of the pooler
				if !value[bool](t, db.pools[0], "SELECT setting IS NOT DISTINCT FROM reset_val FROM pg_settings WHERE name = $1", name) {
					t.Fatalf("%s is changed", name)
				}
			}
		}
	})
	t.Run("migrations refuse the pooler, and use the address of Postgres", func(t *testing.T) {
		for _, url := range []string{pooled, unnamed} {
			if err := opened(t, url).Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "COLLAB_DATABASE_DIRECT_URL") {
				t.Errorf("the error is %v", err)
			}
		}
		db := must.Do(Open(t.Context(), Options{URL: pooled, DirectURL: direct})).Or(t)
		defer db.Close()
		must.NoError(t, db.Migrate(t.Context()))
		must.NoError(t, db.Ready(t.Context()))
	})
	t.Run("a transfer reads through the pooler, and does not write through it", func(t *testing.T) {
		from := migratedPostgres(t)
		fill(t, from, 20)
		want := digestsOf(t, from)
		if err := transfer(t.Context(), from, pooled, ignoreProgress); err == nil || !strings.Contains(err.Error(), "address of Postgres") {
			t.Errorf("the error is %v", err)
		}
		to := postgres.URL(t)
		must.NoError(t, transfer(t.Context(), postgres.Pooled(t, from), to, ignoreProgress))
		checkDigests(t, want, to)
	})
}
