package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	firstBuffer = 1 << 10 // bytes; enough while events come one by one
	bufferSize  = 2 << 10 // bytes, once a read has filled the first buffer
	maxEvent    = 8 << 20 // bytes
)

var (
	dataField      = []byte("data:")
	space          = []byte(" ")
	carriageReturn = []byte("\r")
)

// reader reads a stream of server-sent events.
type reader struct {
	body      io.Reader
	wait      func() error
	alive     func()
	rest      []byte // bytes that were read and not returned
	scanned   int    // bytes of rest that do not contain the end of the next event
	buffer    []byte // the buffer under rest: more than bufferSize while an event needs that
	err       error  // of reading
	filled    bool   // the last read filled the buffer
	truncated bool   // the stream ended within the last event
}

func newReader(body io.Reader, wait func() error, alive func()) *reader {
	return &reader{body: body, wait: wait, alive: alive, buffer: make([]byte, firstBuffer)}
}

// next returns the data of the next event, which may be empty. The next call overwrites it.
func (r *reader) next() ([]byte, error) {
	lines, err := r.nextLines()
	return payload(lines), err
}

// nextLines is next with all lines of the event.
func (r *reader) nextLines() ([]byte, error) {
	for {
		if event, ok := r.nextComplete(); ok {
			return event, nil
		}
		if r.err != nil {
			break
		}
		if err := r.read(); err != nil {
			return nil, err
		}
	}
	if len(r.rest) > 0 {
		event := r.rest
		r.truncated, r.rest, r.scanned = true, nil, 0
		return event, nil
	}
	if errors.Is(r.err, io.EOF) {
		return nil, errTruncated
	}
	return nil, r.err
}

// read reads more bytes. The caller has no complete event left.
func (r *reader) read() error {
	switch {
	case len(r.rest) >= maxEvent:
		return fmt.Errorf("%w: an event has more than %d bytes", errProtocol, maxEvent)
	case len(r.rest) == len(r.buffer), r.filled && len(r.buffer) < bufferSize:
		r.buffer = make([]byte, 2*len(r.buffer))
	case len(r.rest) <= bufferSize/2 && len(r.buffer) > bufferSize:
		r.buffer = make([]byte, bufferSize)
	}
	n := copy(r.buffer, r.rest)
	r.rest = r.buffer[:n]
	if err := r.wait(); err != nil {
		return err
	}
	more, err := r.body.Read(r.buffer[n:])
	if more > 0 {
		r.alive()
	}
	r.rest, r.err = r.buffer[:n+more], err
	r.filled = len(r.rest) == len(r.buffer)
	return nil
}

// nextComplete returns the next event if it was read up to its empty line. It scans each
// byte once.
func (r *reader) nextComplete() ([]byte, bool) {
	data := r.rest
	for {
		i := bytes.IndexByte(data[r.scanned:], '\n')
		if i < 0 {
			r.scanned = len(data)
			return nil, false
		}
		i += r.scanned + 1
		end := i
		if len(data) > end && data[end] == '\r' {
			end++
		}
		switch {
		case len(data) == end:
			r.scanned = i - 1
			return nil, false
		case data[end] == '\n':
			r.rest, r.scanned = data[end+1:], 0
			return data[:i], true
		}
		r.scanned = i
	}
}

// payload returns the joined data lines of an event.
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
		switch n++; n {
		case 1:
			data = value
			continue
		case 2:
			data = data[:len(data):len(data)] // what is appended must not overwrite the event
		}
		data = append(append(data, '\n'), value...)
	}
	return data
}
