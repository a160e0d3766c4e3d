package assembly

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Bounds of what is buffered.
const (
	flushInterval = 100 * time.Millisecond
	maxBuffer     = 64 << 10 // bytes
)

// bufferedLog writes a line after a pause at once, and the lines that follow within flushInterval
// together, because at thousands of lines a second a write each costs as much as formatting.
type bufferedLog struct {
	to io.Writer

	mu      sync.Mutex
	buffer  []byte      // guarded by mu
	timer   *time.Timer // runs while lines are buffered; guarded by mu
	running bool        // guarded by mu
}

func newBufferedLog(to io.Writer) *bufferedLog {
	g := &bufferedLog{to: to, running: true}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(flushInterval, g.tick)
	return g
}

// Write buffers or writes a line.
func (g *bufferedLog) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buffer = append(g.buffer, line...)
	if g.running && len(g.buffer) < maxBuffer {
		return len(line), nil
	}
	if !g.running {
		g.running = true
		g.timer.Reset(flushInterval)
	}
	return len(line), g.write()
}

// tick writes the buffer. If it is empty, the next line is written at once.
func (g *bufferedLog) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running = len(g.buffer) > 0; g.running {
		_ = g.write() // the error is ignored because the log itself fails
		g.timer.Reset(flushInterval)
	}
}

// flush writes the buffer.
func (g *bufferedLog) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.write()
}

// write writes the buffer. The caller holds mu.
func (g *bufferedLog) write() error {
	if len(g.buffer) == 0 {
		return nil
	}
	_, err := g.to.Write(g.buffer)
	g.buffer = g.buffer[:0]
	return err
}

// flushingHandler flushes the buffer after every warning and error.
type flushingHandler struct {
	slog.Handler
	to *bufferedLog
}

// Handle writes a record.
func (h flushingHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level < slog.LevelWarn {
		return err
	}
	return errors.Join(err, h.to.flush())
}

// WithAttrs returns a handler whose records begin with attributes.
func (h flushingHandler) WithAttrs(all []slog.Attr) slog.Handler {
	return flushingHandler{h.Handler.WithAttrs(all), h.to}
}

// WithGroup returns a handler whose attributes are in a group.
func (h flushingHandler) WithGroup(name string) slog.Handler {
	return flushingHandler{h.Handler.WithGroup(name), h.to}
}
