package openai

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
	Model: chat.Model{ID: "m"}, MaxTokens: 100,
	Turns: []chat.Turn{
		{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "Hello"}}},
		{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.ToolUse, ID: "old", Name: "list", Args: "{}"}}},
		{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "old", Text: "a.txt"}}},
	},
}

const (
	someStart = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	someStop  = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	someUsage = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":123,"completion_tokens":9,"total_tokens":132,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":20}}}` + "\n\n"
	someDone  = "data: [DONE]\n\n"
	someEnd   = someStop + someUsage + someDone
	head      = `{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
)

func textEvent(data string) string { return "data: " + data + "\n\n" }

// said is an event with text as OpenAI's own servers write it.
func said(text, padding string) string {
	return textEvent(head + `{"content":"` + text + `"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"` + padding + `"}`)
}

// plain is one as most other servers write it.
func plain(text string) string {
	return textEvent(head + `{"content":"` + text + `"},"finish_reason":null}]}`)
}

func calling(fragment string) string {
	return textEvent(head + `{"tool_calls":[` + fragment + `]},"finish_reason":null}]}`)
}

// streams are whole answers, as servers write them.
var streams = map[string]struct {
	body string
	want []string
}{
	"as the provider writes it": {
		someStart + said("Hi", "abc") + said(" you", "d") + said(`, \"there\"\n`, "") + said(" wörld", `\u0041`) + someEnd,
		[]string{"text Hi", "text  you", "text , \"there\"\n", "text  wörld"},
	},
	"as others write it": {
		someStart + plain("Hi") + plain(" you") + plain(`\u00e4 \ud83e\udd89`) + someEnd,
		[]string{"text Hi", "text  you", "text ä 🦉"},
	},
	"with other spaces": {
		someStart + strings.Repeat(textEvent(`{"choices": [{"delta": {"content" : "Hi"}, "index": 0, "finish_reason": null}]}`), 3) + someEnd,
		[]string{"text Hi", "text Hi", "text Hi"},
	},
	"in a form that changes": {
		someStart + plain("a") + strings.Replace(plain("b"), `"created":1`, `"created":2`, 1) + said("c", "x") + plain("d") + plain("e") + someEnd,
		[]string{"text a", "text b", "text c", "text d", "text e"},
	},
	"with content in more than one place": {
		someStart + textEvent(`{"filter":{"content":"Hi"},"choices":[{"index":0,"delta":{"content":"Hi"}}]}`) + textEvent(`{"filter":{"content":"Ho"},"choices":[{"index":0,"delta":{"content":"Hi"}}]}`) + someEnd,
		[]string{"text Hi", "text Hi"},
	},
	"with the reason to stop beside the text": {
		someStart + plain("a") + plain("b") + textEvent(head+`{"content":"c"},"finish_reason":"stop"}]}`) + someUsage + someDone,
		[]string{"text a", "text b", "text c"},
	},
	"with the reason to stop beside text and padding": {
		someStart + said("a", "x") + said("b", "y") + strings.Replace(said("c", "z"), `"finish_reason":null`, `"finish_reason":"stop"`, 1) + someUsage + someDone,
		[]string{"text a", "text b", "text c"},
	},
	"with several choices": {
		someStart + plain("Hi") + textEvent(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}`) + plain("you") + someEnd,
		[]string{"text Hi", "text you"},
	},
	"with carriage returns": {
		strings.ReplaceAll(someStart+plain("Hi")+someEnd, "\n", "\r\n"),
		[]string{"text Hi"},
	},
	"with comments, names and no spaces": {
		": OPENROUTER PROCESSING\n\n" + strings.ReplaceAll(someStart+"event: message\n"+plain("Hi")+someEnd, "data: ", "data:"),
		[]string{"text Hi"},
	},
	"without the last empty line": {
		strings.TrimSuffix(someStart+plain("Hi")+someEnd, "\n\n"),
		[]string{"text Hi"},
	},
	"with usage at every turn": {
		someStart + textEvent(head+`{"content":"Hi"},"finish_reason":null}],"usage":{"prompt_tokens":123,"completion_tokens":1,"total_tokens":124}}`) + textEvent(head+`{"content":"Ho"},"finish_reason":null}],"usage":{"prompt_tokens":123,"completion_tokens":2,"total_tokens":125}}`) + someEnd,
		[]string{"text Hi", "text Ho"},
	},
	"with usage at the end of the text": {
		someStart + plain("Hi") + strings.Replace(someStop, `}]}`, `}],"usage":{"prompt_tokens":123,"completion_tokens":9,"total_tokens":132,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":20}}}`, 1) + someDone,
		[]string{"text Hi"},
	},
	"with reasoning": {
		someStart + textEvent(head+`{"reasoning_content":"Hm","content":null},"finish_reason":null}]}`) + textEvent(head+`{"reasoning":"Hm"},"finish_reason":null}]}`) + plain("Hi") + someEnd,
		[]string{"text Hi"},
	},
	"with a refusal": {
		someStart + textEvent(head+`{"refusal":"No."},"finish_reason":null}]}`) + someEnd,
		[]string{"text No."},
	},
	"with calls in turns": {
		someStart + calling(`{"index":0,"id":"a","type":"function","function":{"name":"list","arguments":""}},{"index":1,"id":"b","type":"function","function":{"name":"read"}}`) +
			calling(`{"index":1,"function":{"arguments":"{\"p\":"}}`) + calling(`{"index":0,"function":{"arguments":"{}"}}`) + calling(`{"index":1,"id":"b","function":{"name":"read","arguments":"1}"}}`) + someEnd,
		[]string{`call a list{}`, `call b read{"p":1}`},
	},
	"with the same index for every call": {
		someStart + calling(`{"index":0,"id":"a","type":"function","function":{"name":"list","arguments":"{}"}}`) + calling(`{"index":0,"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}`) + someEnd,
		[]string{`call a list{}`, `call b read{}`},
	},
	"with calls without ids, or with those of others": {
		someStart + calling(`{"index":0,"id":"","function":{"name":"list","arguments":"{}"}}`) + calling(`{"index":1,"id":"old","function":{"name":"list","arguments":"{}"}}`) + calling(`{"index":2,"id":"new","function":{"name":"list","arguments":"{}"}}`) + calling(`{"index":3,"id":"new","function":{"name":"list","arguments":"{}"}}`) + someEnd,
		[]string{`call call_2 list{}`, `call call_3 list{}`, `call new list{}`, `call call_5 list{}`},
	},
	"with every escape": {
		someStart + plain("x") + plain(`\"\\\/\n\t`) + plain(`\r\b\f\u00e4\ud83e\udd89`) + someEnd,
		[]string{"text x", "text \"\\/\n\t", "text \r\b\fä🦉"},
	},
	"with half of a pair of surrogates": {
		someStart + plain(`a\ud83db`) + someEnd,
		[]string{"text a\ufffdb"},
	},
	"with bytes that are no text": {
		someStart + plain("x") + plain("a\xffb") + plain("\xff") + someEnd,
		[]string{"text x", "text a\ufffdb", "text \ufffd"},
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
				want := chat.Reply{Usage: chat.Usage{Input: 123, CacheMade: 20, CacheRead: 100, Output: 9}, InputKnown: true, OutputKnown: true, Stop: "stop"}
				if reply != want {
					t.Errorf("got %+v\nwant %+v", reply, want)
				}
			})
		}
	}
}

