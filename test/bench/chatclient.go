package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httputil"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Beginnings of the events of Collab's streams, and of the provider's event that ends a stream.
const (
	chunkBegins = `data: {"type":"text","text":"`
	doneBegins  = `data: {"type":"done"`
	errorBegins = `data: {"type":"error"`
	stopBegins  = `data: {"type":"message_stop"`
)

const (
	chatTimeout      = time.Minute
	spareConnections = 4   // of a client whose connections the server closes after one response
	lastChunks       = 2   // chunks of each paced stream that are not counted, because other streams end meanwhile
	responseTokens   = 500 // limit of the tokens of a response
)

// A chatTarget is a server of streams, or the provider.
type chatTarget struct {
	name     string
	address  string
	path     string
	tokens   []string // used in turns; empty: without authentication
	process  *process // nil for the provider
	provider *provider
}

// request returns the request for a stream of the script.
func (t chatTarget) request(stream int) []byte {
	body := fmt.Sprintf(`{"message":"`+streamMark+`%06d, please","maxTokens":%d}`, stream, responseTokens)
	token := ""
	if len(t.tokens) > 0 {
		token = t.tokens[stream%len(t.tokens)]
	}
	return []byte("POST " + t.path + headers(t.address, token,
		"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))) + body)
}

func (t chatTarget) cpu() (time.Duration, error) {
	if t.process == nil {
		return 0, nil
	}
	return t.process.cpu()
}

// chatClient sends requests over one connection and reads the responses.
type chatClient struct {
	net.Conn
	request []byte
	framed  *bufio.Reader
	lines   *bufio.Reader
	delays  []time.Duration // delays of the further chunks
	last    time.Time       // of the receipt of the last chunk
	closes  bool            // the server closes the connection after the response
	spare   []net.Conn      // the next connections, the oldest first
	err     error
}

// dial connects a client for a stream, with a deadline after chatTimeout.
func (t chatTarget) dial(ctx context.Context, stream int) (*chatClient, error) {
	c, err := connect(ctx, t.address)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(chatTimeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &chatClient{Conn: c, request: t.request(stream), framed: bufio.NewReaderSize(c, 8<<10), lines: bufio.NewReaderSize(nil, 8<<10)}, nil
}

// ask sends the request and reads the first chunk.
func (c *chatClient) ask() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	line, err := c.framed.ReadString('\n')
	if err != nil {
		return err
	}
	if len(line) < len("HTTP/1.1 200") || line[:12] != "HTTP/1.1 200" {
		more, _ := c.framed.Peek(c.framed.Buffered())
		return fmt.Errorf("%q, %.300q", line, more)
	}
	chunked := false
	for {
		line, err := c.framed.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		chunked = chunked || bytes.EqualFold(line, []byte("Transfer-Encoding: chunked"))
		c.closes = c.closes || bytes.EqualFold(line, []byte("Connection: close"))
	}
	if !chunked {
		return errors.New("a response that is not chunked")
	}
	c.lines.Reset(httputil.NewChunkedReader(c.framed))
	return c.chunk(0)
}

// chunk reads the next chunk, and returns an error unless it is the i-th.
func (c *chatClient) chunk(i int) error {
	got, over, err := c.next()
	switch {
	case err != nil:
		return err
	case over:
		return fmt.Errorf("the stream is over before the chunk %d", i)
	case got != i:
		return fmt.Errorf("the chunk %d came where %d was next", got, i)
	}
	return nil
}

// next reads the next chunk and returns its number, or over at the end of the stream.
func (c *chatClient) next() (i int, over bool, err error) {
	for {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		text, ok := bytes.CutPrefix(line, []byte(chunkBegins))
		if !ok && bytes.HasPrefix(line, eventData) {
			text, ok = bytes.CutPrefix(line[len(eventData):], textBegins)
		}
		switch {
		case ok && len(text) >= digits:
			return number(text), false, nil
		case bytes.HasPrefix(line, []byte(errorBegins)):
			return 0, false, fmt.Errorf("the stream failed with %q", line)
		case bytes.HasPrefix(line, []byte(doneBegins)), bytes.HasPrefix(line, []byte(stopBegins)):
			return 0, true, nil
		}
	}
}

// end reads the rest of the response after the last chunk.
func (c *chatClient) end() error {
	switch i, over, err := c.next(); {
	case err != nil:
		return err
	case !over:
		return fmt.Errorf("the chunk %d is one too many", i)
	}
	for {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			break // io.EOF; the next read shows other errors
		}
		if len(line) > 1 {
			return fmt.Errorf("%q follows the end", line)
		}
	}
	line, err := c.framed.ReadSlice('\n')
	if err == nil && string(line) != "\r\n" {
		err = fmt.Errorf("%q follows the last part", line)
	}
	return err
}

// reconnect takes a spare connection if the server closes the present one, like a pool of connections.
func (c *chatClient) reconnect() error {
	if !c.closes {
		return nil
	}
	for len(c.spare) < spareConnections {
		conn, err := net.Dial("tcp", c.RemoteAddr().String())
		if err != nil {
			return err
		}
		c.spare = append(c.spare, conn)
	}
	if err := errors.Join(c.Conn.Close(), c.spare[0].SetDeadline(time.Now().Add(chatTimeout))); err != nil {
		return err
	}
	c.Conn, c.spare, c.closes = c.spare[0], c.spare[1:], false
	c.framed.Reset(c.Conn)
	return nil
}

// Close closes all connections.
func (c *chatClient) Close() error {
	var errs []error
	for _, conn := range append(c.spare, c.Conn) {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// openStreams are concurrent streams of a script.
type openStreams struct {
	chatTarget
	script   *streamScript
	clients  []*chatClient
	received atomic.Int64 // number of further chunks received
	all      sync.WaitGroup
	release  func() bool // stops the context.AfterFunc
}

// open opens all streams of a script and reads their first chunks.
func (t chatTarget) open(ctx context.Context, s *streamScript) (*openStreams, error) {
	t.provider.script.Store(s)
	r := &openStreams{chatTarget: t, script: s}
	for i := range s.sent {
		c, err := t.dial(ctx, i)
		if err == nil {
			r.clients = append(r.clients, c)
			err = c.ask()
		}
		if err != nil {
			r.close()
			return nil, fmt.Errorf("stream %d of %s: %w", i, t.name, err)
		}
	}
	r.release = context.AfterFunc(ctx, r.close)
	return r, nil
}

func (r *openStreams) close() {
	for _, c := range r.clients {
		_ = c.Close()
	}
}

// resume continues the streams and reads them on other goroutines.
func (r *openStreams) resume() {
	for _, c := range r.clients {
		if r.script.every > 0 {
			c.delays = make([]time.Duration, 0, r.script.further)
		}
	}
	for i, c := range r.clients {
		r.all.Go(func() { c.err = r.listen(c, r.script.sent[i]) })
	}
	r.script.resume()
}

// listen reads the further chunks of a stream.
func (r *openStreams) listen(c *chatClient, sent []atomic.Int64) error {
	for i := 1; i <= r.script.further; i++ {
		if err := c.chunk(i); err != nil {
			return err
		}
		if r.script.every > 0 {
			c.delays = append(c.delays, time.Since(r.script.began)-time.Duration(sent[i].Load()))
			r.received.Add(1)
		}
	}
	c.last = time.Now()
	return c.end()
}

// wait waits for the end of all streams, and returns the first error.
func (r *openStreams) wait() error {
	r.all.Wait()
	r.release()
	r.close()
	for i, c := range r.clients {
		if c.err != nil {
			return fmt.Errorf("stream %d of %s: %w", i, r.name, c.err)
		}
	}
	return nil
}

// pace measures streams whose chunks are sent at the interval every: the processor time per chunk, and the delay from
// the sending of a chunk by the provider to its receipt.
func (t chatTarget) pace(ctx context.Context, streams int, every, warm, run time.Duration) (f figures, err error) {
	before, counted := int(warm/every)+1, int(run/every)+1
	r, err := t.open(ctx, newStreamScript(streams, before+counted+lastChunks, every))
	if err != nil {
		return f, err
	}
	r.resume()
	f.cpu, err = r.cpuPerChunk(ctx, warm, run, func() {})
	if err = errors.Join(err, r.wait()); err != nil {
		return f, err
	}
	for _, c := range r.clients {
		c.delays = c.delays[before : before+counted]
	}
	f.p50, f.p99 = percentiles(r.delays())
	return f, nil
}

// delays returns the delays of all clients' chunks.
func (r *openStreams) delays() (all []time.Duration) {
	for _, c := range r.clients {
		all = append(all, c.delays...)
	}
	return all
}

// waves is the number of groups of streams, which begin at equal intervals within the life of a stream.
const waves = 10

// churn measures streams with the duration life, each of which is followed by another of the same client. They
// begin in waves. The warm-up and the measurement last one life each.
func (t chatTarget) churn(ctx context.Context, streams int, every, duration time.Duration) (f figures, err error) {
	s := newStreamScript(streams, int(duration/every), every)
	s.churn = true
	s.resume()
	t.provider.script.Store(s)
	r := &openStreams{chatTarget: t, script: s}
	defer r.close()
	for i := range streams {
		c, err := t.dial(ctx, i)
		if err != nil {
			return f, err
		}
		r.clients = append(r.clients, c)
	}
	r.release = context.AfterFunc(ctx, r.close)
	var phase atomic.Int32
	for i, c := range r.clients {
		r.all.Go(func() {
			if c.err = sleep(ctx, duration*time.Duration(i*waves/streams)/waves); c.err == nil {
				c.err = r.repeatStreams(c, s.sent[i], &phase)
			}
		})
	}
	f.cpu, err = r.cpuPerChunk(ctx, duration, duration, func() { phase.Store(counting) })
	phase.Store(finished)
	err = errors.Join(err, r.wait())
	f.p50, f.p99 = percentiles(r.delays())
	return f, err
}

// repeatStreams requests one stream after the other until the end of the measurement, and appends the delays of
// the counted chunks to w.took.
func (r *openStreams) repeatStreams(c *chatClient, sent []atomic.Int64, phase *atomic.Int32) error {
	for phase.Load() != finished {
		if err := c.SetDeadline(time.Now().Add(chatTimeout)); err != nil {
			return err
		}
		if err := c.ask(); err != nil {
			return err
		}
		for i := 1; i <= r.script.further; i++ {
			if err := c.chunk(i); err != nil {
				return err
			}
			if phase.Load() == counting {
				c.delays = append(c.delays, time.Since(r.script.began)-time.Duration(sent[i].Load()))
			}
			r.received.Add(1)
		}
		if err := errors.Join(c.end(), c.reconnect()); err != nil {
			return err
		}
	}
	return nil
}

// cpuPerChunk waits for the warm-up, calls begin, and returns the server's processor time for each chunk that is
// received within run.
func (r *openStreams) cpuPerChunk(ctx context.Context, warm, run time.Duration, begin func()) (time.Duration, error) {
	err := sleep(ctx, warm)
	before, err1 := r.cpu()
	received := r.received.Load()
	begin()
	if err = errors.Join(err, err1); err == nil {
		err = sleep(ctx, run)
	}
	after, err2 := r.cpu()
	return (after - before) / time.Duration(max(1, r.received.Load()-received)), errors.Join(err, err2)
}

// flood measures chunks that the provider sends as fast as they are read: the number received per second and the
// server's processor time per chunk.
func (t chatTarget) flood(ctx context.Context, streams, chunks int) (f figures, err error) {
	r, err := t.open(ctx, newStreamScript(streams, chunks, 0))
	if err != nil {
		return f, err
	}
	before, err := t.cpu()
	r.resume()
	if err = errors.Join(err, r.wait()); err != nil {
		return f, err
	}
	after, err := t.cpu()
	last := slices.MaxFunc(r.clients, func(a, b *chatClient) int { return a.last.Compare(b.last) }).last
	n := streams * chunks
	return figures{rate: float64(n) / last.Sub(r.script.from).Seconds(), cpu: (after - before) / time.Duration(n)}, err
}

// measureMemory returns the memory of a server per open stream after its first chunk, in bytes.
func (t chatTarget) measureMemory(ctx context.Context, streams int, calm time.Duration) (int64, error) {
	before, err := t.process.resident()
	if err != nil {
		return 0, err
	}
	r, err := t.open(ctx, newStreamScript(streams, 0, 0))
	if err != nil {
		return 0, err
	}
	err = sleep(ctx, calm)
	after, failed := t.process.resident()
	r.resume()
	return (after - before) / int64(streams), errors.Join(err, failed, r.wait())
}

// begin measures the delay of the first chunk of sequential requests over each of the connections.
func (t chatTarget) begin(ctx context.Context, connections int, warm, run time.Duration) (f figures, err error) {
	s := newStreamScript(connections, 0, 0)
	s.resume()
	t.provider.script.Store(s)
	m := newConnectionGroup(connections)
	for i := range connections {
		c, err := t.dial(ctx, i)
		if err != nil {
			_, _ = m.end()
			return f, err
		}
		m.add(c, func() ([]time.Duration, error) {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			return c.repeat(&m.phase)
		})
	}
	if f, err = m.count(ctx, warm, run, t, (*postmaster)(nil), func() error { return nil }); err != nil {
		err = fmt.Errorf("the first chunk of %s: %w", t.name, err)
	}
	return f, err
}

// repeat requests streams until the end of the measurement, and returns the delays of the counted first chunks.
func (c *chatClient) repeat(phase *atomic.Int32) (took []time.Duration, err error) {
	for phase.Load() != finished {
		began := time.Now()
		if err := c.ask(); err != nil {
			return nil, err
		}
		delay := time.Since(began)
		if err := errors.Join(c.end(), c.reconnect()); err != nil {
			return nil, err
		}
		if phase.Load() == counting {
			took = append(took, delay)
		}
	}
	return took, nil
}
