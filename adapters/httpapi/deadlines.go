package httpapi

import (
	"net/http"
	"time"
)

// What a client has time for. One that sends or takes nothing more must hold
// neither a connection nor, while a list is read for it, one of the database's.
// Whoever streams for longer sets deadlines of its own.
const (
	bodyWithin   = 30 * time.Second            // for all of a body
	answerWithin = bodyWithin + 10*time.Second // for an answer, also one that says the body did not come; more for a long one:
	slowest      = 64 << 10                    // so many bytes a second
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

// prolong moves the answer's deadline on for n more bytes of a long one.
func (c *call) prolong(n int) {
	if all := c.bytes + int64(n); all > flushAt {
		_ = http.NewResponseController(c.w).SetWriteDeadline(c.since.Add(answerWithin + time.Duration(all)*time.Second/slowest))
	}
}
