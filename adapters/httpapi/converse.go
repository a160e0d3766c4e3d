package httpapi

import (
	"context"
	"net"
	"net/http"
	"runtime"
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
//
// Over HTTP/1.1 it takes the connection over: what net/http holds for one, and
// does for each write, is more than an answer needs that is mostly waited for.
type conversation struct {
	c       *call
	conn    net.Conn                 // taken over; nil where c is the way to the client
	control *http.ResponseController // of c
	end     context.CancelFunc       // ends the model's work
	silence time.Duration
	now     func() time.Time

	mu       sync.Mutex
	timer    *time.Timer // of the next comment
	out      []byte      // what has not gone out
	frame    int         // where in out the frame begins that is open, of a connection; -1: none is
	last     time.Time   // when something went out; zero: the head did not
	deadline time.Time   // of the next write, as it was set
	err      error       // of the first write that failed
	whole    bool        // the answer came to its end
	closed   bool        // its last chunk was taken, done or error
	left     bool        // the client did, of a connection
	over     bool

	taken chan struct{} // closed when it is known whether conn is the way to the client
}

// converse streams what a model answers. It returns when what was used is kept.
func (a *api) converse(c *call, ready *chats.Call) {
	c.endure()
	ctx, end := context.WithCancel(c.r.Context())
	defer end()
	w := &conversation{c: c, frame: -1, taken: make(chan struct{}), end: end, silence: min(chatSilence, a.heartbeat()), now: a.Now}
	streamHeaders(c.Header())
	// Net/http takes its time to let a connection go. The model may be asked
	// meanwhile.
	left := make(chan struct{})
	go func() {
		defer close(left)
		if w.take() {
			w.watch()
		}
	}()
	defer func() { <-left }()
	w.listen()
	defer w.finish()
	defer a.hall.enter()()
	ready.Run(ctx, w)
}

// hall counts the conversations that go on. What their requests took on the way
// in is garbage that would lie there for as long as they last, as a server that
// waits for models makes no more of it: so it is collected when there are many
// more of them.
type hall struct {
	mu    sync.Mutex
	count int // guarded by mu
	least int // of count since the last collection; guarded by mu
}

// manyMore is how many more conversations are worth a collection.
const manyMore = 50

// enter counts a conversation until leave is called.
func (h *hall) enter() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count++; h.count-h.least >= manyMore {
		h.least = h.count
		go runtime.GC()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.count--
		h.least = min(h.least, h.count)
	}
}

// maxUnasked is how much a client may send that was not asked for anything more,
// in bytes.
const maxUnasked = 4 << 10

// take takes the connection over where that can be done.
func (w *conversation) take() bool {
	defer close(w.taken)
	conn, err := w.c.hijack()
	if err == nil {
		w.conn, w.out = conn, hijackedHead(w.c.Header(), w.now())
		w.c.status, w.c.sent = http.StatusOK, true
		return true
	}
	// A connection that could not be taken over is there still, or the next write
	// will say so.
	w.control = http.NewResponseController(w.c.w)
	w.c.WriteHeader(http.StatusOK)
	return false
}

// watch ends the model's work when the client leaves. It returns at the end of
// the connection.
func (w *conversation) watch() {
	// A write that nobody takes must not outlive the server.
	defer context.AfterFunc(w.c.r.Context(), func() { _ = w.conn.Close() })()
	var unasked [64]byte
	for n, all := 0, 0; all <= maxUnasked; all += n {
		var err error
		if n, err = w.conn.Read(unasked[:]); err != nil {
			break
		}
	}
	w.mu.Lock()
	w.left = true
	w.mu.Unlock()
	w.end()
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
	<-w.taken
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.err != nil {
		return
	}
	now := w.now()
	if now.Sub(w.last) >= w.silence {
		if !w.pending() {
			w.open()
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
	<-w.taken
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	// Who has the last chunk has all there is, and may leave before we do.
	w.c.gone = w.err != nil || !w.closed && (w.left || w.c.r.Context().Err() != nil)
	w.c.broken = !w.whole
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

// pending reports whether something waits to go out, other than the head; mu is
// held.
func (w *conversation) pending() bool {
	if w.conn != nil {
		return w.frame >= 0
	}
	return len(w.out) > 0
}

// open begins a frame where there is none; mu is held.
func (w *conversation) open() {
	if w.conn != nil && w.frame < 0 {
		w.frame = len(w.out)
		w.out = append(w.out, frameStart...)
	}
}

// Chunk takes a chunk.
func (w *conversation) Chunk(k chat.Chunk) error {
	<-w.taken
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open()
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
	<-w.taken
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.send()
}

// send sends what has come; mu is held.
func (w *conversation) send() error {
	if w.err != nil || !w.pending() {
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
	w.write()
	if !lasts {
		w.within(time.Time{})
	}
	if w.out = w.out[:0]; cap(w.out) > 2*flushAt {
		w.out = nil
	}
	return w.err
}

func (w *conversation) write() {
	if w.conn == nil {
		if _, w.err = w.c.Write(w.out); w.err == nil {
			w.err = w.control.Flush()
		}
		return
	}
	w.c.bytes += int64(len(w.out) - w.frame - frameHead)
	w.out = closeFrameAt(w.out, w.frame)
	w.frame = -1
	if w.closed {
		// The mark of a whole answer goes with its end: a server that goes away waits
		// for that, and may close the connection after it.
		w.out = append(w.out, lastChunk...)
	}
	_, w.err = w.conn.Write(w.out)
}

// within sets when a write has to be over. A writer that is no connection knows
// no such time.
func (w *conversation) within(deadline time.Time) {
	if w.conn != nil {
		_ = w.conn.SetWriteDeadline(deadline)
		return
	}
	_ = w.control.SetWriteDeadline(deadline)
}
