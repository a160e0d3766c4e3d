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
	j, err := db.queue.await(ctx, c.async)
	if err != nil {
		return err
	}
	if j == nil {
		// It is immediate, as all of the connection. All members share it, so no member's context ends it.
		tx := db.write.WithContext(withAsync(context.WithoutCancel(ctx), c.async)).Begin()
		if tx.Error != nil {
			db.queue.pass(nil)
			return failed(ctx, tx.Error, "Record")
		}
		j = &groupTransaction{tx: tx, async: c.async, done: make(chan struct{})}
	}
	if err := db.runMember(ctx, j, c, fn); err != nil {
		return err
	}
	<-j.done
	return failed(ctx, j.err, "Record")
}

// runMember runs fn with the writer and passes that on, also when fn panics.
func (db *DB) runMember(ctx context.Context, j *groupTransaction, c *conn, fn func(*conn) error) error {
	done := false
	defer func() {
		if done {
			j.members++
		} else if j = j.undo(); j != nil {
			db.queue.commit(j)
			j = nil
		}
		db.queue.pass(j)
	}()
	if err := j.savepoint("SAVEPOINT part"); err != nil {
		return failed(ctx, err, "Record")
	}
	c.read, c.write = j.tx, j.tx
	err := fn(c)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := j.savepoint("RELEASE part"); err != nil {
		return failed(ctx, err, "Record")
	}
	done = true
	return nil
}

// savepoint sets or releases the savepoint before a part. The first part needs none, as it
// can roll back the whole transaction.
func (j *groupTransaction) savepoint(statement string) error {
	if j.members == 0 {
		return nil
	}
	_, err := j.tx.Statement.ConnPool.ExecContext(context.Background(), statement)
	return err
}

// undo rolls back the present part and returns the transaction, or nil if all of it was
// rolled back: SQLite does that if it runs out of space, or if a statement that writes is
// interrupted.
func (j *groupTransaction) undo() *groupTransaction {
	if j.members == 0 {
		j.tx.Rollback()
		return nil
	}
	if err := j.savepoint("ROLLBACK TO part; RELEASE part"); err != nil {
		j.tx.Rollback()
		j.end(fault.Wrap(fault.Unavailable, errors.Join(errUndone, err), "The database gave up the transaction"))
		return nil
	}
	return j
}

// errUndone is the error of members whose transaction was rolled back because of another
// member's part. They run again.
var errUndone = errors.New("the transaction was undone with a part of it")

func (l *writeQueue) commit(j *groupTransaction) {
	if !j.async {
		l.commits.Add(1)
		defer l.commits.Add(1)
	}
	j.end(j.tx.Commit().Error)
}

func (j *groupTransaction) end(err error) {
	j.err = err
	close(j.done)
}

// await returns when the caller has the writer, with the group transaction that is open,
// nil if none is.
func (l *writeQueue) await(ctx context.Context, async bool) (*groupTransaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil, nil
	}
	turn := make(chan *groupTransaction, 1)
	l.waiting = append(l.waiting, waiter{turn, async})
	l.mu.Unlock()
	select {
	case j := <-turn:
		return j, nil
	case <-ctx.Done():
	}
	if !l.removeWaiting(turn) {
		l.pass(<-turn)
	}
	return nil, ctx.Err()
}

// removeWaiting removes a waiting member from the queue, and reports whether it was there.
func (l *writeQueue) removeWaiting(turn chan *groupTransaction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.turn == turn })
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// pass hands off the writer with the open transaction, which is committed first if the
// queue is empty or the transaction is full.
func (l *writeQueue) pass(j *groupTransaction) {
	if j != nil {
		if j.members < maxMembers && l.handOff(j) {
			return
		}
		l.commit(j)
	}
	l.handOff(nil)
}

// handOff gives the writer to the member that has waited longest of those that may join the
// transaction or, where none is open, preferably of those that could not join the last one. If
// none waits, the writer is free unless a transaction is open.
func (l *writeQueue) handOff(j *groupTransaction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := !l.async
	if j != nil {
		l.async, next = j.async, j.async
	}
	if len(l.waiting) == 0 {
		l.busy = j != nil
		return false
	}
	at := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.async == next })
	if at < 0 && j != nil {
		return false
	}
	at = max(at, 0)
	l.waiting[at].turn <- j
	l.waiting = slices.Delete(l.waiting, at, at+1)
	return true
}
