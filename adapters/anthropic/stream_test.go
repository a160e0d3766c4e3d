package anthropic

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

	"collab/adapters/eventstream"
	"collab/domain/chat"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// played answers every request with a stream.
type played func() io.Reader

func (p played) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(p()), Request: r,
	}, nil
}

func playing(t testing.TB, body func() io.Reader) *Models {
	t.Helper()
	m, err := New(Options{APIKey: "sk-test", Client: &http.Client{Transport: played(body)}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// notes is a sink that writes down what it is told.
type notes struct {
	lines []string
	calls map[string]bool
	wrong string
}

func (n *notes) Alive()      {}
func (n *notes) Wait() error { n.lines = append(n.lines, "wait"); return nil }

func (n *notes) Chunk(c chat.Chunk) error {
	if n.calls == nil {
		n.calls = map[string]bool{}
	}
	waiting, known := n.calls[c.CallID]
	switch {
	case !utf8.ValidString(c.Text + c.CallID + c.Name + c.Args + c.Result):
		n.wrong = fmt.Sprintf("%+v is not UTF-8", c)
	case c.Type == chat.TextChunk && c.Text != "":
		n.lines = append(n.lines, "text "+c.Text)
	case c.Type == chat.CallChunk && !known && eventstream.IsObject(c.Args) && c.CallID != "" && c.Name != "":
		n.calls[c.CallID] = c.ServerHandled
		n.lines = append(n.lines, "call "+c.CallID+" "+c.Name+c.Args)
	case c.Type == chat.ResultChunk && waiting && json.Valid([]byte(c.Result)):
		n.calls[c.CallID] = false
		n.lines = append(n.lines, "result "+c.CallID+" "+c.Result)
	default:
		n.wrong = fmt.Sprintf("%+v after %q", c, n.lines)
	}
	return nil
}

var someCall = chat.Call{
	Model: chat.Model{ID: "m", SearchTool: basicSearch}, MaxTokens: 100, Budget: 1_000_000, WebSearch: true,
	Turns: []chat.Turn{{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "Hello"}}}},
}

const (
	someStart = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

`
	someEnd = `event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`
)

func textEvent(data string) string {
	return "event: content_block_delta\ndata: " + data + "\n\n"
}

// streams are whole answers, as servers write them.
var streams = map[string]struct {
	body string
	want []string
}{
	"as the provider writes it": {
		someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`) + someEnd,
		[]string{"text Hi"},
	},
	"with padding": {
		someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}              }`) + someEnd,
		[]string{"text Hi"},
	},
	"with other spaces and another order": {
		someStart + textEvent(`{ "index": 0, "delta": {"text": "Hi", "type": "text_delta"}, "type": "content_block_delta" }`) + someEnd,
		[]string{"text Hi"},
	},
	"with fields that are new": {
		someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi","mood":"good"},"extra":{"text":"no"}}`) + someEnd,
		[]string{"text Hi"},
	},
	"with carriage returns": {
		strings.ReplaceAll(someStart+textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`)+someEnd, "\n", "\r\n"),
		[]string{"text Hi"},
	},
	"without names of events, and without spaces": {
		strings.NewReplacer("event: message_stop\n", "", "event: content_block_delta\n", "", "data: ", "data:").Replace(someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`) + someEnd),
		[]string{"text Hi"},
	},
	"with comments, ids, delays and empty lines": {
		"\n\n: hello\n\nretry: 5\nid: 1\n\n" + someStart + ":\n" + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`) + someEnd,
		[]string{"text Hi"},
	},
	"with data over several lines": {
		someStart + "data: {\"type\":\"content_block_delta\",\"index\":0,\ndata: \"delta\":{\"type\":\"text_delta\",\ndata:\"text\":\"Hi\"}}\n\n" + someEnd,
		[]string{"text Hi"},
	},
	"without the last empty line": {
		strings.TrimSuffix(someStart+someEnd, "\n\n"),
		nil,
	},
	"with text where a block begins": {
		strings.ReplaceAll(someStart, `"text":""`, `"text":"Hi"`) + someEnd,
		[]string{"text Hi"},
	},
	"with arguments where a block begins": {
		someStart + `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"list","input":{"all":true}}}` + "\n\n" + someEnd,
		[]string{`call c1 list{"all":true}`},
	},
	"with every escape": {
		someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"\\\/\n\t"}}`) + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\r\b\f\u00e4\ud83e\udd89"}}`) + someEnd,
		[]string{"text \"\\/\n\t", "text \r\b\fä🦉"},
	},
	"with escapes beside bytes that are no text": {
		someStart + textEvent("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\n\xff\"}}") + someEnd,
		[]string{"text \n\ufffd"},
	},
	"with half of a pair of surrogates": {
		someStart + textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83db"}}`) + someEnd,
		[]string{"text a\ufffdb"},
	},
	"with bytes that are no text": {
		someStart + textEvent("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xffb\"}}") + someEnd,
		[]string{"text a\ufffdb"},
	},
	"with a server tool that we did not ask for": {
		someStart + `data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s1","name":"code_execution","input":{}}}` + "\n\n" +
			`data: {"type":"content_block_stop","index":1}` + "\n\n" +
			`data: {"type":"content_block_start","index":2,"content_block":{"type":"code_execution_tool_result","tool_use_id":"s1","content":{"type":"code_execution_result","stdout":"secret","stderr":"","return_code":0,"content":[]}}}` + "\n\n" + someEnd,
		nil,
	},
}

