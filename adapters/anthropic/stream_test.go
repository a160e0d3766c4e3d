package anthropic

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

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

var adapter = modelstream.Adapter{
	Name: "anthropic", Call: someCall, Start: someStart, End: someEnd, Stop: "end_turn", Marker: "stop", RequestID: "Request-Id", Answers: streams,
	New: func(key, url string, client *http.Client) (ports.Models, error) {
		return New(Options{APIKey: key, URL: url, Client: client})
	},
	Text: func(text string) string {
		return textEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`)
	},
}

// streams has complete responses of servers.
var streams = map[string]modelstream.Answer{
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

func TestLaterUsageOverwritesEarlierUsage(t *testing.T) {
	body := someStart + strings.ReplaceAll(someEnd, `"usage":{"output_tokens":9}`,
		`"usage":{"input_tokens":4,"cache_read_input_tokens":200,"output_tokens":9,"server_tool_use":{"web_search_requests":2}}`)
	reply := must.Do(adapter.Stream(t, someCall, strings.NewReader(body), &modelstream.Recorder{})).Or(t)
	must.Is(t, chat.Usage{Input: 224, CacheCreated: 20, CacheRead: 200, Output: 9, Searches: 2}, reply.Usage)
}

func TestInvalidUsageIsUnknown(t *testing.T) {
	body := strings.ReplaceAll(someStart, `"input_tokens":3`, `"input_tokens":-5`) + strings.ReplaceAll(someEnd, `"output_tokens":9`, `"output_tokens":9223372036854775807`)
	reply := must.Do(adapter.Stream(t, someCall, strings.NewReader(body), &modelstream.Recorder{})).Or(t)
	if reply.Usage.Input != 120 || reply.Usage.Output != eventstream.MaxCount {
		t.Errorf("it used %+v", reply.Usage)
	}
}

func TestInvalidStreamsAreBroken(t *testing.T) {
	block := func(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }
	use := `{"type":"content_block_start","index":%d,"content_block":{"type":"%s","id":"%s","name":"web_search","input":{}}}`
	for name, body := range map[string]string{
		"a delta without its block":        block(`{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}`),
		"a block twice":                    block(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		"a call that another block breaks": block(use, 1, "tool_use", "c1") + block(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}`) + block(`{"type":"content_block_stop","index":1}`) + block(use, 2, "tool_use", "c2"),
		"arguments after the end":          block(use, 1, "tool_use", "c1") + block(`{"type":"content_block_stop","index":1}`) + block(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			adapter.Fails(t, someCall, strings.NewReader(someStart+body+someEnd), chat.OtherFailure)
		})
	}
}

func TestAResponseIsLimited(t *testing.T) {
	begin := `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"list","input":{}}}` + "\n\n"
	grow := `data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"` + strings.Repeat(" ", 1<<20) + `"}}` + "\n\n"
	var blocks strings.Builder
	for i := range maxBlocks + 1 {
		fmt.Fprintf(&blocks, `data: {"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`+"\n\n", i+1)
	}
	for name, body := range map[string]string{"in bytes": begin + strings.Repeat(grow, 33), "in blocks": blocks.String()} {
		t.Run(name, func(t *testing.T) {
			adapter.Fails(t, someCall, strings.NewReader(someStart+body+someEnd), chat.OtherFailure)
		})
	}
}

func TestCitationsWithoutTextAreLimited(t *testing.T) {
	r := response{resumable: true, blocks: []*block{{}}}
	var err error
	for n := 0; err == nil && n <= maxRetained/citationMemory; n++ {
		err = r.blockDelta(event{Delta: delta{Type: "citations_delta"}})
	}
	if err == nil {
		t.Errorf("%d citations are retained", len(r.blocks[0].citations))
	}
}

func TestRequestsDependOnTheModel(t *testing.T) {
	sent := func(change func(*chat.Call)) map[string]any {
		call := someCall
		change(&call)
		_, body := adapter.Sent(t, "k", "", call)
		return body
	}
	for thinking, want := range map[string]any{
		"": nil, "off": map[string]any{"type": "disabled"}, "adaptive": map[string]any{"type": "adaptive", "display": "omitted"},
	} {
		body := sent(func(c *chat.Call) { c.Model.Thinking = thinking })
		if diff := cmp.Diff(want, body["thinking"]); diff != "" {
			t.Errorf("thinking %q (-want +got):\n%s", thinking, diff)
		}
		must.Equal[any](t, map[string]any{"type": "ephemeral"}, body["cache_control"])
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

func TestACallGoesToTheConfiguredServerWithTheKey(t *testing.T) {
	for url, want := range map[string]string{
		"": "https://api.anthropic.com/v1/messages", "http://models.invalid": "http://models.invalid/v1/messages", "http://models.invalid/proxy/": "http://models.invalid/proxy/v1/messages",
	} {
		seen, _ := adapter.Sent(t, " sk-ours\n", url, someCall)
		if seen.Header.Get("X-Api-Key") != "sk-ours" || seen.URL.String() != want {
			t.Errorf("for %q %s was asked with %v", url, seen.URL, seen.Header)
		}
	}
}

func TestAConfiguredServerNeedsNoKey(t *testing.T) {
	seen, _ := adapter.Sent(t, "", "http://localhost:1", someCall)
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if _, sent := seen.Header[name]; sent {
			t.Errorf("it was asked with %s", name)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {APIKey: " "}, {APIKey: "k", URL: "localhost"}, {APIKey: "k", URL: "ftp://x"}, {APIKey: "k", URL: "http://"}, {APIKey: "k", URL: "http://a b"}, {URL: "localhost"}} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "COLLAB_ANTHROPIC_") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// FuzzStream checks the order of chunks, and that a complete answer has its last event.
func FuzzStream(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.Body))
	}
	f.Add([]byte(someStart + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"))
	f.Add([]byte(someStart + `data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":1}` + "\n\n" +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"t","url":"u","page_age":null,"encrypted_content":"e"}]}}` + "\n\n" + someEnd))
	f.Add([]byte(someStart + strings.ReplaceAll(someEnd, "end_turn", "pause_turn")))
	f.Fuzz(func(t *testing.T, body []byte) {
		must.NoError(t, adapter.Check(t, body))
	})
}

// FuzzTextDelta compares textDelta with decoding.
func FuzzTextDelta(f *testing.F) {
	for _, s := range streams {
		for line := range strings.Lines(s.Body) {
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

var someModel = chat.Model{
	ID: "claude-test", DisplayName: "Test", Provider: "anthropic", Tier: "small", ContextWindow: 200_000, MaxOutputTokens: 8_000,
	Capabilities: []string{chat.WebSearch}, SearchTool: "web_search_20260318",
}

func TestModels(t *testing.T) {
	contract.Models(t, func(t *testing.T, scripts ...provider.Script) contract.ModelProvider {
		s := provider.Start(t, scripts...)
		return contract.ModelProvider{
			Models: adapter.Open(t, s.Anthropic()), Model: someModel, Server: s, Searches: true,
			Unreachable: adapter.Open(t, "http://127.0.0.1:1"),
		}
	})
}

func TestStreams(t *testing.T) { modelstream.Test(t, adapter) }

func BenchmarkText(b *testing.B) { adapter.Benchmark(b) }
