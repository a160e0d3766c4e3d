package script

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// patience bounds the wait for what a stream is to bring; it measures nothing.
const patience = 30 * time.Second

// stream is a response that stays open.
type stream struct {
	asked  *http.Request
	cancel context.CancelFunc
	body   io.Closer
	lines  *bufio.Reader
}

// frame is what stands between two empty lines of a stream.
type frame struct {
	id, event, retry     string
	hasID                bool
	data                 []byte // nil: none
	commented, timeGiven bool
}

// open sends a request whose answer is followed by later steps.
func (t *conversationRun) open(ask *request, want *response) []mismatch {
	r, body, err := t.prepare(ask)
	if err != nil {
		return []mismatch{{ask.line, err.Error(), true}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	client := *t.client
	client.Timeout = 0
	answer, err := within(cancel, func() (*http.Response, error) { return client.Do(r.WithContext(ctx)) })
	if err != nil {
		cancel()
		return []mismatch{{ask.line, err.Error(), true}}
	}
	if answer.StatusCode != http.StatusOK {
		defer cancel()
		return t.judge(ask, want, r, body, answer)
	}
	if t.streams[ask.stream] != nil {
		t.streams[ask.stream].close()
	}
	t.streams[ask.stream] = &stream{asked: r, cancel: cancel, body: answer.Body, lines: bufio.NewReader(answer.Body)}
	// What comes over the stream is no part of this response.
	answer.Body = io.NopCloser(bytes.NewReader(nil))
	return t.judge(ask, want, r, body, answer)
}

// within gives fn a time to end, after which it is cancelled.
func within[T any](cancel context.CancelFunc, fn func() (T, error)) (T, error) {
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	return fn()
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}

// next reads the next frame.
func (s *stream) next() (f frame, err error) {
	return within(s.cancel, func() (f frame, err error) {
		for {
			line, err := s.lines.ReadString('\n')
			if err == io.EOF && line != "" {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return f, err
			}
			line = strings.TrimSuffix(line, "\n")
			if line == "" {
				return f, nil
			}
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "":
				f.commented = true
			case "id":
				f.id, f.hasID = value, true
			case "event":
				f.event = value
			case "retry":
				f.retry, f.timeGiven = value, true
			case "data":
				if f.data != nil {
					f.data = append(f.data, '\n')
				}
				f.data = append(append([]byte{}, f.data...), value...)
			default:
				return f, fmt.Errorf("a stream has the line %q", line)
			}
		}
	})
}

// compareEvents compares all that a stream brought with what is expected.
func (t *conversationRun) compareEvents(want []event, body []byte) []string {
	var got [][]byte
	s := &stream{cancel: func() {}, lines: bufio.NewReader(bytes.NewReader(body))}
	for {
		f, err := s.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return []string{err.Error()}
		}
		if f.data != nil {
			got = append(got, f.data)
		}
	}
	for i, w := range want {
		if w.tells {
			received := ""
			for len(got) > 0 {
				text, ok := textOf(got[0])
				if !ok {
					break
				}
				received, got = received+text, got[1:]
			}
			if differs := t.values.match(w.data, received); differs != "" {
				return []string{fmt.Sprintf("event %d tells: %s", i+1, differs)}
			}
			continue
		}
		if len(got) == 0 {
			return []string{fmt.Sprintf("the stream ends before event %d", i+1)}
		}
		if wrong := t.values.matchJSON(w.data, got[0]); len(wrong) > 0 {
			return []string{fmt.Sprintf("event %d: %s", i+1, strings.Join(wrong, "\n\t"))}
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return []string{fmt.Sprintf("the stream goes on with %s", got[0])}
	}
	return nil
}

// textOf returns the text of a text chunk.
func textOf(data []byte) (string, bool) {
	var chunk struct{ Type, Text string }
	err := json.Unmarshal(data, &chunk)
	return chunk.Text, err == nil && chunk.Type == "text"
}

// follow compares what a stream does with what it is expected to do.
func (t *conversationRun) follow(line int, want *expectedFrame) []mismatch {
	s := t.streams[want.stream]
	if s == nil {
		return []mismatch{{line, fmt.Sprintf("no stream is called %s", want.stream), true}}
	}
	stop := func(format string, args ...any) []mismatch {
		return []mismatch{{line, fmt.Sprintf("%s %s: ", want.stream, want.does) + fmt.Sprintf(format, args...), true}}
	}
	id := ""
	for _, field := range want.fields {
		if field.name == "id" {
			id = field.value
		}
	}
	if want.does == "hangs up" {
		s.close()
		delete(t.streams, want.stream)
		return nil
	}
	var seen frame
	for {
		f, err := s.next()
		if want.does == "ends" && errors.Is(err, io.EOF) {
			s.close()
			delete(t.streams, want.stream)
			return nil
		}
		if err != nil {
			return stop("%v", err)
		}
		if want.does == "brings" {
			if f.data == nil {
				continue
			}
			seen = f
			break
		}
		if f.data != nil {
			return stop("it brings %q with the id %s", f.data, f.id)
		}
		seen.commented = seen.commented || f.commented
		if f.timeGiven {
			seen.retry, seen.timeGiven = f.retry, true
		}
		if f.hasID {
			seen.id, seen.hasID = f.id, true
		}
		if want.does == "begins" && f.hasID || want.does == "beats" && (f.hasID || f.commented && id == "") {
			break
		}
	}
	var wrong []string
	if want.does == "begins" && (!seen.commented || !seen.timeGiven) {
		wrong = append(wrong, "before the first id are a retry time and a comment")
	}
	event := ""
	for _, field := range want.fields {
		got := map[string]string{"id": seen.id, "event": seen.event, "retry": seen.retry}
		value, known := got[field.name]
		if !known {
			return stop("a frame has no %s", field.name)
		}
		if field.name == "event" {
			event = field.value
		}
		if differs := t.values.match(field.value, value); differs != "" {
			wrong = append(wrong, field.name+": "+differs)
		}
	}
	if event == "" && seen.event != "" {
		wrong = append(wrong, "it has the type "+seen.event)
	}
	if want.body != "" {
		wrong = append(wrong, t.values.matchJSON(want.body, seen.data)...)
	}
	if seen.data != nil && t.check != nil {
		wrong = append(wrong, t.check.event(s.asked, seen.event, seen.data)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	return []mismatch{{line: line, text: fmt.Sprintf("%s %s\n\t%s\n\tframe: id %s, event %q, data %s", want.stream, want.does, strings.Join(wrong, "\n\t"), seen.id, seen.event, seen.data)}}
}
