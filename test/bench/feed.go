package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

var (
	feedCPU    = atMost("feed", "CPU per delivery, of net/http", "%.2f", 0.9)
	feedDelay  = atMost("feed", "p99 of the delay, of net/http", "%.2f", 1.2)
	feedBurst  = atLeast("feed", "deliveries/s of a burst of durable writes, of net/http", "%.2f", 1)
	feedMemory = atMost("feed", "memory of an idle subscriber", "%.1f KiB", 12)
)

// feedLoads are the loads of the feed of one organisation.
var feedLoads = []feedLoad{
	{subscribers: 1_000, every: 100 * time.Millisecond, burst: 200},
	{subscribers: 5_000, every: 250 * time.Millisecond, burst: 60},
}

type feedLoad struct {
	subscribers int
	every       time.Duration // between events, paced
	burst       int           // events published as fast as possible
	proxied     bool          // over HTTP/2 through a proxy
}

const (
	subscribersPerUser = 100 // as many as a user may have
	burstWriters       = 16  // connections that events of a burst are made over, each of its own file
	warmEvents         = 3   // before each measurement
	publishInterval    = 20 * time.Millisecond
	feedTimeout        = time.Minute
	idleFor            = 200 * time.Millisecond
)

// feed measures the change feed of an organisation: Collab on Postgres, where an event is a written file, and
// the bare server, which sends the same bytes and stores nothing. Each round starts new servers.
func (b *bench) feed(ctx context.Context) {
	var all []*feedSeries
	for i, load := range feedLoads {
		s := &feedSeries{feedLoad: load}
		b.measureFeed(ctx, fmt.Sprintf("feed_%d", i), s)
		all = append(all, s)
	}
	b.printFeed(all)
}

// feedSeries are the measurements of one load. The processor time is the additional one per delivery, paced, and the
// delay that from the request that makes an event to its receipt; the rate is that of deliveries in a burst.
type feedSeries struct {
	feedLoad
	collab, bare []figures
	size         int // of an event, in bytes
}

// measureFeed measures new servers in each round.
func (b *bench) measureFeed(ctx context.Context, name string, s *feedSeries) {
	for round := range b.rounds {
		var event []byte
		b.scoped(func() { event = b.feedOfCollab(ctx, fmt.Sprintf("%s_%d", name, round), s) })
		s.size = len(event)
		b.scoped(func() { b.feedOfBare(ctx, event, s) })
	}
}

func (b *bench) printFeed(all []*feedSeries) {
	t := b.newTable(fmt.Sprintf("Change feed over HTTP/1.1, events of %d bytes, Collab on Postgres that does not wait for the disk, contents in memory (bare: net/http, a channel of %d per client, nothing stored)", all[0].size, bareQueue),
		"subscribers", "CPU µs per event", "bare", "and per delivery", "bare", "ratio", "", "p50 ms", "bare", "p99 ms", "bare", "ratio", "",
		"burst deliveries/s", "bare", "ratio", "", "KiB per idle subscriber", "bare", "")
	publishCPU := func(f figures) float64 { return float64(f.publishCPU) }
	memory := func(f figures) float64 { return float64(f.memory) / kib }
	for _, s := range all {
		load := fmt.Sprintf("%d subscribers", s.subscribers)
		cpuRatio, p99Ratio, rateRatio := ratio(s.collab, s.bare, cpuOf), ratio(s.collab, s.bare, p99), ratio(s.collab, s.bare, rate)
		perSubscriber := median(s.collab, memory)
		t.row(fmt.Sprint(s.subscribers),
			micros(median(s.collab, publishCPU)), micros(median(s.bare, publishCPU)),
			tenths(median(s.collab, cpuOf)), tenths(median(s.bare, cpuOf)), fmt.Sprintf("%.2f", cpuRatio), b.judge(feedCPU, load, cpuRatio),
			millis(median(s.collab, p50)), millis(median(s.bare, p50)),
			millis(median(s.collab, p99)), millis(median(s.bare, p99)), fmt.Sprintf("%.2f", p99Ratio), b.judge(feedDelay, load, p99Ratio),
			thousands(median(s.collab, rate)), thousands(median(s.bare, rate)), fmt.Sprintf("%.2f", rateRatio), b.judge(feedBurst, load, rateRatio),
			fmt.Sprintf("%.1f", perSubscriber), fmt.Sprintf("%.1f", median(s.bare, memory)), b.judge(feedMemory, load, perSubscriber))
	}
	t.print()
}

