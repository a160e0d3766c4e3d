package stream

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
)

// FlushAt is the size of the parts in which a list is sent, in bytes.
const FlushAt = 32 << 10

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// GetBuffer returns an empty buffer.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer returns a buffer to the pool, unless it grew large.
func PutBuffer(b *[]byte) {
	if cap(*b) <= 2*FlushAt {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// The total time that a list that is being read waits for its client, so that a slow client
// does not hold a database connection.
const (
	ListQueue   = 8 // parts of FlushAt bytes that wait in memory
	ListTimeout = 250 * time.Millisecond
)

// Client is the response that a list is written to. The parts that wait for it are charged to its resources.
type Client interface {
	http.ResponseWriter
	spool.Resources

	// ExtendFor extends the deadlines for n more bytes.
	ExtendFor(n int)

	// ClientClosed records that the client closed the connection, and returns the error.
	ClientClosed(err error) error
}

// List sends a list while it is read. If the client is too slow, parts wait in memory, and
// after ListTimeout in a spool. A list whose reading holds no database connection waits
// for its client instead.
type List struct {
	client    Client
	waits     bool
	confirm   func() error
	parts     chan *[]byte  // for the sender; nil: nothing was sent yet
	done      chan struct{} // closed when the sender has ended
	sentBytes atomic.Int64  // of parts that are still charged
	err       error         // of the sender; read when it has ended
	waited    time.Duration // for the sender, so far
	spooling  bool          // the rest is spooled
	spooled   *spool.Spool
}

// NewList returns a list that waits for its client or, if waits is false, is spooled. While a slow client reads it
// confirm is called, whose error ends the list.
func NewList(c Client, waits bool, confirm func() error) *List {
	return &List{client: c, waits: waits, confirm: confirm, spooled: spool.New(c)}
}

// Begun reports whether a part was sent.
func (l *List) Begun() bool { return l.parts != nil }

// Put sends a part of the list and returns a buffer for the next.
func (l *List) Put(part *[]byte) (*[]byte, error) {
	l.release()
	if l.waits {
		if err := l.confirm(); err != nil {
			return part, err
		}
	}
	if !l.spooling {
		size := int64(cap(*part))
		if err := l.client.Hold(size); err != nil {
			return part, err
		}
		l.begin()
		switch taken, err := l.trySend(part); {
		case err != nil:
			return part, err
		case taken:
			return GetBuffer(), nil
		}
		l.client.Release(size)
		l.spooling = true
	}
	if _, err := l.spooled.Write(*part); err != nil {
		return part, fault.Wrap(fault.Unavailable, err, "There is no room for the list now")
	}
	*part = (*part)[:0]
	return part, nil
}

// begin starts the sender.
func (l *List) begin() {
	if l.parts == nil {
		l.client.Header()["Content-Type"] = []string{"application/json"}
		l.parts, l.done = make(chan *[]byte, ListQueue), make(chan struct{})
		go l.send()
	}
}

// release releases the memory of parts that were sent.
func (l *List) release() { l.client.Release(l.sentBytes.Swap(0)) }

// trySend passes a part to the sender, unless ListTimeout has passed before.
func (l *List) trySend(part *[]byte) (taken bool, err error) {
	select {
	case l.parts <- part:
		return true, nil
	case <-l.done:
		return false, l.client.ClientClosed(l.err)
	default:
	}
	var expired <-chan time.Time
	if !l.waits {
		began := time.Now()
		timer := time.NewTimer(ListTimeout - l.waited)
		defer func() {
			timer.Stop()
			l.waited += time.Since(began)
		}()
		expired = timer.C
	}
	select {
	case l.parts <- part:
		return true, nil
	case <-l.done:
		return false, l.client.ClientClosed(l.err)
	case <-expired:
		return false, nil
	}
}

func (l *List) send() {
	defer close(l.done)
	for part := range l.parts {
		l.client.ExtendFor(len(*part))
		if _, l.err = l.client.Write(*part); l.err != nil {
			return
		}
		l.sentBytes.Add(int64(cap(*part)))
		PutBuffer(part)
	}
}

// Finish sends the rest.
func (l *List) Finish() error {
	l.end()
	if l.err != nil {
		return l.client.ClientClosed(l.err)
	}
	if !l.spooling {
		return nil
	}
	if err := l.spooled.Rewind(); err != nil {
		return err
	}
	b := GetBuffer()
	defer PutBuffer(b)
	for part := (*b)[:cap(*b)]; ; {
		n, err := l.spooled.Read(part)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = l.confirm()
		}
		if err != nil {
			return err
		}
		l.client.ExtendFor(n)
		if _, err := l.client.Write(part[:n]); err != nil {
			return l.client.ClientClosed(err)
		}
	}
}

// end waits for the sender to send its last part.
func (l *List) end() {
	if l.parts != nil {
		close(l.parts)
		<-l.done
		l.parts = nil
		l.release()
	}
}

// Close ends the list, also if parts were not sent, and releases the spool.
func (l *List) Close() {
	if l.parts != nil {
		_ = http.NewResponseController(l.client).SetWriteDeadline(time.Unix(1, 0))
		l.end()
	}
	_ = l.spooled.Close() // the file is unlinked
}
