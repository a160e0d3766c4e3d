package limit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"collab/domain/fault"
)

const (
	// maxWait is how long Acquire waits for a permit.
	maxWait = 5 * time.Second

	// maxQueue is how many calls of Acquire of one holder wait at once.
	maxQueue = 4096

	// aloneAfter is how long no other holder must have acquired a permit before one counts as alone.
	aloneAfter = 10 * time.Second

	// maxSpare is how many records of holders without permits are kept for reuse.
	maxSpare = 64
)

// Concurrency is how many permits of each kind of work a server has, which organisations share.
type Concurrency struct {
	Requests  int // requests that use the database
	Streams   int // change feeds
	Transfers int // uploads and downloads of files
	Calls     int // calls of models and other providers
	Webhooks  int // messages of providers
}

// minRequests is the least number of permits for requests that follows from that of processors.
const minRequests = 64

// ParseConcurrency reads a text such as "requests=32/processor,streams=connections,calls=1024" over
// the defaults, which are such a text with all kinds, for a server with so many processors and
// connections. A number for each processor gives at least minRequests.
func ParseConcurrency(defaults, s string, processors, connections int) (c Concurrency, err error) {
	number := parseNumber(16)
	err = parseList(defaults, s, "number such as requests=64, of requests, streams, transfers, calls or "+
		"webhooks, of 16 to 1000000, or as 32/processor or connections",
		map[string]*int{"requests": &c.Requests, "streams": &c.Streams, "transfers": &c.Transfers, "calls": &c.Calls, "webhooks": &c.Webhooks},
		func(value string) (int, bool) {
			if value == "connections" {
				return max(16, connections), true
			}
			each, isEach := strings.CutSuffix(value, "/processor")
			n, ok := number(each)
			if isEach {
				n = max(minRequests, n*processors)
			}
			return n, ok
		})
	return c, err
}

// Shares is a counting semaphore that is fair between holders. A holder has at most its share
// of the permits, or all of them while no other holder uses the semaphore, and can always have
// a few, even if no permit is free. Calls of one holder are served in their order, and holders
// in turns. Nil allows everything.
type Shares struct {
	work     string // what a permit is for, in errors
	capacity int    // permits
	share    int    // permits that one holder has at most beside others
	reserved int    // permits that each holder can always have

	mu       sync.Mutex
	used     int                // guarded by mu
	holders  map[string]*holder // guarded by mu; those with permits or waiting calls
	queue    []*holder          // guarded by mu; those with waiting calls, the next one first
	spare    []*holder          // guarded by mu; without permits and waiting calls
	refusals int64              // guarded by mu
	last     string             // guarded by mu; the holder that acquired the last permit
	changed  time.Time          // guarded by mu; when it took the first after another holder; zero: there was none
}

// holder has the permits and the waiting calls of one holder.
type holder struct {
	key     string
	permits int
	waiting []chan struct{} // each is closed when its call is granted a permit
}

// NewShares returns a semaphore for a kind of work, which is named in errors. Beside others, one
// holder has at most share of the permits, and always reserved.
func NewShares(work string, capacity, share, reserved int) *Shares {
	return &Shares{work: work, capacity: capacity, share: max(share, reserved), reserved: reserved, holders: map[string]*holder{}}
}

// Permit is a permit that a holder has acquired. The zero value is none. It is not safe for
// concurrent use.
type Permit struct {
	shares *Shares
	holder *holder
}

// Held reports whether the permit is held.
func (p *Permit) Held() bool { return p.shares != nil }

// Release releases the permit, if it is held.
func (p *Permit) Release() {
	if s := p.shares; s != nil {
		h := p.holder
		*p = Permit{}
		s.release(h)
	}
}