func TestNothingWaitsWhileMoreIsThere(t *testing.T) {
	hi := plain("Hi")
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
	body := io.MultiReader(strings.NewReader(someStart+plain("Hi")+someEnd), looking(func() { by = slices.Clone(to.lines) }))
	if _, err := playing(t, func() io.Reader { return body }).Stream(t.Context(), someCall, to); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"text Hi", "wait"}, by); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsageIsKnownOnceItIsOfAllOfTheAnswer(t *testing.T) {
	during := textEvent(head + `{"content":"Hi"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	for name, c := range map[string]struct {
		body string
		want chat.Reply
	}{
		"never":      {someStart + plain("Hi") + someStop + someDone, chat.Reply{Stop: "stop"}},
		"in between": {someStart + during + someStop + someDone, chat.Reply{Usage: chat.Usage{Input: 3, Output: 1}, InputKnown: true, Stop: "stop"}},
		"of nothing": {someStart + someStop + textEvent(`{"choices":[],"usage":{}}`) + someDone, chat.Reply{Stop: "stop"}},
		"too much":   {someStart + someStop + textEvent(`{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":9223372036854775807}}`) + someDone, chat.Reply{Usage: chat.Usage{Output: eventstream.MaxCount}, InputKnown: true, OutputKnown: true, Stop: "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := playing(t, func() io.Reader { return strings.NewReader(c.body) }).Stream(t.Context(), someCall, &notes{})
			if err != nil {
				t.Fatal(err)
			}
			if reply != c.want {
				t.Errorf("got %+v\nwant %+v", reply, c.want)
			}
		})
	}
}

