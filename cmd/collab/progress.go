package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows how far a transfer is, in one line of a terminal.
type progress struct {
	app             *app
	name            string
	total, done     int64 // in bytes; total is negative if it is unknown
	files, finished int   // files is 0 if the transfer is of one file
	last            time.Time
	samples         []sample // of the last rateWindow, the oldest first
}

// sample is how many bytes were transferred at a time.
type sample struct {
	at   time.Time
	done int64
}

const (
	// progressInterval is the least time between two lines.
	progressInterval = 200 * time.Millisecond
	// rateWindow is the time over which the rate is computed.
	rateWindow = 20 * time.Second
)

func (a *app) newProgress(name string, total int64) *progress {
	now := a.now()
	return &progress{app: a, name: printableLine(name), total: total, last: now, samples: []sample{{now, 0}}}
}

// isVisible reports whether there is a line, which a terminal can write over.
func (p *progress) isVisible() bool { return p.app.errTerminal && !p.app.dumbTerminal }

// add counts bytes.
func (p *progress) add(n int) {
	p.done += int64(n)
	now := p.app.now()
	if !p.isVisible() || now.Sub(p.last) < progressInterval {
		return
	}
	p.last = now
	p.samples = append(p.samples, sample{now, p.done})
	for now.Sub(p.samples[1].at) >= rateWindow {
		p.samples = p.samples[1:]
	}
	line := ""
	if p.files > 0 {
		line = fmt.Sprintf("  %d of %d files", p.finished, p.files)
	}
	line += "  " + formatSize(p.done)
	if p.total > 0 {
		line += fmt.Sprintf(" of %s  %d %%", formatSize(p.total), p.done*100/p.total)
		if rate := float64(p.done-p.samples[0].done) / now.Sub(p.samples[0].at).Seconds(); rate >= 1 {
			remaining := time.Duration(float64(p.total-p.done) / rate * float64(time.Second)).Round(time.Second)
			line += fmt.Sprintf("  %s/s  %v left", formatSize(int64(rate)), remaining)
		}
	}
	text := p.name + line
	if width := p.app.width - 1; width > 0 { // only one line of the terminal is written over
		text = truncate(truncate(p.name, max(width-len(line), minColumnWidth))+line, width)
	}
	fmt.Fprintf(p.app.err, "\r\x1b[K%s", text)
}

// end removes the line.
func (p *progress) end() {
	if p.isVisible() {
		fmt.Fprint(p.app.err, "\r\x1b[K")
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	*progress
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.add(n)
	return n, err
}

// chartWidth is the length of a chart's longest bar in columns.
const chartWidth = 40

// bar returns the bar of a chart for n, of which most is the largest.
func bar(n, largest int64) string {
	if largest <= 0 {
		return ""
	}
	return strings.Repeat("█", int(n*chartWidth/largest))
}