// feedOfCollab measures a new server, and returns the bytes of an event.
func (b *bench) feedOfCollab(ctx context.Context, name string, s *feedSeries) (event []byte) {
	database, conn := b.database(ctx, name)
	// The bare server has no disk to wait for.
	own := pgx.Identifier{conn.Config().Database}.Sanitize()
	must.Do(conn.Exec(ctx, "ALTER DATABASE "+own+" SET synchronous_commit = off")).Or(b)
	c := b.startCollab(ctx, "collabd-"+name, database, "COLLAB_BLOB_URL=mem://")
	var tokens []string
	for i := range (s.subscribers + subscribersPerUser - 1) / subscribersPerUser {
		var signed session
		must.NoError(b, c.exchange(ctx, fmt.Sprintf("reader%d", i), "member", &signed))
		tokens = append(tokens, signed.Token)
	}
	// A burst changes many files, because writers of one file would wait for each other.
	var burst []workload
	for i := range burstWriters {
		burst = append(burst, c.write(fmt.Sprintf("workspace/%s/note-%02d.md", c.workspace, i)))
	}
	a := &feedClients{process: c.process, write: c.write("org"), burst: burst}
	s.collab = append(s.collab, a.measure(ctx, b, s.feedLoad, func(i int) string { return tokens[i/subscribersPerUser] }))
	return a.event
}

