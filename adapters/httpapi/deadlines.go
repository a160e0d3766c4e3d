package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"collab/domain/fault"
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
	if all := c.came + c.bytes + int64(n); all > flushAt {
		c.allow(time.Duration(all) * time.Second / slowest)
	}
}

// allow gives the work and the answer more time than they have from the start.
func (c *call) allow(more time.Duration) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(c.since.Add(answerWithin + more))
	if c.late != nil && c.late.Stop() {
		c.late.Reset(workWithin + more)
	}
}

// bodyReader is a request's body. Its end clears the read deadline. The bytes of a long
// one extend the deadlines.
type bodyReader struct {
	c    *call
	long bool
	told int64 // bytes that the deadlines were extended for
}

// Read reads a part of the body.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.c.r.Body.Read(p)
	if b.long {
		b.c.came += int64(n)
	}
	if b.c.came-b.told >= slowest {
		b.told = b.c.came
		more := time.Duration(b.told) * time.Second / slowest
		_ = http.NewResponseController(b.c.w).SetReadDeadline(b.c.since.Add(bodyWithin + more))
		b.c.allow(more)
	}
	switch {
	case err == io.EOF:
		b.c.whole()
	case err != nil && b.told > 0 && errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.Wrap(fault.Invalid, err, "The body came more slowly than %d bytes a second", slowest)
	case err != nil:
		err = b.c.unread(err)
	}
	return n, err
}

// unread says why a body was not read to its end.
func (c *call) unread(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(fault.Invalid, err, "The body did not come within %d seconds", int(bodyWithin.Seconds()))
	}
	if c.r.Context().Err() != nil {
		return c.r.Context().Err()
	}
	return fault.Wrap(fault.Invalid, err, "The body could not be read")
}
