package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// The organisations of the part fairness: one at full speed, and quiet ones, whose members
// send a request at intervals.
const (
	quietOrgs  = 50
	quietRows  = 20
	quietEvery = 200 * time.Millisecond
	quietRuns  = 3 // factor of the duration, because the p99 of few requests needs more of them

	noisyUploads = 4   // connections
	noisyPerKind = 32  // connections of each kind of request
	noisySize    = 256 // KiB of a file
)

// unshared are the settings of a server whose organisations have no shares.
const unshared = "COLLAB_CONCURRENCY=requests=1000000,transfers=1000000"

var quietDelay = atMost("fairness", "p99 of quiet organisations, of that without the noisy one", "%.2f", 2)

// fairServer is a server with a noisy organisation, which is that of the collab, and quiet ones.
type fairServer struct {
	*collab
	ids   []string // of the noisy organisation's tasks
	quiet []quietOrg
}

type quietOrg struct{ kinds []workload }

// newFairServer fills the organisations of a server.
func (b *bench) newFairServer(ctx context.Context, c *collab) *fairServer {
	s := &fairServer{collab: c, ids: b.makeTasks(ctx, c)}
	for i := range quietOrgs {
		in := *c
		var signed session
		must.NoError(b, c.exchangeIn(ctx, fmt.Sprintf("Quiet %d", i), fmt.Sprintf("quiet%d", i), "owner", &signed))
		in.token = signed.Token
		s.quiet = append(s.quiet, quietOrg{in.requestKinds(b.makeTasks(ctx, &in))})
	}
	return s
}

// makeTasks creates the tasks of an organisation and returns their ids.
func (b *bench) makeTasks(ctx context.Context, c *collab) (ids []string) {
	for i := range quietRows {
		var made struct{ ID string }
		must.Do(c.call(ctx, "POST", "/api/v1/tasks", "application/json", draft(i), &made)).Or(b)
		ids = append(ids, made.ID)
	}
	return ids
}

func (c *collab) requestKinds(ids []string) []workload {
	return []workload{
		get(c.address, c.token, ids),
		list("list", c.address, c.token, fmt.Sprintf("limit=%d", quietRows), quietRows),
		create(c.address, c.token),
	}
}

// fairness measures requests of quiet organisations while another sends requests and uploads at full speed,
// with shares and without.
func (b *bench) fairness(ctx context.Context) {
	t := b.newTable(fmt.Sprintf("Requests of %d quiet organisations, one each %v for %v, beside one with %d connections that send requests and %d that send files of %d KiB at full speed",
		quietOrgs, quietEvery, quietRuns*b.run, 3*noisyPerKind, noisyUploads, noisySize),
		"", "p50 ms alone", "beside", "beside, no shares", "p99 ms alone", "beside", "beside, no shares", "p99 beside / alone", "", "noisy requests/s", "no shares")
	for _, database := range []string{"Postgres", "SQLite"} {
		b.scoped(func() { b.fairnessOn(ctx, database, t) })
	}
	t.print()
}

func (b *bench) fairnessOn(ctx context.Context, database string, t table) {
	var servers [2]*fairServer
	for i, settings := range [][]string{nil, {unshared}} {
		address, conn := "sqlite", (*pgx.Conn)(nil)
		if database == "Postgres" {
			address, conn = b.database(ctx, fmt.Sprintf("fairness%d", i))
		}
		c := b.startCollab(ctx, fmt.Sprintf("collabd-fairness-%s-%d", database, i), address, settings...)
		servers[i] = b.newFairServer(ctx, c)
		if conn != nil {
			// Autovacuum does this within a minute. Plans from before, for few records, sort all tasks of an
			// organisation for each list.
			must.Do(conn.Exec(ctx, "ANALYZE")).Or(b)
		}
	}
	var alone, beside, without []figures
	var noisy, noisyWithout []figures
	type turn struct {
		target *fairServer
		quiet  *[]figures
		noisy  *[]figures
	}
	// The order is reversed in each round, because the database writes the changes of one turn during the next.
	turns := []turn{{servers[0], &alone, nil}, {servers[0], &beside, &noisy}, {servers[1], &without, &noisyWithout}}
	for range b.rounds {
		slices.Reverse(turns)
		for _, turn := range turns {
			quiet, noisyFigures, err := b.measureQuiet(ctx, turn.target, turn.noisy != nil)
			if err != nil {
				b.Errorf("%s: %w", database, err)
			}
			*turn.quiet = append(*turn.quiet, quiet)
			if turn.noisy != nil {
				*turn.noisy = append(*turn.noisy, noisyFigures)
			}
		}
	}
	longer := ratio(beside, alone, p99)
	t.row(database, millis(median(alone, p50)), millis(median(beside, p50)), millis(median(without, p50)),
		millis(median(alone, p99)), millis(median(beside, p99)), millis(median(without, p99)),
		fmt.Sprintf("%.2f", longer), b.judge(quietDelay, database, longer),
		thousands(median(noisy, rate)), thousands(median(noisyWithout, rate)))
}

