package access

import (
	"context"
	"slices"
	"sync"
	"time"

	"collab/app/cache"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// queryTimeout bounds one query for marks. The query does not use the context of a waiting
// request, whose cancellation must not fail the others.
const queryTimeout = 10 * time.Second

// epochs reads the marks of organisations for many requests with one query. Every request
// waits for a query that begins after the request, and so sees everything committed before
// it; requests that arrive while a query runs share the next.
type epochs struct {
	port    ports.Epochs
	running chan struct{} // holds one entry while a query runs

	// positions has the position of each organisation's log that was read last. Only the holder
	// of running writes it, in the order of the queries, so that no position that was read before
	// replaces one that was read after.
	positions *cache.Cache[id.Org, object.Cursor]

	mu   sync.Mutex
	next *batch // of the next query
}

func newEpochs(port ports.Epochs) *epochs {
	return &epochs{port: port, running: make(chan struct{}, 1), positions: cache.NewCounted[id.Org, object.Cursor](maxPositions)}
}

type batch struct {
	orgs []id.Org // of the requests, with repetitions
	done chan struct{}

	// Written before done is closed.
	found map[id.Org]org.Mark
	err   error
}

// read returns the organisation's present mark; ok is false if there is no such
// organisation.
func (e *epochs) read(ctx context.Context, o id.Org) (mark org.Mark, ok bool, err error) {
	// A mark that is newer than the position would authorize for records that were read before.
	if mark, ok = e.port.Cached(o); ok {
		if at, known := e.positions.Get(o); known && at == position(mark) {
			return mark, true, nil
		}
	}
	e.mu.Lock()
	b := e.next
	first := b == nil
	if first {
		b = &batch{done: make(chan struct{})}
		e.next = b
	}
	b.orgs = append(b.orgs, o)
	e.mu.Unlock()
	if first {
		e.query(context.WithoutCancel(ctx), b)
	} else {
		select {
		case <-b.done:
		case <-ctx.Done():
			return org.Mark{}, false, ctx.Err()
		}
	}
	mark, ok = b.found[o]
	return mark, ok, b.err
}

// query waits for the running query, closes the batch, and queries for its organisations.
func (e *epochs) query(ctx context.Context, b *batch) {
	e.running <- struct{}{}
	defer func() { <-e.running }()
	defer close(b.done)
	e.mu.Lock()
	e.next = nil
	e.mu.Unlock()
	slices.Sort(b.orgs)
	orgs := slices.Compact(b.orgs)
	b.err = fault.New(fault.Unavailable, "The service cannot check memberships right now") // should the port panic
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	b.found, b.err = e.port.Marks(ctx, orgs)
	for o, m := range b.found {
		e.positions.Put(o, position(m))
	}
}

func position(m org.Mark) object.Cursor { return object.Cursor{Epoch: m.LogEpoch, N: m.LogN} }
