// Package stream sends long responses: event streams, for which it hijacks connections, and
// lists that are read while they are sent. It sets the deadlines of requests.
package stream

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Time limits of a client.
const (
	WriteTimeout = 10 * time.Second       // for each write of an event stream
	WriteSlack   = 5 * time.Second        // that a deadline may be later, so that it is set less often
	EndTimeout   = 500 * time.Millisecond // for the last write of a stream that the server ends
)

// EventStream is the media type of event streams.
const EventStream = "text/event-stream"

var noStore = []string{"no-store"}

// SetHeaders sets the headers of an event stream, for clients and proxies.
func SetHeaders(h http.Header) {
	h["Content-Type"] = []string{EventStream}
	h["Cache-Control"] = noStore
	h["X-Accel-Buffering"] = []string{"no"}
}

// Writer sends an event stream to one client. A stream that mostly waits hijacks its connection
// over HTTP/1.1: what net/http holds for one, and does for each write, is more than it needs.
// Send and Finish must not be called concurrently.
type Writer struct {
	now      func() time.Time
	conn     net.Conn                 // hijacked; nil if w is used
	w        http.ResponseWriter      // nil if the connection is hijacked
	control  *http.ResponseController // of w
	head     []byte                   // of a response on conn, until it is sent
	deadline time.Time                // of the next write, as it was set
	lasting  bool                     // a deadline that passes ends the stream, written to or not
	ending   atomic.Bool              // SetEndDeadline was called
}

// Hijack returns the writer of a hijacked connection. It fails with errors.ErrUnsupported
// if the protocol is not HTTP/1.1 or w cannot be hijacked.
func Hijack(w http.ResponseWriter, r *http.Request, now func() time.Time) (*Writer, error) {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 {
		return nil, errors.ErrUnsupported
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	// The same head as net/http's.
	h := w.Header()
	h["Date"] = []string{now().UTC().Format(http.TimeFormat)}
	h["Connection"] = []string{"close"} // the end of the stream closes the connection
	h["Transfer-Encoding"] = []string{"chunked"}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(&b) // a buffer never fails
	b.WriteString("\r\n")
	return &Writer{now: now, conn: conn, head: b.Bytes()}, nil
}

// NewWriter returns a writer through w, and sends the status 200.
func NewWriter(w http.ResponseWriter, r *http.Request, now func() time.Time) *Writer {
	w.WriteHeader(http.StatusOK)
	return &Writer{now: now, w: w, control: http.NewResponseController(w), lasting: r.ProtoMajor > 1}
}

// Hijacked reports whether the stream has a connection of its own.
func (w *Writer) Hijacked() bool { return w.conn != nil }

// Send sends frames within WriteTimeout.
func (w *Writer) Send(frames ...[]byte) error { return w.send(frames, "") }

// Finish sends the mark of a whole response on a hijacked connection. Net/http sends it on
// others.
func (w *Writer) Finish() error {
	if w.conn == nil {
		return nil
	}
	return w.send(nil, lastChunk)
}

// SendLast is Send for the last frame of a stream that is not hijacked: net/http sends it with the mark of a
// whole response, in one write.
func (w *Writer) SendLast(frame []byte) error {
	w.extendDeadline(w.now())
	_, err := w.w.Write(frameText(frame))
	return err
}

// extendDeadline gives the next write WriteTimeout.
func (w *Writer) extendDeadline(now time.Time) {
	// Setting a deadline costs more than one that passes while nothing is written, which
	// HTTP/1.1 does not mind.
	if w.lasting || w.deadline.Sub(now) < WriteTimeout {
		if w.deadline = now.Add(WriteTimeout); !w.lasting {
			w.deadline = w.deadline.Add(WriteSlack)
		}
		w.setDeadline(w.deadline)
		if w.ending.Load() {
			w.setDeadline(now.Add(EndTimeout))
		}
	}
}

func (w *Writer) send(frames [][]byte, end string) error {
	w.extendDeadline(w.now())
	if w.conn == nil {
		for i, f := range frames {
			frames[i] = frameText(f)
		}
	}
	err := w.writeAll(frames, end)
	if err == nil && w.lasting {
		w.setDeadline(time.Time{})
	}
	return err
}

// writeAll writes the head if it was not sent, the frames and the end, in as few writes as a buffer of about FlushAt
// bytes allows.
func (w *Writer) writeAll(frames [][]byte, end string) error {
	if len(frames) == 1 && w.head == nil && end == "" {
		return w.write(frames[0])
	}
	b := GetBuffer()
	defer PutBuffer(b)
	*b = append(*b, w.head...)
	w.head = nil
	for _, f := range frames {
		if len(*b) > 0 && len(*b)+len(f) > FlushAt {
			if err := w.write(*b); err != nil {
				return err
			}
			*b = (*b)[:0]
		}
		*b = append(*b, f...)
	}
	return w.write(append(*b, end...))
}

func (w *Writer) write(b []byte) error {
	if w.conn != nil {
		_, err := w.conn.Write(b)
		return err
	}
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	if err := w.control.Flush(); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// setDeadline sets the deadline of writes. A writer without a connection has none. It may be
// called concurrently with Send.
func (w *Writer) setDeadline(t time.Time) {
	if w.conn != nil {
		_ = w.conn.SetWriteDeadline(t)
		return
	}
	_ = w.control.SetWriteDeadline(t)
}

// SetEndDeadline limits the present and the last write to EndTimeout. It may be called
// concurrently with Send.
func (w *Writer) SetEndDeadline() {
	w.ending.Store(true)
	w.setDeadline(w.now().Add(EndTimeout))
}

// ClosedByClient reports whether the client has closed a hijacked connection, without waiting.
func (w *Writer) ClosedByClient() bool { return w.conn != nil && closedByClient(w.conn) }

// Close closes a hijacked connection.
func (w *Writer) Close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
}
