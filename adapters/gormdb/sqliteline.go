package gormdb

import (
	"context"
	"errors"
	"slices"
	"sync"

	"gorm.io/gorm"

	"collab/domain/fault"
)

// maxParties bounds how many share a transaction: those who come first wait for
// the last.
const maxParties = 64

// line is those who wait for SQLite's one writer. Whoever has the turn does its
// part of a transaction and hands on both to the next; the last one commits. A
// commit waits for the disk, which takes longer than most parts, unless all of
// them are async.
type line struct {
	mu      sync.Mutex
	waiting []chan *joint
	busy    bool // somebody has the turn
}

// joint is a transaction of several parties. Only who has the turn touches it,
// until done is closed: err is then what became of it.
type joint struct {
	tx      *gorm.DB
	async   bool // it is committed without waiting for the disk
	parties int  // whose parts are in it
	err     error
	done    chan struct{}
}

// joined runs fn in a transaction that others may share, and returns when it is
// committed. What fn did is undone without the others when it fails.
func (db *DB) joined(ctx context.Context, c *conn, fn func(*conn) error) error {
	j, err := db.line.await(ctx)
	if err != nil {
		return err
	}
	if j != nil && j.async && !c.async {
		// That one would not wait for the disk with what may not be forgotten in it.
		j.commit()
		j = nil
	}
	if j == nil {
		// It is everybody's and ends with nobody's context.
		tx := db.write.WithContext(withAsync(context.WithoutCancel(ctx), c.async)).Begin(db.dialect.isolation())
		if tx.Error != nil {
			db.line.pass(nil)
			return failed(ctx, tx.Error, "Record")
		}
		j = &joint{tx: tx, async: c.async, done: make(chan struct{})}
	}
	if err := db.part(ctx, j, c, fn); err != nil {
		return err
	}
	<-j.done
	return failed(ctx, j.err, "Record")
}

// part runs fn with the turn and passes it on, also when fn panics.
func (db *DB) part(ctx context.Context, j *joint, c *conn, fn func(*conn) error) error {
	done := false
	defer func() {
		if !done {
			j = j.undo()
		}
		db.line.pass(j)
	}()
	if err := j.mark("SAVEPOINT part"); err != nil {
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
	if err := j.mark("RELEASE part"); err != nil {
		return failed(ctx, err, "Record")
	}
	done = true
	j.parties++
	return nil
}

// mark sets or removes the mark before a part. The first needs none: all that
// there is to undo is its own.
func (j *joint) mark(statement string) error {
	if j.parties == 0 {
		return nil
	}
	_, err := j.tx.Statement.ConnPool.ExecContext(context.Background(), statement)
	return err
}

// undo undoes the part of who has the turn and returns what is left. SQLite ends
// a whole transaction when it has no room for it, or when a statement that writes
// is interrupted, and then nothing is.
func (j *joint) undo() *joint {
	if j.parties == 0 {
		j.tx.Rollback()
		return nil
	}
	if err := j.mark("ROLLBACK TO part; RELEASE part"); err != nil {
		j.tx.Rollback()
		j.end(fault.Wrap(fault.Unavailable, errors.Join(errUndone, err), "The database gave up the transaction"))
		return nil
	}
	return j
}

// errUndone is the error of the parties to a transaction that ended with a part
// of another. They run again.
var errUndone = errors.New("the transaction was undone with a part of it")

func (j *joint) commit() { j.end(j.tx.Commit().Error) }

func (j *joint) end(err error) {
	j.err = err
	close(j.done)
}

// await returns with the turn, and with the transaction that is open, if any.
func (l *line) await(ctx context.Context) (*joint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil, nil
	}
	turn := make(chan *joint, 1)
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case j := <-turn:
		return j, nil
	case <-ctx.Done():
	}
	if !l.leave(turn) {
		l.pass(<-turn)
	}
	return nil, ctx.Err()
}

// leave reports whether a party was still waiting, and then it is not any more.
func (l *line) leave(turn chan *joint) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, turn)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// pass hands on the turn with the open transaction, which is committed first
// where nobody waits or it has all the parties that it may have.
func (l *line) pass(j *joint) {
	if j != nil {
		if j.parties < maxParties && l.hand(j) {
			return
		}
		j.commit()
	}
	l.hand(nil)
}

// hand gives the turn to who waits longest. When nobody does, it is nobody's,
// unless a transaction is open.
func (l *line) hand(j *joint) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy = j != nil
		return false
	}
	l.waiting[0] <- j
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return true
}