func TestStreamsAreReadHoweverTheyAreWritten(t *testing.T) {
	for name, s := range streams {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"by halves":    iotest.HalfReader,
			"with the end": iotest.DataErrReader,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				to := &notes{}
				reply, err := playing(t, func() io.Reader { return reader(strings.NewReader(s.body)) }).Stream(t.Context(), someCall, to)
				if err != nil || to.wrong != "" {
					t.Fatal(err, to.wrong)
				}
				var got []string
				for _, line := range to.lines {
					if line != "wait" {
						got = append(got, line)
					}
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				want := chat.Reply{Usage: chat.Usage{Input: 123, CacheMade: 20, CacheRead: 100, Output: 9}, InputKnown: true, OutputKnown: true, Stop: "end_turn"}
				if reply != want {
					t.Errorf("got %+v\nwant %+v", reply, want)
				}
			})
		}
	}
}

func TestNothingWaitsWhileMoreIsThere(t *testing.T) {
	hi := textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`)
	pieces := []string{someStart + hi + hi, hi[:len(hi)-1], "\n" + hi + hi[:20], hi[20:], someEnd}
	var readers []io.Reader
	for _, p := range pieces {
		readers = append(readers, strings.NewReader(p))
	}
	to := &notes{}
	if _, err := playing(t, func() io.Reader { return io.MultiReader(readers...) }).Stream(t.Context(), someCall, to); err != nil {
		t.Fatal(err)
	}
	want := []string{"text Hi", "text Hi", "wait", "text Hi", "text Hi", "wait", "text Hi", "wait"}
	if diff := cmp.Diff(want, to.lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// looking is a body that looks at something when it is read, and is empty.
type looking func()

func (l looking) Read([]byte) (int, error) {
	l()
	return 0, io.EOF
}

func TestWhatCameWithTheEndGoesOutBeforeTheBodyIsReadOn(t *testing.T) {
	to := &notes{}
	var by []string
	body := io.MultiReader(strings.NewReader(someStart+textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`)+someEnd), looking(func() { by = slices.Clone(to.lines) }))
	if _, err := playing(t, func() io.Reader { return body }).Stream(t.Context(), someCall, to); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"text Hi", "wait"}, by); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsageThatComesAgainOverwrites(t *testing.T) {
	body := someStart + strings.ReplaceAll(someEnd, `"usage":{"output_tokens":9}`,
		`"usage":{"input_tokens":4,"cache_read_input_tokens":200,"output_tokens":9,"server_tool_use":{"web_search_requests":2}}`)
	reply, err := playing(t, func() io.Reader { return strings.NewReader(body) }).Stream(t.Context(), someCall, &notes{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (chat.Usage{Input: 224, CacheMade: 20, CacheRead: 200, Output: 9, Searches: 2}); reply.Usage != want {
		t.Errorf("got %+v\nwant %+v", reply.Usage, want)
	}
}

func TestUsageThatCannotBeIsNot(t *testing.T) {
	body := strings.ReplaceAll(someStart, `"input_tokens":3`, `"input_tokens":-5`) + strings.ReplaceAll(someEnd, `"output_tokens":9`, `"output_tokens":9223372036854775807`)
	reply, err := playing(t, func() io.Reader { return strings.NewReader(body) }).Stream(t.Context(), someCall, &notes{})
	if err != nil {
		t.Fatal(err)
	}
	if reply.Usage.Input != 120 || reply.Usage.Output != eventstream.MaxCount {
		t.Errorf("it used %+v", reply.Usage)
	}
}

func TestStreamsThatCannotBeAreBroken(t *testing.T) {
	block := func(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }
	use := `{"type":"content_block_start","index":%d,"content_block":{"type":"%s","id":"%s","name":"web_search","input":{}}}`
	for name, body := range map[string]string{
		"a delta without its block":        block(`{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}`),
		"a block twice":                    block(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		"a call without an id":             block(use, 1, "tool_use", ""),
		"an id twice":                      block(use, 1, "tool_use", "c1") + block(use, 2, "server_tool_use", "c1"),
		"a call that another block breaks": block(use, 1, "tool_use", "c1") + block(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}`) + block(`{"type":"content_block_stop","index":1}`) + block(use, 2, "tool_use", "c2"),
		"arguments after the end":          block(use, 1, "tool_use", "c1") + block(`{"type":"content_block_stop","index":1}`) + block(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			to := &notes{}
			_, err := playing(t, func() io.Reader { return strings.NewReader(someStart + body + someEnd) }).Stream(t.Context(), someCall, to)
			var failure *chat.Failure
			if !errors.As(err, &failure) || failure.Kind != chat.Broken || to.wrong != "" {
				t.Fatal(err, to.wrong)
			}
		})
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	begin := `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"list","input":{}}}` + "\n\n"
	grow := `data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"` + strings.Repeat(" ", 1<<20) + `"}}` + "\n\n"
	blocks := func() io.Reader {
		var b strings.Builder
		for i := range maxBlocks + 1 {
			fmt.Fprintf(&b, `data: {"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`+"\n\n", i+1)
		}
		return strings.NewReader(b.String())
	}
	for name, body := range map[string]func() io.Reader{
		"in bytes":  func() io.Reader { return strings.NewReader(begin + strings.Repeat(grow, 33)) },
		"in blocks": blocks,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := playing(t, func() io.Reader {
				return io.MultiReader(strings.NewReader(someStart), body(), strings.NewReader(someEnd))
			}).Stream(t.Context(), someCall, &notes{})
			var failure *chat.Failure
			if !errors.As(err, &failure) || failure.Kind != chat.Broken {
				t.Fatal(err)
			}
		})
	}
}

