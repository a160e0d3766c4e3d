package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"collab/test/must"
)

// A streamScript is the provider's response to each stream: a chunk at once, and further ones after resume. The
// text of a chunk has its number.
type streamScript struct {
	every   time.Duration // between the chunks of a stream; 0: as fast as the client reads
	churn   bool          // each stream continues when it was requested, not at from
	further int           // chunks of each stream, after the first
	from    time.Time     // when the first streams resume; set before resumed is closed
	resumed chan struct{} // closed by resume
	began   time.Time
	sent    [][]atomic.Int64 // when, in nanoseconds since began, by stream and chunk
}

func newStreamScript(streams, further int, every time.Duration) *streamScript {
	s := &streamScript{every: every, further: further, resumed: make(chan struct{}), began: time.Now(), sent: make([][]atomic.Int64, streams)}
	for i := range s.sent {
		s.sent[i] = make([]atomic.Int64, 1+further)
	}
	return s
}

// resume continues the streams, one after the other within the time between two chunks.
func (s *streamScript) resume() {
	s.from = time.Now()
	close(s.resumed)
}

// provider is a model provider with Anthropic's Messages API. It sends prepared bytes over a minimal HTTP/1.1, so
// that it takes little of the processors that it shares with the servers.
type provider struct {
	listener net.Listener
	script   atomic.Pointer[streamScript]
	ctx      context.Context // until close
	cancel   context.CancelFunc
	all      sync.WaitGroup
}

// startProvider starts a provider until the end of the scope.
func (b *bench) startProvider() *provider {
	p := must.Do(listenProvider()).Or(b)
	b.cleanup(p.close)
	return p
}

func listenProvider() (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{listener: l}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.all.Go(p.accept)
	return p, nil
}

func (p *provider) address() string { return p.listener.Addr().String() }

func (p *provider) close() error {
	p.cancel()
	err := p.listener.Close()
	p.all.Wait()
	return err
}

func (p *provider) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() {
			defer c.Close()
			defer context.AfterFunc(p.ctx, func() { _ = c.Close() })()
			p.serve(c)
		})
	}
}

// serve serves the requests of a connection.
func (p *provider) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	var body, out []byte
	for {
		var err error
		if body, err = readRequest(r, body); err != nil {
			return
		}
		s, stream := p.script.Load(), streamOf(body)
		if s == nil || stream < 0 || stream >= len(s.sent) {
			fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			continue
		}
		if out, err = s.respond(c, stream, out, p.ctx.Done()); err != nil {
			return
		}
	}
}

// readRequest returns the body of the next request.
func readRequest(r *bufio.Reader, body []byte) ([]byte, error) {
	length := -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return body, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return body, err
			}
		}
	}
	if length < 0 {
		return body, errors.New("a request without a length")
	}
	if cap(body) < length {
		body = make([]byte, length)
	}
	body = body[:length]
	_, err := io.ReadFull(r, body)
	return body, err
}

// streamMark is the text before the number of the stream in a message.
const streamMark = "stream number "

// streamOf returns the number of the stream in a request, or -1.
func streamOf(body []byte) int {
	_, rest, ok := bytes.Cut(body, []byte(streamMark))
	if !ok || len(rest) < digits {
		return -1
	}
	return number(rest)
}

// digits is the number of digits of a number in a text.
const digits = 6

// number returns the number at the beginning of a text, or -1.
func number(text []byte) (n int) {
	for _, d := range text[:digits] {
		if d < '0' || d > '9' {
			return -1
		}
		n = 10*n + int(d-'0')
	}
	return n
}

func putNumber(text []byte, n int) {
	for i := digits - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
}

// The parts of a response. Each event is one chunk of the transfer coding.
const (
	responseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nRequest-Id: req_1\r\nTransfer-Encoding: chunked\r\n\r\n"

	deltaBegins = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`
	deltaEnds   = ` is said"}}`
)

// floodBlock is the number of chunks in one write of a flood.
const floodBlock = 64

var (
	responseBegins = framed("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}`) +
		framed("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	responseEnds = framed("content_block_stop", `{"type":"content_block_stop","index":0}`) +
		framed("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":7}}`) +
		framed("message_stop", `{"type":"message_stop"}`) + "0\r\n\r\n"

	delta   = framed("content_block_delta", deltaBegins+"000000"+deltaEnds)
	deltaAt = bytes.Index([]byte(delta), []byte("000000"))
)

// framed returns an event as a chunk of the transfer coding.
func framed(name, data string) string {
	event := "event: " + name + "\ndata: " + data + "\n\n"
	return fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
}

// respond sends the response of a stream, and returns out for reuse.
func (s *streamScript) respond(c net.Conn, stream int, out []byte, gone <-chan struct{}) ([]byte, error) {
	sent := s.sent[stream]
	out = append(append(append(out[:0], responseHead...), responseBegins...), delta...)
	putNumber(out[len(out)-len(delta)+deltaAt:], 0)
	sent[0].Store(int64(time.Since(s.began)))
	if _, err := c.Write(out); err != nil {
		return out, err
	}
	select {
	case <-s.resumed:
	case <-gone:
		return out, net.ErrClosed
	}
	from := s.from
	if s.churn {
		from = time.Now()
	}
	next := from.Add(s.every * time.Duration(stream) / time.Duration(len(s.sent)))
	for i := 1; i <= s.further; {
		n := 1
		if s.every > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(s.every)
		} else {
			n = min(floodBlock, s.further+1-i)
		}
		out = out[:0]
		for range n {
			out = append(out, delta...)
			putNumber(out[len(out)-len(delta)+deltaAt:], i)
			i++
		}
		if s.every > 0 {
			sent[i-1].Store(int64(time.Since(s.began)))
		}
		if _, err := c.Write(out); err != nil {
			return out, err
		}
	}
	out = append(out[:0], responseEnds...)
	_, err := c.Write(out)
	return out, err
}
