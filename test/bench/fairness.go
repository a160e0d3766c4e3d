package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The organisations of the part fairness: one at full speed, and quiet ones, whose members
// send a request at intervals.
const (
	quietOrgs  = 50
	quietRows  = 20
	quietEvery = 200 * time.Millisecond

	noisyUploads = 4   // connections
	noisyPerKind = 32  // connections of each kind of request
	noisySize    = 256 // KiB of a file
)

// unshared are the settings of a server whose organisations have no shares.
const unshared = "COLLAB_CONCURRENCY=requests=1000000,transfers=1000000"

var quietDelay = atMost("fairness", "p99 of quiet organisations, of that without the noisy one", "%.2f", 2)

// fairServer is a server with a noisy organisation, that of the collab, and quiet ones.
type fairServer struct {
	*collab
	ids   []string // of the noisy organisation's tasks
	quiet []quietOrg
}

type quietOrg struct{ kinds []workload }

// newFairServer fills the organisations of a server.
func newFairServer(ctx context.Context, c *collab) (*fairServer, error) {
	s := &fairServer{collab: c}
	var err error
	if s.ids, err = c.makeTasks(ctx); err != nil {
		return nil, err
	}
	for i := range quietOrgs {
		in := *c
		var signed session
		if err := c.exchangeIn(ctx, fmt.Sprintf("Quiet %d", i), fmt.Sprintf("quiet%d", i), "owner", &signed); err != nil {
			return nil, err
		}
		in.token = signed.Token
		ids, err := in.makeTasks(ctx)
		if err != nil {
			return nil, err
		}
		s.quiet = append(s.quiet, quietOrg{in.requestKinds(ids)})
	}
	return s, nil
}

// makeTasks makes the tasks of an organisation and returns their ids.
func (c *collab) makeTasks(ctx context.Context) (ids []string, err error) {
	for i := range quietRows {
		var made struct{ ID string }
		if _, err := c.call(ctx, "POST", "/api/v1/tasks", "application/json", draft(i), &made); err != nil {
			return nil, err
		}
		ids = append(ids, made.ID)
	}
	return ids, nil
}

func (c *collab) requestKinds(ids []string) []workload {
	return []workload{
		get(c.address, c.token, ids),
		list("list", c.address, c.token, fmt.Sprintf("limit=%d", quietRows), quietRows),
		create(c.address, c.token),
	}
}

// fairness measures what the requests of quiet organisations take while another sends requests
// and uploads at full speed, with shares and without.
func (b *bench) fairness(ctx context.Context) error {
	t := b.newTable(fmt.Sprintf("Requests of %d quiet organisations, one each %v, beside one with %d connections that send requests and %d that send files of %d KiB at full speed",
		quietOrgs, quietEvery, 3*noisyPerKind, noisyUploads, noisySize),
		"", "p50 ms alone", "beside", "beside, no shares", "p99 ms alone", "beside", "beside, no shares", "p99 beside / alone", "", "noisy requests/s", "no shares")
	for _, database := range []string{"Postgres", "SQLite"} {
		if err := b.fairnessOn(ctx, database, t); err != nil {
			return err
		}
	}
	t.print()
	return nil
}

func (b *bench) fairnessOn(ctx context.Context, database string, t table) (err error) {
	var servers [2]*fairServer
	for i, settings := range [][]string{nil, {unshared}} {
		address := "sqlite"
		if database == "Postgres" {
			url, conn, err := b.database(ctx, fmt.Sprintf("fairness%d", i))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(context.Background()) }()
			address = url
		}
		c, err := b.startCollab(ctx, fmt.Sprintf("collabd-fairness-%s-%d", database, i), address, settings...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.stop()) }()
		if servers[i], err = newFairServer(ctx, c); err != nil {
			return err
		}
	}
	var alone, beside, without []figures
	var noisy, noisyWithout []figures
	for range b.rounds {
		for _, turn := range []struct {
			on    *fairServer
			quiet *[]figures
			noisy *[]figures
		}{{servers[0], &alone, nil}, {servers[0], &beside, &noisy}, {servers[1], &without, &noisyWithout}} {
			quiet, loud, err := b.besides(ctx, turn.on, turn.noisy != nil)
			if err != nil {
				return fmt.Errorf("%s: %w", database, err)
			}
			*turn.quiet = append(*turn.quiet, quiet)
			if turn.noisy != nil {
				*turn.noisy = append(*turn.noisy, loud)
			}
		}
	}
	longer := ratio(beside, alone, p99)
	t.row(database, millis(median(alone, p50)), millis(median(beside, p50)), millis(median(without, p50)),
		millis(median(alone, p99)), millis(median(beside, p99)), millis(median(without, p99)),
		fmt.Sprintf("%.2f", longer), b.judge(quietDelay, database, longer),
		thousands(median(noisy, rate)), thousands(median(noisyWithout, rate)))
	return nil
}

