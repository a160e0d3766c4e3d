package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"modernc.org/sqlite"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/ports"
	"collab/test/must"
)

// during is what SQLite's function of this name calls.
var during func(n int64)

func init() {
	sqlite.MustRegisterScalarFunction("during", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		during(args[0].(int64))
		return int64(1), nil
	})
}

// endless is a query that ends in an hour or so, unless it is interrupted.
const endless = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 10000000000 AND during(n)) SELECT MAX(n) FROM s"

func TestStatementsEndWithTheirContext(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	for name, run := range map[string]func(ctx context.Context) error{
		"a list": func(ctx context.Context) error {
			return eachRow(ctx, db.read, "Number", sharedSQL(endless), []any{new(int64)}, func() error { return nil })
		},
		"a record": func(ctx context.Context) error {
			return must.ErrorOf(oneRow(ctx, db.read, "Number", sharedSQL(endless), new(int64)))
		},
		"a record of the writer's": func(ctx context.Context) error {
			return must.ErrorOf(oneRow(ctx, db.write, "Number", sharedSQL(endless), new(int64)))
		},
		"a change": func(ctx context.Context) error {
			return must.ErrorOf(exec(ctx, db.write, "Message", sharedSQL("INSERT INTO inbox (source, message, noted_at) "+strings.Replace(endless, "MAX(n)", "'s', 'm', MAX(n)", 1))))
		},
		"a change in a transaction": func(ctx context.Context) error {
			return db.Atomic(ctx, func(r ports.Records) error {
				if err := r.Journal().Inbox().Accept(ctx, "s", "undone", time.UnixMilli(1)); err != nil {
					return err
				}
				return must.ErrorOf(exec(ctx, r.(*conn).write, "Message", sharedSQL("UPDATE inbox SET noted_at = ("+endless+")")))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			during = func(n int64) {
				if n == 1000 {
					end()
				}
			}
			must.FailIs(t, run(ctx), context.Canceled)
			// The connection can be used again, and nothing of the statement stayed.
			must.NoError(t, db.Journal().Inbox().Accept(t.Context(), "s", name, time.UnixMilli(1)))
			must.Is(t, 0, must.Do(inboxTable.on(db.read).filter("message IN ('m', 'undone')").count(t.Context())).Or(t))
		})
	}
}

func TestTransactionsOnSQLiteStartNoGoroutines(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	started := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by database/sql.(*DB).beginDC")
	}
	must.Wait(t, "those of migrations have ended", func() bool { return started() == 0 })
	must.NoError(t, db.Atomic(t.Context(), func(ports.Records) error {
		must.Is(t, 0, started())
		return nil
	}))
}

func TestWaitingForAConnectionEndsWithTheContext(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	for name, pool := range map[string]*gorm.DB{"the writer": db.write, "a reader": db.read} {
		t.Run(name, func(t *testing.T) {
			of := pool.ConnPool.(interface {
				Stats() sql.DBStats
				Conn(context.Context) (*sql.Conn, error)
			})
			for range of.Stats().MaxOpenConnections {
				c := must.Do(of.Conn(t.Context())).Or(t)
				defer c.Close()
			}
			ctx, end := context.WithCancel(t.Context())
			before := of.Stats().WaitCount
			defer end()
			ended := make(chan error, 1)
			go func() { ended <- must.ErrorOf(oneRow(ctx, pool, "Number", sharedSQL("SELECT 1"), new(int64))) }()
			must.Wait(t, "the query waits", func() bool { return of.Stats().WaitCount > before })
			end()
			must.FailIs(t, <-ended, context.Canceled)
		})
	}
}

// awaitWaiting returns when n transactions wait for the writer.
func awaitWaiting(t *testing.T, db *DB, n int) {
	t.Helper()
	must.Wait(t, fmt.Sprintf("%d transactions wait", n), func() bool {
		db.queue.mu.Lock()
		defer db.queue.mu.Unlock()
		return len(db.queue.waiting) >= n
	})
}

// synchronous returns SQLite's setting of this name: 2 where a commit waits for the disk, 1 where
// only a checkpoint does.
func synchronous(t *testing.T, c *conn) (level int64) {
	t.Helper()
	must.Succeed(t, getRow(t.Context(), c.write, "Level", sharedSQL("PRAGMA synchronous"), &level))
	return level
}

