package gormdb

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/postgres"
)

// onEach runs a benchmark on a database of each kind, which waits for the disk.
func onEach(b *testing.B, bench func(b *testing.B, db *DB)) {
	b.Run("SQLite", func(b *testing.B) {
		bench(b, migrated(b, "sqlite://"+filepath.Join(b.TempDir(), "collab.db")))
	})
	b.Run("Postgres", func(b *testing.B) {
		server, err := postgres.Start(b.Context(), postgres.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := server.Close(); err != nil {
				b.Error(err)
			}
		})
		url, err := server.Database(b.Context(), "bench")
		if err != nil {
			b.Fatal(err)
		}
		bench(b, migrated(b, url))
	})
}

// BenchmarkSummary measures the summaries of a month in which 1,000 members of
// one organisation made 1,000,000 requests to 5 models: of whole days, which begin
// and end in the middle of a week, from noon to noon, and from half past eight,
// where of all that a summary is made of there is about the most.
func BenchmarkSummary(b *testing.B) {
	const users, days, requests = 1000, 30, 1_000_000
	start := time.Date(2026, 6, 3, 0, 0, 0, 0, time.UTC)
	o := uid[id.Org](kindOrg, 7, 0)
	onEach(b, func(b *testing.B, db *DB) {
		ledgerOf(b, db, o, start, users, days, requests)
		whole := usage.Period{Start: start, End: start.AddDate(0, 0, days)}
		noon := usage.Period{Start: start.Add(day / 2), End: whole.End.Add(-day / 2)}
		early := usage.Period{Start: start.Add(17 * time.Hour / 2), End: whole.End.Add(-31 * time.Hour / 2)}
		for name, p := range map[string]usage.Period{"whole days": whole, "from noon to noon": noon, "from half past eight": early} {
			for of, user := range map[string]id.User{"organisation": "", "member": uid[id.User](kindUser, 7, 5)} {
				b.Run(of+" "+name, func(b *testing.B) {
					b.ReportAllocs()
					least := time.Hour
					for b.Loop() {
						began := time.Now()
						var s usage.Summary
						of := 0
						err := db.Usage().Ledger().Summary(b.Context(), o, user, p, func(sum usage.Summary) error {
							s = sum
							return nil
						}, func(usage.Part) error {
							of++
							return nil
						})
						if err != nil {
							b.Fatal(err)
						}
						if len(s.ByModel) != 5 || user == "" && (of != users || s.Requests < requests*29/30) {
							b.Fatalf("%d requests of %d models by %d users", s.Requests, len(s.ByModel), of)
						}
						least = min(least, time.Since(began))
					}
					b.ReportMetric(least.Seconds()*1000, "least-ms") // without the machine's other work
				})
			}
		}
	})
}

// ledgerOf fills a ledger, and the sums that are derived from it.
func ledgerOf(tb testing.TB, db *DB, o id.Org, start time.Time, users, days, requests int) {
	tb.Helper()
	statements := append([]string{ledgerEntries(db.dialect, o, start, users, days, requests)}, ledgerSums(db.dialect)...)
	for _, statement := range append(statements, map[dialect]string{onSQLite: "ANALYZE", onPostgres: "VACUUM ANALYZE"}[db.dialect]) {
		if _, err := db.pools[0].ExecContext(tb.Context(), statement); err != nil {
			tb.Fatalf("%v in %s", err, statement)
		}
	}
}

// ledgerEntries is the statement that makes entries that are even in time.
func ledgerEntries(d dialect, o id.Org, start time.Time, users, days, requests int) string {
	made := func(kind int, n string) string {
		if d == onPostgres {
			return fmt.Sprintf("('%08x-0007-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid", kind, n)
		}
		return fmt.Sprintf("printf('%08x-0007-7000-8000-%%012x', %s)", kind, n)
	}
	return fmt.Sprintf(`INSERT INTO usage_entries (org_id, id, user_id, at, day, model, provider, input, output, cache_read, cache_made, searches, provenance, outcome)
		SELECT '%s', %s, %s, at, at - at %% %d, 'claude-model-' || (n * 31 %% 5), 'anthropic', n %% 9000, n %% 700, 0, 0, 0, 'provider', 'completed'
		FROM (WITH RECURSIVE s(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM s WHERE n + 1 < %d) SELECT n, %d + n * %d AS at FROM s) AS x`,
		o, made(kindEntry, "n"), made(kindUser, fmt.Sprintf("n * 7919 / 5 %% %d + 1", users)), day.Milliseconds(), requests, start.UnixMilli(), int64(days)*day.Milliseconds()/int64(requests))
}