// besides measures the quiet organisations of a server, and the noisy one if it is to take part.
func (b *bench) besides(ctx context.Context, s *fairServer, noisy bool) (quiet, loud figures, err error) {
	var (
		phase  atomic.Int32
		done   sync.WaitGroup
		mu     sync.Mutex
		failed error
		broken = make(chan struct{}, quietOrgs+3*noisyPerKind+noisyUploads)

		quietTook, loudTook []time.Duration
	)
	begin := func(into *[]time.Duration, run func(c *connection) ([]time.Duration, error)) error {
		c, err := dial(s.address, b.warm+b.run+patience)
		if err != nil {
			return err
		}
		done.Go(func() {
			defer c.Close()
			took, err := run(c)
			mu.Lock()
			defer mu.Unlock()
			if *into = append(*into, took...); err != nil {
				failed = err
				broken <- struct{}{}
			}
		})
		return nil
	}
	for i, q := range s.quiet {
		err = errors.Join(err, begin(&quietTook, func(c *connection) ([]time.Duration, error) {
			return c.pace(q.kinds, quietEvery, time.Duration(i)*quietEvery/quietOrgs, &phase, uint64(i))
		}))
	}
	if noisy {
		for i := range noisyPerKind {
			for _, w := range s.requestKinds(s.ids) {
				err = errors.Join(err, begin(&loudTook, func(c *connection) ([]time.Duration, error) { return c.repeat(w, &phase, uint64(i)) }))
			}
		}
		upload := fileServer{process: s.process, token: s.token, uploads: "/api/v1/sync/files"}.form(make([]byte, kib), noisySize)
		for i := range noisyUploads {
			err = errors.Join(err, begin(&loudTook, func(c *connection) ([]time.Duration, error) { return c.repeat(upload, &phase, uint64(i)) }))
		}
	}
	if err == nil {
		wait(ctx, b.warm, broken)
		phase.Store(counting)
		wait(ctx, b.run, broken)
	}
	phase.Store(over)
	done.Wait()
	if err = errors.Join(err, failed, ctx.Err()); err != nil {
		return quiet, loud, err
	}
	return b.summarize(quietTook), b.summarize(loudTook), nil
}

// summarize returns the figures of requests that took so long.
func (b *bench) summarize(took []time.Duration) (f figures) {
	if n := len(took); n > 0 {
		slices.Sort(took)
		f = figures{rate: float64(n) / b.run.Seconds(), p50: took[n/2], p99: took[n*99/100]}
	}
	return f
}

// pace sends one request of the workloads in turn at each interval, after a delay, until the
// measurement is over, and returns how long each counted answer took.
func (c *connection) pace(kinds []workload, every, delay time.Duration, phase *atomic.Int32, seed uint64) (took []time.Duration, err error) {
	random := rand.New(rand.NewPCG(seed, 3))
	due := time.Now().Add(delay)
	for i := 0; ; i++ {
		time.Sleep(time.Until(due))
		due = due.Add(every)
		w := kinds[i%len(kinds)]
		var id string
		if len(w.ids) > 0 {
			id = w.ids[random.IntN(len(w.ids))]
		}
		began := time.Now()
		status, body, err := c.exchange(w, id)
		if err != nil {
			return nil, err
		}
		if status != w.status || !w.holds(body, id) {
			return nil, fmt.Errorf("status %d with %.300q", status, body)
		}
		switch phase.Load() {
		case counting:
			took = append(took, time.Since(began))
		case over:
			return took, nil
		}
	}
}