func TestUsageOfWhatWasCutOffIsOfAPart(t *testing.T) {
	body := someStart + textEvent(head+`{"content":"Hi"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	reply, err := playing(t, func() io.Reader { return strings.NewReader(body) }).Stream(t.Context(), someCall, &notes{})
	if want := (chat.Reply{Usage: chat.Usage{Input: 3, Output: 1}, InputKnown: true}); err == nil || reply != want {
		t.Errorf("got %+v, %v\nwant %+v", reply, err, want)
	}
}

func TestStreamsThatFail(t *testing.T) {
	problem := func(text string) string { return textEvent(`{"error":` + text + `}`) }
	for name, c := range map[string]struct {
		body string
		want chat.FailureKind
	}{
		"done without a reason":          {plain("Hi") + someDone, chat.Truncated},
		"a reason without done":          {plain("Hi") + someStop + someUsage, chat.Truncated},
		"a call of no tool":              {calling(`{"index":0,"id":"a","function":{"name":"","arguments":"{}"}}`) + someEnd, chat.Broken},
		"a call of an odd tool":          {calling(`{"index":0,"id":"a","function":{"name":"no such/tool","arguments":"{}"}}`) + someEnd, chat.Broken},
		"an error for a reason":          {plain("Hi") + strings.Replace(someStop, `"stop"`, `"error"`, 1) + someDone, chat.Broken},
		"an error as text":               {problem(`"out of memory"`), chat.Broken},
		"an error that says overloaded":  {problem(`{"message":"wait","type":"engine_overloaded_error"}`), chat.Overloaded},
		"an error with a status":         {problem(`{"message":"wait","type":"Whatever","code":503}`), chat.Overloaded},
		"an error with another status":   {problem(`{"message":"wait","code":429,"type":null}`), chat.RateLimited},
		"an error with a status in text": {problem(`{"message":"wait","code":"502"}`), chat.Network},
		"no more quota":                  {problem(`{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}`), chat.RateLimited},
		"an error of the server":         {problem(`{"message":"The server had an error","type":"server_error"}`), chat.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			to := &notes{}
			_, err := playing(t, func() io.Reader { return strings.NewReader(someStart + c.body) }).Stream(t.Context(), someCall, to)
			var failure *chat.Failure
			if !errors.As(err, &failure) || failure.Kind != c.want || to.wrong != "" {
				t.Fatal(err, to.wrong)
			}
		})
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	grow := calling(`{"index":0,"id":"a","function":{"name":"list","arguments":"` + strings.Repeat(" ", 1<<20) + `"}}`)
	calls := func() io.Reader {
		var b strings.Builder
		for i := range maxCalls + 1 {
			b.WriteString(calling(fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":"list"}}`, i, i)))
		}
		return strings.NewReader(b.String())
	}
	for name, body := range map[string]func() io.Reader{
		"in bytes": func() io.Reader { return strings.NewReader(strings.Repeat(grow, 17)) },
		"in calls": calls,
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

func TestTheEnvironmentIsNotAsked(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "leaked")
	}
	t.Setenv("OPENAI_BASE_URL", "http://leaked.invalid/v1")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leaked: leaked")
	for key, want := range map[string]string{"": "", "sk-ours": "Bearer sk-ours"} {
		var seen *http.Request
		m, err := New(Options{APIKey: key, URL: "http://models.invalid/v1", Client: &http.Client{Transport: observing(func(r *http.Request) { seen = r })}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stream(t.Context(), someCall, &notes{}); err == nil {
			t.Fatal("a 500 is an answer")
		}
		if text := fmt.Sprint(seen.URL, seen.Header); strings.Contains(text, "leaked") || seen.Header.Get("Authorization") != want || seen.URL.String() != "http://models.invalid/v1/chat/completions" {
			t.Errorf("with the key %q it was asked %s", key, text)
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, url := range []string{"localhost", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Options{URL: url}); err == nil || !strings.HasPrefix(err.Error(), "COLLAB_OPENAI_URL") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestTheLimitHasTheNameThatTheServerKnows(t *testing.T) {
	for url, want := range map[string]string{
		"": "max_completion_tokens", "https://eu.api.openai.com/v1": "max_completion_tokens", "https://x.openai.azure.com/openai/v1": "max_completion_tokens",
		"http://localhost:11434/v1": "max_tokens", "https://api.openai.com.example.com/v1": "max_tokens",
	} {
		var body map[string]any
		m, err := New(Options{URL: url, Client: &http.Client{Transport: observing(func(r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
		})}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Stream(t.Context(), someCall, &notes{}); err == nil {
			t.Fatal("a 500 is an answer")
		}
		other := map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[want]
		if body[want] != 100.0 || body[other] != nil {
			t.Errorf("%q was sent %v", url, body)
		}
	}
}

func TestAWebSearchThatThereIsNotIsRefused(t *testing.T) {
	call := someCall
	call.WebSearch = true
	_, err := playing(t, func() io.Reader { return strings.NewReader(someStart + someEnd) }).Stream(t.Context(), call, &notes{})
	var failure *chat.Failure
	if !errors.As(err, &failure) || failure.Kind != chat.Broken {
		t.Fatal(err)
	}
}

// observing looks at each request and refuses it.
type observing func(*http.Request)

func (o observing) RoundTrip(r *http.Request) (*http.Response, error) {
	o(r)
	return &http.Response{StatusCode: 500, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
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
		if !errors.As(err, &failure) || failure.Kind != chat.Network || !strings.HasSuffix(err.Error(), ": openai: "+c.want) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}

// failing has no connection.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// refusing refuses with a message without end.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(`{"error":{"type":"api_error","message":"it went wrong `), endless{})
	return &http.Response{StatusCode: 500, Header: http.Header{"X-Request-Id": {"req_7"}}, Body: io.NopCloser(body), Request: r}, nil
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
	case err == nil && (reply.Stop == "" || !bytes.Contains(body, []byte("[DONE]"))):
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
	f.Add([]byte(someStart + "data: {\"error\":{\"message\":\"wait\",\"code\":503}}\n\n"))
	f.Add([]byte(someStart + calling(`{"index":0,"id":"a","function":{"name":"list","arguments":"{\"a"}}`) + strings.Replace(someEnd, `"stop"`, `"length"`, 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := amiss(t, body); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzShape holds what is read without decoding to what decoding makes of it,
// after any event that a form was learnt from.
func FuzzShape(f *testing.F) {
	f.Add([]byte(strings.TrimSpace(said("Hi", "abc"))[6:]), []byte(strings.TrimSpace(said(`a\n"b`, "x"))[6:]))
	f.Add([]byte(strings.TrimSpace(plain("Hi"))[6:]), []byte(strings.TrimSpace(plain(`\u00e4`))[6:]))
	f.Add([]byte(`{"choices":[{"delta":{"content" : "a"}}]}`), []byte(`{"choices":[{"delta":{"content" : "b"}}]}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","role":"x"}}],"obfuscation":"b"}`), []byte(`{"choices":[{"delta":{"content":"a","role":"x"}}],"obfuscation":"\""}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		to := &notes{}
		a := newAnswer(someCall, to)
		if over, err := a.event(first); over || err != nil || len(a.shape.head) == 0 {
			return
		}
		text, ok := a.shape.text(second)
		if !ok {
			return
		}
		var e event
		if err := json.Unmarshal(second, &e); err != nil {
			t.Fatalf("%q is no event: %v", second, err)
		}
		c := e.Choices[0]
		if len(e.Choices) != 1 || c.Delta.Content != text || len(c.Delta.ToolCalls) > 0 || c.Delta.Refusal != "" || c.FinishReason != "" || c.Index != 0 || e.Usage != nil {
			t.Fatalf("after %q\n%q was read as %q", first, second, text)
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
			body := someStart + strings.Repeat(said(text, "abcd"), each) + someEnd
			m, call := playing(b, func() io.Reader { return strings.NewReader(body) }), someCall
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
