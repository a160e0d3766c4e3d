package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// What a client has time for. One that sends or takes nothing more must hold
// neither a connection nor, while a list is read for it, one of the database's.
// Whoever streams for longer sets deadlines of its own.
const (
	bodyWithin   = 30 * time.Second           // for all of a body
	workWithin   = bodyWithin + 5*time.Second // for what we do, of which reading the body is a part
	answerWithin = workWithin + 5*time.Second // for an answer, also one that says what took too long; more for a long one:
	slowest      = 64 << 10                   // so many bytes a second
)

// hurry sets the deadlines of a request that began when the call did. A writer
// that is no connection has none.
func (c *call) hurry() {
	control := http.NewResponseController(c.w)
	_ = control.SetWriteDeadline(c.since.Add(answerWithin))
	if c.r.Body != http.NoBody {
		_ = control.SetReadDeadline(c.since.Add(bodyWithin))
	}
}

// whole ends the deadline of a body that was read. The connection is read on
// to notice when the client leaves, and that takes as long as the answer does.
func (c *call) whole() {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
}

// errLate is the cause of a context that ended because something that we depend
// on did not answer in time.
var errLate = errors.New("the work took too long")

// limit ends the work for the call after its time, so that a database that does
// not answer holds no requests. The function it returns is called at the end.
func (c *call) limit() (end func()) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	c.r = c.r.WithContext(ctx)
	c.late = time.AfterFunc(workWithin, func() { cancel(errLate) })
	return func() {
		c.late.Stop()
		cancel(nil)
	}
}

// endure ends what limits the call's time, for whoever streams.
func (c *call) endure() {
	c.whole()
	if c.late != nil {
		c.late.Stop()
	}
}

// prolong moves the deadlines on for n more bytes of a long answer.
func (c *call) prolong(n int) {
	all := c.bytes + int64(n)
	if all <= flushAt {
		return
	}
	more := time.Duration(all) * time.Second / slowest
	_ = http.NewResponseController(c.w).SetWriteDeadline(c.since.Add(answerWithin + more))
	if c.late != nil && c.late.Stop() {
		c.late.Reset(workWithin + more)
	}
}
