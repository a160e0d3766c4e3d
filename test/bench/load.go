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
	"sync/atomic"
	"time"
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
	holds  func(body []byte, id string) bool

	fresh   bool        // each request has a new connection
	secured *tls.Config // of new connections; nil: they have no TLS
}

// figures are the results of one measurement.
type figures struct {
	rate     float64       // requests per second
	cpu      time.Duration // of the server's process, per request
	database time.Duration // of the database's processes, per request
	p50, p99 time.Duration
}

// The phases of a measurement.
const (
	warming = iota
	counting
	over
)

// patience is the time after its end at which a measurement fails.
const patience = 20 * time.Second

// measurement is the measurement of a workload on one of the servers that take turns.
type measurement struct {
	on       *process
	w        workload
	database *postmaster
	into     *[]figures // its figures are appended to
}

// round runs each measurement once.
func (b *bench) round(ctx context.Context, connections int, turns ...measurement) error {
	for _, t := range turns {
		f, err := measure(ctx, t.on, t.w, connections, b.warm, b.run, t.database)
		if err != nil {
			return err
		}
		*t.into = append(*t.into, f)
	}
	return nil
}

// measure sends sequential requests over each of the connections, and counts those that are answered within
// run after the warm-up. It returns an error on the first wrong answer.
func measure(ctx context.Context, p *process, w workload, connections int, warm, run time.Duration, database *postmaster) (figures, error) {
	m := newConnectionGroup(connections)
	started := make(chan struct{})
	for i := range connections {
		err := m.begin(p.address, warm+run+patience, func(c *connection) ([]time.Duration, error) {
			<-started
			return c.repeat(&m.phase, uint64(i), func() {}, w)
		})
		if err != nil {
			close(started)
			_, _ = m.end()
			return figures{}, err
		}
	}
	close(started)
	wait(ctx, warm, m.broken)
	cpuBefore, err1 := p.cpu()
	dbBefore, err2 := database.cpu()
	began := time.Now()
	m.phase.Store(counting)
	wait(ctx, run, m.broken)
	m.phase.Store(over)
	lasted := time.Since(began)
	cpuAfter, err3 := p.cpu()
	dbAfter, err4 := database.cpu()
	took, failed := m.end()
	if err := errors.Join(failed, err1, err2, err3, err4, ctx.Err()); err != nil {
		return figures{}, fmt.Errorf("%s on %s: %w", w.name, p.name, err)
	}
	if len(took) == 0 {
		return figures{}, fmt.Errorf("%s on %s: no answer within %v", w.name, p.name, run)
	}
	f, n := summarize(took, lasted), time.Duration(len(took))
	f.cpu, f.database = (cpuAfter-cpuBefore)/n, (dbAfter-dbBefore)/n
	return f, nil
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
	return c.SetDeadline(time.Now().Add(patience))
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

// exchange sends one request and reads its response. The body is valid until the next exchange.
func (c *connection) exchange(w workload, id string) (status int, body []byte, err error) {
	c.out = append(append(append(c.out[:0], w.head...), id...), w.tail...)
	if err := c.send(w); err != nil {
		return 0, nil, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	length, chunked := -1, false
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch len(name) {
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				if length, err = strconv.Atoi(string(value)); err != nil {
					return 0, nil, err
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
		err = errors.New("an answer without a length")
	default:
		err = c.read(length)
	}
	return status, c.body, err
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
		holds: func(body []byte, id string) bool {
			return bytes.HasPrefix(body, []byte(`{"id":"`)) && bytes.HasPrefix(body[7:], []byte(id)) && bytes.HasSuffix(body, []byte("}\n"))
		},
	}
}

func list(name, address, token, query string, rows int) workload {
	return workload{
		name: name, status: http.StatusOK,
		head: []byte("GET /api/v1/tasks?" + query + headers(address, token)),
		holds: func(body []byte, _ string) bool {
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
		holds: func(body []byte, _ string) bool {
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
