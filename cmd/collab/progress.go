package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows how far a transfer is, in one line of a terminal.
type progress struct {
	app         *app
	name        string
	total, done int64 // in bytes; total is negative if it is unknown
	began, last time.Time
}

// progressInterval is the least time between two lines.
const progressInterval = 200 * time.Millisecond

func (a *app) progress(name string, total int64) *progress {
	now := a.now()
	return &progress{app: a, name: plain(name), total: total, began: now, last: now}
}

// add counts bytes.
func (p *progress) add(n int) {
	p.done += int64(n)
	now := p.app.now()
	if !p.app.errTerminal || now.Sub(p.last) < progressInterval {
		return
	}
	p.last = now
	line := p.name + "  " + sizeText(p.done)
	if p.total > 0 {
		rate := float64(p.done) / now.Sub(p.began).Seconds()
		left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second)).Round(time.Second)
		line += fmt.Sprintf(" of %s  %d %%  %s/s  %v left", sizeText(p.total), p.done*100/p.total, sizeText(int64(rate)), left)
	}
	fmt.Fprintf(p.app.err, "\r\x1b[K%s", line)
}

// end removes the line.
func (p *progress) end() {
	if p.app.errTerminal {
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
func bar(n, most int64) string {
	if most <= 0 {
		return ""
	}
	return strings.Repeat("█", int(n*chartWidth/most))
}
