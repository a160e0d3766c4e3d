package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"collab/test/must"
)

var (
	enduredRSS        = atMost("endurance", "resident memory in the last tenth of the time, of that in the second", "%.2f", 1.1)
	enduredHeap       = atMost("endurance", "heap goal in the last tenth of the time, of that in the second", "%.2f", 1.1)
	enduredFiles      = atMost("endurance", "more open descriptors than before", "%.0f", 0)
	enduredGoroutines = atMost("endurance", "more goroutines than before", "%.0f", 0)
)

// enduranceLoad is the load of one server.
type enduranceLoad struct {
	feeds, chats   int
	duration       time.Duration
	streamDuration time.Duration // of a chat, below chatTimeout
	heartbeat      time.Duration // of a feed, by which the server detects a disconnected client
}

const (
	enduredEvery = time.Second     // between the chunks of a chat
	enduredRest  = 2 * time.Minute // limit of the time until all connections are closed
)

// endurance keeps nearly idle change feeds open while chats begin and end, and compares the server's memory,
// descriptors and goroutines.
func (b *bench) endurance(ctx context.Context) {
	load := enduranceLoad{feeds: 10_000, chats: 1_000, duration: 10 * time.Minute, streamDuration: 45 * time.Second, heartbeat: 10 * time.Second}
	if b.quick {
		load = enduranceLoad{feeds: 1_000, chats: 100, duration: 20 * time.Second, streamDuration: 4 * time.Second, heartbeat: 2 * time.Second}
	}
	p := b.startProvider()
	database, _ := b.database(ctx, "endurance")
	users := max(chatUsers, load.feeds/subscribersPerUser)
	settings := append(chatSettings(p), fmt.Sprint("COLLAB_HEARTBEAT=", load.heartbeat))
	c := b.startCollab(ctx, "collabd-endurance", database, settings...)
	chats := must.Do(c.chatTarget(ctx, p, users)).Or(b)
	// Fill the pools of connections, which remain open.
	must.Do(measure(ctx, c.process, create(c.address, c.token), 4*bareConnections, 0, b.run, nil)).Or(b)
	b.scoped(func() {
		b.runLoad(ctx, c, chats, enduranceLoad{feeds: load.feeds, chats: load.chats, streamDuration: enduredEvery})
	})
	before := b.settled(ctx, c, load.heartbeat)
	var samples []processStats
	b.scoped(func() { samples = b.runLoad(ctx, c, chats, load) })
	after := b.settled(ctx, c, load.heartbeat)
	b.printEndurance(load, before, after, samples)
}

func (b *bench) printEndurance(load enduranceLoad, before, after processStats, samples []processStats) {
	tenth := len(samples) / 10
	columns := []string{"", "before"}
	var looks [][]processStats // the samples of every second tenth of the time
	for i := 2; i <= 10; i += 2 {
		columns = append(columns, fmt.Sprint(load.duration/10*time.Duration(i)))
		looks = append(looks, samples[(i-1)*tenth:i*tenth])
	}
	under := fmt.Sprintf("%d feeds and %d chats for %v, Postgres", load.feeds, load.chats, load.duration)
	t := b.newTable(fmt.Sprintf("One server with %d change feeds and %d chats at a time, which live %v with a chunk each second, for %v; a heartbeat every %v", load.feeds, load.chats, load.streamDuration, load.duration, load.heartbeat), append(columns, "", "afterwards", "")...)
	row := func(name string, of func(processStats) float64, held, left *goal) {
		cells := []string{name, fmt.Sprintf("%.0f", of(before))}
		for _, l := range looks {
			cells = append(cells, fmt.Sprintf("%.0f", median(l, of)))
		}
		heldVerdict, leftVerdict := "", ""
		if held != nil {
			heldVerdict = b.judge(held, under, median(looks[len(looks)-1], of)/median(looks[0], of))
		}
		if left != nil {
			leftVerdict = b.judge(left, under, max(0, of(after)-of(before)))
		}
		t.row(append(cells, heldVerdict, fmt.Sprintf("%.0f", of(after)), leftVerdict)...)
	}
	row("resident memory, MiB", func(v processStats) float64 { return float64(v.resident) / mib }, enduredRSS, nil)
	row("heap goal of the collector, MiB", func(v processStats) float64 { return v.heap / mib }, enduredHeap, nil)
	row("open descriptors", func(v processStats) float64 { return float64(v.files) }, nil, enduredFiles)
	row("goroutines", func(v processStats) float64 { return v.goroutines }, nil, enduredGoroutines)
	t.print()
}

