package gormdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// TestSegmentsCoverThePeriod checks that an instant counts once in the period, and not outside of it.
func TestSegmentsCoverThePeriod(t *testing.T) {
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SampledFrom([][]time.Duration{{day}, userUnits, modelUnits}).Draw(t, "units")
		instants := rapid.Custom(func(t *rapid.T) time.Time {
			at := start.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "halves")) * units[0] / 2)
			for _, unit := range units[1:] {
				at = at.Add(time.Duration(rapid.Int64Range(-2, 2).Draw(t, "more halves")) * unit / 2)
			}
			shortest := units[len(units)-1].Milliseconds()
			beside := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64Range(-shortest, shortest)).Draw(t, "beside")
			return at.Add(time.Duration(beside) * time.Millisecond)
		})
		p := usage.Period{Start: instants.Draw(t, "start"), End: instants.Draw(t, "end")}
		segments := segmentsOf(p, false, units)
		between := func(at, from, until time.Time) bool { return !at.Before(from) && at.Before(until) }
		for range 8 {
			at := instants.Draw(t, "at")
			n := 0
			for _, s := range segments {
				switch in := between(at, s.from, s.until); {
				case in && s.subtract:
					n--
				case in:
					n++
				}
			}
			if want := between(at, p.Start, p.End); n > 1 || n < 0 || (n == 1) != want {
				t.Fatalf("%v counts %d times in %v, is in %v: %t", at, n, segments, p, want)
			}
		}
		number := map[time.Duration]int{}
		for _, s := range segments {
			number[s.unit]++
			surrounding := units[len(units)-1] // the unit around the segment, which covers at most half of it
			if i := slices.Index(units, s.unit); i >= 0 {
				if !s.from.Equal(s.from.Truncate(s.unit)) || !s.until.Equal(s.until.Truncate(s.unit)) {
					t.Fatalf("units of %v are from %v until %v", s.unit, s.from, s.until)
				}
				surrounding = units[max(0, i-1)]
			}
			long, all := s.until.Sub(s.from), s.until.Add(-1).Truncate(surrounding).Sub(s.from.Truncate(surrounding))
			if long <= 0 || s.unit != units[0] && (long > surrounding/2+s.unit/2 || all != 0) || number[s.unit] > 2 || number[units[0]] > 1 {
				t.Fatalf("one of %v is from %v until %v, of %v", s.unit, s.from, s.until, segments)
			}
		}
	})
}

func TestSweepDeletesInBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		today := calendar.DayOf(time.UnixMilli(1))
		q := db.Usage().Quotas()
		for n := range 2*sweptLeases + 50 {
			l := quota.Lease{ID: uid[id.Request](kindEntry, 1, n), Org: o, User: u, Day: today, ExpiresAt: time.UnixMilli(int64(1 + n%3))}
			must.Do(q.ReserveAt(t.Context(), 0, l, 1_000_000, quota.Need{Output: 3})).Or(t)
		}
		r := record(t, db)
		sent := r.statements(t, func() error { return q.Sweep(t.Context(), time.UnixMilli(10)) })
		must.Is(t, 3, countPrefix(sent, "DELETE FROM quota_leases"))
		must.Is(t, (quota.Account{}), must.Do(q.Account(t.Context(), o, u, today)).Or(t))
	})
}

// TestSweepKeepsExtendedLeases extends and settles leases after they were found expired and before
// they are deleted.
func TestSweepKeepsExtendedLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		ctx := t.Context()
		q := db.Usage().Quotas()
		var leases []quota.Lease
		var found []leaseRow
		for n := range 3 {
			l := quota.Lease{ID: uid[id.Request](kindEntry, 1, n), Org: o, User: u, Day: "2026-01-02", ExpiresAt: time.UnixMilli(1)}
			must.Do(q.ReserveAt(ctx, 0, l, 1000, quota.Need{Output: int64(1 + 9*n)})).Or(t)
			leases, found = append(leases, l), append(found, leaseRow{OrgID: o, UserID: u, Day: millis(l.Day), ID: l.ID})
		}
		these := records(found, leaseKeys)
		must.NoError(t, errors.Join(q.Extend(ctx, leases[1:2], time.UnixMilli(11)), settleLease(ctx, db, leases[2], 5)))
		for range 2 {
			must.NoError(t, db.transact(ctx, false, func(c *conn) error { return quotas{c}.sweep(ctx, these, time.UnixMilli(10)) }))
			must.Is(t, (quota.Account{Used: 5, Reserved: 10}), must.Do(q.Account(ctx, o, u, "2026-01-02")).Or(t))
		}
	})
}

