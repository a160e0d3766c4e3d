// Package retryqueue delivers items in the background, and retries deliveries that failed
// with backoff. It is a leaf: it imports the standard library alone.
package retryqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Options configure New.
type Options[T any] struct {
	Capacity int             // items, without those of the attempt that is being made
	Batch    int             // items of one delivery
	Linger   time.Duration   // how long a batch that is not full waits for more items
	Backoff  []time.Duration // pauses after failed attempts; a batch is dropped when the one after the last fails
	InOrder  bool            // a batch that waits for its next attempt delays the others, and Close retries until its context ends

	Now   func() time.Time
	After func(time.Duration) <-chan time.Time // nil: time.After

	// Deliver makes one attempt.
	Deliver func(ctx context.Context, batch []T) Result
	// Report is called after each attempt. Again reports whether the batch is queued again.
	Report func(batch []T, attempts int, err error, again bool)
}

// Result is the result of an attempt.
type Result struct {
	Err       error
	Permanent bool          // retrying is useless
	Pause     time.Duration // before the next attempt at least
}

// Queue delivers batches one at a time. Unless it is in order, a batch that waits for its
// next attempt does not delay others, and Close tries each batch once more.
type Queue[T any] struct {
	options Options[T]

	ctx    context.Context // of all attempts
	cancel context.CancelFunc
	wake   chan struct{} // has one element when the queue has changed
	done   chan struct{} // closed when the worker has ended

	mu      sync.Mutex
	batches []*batch[T]
	open    *batch[T] // the one of batches that takes more items; nil: none
	items   int       // of all batches
	closed  bool
}

type batch[T any] struct {
	items    []T
	due      time.Time
	dueSet   time.Time // when due was set
	attempts int
}

// New starts a worker, which Close stops.
func New[T any](o Options[T]) *Queue[T] {
	if o.After == nil {
		o.After = time.After
	}
	q := &Queue[T]{options: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.work()
	return q
}

// Add queues an item. It returns false if the queue is full or closed.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.items >= q.options.Capacity {
		return false
	}
	if q.open == nil {
		q.open = new(batch[T])
		q.delay(q.open, q.options.Linger)
		q.batches = append(q.batches, q.open)
	}
	q.items++
	q.open.items = append(q.open.items, item)
	if len(q.open.items) == q.options.Batch {
		q.delay(q.open, 0)
		q.open = nil
	}
	q.signal()
	return true
}

// Close delivers what is queued, until ctx ends, and stops the worker. It returns the number
// of items that were not delivered for lack of time.
func (q *Queue[T]) Close(ctx context.Context) (left int) {
	q.mu.Lock()
	q.closed = true
	q.signal()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.cancel()
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items
}

// signal wakes the worker.
func (q *Queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue[T]) work() {
	defer close(q.done)
	var timer <-chan time.Time
	var at time.Time
	for q.ctx.Err() == nil {
		b, due, end := q.next()
		switch {
		case end:
			return
		case b != nil:
			q.deliver(b)
			continue
		case due.IsZero():
			timer = nil
		case timer == nil || !due.Equal(at):
			timer, at = q.options.After(due.Sub(q.options.Now())), due
		}
		select {
		case <-q.wake:
		case <-timer:
			timer = nil
		case <-q.ctx.Done():
		}
	}
}

// next removes and returns a due batch. If none is due it returns when one will be, the zero
// time for an empty queue, or that the queue is closed and empty.
func (q *Queue[T]) next() (b *batch[T], due time.Time, end bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return nil, time.Time{}, q.closed
	}
	first := 0
	for i, b := range q.batches {
		if !q.options.InOrder && q.due(b).Before(q.due(q.batches[first])) {
			first = i
		}
	}
	b = q.batches[first]
	if due = q.due(b); due.After(q.options.Now()) {
		return nil, due, false
	}
	q.batches = slices.Delete(q.batches, first, first+1)
	q.items -= len(b.items)
	if b == q.open {
		q.open = nil
	}
	return b, time.Time{}, false
}

// delay makes a batch due after the pause. The caller holds q.mu.
func (q *Queue[T]) delay(b *batch[T], pause time.Duration) {
	b.dueSet = q.options.Now()
	b.due = b.dueSet.Add(pause)
}

// due returns when a batch is due. In a closed queue it is at once, or after its pause if
// the queue is in order. It is at once, too, if the clock was set back, which would make
// the pause longer. The caller holds q.mu.
func (q *Queue[T]) due(b *batch[T]) time.Time {
	if q.closed && (b.attempts == 0 || !q.options.InOrder) || q.options.Now().Before(b.dueSet) {
		return time.Time{}
	}
	return b.due
}

// deliver makes an attempt and queues the batch again if it should be retried, or if the
// attempt was cut off.
func (q *Queue[T]) deliver(b *batch[T]) {
	b.attempts++
	r := q.options.Deliver(q.ctx, b.items)
	q.mu.Lock()
	again := r.Err != nil && !r.Permanent && b.attempts <= len(q.options.Backoff) && (!q.closed || q.options.InOrder)
	if again {
		q.delay(b, max(r.Pause, q.options.Backoff[b.attempts-1]))
	}
	again = again || r.Err != nil && q.ctx.Err() != nil
	if again {
		at := len(q.batches)
		if q.options.InOrder {
			at = 0
		}
		q.batches = slices.Insert(q.batches, at, b)
		q.items += len(b.items)
	}
	q.mu.Unlock()
	q.options.Report(b.items, b.attempts, r.Err, again)
}
