package anthropic

import (
	"encoding/json"
	"testing"

	"collab/domain/chat"
	"collab/test/must"
)

// requests has calls and the bodies that the provider's SDK sends for them.
var requests = map[string]struct {
	call   chat.Call
	limits chat.Limits
	want   string
}{
	"with everything": {chat.Call{
		Model: chat.Model{ID: "m<1>", Thinking: "adaptive", SearchTool: "web_search_20260318"}, System: "Be <brief>.", WebSearch: true,
		Turns: []chat.Turn{
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "a<b>&c \u2028\u2029 \xff \"\\\n\t\x00 Café 😀"}}},
			{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.Text, Text: "Look:"}, {Kind: chat.ToolUse, ID: "toolu.1", Name: "list", Args: ` { "a" : [1.50, "<", null] }`}, {Kind: chat.ToolUse, ID: "call_1", Name: "read", Args: `{}`}}},
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "toolu.1", Text: "a.txt"}, {Kind: chat.ToolResult, ID: "call_1", Text: " ", IsError: true}}},
		},
		Tools: []chat.Tool{{Name: "list", Description: "Lists", Schema: `{"properties":{"x":{}}}`}, {Name: "read"}},
	}, chat.Limits{MaxTokens: 100, MaxSearches: 8}, `{"stream":true,"max_tokens":100,"messages":[{"content":[{"text":"a\u003cb\u003e\u0026c \u2028\u2029 \ufffd \"\\\n\t\u0000 Café 😀","type":"text"}],"role":"user"},{"content":[{"text":"Look:","type":"text"},{"id":"call_2","input":{"a":[1.50,"\u003c",null]},"name":"list","type":"tool_use"},{"id":"call_1","input":{},"name":"read","type":"tool_use"}],"role":"assistant"},{"content":[{"tool_use_id":"call_2","content":[{"text":"a.txt","type":"text"}],"type":"tool_result"},{"tool_use_id":"call_1","is_error":true,"type":"tool_result"}],"role":"user"}],"model":"m\u003c1\u003e","cache_control":{"type":"ephemeral"},"system":[{"text":"Be \u003cbrief\u003e.","type":"text"}],"thinking":{"display":"omitted","type":"adaptive"},"tools":[{"input_schema":{"type":"object","properties":{"x":{}}},"name":"list","description":"Lists"},{"input_schema":{"type":"object"},"name":"read"},{"max_uses":8,"allowed_callers":["direct"],"name":"web_search","type":"web_search_20260318"}]}`},
	"without tools, after a call of one": {chat.Call{
		Model: chat.Model{ID: "m", Thinking: "off"},
		Turns: []chat.Turn{
			{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.ToolUse, ID: "a", Name: "list", Args: `{}`}}},
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "a", Text: "x"}}},
		},
	}, chat.Limits{MaxTokens: 1}, `{"stream":true,"max_tokens":1,"messages":[{"content":[{"id":"a","input":{},"name":"list","type":"tool_use"}],"role":"assistant"},{"content":[{"tool_use_id":"a","content":[{"text":"x","type":"text"}],"type":"tool_result"}],"role":"user"}],"model":"m","cache_control":{"type":"ephemeral"},"thinking":{"type":"disabled"},"tool_choice":{"type":"none"},"tools":[{"input_schema":{"type":"object"},"name":"list"}]}`},
}

func TestTheBodyOfARequest(t *testing.T) {
	for name, r := range requests {
		q := must.Do(request(r.call, r.limits)).Or(t)
		got := must.Do(json.Marshal(q)).Or(t)
		if string(got) != r.want {
			t.Errorf("%s:\n%s, not\n%s", name, got, r.want)
		}
	}
}
