package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"collab/domain/fault"
)

// Time limits of a request, so that a client that stops sending or reading holds neither a
// connection nor, for a list, a database connection. Event streams have their own
// deadlines.
const (
	BodyTimeout     = 30 * time.Second            // for all of a body
	WorkTimeout     = BodyTimeout + 5*time.Second // for handling, which includes reading the body
	ResponseTimeout = WorkTimeout + 5*time.Second // for a response, also one that reports a timeout; longer ones get more, by:
	MinRate         = 64 << 10                    // bytes a second
)

// ErrTimeout is the cause of a request's context that ended because handling took too long.
var ErrTimeout = errors.New("the work took too long")

// Deadlines are the deadlines of one request. They are not safe for concurrent use.
type Deadlines struct {
	w         http.ResponseWriter
	began     time.Time
	ctx       timeoutContext
	received  int64         // of a long body, in bytes
	extension time.Duration // by which Extend has extended the deadlines
}

// Start sets the deadlines of a request that began at since. A writer without a connection
// has none.
func Start(w http.ResponseWriter, r *http.Request, since time.Time) Deadlines {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(since.Add(ResponseTimeout))
	if r.Body != http.NoBody {
		_ = control.SetReadDeadline(since.Add(BodyTimeout))
	}
	return Deadlines{w: w, began: since}
}

// Context returns a context that ends with ErrTimeout after WorkTimeout, so that requests do not
// wait longer for a database. It may be called once.
func (d *Deadlines) Context(parent context.Context) context.Context {
	d.ctx.parent, d.ctx.began, d.ctx.limit = parent, time.Now(), WorkTimeout
	return &d.ctx
}

// AddValue makes the context carry the value that add gives to a context derived from the
// parent.
func (d *Deadlines) AddValue(add func(parent context.Context) context.Context) {
	d.ctx.mu.Lock()
	defer d.ctx.mu.Unlock()
	d.ctx.parent = add(d.ctx.parent)
}

// End ends the context of the request. It may be called concurrently with the other methods, and again.
func (d *Deadlines) End() {
	d.ctx.mu.Lock()
	defer d.ctx.mu.Unlock()
	d.ctx.ended = true
	if d.ctx.inner != nil {
		d.ctx.stop()
		d.ctx.cancel(nil)
	}
}

// clearRead clears the read deadline. The connection is still read, to notice that the
// client closes it, for as long as the response takes.
func (d *Deadlines) clearRead() { _ = http.NewResponseController(d.w).SetReadDeadline(time.Time{}) }

// Clear clears the deadlines of reading and of the work, for an event stream.
func (d *Deadlines) Clear() {
	d.clearRead()
	d.ctx.mu.Lock()
	defer d.ctx.mu.Unlock()
	d.ctx.limit = 0
	d.ctx.stop()
}

// transferTime returns the time that so many bytes may take at MinRate.
func transferTime(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / MinRate * float64(time.Second)) // in integers 9 GB would overflow
}

// ExtendFor extends the deadlines for a response of so many bytes.
func (d *Deadlines) ExtendFor(bytes int64) {
	if all := d.received + bytes; all > FlushAt {
		d.Extend(transferTime(all))
	}
}

// Extend gives the work and the response more time, unless they have that much already.
func (d *Deadlines) Extend(more time.Duration) {
	if more <= d.extension {
		return
	}
	d.extension = more
	_ = http.NewResponseController(d.w).SetWriteDeadline(d.began.Add(ResponseTimeout + more))
	d.ctx.mu.Lock()
	defer d.ctx.mu.Unlock()
	if d.ctx.limit == 0 {
		return
	}
	d.ctx.limit = WorkTimeout + more
	if d.ctx.stop() {
		d.ctx.timer.Reset(d.ctx.remaining())
	}
}

// Body returns a reader of a request's body, whose end clears the read deadline. The bytes
// of a long one extend the deadlines. It fails with fault.Invalid if the body cannot be
// read or arrives too slowly.
func (d *Deadlines) Body(r *http.Request, long bool) io.Reader { return &bodyReader{d, r, long, 0} }

type bodyReader struct {
	*Deadlines
	r        *http.Request
	long     bool
	extended int64 // bytes for which the deadlines were extended
}

// Read reads a part of the body.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Body.Read(p)
	if b.long {
		b.received += int64(n)
	}
	if b.received-b.extended >= MinRate {
		b.extended = b.received
		more := transferTime(b.extended)
		_ = http.NewResponseController(b.w).SetReadDeadline(b.began.Add(BodyTimeout + more))
		b.Extend(more)
	}
	switch {
	case err == nil:
	case err == io.EOF:
		b.clearRead()
	case errors.Is(err, os.ErrDeadlineExceeded) && b.extended > 0:
		err = fault.Wrap(fault.Invalid, err, "The body came more slowly than %d bytes a second", MinRate)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.Wrap(fault.Invalid, err, "The body did not come within %d seconds", int(BodyTimeout.Seconds()))
	case errors.Is(err, io.ErrUnexpectedEOF):
		// The client has closed the connection, which ends the request's context, or its writing half only.
		err = fault.Wrap(fault.Invalid, errors.Join(err, b.r.Context().Err()), "The body ended before its length")
	case b.r.Context().Err() != nil:
		err = b.r.Context().Err()
	default:
		err = fault.Wrap(fault.Invalid, err, "The body could not be read")
	}
	return n, err
}

// timeoutContext is a context that ends with ErrTimeout after its limit, counted from began. The timer
// and the derived context are only made when Done or Err is called, as most work in memory
// never does.
type timeoutContext struct {
	began time.Time

	mu     sync.Mutex
	parent context.Context         // guarded by mu
	limit  time.Duration           // guarded by mu: 0: there is none
	ended  bool                    // guarded by mu
	inner  context.Context         // guarded by mu: nil until it is made
	cancel context.CancelCauseFunc // guarded by mu: of inner
	timer  *time.Timer             // guarded by mu: cancels inner; nil: there is no limit
}

// derived returns the inner context, which it makes at the first call.
func (w *timeoutContext) derived() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner != nil {
		return w.inner
	}
	inner, cancel := context.WithCancelCause(w.parent)
	w.inner, w.cancel = inner, cancel
	switch {
	case w.ended:
		cancel(nil)
	case w.limit > 0 && w.remaining() <= 0:
		cancel(ErrTimeout)
	case w.limit > 0:
		w.timer = time.AfterFunc(w.remaining(), func() { cancel(ErrTimeout) })
	}
	return inner
}

// remaining returns the time until the limit. The caller holds mu.
func (w *timeoutContext) remaining() time.Duration { return time.Until(w.began.Add(w.limit)) }

// stop stops the timer and reports whether it ran. The caller holds mu.
func (w *timeoutContext) stop() bool { return w.timer != nil && w.timer.Stop() }

// Done implements context.Context.
func (w *timeoutContext) Done() <-chan struct{} { return w.derived().Done() }

// Err implements context.Context.
func (w *timeoutContext) Err() error { return w.derived().Err() }

// Deadline implements context.Context with the deadline of the parent: the limit may still
// be extended.
func (w *timeoutContext) Deadline() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parent.Deadline()
}

// Value implements context.Context. The derived context has values of package context, and
// the parent those that were added later.
func (w *timeoutContext) Value(key any) any {
	w.mu.Lock()
	inner, parent := w.inner, w.parent
	w.mu.Unlock()
	if inner != nil {
		if v := inner.Value(key); v != nil {
			return v
		}
	}
	return parent.Value(key)
}