// measureQuiet measures the quiet organisations of a server, under the load of the noisy one if noisy is set.
func (b *bench) measureQuiet(ctx context.Context, s *fairServer, noisy bool) (quiet, noisyFigures figures, err error) {
	var l *noisyLoad
	if noisy {
		if l, err = b.startNoisy(s); err != nil {
			return quiet, noisyFigures, err
		}
	}
	m := newConnectionGroup(len(s.quiet))
	run := quietRuns * b.run
	for i, q := range s.quiet {
		c, failed := dial(s.address, b.warm+run+gracePeriod)
		if err = errors.Join(err, failed); failed == nil {
			m.add(c, func() ([]time.Duration, error) {
				return c.pace(q.kinds, quietEvery, time.Duration(i)*quietEvery/quietOrgs, &m.phase, uint64(i))
			})
		}
	}
	quiet, failed := m.count(ctx, b.warm, run, s, (*postmaster)(nil), func() error {
		if l == nil {
			return nil
		}
		return l.count()
	})
	err = errors.Join(err, failed)
	if l != nil {
		responses, failed := l.end()
		noisyFigures.rate = float64(responses) / run.Seconds()
		err = errors.Join(err, failed)
	}
	return quiet, noisyFigures, err
}

// noisyCommand runs this program as the noisy organisation's clients instead of the benchmark.
const noisyCommand = "noisy"

// noisyOptions are the options of the noisy clients.
type noisyOptions struct {
	Address, Token string
	IDs            []string // of tasks
	Lifetime       time.Duration
}

// noisyLoad is the process of the noisy clients.
type noisyLoad struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     bytes.Buffer
}

// startNoisy starts the clients of the noisy organisation as a process of the lowest priority, so that they
// take only processor time that neither the server nor the quiet clients need.
func (b *bench) startNoisy(s *fairServer) (*noisyLoad, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(noisyOptions{s.address, s.token, s.ids, b.warm + quietRuns*b.run + gracePeriod})
	if err != nil {
		return nil, err
	}
	l := &noisyLoad{command: exec.Command("nice", "-n", "19", program, noisyCommand, string(options))}
	l.command.Stdout, l.command.Stderr, l.command.SysProcAttr = &l.out, os.Stderr, withParent()
	if l.in, err = l.command.StdinPipe(); err != nil {
		return nil, err
	}
	return l, l.command.Start()
}

// count makes the clients count their responses from now on.
func (l *noisyLoad) count() error {
	_, err := io.WriteString(l.in, "count\n")
	return err
}

// end stops the clients and returns the number of counted responses.
func (l *noisyLoad) end() (responses int, err error) {
	if err := errors.Join(l.in.Close(), l.command.Wait()); err != nil {
		return 0, fmt.Errorf("noisy clients: %w", err)
	}
	_, err = fmt.Sscan(l.out.String(), &responses)
	return responses, err
}

// runNoisy is the process of noisyLoad. It sends requests until in ends, and writes the number of responses since
// the first line of in to out.
func runNoisy(options string, in io.Reader, out io.Writer) error {
	var o noisyOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	uploaded.Store(int64(os.Getpid()%100_000) * 10_000_000) // so that paths differ from those of earlier rounds
	s := &process{address: o.Address}
	m := newConnectionGroup(3*noisyPerKind + noisyUploads)
	repeat := func(w workload, seed int) error {
		c, err := dial(o.Address, o.Lifetime)
		if err == nil {
			m.add(c, func() ([]time.Duration, error) { return c.repeat(&m.phase, uint64(seed), func() {}, w) })
		}
		return err
	}
	var err error
	for i := range noisyPerKind {
		for _, w := range (&collab{process: s, token: o.Token}).requestKinds(o.IDs) {
			err = errors.Join(err, repeat(w, i))
		}
	}
	upload := fileServer{process: s, token: o.Token, uploads: "/api/v1/sync/files"}.form(make([]byte, kib), noisySize)
	for i := range noisyUploads {
		err = errors.Join(err, repeat(upload, i))
	}
	m.start()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		m.phase.Store(counting)
	}
	took, failed := m.end()
	fmt.Fprintln(out, len(took))
	return errors.Join(err, failed, lines.Err())
}

// pace sends one request of the workloads in turn at each interval, after a delay, until the end of the
// measurement, and returns the durations of the counted requests.
func (c *connection) pace(kinds []workload, every, delay time.Duration, phase *atomic.Int32, seed uint64) ([]time.Duration, error) {
	due := time.Now().Add(delay)
	wait := func() {
		time.Sleep(time.Until(due))
		due = due.Add(every)
	}
	return c.repeat(phase, seed, wait, kinds...)
}
