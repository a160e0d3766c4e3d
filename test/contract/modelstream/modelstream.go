// Package modelstream tests how an adapter of ports.Models reads the server-sent events
// of its provider. Every test gives the adapter a stream instead of a server.
package modelstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"collab/domain/chat"
	"collab/ports"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Adapter is an adapter under test with events of its provider.
type Adapter struct {
	Name      string                                                           // in errors
	New       func(key, url string, client *http.Client) (ports.Models, error) // of the provider itself for an empty URL
	Call      chat.Call
	Start     string                   // the events before the text of a response
	Text      func(text string) string // an event with a text, as JSON writes it
	End       string                   // the events after the text, which bring the usage that Test expects
	Stop      string                   // the reason to stop in End
	Marker    string                   // part of every complete answer
	RequestID string                   // the header with the id of a request
	Answers   map[string]Answer
}

// Answer is a complete stream and the lines that a Recorder has of it, without "wait".
type Answer = struct {
	Body string
	Want []string
}

// Recorder is a sink that records what it is given.
type Recorder struct {
	Lines []string
	Wrong string // what no sink may be given
	calls map[string]bool
}

// Sent implements ports.Sink. Recorder ignores it.
func (r *Recorder) Sent() {}

// Alive implements ports.Sink. Recorder ignores it.
func (r *Recorder) Alive() {}

// Wait implements ports.Sink.
func (r *Recorder) Wait() error { r.Lines = append(r.Lines, "wait"); return nil }

// Chunk implements ports.Sink.
func (r *Recorder) Chunk(c chat.Chunk) error {
	if r.calls == nil {
		r.calls = map[string]bool{}
	}
	waiting, known := r.calls[c.CallID]
	switch {
	case !utf8.ValidString(c.Text + c.CallID + c.Name + c.Args + c.Result):
		r.Wrong = fmt.Sprintf("%+v is not UTF-8", c)
	case c.Type == chat.TextChunk && c.Text != "":
		r.Lines = append(r.Lines, "text "+c.Text)
	case c.Type == chat.CallChunk && !known && json.Unmarshal([]byte(c.Args), &map[string]any{}) == nil && c.CallID != "" && c.Name != "":
		r.calls[c.CallID] = c.ServerHandled
		r.Lines = append(r.Lines, "call "+c.CallID+" "+c.Name+c.Args)
	case c.Type == chat.ResultChunk && waiting && json.Valid([]byte(c.Result)):
		r.calls[c.CallID] = false
		r.Lines = append(r.Lines, "result "+c.CallID+" "+c.Result)
	default:
		r.Wrong = fmt.Sprintf("%+v after %q", c, r.Lines)
	}
	return nil
}

// Transport replies to requests by a function.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f Transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Open returns models of a server, which close their connections with the test.
func (a Adapter) Open(t testing.TB, url string) ports.Models {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return must.Do(a.New("sk-test", url, &http.Client{Transport: transport})).Or(t)
}

// Sent returns the request that the adapter sends for a call, and its decoded body.
func (a Adapter) Sent(t *testing.T, key, url string, call chat.Call) (r *http.Request, body map[string]any) {
	t.Helper()
	m, err := a.New(key, url, &http.Client{Transport: Transport(func(sent *http.Request) (*http.Response, error) {
		r = sent
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		return &http.Response{StatusCode: 500, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
	})})
	must.NoError(t, err)
	if _, err := m.Stream(t.Context(), call, &Recorder{}); err == nil || r == nil {
		t.Fatal("a 500 is an answer")
	}
	return r, body
}

// Fails checks that a stream ends in a failure of the kind, after valid chunks.
func (a Adapter) Fails(t *testing.T, call chat.Call, body io.Reader, kind chat.FailureKind) {
	t.Helper()
	to := &Recorder{}
	_, err := a.Stream(t, call, body, to)
	if failure, ok := errors.AsType[*chat.Failure](err); !ok || failure.Kind != kind || to.Wrong != "" {
		t.Fatal(err, to.Wrong)
	}
}

// Stream has the adapter read a body.
func (a Adapter) Stream(t testing.TB, call chat.Call, body io.Reader, to ports.Sink) (chat.Reply, error) {
	t.Helper()
	return a.through(t, call, func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body), Request: r,
		}, nil
	}, to)
}

func (a Adapter) through(t testing.TB, call chat.Call, f Transport, to ports.Sink) (chat.Reply, error) {
	t.Helper()
	m := must.Do(a.New("sk-secret", "", &http.Client{Transport: f})).Or(t)
	return m.Stream(context.Background(), call, to)
}

