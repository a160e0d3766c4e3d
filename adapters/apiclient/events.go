package apiclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// maxEvent is the longest line of an event stream, in bytes.
const maxEvent = 8 << 20

// Event is an event of a stream.
type Event struct {
	ID    string // of this or the last event that had one
	Type  string // empty for the default type
	Data  []byte // empty if only ID has changed
	Retry time.Duration
}

// Events returns the events of a stream of server-sent events, and closes it. The last pair
// has an error if the stream broke. An event without data is returned if it has an id.
func Events(body io.ReadCloser) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer body.Close()
		lines := bufio.NewReaderSize(body, 64<<10)
		var e Event
		var data bytes.Buffer
		changed := false
		for {
			line, err := readLine(lines)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Event{}, err)
				}
				return // an event without its empty line is not complete
			}
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case line == "":
				if changed {
					e.Data = bytes.TrimSuffix(bytes.Clone(data.Bytes()), []byte("\n"))
					if !yield(e, nil) {
						return
					}
				}
				e, changed = Event{ID: e.ID, Retry: e.Retry}, false
				data.Reset()
			case field == "id":
				e.ID, changed = value, true
			case field == "event":
				e.Type = value
			case field == "data":
				data.WriteString(value + "\n")
				changed = true
			case field == "retry":
				if ms, err := strconv.Atoi(value); err == nil && ms >= 0 {
					e.Retry = time.Duration(ms) * time.Millisecond
				}
			}
		}
	}
}

func readLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		b.Write(part)
		switch {
		case err == nil:
			return strings.TrimRight(b.String(), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		case b.Len() > maxEvent:
			return "", errors.New("an event is too long")
		}
	}
}
