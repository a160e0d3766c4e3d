package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
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
func (b *bench) starts(ctx context.Context) error {
	var first, again, bare []startResult
	for round := range b.rounds {
		folder := filepath.Join(b.folder, fmt.Sprintf("start-%d", round))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		for _, into := range []*[]startResult{&first, &again} {
			p, err := b.launchCollab("collabd", folder, "")
			if err != nil {
				return err
			}
			l, err := watch(ctx, p, (&collab{process: p}).signIn)
			if err != nil {
				return err
			}
			*into = append(*into, l)
		}
		p, err := b.launchBare("")
		if err != nil {
			return err
		}
		l, err := watch(ctx, p, func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		bare = append(bare, l)
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
	return nil
}

func millisOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// watch waits until a server is ready, calls use, measures its memory, and stops it.
func watch(ctx context.Context, p *process, use func(context.Context) error) (l startResult, err error) {
	if l.ready, err = p.ready(ctx); err != nil {
		return l, err
	}
	if err = use(ctx); err != nil {
		return l, err
	}
	if l.busy, err = p.resident(); err != nil {
		return l, err
	}
	if err = sleep(ctx, settling); err != nil {
		return l, err
	}
	l.idle, err = p.resident()
	return l, errors.Join(err, p.stop())
}