// runLoad opens feeds until the end of the scope, and runs generations of chats, at least one, for the time of
// the load. At the end it fails unless each feed gets an event. It returns the server's figures of each second.
func (b *bench) runLoad(ctx context.Context, c *collab, chats chatTarget, load enduranceLoad) (samples []processStats) {
	a := &feedClients{process: c.process, write: c.write("org"), began: time.Now(), requestedAt: make([]atomic.Int64, 1), reached: make(chan struct{}, 1)}
	b.cleanup(a.close)
	for i := range load.feeds {
		if err := a.subscribe(chats.tokens[i/subscribersPerUser]); err != nil {
			b.Errorf("subscriber %d on %s: %w", i, c.name, err)
		}
	}
	for _, s := range a.subscribers {
		a.done.Go(func() { s.err = a.read(s) })
	}
	ended := make(chan error, 1)
	until := time.Now().Add(load.duration)
	go func() {
		ended <- func() error {
			for first := true; first || time.Now().Before(until); first = false {
				r, err := chats.open(ctx, newStreamScript(load.chats, int(load.streamDuration/enduredEvery), enduredEvery))
				if err != nil {
					return err
				}
				r.resume()
				if err := r.wait(); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for running := true; running; {
		select {
		case err := <-ended:
			must.NoError(b, err)
			running = false
		case <-time.After(time.Second):
			stats, err := c.stats(ctx)
			if err != nil {
				b.Fatal(errors.Join(err, <-ended))
			}
			samples = append(samples, stats)
		}
	}
	writer := must.Do(dial(c.address, feedTimeout)).Or(b)
	defer writer.Close()
	must.NoError(b, a.publish(writer, a.write, 0))
	must.NoError(b, a.wait(ctx, 1))
	return samples
}

// processStats are the resources of a server.
type processStats struct {
	resident   int64   // bytes
	heap       float64 // bytes at which a garbage collection begins: twice the live heap
	goroutines float64
	files      int // open descriptors
}

// settled waits until the numbers of descriptors and goroutines have not changed for longer than a heartbeat,
// and returns the figures.
func (b *bench) settled(ctx context.Context, c *collab, heartbeat time.Duration) (stats processStats) {
	changed := time.Now()
	for began := changed; time.Since(changed) < heartbeat+2*time.Second && time.Since(began) < enduredRest; {
		must.NoError(b, sleep(ctx, time.Second))
		last := stats
		stats = must.Do(c.stats(ctx)).Or(b)
		if stats.files != last.files || stats.goroutines != last.goroutines {
			changed = time.Now()
		}
	}
	return stats
}

// stats returns the present figures.
func (c *collab) stats(ctx context.Context) (s processStats, err error) {
	if s.resident, err = c.resident(); err != nil {
		return s, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.command.Process.Pid))
	if err != nil {
		return s, err
	}
	s.files = len(open)
	all, err := c.metrics(ctx)
	s.goroutines, s.heap = all["go_goroutines"], all["go_memstats_next_gc_bytes"]
	if err == nil && (s.goroutines == 0 || s.heap == 0) {
		err = fmt.Errorf("/metrics of %s has no goroutines or no heap", c.name)
	}
	return s, err
}