// write returns the workload that changes a memory file of the organisation.
func (c *collab) write(file string) workload {
	const body = `{"content":"What everybody of the organisation knows."}`
	return workload{name: "write", status: http.StatusOK, head: []byte("PUT /api/v1/sync/memory/" + file + headers(c.address, c.token,
		"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))) + body)}
}

// feedOfBare measures a new bare server.
func (b *bench) feedOfBare(ctx context.Context, event []byte, s *feedSeries) {
	p := b.startBare(ctx, "")
	write := workload{name: "write", status: http.StatusOK, head: slices.Concat(
		[]byte("POST "+barePublish+headers(p.address, "", fmt.Sprintf("Content-Length: %d", len(event)))), event)}
	a := &feedClients{process: p, write: write, burst: slices.Repeat([]workload{write}, burstWriters)}
	s.bare = append(s.bare, a.measure(ctx, b, s.feedLoad, func(int) string { return "" }))
}

// feedClients are the subscribers and the writers of a feed.
type feedClients struct {
	*process
	write       workload   // paced
	burst       []workload // one for each writer
	subscribers []*subscriber
	event       []byte // bytes of the first event

	began       time.Time
	requestedAt []atomic.Int64 // when each event was requested, in nanoseconds since began
	delivered   atomic.Int64   // deliveries
	reached     chan struct{}  // receives when delivered reaches want
	want        atomic.Int64
	done        sync.WaitGroup
}

// subscriber is one client of a feed.
type subscriber struct {
	conn   net.Conn
	r      *bufio.Reader
	delays []time.Duration // for each event
	err    error
}

// measure measures new subscribers, which leave at the end of the scope.
func (a *feedClients) measure(ctx context.Context, b *bench, load feedLoad, token func(int) string) (f figures) {
	if load.proxied {
		a.process = b.proxied(ctx, a.process)
	}
	paced := max(4, int(2*b.run/load.every))
	a.began, a.reached = time.Now(), make(chan struct{}, 1)
	a.requestedAt = make([]atomic.Int64, paced+load.burst+2*warmEvents)
	writer := must.Do(dial(a.address, 10*feedTimeout)).Or(b)
	defer writer.Close()
	before := must.Do(a.resident()).Or(b)
	b.cleanup(a.close)
	for i := range load.subscribers {
		if err := a.subscribe(token(i)); err != nil {
			b.Errorf("subscriber %d on %s: %w", i, a.name, err)
		}
	}
	must.NoError(b, sleep(ctx, 4*b.warm))
	after := must.Do(a.resident()).Or(b)
	f.memory = (after - before) / int64(load.subscribers)

	for _, w := range a.subscribers {
		a.done.Go(func() { w.err = a.read(w) })
	}
	a.pace(ctx, b, writer, 0, warmEvents, load.every)
	took := a.pace(ctx, b, writer, warmEvents, paced, load.every)
	next := warmEvents + paced
	a.pace(ctx, b, writer, next, warmEvents, load.every)
	f.rate = a.measureRate(ctx, b, next+warmEvents, load.burst)
	must.NoError(b, a.close())
	var delays []time.Duration
	for _, w := range a.subscribers {
		delays = append(delays, w.delays[warmEvents:next]...)
	}
	f.p50, f.p99 = percentiles(delays)
	// Measure an event without subscribers. While it sends the first ones, the server detects that all have
	// disconnected.
	a.subscribers = nil
	a.pace(ctx, b, writer, 0, warmEvents, load.every)
	a.awaitIdle(ctx, b)
	f.publishCPU = a.pace(ctx, b, writer, 0, paced, publishInterval)
	f.cpu = (took - f.publishCPU) / time.Duration(paced*load.subscribers)
	f.publishCPU /= time.Duration(paced)
	return f
}

// sleep waits for the duration, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// awaitIdle waits until the server takes hardly any processor time.
func (a *feedClients) awaitIdle(ctx context.Context, b *bench) {
	limit := time.Now().Add(feedTimeout)
	for time.Now().Before(limit) {
		before := must.Do(a.cpu()).Or(b)
		must.NoError(b, sleep(ctx, idleFor))
		if must.Do(a.cpu()).Or(b)-before <= 2*tick {
			return
		}
	}
	b.Errorf("%s is not idle after %v", a.name, feedTimeout)
}

// pace publishes n events at intervals, with the numbers from from on, and returns the server's processor
// time.
func (a *feedClients) pace(
	ctx context.Context, b *bench, c *connection, from, n int, every time.Duration,
) time.Duration {
	before := must.Do(a.cpu()).Or(b)
	clock := time.NewTicker(every)
	defer clock.Stop()
	for i := from; i < from+n; i++ {
		must.NoError(b, a.publish(c, a.write, i))
		<-clock.C
	}
	must.NoError(b, a.wait(ctx, from+n))
	return must.Do(a.cpu()).Or(b) - before
}

// measureRate publishes n events as fast as possible and returns the deliveries per second.
func (a *feedClients) measureRate(ctx context.Context, b *bench, from, n int) float64 {
	writers := make([]*connection, len(a.burst))
	for i := range writers {
		writers[i] = must.Do(dial(a.address, feedTimeout)).Or(b)
		defer writers[i].Close()
	}
	var next atomic.Int64
	next.Store(int64(from))
	errs := make([]error, len(writers))
	var all sync.WaitGroup
	began := time.Now()
	for k, w := range writers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(from+n) && errs[k] == nil; i = next.Add(1) - 1 {
				errs[k] = a.publish(w, a.burst[k], int(i))
			}
		})
	}
	all.Wait()
	must.NoError(b, errors.Join(errs...))
	must.NoError(b, a.wait(ctx, from+n))
	return float64(n*len(a.subscribers)) / time.Since(began).Seconds()
}

