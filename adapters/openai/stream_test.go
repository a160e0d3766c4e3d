package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"collab/adapters/eventstream"
	"collab/domain/chat"
	"collab/ports"
	"collab/test/contract"
	"collab/test/contract/modelstream"
	"collab/test/contract/provider"
	"collab/test/must"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// textChunk returns an event with text in the form of OpenAI's servers.
func textChunk(text, padding string) string {
	return textEvent(head + `{"content":"` + text + `"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"` + padding + `"}`)
}

// plain returns an event with text in the form of most other servers.
func plain(text string) string {
	return textEvent(head + `{"content":"` + text + `"},"finish_reason":null}]}`)
}

func toolCallChunk(fragment string) string {
	return textEvent(head + `{"tool_calls":[` + fragment + `]},"finish_reason":null}]}`)
}

var adapter = modelstream.Adapter{
	Name: "openai", Call: someCall, Start: someStart, End: someEnd, Stop: "stop", Marker: "[DONE]", RequestID: "X-Request-Id", Answers: streams,
	New: func(key, url string, client *http.Client) (ports.Models, error) {
		return New(Options{APIKey: key, URL: url, Client: client})
	},
	Text: plain,
}

// streams has complete responses of servers.
var streams = map[string]modelstream.Answer{
	"as the provider writes it": {
		someStart + textChunk("Hi", "abc") + textChunk(" you", "d") + textChunk(`, \"there\"\n`, "") + textChunk(" wörld", `\u0041`) + someEnd,
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
		someStart + plain("a") + strings.Replace(plain("b"), `"created":1`, `"created":2`, 1) + textChunk("c", "x") + plain("d") + plain("e") + someEnd,
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
		someStart + textChunk("a", "x") + textChunk("b", "y") + strings.Replace(textChunk("c", "z"), `"finish_reason":null`, `"finish_reason":"stop"`, 1) + someUsage + someDone,
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
		someStart + toolCallChunk(`{"index":0,"id":"a","type":"function","function":{"name":"list","arguments":""}},{"index":1,"id":"b","type":"function","function":{"name":"read"}}`) +
			toolCallChunk(`{"index":1,"function":{"arguments":"{\"p\":"}}`) + toolCallChunk(`{"index":0,"function":{"arguments":"{}"}}`) + toolCallChunk(`{"index":1,"id":"b","function":{"name":"read","arguments":"1}"}}`) + someEnd,
		[]string{`call a list{}`, `call b read{"p":1}`},
	},
	"with the same index for every call": {
		someStart + toolCallChunk(`{"index":0,"id":"a","type":"function","function":{"name":"list","arguments":"{}"}}`) + toolCallChunk(`{"index":0,"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}`) + someEnd,
		[]string{`call a list{}`, `call b read{}`},
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

func TestUsageIsKnownWhenItCountsTheWholeResponse(t *testing.T) {
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
			reply := must.Do(adapter.Stream(t, someCall, strings.NewReader(c.body), &modelstream.Recorder{})).Or(t)
			must.Is(t, c.want, reply)
		})
	}
}

func TestUsageOfATruncatedResponseIsPartial(t *testing.T) {
	body := someStart + textEvent(head+`{"content":"Hi"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	reply, err := adapter.Stream(t, someCall, strings.NewReader(body), &modelstream.Recorder{})
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
		"a call of no tool":              {toolCallChunk(`{"index":0,"id":"a","function":{"name":"","arguments":"{}"}}`) + someEnd, chat.OtherFailure},
		"a call of an odd tool":          {toolCallChunk(`{"index":0,"id":"a","function":{"name":"no such/tool","arguments":"{}"}}`) + someEnd, chat.OtherFailure},
		"an error for a reason":          {plain("Hi") + strings.Replace(someStop, `"stop"`, `"error"`, 1) + someDone, chat.OtherFailure},
		"an error as text":               {problem(`"out of memory"`), chat.OtherFailure},
		"an error that says overloaded":  {problem(`{"message":"wait","type":"engine_overloaded_error"}`), chat.Overloaded},
		"an error with a status":         {problem(`{"message":"wait","type":"Whatever","code":503}`), chat.Overloaded},
		"an error with another status":   {problem(`{"message":"wait","code":429,"type":null}`), chat.RateLimited},
		"an error with a status in text": {problem(`{"message":"wait","code":"502"}`), chat.Network},
		"no more quota":                  {problem(`{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}`), chat.RateLimited},
		"an error of the server":         {problem(`{"message":"The server had an error","type":"server_error"}`), chat.OtherFailure},
	} {
		t.Run(name, func(t *testing.T) {
			adapter.Fails(t, someCall, strings.NewReader(someStart+c.body), c.want)
		})
	}
}

func TestAResponseIsLimited(t *testing.T) {
	grow := toolCallChunk(`{"index":0,"id":"a","function":{"name":"list","arguments":"` + strings.Repeat(" ", 1<<20) + `"}}`)
	var calls strings.Builder
	for i := range maxCalls + 1 {
		calls.WriteString(toolCallChunk(fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":"list"}}`, i, i)))
	}
	many := textEvent(`{"choices":[{"index":0,"delta":{"content":"\",\\"}}` + strings.Repeat(",{}", 1<<16) + "]}")
	for name, body := range map[string]string{"in bytes": strings.Repeat(grow, 17), "in calls": calls.String(), "in values of an event": many} {
		t.Run(name, func(t *testing.T) {
			adapter.Fails(t, someCall, strings.NewReader(someStart+body+someEnd), chat.OtherFailure)
		})
	}
}