// Test runs the tests that every adapter passes. It is a function, not a method, so that
// test/soak/scaled finds the tests that call it.
func Test(t *testing.T, a Adapter) {
	t.Run("streams are read however they are written", a.written)
	t.Run("the sink waits only while nothing more is there", func(t *testing.T) {
		hi := a.Text("Hi")
		var readers []io.Reader
		for _, p := range []string{a.Start + hi + hi, hi[:len(hi)-1], "\n" + hi + hi[:20], hi[20:], a.End} {
			readers = append(readers, strings.NewReader(p))
		}
		to := &Recorder{}
		must.NoError(t, must.ErrorOf(a.Stream(t, a.Call, io.MultiReader(readers...), to)))
		want := []string{"text Hi", "text Hi", "wait", "text Hi", "text Hi", "wait", "text Hi", "wait"}
		must.Equal(t, want, to.Lines) // -want +got
	})
	t.Run("what came with the last event is sent before the body is read on", func(t *testing.T) {
		to := &Recorder{}
		var before []string
		body := io.MultiReader(strings.NewReader(a.Start+a.Text("Hi")+a.End), reader(func([]byte) (int, error) {
			before = slices.Clone(to.Lines)
			return 0, io.EOF
		}))
		must.NoError(t, must.ErrorOf(a.Stream(t, a.Call, body, to)))
		must.Equal(t, []string{"text Hi", "wait"}, before) // -want +got
	})
	t.Run("an error has the status and the request's id, and neither message nor key", func(t *testing.T) {
		_, err := a.through(t, a.Call, func(r *http.Request) (*http.Response, error) {
			endless := reader(func(p []byte) (int, error) { return copy(p, "x"), nil })
			body := io.MultiReader(strings.NewReader(`{"type":"error","error":{"type":"api_error","message":"it went wrong `), endless)
			return &http.Response{StatusCode: 500, Header: http.Header{a.RequestID: {"req_7"}}, Body: io.NopCloser(body), Request: r}, nil
		}, &Recorder{})
		text := fmt.Sprintf("%+v %#v", err, err)
		if strings.Contains(text, "sk-secret") || strings.Contains(text, "it went wrong") || !strings.Contains(text, "status 500 ") || !strings.Contains(text, "req_7") {
			t.Errorf("got %s", text)
		}
	})
	t.Run("the error of a lost connection has nothing of what came over it", a.lost)
	t.Run("damaged streams give chunks that are valid or an error", rapid.MakeCheck(func(r *rapid.T) {
		body := []byte(a.Answers[rapid.SampledFrom(slices.Sorted(maps.Keys(a.Answers))).Draw(r, "answer")].Body)
		for range rapid.IntRange(1, 4).Draw(r, "damages") {
			from := rapid.IntRange(0, len(body)).Draw(r, "from")
			to := rapid.IntRange(from, min(len(body), from+40)).Draw(r, "to")
			part := rapid.SampledFrom([][]byte{nil, body[from:to], []byte("\n\n"), []byte(`"`), []byte(`\`), []byte("{}"), []byte("null"), {0xff}, {0}}).Draw(r, "part")
			body = slices.Concat(body[:from], part, body[rapid.SampledFrom([]int{from, to}).Draw(r, "on"):])
		}
		must.NoError(r, a.Check(t, body))
	}))
}

func (a Adapter) written(t *testing.T) {
	for name, s := range a.Answers {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"by halves":    iotest.HalfReader,
			"with the end": iotest.DataErrReader,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				to := &Recorder{}
				reply, err := a.Stream(t, a.Call, reader(strings.NewReader(s.Body)), to)
				if err != nil || to.Wrong != "" {
					t.Fatal(err, to.Wrong)
				}
				got := slices.DeleteFunc(to.Lines, func(line string) bool { return line == "wait" })
				if diff := cmp.Diff(s.Want, got); diff != "" && len(s.Want)+len(got) > 0 {
					t.Errorf("-want +got:\n%s", diff)
				}
				want := chat.Reply{Usage: chat.Usage{Input: 123, CacheCreated: 20, CacheRead: 100, Output: 9}, InputKnown: true, OutputKnown: true, Stop: a.Stop}
				if reply != want {
					t.Errorf("got %+v\nwant %+v", reply, want)
				}
			})
		}
	}
}

func (a Adapter) lost(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "dial tcp: connection refused"},
		{fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "the connection was closed"},
		{fmt.Errorf("malformed HTTP response %q", "it went wrong"), "the connection failed with a *errors.errorString"},
		{fmt.Errorf("transport: %w", errors.New("it went wrong")), "the connection failed with a *errors.errorString"},
	} {
		_, err := a.through(t, a.Call, func(*http.Request) (*http.Response, error) { return nil, c.err }, &Recorder{})
		failure, ok := errors.AsType[*chat.Failure](err)
		if !ok || failure.Kind != chat.Network || !strings.HasSuffix(err.Error(), ": "+a.Name+": "+c.want) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}

// Check returns an error if the adapter makes of a body anything but valid chunks, and a
// complete answer or a *chat.Failure.
func (a Adapter) Check(t testing.TB, body []byte) error {
	to := &Recorder{}
	reply, err := a.Stream(t, a.Call, bytes.NewReader(body), to)
	_, failed := errors.AsType[*chat.Failure](err)
	switch {
	case to.Wrong != "":
		return errors.New(to.Wrong)
	case err != nil && !failed:
		return err
	case err == nil && (reply.Stop == "" || !bytes.Contains(body, []byte(a.Marker))):
		return fmt.Errorf("%+v of %q", reply, body)
	case reply.Usage.Input < 0 || reply.Usage.Output < 0:
		return fmt.Errorf("%+v was used", reply.Usage)
	}
	return nil
}

// Benchmark reports the time of an event with text.
func (a Adapter) Benchmark(b *testing.B) {
	const each = 10_000
	call := a.Call
	call.WebSearch = false
	for name, text := range map[string]string{"plain": " word", "escaped": `a\n\"b\"`, "umlauts": " wörd"} {
		b.Run(name, func(b *testing.B) {
			body := a.Start + strings.Repeat(a.Text(text), each) + a.End
			b.ReportAllocs()
			for b.Loop() {
				must.NoError(b, must.ErrorOf(a.Stream(b, call, strings.NewReader(body), discard{})))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*each), "ns/event")
		})
	}
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Chunk(chat.Chunk) error { return nil }
func (discard) Sent()                  {}
func (discard) Alive()                 {}
func (discard) Wait() error            { return nil }

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
