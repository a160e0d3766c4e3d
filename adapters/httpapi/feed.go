package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/app/access"
	"collab/app/changes"
	"collab/domain/org"
)

// Reasons for the end of a stream, beside the feed's own.
const (
	endClosed  changes.Reason = "gone"    // the client closed the connection
	endSlow    changes.Reason = "slow"    // the client reads too slowly
	endCrashed changes.Reason = "crashed" // a panic
)

// maxFrames is the limit of the frames of one write.
const maxFrames = 64

var frameLists = sync.Pool{New: func() any {
	frames := make([][]byte, 0, maxFrames)
	return &frames
}}

// follower sends the events of a subscription to its client. It must not refer to the request, which ends when its
// connection is hijacked.
type follower struct {
	api *api
	sub *changes.Subscriber
	to  *stream.Writer

	permit limit.Permit // of the organisation's streams

	began         time.Time
	expires       time.Time // when the token expires, by the clock of the machine; zero: never
	nextHeartbeat time.Time // when the next heartbeat is due
	timer         *time.Timer
	sent          int // frames

	request, address string
	actor            struct{ user, org string }
}

// follow replies with a stream of the subscription's events. Over HTTP/1.1 it hijacks the connection and serves it on
// another goroutine, which needs less memory than the request.
func (a *api) follow(c *call, actor org.Actor, sub *changes.Subscriber, first []byte) error {
	c.deadlines.Clear()
	stream.SetHeaders(c.Header())
	f := &follower{
		api: a, sub: sub, began: c.began, nextHeartbeat: c.began.Add(a.Heartbeat),
		request: strings.Clone(c.id), address: c.address, permit: c.requestPermit,
	}
	if expires := access.FromContext(c.r.Context()).Expires; !expires.IsZero() {
		f.expires = a.Now().Add(expires.Sub(a.Access.Now()))
	}
	f.actor.user, f.actor.org = string(actor.User), string(actor.Org)
	var err error
	f.to, err = stream.Hijack(c, c.r, a.Now)
	switch {
	case err == nil:
		c.status, c.sent = http.StatusOK, true
		c.requestPermit = limit.Permit{} // the stream releases it
		go f.serve(first, nil)
		return nil
	case !errors.Is(err, errors.ErrUnsupported):
		sub.Close()
		return err
	}
	f.to = stream.NewWriter(c, c.r, a.Now)
	c.requestPermit = limit.Permit{}
	c.releasePermit()
	f.serve(first, c.r.Context())
	return nil
}

// serve sends events until the stream ends, and logs the reason. The context is that of the request, or nil if it has
// ended.
func (f *follower) serve(first []byte, ctx context.Context) {
	var reason changes.Reason
	defer func() {
		if p := recover(); p != nil {
			reason = endCrashed
			f.api.Log.LogAttrs(context.Background(), slog.LevelError, "panic",
				slog.String("request", f.request), slog.String("error", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		}
		f.close(reason)
	}()
	reason = f.run(first, ctx)
}

func (f *follower) run(first []byte, ctx context.Context) changes.Reason {
	f.sub.OnEnd(f.to.SetEndDeadline)
	// The channel signals events, timers and a closed connection.
	f.timer = time.AfterFunc(f.next().Sub(f.api.Now()), f.sub.Wake)
	if ctx != nil {
		defer context.AfterFunc(ctx, f.sub.Wake)()
	}
	if err := f.to.Send(first); err != nil {
		return f.endReason(err)
	}
	for {
		now := f.api.Now()
		switch reason := f.sub.Ended(); {
		case reason != "":
			return reason
		case !f.expires.IsZero() && !now.Before(f.expires):
			return changes.Expired
		case ctx != nil && ctx.Err() != nil, f.sub.ShouldProbe() && f.to.ClosedByClient():
			return endClosed
		}
		if err := f.forward(); err != nil {
			return f.endReason(err)
		}
		if !now.Before(f.nextHeartbeat) {
			if f.to.ClosedByClient() {
				return endClosed
			}
			if err := f.sendHeartbeat(); err != nil {
				return f.endReason(err)
			}
			for !now.Before(f.nextHeartbeat) {
				f.nextHeartbeat = f.nextHeartbeat.Add(f.api.Heartbeat)
			}
		}
		f.timer.Reset(f.next().Sub(now)) // also if it went off early, as the clock was set back
		<-f.sub.Woken()
	}
}

// next returns the time of the next heartbeat or of the expiry of the token.
func (f *follower) next() time.Time {
	if !f.expires.IsZero() && f.expires.Before(f.nextHeartbeat) {
		return f.expires
	}
	return f.nextHeartbeat
}

// forward sends the available events, up to maxFrames in one write.
func (f *follower) forward() error {
	frames := frameLists.Get().(*[][]byte)
	defer func() {
		clear((*frames)[:cap(*frames)])
		frameLists.Put(frames)
	}()
	for {
		if *frames = f.sub.Take((*frames)[:0]); len(*frames) == 0 {
			return nil
		}
		f.sent += len(*frames)
		if err := f.to.Send(*frames...); err != nil {
			return err
		}
	}
}

func (f *follower) sendHeartbeat() error {
	if at, moved := f.sub.TakeCursor(); moved {
		return f.to.Send(cursorFrame(at))
	}
	return f.to.Send(heartbeatFrame)
}

// endReason returns the reason of the end for the error of a write.
func (f *follower) endReason(err error) changes.Reason {
	if reason := f.sub.Ended(); reason != "" {
		return reason
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return endSlow
	}
	return endClosed
}

// close ends the stream. It marks the response as complete if the client is still
// connected.
func (f *follower) close(reason changes.Reason) {
	if f.timer != nil {
		f.timer.Stop()
	}
	switch reason {
	case endClosed, endSlow, endCrashed:
	default:
		if f.to.Hijacked() { // net/http ends a stream of HTTP/2
			f.to.SetEndDeadline()
		}
		_ = f.to.Finish() // it fails if the client closed the connection
	}
	f.to.Close()
	f.sub.Close()
	f.permit.Release()
	a, ctx := f.api, context.Background()
	a.feedDisconnects.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", string(reason))))
	a.Log.LogAttrs(ctx, slog.LevelInfo, "stream ended",
		slog.String("reason", string(reason)), slog.Float64("duration_seconds", a.Now().Sub(f.began).Seconds()), slog.Int("events", f.sent),
		slog.String("request", f.request), slog.String("address", f.address),
		slog.String("user", f.actor.user), slog.String("org", f.actor.org))
}
