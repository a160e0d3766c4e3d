package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"collab/test/debian"
	"collab/test/must"
)

var (
	http2Rate  = atLeast("http2", "requests/s, of net/http + pgx", "%.2f", 0.85)
	http2Feed  = atMost("http2", "p99 of a delivery's delay, of net/http", "%.2f", 1.2)
	http2Chunk = atMost("http2", "added p99 of a chunk's delay, of net/http", "%.2f", 1.3)
)

// http2Connections is the number of clients, which have one HTTP/2 connection each.
const http2Connections = 16

var (
	http2FeedLoad = feedLoad{subscribers: 200, every: 50 * time.Millisecond, burst: 50, proxied: true}
	http2ChatLoad = chatLoad{streams: 50, every: 50 * time.Millisecond}
)

// http2 measures clients that use HTTP/2 over TLS to nginx, which uses HTTP/1.1 to Collab or to the bare server. It
// does nothing if nginx is not installed and cannot be installed.
func (b *bench) http2(ctx context.Context) {
	if _, err := debian.Program(ctx, "nginx", "nginx-light"); err != nil {
		fmt.Fprintf(b.out, "\nHTTP/2 is not measured: %v\n", err)
		return
	}
	for _, part := range []func(context.Context){b.requestsOverHTTP2, b.feedOverHTTP2, b.chatOverHTTP2} {
		b.scoped(func() { part(ctx) })
	}
}

func (b *bench) requestsOverHTTP2(ctx context.Context) {
	pg, bare := b.startBesideBare(ctx, "http2", requestRows, direct)
	ours := b.proxied(ctx, pg.process)
	theirs := b.proxied(ctx, bare)
	t := b.newTable(fmt.Sprintf("Requests over %d tasks, Postgres with fsync, over HTTP/2 and TLS through nginx (bare: net/http + pgx without authentication, through nginx)", requestRows),
		"", "connections", "requests/s", "bare", "ratio", "", "server's CPU µs", "bare", "ratio", "p50 ms", "bare", "p99 ms", "bare")
	for _, kind := range []string{"get", "list"} {
		var found, atBare []figures
		b.measureInTurns(ctx, http2Connections,
			measurement{ours, workloadOf(kind, ours.address, pg.token, pg.ids), nil, &found},
			measurement{theirs, workloadOf(kind, theirs.address, "", pg.ids), nil, &atBare})
		share := ratio(found, atBare, rate)
		t.row(kind, strconv.Itoa(http2Connections), thousands(median(found, rate)), thousands(median(atBare, rate)), fmt.Sprintf("%.2f", share),
			b.judge(http2Rate, fmt.Sprintf("%s, Postgres, %d connections", kind, http2Connections), share),
			micros(median(found, cpuOf)), micros(median(atBare, cpuOf)), fmt.Sprintf("%.2f", ratio(found, atBare, cpuOf)),
			millis(median(found, p50)), millis(median(atBare, p50)), millis(median(found, p99)), millis(median(atBare, p99)))
	}
	t.print()
}

func (b *bench) feedOverHTTP2(ctx context.Context) {
	s := &feedSeries{feedLoad: http2FeedLoad}
	b.measureFeed(ctx, "http2_feed", s)
	found, atBare := s.collab, s.bare
	t := b.newTable(fmt.Sprintf("Change feed of %d subscribers over HTTP/2 and TLS through nginx, Collab on Postgres that does not wait for the disk (bare: net/http, nothing stored, through nginx)", http2FeedLoad.subscribers),
		"server's CPU µs per delivery", "bare", "ratio", "p50 ms", "bare", "p99 ms", "bare", "ratio", "", "burst deliveries/s", "bare", "ratio")
	late := ratio(found, atBare, p99)
	t.row(micros(median(found, cpuOf)), micros(median(atBare, cpuOf)), fmt.Sprintf("%.2f", ratio(found, atBare, cpuOf)),
		millis(median(found, p50)), millis(median(atBare, p50)), millis(median(found, p99)), millis(median(atBare, p99)), fmt.Sprintf("%.2f", late),
		b.judge(http2Feed, fmt.Sprintf("%d subscribers", http2FeedLoad.subscribers), late),
		thousands(median(found, rate)), thousands(median(atBare, rate)), fmt.Sprintf("%.2f", ratio(found, atBare, rate)))
	t.print()
}

func (b *bench) chatOverHTTP2(ctx context.Context) {
	p := b.startProvider()
	servers := b.startChatTargets(ctx, "http2_chat", p)
	indices := []int{chatProvider, chatBare, chatPostgres}
	for _, server := range indices[1:] {
		servers[server].address = b.proxied(ctx, servers[server].process).address
	}
	var rounds [][chatServers]figures
	for range b.rounds {
		var at [chatServers]figures
		for _, server := range indices {
			at[server] = must.Do(servers[server].pace(ctx, http2ChatLoad.streams, http2ChatLoad.every, b.warm, b.run)).Or(b)
		}
		rounds = append(rounds, at)
	}
	added := func(server int, of func(figures) float64) func([chatServers]figures) float64 {
		return func(at [chatServers]figures) float64 { return of(at[server]) - of(at[chatProvider]) }
	}
	cpu := func(server int) func([chatServers]figures) float64 {
		return func(at [chatServers]figures) float64 { return cpuOf(at[server]) }
	}
	t := b.newTable(fmt.Sprintf("%d chats over HTTP/2 and TLS through nginx, a chunk every %v, Collab on Postgres (bare: net/http relay, through nginx); added to what the provider alone takes over HTTP/1.1", http2ChatLoad.streams, http2ChatLoad.every),
		"server's CPU µs per chunk", "bare", "ratio", "added p50 µs", "bare", "ratio", "added p99 µs", "bare", "ratio", "")
	cells := []string{micros(median(rounds, cpu(chatPostgres))), micros(median(rounds, cpu(chatBare))), fmt.Sprintf("%.2f", medianRatio(rounds, cpu(chatPostgres), cpu(chatBare)))}
	for _, of := range []func(figures) float64{p50, p99} {
		cells = append(cells, micros(median(rounds, added(chatPostgres, of))), micros(median(rounds, added(chatBare, of))),
			fmt.Sprintf("%.2f", medianRatio(rounds, added(chatPostgres, of), added(chatBare, of))))
	}
	t.row(append(cells, b.judge(http2Chunk, fmt.Sprintf("%d steady streams, Postgres", http2ChatLoad.streams), medianRatio(rounds, added(chatPostgres, p99), added(chatBare, p99))))...)
	t.print()
}
