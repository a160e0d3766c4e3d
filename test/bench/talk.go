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

// Beginnings of the chunks of this server's streams, and of the provider's event that ends a stream.
const (
	chunkBegins = `data: {"type":"text","text":"`
	doneBegins  = `data: {"type":"done"`
	errorBegins = `data: {"type":"error"`
	stopBegins  = `data: {"type":"message_stop"`
)

const (
	chatPatience = time.Minute
	atHand       = 4   // connections that a talker has to spare, where they are for one question each
	lastChunks   = 2   // of each paced stream, that are not counted: all end within the time between two, and are settled
	answerTokens = 500 // at most, of one answer
)

// A chatTarget is what streams are requested from: a server, or the provider itself.
type chatTarget struct {
	name     string
	address  string
	path     string
	tokens   []string // used in turns; empty: without authentication
	process  *process // nil: the provider is asked
	provider *provider
}

// request returns the request for a stream of the script.
func (t chatTarget) request(stream int) []byte {
	body := fmt.Sprintf(`{"message":"`+streamMark+`%06d, please","maxTokens":%d}`, stream, answerTokens)
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
	took    []time.Duration // of the further chunks
	last    time.Time       // when there were no more of them
	closes  bool            // the server closes the connection after the answer
	spare   []net.Conn      // to take then, the oldest first
	err     error
}

// dial connects a client for a stream. It is for one time of patience.
func (t chatTarget) dial(ctx context.Context, stream int) (*chatClient, error) {
	c, err := connect(ctx, t.address)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(chatPatience)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &chatClient{Conn: c, request: t.request(stream), framed: bufio.NewReaderSize(c, 8<<10), lines: bufio.NewReaderSize(nil, 8<<10)}, nil
}

// ask asks, and reads up to the first chunk.
func (w *chatClient) ask() error {
	if _, err := w.Write(w.request); err != nil {
		return err
	}
	line, err := w.framed.ReadString('\n')
	if err != nil {
		return err
	}
	if len(line) < len("HTTP/1.1 200") || line[:12] != "HTTP/1.1 200" {
		more, _ := w.framed.Peek(w.framed.Buffered())
		return fmt.Errorf("%q, %.300q", line, more)
	}
	chunked := false
	for {
		line, err := w.framed.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		chunked = chunked || bytes.EqualFold(line, []byte("Transfer-Encoding: chunked"))
		w.closes = w.closes || bytes.EqualFold(line, []byte("Connection: close"))
	}
	if !chunked {
		return errors.New("an answer that is not chunked")
	}
	w.lines.Reset(httputil.NewChunkedReader(w.framed))
	return w.chunk(0)
}

