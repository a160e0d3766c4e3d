package changes

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/id"
	"collab/domain/object"
)

// Bounds of a channel's ring. The ring of an idle organisation is dropped.
const (
	ringEntries = 1024
	ringBytes   = 1 << 20
	entryBytes  = 512 // approximate size of an entry without its frame
	idleAfter   = 30 * time.Second
)

// Pauses between two rounds of waking subscribers, in which entries are batched into one
// write.
const (
	pausePerSubscriber = 40 * time.Microsecond
	minPause           = time.Millisecond // a shorter pause is skipped
	maxPause           = 250 * time.Millisecond
)

// entry is one entry of a log with its encoded frame. It never changes.
type entry struct {
	at     object.Cursor
	change object.Change // only what decides who sees it
	frame  []byte
}

// view is the part of an organisation's log in memory. It is replaced, never changed, so
// that subscribers read it without a lock.
type view struct {
	at          object.Cursor // of the last entry that was read
	entries     []*entry      // the last ones up to at, without gaps
	bytes       int
	lastEntryAt time.Time // when the last entry was read

	// orgEpoch is the organisation's epoch, read after the entries: an actor found at an
	// earlier one is authorized again before receiving anything.
	orgEpoch int64
}

// after returns the entries after a cursor; ok is false if they have to be read from the log.
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
	users int // number of subscribers; guarded by Feed.mu
	view  atomic.Pointer[view]

	mu          sync.Mutex
	subscribers []*Subscriber // guarded by mu
	reading     bool          // a reader runs or is queued; guarded by mu
	again       bool          // another read was requested; guarded by mu
	failed      bool          // a subscriber's read failed and is repeated after the next poll; guarded by mu
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

// probe has the subscriptions of a user look whether their clients are still there.
func (ch *channel) probe(user id.User) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, s := range ch.subscribers {
		if s.user == user {
			s.probe.Store(true)
			s.Wake()
		}
	}
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

// observe compares the view with the head of the log, and has new entries read.
func (ch *channel) observe(f *Feed, head object.Head) {
	v := ch.view.Load()
	switch {
	case head.Epoch != v.at.Epoch:
		ch.replace(head)
	case head.N > v.at.N:
		f.follow(ch)
	}
}

// replace starts with an empty view at head, because a backup was restored and the entries
// in memory are not of the new log.
func (ch *channel) replace(head object.Head) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if v := ch.view.Load(); v.at.Epoch != head.Epoch {
		ch.show(&view{at: head.Cursor(), orgEpoch: v.orgEpoch})
	}
}

// publish adds entries that follow the view from, and wakes the subscribers.
func (ch *channel) publish(from *view, fresh []*entry, epoch int64, now time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	v := ch.view.Load()
	if v.at != from.at {
		return // the log was replaced meanwhile
	}
	next := *v
	if fresh[0].at.N != v.at.N+1 {
		// The missing entries were pruned; subscribers behind them read the log and resync.
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
	next.at, next.lastEntryAt = fresh[len(fresh)-1].at, now
	next.orgEpoch = max(v.orgEpoch, epoch)
	ch.show(&next)
}

// refresh stores the organisation's epoch, and drops the ring of an idle organisation.
func (ch *channel) refresh(epoch int64, now time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	v := ch.view.Load()
	next := *v
	next.orgEpoch = max(v.orgEpoch, epoch)
	if len(v.entries) > 0 && now.Sub(v.lastEntryAt) >= idleAfter {
		next.entries, next.bytes = nil, 0
		ch.view.Store(&next)
	}
	if next.orgEpoch != v.orgEpoch || ch.failed {
		ch.failed = false
		ch.show(&next)
	}
}

// show replaces the view and wakes the subscribers. The caller holds mu.
func (ch *channel) show(v *view) {
	ch.view.Store(v)
	for _, s := range ch.subscribers {
		s.Wake()
	}
}

// pause returns how long to wait before subscribers are woken again.
func (ch *channel) pause(now time.Time) time.Duration {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	pause := min(time.Duration(len(ch.subscribers))*pausePerSubscriber, maxPause)
	if pause < minPause {
		return 0
	}
	wait := ch.view.Load().lastEntryAt.Add(pause).Sub(now)
	if wait > pause {
		return 0 // the clock was set back
	}
	return wait
}

// markFailed has the next successful poll wake all subscribers.
func (ch *channel) markFailed() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.failed = true
}