// Acquire acquires a permit for the holder. If the holder has its share or no permit is free, it waits
// for one, at most maxWait and until the context is done; it may succeed at that moment. It
// fails with fault.Unavailable after that time, or if maxQueue calls of the holder wait.
func (s *Shares) Acquire(ctx context.Context, key string) (Permit, error) {
	if s == nil {
		return Permit{}, nil
	}
	s.mu.Lock()
	h := s.holder(key)
	if len(h.waiting) == 0 && s.admits(h) {
		s.take(h)
		s.mu.Unlock()
		return Permit{s, h}, nil
	}
	if len(h.waiting) >= maxQueue {
		s.refusals++
		s.mu.Unlock()
		return Permit{}, s.full()
	}
	granted := make(chan struct{})
	if len(h.waiting) == 0 {
		s.queue = append(s.queue, h)
	}
	h.waiting = append(h.waiting, granted)
	s.mu.Unlock()

	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-granted:
		return Permit{s, h}, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(h.waiting, granted)
	if at < 0 { // granted in the meantime
		return Permit{s, h}, nil
	}
	s.remove(h, at)
	s.forget(h)
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	s.refusals++
	return Permit{}, s.full()
}

func (s *Shares) full() error {
	return fault.New(fault.Unavailable, "The organisation has too many %s under way on this server", s.work).RetryIn(1)
}

// holder returns the record of a holder. The caller holds mu.
func (s *Shares) holder(key string) *holder {
	h := s.holders[key]
	if h != nil {
		return h
	}
	if n := len(s.spare); n > 0 {
		h, s.spare = s.spare[n-1], s.spare[:n-1]
		h.key = key
	} else {
		h = &holder{key: key}
	}
	s.holders[key] = h
	return h
}

// forget removes a holder's record if it has neither permits nor waiting calls. The caller holds
// mu.
func (s *Shares) forget(h *holder) {
	if h.permits > 0 || len(h.waiting) > 0 {
		return
	}
	delete(s.holders, h.key)
	if len(s.spare) < maxSpare {
		h.key, h.waiting = "", nil
		s.spare = append(s.spare, h)
	}
}

// admits reports whether the holder may take one more permit. The caller holds mu.
func (s *Shares) admits(h *holder) bool {
	if h.permits < s.reserved {
		return true
	}
	return s.used < s.capacity && (h.permits < s.share || s.alone(h))
}

// take acquires a permit for the holder. The caller holds mu.
func (s *Shares) take(h *holder) {
	s.used++
	h.permits++
	if s.last != h.key {
		if s.last != "" {
			s.changed = time.Now()
		}
		s.last = h.key
	}
}

// alone reports whether no other holder uses the semaphore, nor has for aloneAfter. The caller
// holds mu.
func (s *Shares) alone(h *holder) bool {
	return len(s.holders) == 1 && (s.last == "" || s.last == h.key) && (s.changed.IsZero() || time.Since(s.changed) >= aloneAfter)
}

// release returns a permit of the holder and grants permits to waiting calls.
func (s *Shares) release(h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	h.permits--
	s.forget(h) // first: the holder that is left may be alone now
	for s.grant() {
	}
}

// grant gives a permit to the first waiting call of the next holder that may have one, and
// reports whether there was one. The caller holds mu.
func (s *Shares) grant() bool {
	at := slices.IndexFunc(s.queue, s.admits)
	if at < 0 {
		return false
	}
	h := s.queue[at]
	s.take(h)
	close(h.waiting[0])
	s.remove(h, 0)
	if len(h.waiting) > 0 {
		s.queue = append(slices.Delete(s.queue, at, at+1), h)
	}
	return true
}

// remove removes a waiting call of the holder. The caller holds mu.
func (s *Shares) remove(h *holder, at int) {
	if h.waiting = slices.Delete(h.waiting, at, at+1); len(h.waiting) == 0 {
		i := slices.Index(s.queue, h)
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}

// SharesStats are the present use of Shares.
type SharesStats struct {
	Used, Waiting int64
	Refusals      int64 // since the start
}

// Stats returns the present use.
func (s *Shares) Stats() SharesStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := SharesStats{Used: int64(s.used), Refusals: s.refusals}
	for _, h := range s.queue {
		f.Waiting += int64(len(h.waiting))
	}
	return f
}
