package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"collab/test/must"
)

// Goals of the start, for the embedded profile.
var (
	firstStart = atMost("start", "until ready", "%.0f ms", 500)
	nextStart  = atMost("start", "until ready", "%.0f ms", 200)
	idleMemory = atMost("start", "memory", "%.1f MB", 60)
)

// settling is the time for which a server idles before its memory is measured again.
const settling = 2 * time.Second

// startResult has the figures of one start.
type startResult struct {
	ready      time.Duration
	busy, idle int64 // resident bytes: after a few requests, and after settling
}

// starts measures the time from the start of a process until it is ready, on an empty folder and on the same
// folder again, and its memory.
func (b *bench) starts(ctx context.Context) {
	var first, again, bare []startResult
	for round := range b.rounds {
		folder := filepath.Join(b.folder, fmt.Sprintf("start-%d", round))
		must.NoError(b, os.Mkdir(folder, 0o700))
		for _, into := range []*[]startResult{&first, &again} {
			p := b.launchCollab("collabd", folder, "")
			*into = append(*into, b.watch(ctx, p, (&collab{process: p}).signIn))
		}
		bare = append(bare, b.watch(ctx, b.launchBare(""), func(context.Context) error { return nil }))
	}
	ready := func(l startResult) time.Duration { return l.ready }
	busy := func(l startResult) int64 { return l.busy }
	idle := func(l startResult) int64 { return l.idle }
	t := b.newTable("Start and memory, SQLite (bare: net/http that only says it is ready)", "", "collab", "bare", "target")
	ms := func(d time.Duration) string { return millis(float64(d)) + " ms" }
	one, two, none := median(first, ready), median(again, ready), median(bare, ready)
	t.row("ready, empty folder", ms(one), ms(none), b.judge(firstStart, "empty folder", millisOf(one)))
	t.row("ready, existing folder", ms(two), ms(none), b.judge(nextStart, "existing folder", millisOf(two)))
	t.row("memory after sign-in", megabytes(median(first, busy))+" MB", megabytes(median(bare, busy))+" MB", "")
	t.row(fmt.Sprintf("memory after %v idle", settling), megabytes(median(first, idle))+" MB", megabytes(median(bare, idle))+" MB",
		b.judge(idleMemory, "idle after sign-in", float64(median(first, idle))/1e6))
	t.print()
}

func millisOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// watch waits until a server is ready, calls use, measures its memory, and stops it.
func (b *bench) watch(ctx context.Context, p *process, use func(context.Context) error) (l startResult) {
	l.ready = must.Do(p.ready(ctx)).Or(b)
	must.NoError(b, use(ctx))
	l.busy = must.Do(p.resident()).Or(b)
	must.NoError(b, sleep(ctx, settling))
	l.idle = must.Do(p.resident()).Or(b)
	must.NoError(b, p.stop())
	return l
}