// rollBack rolls a transaction back as SQLite does when there is no more room.
func rollBack(ctx context.Context, c *conn) error {
	return must.ErrorOf(c.write.Statement.ConnPool.ExecContext(ctx, "ROLLBACK"))
}

// queued has all calls wait, in their order, while another transaction, whose commit waits for the disk unless async is
// set, has the writer. It returns the error of each, and last of that transaction.
func queued(t *testing.T, db *DB, async bool, calls ...func() error) []error {
	t.Helper()
	errs := make([]error, len(calls), len(calls)+1)
	var all sync.WaitGroup
	again := false
	err := db.transact(t.Context(), async, func(*conn) error {
		if again {
			return nil
		}
		again = true
		for i, call := range calls {
			all.Go(func() { errs[i] = call() })
			awaitWaiting(t, db, i+1)
		}
		return nil
	})
	all.Wait()
	return append(errs, err)
}

func TestGroupTransaction(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	o, u := seeded(t, db)
	ctx := t.Context()
	type part func(context.Context, ports.Records) error
	// joined is queued for parts of one durable transaction, of which the second has a context of its own.
	joined := func(t *testing.T, second context.Context, parts ...part) []error {
		t.Helper()
		calls := make([]func() error, len(parts))
		for i, part := range parts {
			ctx := ctx
			if i == 1 {
				ctx = second
			}
			calls[i] = func() error { return db.Atomic(ctx, func(r ports.Records) error { return part(ctx, r) }) }
		}
		return queued(t, db, false, calls...)
	}
	// secondCanceled checks the errors of a queue of which the second member's context ends.
	secondCanceled := func(t *testing.T, errs []error) {
		t.Helper()
		if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || errs[2] != nil || errs[3] != nil {
			t.Errorf("the errors are %v", errs)
		}
	}
	there := func(n int) bool {
		_, err := db.Work().Tasks().Get(ctx, o, uid[id.Task](kindTask, 1, n))
		return err == nil
	}
	add := func(ns ...int) part {
		return func(ctx context.Context, r ports.Records) error {
			for _, n := range ns {
				if _, err := r.Work().Tasks().Add(ctx, o, someTask(o, u, n)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	expect := func(t *testing.T, want map[int]bool) {
		t.Helper()
		for n, want := range want {
			if there(n) != want {
				t.Errorf("task %d is there: %t", n, !want)
			}
		}
	}

	t.Run("parts are in one transaction, and one that fails is rolled back alone", func(t *testing.T) {
		stop := errors.New("stop")
		var used []*conn
		recorded := func(p part) part {
			return func(ctx context.Context, r ports.Records) error {
				used = append(used, r.(*conn))
				return p(ctx, r)
			}
		}
		errs := joined(t, ctx,
			recorded(add(1)), recorded(add(2, 1)),
			recorded(func(ctx context.Context, r ports.Records) error { return errors.Join(add(3)(ctx, r), stop) }),
			recorded(add(4)),
			recorded(func(ctx context.Context, r ports.Records) error {
				return must.ErrorOf(r.Work().Tasks().Get(ctx, o, uid[id.Task](kindTask, 1, 4)))
			}))
		if errs[0] != nil || !fault.Is(errs[1], fault.Conflict) || !errors.Is(errs[2], stop) || errs[3] != nil || errs[4] != nil || errs[5] != nil {
			t.Errorf("the errors are %v", errs)
		}
		if used[0].write != used[1].write || used[3].write != used[4].write {
			t.Error("there are several transactions")
		}
		expect(t, map[int]bool{1: true, 2: false, 3: false, 4: true})
	})
	t.Run("a member that failed reads what an earlier one changed", func(t *testing.T) {
		read := make(chan bool, 1)
		run := func(p part) error { return db.Atomic(ctx, func(r ports.Records) error { return p(ctx, r) }) }
		errs := queued(t, db, false,
			func() error { return run(add(61)) },
			func() error {
				err := run(add(61))
				read <- there(61)
				return err
			},
			func() error {
				return run(func(context.Context, ports.Records) error {
					if !<-read {
						t.Error("the change is not committed")
					}
					return nil
				})
			})
		if errs[0] != nil || !fault.Is(errs[1], fault.Conflict) || errs[2] != nil || errs[3] != nil {
			t.Errorf("the errors are %v", errs)
		}
	})
	t.Run("a member whose goroutine ends is rolled back, and the others go on", func(t *testing.T) {
		errs := joined(t, ctx,
			add(11),
			func(ctx context.Context, r ports.Records) error {
				must.Succeed(t, add(12)(ctx, r))
				runtime.Goexit()
				return nil
			},
			add(13))
		if errs[0] != nil || errs[2] != nil || errs[3] != nil {
			t.Errorf("the errors are %v", errs)
		}
		expect(t, map[int]bool{11: true, 12: false, 13: true})
	})
	t.Run("when SQLite rolls back a transaction, all but the cause run again", func(t *testing.T) {
		errs := joined(t, ctx,
			add(21),
			func(ctx context.Context, r ports.Records) error { return rollBack(ctx, r.(*conn)) },
			add(23), add(24))
		if errs[0] != nil || errs[1] == nil || errs[2] != nil || errs[3] != nil || errs[4] != nil {
			t.Errorf("the errors are %v", errs)
		}
		expect(t, map[int]bool{21: true, 23: true, 24: true})
	})
	t.Run("a reservation that was rolled back and then has no room grants nothing", func(t *testing.T) {
		var granted [2]int64
		reserve := func(i int, n quota.Need) func() error {
			l := quota.Lease{ID: uid[id.Request](kindEntry, 1, i), Org: o, User: u, Day: "2026-01-02"}
			return func() (err error) {
				granted[i], err = db.Usage().Quotas().ReserveAt(ctx, 0, l, 100, n)
				return err
			}
		}
		errs := queued(t, db, true,
			reserve(0, quota.Need{Input: 20, Output: 55}),
			func() error { return db.transact(ctx, true, func(c *conn) error { return rollBack(ctx, c) }) },
			reserve(1, quota.Need{Input: 50, Output: 50}))
		if errs[0] != nil || errs[1] == nil || errs[2] != nil || granted != [2]int64{0, 100} {
			t.Errorf("granted are %v, and the errors %v", granted, errs)
		}
	})
	t.Run("a cancelled member in the queue is not run, and the others are", func(t *testing.T) {
		stopped, stop := context.WithCancel(ctx)
		errs := joined(t, stopped,
			func(ctx context.Context, r ports.Records) error { stop(); return add(31)(ctx, r) },
			add(32), add(33))
		secondCanceled(t, errs)
		expect(t, map[int]bool{31: true, 32: false, 33: true})
	})
	t.Run("a context that ends in the middle undoes its part and no other", func(t *testing.T) {
		stopped, stop := context.WithCancel(ctx)
		errs := joined(t, stopped,
			add(41),
			func(ctx context.Context, r ports.Records) error {
				err := add(42)(ctx, r)
				stop()
				return err
			},
			add(43))
		secondCanceled(t, errs)
		expect(t, map[int]bool{41: true, 42: false, 43: true})
	})
	t.Run("a statement that its context interrupts fails no other member", func(t *testing.T) {
		stopped, stop := context.WithCancel(ctx)
		last := int64(0)
		errs := joined(t, stopped,
			add(51),
			func(ctx context.Context, r ports.Records) error {
				during = func(n int64) {
					if last = n; n == 1000 {
						stop()
					}
				}
				_, err := exec(ctx, r.(*conn).write, "Task", tenantSQL(o, "UPDATE tasks SET title = ("+endless+") WHERE org_id = @org AND id = ?",
					string(uid[id.Task](kindTask, 1, 51))))
				return err
			},
			add(53))
		secondCanceled(t, errs)
		if last == 0 {
			t.Error("the statement did not run")
		}
		expect(t, map[int]bool{51: true, 53: true})
	})
	t.Run("a group transaction has a bounded number of members, those that fail included", func(t *testing.T) {
		stop := errors.New("stop")
		parts := make([]part, 2*maxMembers)
		used := map[any]int{}
		fails := func(i int) bool { return i%2 == 1 }
		for i := range parts {
			parts[i] = func(ctx context.Context, r ports.Records) error {
				used[r.(*conn).write]++
				if fails(i) {
					return stop
				}
				return add(100+i)(ctx, r)
			}
		}
		for i, err := range joined(t, ctx, parts...) {
			if i < len(parts) && (fails(i) != errors.Is(err, stop) || fails(i) == there(100+i)) || err != nil && !errors.Is(err, stop) {
				t.Errorf("part %d: %v", i, err)
			}
		}
		for _, n := range used {
			if n > maxMembers {
				t.Errorf("%d members", n)
			}
		}
	})
	const async, lasting = 1, 2 // levels of synchronous
	// attempted has parts wait, in their order, while another part has the writer. It returns the level
	// and the transaction of each, and last of that other one.
	attempted := func(t *testing.T, first bool, asynchronous []bool, fails ...int) (levels []int64, transactions []any) {
		t.Helper()
		n := len(asynchronous)
		levels, transactions = make([]int64, n+1), make([]any, n+1)
		stop := errors.New("stop")
		attempt := func(i int, asynchronous bool, meanwhile func()) {
			if err := db.transact(ctx, asynchronous, func(c *conn) (err error) {
				levels[i], transactions[i] = synchronous(t, c), c.write
				meanwhile()
				if slices.Contains(fails, i) {
					err = stop
				}
				return err
			}); err != nil && err != stop {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		attempt(n, first, func() {
			for i, asynchronous := range asynchronous {
				all.Go(func() { attempt(i, asynchronous, func() {}) })
				awaitWaiting(t, db, i+1)
			}
		})
		all.Wait()
		return levels, transactions
	}
	t.Run("a part that waits for the disk is in no asynchronous transaction", func(t *testing.T) {
		levels, transactions := attempted(t, true, []bool{true, true, false, true, true, false}, 2, 4)
		must.Equal(t, []int64{async, async, lasting, async, async, lasting, async}, levels)
		if transactions[0] != transactions[1] || transactions[3] != transactions[4] {
			t.Error("asynchronous parts share no transaction")
		}
		must.Is(t, lasting, synchronous(t, &db.conn))
	})
	t.Run("an asynchronous part waits for no transaction that waits for the disk", func(t *testing.T) {
		levels, transactions := attempted(t, false, []bool{false, true, false, true})
		must.Equal(t, []int64{lasting, async, lasting, async, lasting}, levels)
		if transactions[0] != transactions[4] || transactions[2] != transactions[4] || transactions[1] != transactions[3] {
			t.Error("parts of one kind share no transaction")
		}
	})
	t.Run("a part waits for the disk if it has to, in any order", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 50 {
					asynchronous := (i+n)%3 != 0
					err := db.transact(ctx, asynchronous, func(c *conn) error {
						if level := synchronous(t, c); level != lasting && !asynchronous {
							t.Errorf("the level is %d", level)
						}
						if n%7 == 0 {
							return errors.New("stop")
						}
						return nil
					})
					if (err != nil) != (n%7 == 0) {
						t.Error(err)
					}
					must.Is(t, lasting, synchronous(t, &db.conn))
				}
			})
		}
		all.Wait()
	})
	t.Run("cancelled members leave no other waiting", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for n := range 30 {
					ctx, cancel := context.WithCancel(ctx)
					if (i+n)%3 == 0 {
						go cancel()
					}
					_, err := db.Work().Tasks().Add(ctx, o, someTask(o, u, 1000+100*i+n))
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					if (err == nil) != there(1000+100*i+n) {
						t.Errorf("task %d: %v", n, err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		if db.queue.busy || len(db.queue.waiting) > 0 || db.pools[0].Stats().InUse > 0 {
			t.Errorf("the writer is taken: %t, %d wait", db.queue.busy, len(db.queue.waiting))
		}
	})
	t.Run("a closed database is an error for all members", func(t *testing.T) {
		closed := migrated(t, databases[0].url(t))
		must.NoError(t, closed.Close())
		for range 2 {
			if err := closed.Atomic(ctx, func(ports.Records) error { return nil }); err == nil || strings.Contains(err.Error(), "panic") {
				t.Errorf("the error is %v", err)
			}
		}
	})
}