// chunk reads the next chunk, which has to be the i-th.
func (w *chatClient) chunk(i int) error {
	got, over, err := w.next()
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

// next reads up to the next chunk and returns its number, or to the end.
func (w *chatClient) next() (i int, over bool, err error) {
	for {
		line, err := w.lines.ReadSlice('\n')
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

// end reads what follows the last chunk, so that one can ask again.
func (w *chatClient) end() error {
	switch i, over, err := w.next(); {
	case err != nil:
		return err
	case !over:
		return fmt.Errorf("the chunk %d is one too many", i)
	}
	for {
		line, err := w.lines.ReadSlice('\n')
		if err != nil {
			break // the end of the body, or what the next line shows
		}
		if len(line) > 1 {
			return fmt.Errorf("%q follows the end", line)
		}
	}
	line, err := w.framed.ReadSlice('\n')
	if err == nil && string(line) != "\r\n" {
		err = fmt.Errorf("%q follows the last part", line)
	}
	return err
}

// again connects anew where the server closed the connection, as a pool of
// connections would have another one at hand.
func (w *chatClient) again() error {
	if !w.closes {
		return nil
	}
	for len(w.spare) < atHand {
		c, err := net.Dial("tcp", w.RemoteAddr().String())
		if err != nil {
			return err
		}
		w.spare = append(w.spare, c)
	}
	if err := errors.Join(w.Conn.Close(), w.spare[0].SetDeadline(time.Now().Add(chatPatience))); err != nil {
		return err
	}
	w.Conn, w.spare, w.closes = w.spare[0], w.spare[1:], false
	w.framed.Reset(w.Conn)
	return nil
}

// Close closes all connections.
func (w *chatClient) Close() error {
	var errs []error
	for _, c := range append(w.spare, w.Conn) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openStreams are concurrent streams of a script.
type openStreams struct {
	chatTarget
	scene   *streamScript
	talkers []*chatClient
	heard   atomic.Int64 // further chunks
	all     sync.WaitGroup
	release func() bool // ends the watch over the context
}

// enter opens all streams of a script and reads their first chunks.
func (t chatTarget) enter(ctx context.Context, s *streamScript) (*openStreams, error) {
	t.provider.scene.Store(s)
	r := &openStreams{chatTarget: t, scene: s}
	for i := range s.sent {
		w, err := t.dial(ctx, i)
		if err == nil {
			r.talkers = append(r.talkers, w)
			err = w.ask()
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
	for _, w := range r.talkers {
		_ = w.Close()
	}
}

// goOn lets the streams go on, and everybody listen.
func (r *openStreams) goOn() {
	for _, w := range r.talkers {
		if r.scene.every > 0 {
			w.took = make([]time.Duration, 0, r.scene.further)
		}
	}
	for i, w := range r.talkers {
		r.all.Go(func() { w.err = r.listen(w, r.scene.sent[i]) })
	}
	r.scene.goOn()
}

func (r *openStreams) listen(w *chatClient, sent []atomic.Int64) error {
	for i := 1; i <= r.scene.further; i++ {
		if err := w.chunk(i); err != nil {
			return err
		}
		if r.scene.every > 0 {
			w.took = append(w.took, time.Since(r.scene.began)-time.Duration(sent[i].Load()))
			r.heard.Add(1)
		}
	}
	w.last = time.Now()
	return w.end()
}

// wait waits for the ends of all streams.
func (r *openStreams) wait() error {
	r.all.Wait()
	r.release()
	r.close()
	for i, w := range r.talkers {
		if w.err != nil {
			return fmt.Errorf("stream %d of %s: %w", i, r.name, w.err)
		}
	}
	return nil
}

// pacedFigures are of streams whose chunks come at intervals.
type pacedFigures struct {
	cpu      time.Duration // of the server's process, per chunk
	p50, p99 time.Duration // from the provider's sending a chunk to its receipt
}

// pace measures streams whose chunks come at the interval every.
func (t chatTarget) pace(ctx context.Context, streams int, every, warm, run time.Duration) (f pacedFigures, err error) {
	before, counted := int(warm/every)+1, int(run/every)+1
	r, err := t.enter(ctx, newScene(streams, before+counted+lastChunks, every))
	if err != nil {
		return f, err
	}
	r.goOn()
	cpu, heard, err := r.count(ctx, warm)
	if err == nil {
		var cpuAfter time.Duration
		var heardAfter int64
		if cpuAfter, heardAfter, err = r.count(ctx, run); err == nil && heardAfter > heard {
			f.cpu = (cpuAfter - cpu) / time.Duration(heardAfter-heard)
		}
	}
	if err = errors.Join(err, r.wait()); err != nil {
		return f, err
	}
	for _, w := range r.talkers {
		w.took = w.took[before : before+counted]
	}
	f.delays(r.talkers)
	return f, nil
}

// delays sets the percentiles of what the talkers' chunks took.
func (f *pacedFigures) delays(talkers []*chatClient) {
	var took []time.Duration
	for _, w := range talkers {
		took = append(took, w.took...)
	}
	if len(took) > 0 {
		f.p50, f.p99 = percentiles(took)
	}
}

// waves is how many groups of streams that begin together there are in the life of one.
const waves = 10

// churn measures streams that are each followed by the next of the same talker when they
// have lived so long. They begin in waves. The warm-up and the measurement last a life each.
func (t chatTarget) churn(ctx context.Context, streams int, every, life time.Duration) (f pacedFigures, err error) {
	s := newScene(streams, int(life/every), every)
	s.churn = true
	s.goOn()
	t.provider.scene.Store(s)
	r := &openStreams{chatTarget: t, scene: s}
	defer r.close()
	for i := range streams {
		w, err := t.dial(ctx, i)
		if err != nil {
			return f, err
		}
		r.talkers = append(r.talkers, w)
	}
	r.release = context.AfterFunc(ctx, r.close)
	var phase atomic.Int32
	for i, w := range r.talkers {
		r.all.Go(func() {
			if w.err = rest(ctx, life*time.Duration(i*waves/streams)/waves); w.err == nil {
				w.err = r.succeed(w, s.sent[i], &phase)
			}
		})
	}
	cpu, heard, err := r.count(ctx, life)
	phase.Store(counting)
	if err == nil {
		var cpuAfter time.Duration
		var heardAfter int64
		if cpuAfter, heardAfter, err = r.count(ctx, life); err == nil && heardAfter > heard {
			f.cpu = (cpuAfter - cpu) / time.Duration(heardAfter-heard)
		}
	}
	phase.Store(over)
	err = errors.Join(err, r.wait())
	f.delays(r.talkers)
	return f, err
}

// succeed asks for one stream after the other until the measurement is over, and keeps what
// the counted chunks took.
func (r *openStreams) succeed(w *chatClient, sent []atomic.Int64, phase *atomic.Int32) error {
	for phase.Load() != over {
		if err := w.SetDeadline(time.Now().Add(chatPatience)); err != nil {
			return err
		}
		if err := w.ask(); err != nil {
			return err
		}
		for i := 1; i <= r.scene.further; i++ {
			if err := w.chunk(i); err != nil {
				return err
			}
			if phase.Load() == counting {
				w.took = append(w.took, time.Since(r.scene.began)-time.Duration(sent[i].Load()))
			}
			r.heard.Add(1)
		}
		if err := errors.Join(w.end(), w.again()); err != nil {
			return err
		}
	}
	return nil
}

// count returns, after a duration, the server's processor time and the number of chunks received.
func (r *openStreams) count(ctx context.Context, after time.Duration) (time.Duration, int64, error) {
	if err := rest(ctx, after); err != nil {
		return 0, 0, err
	}
	cpu, err := r.cpu()
	return cpu, r.heard.Load(), err
}

// flood returns how many chunks arrive per second when the provider sends them as fast as they are read, and
// the server's processor time per chunk.
func (t chatTarget) flood(ctx context.Context, streams, chunks int) (perSecond float64, cpu time.Duration, err error) {
	r, err := t.enter(ctx, newScene(streams, chunks, 0))
	if err != nil {
		return 0, 0, err
	}
	before, err := t.cpu()
	r.goOn()
	if err = errors.Join(err, r.wait()); err != nil {
		return 0, 0, err
	}
	after, err := t.cpu()
	last := slices.MaxFunc(r.talkers, func(a, b *chatClient) int { return a.last.Compare(b.last) }).last
	n := streams * chunks
	return float64(n) / last.Sub(r.scene.from).Seconds(), (after - before) / time.Duration(n), err
}

// measureMemory returns how much memory a server takes for each stream that is open and
// has had its first chunk.
func (t chatTarget) measureMemory(ctx context.Context, streams int, calm time.Duration) (int64, error) {
	before, err := t.process.resident()
	if err != nil {
		return 0, err
	}
	r, err := t.enter(ctx, newScene(streams, 0, 0))
	if err != nil {
		return 0, err
	}
	err = rest(ctx, calm)
	after, failed := t.process.resident()
	r.goOn()
	return (after - before) / int64(streams), errors.Join(err, failed, r.wait())
}

// begin measures how long the first chunk takes, over so many connections with
// one request after the other on each.
func (t chatTarget) begin(ctx context.Context, connections int, warm, run time.Duration) (f figures, err error) {
	s := newScene(connections, 0, 0)
	s.goOn()
	t.provider.scene.Store(s)
	talkers := make([]*chatClient, connections)
	for i := range talkers {
		if talkers[i], err = t.dial(ctx, i); err != nil {
			return f, err
		}
		defer talkers[i].Close()
		defer context.AfterFunc(ctx, func() { _ = talkers[i].Close() })()
	}
	var phase atomic.Int32
	var all sync.WaitGroup
	for _, w := range talkers {
		all.Go(func() { w.err = w.repeat(&phase) })
	}
	err = rest(ctx, warm)
	before, err1 := t.cpu()
	began := time.Now()
	phase.Store(counting)
	err = errors.Join(err, err1, rest(ctx, run))
	phase.Store(over)
	lasted := time.Since(began)
	after, err2 := t.cpu()
	all.Wait()
	if err = errors.Join(err, err2); err != nil {
		return f, err
	}
	var took []time.Duration
	for _, w := range talkers {
		if w.err != nil {
			return f, fmt.Errorf("the first chunk of %s: %w", t.name, w.err)
		}
		took = append(took, w.took...)
	}
	if len(took) == 0 {
		return f, fmt.Errorf("no first chunk of %s within %v", t.name, run)
	}
	f = summarize(took, lasted)
	f.cpu = (after - before) / time.Duration(len(took))
	return f, nil
}

// repeat asks until the measurement is over, and keeps how long the counted
// first chunks took.
func (w *chatClient) repeat(phase *atomic.Int32) error {
	for {
		began := time.Now()
		if err := w.ask(); err != nil {
			return err
		}
		took := time.Since(began)
		if err := w.end(); err != nil {
			return err
		}
		if err := w.again(); err != nil {
			return err
		}
		switch phase.Load() {
		case counting:
			w.took = append(w.took, took)
		case over:
			return nil
		}
	}
}
