package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"collab/test/must"
)

// A workload is one kind of request and the check of its responses. Requests are prepared as bytes, and
// responses are parsed by hand, so that the load tool takes little of the processors that it shares with
// the servers.
type workload struct {
	name   string
	head   []byte                  // the request, up to the id if it has one
	ids    []string                // a random one is inserted between head and tail
	next   func(*rand.Rand) string // returns the id if it must be unique; nil: it is one of ids
	tail   []byte
	block  []byte // repeated after tail, for long bodies
	blocks int
	end    []byte // follows the blocks
	status int
	valid  func(body []byte, id string) bool // nil: any body

	fresh   bool        // each request has a new connection
	secured *tls.Config // of new connections; nil: they have no TLS
}

// figures are the results of one measurement.
type figures struct {
	rate     float64       // requests per second
	cpu      time.Duration // of the server's process, per request
	database time.Duration // of the database's processes, per request
	p50, p99 time.Duration

	// Of a feed alone.
	publishCPU time.Duration // processor time of the server's process per event without subscribers
	memory     int64         // bytes per idle subscriber
}

// The phases of a measurement.
const (
	warming = iota
	counting
	finished
)

// gracePeriod is the time from the end of a measurement until its connections time out.
const gracePeriod = 20 * time.Second

// measurement is the measurement of a workload on one of the servers that take turns.
type measurement struct {
	target   *process
	w        workload
	database *postmaster
	into     *[]figures // its figures are appended to
}

// series are the measurements of one kind of request.
type series struct {
	kind                   string
	connections            int
	sqlite, postgres, bare []figures
}

// measureInTurns runs the measurements in turns, each in every round.
func (b *bench) measureInTurns(ctx context.Context, connections int, turns ...measurement) {
	for range b.rounds {
		b.round(ctx, connections, turns...)
	}
}

// round runs each measurement once.
func (b *bench) round(ctx context.Context, connections int, turns ...measurement) {
	for _, t := range turns {
		*t.into = append(*t.into, must.Do(measure(ctx, t.target, t.w, connections, b.warm, b.run, t.database)).Or(b))
	}
}

// measure sends sequential requests over each of the connections, and counts those that are answered within
// run after the warm-up. It returns an error on the first wrong response.
func measure(ctx context.Context, p *process, w workload, connections int, warm, run time.Duration, database *postmaster) (figures, error) {
	m := newConnectionGroup(connections)
	for i := range connections {
		c, err := dial(p.address, warm+run+gracePeriod)
		if err != nil {
			_, _ = m.end()
			return figures{}, err
		}
		m.add(c, func() ([]time.Duration, error) { return c.repeat(&m.phase, uint64(i), func() {}, w) })
	}
	f, err := m.count(ctx, warm, run, p, database, func() error { return nil })
	if err != nil {
		err = fmt.Errorf("%s on %s: %w", w.name, p.name, err)
	}
	return f, err
}

// connectionGroup runs concurrent connections and collects the durations of their counted requests.
type connectionGroup struct {
	phase  atomic.Int32
	began  chan struct{}
	start  func() // closes began
	done   sync.WaitGroup
	broken chan struct{} // receives when a connection has failed

	mu     sync.Mutex
	delays []time.Duration // guarded by mu
	failed error           // guarded by mu
}

func newConnectionGroup(connections int) *connectionGroup {
	m := &connectionGroup{began: make(chan struct{}), broken: make(chan struct{}, connections)}
	m.start = sync.OnceFunc(func() { close(m.began) })
	return m
}

// add calls run on another goroutine after the start, and then closes the connection.
func (m *connectionGroup) add(c io.Closer, run func() ([]time.Duration, error)) {
	m.done.Go(func() {
		defer c.Close()
		<-m.began
		took, err := run()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.delays = append(m.delays, took...); err != nil {
			m.failed = err // the last error stands for all
			m.broken <- struct{}{}
		}
	})
}

// count starts the connections, calls begin after the warm-up, measures the requests that are answered within run
// after that, and ends the connections. Server and database are where the processor time is spent.
func (m *connectionGroup) count(ctx context.Context, warm, run time.Duration, server, database cpuMeter, begin func() error) (figures, error) {
	m.start()
	wait(ctx, warm, m.broken)
	err := begin()
	cpuBefore, err1 := server.cpu()
	dbBefore, err2 := database.cpu()
	began := time.Now()
	m.phase.Store(counting)
	wait(ctx, run, m.broken)
	m.phase.Store(finished)
	lasted := time.Since(began)
	cpuAfter, err3 := server.cpu()
	dbAfter, err4 := database.cpu()
	took, failed := m.end()
	if err := errors.Join(failed, err, err1, err2, err3, err4, ctx.Err()); err != nil {
		return figures{}, err
	}
	if len(took) == 0 {
		return figures{}, fmt.Errorf("no response within %v", run)
	}
	n := time.Duration(len(took))
	f := figures{rate: float64(n) / lasted.Seconds(), cpu: (cpuAfter - cpuBefore) / n, database: (dbAfter - dbBefore) / n}
	f.p50, f.p99 = percentiles(took)
	return f, nil
}

// cpuMeter returns the processor time that something has taken.
type cpuMeter interface {
	cpu() (time.Duration, error)
}

// end ends the measurement and waits for all connections.
func (m *connectionGroup) end() ([]time.Duration, error) {
	m.phase.Store(finished)
	m.start()
	m.done.Wait()
	return m.delays, m.failed
}

// percentiles sorts the durations and returns their percentiles, zero if there are none.
func percentiles(took []time.Duration) (p50, p99 time.Duration) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// wait waits for the duration, the end of the context or a broken connection.
func wait(ctx context.Context, d time.Duration, broken <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-broken:
	case <-ctx.Done():
	}
}