// ledgerSums are the statements that make the ledger's sums from it.
func ledgerSums(d dialect) []string {
	last := "substr(user_id, -1)"
	if d == onPostgres {
		last = "right(user_id::text, 1)"
	}
	const of = "SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY "
	statements := []string{"INSERT INTO usage_user_models SELECT org_id, user_id, day, model, " + of + "org_id, user_id, day, model"}
	since := func(unit time.Duration) string {
		first := time.UnixMilli(0).Truncate(unit).UnixMilli()
		return fmt.Sprintf("at - (at - %d) %% %d", first, unit.Milliseconds())
	}
	for _, unit := range userUnits {
		statements = append(statements, fmt.Sprintf("INSERT INTO usage_users SELECT org_id, %d, %s, user_id, %s1, 3, 4", unit.Milliseconds(), since(unit), of))
	}
	for _, unit := range modelUnits {
		statements = append(statements, fmt.Sprintf("INSERT INTO usage_models SELECT org_id, %d, %s, model, %s, %s1, 3, 4, 5", unit.Milliseconds(), since(unit), last, of))
	}
	return statements
}

// BenchmarkQuotas measures a request's way through its member's account and the
// ledger, by many at once: of one member, and of many in one organisation.
func BenchmarkQuotas(b *testing.B) {
	o := uid[id.Org](kindOrg, 7, 0)
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	onEach(b, func(b *testing.B, db *DB) {
		if _, err := db.Directory().Organisations().Upsert(b.Context(), org.Organisation{ID: o, ProviderID: "o"}, func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
			b.Fatal(err)
		}
		var made atomic.Int64
		next := func(users int) quota.Lease {
			n := int(made.Add(1))
			return quota.Lease{ID: uid[id.Request](kindEntry, 7, n), Org: o, User: uid[id.User](kindUser, 7, n%users), Day: quota.DayOf(at), ExpiresAt: at.Add(time.Hour)}
		}
		reserve := func(ctx context.Context, l quota.Lease) error {
			granted, err := db.Usage().Quotas().Reserve(ctx, l, 1<<50, quota.Need{Input: 100, Output: 4000})
			if err == nil && granted != 4100 {
				err = fmt.Errorf("%d were granted", granted)
			}
			return err
		}
		settle := func(ctx context.Context, l quota.Lease) error {
			e := usage.Entry{ID: l.ID, Org: o, User: l.User, At: at, Model: "claude-model", Provider: "anthropic", Tokens: chat.Usage{Input: 100, Output: 500}, Provenance: chat.Provider, Outcome: chat.Completed}
			return db.Atomic(ctx, func(r ports.Records) error {
				if err := r.Usage().Quotas().Settle(ctx, l, e.Tokens.Total()); err != nil {
					return err
				}
				return r.Usage().Ledger().Add(ctx, e)
			})
		}
		both := func(ctx context.Context, l quota.Lease) error {
			if err := reserve(ctx, l); err != nil {
				return err
			}
			return settle(ctx, l)
		}
		for _, m := range []struct {
			name  string
			users int
			fn    func(ctx context.Context, l quota.Lease) error
		}{
			{"reserve for one member", 1, reserve},
			{"reserve for many", 1000, reserve},
			{"reserve and settle for one member", 1, both},
			{"reserve and settle for many", 1000, both},
		} {
			b.Run(m.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(32)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if err := m.fn(b.Context(), next(m.users)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			})
		}
	})
}
