package gormdb

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"

	"collab/domain/fault"
)

// maxMembers bounds the members of a group transaction, as the first ones wait for the
// last.
const maxMembers = 64

// writeQueue is the queue for SQLite's one writer. A member of a group transaction runs its
// part and hands off the writer and the transaction to the next in the queue; the last one
// commits for all. A commit waits for the disk, which takes longer than most parts, unless
// the members are asynchronous; these have their own transactions, which alternate with the
// others. With a commit for each part the creation of a task costs more processor time than on
// Postgres with the database; docs/performance.md compares the two as they are.
type writeQueue struct {
	mu      sync.Mutex
	waiting []waiter
	busy    bool // the writer is in use
	async   bool // the last transaction was asynchronous

	// commits is increased before and after each commit that is not asynchronous, and so is odd
	// during one.
	commits atomic.Uint64
}

// waiter is a member that waits for the writer.
type waiter struct {
	turn  chan *groupTransaction
	async bool
}

// groupTransaction is a transaction of several members. It is used by the member that
// has the writer until done is closed; err is then its result.
type groupTransaction struct {
	tx      *gorm.DB
	async   bool // its commit does not wait for the disk
	members int  // the number of parts that ran, of which the first is in it
	err     error
	done    chan struct{}
}

// grouped runs fn as a part of a group transaction and returns when that has committed.
// If fn fails, its part alone is rolled back, and the parts before it are committed before grouped
// returns: fn may have failed because of what they changed, and the caller reads that to try again.
func (db *DB) grouped(ctx context.Context, c *conn, fn func(*conn) error) error {
	g, err := db.queue.await(ctx, c.async)
	if err != nil {
		return err
	}
	if g == nil {
		// It is immediate, as all of the connection. All members share it, so no member's context ends it.
		// GORM's Begin would copy its session twice.
		pool, err := db.write.Statement.ConnPool.(gorm.ConnPoolBeginner).BeginTx(withAsync(context.WithoutCancel(ctx), c.async), nil)
		if err != nil {
			db.queue.pass(nil)
			return failed(ctx, err, "Record")
		}
		tx := &gorm.DB{Config: db.write.Config, Statement: &gorm.Statement{ConnPool: pool}}
		g = &groupTransaction{tx: tx, async: c.async, done: make(chan struct{})}
	}
	if err := db.runMember(ctx, g, c, fn); err != nil {
		return err
	}
	<-g.done
	return failed(ctx, g.err, "Record")
}

// runMember runs fn with the writer and passes that on, also when fn panics.
func (db *DB) runMember(ctx context.Context, g *groupTransaction, c *conn, fn func(*conn) error) error {
	done := false
	defer func() {
		if done {
			g.members++
		} else if g = g.undo(); g != nil {
			db.queue.commit(g)
			g = nil
		}
		db.queue.pass(g)
	}()
	if err := g.savepoint("SAVEPOINT part"); err != nil {
		return failed(ctx, err, "Record")
	}
	c.read, c.write = g.tx, g.tx
	err := fn(c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := g.savepoint("RELEASE part"); err != nil {
		return failed(ctx, err, "Record")
	}
	done = true
	return nil
}

// savepoint sets or releases the savepoint before a part. The first part needs none, as it
// can roll back the whole transaction.
func (g *groupTransaction) savepoint(statement string) error {
	if g.members == 0 {
		return nil
	}
	_, err := g.tx.Statement.ConnPool.ExecContext(context.Background(), statement)
	return err
}

// undo rolls back the present part and returns the transaction, or nil if all of it was
// rolled back: SQLite does that if it runs out of space, or if a statement that writes is
// interrupted.
func (g *groupTransaction) undo() *groupTransaction {
	if g.members == 0 {
		g.tx.Rollback()
		return nil
	}
	if err := g.savepoint("ROLLBACK TO part; RELEASE part"); err != nil {
		g.tx.Rollback()
		g.end(fault.Wrap(fault.Unavailable, errors.Join(errUndone, err), "The database gave up the transaction"))
		return nil
	}
	return g
}

// errUndone is the error of members whose transaction was rolled back because of another
// member's part. They run again.
var errUndone = errors.New("the transaction was undone with a part of it")

func (q *writeQueue) commit(g *groupTransaction) {
	if !g.async {
		q.commits.Add(1)
		defer q.commits.Add(1)
	}
	g.end(g.tx.Commit().Error)
}

func (g *groupTransaction) end(err error) {
	g.err = err
	close(g.done)
}

// await returns when the caller has the writer, with the group transaction that is open,
// nil if none is.
func (q *writeQueue) await(ctx context.Context, async bool) (*groupTransaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return nil, nil
	}
	turn := make(chan *groupTransaction, 1)
	q.waiting = append(q.waiting, waiter{turn, async})
	q.mu.Unlock()
	select {
	case g := <-turn:
		return g, nil
	case <-ctx.Done():
	}
	if !q.removeWaiting(turn) {
		q.pass(<-turn)
	}
	return nil, ctx.Err()
}

// removeWaiting removes a waiting member from the queue, and reports whether it was there.
func (q *writeQueue) removeWaiting(turn chan *groupTransaction) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.waiting, func(w waiter) bool { return w.turn == turn })
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	return at >= 0
}

// pass hands off the writer with the open transaction, which is committed first if the
// queue is empty or the transaction is full.
func (q *writeQueue) pass(g *groupTransaction) {
	if g != nil {
		if g.members < maxMembers && q.handOff(g) {
			return
		}
		q.commit(g)
	}
	q.handOff(nil)
}

// handOff gives the writer to the member that has waited longest of those that may join the
// transaction or, where none is open, preferably of those that could not join the last one. If
// none waits, the writer is free unless a transaction is open.
func (q *writeQueue) handOff(g *groupTransaction) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := !q.async
	if g != nil {
		q.async, next = g.async, g.async
	}
	if len(q.waiting) == 0 {
		q.busy = g != nil
		return false
	}
	at := slices.IndexFunc(q.waiting, func(w waiter) bool { return w.async == next })
	if at < 0 && g != nil {
		return false
	}
	at = max(at, 0)
	q.waiting[at].turn <- g
	q.waiting = slices.Delete(q.waiting, at, at+1)
	return true
}
