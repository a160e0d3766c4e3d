package assembly

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"collab/adapters/httpapi"
)

// Of the lines about requests that come right after others.
const (
	gatherFor = 100 * time.Millisecond // before they are written together
	gatherMax = 64 << 10               // bytes
)

// gatherer writes what comes after a pause at once, and what follows it in the next
// moment together: a write for each of thousands of lines a second costs as much as
// making them.
type gatherer struct {
	to io.Writer

	mu       sync.Mutex
	gathered []byte      // guarded by mu
	timer    *time.Timer // runs while lines are gathered; guarded by mu
	running  bool        // guarded by mu
}

func newGatherer(to io.Writer) *gatherer {
	g := &gatherer{to: to, running: true}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(gatherFor, g.tick)
	return g
}

// Write takes a line.
func (g *gatherer) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gathered = append(g.gathered, line...)
	if g.running && len(g.gathered) < gatherMax {
		return len(line), nil
	}
	if !g.running {
		g.running = true
		g.timer.Reset(gatherFor)
	}
	return len(line), g.write()
}

// tick writes what was gathered; if that is nothing, the next line comes after a
// pause.
func (g *gatherer) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running = len(g.gathered) > 0; g.running {
		_ = g.write() // there is nobody to tell
		g.timer.Reset(gatherFor)
	}
}

// flush writes what was gathered.
func (g *gatherer) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.write()
}

// write is called with mu held.
func (g *gatherer) write() error {
	if len(g.gathered) == 0 {
		return nil
	}
	_, err := g.to.Write(g.gathered)
	g.gathered = g.gathered[:0]
	return err
}

// promptly writes all but the lines about requests at once, with what was gathered
// before them.
type promptly struct {
	slog.Handler
	to *gatherer
}

// Handle writes a record.
func (h promptly) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Message == httpapi.RequestLine {
		return err
	}
	return errors.Join(err, h.to.flush())
}

// WithAttrs returns a handler whose records begin with attributes.
func (h promptly) WithAttrs(all []slog.Attr) slog.Handler {
	return promptly{h.Handler.WithAttrs(all), h.to}
}

// WithGroup returns a handler whose attributes are in a group.
func (h promptly) WithGroup(name string) slog.Handler {
	return promptly{h.Handler.WithGroup(name), h.to}
}
