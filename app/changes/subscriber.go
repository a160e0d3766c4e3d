package changes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/session"
)

// Reason is why a subscription ended.
type Reason string

// The reasons for which a feed ends a subscription.
const (
	Expired Reason = "expired" // the token
	Removed Reason = "removed" // the actor is no longer a member
	Drained Reason = "drained" // the server is stopping
)

// closed is the reason of Close.
const closed Reason = "closed"

// Subscriber is one member's cursor in the log of their organisation. One goroutine calls
// Take and TakeCursor; the other methods may be called from any.
type Subscriber struct {
	feed   *Feed
	topic  *topic
	user   id.User
	start  object.Cursor
	resync bool // the log could not continue from the requested cursor
	index  int  // index in topic.subscribers; guarded by topic.mu
	wake   chan struct{}
	probe  atomic.Bool // see ShouldProbe

	reauthorize Reauthorize // with the session and expiry of the request that subscribed

	// Used only by the goroutine that calls Take and TakeCursor.
	cursor object.Cursor // every visible entry up to it was returned by Take
	sent   object.Cursor // the last cursor that was sent to the client

	mu              sync.Mutex
	actor           org.Actor // as last authorized; guarded by mu
	authorizedEpoch int64     // the epoch at which actor was authorized; guarded by mu
	busy            bool      // a job is queued or runs; guarded by mu
	page            []*entry  // entries read from the log, which Take returns first; guarded by mu
	endReason       Reason    // guarded by mu
	onEnd           func()    // guarded by mu
}

// Woken returns a channel that receives when Take may return frames, or the subscription ended.
func (s *Subscriber) Woken() <-chan struct{} { return s.wake }

// Wake sends a value on the channel of Woken, unless one is pending.
func (s *Subscriber) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ShouldProbe reports, once, that another subscription of the user was refused, so that the caller should
// check whether the client of this one is still connected.
func (s *Subscriber) ShouldProbe() bool { return s.probe.Swap(false) }

// Start returns the cursor that the subscription starts after; resync reports that it is not the
// requested one, and that the first frame has the client read all objects again.
func (s *Subscriber) Start() (at object.Cursor, resync bool) { return s.start, s.resync }

// Ended returns why the subscription ended, or "" if it has not.
func (s *Subscriber) Ended() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endReason
}

// OnEnd has fn called when the feed ends the subscription, at once if it has ended. Fn must
// not block. It is not called after Close returned.
func (s *Subscriber) OnEnd(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onEnd = fn
	if s.endReason != "" {
		fn()
	}
}

// Close ends the subscription. The caller of Subscribe calls it.
func (s *Subscriber) Close() {
	s.mu.Lock()
	s.onEnd, s.page = nil, nil
	if s.endReason == "" {
		s.endReason = closed
	}
	s.mu.Unlock()
	s.feed.unregister(s)
}

// finish ends the subscription, if it has not ended, and calls the function of OnEnd.
func (s *Subscriber) finish(reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endReason != "" {
		return
	}
	s.endReason, s.page = reason, nil
	if s.onEnd != nil {
		s.onEnd()
	}
	s.Wake()
}

// Take appends the frames of the next visible entries to frames, up to its capacity. If it
// appends none, there are none until Woken receives a value. The frames are shared and must
// not be changed.
func (s *Subscriber) Take(frames [][]byte) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endReason != "" || s.busy {
		return frames
	}
	v := s.topic.view.Load()
	if v.orgEpoch > s.authorizedEpoch {
		s.startJob(func(ctx context.Context) error { return s.reauthorizeAt(ctx, v.orgEpoch) })
		return frames
	}
	initial := len(frames)
	for {
		next, paged := s.page, len(s.page) > 0
		if !paged {
			var ok bool
			if next, ok = v.after(s.cursor); !ok {
				at := s.cursor
				s.startJob(func(ctx context.Context) error { return s.read(ctx, v.orgEpoch, at) })
				return frames
			}
		}
		resynced := false
		for len(next) > 0 && len(frames) < cap(frames) {
			e := next[0]
			next = next[1:]
			s.cursor = e.at
			if !e.change.VisibleTo(s.actor) {
				continue
			}
			if e.change.Type == object.AccessChanged {
				// A client that reads everything again after the first needs no others.
				if resynced {
					continue
				}
				resynced = true
			}
			s.sent = e.at
			frames = append(frames, e.frame)
		}
		if paged {
			if s.page = next; len(next) == 0 {
				s.page = nil
			}
		}
		if n := len(frames) - initial; n > 0 {
			s.feed.stats.delivered.Add(int64(n))
		}
		// A page with nothing for the actor is followed by the next at once.
		if !paged || len(frames) > initial || len(s.page) > 0 {
			return frames
		}
	}
}

