package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"collab/app/changes"
	"collab/domain/org"
)

// Times of a stream.
const (
	defaultHeartbeat = 30 * time.Second
	takeWithin       = 10 * time.Second       // for each write
	takeSlack        = 5 * time.Second        // what a deadline may be longer, so that it is seldom set
	endWithin        = 500 * time.Millisecond // for the last write of a stream that is ended
)

// Why a stream ended, where it was not the feed that ended it.
const (
	endGone    changes.Reason = "gone"    // the client went away
	endSlow    changes.Reason = "slow"    // the client does not read
	endCrashed changes.Reason = "crashed" // we are at fault
)

// A frame is text of a stream as a chunk of HTTP/1.1: its length in digits of a
// fixed number, the text, the end of the line. It is made once and sent as it is
// to all; what other protocols send is the text inside.
const (
	frameHead = len("00000000\r\n")
	frameTail = len("\r\n")
	lastChunk = "0\r\n\r\n"

	frameStart = "00000000\r\n"
)

// openFrame begins a frame that has room for a text of some size.
func openFrame(size int) []byte {
	return append(make([]byte, 0, frameHead+size+frameTail), frameStart...)
}

// closeFrame ends a frame and fills its length in.
func closeFrame(f []byte) []byte { return closeFrameAt(f, 0) }

