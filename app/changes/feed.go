// Package changes is the feed of changes: it follows the logs of organisations that have
// subscribers, and passes each subscriber the entries that they may see, in the order of
// the log, without duplicates and gaps.
//
// An entry is read and encoded once for all subscribers of a server. A subscriber is a
// cursor in the log, not a queue: recent entries are in a ring that the subscribers of an
// organisation share, and a subscriber behind the ring reads from the stored log.
package changes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// PollEvery is how often a feed polls the store, and so the delay of a change whose hint was
// lost.
const PollEvery = time.Second

const (
	maxPerUser   = 100              // subscribers of one user
	maxReaders   = 4                // organisations whose logs are read concurrently
	maxCatchUp   = 8                // subscribers that have a job of their own concurrently
	pollChunk    = 500              // organisations in one query
	pageSize     = 128              // entries in one read
	maxPage      = 64 << 10         // bytes of frames that a subscriber behind the ring has, which its client may read slowly
	queryTimeout = 10 * time.Second // for one round of queries
)

// Reauthorize returns the actor according to the present records.
type Reauthorize = func(context.Context, org.Actor) (org.Actor, error)

// Options has the dependencies and settings of a Feed.
type Options struct {
	Store  ports.Store
	Epochs ports.Epochs
	Bus    ports.Bus
	Clock  ports.Clock
	Alarms ports.Alarms
	Log    *slog.Logger

	// Reauthorizer returns a function that authorizes actors for the request that ctx carries
	// (access.Access.Reauthorizer).
	Reauthorizer func(ctx context.Context) Reauthorize

	// LogPosition is access.Access.LogPosition, for actors that were authorized for the
	// subscription. Nil: the head of the log is read.
	LogPosition func(id.Org) (at object.Cursor, ok bool)

	// Encode returns the frame that every subscriber is sent for an entry, with the cursor
	// after it. An entry of object.AccessChanged has the client read all objects again.
	Encode func(object.Cursor, object.Change) []byte
}

// Feed passes changes to the subscribers of one server.
type Feed struct {
	Options
	log     ports.Changes
	readers *pool // one job for each organisation
	catchUp *pool // one job for each subscriber
	failing atomic.Bool

	ctx         context.Context // of reads
	stop        context.CancelFunc
	unsubscribe func() // from the bus
	polls       sync.WaitGroup

	mu       sync.Mutex
	topics   map[id.Org]*topic // of organisations that have subscribers; guarded by mu
	users    map[id.User]int   // number of subscribers; guarded by mu
	count    int               // of all subscribers; guarded by mu
	draining bool              // guarded by mu
	drained  chan struct{}     // closed when the feed is draining and all have left

	stats struct{ delivered, reads, resyncs atomic.Int64 }
}