// TestOnlyReservationsCommitAsynchronously has triggers that record the setting at the end of transactions.
func TestOnlyReservationsCommitAsynchronously(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		ctx := t.Context()
		setting := "SELECT CASE synchronous WHEN 2 THEN 'on' ELSE 'off' END FROM pragma_synchronous"
		statements := []string{"CREATE TABLE noted (setting TEXT)"}
		if db.dialect == onPostgres {
			statements = append(statements, "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "+
				"$$ BEGIN INSERT INTO noted SELECT current_setting('synchronous_commit'); RETURN NULL; END $$")
		}
		for _, table := range []string{"quota_leases", "usage_entries", "tasks"} {
			if db.dialect == onPostgres {
				statements = append(statements, "CREATE CONSTRAINT TRIGGER "+table+"_noted AFTER INSERT OR DELETE ON "+table+
					" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()")
				continue
			}
			for _, change := range []string{"INSERT", "DELETE"} {
				statements = append(statements, "CREATE TRIGGER "+table+change+" AFTER "+change+" ON "+table+" BEGIN INSERT INTO noted "+setting+"; END")
			}
		}
		for _, s := range statements {
			run(t, db, s)
		}
		synchronous := "on"
		if db.dialect == onPostgres {
			// All statements use one connection, so that a setting that is not reset is seen.
			db.pools[0].SetMaxOpenConns(1)
			synchronous = "local"
			run(t, db, "SET synchronous_commit = 'local'")
		}
		lease := func(n int) quota.Lease {
			return quota.Lease{ID: uid[id.Request](kindEntry, 1, n), Org: o, User: u, Day: "2026-01-02", ExpiresAt: time.UnixMilli(1)}
		}
		reserve := func(r ports.Records, n int) error {
			return must.ErrorOf(r.Usage().Quotas().ReserveAt(ctx, 0, lease(n), 1000, quota.Need{Output: 5}))
		}
		for _, c := range []struct {
			about string
			run   func() error
			want  string
		}{
			{"a reservation", func() error { return reserve(db, 1) }, "off"},
			{"a task", func() error { _, err := db.Work().Tasks().Add(ctx, o, someTask(o, u, 1)); return err }, synchronous},
			{"another reservation", func() error { return reserve(db, 2) }, "off"},
			{"a settlement", func() error { return settleLease(ctx, db, lease(1), 5) }, synchronous},
			{"a reservation that is part of more", func() error { return db.Atomic(ctx, func(r ports.Records) error { return reserve(r, 3) }) }, synchronous},
			{"a third reservation", func() error { return reserve(db, 4) }, "off"},
			{"a sweep", func() error { return db.Usage().Quotas().Sweep(ctx, time.UnixMilli(2)) }, synchronous},
		} {
			t.Run(c.about, func(t *testing.T) {
				must.NoError(t, c.run())
				var least, most string
				if err := db.pools[0].QueryRowContext(ctx, "SELECT MIN(setting), MAX(setting) FROM noted").Scan(&least, &most); err != nil || least != c.want || most != c.want {
					t.Errorf("the setting is %s to %s instead of %s, error %v", least, most, c.want, err)
				}
				run(t, db, "DELETE FROM noted")
			})
		}
	})
}

// settleLease settles a lease with the number of used tokens.
func settleLease(ctx context.Context, db *DB, l quota.Lease, used int64) error {
	return db.Usage().Ledger().Settle(ctx, l.Org, usage.Entry{ID: l.ID, Org: l.Org, User: l.User, At: l.Day.Start(), Tokens: chat.Usage{Output: used}})
}