// connection is one keep-alive HTTP/1.1 connection.
type connection struct {
	net.Conn
	address string
	r       *bufio.Reader
	out     []byte
	body    []byte
}

func dial(address string, lifetime time.Duration) (*connection, error) {
	c, err := connect(context.Background(), address)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(lifetime)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &connection{Conn: c, address: address, r: bufio.NewReaderSize(c, 32<<10)}, nil
}

// dialReset connects to a server. Closing the connection resets it, so that no port remains in TIME_WAIT: there
// are fewer ports than connections.
func dialReset(address string) (net.Conn, error) {
	c, err := net.Dial("tcp", address)
	if err == nil {
		err = c.(*net.TCPConn).SetLinger(0)
	}
	return c, err
}

// reconnect replaces the connection by a new one, with TLS if there is a configuration.
func (c *connection) reconnect(secured *tls.Config) error {
	_ = c.Close()
	var err error
	if c.Conn, err = dialReset(c.address); err != nil {
		return err
	}
	if secured != nil {
		c.Conn = tls.Client(c.Conn, secured)
	}
	c.r.Reset(c.Conn)
	return c.SetDeadline(time.Now().Add(gracePeriod))
}

// repeat sends requests of the workloads in turn, each after wait, until the end of the measurement, and returns
// the durations of the counted ones.
func (c *connection) repeat(phase *atomic.Int32, seed uint64, wait func(), kinds ...workload) ([]time.Duration, error) {
	random := rand.New(rand.NewPCG(seed, 2))
	took := make([]time.Duration, 0, 1<<14)
	for i := 0; ; i++ {
		wait()
		w := kinds[i%len(kinds)]
		var id string
		switch {
		case w.next != nil:
			id = w.next(random)
		case len(w.ids) > 0:
			id = w.ids[random.IntN(len(w.ids))]
		}
		began := time.Now()
		if w.fresh {
			if err := c.reconnect(w.secured); err != nil {
				return nil, err
			}
		}
		if _, err := c.exchange(w, id); err != nil {
			return nil, err
		}
		switch phase.Load() {
		case counting:
			took = append(took, time.Since(began))
		case finished:
			return took, nil
		}
	}
}

// exchange sends one request and returns the body of its response, which is valid until the next exchange. A response
// with another status than the workload's, or that does not hold, is an error.
func (c *connection) exchange(w workload, id string) ([]byte, error) {
	status, err := c.receive(w, id)
	if err == nil && (status != w.status || w.valid != nil && !w.valid(c.body, id)) {
		err = fmt.Errorf("status %d with %.300q", status, c.body)
	}
	return c.body, err
}

// receive sends one request and reads its response into c.body.
func (c *connection) receive(w workload, id string) (status int, err error) {
	c.out = append(append(append(c.out[:0], w.head...), id...), w.tail...)
	if err := c.send(w); err != nil {
		return 0, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length, chunked := -1, false
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch len(name) {
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				if length, err = strconv.Atoi(string(value)); err != nil {
					return 0, err
				}
			}
		case len("Transfer-Encoding"):
			chunked = chunked || bytes.EqualFold(name, []byte("Transfer-Encoding")) && string(value) == "chunked"
		}
	}
	c.body = c.body[:0]
	switch {
	case chunked:
		err = c.readChunks()
	case length < 0:
		err = errors.New("a response without a length")
	default:
		err = c.read(length)
	}
	return status, err
}

// send writes the request and its blocks.
func (c *connection) send(w workload) error {
	if _, err := c.Write(c.out); err != nil || w.blocks == 0 {
		return err
	}
	for range w.blocks {
		if _, err := c.Write(w.block); err != nil {
			return err
		}
	}
	_, err := c.Write(w.end)
	return err
}

func (c *connection) read(n int) error {
	from := len(c.body)
	c.body = slices.Grow(c.body, n)[:from+n]
	_, err := io.ReadFull(c.r, c.body[from:])
	return err
}

func (c *connection) readChunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.read(int(n)); err != nil {
			return err
		}
		if _, err := c.r.Discard(len("\r\n")); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// The three kinds of requests have the same paths on the bare server.

func get(address, token string, ids []string) workload {
	return workload{
		name: "get", status: http.StatusOK, ids: ids,
		head: []byte("GET /api/v1/tasks/"), tail: []byte(headers(address, token)),
		valid: func(body []byte, id string) bool {
			return bytes.HasPrefix(body, []byte(`{"id":"`)) && bytes.HasPrefix(body[7:], []byte(id)) && bytes.HasSuffix(body, []byte("}\n"))
		},
	}
}

func list(name, address, token, query string, rows int) workload {
	return workload{
		name: name, status: http.StatusOK,
		head: []byte("GET /api/v1/tasks?" + query + headers(address, token)),
		valid: func(body []byte, _ string) bool {
			return bytes.Count(body, []byte(`"sortOrder":`)) == rows && bytes.HasSuffix(body, []byte("]\n"))
		},
	}
}

func create(address, token string) workload {
	body := draft(0)
	return workload{
		name: "create", status: http.StatusCreated,
		head: []byte("POST /api/v1/tasks" + headers(address, token,
			"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))) + body),
		valid: func(body []byte, _ string) bool {
			return bytes.HasPrefix(body, []byte(`{"id":"`)) && bytes.Contains(body, []byte(taskTitle(0))) && bytes.HasSuffix(body, []byte("}\n"))
		},
	}
}

// headers returns the head of a request after its path.
func headers(address, token string, more ...string) string {
	lines := append([]string{" HTTP/1.1", "Host: " + address, "User-Agent: bench", "Accept: application/json"}, more...)
	if token != "" {
		lines = append(lines, "Authorization: Bearer "+token)
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}