// TakeCursor returns the subscription's cursor, and reports whether it differs from that of the last
// frame or call of TakeCursor.
func (s *Subscriber) TakeCursor() (at object.Cursor, moved bool) {
	if s.sent == s.cursor {
		return s.cursor, false
	}
	s.sent = s.cursor
	return s.cursor, true
}

// startJob queues a job for the subscriber; until it ends Take returns nothing. The caller holds mu.
func (s *Subscriber) startJob(job func(context.Context) error) {
	s.busy = true
	f := s.feed
	f.catchUp.submit(func() {
		if s.Ended() != "" {
			return
		}
		ctx, cancel := context.WithTimeout(f.ctx, queryTimeout)
		defer cancel()
		err := fault.Catch(func() error { return job(ctx) })
		f.logState(err)
		if err != nil {
			s.endJob(nil)
			s.topic.markFailed()
		}
	})
}

// endJob ends a job. Change, unless it is nil, stores its result.
func (s *Subscriber) endJob(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if s.endReason == "" && change != nil {
		change()
		s.Wake()
	}
}

// reauthorizeAt authorizes the actor again, because the organisation has reached the epoch.
func (s *Subscriber) reauthorizeAt(ctx context.Context, orgEpoch int64) error {
	actor, err := s.currentActor(ctx)
	if err != nil || actor.User == "" {
		return err
	}
	s.endJob(func() { s.actor, s.authorizedEpoch = actor, max(orgEpoch, actor.Epoch()) })
	return nil
}

// read reads the log from at on for this subscriber alone.
func (s *Subscriber) read(ctx context.Context, orgEpoch int64, at object.Cursor) error {
	f := s.feed
	f.stats.reads.Add(1)
	head, err := f.head(ctx, s.topic.org)
	if err != nil {
		return err
	}
	s.topic.observe(f, head)
	var page []*entry
	if head.Reaches(at) {
		if head.N == at.N {
			s.endJob(func() {}) // the topic was behind the log, and may have caught up meanwhile
			return nil
		}
		found, err := f.log.List(ctx, s.topic.org, at.N, pageSize)
		if err != nil {
			return err
		}
		if len(found) > 0 && found[0].N == at.N+1 {
			page = limitPage(f.encode(at.Epoch, found))
		}
	}
	if page == nil {
		// The entries were pruned, or the log was replaced.
		if head, err = f.head(ctx, s.topic.org); err != nil {
			return err
		}
		page = f.resync(head)
		f.stats.resyncs.Add(1)
	}
	// The actor is authorized after the entries were read, as with the ring.
	actor, err := s.currentActor(ctx)
	if err != nil || actor.User == "" {
		return err
	}
	s.endJob(func() { s.actor, s.authorizedEpoch, s.page = actor, max(orgEpoch, actor.Epoch()), page })
	return nil
}

// limitPage returns the first entries of a page with at most maxPage bytes together, at least one.
func limitPage(page []*entry) []*entry {
	bytes := 0
	end := slices.IndexFunc(page, func(e *entry) bool {
		bytes += len(e.frame)
		return bytes > maxPage
	})
	if end < 0 {
		return page
	}
	return slices.Clone(page[:max(end, 1)]) // without a reference to the others
}

// currentActor authorizes the actor again. If that is refused, it ends the subscription and
// returns the zero value.
func (s *Subscriber) currentActor(ctx context.Context) (org.Actor, error) {
	s.mu.Lock()
	previous := s.actor
	s.mu.Unlock()
	actor, err := s.reauthorize(ctx, previous)
	switch {
	case err == nil:
		return actor, nil
	case errors.Is(err, session.ErrExpired):
		s.finish(Expired)
	case fault.Is(err, fault.Unauthenticated, fault.Forbidden):
		s.finish(Removed)
	default:
		return org.Actor{}, err
	}
	return org.Actor{}, nil
}
