package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"collab/app/chats"
	"collab/domain/chat"
)

// After how much silence a stream of a model's answer gets a comment, at the
// latest: at first, with which its head goes out, and then.
const (
	firstSilence = 250 * time.Millisecond
	chatSilence  = 15 * time.Second
)

// conversation brings the answer of a model to its client. A chunk goes out when
// the model has nothing more to say at once. The head goes out with the first of
// them, or with a comment, so that nobody on the way waits for more.
type conversation struct {
	c       *call
	control *http.ResponseController
	end     context.CancelFunc // ends the model's work
	silence time.Duration
	now     func() time.Time

	mu       sync.Mutex
	timer    *time.Timer // of the next comment
	out      []byte      // what has not gone out
	last     time.Time   // when something went out; zero: the head did not
	deadline time.Time   // of the next write, as it was set
	err      error       // of the first write that failed
	whole    bool        // the answer came to its end
	closed   bool        // its last chunk was taken, done or error
	over     bool
}

// converse streams what a model answers. It returns when what was used is kept.
func (a *api) converse(c *call, ready *chats.Call) {
	c.endure()
	ctx, end := context.WithCancel(c.r.Context())
	defer end()
	w := &conversation{c: c, control: http.NewResponseController(c.w), end: end, silence: min(chatSilence, a.heartbeat()), now: a.Now}
	streamHeaders(c.Header())
	c.WriteHeader(http.StatusOK)
	w.listen()
	defer w.finish()
	ready.Run(ctx, w)
}

// listen listens for silence.
func (w *conversation) listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(min(firstSilence, w.silence), w.beat)
}

// comment is an event that says nothing.
const comment = ":\n\n"

// beat sends a comment where nothing else was sent for a while.
func (w *conversation) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.err != nil {
		return
	}
	now := w.now()
	if now.Sub(w.last) >= w.silence {
		if len(w.out) == 0 {
			w.out = append(w.out, comment...)
		}
		if w.send() != nil {
			w.end()
			return
		}
	}
	w.timer.Reset(w.last.Add(w.silence).Sub(now))
}

// finish notes how the conversation ended.
func (w *conversation) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	// Who has the last chunk has all there is, and may leave before we do.
	w.c.gone = w.err != nil || !w.closed && w.c.r.Context().Err() != nil
	w.c.broken = !w.whole
}

// Chunk takes a chunk.
func (w *conversation) Chunk(k chat.Chunk) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = appendChunk(w.out, k)
	w.whole = w.whole || k.Type == chat.DoneChunk
	w.closed = w.whole || k.Type == chat.ErrorChunk
	if len(w.out) < flushAt {
		return w.err
	}
	return w.send()
}

// Alive is for others.
func (w *conversation) Alive() {}

// Wait sends what has come.
func (w *conversation) Wait() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.send()
}

// send sends what has come; mu is held.
func (w *conversation) send() error {
	if w.err != nil || len(w.out) == 0 {
		return w.err
	}
	if w.last.IsZero() {
		w.timer.Reset(w.silence) // a first write that takes long is no silence
	}
	w.last = w.now()
	// Setting a deadline costs more than one that passes while nothing is written,
	// which only HTTP/2 minds.
	lasts := w.c.r.ProtoMajor == 1
	if !lasts || w.deadline.Sub(w.last) < takeWithin {
		w.deadline = w.last.Add(takeWithin + takeSlack)
		w.within(w.deadline)
	}
	_, w.err = w.c.Write(w.out)
	if w.err == nil {
		w.err = w.control.Flush()
	}
	if !lasts {
		w.within(time.Time{})
	}
	if w.out = w.out[:0]; cap(w.out) > 2*flushAt {
		w.out = nil
	}
	return w.err
}

// within sets when a write has to be over. A writer that is no connection knows
// no such time.
func (w *conversation) within(deadline time.Time) { _ = w.control.SetWriteDeadline(deadline) }
