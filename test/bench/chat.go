package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
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

// chatsAtOnce are the connections over which first chunks are asked for. The target
// is for one: with more, two cores have more to do than requests to wait for.
var chatsAtOnce = []int{1, 4}

// Targets of chats, as indices of the figures of a round.
const (
	askedDirectly = iota
	askedBare
	askedCopied // the bare server, which forwards the response unchanged
	askedOnSQLite
	askedOnPostgres
	waysOfAsking
)

// chatRound has the results of one round, by target.
type chatRound struct {
	paced  [][waysOfAsking]pacedFigures // by load
	churn  [][waysOfAsking]pacedFigures // by load
	flood  [waysOfAsking]float64        // chunks per second
	poured [waysOfAsking]time.Duration  // processor time per chunk of a flood
	first  [][waysOfAsking]figures      // by connections
	memory [waysOfAsking]int64
}

// chat measures answers of a scripted provider that are passed on. Every server
// is new in every round: Collab on SQLite and on Postgres, and the bare one without
// authentication and records. All get the same bytes.
func (b *bench) chat(ctx context.Context) (err error) {
	p, err := listenProvider()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	var rounds []chatRound
	for i := range b.rounds {
		r, err := b.chatOnce(ctx, fmt.Sprintf("chat_%d", i), p)
		if err != nil {
			return err
		}
		rounds = append(rounds, r)
	}
	b.printChat(rounds)
	return nil
}

func (b *bench) chatOnce(ctx context.Context, name string, p *provider) (r chatRound, err error) {
	talks, stop, err := b.startTalks(ctx, name, p)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return r, err
	}
	for _, way := range []int{askedBare, askedOnPostgres} {
		if r.memory[way], err = talks[way].measureMemory(ctx, heldStreams, 4*b.warm); err != nil {
			return r, err
		}
	}
	for _, load := range chatLoads {
		var at [waysOfAsking]pacedFigures
		for _, way := range []int{askedDirectly, askedBare, askedOnPostgres} {
			// Processor time is measured in ticks.
			if at[way], err = talks[way].pace(ctx, load.streams, load.every, 2*b.warm, 3*b.run); err != nil {
				return r, err
			}
		}
		r.paced = append(r.paced, at)
	}
	for _, load := range chatLoads {
		var at [waysOfAsking]pacedFigures
		for _, way := range []int{askedDirectly, askedBare, askedOnPostgres} {
			if at[way], err = talks[way].churn(ctx, load.streams, load.every, b.life()); err != nil {
				return r, err
			}
		}
		r.churn = append(r.churn, at)
	}
	chunks := max(1, int(floodChunks*b.run.Seconds()))
	for _, way := range []int{askedBare, askedCopied, askedOnPostgres} {
		if r.flood[way], r.poured[way], err = talks[way].flood(ctx, floodStreams, chunks); err != nil {
			return r, err
		}
	}
	for _, connections := range chatsAtOnce {
		var at [waysOfAsking]figures
		for _, way := range []int{askedDirectly, askedBare, askedOnSQLite, askedOnPostgres} {
			if at[way], err = talks[way].begin(ctx, connections, b.warm, b.run); err != nil {
				return r, err
			}
		}
		r.first = append(r.first, at)
	}
	return r, nil
}

// life is how long a stream lives where streams begin and end, 5 s unless the bench is quick.
func (b *bench) life() time.Duration { return b.run * 5 / 3 }

// startTalks starts a new server of each kind. The function it returns ends
// them.
func (b *bench) startTalks(ctx context.Context, name string, p *provider) (talks [waysOfAsking]chatTarget, stop func() error, err error) {
	var started []*process
	stop = func() error { return discard(started...) }
	talks[askedDirectly] = chatTarget{name: "the provider", address: p.address(), path: "/v1/messages", provider: p}
	bare, err := b.startBare(ctx, "")
	if err != nil {
		return talks, stop, err
	}
	started = append(started, bare)
	query := "?provider=" + url.QueryEscape(p.address())
	talks[askedBare] = chatTarget{name: "bare", address: bare.address, path: bareChat + query, process: bare, provider: p}
	talks[askedCopied] = chatTarget{name: "bare, copied", address: bare.address, path: bareCopies + query, process: bare, provider: p}
	database, conn, err := b.database(ctx, name)
	if err != nil {
		return talks, stop, err
	}
	if err := conn.Close(ctx); err != nil {
		return talks, stop, err
	}
	for way, database := range map[int]string{askedOnSQLite: "sqlite", askedOnPostgres: database} {
		c, t, err := b.startChatting(ctx, fmt.Sprintf("collabd-%s-%d", name, way), database, p, chatUsers)
		if err != nil {
			return talks, stop, err
		}
		started = append(started, c.process)
		talks[way] = t
	}
	return talks, stop, nil
}

