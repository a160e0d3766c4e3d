package gormdb

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

// awaitWaiting returns when so many writes wait for the writer.
func awaitWaiting(db *DB, n int) {
	for waiting := 0; waiting < n; runtime.Gosched() {
		db.group.mu.Lock()
		waiting = len(db.group.waiting)
		db.group.mu.Unlock()
	}
}

func TestGroups(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	o, u := seeded(t, db)
	ctx := t.Context()
	type write func(context.Context, *conn) error

	// grouped has all writes wait, in their order, while the writer is another's,
	// and returns what became of each.
	grouped := func(t *testing.T, contexts []context.Context, writes []write) []error {
		t.Helper()
		errs := make([]error, len(writes))
		var all sync.WaitGroup
		if err := db.Atomic(ctx, func(ports.Records) error {
			for i := range writes {
				all.Go(func() { errs[i] = db.together(contexts[i], writes[i]) })
				awaitWaiting(db, i+1)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		return errs
	}
	same := func(n int) []context.Context {
		all := make([]context.Context, n)
		for i := range all {
			all[i] = ctx
		}
		return all
	}
	there := func(n int) bool {
		_, err := db.Work().Tasks().Get(ctx, o, uid[id.Task](kindTask, 1, n))
		return err == nil
	}

	t.Run("who waits together is in one transaction, and a conflict is one's own", func(t *testing.T) {
		var seen []*conn
		add := func(n int) write {
			return func(ctx context.Context, c *conn) error {
				seen = append(seen, c)
				added, err := (tasks{c}).add(ctx, o, someTask(o, u, n))
				if err == nil && added.SortOrder != int64(n-1) {
					t.Errorf("task %d has place %d", n, added.SortOrder)
				}
				return err
			}
		}
		errs := grouped(t, same(4), []write{add(1), add(2), add(1), add(3)})
		if len(seen) != 4 || seen[0] != seen[1] || seen[0] != seen[2] || seen[0] != seen[3] {
			t.Errorf("the transactions are %p", seen)
		}
		for i, err := range errs {
			if (i == 2) != fault.Is(err, fault.Conflict) || i != 2 && err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
		for n := 1; n <= 3; n++ {
			if !there(n) {
				t.Errorf("task %d is not there", n)
			}
		}
	})
	t.Run("an error of the database undoes all of them and is everybody's", func(t *testing.T) {
		broken := errors.New("broken")
		errs := grouped(t, same(3), []write{
			func(ctx context.Context, c *conn) error {
				_, err := (tasks{c}).add(ctx, o, someTask(o, u, 11))
				return err
			},
			func(context.Context, *conn) error { return broken },
			func(context.Context, *conn) error { t.Error("run after the error"); return nil },
		})
		for i, err := range errs {
			if !errors.Is(err, broken) {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if there(11) {
			t.Error("the first write is there")
		}
	})
	t.Run("who stops waiting is not run, and the others are", func(t *testing.T) {
		stopped, stop := context.WithCancel(ctx)
		contexts := same(3)
		contexts[1] = stopped
		add := func(n int) write {
			return func(ctx context.Context, c *conn) error {
				_, err := (tasks{c}).add(ctx, o, someTask(o, u, n))
				return err
			}
		}
		got := grouped(t, contexts, []write{
			func(ctx context.Context, c *conn) error { stop(); return add(21)(ctx, c) },
			func(context.Context, *conn) error { t.Error("run although it was stopped"); return nil },
			add(23),
		})
		if got[0] != nil || !errors.Is(got[1], context.Canceled) || got[2] != nil || !there(21) || !there(23) {
			t.Errorf("the errors are %v", got)
		}
	})
	t.Run("a write whose context ends while the writer is another's comes back at once", func(t *testing.T) {
		stopped, stop := context.WithCancel(ctx)
		if err := db.Atomic(ctx, func(ports.Records) error {
			stop()
			_, err := db.Work().Tasks().Add(stopped, o, someTask(o, u, 31))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if there(31) {
			t.Error("it was written")
		}
	})
	t.Run("a closed database says so to all who wait", func(t *testing.T) {
		closed := migrated(t, databases[0].url(t))
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := closed.Work().Tasks().Add(ctx, o, someTask(o, u, 1)); err == nil {
			t.Error("no error")
		}
	})
}
