package eventstream

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
)

// Event is an event of a stream.
type Event struct {
	ID   string // of this or the last event that had one
	Data []byte // empty if only ID has changed
}

// Events returns the events of a stream of server-sent events, and closes it. The last pair
// has an error if the stream broke. An event without data is returned if it has an id, and one
// without its empty line is not complete and left out. The next event overwrites Data.
func Events(body io.ReadCloser) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer body.Close()
		r := newReader(body, func() error { return nil }, func() {})
		var e Event
		for {
			lines, err := r.nextLines()
			if err != nil || r.truncated {
				if !errors.Is(r.err, io.EOF) {
					yield(Event{}, cmp.Or(err, r.err))
				}
				return
			}
			e.Data = payload(lines)
			changed := false
			for line := range bytes.Lines(lines) {
				field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
				switch value = bytes.TrimPrefix(value, space); string(field) {
				case "id":
					e.ID, changed = string(value), true
				case "data":
					changed = true
				}
			}
			if changed && !yield(e, nil) {
				return
			}
		}
	}
}
