package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"collab/test/must"
)

var (
	chatCPU           = atMost("chat", "CPU per chunk, of net/http", "%.2f", 1.1)
	chatDelay         = atMost("chat", "added p50 of a chunk's delay, of net/http", "%.2f", 1.2)
	chatTail          = atMost("chat", "added p99 of a chunk's delay, of net/http", "%.2f", 1.3)
	chatTailOfFew     = atMost("chat", "added p99 of a chunk's delay, of net/http", "%.2f", 1.0)
	chatFlood         = atLeast("chat", "chunks/s, of net/http", "%.2f", 0.6)
	chatFirstSQLite   = atMost("chat", "added p50 of the first chunk", "%.2f ms", 0.35)
	chatFirstPostgres = atMost("chat", "added p50 of the first chunk", "%.2f ms", 0.45)
	chatMemory        = atMost("chat", "memory of an open stream", "%.1f KiB", 64)
)

// Settings of the load of chats.
const (
	chatUsers    = 5 // members, so that none exceeds the limit of streams
	floodStreams = 16
	floodChunks  = 30_000 // of each stream, for a second of measuring
	heldStreams  = 500
	chatSecret   = "operator-of-the-bench"
)

var chatLoads = []chatLoad{
	{streams: 50, every: 20 * time.Millisecond, churnTail: chatTailOfFew},
	{streams: 500, every: 125 * time.Millisecond, churnTail: chatTail},
}

type chatLoad struct {
	streams   int
	every     time.Duration // between the chunks of a stream
	churnTail *goal         // chatTail where streams begin and end
}

// chatConcurrency are the numbers of connections over which first chunks are requested. The goal is for one,
// because with more, two processors are the limit.
var chatConcurrency = []int{1, 4}

// Servers of chats, as indices of the figures of a round.
const (
	chatProvider = iota
	chatBare
	chatCopied // the bare server that forwards the response unchanged
	chatSQLite
	chatPostgres
	chatServers
)

// chatRound has the results of one round, by server.
type chatRound struct {
	paced  [][chatServers]figures // by load
	churn  [][chatServers]figures // by load
	flood  [chatServers]figures
	first  [][chatServers]figures // by connections
	memory [chatServers]int64
}

// chat measures how servers relay the responses of a scripted provider, which sends the same bytes to all:
// Collab on SQLite and on Postgres, and the bare server without authentication and records. Each round
// starts new servers.
func (b *bench) chat(ctx context.Context) {
	p := b.startProvider()
	rounds := make([]chatRound, b.rounds)
	for i := range rounds {
		b.scoped(func() { b.chatOnce(ctx, fmt.Sprintf("chat_%d", i), p, &rounds[i]) })
	}
	b.printChat(rounds)
}

func (b *bench) chatOnce(ctx context.Context, name string, p *provider, r *chatRound) {
	servers := b.startChatTargets(ctx, name, p)
	for _, server := range []int{chatBare, chatPostgres} {
		r.memory[server] = must.Do(servers[server].measureMemory(ctx, heldStreams, 4*b.warm)).Or(b)
	}
	// on measures some of the servers.
	on := func(measure func(chatTarget) (figures, error), indices ...int) (at [chatServers]figures) {
		for _, server := range indices {
			at[server] = must.Do(measure(servers[server])).Or(b)
		}
		return at
	}
	for _, load := range chatLoads {
		// Processor time is measured in ticks.
		r.paced = append(r.paced, on(func(t chatTarget) (figures, error) {
			return t.pace(ctx, load.streams, load.every, 2*b.warm, 3*b.run)
		}, chatProvider, chatBare, chatPostgres))
	}
	for _, load := range chatLoads {
		r.churn = append(r.churn, on(func(t chatTarget) (figures, error) {
			return t.churn(ctx, load.streams, load.every, b.streamDuration())
		}, chatProvider, chatBare, chatPostgres))
	}
	chunks := max(1, int(floodChunks*b.run.Seconds()))
	r.flood = on(func(t chatTarget) (figures, error) {
		return t.flood(ctx, floodStreams, chunks)
	}, chatBare, chatCopied, chatPostgres)
	for _, connections := range chatConcurrency {
		r.first = append(r.first, on(func(t chatTarget) (figures, error) {
			return t.begin(ctx, connections, b.warm, b.run)
		}, chatProvider, chatBare, chatSQLite, chatPostgres))
	}
}

