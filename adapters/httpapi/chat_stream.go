package httpapi

import (
	"sync"
	"time"

	"collab/adapters/httpapi/stream"
	"collab/app/chats"
	"collab/domain/chat"
)

// The time without a chunk after which a chat stream sends a comment: before the first
// chunk, so that the head is sent, and later.
const (
	firstSilence = 250 * time.Millisecond
	chatSilence  = 15 * time.Second
)

// chatStream sends the response of a model to its client. It implements ports.ChunkSink. Chunks are buffered up to
// stream.FlushAt or until Wait, and the head is sent with the first chunk or comment.
type chatStream struct {
	c       *call
	to      *stream.Writer
	silence time.Duration
	now     func() time.Time

	mu       sync.Mutex
	timer    *time.Timer // of the next comment
	frame    []byte      // the buffered chunks
	last     time.Time   // of the last write; zero: none
	err      error       // of the first write that failed
	complete bool        // the end of the response was sent
	closed   bool        // the last chunk, done or error, was received
	finished bool        // finish was called
}

// streamChat streams the response of a model. It returns when its usage is stored.
func (a *api) streamChat(c *call, admitted *chats.Call) {
	c.deadlines.Clear()
	c.databasePermit.Release()
	stream.SetHeaders(c.Header())
	w := &chatStream{c: c, to: stream.NewWriter(c, c.r, a.Now), silence: min(chatSilence, a.Heartbeat), now: a.Now}
	w.mu.Lock()
	w.timer = time.AfterFunc(min(firstSilence, w.silence), w.keepAlive)
	w.mu.Unlock()
	defer w.finish()
	admitted.Run(c.r.Context(), w)
}

// comment is an event without content.
const comment = ":\n\n"

// keepAlive sends a comment if nothing else was sent for w.silence.
func (w *chatStream) keepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished || w.err != nil {
		return
	}
	now := w.now()
	if now.Sub(w.last) >= w.silence {
		if len(w.frame) == 0 {
			w.frame = append(stream.ReopenFrame(w.frame), comment...)
		}
		if w.send() != nil {
			w.c.deadlines.End()
			return
		}
	}
	w.timer.Reset(w.last.Add(w.silence).Sub(now))
}

// finish sends the last chunk and records the end of the stream.
func (w *chatStream) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	_ = w.send()
	w.timer.Stop()
	// A client may disconnect after the last chunk, before the end of the response.
	w.c.clientClosed = w.err != nil || !w.closed && w.c.r.Context().Err() != nil
	w.c.incomplete = !w.complete
}

// Chunk implements ports.ChunkSink. It sends the chunk at the latest in Wait.
func (w *chatStream) Chunk(k chat.Chunk) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.frame) == 0 {
		w.frame = stream.ReopenFrame(w.frame)
	}
	w.frame = appendChunk(w.frame, k)
	w.complete = w.complete || k.Type == chat.DoneChunk
	w.closed = w.complete || k.Type == chat.ErrorChunk
	if len(w.frame) < stream.FlushAt {
		return w.err
	}
	return w.send()
}

// Wait implements ports.ChunkSink. It sends the buffered chunks.
func (w *chatStream) Wait() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.send()
}

// send sends the frame, if there is one. The caller holds mu.
func (w *chatStream) send() error {
	if w.err != nil || len(w.frame) == 0 {
		return w.err
	}
	if w.last.IsZero() {
		w.timer.Reset(w.silence) // the write itself may take long
	}
	w.last = w.now()
	w.frame = stream.CloseFrame(w.frame)
	// An aborted response ends without what net/http has buffered, and one that is recorded ends once it is stored.
	if w.finished && w.complete && !w.c.recorded() {
		w.err = w.to.SendLast(w.frame)
	} else {
		w.err = w.to.Send(w.frame)
	}
	if w.frame = w.frame[:0]; cap(w.frame) > 2*stream.FlushAt {
		w.frame = nil
	}
	return w.err
}