// TestSettlingLocksRowsInOneOrder has a settlement wait for the first row of each table that it changes. It must not
// have locked another row of the table, nor a lease if it waits for an account: it would deadlock with settlements
// and sweeps of the same rows, which does not show in their results, as they are run again.
func TestSettlingLocksRowsInOneOrder(t *testing.T) {
	db, ctx := opened(t, migratedPostgres(t)), t.Context()
	o, _ := seeded(t, db)
	const users = 200
	round := 0
	reserved := func() []usage.Entry {
		round++
		leases, entries := make([]quota.Lease, users), make([]usage.Entry, users)
		for i := range users {
			l := quota.Lease{
				ID: uid[id.Request](kindEntry, round, i), Org: o, User: uid[id.User](kindUser, 1, users-i), Day: "2026-01-02", Tokens: 1,
			}
			leases[i], entries[i] = l, usage.Entry{ID: l.ID, Org: o, User: l.User, At: l.Day.Start(), Model: fmt.Sprint("model ", (users-i)%7)}
		}
		must.Do(db.Usage().Quotas().ReserveAllAt(ctx, 0, leases, 1_000_000)).Or(t)
		return entries
	}
	must.NoError(t, db.Usage().Ledger().Settle(ctx, o, reserved()...))
	for _, unlocked := range [][]*tenantTable{
		{accountTable, leaseTable}, {leaseTable}, {userModelTable}, {userSumTable}, {modelSumTable},
	} {
		first := unlocked[0]
		t.Run(first.name, func(t *testing.T) {
			entries := reserved()
			analyze(t, db)
			settled := make(chan error, 1)
			err := db.transact(ctx, false, func(c *conn) error {
				number := func(query string) (n int) {
					must.NoError(t, getRow(ctx, c.write, "Number", crossTenantSQL(crossTenantOverview, query), &n))
					return n
				}
				number("SELECT 1 FROM " + first.name + " ORDER BY " + first.keyNames() + " LIMIT 1" + onPostgres.forUpdate())
				go func() { settled <- db.Usage().Ledger().Settle(ctx, o, entries...) }()
				if err := awaitBlocked(t, db, settled); err != nil {
					return err
				}
				for _, table := range unlocked {
					free := number("SELECT COUNT(*) FROM (SELECT FROM " + table.name + " FOR NO KEY UPDATE SKIP LOCKED) AS free")
					if all := number("SELECT COUNT(*) FROM " + table.name); free != all {
						t.Errorf("%d of %d rows of %s are locked", all-free, all, table.name)
					}
				}
				return nil
			})
			must.NoError(t, errors.Join(err, <-settled))
		})
	}
}

func TestReservingSharesATransaction(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	o, u := seeded(t, db)
	var granted [3]int64
	reserve := func(i int) func() error {
		l := quota.Lease{ID: uid[id.Request](kindEntry, 1, i), Org: o, User: u, Day: "2026-01-02"}
		return func() (err error) {
			granted[i], err = db.Usage().Quotas().ReserveAt(t.Context(), 0, l, 100, quota.Need{Input: 20, Output: 55})
			return err
		}
	}
	if err := errors.Join(queued(t, db, false, reserve(0), reserve(1), reserve(2))...); err != nil || granted != [3]int64{75, 25, 0} {
		t.Errorf("granted were %v, error %v", granted, err)
	}
}

// TestEraseRemovesLeases erases an organisation while its members settle.
func TestEraseRemovesLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, _ := seeded(t, db)
		ctx := t.Context()
		q := db.Usage().Quotas()
		lease := func(n int) quota.Lease {
			return quota.Lease{ID: uid[id.Request](kindEntry, 1, n), Org: o, User: uid[id.User](kindUser, 1, n%4), Day: "2026-01-02"}
		}
		for n := range 40 {
			must.Do(q.ReserveAt(ctx, 0, lease(n), 1000, quota.Need{Output: 1})).Or(t)
		}
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { must.Succeed(t, settleLease(ctx, db, lease(n), 1)) })
		}
		all.Go(func() {
			must.Succeed(t, must.ErrorOf(db.Directory().Organisations().Erase(ctx, o, time.UnixMilli(5), 1000)))
		})
		all.Wait()
		must.Is(t, 0, value[int](t, db.pools[0], "SELECT COUNT(*) FROM quota_leases"))
	})
}

// ledgerSums returns the statements that insert the sums of the ledger.
func ledgerSums(d dialect) []string {
	last := "substr(user_id, -1)"
	if d == onPostgres {
		last = "right(user_id::text, 1)"
	}
	const sums = "SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY "
	statements := []string{"INSERT INTO usage_user_models SELECT org_id, user_id, day, model, " + sums + "org_id, user_id, day, model"}
	since := func(unit time.Duration) string {
		first := time.UnixMilli(0).Truncate(unit).UnixMilli()
		return fmt.Sprintf("at - (at - %d) %% %d", first, unit.Milliseconds())
	}
	for _, unit := range userUnits {
		statements = append(statements, fmt.Sprintf("INSERT INTO usage_users SELECT org_id, %d, %s, user_id, %s1, 3, 4", unit.Milliseconds(), since(unit), sums))
	}
	for _, unit := range modelUnits {
		statements = append(statements, fmt.Sprintf("INSERT INTO usage_models SELECT org_id, %d, %s, model, %s, %s1, 3, 4, 5", unit.Milliseconds(), since(unit), last, sums))
	}
	return statements
}
