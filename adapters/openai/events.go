package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"collab/domain/chat"
)

const (
	bufferSize = 8 << 10
	maxEvent   = 8 << 20 // bytes
)

var (
	dataField      = []byte("data:")
	space          = []byte(" ")
	carriageReturn = []byte("\r")
)

// events reads a stream of server-sent events.
type events struct {
	body    io.Reader
	t       *answer
	scanner *bufio.Scanner
	seen    int  // bytes of the event to come that its end is not in
	cut     bool // the last event has no end
}

func newEvents(body io.Reader, t *answer) *events {
	e := &events{body: body, t: t}
	e.scanner = bufio.NewScanner(e)
	e.scanner.Buffer(make([]byte, 0, bufferSize), maxEvent)
	e.scanner.Split(e.split)
	return e
}

// Read is called when no whole event is left: then it waits for the provider.
func (e *events) Read(p []byte) (int, error) {
	if err := e.t.wait(); err != nil {
		return 0, err
	}
	n, err := e.body.Read(p)
	if n > 0 {
		e.t.to.Alive()
	}
	return n, err
}

// next returns the data of the next event, empty for one that has none. It is
// the scanner's: the next call overwrites it.
func (e *events) next() ([]byte, error) {
	if e.scanner.Scan() {
		e.t.to.Alive()
		return payload(e.scanner.Bytes()), nil
	}
	switch err := e.scanner.Err(); {
	case err == nil:
		return nil, fail(chat.Truncated, "the stream ended without [DONE]")
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fail(chat.Broken, "an event has more than %d bytes", maxEvent)
	default:
		return nil, fail(chat.Network, "%s", lost(err))
	}
}

// split finds events by the empty lines after them. It looks at each byte of a
// long event once.
func (e *events) split(data []byte, atEOF bool) (int, []byte, error) {
	for {
		i := bytes.IndexByte(data[e.seen:], '\n')
		if i < 0 {
			e.seen = len(data)
			break
		}
		i += e.seen + 1
		rest := data[i:]
		if len(rest) > 0 && rest[0] == '\n' {
			e.seen = 0
			return i + 1, data[:i], nil
		}
		if len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			e.seen = 0
			return i + 2, data[:i], nil
		}
		if len(rest) == 0 || len(rest) == 1 && rest[0] == '\r' {
			e.seen = i - 1
			break
		}
		e.seen = i
	}
	if atEOF && len(data) > 0 {
		e.cut, e.seen = true, 0
		return len(data), data, nil
	}
	return 0, nil, nil
}

// payload returns an event's data: the lines of that name, joined.
func payload(event []byte) []byte {
	var data []byte
	for n := 0; len(event) > 0; {
		line := event
		if i := bytes.IndexByte(event, '\n'); i >= 0 {
			line, event = event[:i], event[i+1:]
		} else {
			event = nil
		}
		value, ok := bytes.CutPrefix(line, dataField)
		if !ok {
			continue
		}
		value = bytes.TrimSuffix(bytes.TrimPrefix(value, space), carriageReturn)
		if n++; n == 1 {
			data = value
		} else {
			data = append(append(data[:len(data):len(data)], '\n'), value...)
		}
	}
	return data
}