// publish publishes the event with the number i.
func (a *feedClients) publish(w *connection, write workload, i int) error {
	a.requestedAt[i].Store(int64(time.Since(a.began)))
	if _, err := w.exchange(write, ""); err != nil {
		return fmt.Errorf("an event on %s: %w", a.name, err)
	}
	return nil
}

// wait waits until every subscriber has received the number of events.
func (a *feedClients) wait(ctx context.Context, events int) error {
	want := int64(events * len(a.subscribers))
	a.want.Store(want)
	limit := time.NewTimer(feedTimeout)
	defer limit.Stop()
	for a.delivered.Load() < want {
		select {
		case <-a.reached:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%d of %d deliveries on %s after %v", a.delivered.Load(), want, a.name, feedTimeout)
		}
	}
	return nil
}

// subscribe adds a subscriber and reads the beginning of its stream.
func (a *feedClients) subscribe(token string) error {
	conn, err := connect(context.Background(), a.address)
	if err != nil {
		return err
	}
	s := &subscriber{conn: conn, r: bufio.NewReaderSize(conn, 2<<10), delays: make([]time.Duration, 0, len(a.requestedAt))}
	a.subscribers = append(a.subscribers, s)
	if _, err := io.WriteString(conn, "GET /api/v1/sync/changes"+headers(a.address, token)); err != nil {
		return err
	}
	line, err := s.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		return fmt.Errorf("%q: %w", line, err)
	}
	for !strings.HasPrefix(line, "retry: ") {
		if line, err = s.r.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// read records the delays of events until the connection is closed.
func (a *feedClients) read(s *subscriber) error {
	var event []byte
	for {
		line, err := s.r.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return errors.Join(err, s.conn.Close())
		}
		first := s == a.subscribers[0] && a.event == nil
		if first && (bytes.HasPrefix(line, []byte("id: ")) || bytes.HasPrefix(line, []byte("data: "))) {
			event = append(event, line...)
		}
		if !bytes.HasPrefix(line, []byte("data: ")) {
			if len(line) == 1 && len(event) > 0 && !bytes.Contains(event, []byte("data: ")) {
				event = nil // it has only an id
			}
			continue
		}
		if first {
			a.event = append(event, '\n')
		}
		i := len(s.delays)
		if i == len(a.requestedAt) {
			return errors.Join(errors.New("an event too many"), s.conn.Close())
		}
		s.delays = append(s.delays, time.Since(a.began)-time.Duration(a.requestedAt[i].Load()))
		if a.delivered.Add(1) == a.want.Load() {
			select {
			case a.reached <- struct{}{}:
			default:
			}
		}
	}
}

// close ends all subscriptions. It may be called again.
func (a *feedClients) close() error {
	for _, c := range a.subscribers {
		_ = c.conn.Close()
	}
	a.done.Wait()
	for _, c := range a.subscribers {
		if c.err != nil {
			return fmt.Errorf("a subscriber on %s: %w", a.name, c.err)
		}
	}
	return nil
}

// The feed of the bare server.
const (
	barePublish = "/publish"
	bareQueue   = 64 // capacity of the channel of one client
)

// bareFeed sends posted events to all its subscribers.
type bareFeed struct {
	mu      sync.Mutex
	clients map[chan []byte]<-chan struct{} // with a channel that is closed when the client disconnects; guarded by mu
}

func (f *bareFeed) subscribe(s http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, bareQueue)
	f.mu.Lock()
	f.clients[events] = r.Context().Done()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.clients, events)
		f.mu.Unlock()
	}()
	control := http.NewResponseController(s)
	s.Header().Set("Content-Type", "text/event-stream")
	s.Header().Set("Cache-Control", "no-store")
	_, err := io.WriteString(s, "retry: 3000\n\n")
	for err == nil {
		if err = control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			_, err = s.Write(event)
		}
	}
}

// publish waits for clients that have not read the previous events.
func (f *bareFeed) publish(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, gone := range f.clients {
		select {
		case c <- event:
		case <-gone:
		}
	}
	w.Header().Set("Content-Length", "0")
}
