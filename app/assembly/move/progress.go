package move

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"collab/adapters/system"
	"collab/app/assembly/config"
)

// The time between two reports of progress.
const (
	barInterval = 100 * time.Millisecond
	logInterval = 5 * time.Second
)

// progress reports how far the move is: a bar on a terminal, log lines elsewhere. It is safe for
// concurrent use.
type progress struct {
	out   io.Writer
	bar   bool
	log   *slog.Logger
	clock system.Clock

	mu              sync.Mutex // guards the rest
	phase           string
	done, total     int64
	startedAt, last time.Time
}

func newProgress(c config.Config, quiet bool, out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok && !quiet {
		info, err := f.Stat()
		p.bar = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	p.log = slog.New(slog.DiscardHandler)
	if !quiet && !p.bar {
		c.LogLevel = slog.LevelInfo
		p.log = c.Logger(out)
	}
	return p
}

// start starts a phase of total steps.
func (p *progress) start(phase string, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.done, p.total = phase, 0, total
	p.startedAt = p.clock.Now()
	p.last = p.startedAt
}

// add records completed steps, and reports the progress if the interval has passed.
func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	interval := logInterval
	if p.bar {
		interval = barInterval
	}
	if now := p.clock.Now(); now.Sub(p.last) >= interval {
		p.last = now
		p.report(now)
	}
}

// end reports the end of the phase.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(p.clock.Now())
	if p.bar {
		fmt.Fprintln(p.out)
	}
}

// table logs that a table was copied.
func (p *progress) table(name string, records int64) {
	p.log.Info("table copied", "table", name, "records", records)
}

const barWidth = 30

// report writes the state. The caller holds mu.
func (p *progress) report(now time.Time) {
	elapsed := now.Sub(p.startedAt)
	rate := float64(p.done) / max(elapsed.Seconds(), 0.001)
	remaining := time.Duration(0)
	if p.done > 0 && p.total > p.done {
		remaining = time.Duration(float64(p.total-p.done) / rate * float64(time.Second)).Round(time.Second)
	}
	if !p.bar {
		p.log.Info("move progress", "phase", p.phase, "done", p.done, "total", p.total, "per_second", int64(rate),
			"remaining_seconds", remaining.Seconds(), "duration_seconds", elapsed.Round(time.Millisecond).Seconds())
		return
	}
	filled := barWidth
	if p.total > 0 {
		filled = int(min(p.done, p.total) * barWidth / p.total)
	}
	bar := strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled)
	fmt.Fprintf(p.out, "\r%-10s [%s] %d of %d, %.0f/s, %s left\x1b[K", p.phase, bar, p.done, p.total, rate, remaining)
}