// startChatting starts a server with a provider's models, members who may chat, and further settings as
// NAME=value.
func (b *bench) startChatting(ctx context.Context, name, database string, p *provider, members int, more ...string) (c *collab, t chatTarget, err error) {
	c, err = b.startCollab(ctx, name, database, append(more,
		"COLLAB_ANTHROPIC_URL=http://"+p.address(), "COLLAB_ANTHROPIC_API_KEY=bench", "COLLAB_ADMIN_SECRET="+chatSecret)...)
	if err != nil {
		return nil, t, err
	}
	t = chatTarget{name: c.name, address: c.address, path: "/api/v1/chat", process: c.process, provider: p}
	err = c.grant(ctx, "PREMIUM")
	for i := 0; i < members && err == nil; i++ {
		var s session
		err = c.exchange(ctx, fmt.Sprintf("talker%d", i), "member", &s)
		t.tokens = append(t.tokens, s.Token)
	}
	if err != nil {
		return nil, t, errors.Join(err, c.stop())
	}
	return c, t, nil
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
	got, err := http.DefaultClient.Do(request)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("a plan on %s: %s", c.name, got.Status)
	}
	if got != nil {
		err = errors.Join(err, got.Body.Close())
	}
	return err
}

func (b *bench) printChat(rounds []chatRound) {
	const ours = askedOnPostgres
	b.printPaced("Chats of a scripted provider over HTTP/1.1, paced, Collab on Postgres (bare: net/http, text found without decoding, a flush per chunk, no authentication, quota or records); added to what the provider alone takes",
		"steady", rounds, func(r chatRound) [][waysOfAsking]pacedFigures { return r.paced }, func(chatLoad) *goal { return chatTail })
	b.printPaced(fmt.Sprintf("The same where each stream lives %v and is followed by the next, in %d waves", b.life(), waves),
		"successive", rounds, func(r chatRound) [][waysOfAsking]pacedFigures { return r.churn }, func(l chatLoad) *goal { return l.churnTail })

	flood := func(way int) func(chatRound) float64 {
		return func(r chatRound) float64 { return r.flood[way] }
	}
	poured := func(way int) string {
		return fmt.Sprintf("%.1f", median(rounds, func(r chatRound) float64 { return float64(r.poured[way]) })/float64(time.Microsecond))
	}
	t := b.newTable(fmt.Sprintf("Chats as fast as they go, %d streams, Collab on Postgres (copied: net/http, what was read at once is written as it is)", floodStreams),
		"chunks/s", "bare", "ratio", "", "copied", "ratio", "CPU µs per chunk", "bare", "copied")
	fast := quotient(rounds, flood(ours), flood(askedBare))
	t.row(thousands(median(rounds, flood(ours))), thousands(median(rounds, flood(askedBare))), fmt.Sprintf("%.2f", fast), b.judge(chatFlood, fmt.Sprintf("as fast as they go, %d streams, Postgres", floodStreams), fast),
		thousands(median(rounds, flood(askedCopied))), fmt.Sprintf("%.2f", quotient(rounds, flood(ours), flood(askedCopied))),
		poured(ours), poured(askedBare), poured(askedCopied))
	t.print()

	t = b.newTable("First chunks of chats, from the request on, over connections that are open (added: to what the provider alone takes)",
		"", "at once", "added p50 ms", "", "added p99 ms", "CPU µs per request")
	names := []string{askedBare: "bare", askedOnSQLite: "Collab on SQLite", askedOnPostgres: "Collab on Postgres"}
	for _, way := range []int{askedOnSQLite, askedOnPostgres, askedBare} {
		for i, connections := range chatsAtOnce {
			added := func(f func(figures) float64) float64 {
				return median(rounds, func(r chatRound) float64 { return f(r.first[i][way]) - f(r.first[i][askedDirectly]) })
			}
			middle, target := added(p50), ""
			first := map[int]*goal{askedOnSQLite: chatFirstSQLite, askedOnPostgres: chatFirstPostgres}[way]
			if first != nil && connections == 1 {
				target = b.judge(first, names[way]+", one at once", middle/float64(time.Millisecond))
			}
			t.row(names[way], fmt.Sprint(connections),
				millis(middle), target, millis(added(p99)), micros(median(rounds, func(r chatRound) float64 { return cpuOf(r.first[i][way]) })))
		}
	}
	t.print()

	t = b.newTable(fmt.Sprintf("Memory for each of %d streams that are open and have had a chunk", heldStreams), "", "KiB", "")
	for _, way := range []int{askedOnPostgres, askedBare} {
		held, target := median(rounds, func(r chatRound) float64 { return float64(r.memory[way]) / kib }), ""
		if way != askedBare {
			target = b.judge(chatMemory, fmt.Sprintf("%d streams, Postgres", heldStreams), held)
		}
		t.row(names[way], fmt.Sprintf("%.1f", held), target)
	}
	t.print()
}

