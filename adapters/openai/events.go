package openai

import (
	"bytes"
	"errors"
	"io"

	"collab/domain/chat"
)

const (
	bufferSize = 2 << 10 // bytes
	maxEvent   = 8 << 20 // bytes
)

var (
	dataField      = []byte("data:")
	space          = []byte(" ")
	carriageReturn = []byte("\r")
)

// events reads a stream of server-sent events.
type events struct {
	body io.Reader
	t    *answer
	rest []byte // what was read and not yet returned
	seen int    // bytes of it that the end of the next event is not in
	room []byte // rest is in it: more than bufferSize while an event needs that
	err  error  // of reading
	cut  bool   // the last event has no end
}

func newEvents(body io.Reader, t *answer) *events {
	return &events{body: body, t: t, room: make([]byte, bufferSize)}
}

// next returns the data of the next event, empty for one that has none. The next
// call overwrites it.
func (e *events) next() ([]byte, error) {
	for {
		if event, ok := e.whole(); ok {
			return payload(event), nil
		}
		if e.err != nil {
			break
		}
		if err := e.read(); err != nil {
			return nil, err
		}
	}
	if len(e.rest) > 0 {
		event := e.rest
		e.cut, e.rest, e.seen = true, nil, 0
		return payload(event), nil
	}
	if errors.Is(e.err, io.EOF) {
		return nil, fail(chat.Truncated, "the stream ended without [DONE]")
	}
	return nil, fail(chat.Network, "%s", lost(e.err))
}

// read waits for the provider, when no whole event is left.
func (e *events) read() error {
	switch {
	case len(e.rest) >= maxEvent:
		return fail(chat.Broken, "an event has more than %d bytes", maxEvent)
	case len(e.rest) == len(e.room):
		e.room = make([]byte, 2*len(e.room))
	case len(e.rest) <= bufferSize/2 && len(e.room) > bufferSize:
		e.room = make([]byte, bufferSize)
	}
	n := copy(e.room, e.rest)
	e.rest = e.room[:n]
	if err := e.t.wait(); err != nil {
		return err
	}
	more, err := e.body.Read(e.room[n:])
	if more > 0 {
		e.t.to.Alive()
	}
	e.rest, e.err = e.room[:n+more], err
	return nil
}

// whole returns the next event if all of it is there: up to the empty line after
// it. It looks at each byte of a long event once.
func (e *events) whole() ([]byte, bool) {
	data := e.rest
	for {
		i := bytes.IndexByte(data[e.seen:], '\n')
		if i < 0 {
			e.seen = len(data)
			return nil, false
		}
		i += e.seen + 1
		end := i
		if len(data) > end && data[end] == '\r' {
			end++
		}
		switch {
		case len(data) == end:
			e.seen = i - 1
			return nil, false
		case data[end] == '\n':
			e.rest, e.seen = data[end+1:], 0
			return data[:i], true
		}
		e.seen = i
	}
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