func TestACallGoesToTheConfiguredServerWithTheKey(t *testing.T) {
	for key, want := range map[string]string{"": "", "sk-ours": "Bearer sk-ours"} {
		seen, _ := adapter.Sent(t, key, "http://models.invalid/v1", someCall)
		if seen.Header.Get("Authorization") != want || seen.URL.String() != "http://models.invalid/v1/chat/completions" {
			t.Errorf("with the key %q %s was asked with %v", key, seen.URL, seen.Header)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, url := range []string{"localhost", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Options{URL: url}); err == nil || !strings.HasPrefix(err.Error(), "COLLAB_OPENAI_URL") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestTheTokenLimitHasTheNameThatTheServerSupports(t *testing.T) {
	for url, want := range map[string]string{
		"": "max_completion_tokens", "https://eu.api.openai.com/v1": "max_completion_tokens", "https://x.openai.azure.com/openai/v1": "max_completion_tokens",
		"http://localhost:11434/v1": "max_tokens", "https://api.openai.com.example.com/v1": "max_tokens",
	} {
		_, body := adapter.Sent(t, "", url, someCall)
		other := map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[want]
		if body[want] != 100.0 || body[other] != nil {
			t.Errorf("%q was sent %v", url, body)
		}
	}
}

func TestWebSearchIsRefused(t *testing.T) {
	call := someCall
	call.WebSearch = true
	adapter.Fails(t, call, strings.NewReader(someStart+someEnd), chat.OtherFailure)
}

// FuzzStream checks the order of chunks, and that a complete answer has its last event.
func FuzzStream(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.Body))
	}
	f.Add([]byte(someStart + "data: {\"error\":{\"message\":\"wait\",\"code\":503}}\n\n"))
	f.Add([]byte(someStart + toolCallChunk(`{"index":0,"id":"a","function":{"name":"list","arguments":"{\"a"}}`) + strings.Replace(someEnd, `"stop"`, `"length"`, 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		must.NoError(t, adapter.Check(t, body))
	})
}

// FuzzShape compares shape.text, after learn with any event, with decoding.
func FuzzShape(f *testing.F) {
	f.Add([]byte(strings.TrimSpace(textChunk("Hi", "abc"))[6:]), []byte(strings.TrimSpace(textChunk(`a\n"b`, "x"))[6:]))
	f.Add([]byte(strings.TrimSpace(plain("Hi"))[6:]), []byte(strings.TrimSpace(plain(`\u00e4`))[6:]))
	f.Add([]byte(`{"choices":[{"delta":{"content" : "a"}}]}`), []byte(`{"choices":[{"delta":{"content" : "b"}}]}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"a","role":"x"}}],"obfuscation":"b"}`), []byte(`{"choices":[{"delta":{"content":"a","role":"x"}}],"obfuscation":"\""}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		to := &modelstream.Recorder{}
		a := newResponse(someCall, to)
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

var someModel = chat.Model{
	ID: "gpt-test", DisplayName: "Test", Provider: "openai", Tier: "small", ContextWindow: 200_000, MaxOutputTokens: 8_000,
}

func TestModels(t *testing.T) {
	contract.Models(t, func(t *testing.T, scripts ...provider.Script) contract.ModelProvider {
		s := provider.Start(t, scripts...)
		return contract.ModelProvider{
			Models: adapter.Open(t, s.OpenAI()), Model: someModel, Server: s, KeepsUsage: true,
			Unreachable: adapter.Open(t, "http://127.0.0.1:1/v1"),
		}
	})
}

func TestStreams(t *testing.T) { modelstream.Test(t, adapter) }

func BenchmarkText(b *testing.B) { adapter.Benchmark(b) }
