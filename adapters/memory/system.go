package memory

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/mail"
	"collab/ports"
)

var (
	_ ports.Clock   = (*Clock)(nil)
	_ ports.IDs     = (*IDs)(nil)
	_ ports.Secrets = (*Secrets)(nil)
	_ ports.Mailer  = (*Mailer)(nil)
	_ ports.Alarms  = (*Alarms)(nil)
)

// Clock is a clock that moves only by Set and Advance.
type Clock struct {
	mu     sync.Mutex
	now    time.Time       // guarded by mu
	alarms map[*alarm]bool // those that are pending; guarded by mu
}

// NewClock returns a clock that shows the time.
func NewClock(now time.Time) *Clock {
	c := &Clock{}
	c.Set(now)
	return c
}

// Now returns the time that the clock was set to, in UTC and whole
// milliseconds.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock to a time, back too.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now.UTC().Truncate(time.Millisecond)
	c.fire()
}

// Advance moves the clock on and returns the new time.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d).Truncate(time.Millisecond)
	c.fire()
	return c.now
}

// fire starts the functions of the alarms that are due. The caller holds mu.
func (c *Clock) fire() {
	for a := range c.alarms {
		if !c.now.Before(a.at) {
			delete(c.alarms, a)
			go a.fn()
		}
	}
}

// Alarms implements ports.Alarms on a Clock.
type Alarms struct{ Clock *Clock }

// Set calls fn when the clock has been moved that far.
func (s *Alarms) Set(after time.Duration, fn func()) ports.Alarm {
	c := s.Clock
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{clock: c, at: c.now.Add(after), fn: fn}
	if c.alarms == nil {
		c.alarms = map[*alarm]bool{}
	}
	c.alarms[a] = true
	c.fire()
	return a
}

type alarm struct {
	clock *Clock
	at    time.Time // guarded by the clock's mu
	fn    func()
}

func (a *alarm) Reset(after time.Duration) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.at = a.clock.now.Add(after)
	a.clock.fire()
}

func (a *alarm) Stop() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	delete(a.clock.alarms, a)
}

// IDs returns consecutive numbers in the form of UUIDv7. The zero value is ready to use.
type IDs struct{ n atomic.Uint64 }

// New returns the next id: 00000000-0000-7000-8000-000000000001 is the first.
func (i *IDs) New() string {
	return fmt.Sprintf("00000000-0000-7000-8000-%012x", i.n.Add(1))
}

// Secrets returns different secrets, the same in every run. The zero value
// is ready to use.
type Secrets struct{ n atomic.Uint64 }

// Secret returns the next secret, 43 characters that look random.
func (s *Secrets) Secret() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "secret %d", s.n.Add(1)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Mailer records messages. The zero value is ready to use.
type Mailer struct {
	mu   sync.Mutex
	sent []mail.Message // guarded by mu
}

// Send records the message.
func (m *Mailer) Send(_ context.Context, message mail.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, message)
	return nil
}

// Sent returns all messages in the order they were sent.
func (m *Mailer) Sent() []mail.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}