// streamDuration returns the duration of a stream where streams begin and end, 5 s unless the bench is quick.
func (b *bench) streamDuration() time.Duration { return b.run * 5 / 3 }

// startChatTargets starts a new server of each kind, by chatProvider and so on.
func (b *bench) startChatTargets(ctx context.Context, name string, p *provider) (servers [chatServers]chatTarget) {
	s := b.startServers(ctx, name, chatSettings(p)...)
	query := "?provider=" + url.QueryEscape(p.address())
	servers[chatProvider] = chatTarget{name: "the provider", address: p.address(), path: "/v1/messages", provider: p}
	servers[chatBare] = chatTarget{name: "bare", address: s.bare.address, path: bareChat + query, process: s.bare, provider: p}
	servers[chatCopied] = chatTarget{name: "bare, copied", address: s.bare.address, path: bareCopies + query, process: s.bare, provider: p}
	servers[chatSQLite] = must.Do(s.sqlite.chatTarget(ctx, p, chatUsers)).Or(b)
	servers[chatPostgres] = must.Do(s.pg.chatTarget(ctx, p, chatUsers)).Or(b)
	return servers
}

// chatSettings are the settings of a server that asks a provider.
func chatSettings(p *provider) []string {
	return []string{"COLLAB_ANTHROPIC_URL=http://" + p.address(), "COLLAB_ANTHROPIC_API_KEY=bench", "COLLAB_ADMIN_SECRET=" + chatSecret}
}

// chatTarget gives the organisation a plan and members who may chat.
func (c *collab) chatTarget(ctx context.Context, p *provider, members int) (t chatTarget, err error) {
	t = chatTarget{name: c.name, address: c.address, path: "/api/v1/chat", process: c.process, provider: p}
	err = c.grant(ctx, "PREMIUM")
	for i := 0; i < members && err == nil; i++ {
		var s session
		err = c.exchange(ctx, fmt.Sprintf("talker%d", i), "member", &s)
		t.tokens = append(t.tokens, s.Token)
	}
	return t, err
}