// printPaced prints what each load of a kind took of Collab on Postgres and of the bare
// server, with the targets of their ratios.
func (b *bench) printPaced(title, kind string, rounds []chatRound, of func(chatRound) [][waysOfAsking]pacedFigures, tail func(chatLoad) *goal) {
	const ours = askedOnPostgres
	t := b.newTable(title,
		"streams", "chunks/s", "CPU µs per chunk", "bare", "ratio", "", "provider p50 µs", "added p50 µs", "bare", "ratio", "", "provider p99 µs", "added p99 µs", "bare", "ratio", "")
	for i, load := range chatLoads {
		under := fmt.Sprintf("%d %s streams, Postgres", load.streams, kind)
		at := func(way int, f func(pacedFigures) time.Duration) func(chatRound) float64 {
			return func(r chatRound) float64 { return float64(f(of(r)[i][way])) }
		}
		added := func(way int, f func(pacedFigures) time.Duration) func(chatRound) float64 {
			return func(r chatRound) float64 { return at(way, f)(r) - at(askedDirectly, f)(r) }
		}
		cpu := func(f pacedFigures) time.Duration { return f.cpu }
		p50 := func(f pacedFigures) time.Duration { return f.p50 }
		p99 := func(f pacedFigures) time.Duration { return f.p99 }
		dear := quotient(rounds, at(ours, cpu), at(askedBare, cpu))
		late := quotient(rounds, added(ours, p50), added(askedBare, p50))
		last := quotient(rounds, added(ours, p99), added(askedBare, p99))
		tenth := func(ns float64) string { return fmt.Sprintf("%.1f", ns/float64(time.Microsecond)) }
		t.row(fmt.Sprint(load.streams), fmt.Sprintf("%.0f", float64(load.streams)/load.every.Seconds()),
			tenth(median(rounds, at(ours, cpu))), tenth(median(rounds, at(askedBare, cpu))), fmt.Sprintf("%.2f", dear), b.judge(chatCPU, under, dear),
			micros(median(rounds, at(askedDirectly, p50))),
			micros(median(rounds, added(ours, p50))), micros(median(rounds, added(askedBare, p50))), fmt.Sprintf("%.2f", late), b.judge(chatDelay, under, late),
			micros(median(rounds, at(askedDirectly, p99))),
			micros(median(rounds, added(ours, p99))), micros(median(rounds, added(askedBare, p99))), fmt.Sprintf("%.2f", last), b.judge(tail(load), under, last))
	}
	t.print()
}

// quotient is the median of one figure divided, round by round, by another.
func quotient[S any](rounds []S, this, that func(S) float64) float64 {
	return median(rounds, func(r S) float64 { return this(r) / that(r) })
}
