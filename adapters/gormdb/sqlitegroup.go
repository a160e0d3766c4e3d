package gormdb

import (
	"context"
	"slices"
	"sync"

	"collab/domain/fault"
)

// group runs writes that wait for SQLite's one writer in one transaction: a
// commit writes every page that it touched and waits for the disk, and writes of
// the same kind touch mostly the same pages.
type group struct {
	mu      sync.Mutex
	waiting []*grouped
	running bool // somebody takes those who wait
}

// grouped is one write of a group.
type grouped struct {
	ctx  context.Context
	fn   func(context.Context, *conn) error
	err  error
	done chan struct{} // closed when err is what became of it
}

// together runs fn, one statement, in a transaction with others, and returns
// when that is committed. Fn's NotFound and Conflict are its own; any other
// error undoes the others too.
func (db *DB) together(ctx context.Context, fn func(context.Context, *conn) error) error {
	g, w := &db.group, &grouped{ctx: ctx, fn: fn, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if !g.running {
		g.running = true
		go db.runGroups()
	}
	g.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if g.leave(w) {
		return ctx.Err()
	}
	<-w.done
	return w.err
}

// leave reports whether a write was still waiting, and then it is not run.
func (g *group) leave(w *grouped) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, w)
	if at < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}

// take returns those who wait, who do not any more.
func (g *group) take() []*grouped {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.waiting
	g.waiting = nil
	return taken
}

// idle ends the running when nobody waits.
func (g *group) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = len(g.waiting) > 0
	return !g.running
}

// runGroups runs all who wait, group after group, until there are none.
func (db *DB) runGroups() {
	for {
		var members []*grouped
		err := db.once(context.Background(), func(c *conn) error {
			members = db.group.take() // with all who came while the writer was another's
			for _, w := range members {
				if w.err = w.ctx.Err(); w.err != nil {
					continue
				}
				// A statement that is interrupted would end the transaction.
				w.err = w.fn(context.WithoutCancel(w.ctx), c)
				if w.err != nil && !fault.Is(w.err, fault.NotFound) && !fault.Is(w.err, fault.Conflict) {
					return w.err
				}
			}
			return nil
		})
		if err != nil && members == nil {
			members = db.group.take() // there was no transaction
		}
		for _, w := range members {
			if err != nil {
				w.err = err
			}
			close(w.done)
		}
		if db.group.idle() {
			return
		}
	}
}
