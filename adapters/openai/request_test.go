package openai

import (
	"encoding/json"
	"testing"

	"collab/domain/chat"
	"collab/test/must"
)

// requests has calls and the bodies that the provider's SDK sends for them.
var requests = map[string]struct {
	openAI bool // OpenAI's server
	call   chat.Call
	want   string
}{
	"with everything": {true, chat.Call{
		Model: chat.Model{ID: "m<1>", Thinking: "adaptive"}, MaxTokens: 100, System: "Be <brief>.",
		Turns: []chat.Turn{
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "a<b>&c \u2028\u2029 \xff \"\\\n\t\x00 Café 😀"}}},
			{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.Text, Text: "Look:"}, {Kind: chat.ToolUse, ID: "toolu_01234567890123456789012345678901234567890", Name: "list", Args: ` { "a" : [1.50, "<", null] }`}, {Kind: chat.ToolUse, ID: "call_1", Name: "read", Args: `{}`}}},
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "toolu_01234567890123456789012345678901234567890", Text: "a.txt"}, {Kind: chat.ToolResult, ID: "call_1", Text: " ", IsError: true}}},
		},
		Tools: []chat.Tool{{Name: "list", Description: "Lists", Schema: `{"properties":{"x":{}}}`}, {Name: "read"}},
	}, `{"messages":[{"content":"Be \u003cbrief\u003e.","role":"system"},{"content":"a\u003cb\u003e\u0026c \u2028\u2029 \ufffd \"\\\n\t\u0000 Café 😀","role":"user"},{"content":"Look:","tool_calls":[{"id":"call_2","function":{"arguments":" { \"a\" : [1.50, \"\u003c\", null] }","name":"list"},"type":"function"},{"id":"call_1","function":{"arguments":"{}","name":"read"},"type":"function"}],"role":"assistant"},{"content":"a.txt","tool_call_id":"call_2","role":"tool"},{"content":"Error:  ","tool_call_id":"call_1","role":"tool"}],"model":"m\u003c1\u003e","max_completion_tokens":100,"stream_options":{"include_usage":true},"tools":[{"function":{"name":"list","description":"Lists","parameters":{"type":"object","properties":{"x":{}}}},"type":"function"},{"function":{"name":"read"},"type":"function"}],"stream":true}`},
	"without tools, after a call of one": {false, chat.Call{
		Model: chat.Model{ID: "m", Thinking: "off"}, MaxTokens: 1,
		Turns: []chat.Turn{
			{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.ToolUse, ID: "a", Name: "list", Args: `{}`}}},
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "a", Text: "x"}}},
		},
	}, `{"messages":[{"tool_calls":[{"id":"a","function":{"arguments":"{}","name":"list"},"type":"function"}],"role":"assistant"},{"content":"x","tool_call_id":"a","role":"tool"}],"model":"m","max_tokens":1,"reasoning_effort":"none","stream_options":{"include_usage":true},"stream":true}`},
}

func TestTheBodyOfARequest(t *testing.T) {
	for name, r := range requests {
		q := must.Do(request(r.call, r.openAI)).Or(t)
		got := must.Do(json.Marshal(q)).Or(t)
		if string(got) != r.want {
			t.Errorf("%s:\n%s, not\n%s", name, got, r.want)
		}
	}
}
