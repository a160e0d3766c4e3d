package changes

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/id"
	"collab/domain/object"
)

// Bounds of a topic's ring. The ring of an idle organisation is dropped.
const (
	ringEntries = 1024
	ringBytes   = 1 << 20
	entryBytes  = 512 // approximate size of an entry without its frame
	idleTimeout = 30 * time.Second
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
	change object.Change // only the fields that VisibleTo reads
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

// topic is an organisation that has subscribers.
type topic struct {
	org   id.Org
	users int // number of subscribers; guarded by Feed.mu
	view  atomic.Pointer[view]

	mu          sync.Mutex
	subscribers []*Subscriber // guarded by mu
	reading     bool          // a reader runs or is queued; guarded by mu
	readAgain   bool          // another read was requested; guarded by mu
	failed      bool          // a subscriber's read failed and is repeated after the next poll; guarded by mu
}

func newTopic(o id.Org, head object.Head) *topic {
	t := &topic{org: o}
	t.view.Store(&view{at: head.Cursor()})
	return t
}

func (t *topic) add(s *Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.index = len(t.subscribers)
	t.subscribers = append(t.subscribers, s)
}

func (t *topic) remove(s *Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.subscribers) - 1
	t.subscribers[s.index] = t.subscribers[last]
	t.subscribers[s.index].index = s.index
	t.subscribers[last] = nil
	t.subscribers = t.subscribers[:last]
}

// probe makes ShouldProbe return true for the subscriptions of a user.
func (t *topic) probe(user id.User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subscribers {
		if s.user == user {
			s.probe.Store(true)
			s.Wake()
		}
	}
}

// finish ends all subscriptions.
func (t *topic) finish(reason Reason) {
	t.mu.Lock()
	all := slices.Clone(t.subscribers)
	t.mu.Unlock()
	for _, s := range all {
		s.finish(reason)
	}
}

// claimReader requests a read. It reports whether the caller must start the reader.
func (t *topic) claimReader() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readAgain = t.reading
	started := !t.reading
	t.reading = true
	return started
}

// releaseReader ends the reader, unless another read was requested meanwhile.
func (t *topic) releaseReader() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading, t.readAgain = t.readAgain, false
	return !t.reading
}

// abortReader ends the reader, and drops requests for another read.
func (t *topic) abortReader() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading, t.readAgain = false, false
}

// observe compares the view with the head of the log, and has new entries read.
func (t *topic) observe(f *Feed, head object.Head) {
	v := t.view.Load()
	switch {
	case head.Epoch != v.at.Epoch:
		t.replace(head)
	case head.N > v.at.N:
		f.startReader(t)
	}
}

// replace starts with an empty view at head, because a backup was restored and the entries
// in memory are not of the new log.
func (t *topic) replace(head object.Head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.view.Load(); v.at.Epoch != head.Epoch {
		t.publishView(&view{at: head.Cursor(), orgEpoch: v.orgEpoch})
	}
}

// publish appends entries that follow the view from, and wakes the subscribers.
func (t *topic) publish(from *view, added []*entry, epoch int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	if v.at != from.at {
		return // the log was replaced meanwhile
	}
	next := *v
	if added[0].at.N != v.at.N+1 {
		// The missing entries were pruned; subscribers behind them read the log and resync.
		next.entries, next.bytes = nil, 0
	}
	next.entries = append(next.entries, added...)
	for _, e := range added {
		next.bytes += entryBytes + len(e.frame)
	}
	drop := 0
	for len(next.entries)-drop > ringEntries || next.bytes > ringBytes {
		next.bytes -= entryBytes + len(next.entries[drop].frame)
		drop++
	}
	next.entries = next.entries[drop:]
	next.at, next.lastEntryAt = added[len(added)-1].at, now
	next.orgEpoch = max(v.orgEpoch, epoch)
	t.publishView(&next)
}

// refresh stores the organisation's epoch, and drops the ring of an idle organisation.
func (t *topic) refresh(epoch int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	next := *v
	next.orgEpoch = max(v.orgEpoch, epoch)
	if len(v.entries) > 0 && now.Sub(v.lastEntryAt) >= idleTimeout {
		next.entries, next.bytes = nil, 0
		t.view.Store(&next)
	}
	if next.orgEpoch != v.orgEpoch || t.failed {
		t.failed = false
		t.publishView(&next)
	}
}

// publishView replaces the view and wakes the subscribers. The caller holds mu.
func (t *topic) publishView(v *view) {
	t.view.Store(v)
	for _, s := range t.subscribers {
		s.Wake()
	}
}

// pause returns how long to wait before subscribers are woken again.
func (t *topic) pause(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := min(time.Duration(len(t.subscribers))*pausePerSubscriber, maxPause)
	if pause < minPause {
		return 0
	}
	wait := t.view.Load().lastEntryAt.Add(pause).Sub(now)
	if wait > pause {
		return 0 // the clock was set back
	}
	return wait
}

// markFailed makes the next successful poll wake all subscribers.
func (t *topic) markFailed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
}
