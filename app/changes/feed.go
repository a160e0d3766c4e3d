// Package changes is the feed of changes: it follows the logs of the
// organisations that somebody listens to, and hands each subscriber what they
// may see, in the order of the log, nothing twice and nothing left out.
//
// An entry is read and encoded once for all subscribers of a server. A
// subscriber is a place in the log and no queue: what is recent lies in a ring
// that all of the organisation share, and who is behind it reads on in the
// durable log, as one does who comes back.
package changes

import (
	"context"
	"fmt"
	"log/slog"
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

// PollEvery is how often a feed asks the store on its own, and so how late a
// change may be whose hint was lost.
const PollEvery = time.Second

// Bounds of what is done at once and kept.
const (
	maxOfUser  = 100              // subscribers of one user
	maxReaders = 4                // organisations whose logs are read on at once
	maxLaggers = 8                // subscribers with a job of their own at once
	pollChunk  = 500              // organisations in one query
	pageSize   = 128              // entries in one read
	patience   = 10 * time.Second // for one round of queries
)

// Reauthorize returns an actor as the records say at this moment.
type Reauthorize = func(context.Context, org.Actor) (org.Actor, error)

// Options are what a Feed needs.
type Options struct {
	Store  ports.Store
	Epochs ports.Epochs
	Bus    ports.Bus
	Clock  ports.Clock
	Alarms ports.Alarms
	Log    *slog.Logger

	// Reauthorizer returns a function that returns an actor as the records say when it is
	// called, for a request that ctx carries (see access.Access.Reauthorizer).
	Reauthorizer func(ctx context.Context) Reauthorize

	// Encode returns an entry as it is sent to everybody, with the place that it
	// leads to. An entry of object.AccessChanged has the client read all objects again.
	Encode func(object.Cursor, object.Change) []byte
}

// Feed hands changes to the subscribers of one server.
type Feed struct {
	Options
	log     ports.Changes
	readers *pool // one job for each organisation
	laggers *pool // one job for each subscriber
	failing atomic.Bool

	ctx         context.Context // ends the reading
	stop        context.CancelFunc
	unsubscribe func() // from the bus
	polls       sync.WaitGroup

	mu       sync.Mutex
	channels map[id.Org]*channel // of organisations that have subscribers; guarded by mu
	users    map[id.User]int     // how many subscribers each has; guarded by mu
	count    int                 // all of them; guarded by mu
	draining bool                // guarded by mu
	gone     chan struct{}       // closed when the feed is draining and all have left

	figures struct{ delivered, reads, resyncs atomic.Int64 }
}

// New returns a feed that has not started.
func New(o Options) *Feed {
	f := &Feed{
		Options: o, log: o.Store.Storage().Changes(),
		readers: &pool{limit: maxReaders}, laggers: &pool{limit: maxLaggers},
		channels: map[id.Org]*channel{}, users: map[id.User]int{}, gone: make(chan struct{}),
		unsubscribe: func() {},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Start begins to listen to the bus, and asks the store at every tick, which is
// to come each PollEvery.
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
	began := !f.draining
	f.draining = true
	if began && f.count == 0 {
		close(f.gone)
	}
	all := f.listening()
	f.mu.Unlock()
	if !began {
		return
	}
	for _, ch := range all {
		ch.finish(Drained)
	}
}

// Close drains the feed, waits until all subscribers have left, and stops the
// reading. It returns the context's error when that ends the waiting.
func (f *Feed) Close(ctx context.Context) error {
	f.Drain()
	var err error
	select {
	case <-f.gone:
	case <-ctx.Done():
		select {
		case <-f.gone: // there was no subscriber
		default:
			err = ctx.Err()
		}
	}
	f.unsubscribe()
	f.stop()
	f.polls.Wait()
	f.readers.close()
	f.laggers.close()
	return err
}

// Figures are what a feed has done since its start.
type Figures struct {
	Subscribers int64 // at this moment
	Delivered   int64 // events handed to subscribers
	Reads       int64 // pages of the log for single subscribers
	Resyncs     int64 // cursors that the log could not continue from
}

// Figures returns the figures of this moment.
func (f *Feed) Figures() Figures {
	f.mu.Lock()
	count := f.count
	f.mu.Unlock()
	return Figures{
		Subscribers: int64(count),
		Delivered:   f.figures.delivered.Load(), Reads: f.figures.reads.Load(), Resyncs: f.figures.resyncs.Load(),
	}
}

// Subscribe begins a subscription of the actor's to their organisation, who
// closes it. It starts at the present, or, where it resumes, after the place
// that from names. One that the log cannot go on from is answered with an entry
// that has the client read all objects again, and then with new entries.
func (f *Feed) Subscribe(ctx context.Context, actor org.Actor, from string, resumes bool) (*Subscriber, error) {
	head, err := f.head(ctx, actor.Org)
	if err != nil {
		return nil, err
	}
	s := &Subscriber{
		feed: f, user: actor.User, cursor: head.Cursor(), wake: make(chan struct{}, 1),
		reauthorize: f.Reauthorizer(ctx), actor: actor, seen: actor.Epoch(),
	}
	if resumes {
		if at, ok := object.ParseCursor(from); ok && head.Reaches(at) {
			s.cursor = at
		} else {
			s.page, s.lost = f.resync(head), true
			f.figures.resyncs.Add(1)
		}
	}
	s.start, s.named = s.cursor, s.cursor
	if err := f.enter(s, actor.Org, head); err != nil {
		return nil, err
	}
	s.channel.observe(f, head)
	return s, nil
}

// enter registers a subscriber with the channel of its organisation, which is
// made where there is none.
func (f *Feed) enter(s *Subscriber, o id.Org, head object.Head) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return fault.New(fault.Unavailable, "The server is going away")
	}
	if f.users[s.user] >= maxOfUser {
		return fault.New(fault.Limited, "At most %d change feeds can be open at once", maxOfUser)
	}
	ch := f.channels[o]
	if ch == nil {
		ch = newChannel(o, head)
		f.channels[o] = ch
		// Hints of entries appended since the head was read went to no channel.
		f.follow(ch)
	}
	f.users[s.user]++
	f.count++
	ch.users++
	s.channel = ch
	ch.add(s)
	return nil
}

