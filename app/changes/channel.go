package changes

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/id"
	"collab/domain/object"
)

// Bounds of a channel's ring. An organisation that rests keeps none, so that the
// memory goes to those that are busy.
const (
	ringEntries = 1024
	ringBytes   = 1 << 20
	entryBytes  = 512 // of an entry beside its frame, about
	restAfter   = 30 * time.Second
)

// Entries that come right after one another are batched into one write: subscribers are
// woken at intervals that leave time for other work.
const (
	restPerSubscriber = 40 * time.Microsecond
	leastRest         = time.Millisecond // a shorter one is none
	longestRest       = 250 * time.Millisecond
)

// entry is one entry of a log, with what is sent of it. It never changes.
type entry struct {
	at     object.Cursor
	change object.Change
	frame  []byte
}

// view is the part of an organisation's log in memory. It is replaced, never changed, so
// that subscribers read it without a lock.
type view struct {
	at      object.Cursor // where the log was read to
	entries []*entry      // the last ones up to there, without gaps
	bytes   int
	fed     time.Time // when the last entry came

	// access is the organisation's epoch, read after the entries: an actor found at an
	// earlier one is authorized again before receiving anything.
	access int64
}

// after returns the entries after a place; ok is false where they have to be
// read from the log.
func (v *view) after(at object.Cursor) (next []*entry, ok bool) {
	switch {
	case at.Epoch != v.at.Epoch:
		return nil, false
	case at.N >= v.at.N:
		return nil, true
	case len(v.entries) == 0 || at.N+1 < v.entries[0].at.N:
		return nil, false
	}
	return v.entries[at.N+1-v.entries[0].at.N:], true
}

// channel is an organisation that has subscribers.
type channel struct {
	org   id.Org
	users int // of the channel; guarded by Feed.mu
	view  atomic.Pointer[view]

	mu          sync.Mutex
	subscribers []*Subscriber // guarded by mu
	reading     bool          // a reader runs or is queued; guarded by mu
	again       bool          // it reads once more before it ends; guarded by mu
	stumbled    bool          // a subscriber waits for the store to answer again; guarded by mu
}

func newChannel(o id.Org, head object.Head) *channel {
	ch := &channel{org: o}
	ch.view.Store(&view{at: head.Cursor()})
	return ch
}

func (ch *channel) add(s *Subscriber) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	s.place = len(ch.subscribers)
	ch.subscribers = append(ch.subscribers, s)
}

func (ch *channel) remove(s *Subscriber) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	last := len(ch.subscribers) - 1
	ch.subscribers[s.place] = ch.subscribers[last]
	ch.subscribers[s.place].place = s.place
	ch.subscribers[last] = nil
	ch.subscribers = ch.subscribers[:last]
}

// finish ends all subscriptions.
func (ch *channel) finish(why Reason) {
	ch.mu.Lock()
	all := slices.Clone(ch.subscribers)
	ch.mu.Unlock()
	for _, s := range all {
		s.finish(why)
	}
}

// abandon ends the subscriptions of an organisation that no longer exists.
func (ch *channel) abandon() { ch.finish(Removed) }

// claim requests a read. It reports whether the caller must start the reader.
func (ch *channel) claim() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.again = ch.reading
	started := !ch.reading
	ch.reading = true
	return started
}

// done ends the reader, unless another read was requested meanwhile.
func (ch *channel) done() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.reading, ch.again = ch.again, false
	return !ch.reading
}

// release ends the reader, and drops requests for another read.
func (ch *channel) release() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.reading, ch.again = false, false
}

// observe takes notice of where the log stands.
func (ch *channel) observe(f *Feed, head object.Head) {
	v := ch.view.Load()
	switch {
	case head.Epoch != v.at.Epoch:
		ch.replace(head)
	case head.N > v.at.N:
		f.follow(ch)
	}
}

// replace begins again with another log: ours was restored from a copy, and what
// is at hand is not of that one.
func (ch *channel) replace(head object.Head) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if v := ch.view.Load(); v.at.Epoch != head.Epoch {
		ch.show(&view{at: head.Cursor(), access: v.access})
	}
}

// publish adds entries that follow the view from, and hands them out.
func (ch *channel) publish(from *view, fresh []*entry, epoch int64, now time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	v := ch.view.Load()
	if v.at != from.at {
		return // the log was replaced meanwhile
	}
	next := *v
	if fresh[0].at.N != v.at.N+1 {
		// What is missing is past the retention; who was there yet will notice.
		next.entries, next.bytes = nil, 0
	}
	next.entries = append(next.entries, fresh...)
	for _, e := range fresh {
		next.bytes += entryBytes + len(e.frame)
	}
	drop := 0
	for len(next.entries)-drop > ringEntries || next.bytes > ringBytes {
		next.bytes -= entryBytes + len(next.entries[drop].frame)
		drop++
	}
	next.entries = next.entries[drop:]
	next.at, next.fed = fresh[len(fresh)-1].at, now
	next.access = max(v.access, epoch)
	ch.show(&next)
}

// refresh takes notice of the organisation's epoch, and lets a ring go that has
// not been used for a while.
func (ch *channel) refresh(epoch int64, now time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	v := ch.view.Load()
	next := *v
	next.access = max(v.access, epoch)
	if len(v.entries) > 0 && now.Sub(v.fed) >= restAfter {
		next.entries, next.bytes = nil, 0
		ch.view.Store(&next)
	}
	if next.access != v.access || ch.stumbled {
		ch.stumbled = false
		ch.show(&next)
	}
}

// show makes a view the present one and wakes the subscribers; mu is held.
func (ch *channel) show(v *view) {
	ch.view.Store(v)
	for _, s := range ch.subscribers {
		s.Nudge()
	}
}

// pause returns how long to wait before entries are handed out again.
func (ch *channel) pause(now time.Time) time.Duration {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	rest := min(time.Duration(len(ch.subscribers))*restPerSubscriber, longestRest)
	if rest < leastRest {
		return 0
	}
	return min(ch.view.Load().fed.Add(rest).Sub(now), rest)
}

// stumble has everybody woken by the next poll that the store answers.
func (ch *channel) stumble() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.stumbled = true
}