// New returns a feed that has not started.
func New(o Options) *Feed {
	f := &Feed{
		Options: o, log: o.Store.Storage().Changes(),
		readers: &pool{limit: maxReaders}, catchUp: &pool{limit: maxCatchUp},
		topics: map[id.Org]*topic{}, users: map[id.User]int{}, drained: make(chan struct{}),
		unsubscribe: func() {},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Start subscribes to the bus, and polls the store at every tick, which the caller sends
// each PollEvery.
func (f *Feed) Start(tick <-chan time.Time) error {
	unsubscribe, err := f.Bus.Subscribe(f.receive)
	if err != nil {
		return fmt.Errorf("listening for changes: %w", err)
	}
	f.unsubscribe = unsubscribe
	f.polls.Go(func() {
		for {
			select {
			case <-f.ctx.Done():
				return
			case <-tick:
				f.poll()
			}
		}
	})
	return nil
}

// Drain ends all subscriptions and takes no new ones. It does not wait.
func (f *Feed) Drain() {
	f.mu.Lock()
	first := !f.draining
	f.draining = true
	if first && f.count == 0 {
		close(f.drained)
	}
	all := slices.Collect(maps.Values(f.topics))
	f.mu.Unlock()
	if !first {
		return
	}
	for _, t := range all {
		t.finish(Drained)
	}
}

// Close drains the feed, waits until all subscribers have left or ctx ends, and stops
// reading. It returns the context's error if a subscriber has not left.
func (f *Feed) Close(ctx context.Context) error {
	f.Drain()
	var err error
	select {
	case <-f.drained:
	case <-ctx.Done():
		select {
		case <-f.drained: // there was no subscriber
		default:
			err = ctx.Err()
		}
	}
	f.unsubscribe()
	f.stop()
	f.polls.Wait()
	f.readers.close()
	f.catchUp.close()
	return err
}

// Stats are counts since the start of a feed.
type Stats struct {
	Subscribers int64 // at present
	Delivered   int64 // events passed to subscribers
	Reads       int64 // pages of the log for single subscribers
	Resyncs     int64 // cursors that the log could not continue from
}

// Stats returns the present counts.
func (f *Feed) Stats() Stats {
	f.mu.Lock()
	count := f.count
	f.mu.Unlock()
	return Stats{
		Subscribers: int64(count),
		Delivered:   f.stats.delivered.Load(), Reads: f.stats.reads.Load(), Resyncs: f.stats.resyncs.Load(),
	}
}

// Subscribe subscribes the actor to their organisation. The subscription starts at the head
// of the log or, if resumes is set, after the cursor from. If the log cannot continue from
// that cursor, the first entry has the client read all objects again. The caller closes the
// subscription.
func (f *Feed) Subscribe(ctx context.Context, actor org.Actor, from string, resumes bool) (*Subscriber, error) {
	head, err := f.startPosition(ctx, actor.Org, resumes)
	if err != nil {
		return nil, err
	}
	s := &Subscriber{
		feed: f, user: actor.User, cursor: head.Cursor(), wake: make(chan struct{}, 1),
		reauthorize: f.Reauthorizer(ctx), actor: actor, authorizedEpoch: actor.Epoch(),
	}
	if resumes {
		if at, ok := object.ParseCursor(from); ok && head.Reaches(at) {
			s.cursor = at
		} else {
			s.page, s.resync = f.resync(head), true
			f.stats.resyncs.Add(1)
		}
	}
	s.start, s.sent = s.cursor, s.cursor
	if err := f.register(s, actor.Org, head); err != nil {
		return nil, err
	}
	s.topic.observe(f, head)
	return s, nil
}

// register registers a subscriber with the topic of its organisation, and makes the topic
// if there is none.
func (f *Feed) register(s *Subscriber, o id.Org, head object.Head) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return fault.New(fault.Unavailable, "The server is shutting down")
	}
	if f.users[s.user] >= maxPerUser {
		for _, t := range f.topics {
			t.probe(s.user)
		}
		return fault.New(fault.Limited, "At most %d change feeds can be open at once", maxPerUser)
	}
	t := f.topics[o]
	if t == nil {
		t = newTopic(o, head)
		f.topics[o] = t
		// Hints of entries appended since the head was read went to no topic.
		f.startReader(t)
	}
	f.users[s.user]++
	f.count++
	t.users++
	s.topic = t
	t.add(s)
	return nil
}

// unregister removes a subscriber.
func (f *Feed) unregister(s *Subscriber) {
	s.topic.remove(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[s.user]--; f.users[s.user] == 0 {
		delete(f.users, s.user)
	}
	if s.topic.users--; s.topic.users == 0 {
		delete(f.topics, s.topic.org)
	}
	if f.count--; f.count == 0 && f.draining {
		close(f.drained)
	}
}

// startPosition returns the head of an organisation's log for a subscription. One that does not resume
// needs no floor, and begins at the position that authorizing its actor has read.
func (f *Feed) startPosition(ctx context.Context, o id.Org, resumes bool) (object.Head, error) {
	if f.LogPosition != nil && !resumes {
		if at, ok := f.LogPosition(o); ok {
			return object.Head{N: at.N, Epoch: at.Epoch}, nil
		}
	}
	return f.head(ctx, o)
}

// head reads the head of an organisation's log.
func (f *Feed) head(ctx context.Context, o id.Org) (object.Head, error) {
	heads, err := f.log.Heads(ctx, []id.Org{o})
	if err != nil {
		return object.Head{}, err
	}
	return heads[o], nil
}

// resync returns the entry that replaces entries that cannot be read.
func (f *Feed) resync(head object.Head) []*entry {
	c := object.Change{N: head.N, Type: object.AccessChanged, Audience: &object.Audience{Everyone: true}}
	return []*entry{{head.Cursor(), c, f.Encode(head.Cursor(), c)}}
}

// receive takes a hint from the bus.
func (f *Feed) receive(h object.Hint) {
	f.mu.Lock()
	t := f.topics[h.Org]
	f.mu.Unlock()
	if t != nil && h.N > t.view.Load().at.N {
		f.startReader(t)
	}
}

// poll reads the heads of the logs and the epochs of all organisations that have
// subscribers.
func (f *Feed) poll() {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.topics))
	f.mu.Unlock()
	for chunk := range slices.Chunk(all, pollChunk) {
		f.logState(fault.Catch(func() error { return f.pollOrgs(chunk) }))
	}
}