// closeFrameAt ends a frame that begins at a place.
func closeFrameAt(b []byte, start int) []byte {
	f := b[start:]
	n := len(f) - frameHead
	for i := frameHead - 3; i >= 0; i-- {
		f[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return append(b, "\r\n"...)
}

// frameText is the text inside a frame.
func frameText(f []byte) []byte { return f[frameHead : len(f)-frameTail] }

// batch is what is on its way from the feed to one connection.
type batch struct {
	frames [][]byte
	text   []byte
}

// batchFrames is how many frames go out in one write at most.
const batchFrames = 64

var batches = sync.Pool{New: func() any { return &batch{frames: make([][]byte, 0, batchFrames)} }}

func giveBatch(b *batch) {
	clear(b.frames[:cap(b.frames)])
	b.frames = b.frames[:0]
	if cap(b.text) > 2*flushAt {
		b.text = nil
	}
	batches.Put(b)
}

// follower brings a subscription to its client. It has nothing of the request,
// which is long over on a connection that was taken over.
type follower struct {
	api *api
	sub *changes.Subscriber

	conn    net.Conn                 // taken over; nil where w is the way to the client
	w       http.ResponseWriter      // else
	control *http.ResponseController // of w

	began    time.Time
	until    time.Time // when the token expires; zero: never
	beat     time.Time // when the next heartbeat is due
	deadline time.Time // of the next write, as it was set
	timer    *time.Timer
	sent     int // frames

	request, address string
	actor            struct{ user, org string }
}

const eventStream = "text/event-stream"

// streamHeaders says that a stream follows, for the client and for proxies.
func streamHeaders(h http.Header) {
	h["Content-Type"] = []string{eventStream}
	h["Cache-Control"] = noStore
	h["X-Accel-Buffering"] = []string{"no"}
}

// follow answers with a stream of what the subscription brings. Over HTTP/1.1 it
// takes the connection over and leaves it to a goroutine of its own, which needs
// little of what a request does.
func (a *api) follow(c *call, actor org.Actor, sub *changes.Subscriber, first []byte) error {
	c.endure()
	h := c.Header()
	streamHeaders(h)
	f := &follower{
		api: a, sub: sub, began: c.since, until: actor.Until, beat: c.since.Add(a.heartbeat()),
		request: strings.Clone(c.id), address: c.address,
	}
	f.actor.user, f.actor.org = string(actor.User), string(actor.Org)
	conn, err := c.hijack()
	switch {
	case err == nil:
		c.status, c.sent = http.StatusOK, true
		f.conn = conn
		head := append(hijackedHead(h, a.Now()), first...)
		go f.serve(head, nil)
		return nil
	case !errors.Is(err, errors.ErrUnsupported):
		sub.Close()
		return err
	}
	f.w, f.control = c, http.NewResponseController(c)
	c.WriteHeader(http.StatusOK)
	f.serve(frameText(first), c.r.Context())
	return nil
}

// hijack takes the connection over where the protocol is one that we write
// ourselves.
func (c *call) hijack() (net.Conn, error) {
	if c.r.ProtoMajor != 1 || c.r.ProtoMinor < 1 {
		return nil, errors.ErrUnsupported
	}
	conn, _, err := http.NewResponseController(c.w).Hijack()
	return conn, err
}

// hijackedHead is the head of an answer as net/http writes it.
func hijackedHead(h http.Header, now time.Time) []byte {
	h["Date"] = []string{now.UTC().Format(http.TimeFormat)}
	h["Connection"] = []string{"close"} // the stream's end is the connection's
	h["Transfer-Encoding"] = []string{"chunked"}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(&b) // a buffer takes it all
	b.WriteString("\r\n")
	return b.Bytes()
}

func (a *api) heartbeat() time.Duration {
	if a.Heartbeat > 0 {
		return a.Heartbeat
	}
	return defaultHeartbeat
}

// serve streams until something ends it, and notes what that was. The context is
// the request's, nil where that is over.
func (f *follower) serve(first []byte, ctx context.Context) {
	var why changes.Reason
	defer func() {
		if p := recover(); p != nil {
			why = endCrashed
			f.api.Log.LogAttrs(context.Background(), slog.LevelError, "panic",
				slog.String("request", f.request), slog.String("error", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		}
		f.close(why)
	}()
	why = f.run(first, ctx)
}

func (f *follower) run(first []byte, ctx context.Context) changes.Reason {
	f.sub.OnEnd(f.hasten)
	// One channel wakes for everything: events, time and the client's leaving.
	f.timer = time.AfterFunc(f.next().Sub(f.api.Now()), f.sub.Nudge)
	if ctx != nil {
		defer context.AfterFunc(ctx, f.sub.Nudge)()
	}
	if err := f.write(first); err != nil {
		return f.failed(err)
	}
	for {
		now := f.api.Now()
		switch why := f.sub.Ended(); {
		case why != "":
			return why
		case !f.until.IsZero() && !now.Before(f.until):
			return changes.Expired
		case ctx != nil && ctx.Err() != nil:
			return endGone
		}
		if err := f.forward(); err != nil {
			return f.failed(err)
		}
		if !now.Before(f.beat) {
			if f.conn != nil && departed(f.conn) {
				return endGone
			}
			if err := f.keepOpen(); err != nil {
				return f.failed(err)
			}
			for !now.Before(f.beat) {
				f.beat = f.beat.Add(f.api.heartbeat())
			}
			f.timer.Reset(f.next().Sub(now))
		}
		<-f.sub.Wake()
	}
}

// next is when the time has come for something.
func (f *follower) next() time.Time {
	if !f.until.IsZero() && f.until.Before(f.beat) {
		return f.until
	}
	return f.beat
}

// forward sends what the feed has, as much in one write as there is.
func (f *follower) forward() error {
	b := batches.Get().(*batch)
	defer giveBatch(b)
	for {
		b.frames = f.sub.Take(b.frames[:0])
		if len(b.frames) == 0 {
			return nil
		}
		out := b.frames[0]
		if f.conn == nil {
			out = frameText(out)
		}
		if len(b.frames) > 1 {
			b.text = b.text[:0]
			for _, frame := range b.frames {
				if f.conn == nil {
					frame = frameText(frame)
				}
				b.text = append(b.text, frame...)
			}
			out = b.text
		}
		f.sent += len(b.frames)
		if err := f.write(out); err != nil {
			return err
		}
	}
}

// keepOpen sends a heartbeat.
func (f *follower) keepOpen() error {
	frame := heartbeatFrame
	if at, moved := f.sub.Moved(); moved {
		frame = quietFrame(at)
	}
	if f.conn == nil {
		frame = frameText(frame)
	}
	return f.write(frame)
}

// write sends one text in its time.
func (f *follower) write(text []byte) error {
	now := f.api.Now()
	if f.conn != nil {
		// Setting a deadline costs more than one that passes while nothing is written.
		if f.deadline.Sub(now) < takeWithin {
			f.deadline = now.Add(takeWithin + takeSlack)
			f.allow(f.deadline)
		}
		_, err := f.conn.Write(text)
		return err
	}
	f.allow(now.Add(takeWithin))
	if _, err := f.w.Write(text); err != nil {
		return err
	}
	if err := f.control.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	// One that passes ends a stream of HTTP/2, written to or not.
	f.within(time.Time{})
	return nil
}

// allow sets a write's deadline, unless the stream is at its end.
func (f *follower) allow(deadline time.Time) {
	f.within(deadline)
	if f.sub.Ended() != "" {
		f.hasten()
	}
}

// within sets when a write has to be over. A writer that is no connection knows
// no such time.
func (f *follower) within(deadline time.Time) {
	if f.conn != nil {
		_ = f.conn.SetWriteDeadline(deadline)
		return
	}
	_ = f.control.SetWriteDeadline(deadline)
}

// hasten leaves a stream that is at its end little time for the write that it is
// at. It is called while that goes on.
func (f *follower) hasten() { f.within(f.api.Now().Add(endWithin)) }

// failed says what a write that failed means.
func (f *follower) failed(err error) changes.Reason {
	if why := f.sub.Ended(); why != "" {
		return why
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return endSlow
	}
	return endGone
}

// close ends the stream, with the mark of a whole answer where the client is
// there to see it.
func (f *follower) close(why changes.Reason) {
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.conn != nil {
		switch why {
		case endGone, endSlow, endCrashed:
		default:
			f.hasten()
			_, _ = f.conn.Write([]byte(lastChunk))
		}
		_ = f.conn.Close()
	}
	f.sub.Close()
	a, ctx := f.api, context.Background()
	a.ends.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", string(why))))
	a.Log.LogAttrs(ctx, slog.LevelInfo, "stream ended",
		slog.String("reason", string(why)), slog.Float64("duration_seconds", a.Now().Sub(f.began).Seconds()), slog.Int("events", f.sent),
		slog.String("request", f.request), slog.String("address", f.address),
		slog.String("user", f.actor.user), slog.String("org", f.actor.org))
}

// instrumentFeed makes the instruments of the feed.
func (a *api) instrumentFeed() error {
	var err error
	a.ends, err = a.Meter.Int64Counter("collab.feed.disconnects",
		metric.WithUnit("{stream}"), metric.WithDescription("Change feeds that ended, by reason."))
	if err != nil || a.Feed == nil {
		return err
	}
	subscribers, err := a.Meter.Int64ObservableUpDownCounter("collab.feed.subscribers",
		metric.WithUnit("{stream}"), metric.WithDescription("Change feeds that are open."))
	if err != nil {
		return err
	}
	delivered, err := a.Meter.Int64ObservableCounter("collab.feed.events",
		metric.WithUnit("{event}"), metric.WithDescription("Events handed to subscribers."))
	if err != nil {
		return err
	}
	reads, err := a.Meter.Int64ObservableCounter("collab.feed.backlog_reads",
		metric.WithUnit("{page}"), metric.WithDescription("Pages of the log read for one subscriber who was behind."))
	if err != nil {
		return err
	}
	resyncs, err := a.Meter.Int64ObservableCounter("collab.feed.resyncs",
		metric.WithUnit("{stream}"), metric.WithDescription("Places in the log that could not be gone on from."))
	if err != nil {
		return err
	}
	_, err = a.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		f := a.Feed.Figures()
		o.ObserveInt64(subscribers, f.Subscribers)
		o.ObserveInt64(delivered, f.Delivered)
		o.ObserveInt64(reads, f.Reads)
		o.ObserveInt64(resyncs, f.Resyncs)
		return nil
	}, subscribers, delivered, reads, resyncs)
	return err
}