// leave removes a subscriber.
func (f *Feed) leave(s *Subscriber) {
	s.channel.remove(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[s.user]--; f.users[s.user] == 0 {
		delete(f.users, s.user)
	}
	if s.channel.users--; s.channel.users == 0 {
		delete(f.channels, s.channel.org)
	}
	if f.count--; f.count == 0 && f.draining {
		close(f.gone)
	}
}

// listening returns the channels; mu is held.
func (f *Feed) listening() []*channel {
	all := make([]*channel, 0, len(f.channels))
	for _, ch := range f.channels {
		all = append(all, ch)
	}
	return all
}

// head reads where an organisation's log stands.
func (f *Feed) head(ctx context.Context, o id.Org) (object.Head, error) {
	heads, err := f.log.Heads(ctx, []id.Org{o})
	if err != nil {
		return object.Head{}, err
	}
	return heads[o], nil
}

// resync returns the entry that takes the place of entries that cannot be read.
func (f *Feed) resync(head object.Head) []*entry {
	c := object.Change{N: head.N, Type: object.AccessChanged, Audience: &object.Audience{Everyone: true}}
	return []*entry{{head.Cursor(), c, f.Encode(head.Cursor(), c)}}
}

// receive takes a hint from the bus.
func (f *Feed) receive(h object.Hint) {
	f.mu.Lock()
	ch := f.channels[h.Org]
	f.mu.Unlock()
	if ch != nil && h.N > ch.view.Load().at.N {
		f.follow(ch)
	}
}

// poll reads the heads of the logs and the epochs of all organisations that have
// subscribers.
func (f *Feed) poll() {
	f.mu.Lock()
	all := f.listening()
	f.mu.Unlock()
	for chunk := range slices.Chunk(all, pollChunk) {
		f.note(f.look(chunk))
	}
}

func (f *Feed) look(chunk []*channel) error {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	orgs := make([]id.Org, len(chunk))
	for i, ch := range chunk {
		orgs[i] = ch.org
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
	for _, ch := range chunk {
		if head, ok := heads[ch.org]; ok {
			ch.observe(f, head)
		}
		if epoch, ok := epochs[ch.org]; ok {
			ch.refresh(epoch, now)
		} else {
			ch.abandon()
		}
	}
	return nil
}

// follow has the log of a channel's organisation read further, by one reader at a time.
func (f *Feed) follow(ch *channel) {
	if ch.claim() {
		f.readers.do(func() { f.read(ch, false) })
	}
}

// read reads a page of an organisation's log. If there is another page, or another read was
// requested meanwhile, it queues again behind all waiting organisations, so that a busy one
// does not delay the others.
func (f *Feed) read(ch *channel, more bool) {
	again := func(more bool) { f.readers.do(func() { f.read(ch, more) }) }
	if wait := ch.pause(f.Clock.Now()); wait > 0 && !more {
		f.Alarms.Set(wait, func() { again(false) })
		return
	}
	more, err := f.readPage(ch)
	f.note(err)
	switch {
	case err != nil:
		ch.release() // the next poll tries again
	case more || !ch.done():
		again(more)
	}
}

// readPage reads one page and hands it to the subscribers; more says that there
// may be another.
func (f *Feed) readPage(ch *channel) (more bool, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	from := ch.view.Load()
	// The epoch is read with the entries, so that a member removed before an entry was
	// appended is authorized again before receiving it.
	found, epoch, err := f.Epochs.Entries(ctx, ch.org, from.at.N, pageSize)
	switch {
	case fault.Is(err, fault.NotFound):
		ch.abandon()
		return false, nil
	case err != nil || len(found) == 0:
		return false, err
	}
	ch.publish(from, f.encode(from.at.Epoch, found), epoch, f.Clock.Now())
	return len(found) == pageSize, nil
}

func (f *Feed) encode(epoch int64, found []object.Change) []*entry {
	encoded := make([]*entry, len(found))
	for i, c := range found {
		at := object.Cursor{Epoch: epoch, N: c.N}
		encoded[i] = &entry{at, c, f.Encode(at, c)}
	}
	return encoded
}

// note logs when reads of the store begin to fail, and when they succeed again.
func (f *Feed) note(err error) {
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