// grant gives the organisation a plan, as an operator does.
func (c *collab) grant(ctx context.Context, plan string) error {
	request, err := http.NewRequestWithContext(ctx, "PUT", "http://"+c.address+"/api/v1/admin/organisations/"+c.org+"/subscription",
		strings.NewReader(`{"plan":"`+plan+`"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Admin-Secret", chatSecret)
	_, _, err = send(http.DefaultClient, request)
	return err
}

func (b *bench) printChat(rounds []chatRound) {
	const ours = chatPostgres
	b.printPaced("Chats of a scripted provider over HTTP/1.1, paced, Collab on Postgres (bare: net/http, text found without decoding, a flush per chunk, no authentication, quota or records); added to what the provider alone takes",
		"steady", rounds, func(r chatRound) [][chatServers]figures { return r.paced }, func(chatLoad) *goal { return chatTail })
	b.printPaced(fmt.Sprintf("The same where each stream lives %v and is followed by the next, in %d waves", b.streamDuration(), waves),
		"successive", rounds, func(r chatRound) [][chatServers]figures { return r.churn }, func(l chatLoad) *goal { return l.churnTail })

	flood := func(server int) func(chatRound) float64 {
		return func(r chatRound) float64 { return r.flood[server].rate }
	}
	floodCPU := func(server int) string {
		return tenths(median(rounds, func(r chatRound) float64 { return cpuOf(r.flood[server]) }))
	}
	t := b.newTable(fmt.Sprintf("Chats as fast as they go, %d streams, Collab on Postgres (copied: net/http, what was read at once is written as it is)", floodStreams),
		"chunks/s", "bare", "ratio", "", "copied", "ratio", "CPU µs per chunk", "bare", "copied")
	rateRatio := medianRatio(rounds, flood(ours), flood(chatBare))
	t.row(thousands(median(rounds, flood(ours))), thousands(median(rounds, flood(chatBare))), fmt.Sprintf("%.2f", rateRatio), b.judge(chatFlood, fmt.Sprintf("as fast as they go, %d streams, Postgres", floodStreams), rateRatio),
		thousands(median(rounds, flood(chatCopied))), fmt.Sprintf("%.2f", medianRatio(rounds, flood(ours), flood(chatCopied))),
		floodCPU(ours), floodCPU(chatBare), floodCPU(chatCopied))
	t.print()

	t = b.newTable("First chunks of chats, from the request on, over connections that are open (added: to what the provider alone takes)",
		"", "at once", "added p50 ms", "", "added p99 ms", "CPU µs per request")
	names := []string{chatBare: "bare", chatSQLite: "Collab on SQLite", chatPostgres: "Collab on Postgres"}
	for _, server := range []int{chatSQLite, chatPostgres, chatBare} {
		for i, connections := range chatConcurrency {
			added := func(f func(figures) float64) float64 {
				return median(rounds, func(r chatRound) float64 { return f(r.first[i][server]) - f(r.first[i][chatProvider]) })
			}
			middle, target := added(p50), ""
			first := map[int]*goal{chatSQLite: chatFirstSQLite, chatPostgres: chatFirstPostgres}[server]
			if first != nil && connections == 1 {
				target = b.judge(first, names[server]+", one at once", middle/float64(time.Millisecond))
			}
			t.row(names[server], fmt.Sprint(connections),
				millis(middle), target, millis(added(p99)), micros(median(rounds, func(r chatRound) float64 { return cpuOf(r.first[i][server]) })))
		}
	}
	t.print()

	t = b.newTable(fmt.Sprintf("Memory for each of %d streams that are open and have had a chunk", heldStreams), "", "KiB", "")
	for _, server := range []int{chatPostgres, chatBare} {
		held, target := median(rounds, func(r chatRound) float64 { return float64(r.memory[server]) / kib }), ""
		if server != chatBare {
			target = b.judge(chatMemory, fmt.Sprintf("%d streams, Postgres", heldStreams), held)
		}
		t.row(names[server], fmt.Sprintf("%.1f", held), target)
	}
	t.print()
}

// printPaced prints the figures of Collab on Postgres and of the bare server under each load of a kind, with
// the verdicts on their ratios.
func (b *bench) printPaced(title, kind string, rounds []chatRound, of func(chatRound) [][chatServers]figures, tail func(chatLoad) *goal) {
	const ours = chatPostgres
	t := b.newTable(title,
		"streams", "chunks/s", "CPU µs per chunk", "bare", "ratio", "", "provider p50 µs", "added p50 µs", "bare", "ratio", "", "provider p99 µs", "added p99 µs", "bare", "ratio", "")
	for i, load := range chatLoads {
		under := fmt.Sprintf("%d %s streams, Postgres", load.streams, kind)
		at := func(server int, f func(figures) float64) func(chatRound) float64 {
			return func(r chatRound) float64 { return f(of(r)[i][server]) }
		}
		added := func(server int, f func(figures) float64) func(chatRound) float64 {
			return func(r chatRound) float64 { return at(server, f)(r) - at(chatProvider, f)(r) }
		}
		cpuRatio := medianRatio(rounds, at(ours, cpuOf), at(chatBare, cpuOf))
		p50Ratio := medianRatio(rounds, added(ours, p50), added(chatBare, p50))
		p99Ratio := medianRatio(rounds, added(ours, p99), added(chatBare, p99))
		t.row(fmt.Sprint(load.streams), fmt.Sprintf("%.0f", float64(load.streams)/load.every.Seconds()),
			tenths(median(rounds, at(ours, cpuOf))), tenths(median(rounds, at(chatBare, cpuOf))), fmt.Sprintf("%.2f", cpuRatio), b.judge(chatCPU, under, cpuRatio),
			micros(median(rounds, at(chatProvider, p50))),
			micros(median(rounds, added(ours, p50))), micros(median(rounds, added(chatBare, p50))), fmt.Sprintf("%.2f", p50Ratio), b.judge(chatDelay, under, p50Ratio),
			micros(median(rounds, at(chatProvider, p99))),
			micros(median(rounds, added(ours, p99))), micros(median(rounds, added(chatBare, p99))), fmt.Sprintf("%.2f", p99Ratio), b.judge(tail(load), under, p99Ratio))
	}
	t.print()
}

// medianRatio returns the median over the rounds of a divided by b.
func medianRatio[S any](rounds []S, a, b func(S) float64) float64 {
	return median(rounds, func(r S) float64 { return a(r) / b(r) })
}