func TestWhatIsAskedFollowsTheModel(t *testing.T) {
	sent := func(change func(*chat.Call)) map[string]any {
		var body map[string]any
		m, err := New(Options{APIKey: "k", Client: &http.Client{Transport: observing(func(r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
		})}})
		if err != nil {
			t.Fatal(err)
		}
		call := someCall
		change(&call)
		if _, err := m.Stream(t.Context(), call, &notes{}); err == nil {
			t.Fatal("a 500 is an answer")
		}
		return body
	}
	for thinking, want := range map[string]any{
		"": nil, "off": map[string]any{"type": "disabled"}, "adaptive": map[string]any{"type": "adaptive", "display": "omitted"},
	} {
		body := sent(func(c *chat.Call) { c.Model.Thinking = thinking })
		if diff := cmp.Diff(want, body["thinking"]); diff != "" {
			t.Errorf("thinking %q (-want +got):\n%s", thinking, diff)
		}
		if diff := cmp.Diff(map[string]any{"type": "ephemeral"}, body["cache_control"]); diff != "" {
			t.Errorf("caching (-want +got):\n%s", diff)
		}
	}
	for version, want := range map[string]map[string]any{
		"web_search_20250305": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8.0},
		"web_search_20260318": {"type": "web_search_20260318", "name": "web_search", "max_uses": 8.0, "allowed_callers": []any{"direct"}},
	} {
		body := sent(func(c *chat.Call) { c.Model.SearchTool = version })
		if diff := cmp.Diff([]any{want}, body["tools"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
	if body := sent(func(c *chat.Call) { c.WebSearch = false }); body["tools"] != nil || body["tool_choice"] != nil {
		t.Errorf("without tools %v were sent", body["tools"])
	}
}

func TestAFailureSaysLittleAndNoKey(t *testing.T) {
	m, err := New(Options{APIKey: "sk-secret", Client: &http.Client{Transport: refusing{}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Stream(t.Context(), someCall, &notes{})
	if text := fmt.Sprintf("%+v %#v", err, err); strings.Contains(text, "sk-secret") || strings.Contains(text, "it went wrong") || !strings.Contains(text, "status 500 ") || !strings.Contains(text, "req_7") {
		t.Errorf("it says %s", text)
	}
}

func TestALostConnectionSaysNothingOfWhatCameOverIt(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "dial tcp: connection refused"},
		{fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "the connection was closed"},
		{fmt.Errorf("malformed HTTP response %q", "it went wrong"), "the connection failed with a *errors.errorString"},
		{fmt.Errorf("transport: %w", errors.New("it went wrong")), "the connection failed with a *errors.errorString"},
	} {
		m, err := New(Options{APIKey: "sk-secret", Client: &http.Client{Transport: failing{c.err}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Stream(t.Context(), someCall, &notes{})
		var failure *chat.Failure
		if !errors.As(err, &failure) || failure.Kind != chat.Network || !strings.HasSuffix(err.Error(), ": anthropic: "+c.want) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}

// failing has no connection.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestTheEnvironmentIsNotAsked(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"} {
		t.Setenv(name, "leaked")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://leaked.invalid")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Leaked: leaked")
	for url, want := range map[string]string{
		"": "https://api.anthropic.com/v1/messages", "http://models.invalid": "http://models.invalid/v1/messages", "http://models.invalid/proxy/": "http://models.invalid/proxy/v1/messages",
	} {
		var seen *http.Request
		m, err := New(Options{APIKey: " sk-ours\n", URL: url, Client: &http.Client{Transport: observing(func(r *http.Request) { seen = r })}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stream(t.Context(), someCall, &notes{}); err == nil {
			t.Fatal("a 500 is an answer")
		}
		if text := fmt.Sprint(seen.URL, seen.Header); strings.Contains(text, "leaked") || seen.Header.Get("X-Api-Key") != "sk-ours" || seen.URL.String() != want {
			t.Errorf("for %q it was asked %s", url, text)
		}
	}
}

func TestAServerOfOnesOwnNeedsNoKey(t *testing.T) {
	var seen *http.Request
	m, err := New(Options{URL: "http://localhost:1", Client: &http.Client{Transport: observing(func(r *http.Request) { seen = r })}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stream(t.Context(), someCall, &notes{}); err == nil || seen == nil {
		t.Fatal("nobody was asked")
	}
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if _, sent := seen.Header[name]; sent {
			t.Errorf("it was asked with %s", name)
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {APIKey: " "}, {APIKey: "k", URL: "localhost"}, {APIKey: "k", URL: "ftp://x"}, {APIKey: "k", URL: "http://"}, {APIKey: "k", URL: "http://a b"}, {URL: "localhost"}} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "COLLAB_ANTHROPIC_") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// observing looks at each request and refuses it.
type observing func(*http.Request)

func (o observing) RoundTrip(r *http.Request) (*http.Response, error) {
	o(r)
	return &http.Response{StatusCode: 500, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
}

// refusing refuses with a message without end.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(`{"type":"error","error":{"type":"api_error","message":"it went wrong `), endless{})
	return &http.Response{StatusCode: 500, Header: http.Header{"Request-Id": {"req_7"}}, Body: io.NopCloser(body), Request: r}, nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// amiss returns what is wrong with what comes of a body: it must be well-formed,
// and an answer that is said to be whole must have its end marker.
func amiss(t testing.TB, body []byte) error {
	to := &notes{}
	reply, err := playing(t, func() io.Reader { return bytes.NewReader(body) }).Stream(context.Background(), someCall, to)
	var failure *chat.Failure
	switch {
	case to.wrong != "":
		return errors.New(to.wrong)
	case err != nil && !errors.As(err, &failure):
		return err
	case err == nil && (reply.Stop == "" || !bytes.Contains(body, []byte("stop"))):
		return fmt.Errorf("%+v of %q", reply, body)
	case reply.Usage.Input < 0 || reply.Usage.Output < 0:
		return fmt.Errorf("%+v was used", reply.Usage)
	}
	return nil
}

// TestWhateverBytesCome damages answers: fuzzing has the same to say, but not
// in every run of the tests.
func TestWhateverBytesCome(t *testing.T) {
	var bodies []string
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		bodies = append(bodies, streams[name].body)
	}
	rapid.Check(t, func(r *rapid.T) {
		body := []byte(rapid.SampledFrom(bodies).Draw(r, "body"))
		for range rapid.IntRange(1, 4).Draw(r, "damages") {
			from := rapid.IntRange(0, len(body)).Draw(r, "from")
			to := rapid.IntRange(from, min(len(body), from+40)).Draw(r, "to")
			part := rapid.SampledFrom([][]byte{nil, body[from:to], []byte("\n\n"), []byte(`"`), []byte(`\`), []byte("{}"), []byte("null"), {0xff}, {0}}).Draw(r, "part")
			body = slices.Concat(body[:from], part, body[rapid.SampledFrom([]int{from, to}).Draw(r, "on"):])
		}
		if err := amiss(t, body); err != nil {
			r.Fatal(err)
		}
	})
}

// FuzzStream holds whatever comes to the grammar, and a whole answer to its end
// marker.
func FuzzStream(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.body))
	}
	f.Add([]byte(someStart + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"))
	f.Add([]byte(someStart + `data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":1}` + "\n\n" +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"t","url":"u","page_age":null,"encrypted_content":"e"}]}}` + "\n\n" + someEnd))
	f.Add([]byte(someStart + strings.ReplaceAll(someEnd, "end_turn", "pause_turn")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := amiss(t, body); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzTextDelta holds what is read without decoding to what decoding makes of it.
func FuzzTextDelta(f *testing.F) {
	for _, s := range streams {
		for line := range strings.Lines(s.body) {
			f.Add([]byte(strings.TrimSpace(strings.TrimPrefix(line, "data:"))))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		index, text, ok := textDelta(data)
		if !ok {
			return
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("%q is no event: %v", data, err)
		}
		if e.Type != "content_block_delta" || e.Delta.Type != "text_delta" || e.Index != int64(index) || e.Delta.Text != text {
			t.Fatalf("%q was read as %d, %q", data, index, text)
		}
	})
}

// deaf is a sink that keeps nothing.
type deaf struct{}

func (deaf) Chunk(chat.Chunk) error { return nil }
func (deaf) Alive()                 {}
func (deaf) Wait() error            { return nil }

func BenchmarkText(b *testing.B) {
	const each = 10_000
	for name, text := range map[string]string{"plain": " word", "escaped": `a\n\"b\"`, "umlauts": " wörd"} {
		b.Run(name, func(b *testing.B) {
			event := textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`)
			body := someStart + strings.Repeat(event, each) + someEnd
			m, call := playing(b, func() io.Reader { return strings.NewReader(body) }), someCall
			call.WebSearch = false
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Stream(context.Background(), call, deaf{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*each), "ns/event")
		})
	}
}