func (f *Feed) pollOrgs(chunk []*topic) error {
	ctx, cancel := context.WithTimeout(f.ctx, queryTimeout)
	defer cancel()
	orgs := make([]id.Org, len(chunk))
	for i, t := range chunk {
		orgs[i] = t.org
	}
	heads, err := f.log.Heads(ctx, orgs)
	if err != nil {
		return err
	}
	epochs, err := f.Epochs.Epochs(ctx, orgs)
	if err != nil {
		return err
	}
	now := f.Clock.Now()
	for _, t := range chunk {
		if head, ok := heads[t.org]; ok {
			t.observe(f, head)
		}
		if epoch, ok := epochs[t.org]; ok {
			t.refresh(epoch, now)
		} else {
			t.finish(Removed)
		}
	}
	return nil
}

// startReader reads new entries of a topic's log, in one reader at a time.
func (f *Feed) startReader(t *topic) {
	if t.claimReader() {
		f.readers.submit(func() { f.read(t, false) })
	}
}

// read reads a page of an organisation's log. If there is another page, or another read was
// requested meanwhile, it queues again behind all waiting organisations, so that a busy one
// does not delay the others.
func (f *Feed) read(t *topic, more bool) {
	again := func(more bool) { f.readers.submit(func() { f.read(t, more) }) }
	if wait := t.pause(f.Clock.Now()); wait > 0 && !more {
		f.Alarms.Set(wait, func() { again(false) })
		return
	}
	err := fault.Catch(func() (err error) {
		more, err = f.readPage(t)
		return err
	})
	f.logState(err)
	switch {
	case err != nil:
		t.abortReader() // the next poll tries again
	case more || !t.releaseReader():
		again(more)
	}
}

// readPage reads one page and passes it to the subscribers; more reports whether there may
// be another.
func (f *Feed) readPage(t *topic) (more bool, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, queryTimeout)
	defer cancel()
	from := t.view.Load()
	// The epoch is read with the entries, so that a member removed before an entry was
	// appended is authorized again before receiving it.
	found, epoch, err := f.Epochs.Entries(ctx, t.org, from.at.N, pageSize)
	switch {
	case fault.Is(err, fault.NotFound):
		t.finish(Removed)
		return false, nil
	case err != nil || len(found) == 0:
		return false, err
	}
	t.publish(from, f.encode(from.at.Epoch, found), epoch, f.Clock.Now())
	return len(found) == pageSize, nil
}

func (f *Feed) encode(epoch int64, found []object.Change) []*entry {
	encoded := make([]*entry, len(found))
	for i, c := range found {
		at := object.Cursor{Epoch: epoch, N: c.N}
		visibility := object.Change{Type: c.Type, Object: object.Object{Place: c.Object.Place}, Audience: c.Audience}
		encoded[i] = &entry{at, visibility, f.Encode(at, c)}
	}
	return encoded
}

// logState logs when reads of the store begin to fail, and when they succeed again.
func (f *Feed) logState(err error) {
	if f.ctx.Err() != nil {
		return
	}
	failing := err != nil
	if f.failing.Swap(failing) == failing {
		return
	}
	if failing {
		f.Log.Warn("change log read failed", "error", err)
		return
	}
	f.Log.Info("change log readable again")
}
