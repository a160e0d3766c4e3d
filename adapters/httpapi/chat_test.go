package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/test/must"
)

var testModel = chat.Model{
	ID: "one", DisplayName: "One", Provider: "test", Tier: "fast", ContextWindow: 1_000_000, MaxOutputTokens: 1000,
	Capabilities: []string{chat.WebSearch}, SearchTool: "search",
}

// readChat reads the body of a chat request.
func readChat(body string) (chat.Request, error) { return newCall(post("/", body)).chatRequest() }

func TestChatRequestIsReadWhole(t *testing.T) {
	got, err := readChat(`{
		"message": "Caf\u00e9 \ud83d\ude00", "model": "one", "maxTokens": 7, "systemPrompt": "Be\nbrief", "enableWebSearch": true, "unknown": [],
		"history": [
			{"role": "user", "content": "How warm is it?"},
			{"role": "assistant", "content": [
				{"type": "text", "text": "I look", "cache_control": {}},
				{"type": "tool_use", "id": "a", "name": "weather", "input": { "city" : "Oslo  \u00e9", "n": 1.50 }},
				{"type": "tool_use", "id": "b", "name": "web_search", "input": {}, "serverHandled": true},
				{"type": "tool_use", "id": "c", "name": "web_search", "input": {}, "server_handled": true},
				{"type": "tool_use", "id": "d", "name": "weather", "input": {}, "serverHandled": false}]},
			{"role": "user", "content": [
				{"type": "tool_result", "toolUseId": "a", "content": "21 degrees", "isError": true},
				{"type": "tool_result", "tool_use_id": "b", "content": null, "is_error": true}]},
			{"role": "user", "content": []}],
		"tools": [
			{"name": "weather", "description": "Of a city", "inputSchema": { "type": "object", "properties": {} }},
			{"name": "b", "input_schema": {"type":"object"}},
			{"name": "c", "parameters": {"x":[1, 2]}},
			{"name": "d", "description": null, "inputSchema": null},
			{"name": "e"}]}`)
	must.NoError(t, err)
	want := chat.Request{
		Message: "Café 😀", Model: "one", MaxTokens: new(7), System: "Be\nbrief", WebSearch: true,
		History: []chat.Turn{
			{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "How warm is it?"}}},
			{Role: chat.Assistant, Blocks: []chat.Block{
				{Kind: chat.Text, Text: "I look"},
				{Kind: chat.ToolUse, ID: "a", Name: "weather", Args: `{"city":"Oslo  \u00e9","n":1.50}`},
				{Kind: chat.ToolUse, ID: "b", Name: "web_search", Args: "{}", ServerHandled: true},
				{Kind: chat.ToolUse, ID: "c", Name: "web_search", Args: "{}", ServerHandled: true},
				{Kind: chat.ToolUse, ID: "d", Name: "weather", Args: "{}"},
			}},
			{Role: chat.User, Blocks: []chat.Block{
				{Kind: chat.ToolResult, ID: "a", Text: "21 degrees", IsError: true},
				{Kind: chat.ToolResult, ID: "b", IsError: true},
			}},
			{Role: chat.User},
		},
		Tools: []chat.Tool{
			{Name: "weather", Description: "Of a city", Schema: `{"type":"object","properties":{}}`},
			{Name: "b", Schema: `{"type":"object"}`},
			{Name: "c", Schema: `{"x":[1,2]}`},
			{Name: "d"}, {Name: "e"},
		},
	}
	must.Equal(t, want, got)
}

func TestToolResultIsText(t *testing.T) {
	for content, want := range map[string]string{
		`"a\nb"`:                       "a\nb",
		`""`:                           "",
		`null`:                         "",
		`[{"type":"text","text":"a"}]`: "a",
		`[{"type":"text","text":"a\n"},{"text":"\u00e9","type":"text","x":1}]`: "a\n\né",
		`[{"type":"text","text":"a"},{"type":"image","source":{}}]`:            `[{"type":"text","text":"a"},{"type":"image","source":{}}]`,
		`[{"type":"text","text":null}]`:                                        `[{"type":"text","text":null}]`,
		`[{"type":"text"}]`:                                                    `[{"type":"text"}]`,
		`[{"text":"a"}]`:                                                       `[{"text":"a"}]`,
		`["a"]`:                                                                `["a"]`,
		`[]`:                                                                   `[]`,
		`[ 1, {"a" : null} ]`:                                                  `[ 1, {"a" : null} ]`,
		`{"degrees" : 21.0}`:                                                   `{"degrees" : 21.0}`,
		`21.50`:                                                                `21.50`,
		`true`:                                                                 `true`,
	} {
		r := must.Do(readChat(`{"message":"m","history":[{"role":"user","content":[{"type":"tool_result","toolUseId":"a","content":` + content + `}]}]}`)).Or(t)
		if got := r.History[0].Blocks[0].Text; got != want {
			t.Errorf("%s is %q, want %q", content, got, want)
		}
	}
}

func TestChatRequestErrorsNameTheirField(t *testing.T) {
	const use = `{"type":"tool_use","id":"a","name":"n","input":{}}`
	history := func(turns ...string) string {
		return `{"message":"m","history":[` + strings.Join(turns, ",") + `]}`
	}
	user := func(blocks ...string) string {
		return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	}
	assistant := func(blocks ...string) string {
		return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
	}
	tool := func(fields string) string {
		return `{"message":"m","tools":[{"name":"fine"},{` + fields + `}]}`
	}
	for body, want := range map[string]string{
		`{}`:                                             "message is required",
		`{"message":null}`:                               "message is required",
		`{"message":5}`:                                  "message must be a string",
		`{"message":["m"]}`:                              "message must be a string",
		`{"message":"m","model":1}`:                      "model must be a string",
		`{"message":"m","maxTokens":1.5}`:                "maxTokens must be an integer",
		`{"message":"m","maxTokens":"7"}`:                "maxTokens must be an integer",
		`{"message":"m","maxTokens":1e3}`:                "maxTokens must be an integer",
		`{"message":"m","maxTokens":4294967297}`:         "maxTokens is out of range",
		`{"message":"m","systemPrompt":{}}`:              "systemPrompt must be a string",
		`{"message":"m","enableWebSearch":1}`:            "enableWebSearch must be true or false",
		`{"message":"m","history":{}}`:                   "history must be an array",
		`{"message":"m","history":"none"}`:               "history must be an array",
		`{"message":"m","tools":true}`:                   "tools must be an array",
		history(`7`):                                     "history[0] must be an object",
		history(user(), `null`):                          "history[1] must be an object",
		history(`{"content":"x"}`):                       "history[0].role is required",
		history(`{"role":"system","content":"x"}`):       "history[0].role must be one of user, assistant",
		history(user(), `{"role":"User","content":"x"}`): "history[1].role must be one of user, assistant",
		history(`{"role":"user"}`):                       "history[0].content must be a string or an array of blocks",
		history(`{"role":"user","content":null}`):        "history[0].content must be a string or an array of blocks",
		history(`{"role":"user","content":{}}`):          "history[0].content must be a string or an array of blocks",
		history(user(), user(`"x"`)):                     "history[1].content[0] must be an object",
		history(user(`{}`)):                              "history[0].content[0].type is required",
		history(user(`{"type":"image"}`)):                "history[0].content[0].type must be one of text, tool_use, tool_result",
		history(user(`{"type":"text"}`)):                 "history[0].content[0].text is required",
		history(user(`{"type":"text","text":null}`)):     "history[0].content[0].text is required",
		history(user(`{"type":"text","text":"x"},{"type":"text","text":[]}`)):                          "history[0].content[1].text must be a string",
		history(assistant(`{"type":"tool_use","name":"n","input":{}}`)):                                "history[0].content[0].id is required",
		history(assistant(`{"type":"tool_use","id":"a","input":{}}`)):                                  "history[0].content[0].name is required",
		history(assistant(`{"type":"tool_use","id":"a","name":"n"}`)):                                  "history[0].content[0].input is required",
		history(user(), assistant(`{"type":"tool_use","id":"a","name":"n","input":"{}"}`)):             "history[1].content[0].input must be a JSON object",
		history(user(), assistant(`{"type":"tool_use","id":"a","name":"n","input":[]}`)):               "history[1].content[0].input must be a JSON object",
		history(assistant(`{"type":"tool_use","id":"a","name":"n","input":{},"serverHandled":"yes"}`)): "history[0].content[0].serverHandled must be true or false",
		history(assistant(`{"type":"tool_use","id":"a","name":"n","input":{},"server_handled":0}`)):    "history[0].content[0].server_handled must be true or false",
		history(user(`{"type":"tool_result"}`)):                                                        "history[0].content[0].toolUseId is required",
		history(user(`{"type":"tool_result","tool_use_id":7}`)):                                        "history[0].content[0].tool_use_id must be a string",
		history(user(`{"type":"tool_result","toolUseId":"a","is_error":"no"}`)):                        "history[0].content[0].is_error must be true or false",
		tool(`"description":"x"`):                                        "tools[1].name is required",
		tool(`"name":"n","description":1`):                               "tools[1].description must be a string",
		tool(`"name":"n","inputSchema":"{}"`):                            "tools[1].inputSchema must be a JSON schema",
		tool(`"name":"n","input_schema":[]`):                             "tools[1].input_schema must be a JSON schema",
		tool(`"name":"n","parameters":true`):                             "tools[1].parameters must be a JSON schema",
		tool(`"name":"n","inputSchema":{"type":"string"}`):               `tools[1].inputSchema must be a JSON schema whose type is "object"`,
		tool(`"name":"n","inputSchema":{"type":["object"]}`):             `tools[1].inputSchema must be a JSON schema whose type is "object"`,
		tool(`"name":"n","inputSchema":{"type":null}`):                   `tools[1].inputSchema must be a JSON schema whose type is "object"`,
		`{"message":"m","tools":[1]}`:                                    "tools[0] must be an object",
		history(repeat(chat.MaxTurns+1, `7`)):                            "history must be at most 2000",
		history(user(), user(repeat(chat.MaxBlocks+1, `7`))):             "history[1].content must be at most 200",
		`{"message":"m","tools":[` + repeat(chat.MaxTools+1, `7`) + `]}`: "tools must be at most 128",

		// Errors of the domain name their field in the same way.
		history(user(use)):                   "history[0].content[0] must not be a tool_use: only the assistant uses tools",
		history(user(), assistant(use, use)): "history[1].content[1].id must not be another tool_use's",
		history(user(), assistant(`{"type":"tool_use","id":"a","name":"n m","input":{}}`)): "history[1].content[0].name must be 1 to 64 letters, digits, _ or -",
		history(user(`{"type":"tool_result","toolUseId":"a"}`)):                            "history[0].content[0].toolUseId must be the id of a tool_use before it",
		history(assistant(`{"type":"text","text":"x"}`)):                                   "history must begin with a message of the user",
		tool(`"name":"a b"`):                             "tools[1].name must be 1 to 64 letters, digits, _ or -",
		tool(`"name":"fine"`):                            "tools[1].name must not be another tool's",
		`{"message":""}`:                                 "message must not be empty, unless the history ends with a tool result",
		`{"message":"m","maxTokens":0}`:                  "maxTokens must be between 1 and 1000 for the model one",
		`{"message":"m","maxTokens":1001}`:               "maxTokens must be between 1 and 1000 for the model one",
		`{"message":"a\u0000b"}`:                         "message must not contain null characters",
		history(user(`{"type":"text","text":"\u0000"}`)): "history[0].content[0] must be valid text of at most 400000 characters",
	} {
		name := body
		if len(name) > 100 {
			name = name[:100]
		}
		t.Run(name, func(t *testing.T) {
			_, err := callOf(body)
			if !fault.Is(err, fault.Invalid) || err.Error() != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// repeat returns n times the text, separated by commas.
func repeat(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }

// callOf reads the body of a chat request and returns the call of testModel for it.
func callOf(body string) (chat.Call, error) {
	r, err := readChat(body)
	if err != nil {
		return chat.Call{}, err
	}
	return r.Call(testModel)
}

func TestChatRequestProblemsAreBounded(t *testing.T) {
	turn := `{"role":"user","content":[` + repeat(chat.MaxBlocks, "7") + `]}`
	_, err := readChat(`{"message":"m","history":[` + repeat(chat.MaxTurns, turn) + `]}`)
	var e *fault.Error
	if !errors.As(err, &e) || e.Message != "history[0].content[0] must be an object" || len(e.Problems) > 100 {
		t.Errorf("%d problems, the first is %v", len(e.Problems), err)
	}
}

func TestChatRequestBounds(t *testing.T) {
	toolUse := func(input string) string {
		return `{"message":"m","history":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":` + input + `}]}]}`
	}
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }
	for name, body := range map[string]string{
		"2,000 turns":      `{"message":"m","history":[` + repeat(chat.MaxTurns/2, `{"role":"user","content":"x"},{"role":"assistant","content":"y"}`) + `]}`,
		"nested arguments": toolUse(nested(50)),
		"long message":     `{"message":"` + strings.Repeat("x", chat.MaxMessage) + `"}`,
		"long system":      `{"message":"m","systemPrompt":"` + strings.Repeat("x", chat.MaxSystem) + `"}`,
	} {
		t.Run(name, func(t *testing.T) { must.Do(callOf(body)).Or(t) })
	}
	for name, body := range map[string]string{
		"arguments nested too deeply": toolUse(nested(100)),
		"unclosed brackets":           `{"message":` + strings.Repeat("[", 500_000),
		"too long message":            `{"message":"` + strings.Repeat("x", chat.MaxMessage+1) + `"}`,
		"repeated name in arguments":  toolUse(`{"a":1,"a":2}`),
		"half a surrogate pair":       `{"message":"\ud800"}`,
	} {
		t.Run(name, func(t *testing.T) { must.Fail(t, must.ErrorOf(callOf(body)), fault.Invalid) })
	}
}

// FuzzChatRequest compares the messages of requests that are read with those that encoding/json reads.
func FuzzChatRequest(f *testing.F) {
	for _, body := range []string{
		`{"message":"m"}`,
		`{"message":"","history":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{"a":[1]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"t"}]}]}]}`,
		`{"message":"m","history":[{"role":"user","content":[]},{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"web_search","input":{},"serverHandled":true},{"type":"tool_result","toolUseId":"b","content":{"a":1},"isError":true},{"type":"text","text":" "}]}]}`,
		`{"message":"m","tools":[{"name":"n","inputSchema":{"type":"object"}},{"name":"o","parameters":{}}],"enableWebSearch":true,"maxTokens":5,"model":"one","systemPrompt":"s"}`,
		`{"message":"\u2028\ud83d\ude00","history":[{"role":"assistant","content":"x"}]}`,
		`{"message":"m","history":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]},{"role":"assistant","content":"y"}]}`,
		`{"message":"m","history":[7],"tools":{}}`, `[`, ``, `null`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, err := readChat(body)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.TooLarge {
				t.Fatal(err)
			}
			return
		}
		var want map[string]json.RawMessage // a struct would match names without regard to case
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q was read, but %v", body, err)
		}
		var message string
		if err := json.Unmarshal(want["message"], &message); err != nil || message != r.Message {
			t.Fatalf("message is %q, want %q (%v)", r.Message, message, err)
		}
		call, err := r.Call(testModel)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatal(err)
			}
			return
		}
		if call.Estimate() < 1 {
			t.Fatalf("the estimate is %d", call.Estimate())
		}
	})
}

// decodedChunk is a chunk as clients decode it.
type decodedChunk struct {
	Type     chat.ChunkType `json:"type"`
	Text     *string        `json:"text"`
	Error    *string        `json:"error"`
	ToolCall *struct {
		ID, Name      string
		Args          json.RawMessage
		ServerHandled bool
	} `json:"toolCall"`
	ToolResult *struct {
		CallID string
		Result json.RawMessage
	} `json:"toolResult"`
	Usage *struct{ InputTokens, OutputTokens int64 } `json:"usage"`
}

// sentChunk checks that a chunk is sent as one event of one line, and returns the chunk that a client decodes.
func sentChunk(t *rapid.T, k chat.Chunk) decodedChunk {
	t.Helper()
	out := appendChunk([]byte(comment), k)
	line, begins := strings.CutPrefix(string(out), comment+"data: ")
	line, ends := strings.CutSuffix(line, "\n\n")
	if !begins || !ends || strings.ContainsAny(line, "\r\n\u2028\u2029") || !utf8.ValidString(line) {
		t.Fatalf("the event is %q", out)
	}
	var c decodedChunk
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil || d.More() {
		t.Fatalf("%q: %v", line, err)
	}
	if c.Type != k.Type {
		t.Fatalf("the type of %+v is %q", k, c.Type)
	}
	return c
}

// checkSameJSON checks that two JSON texts have the same value. Invalid UTF-8 is the replacement character in both.
func checkSameJSON(t *rapid.T, got json.RawMessage, want string) {
	t.Helper()
	read := func(text []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return v
	}
	must.Equal(t, read([]byte(want)), read(got))
}

func TestChunkIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := append(rapid.SliceOf(rapid.String()).Draw(t, "values"), "z")
		value, err := json.MarshalIndent(map[string]any{rapid.String().Draw(t, "name"): values}, "\r", "\n \t")
		must.NoError(t, err)
		text, id := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), rapid.String().Draw(t, "id")
		raw := strings.ReplaceAll(string(value), "z", "\xff")
		input, output := rapid.Int64().Draw(t, "input"), rapid.Int64().Draw(t, "output")
		// Each byte of invalid UTF-8 is replaced separately.
		replaced := func(s string) string { return string([]rune(s)) }
		if c := sentChunk(t, chat.Chunk{Type: chat.TextChunk, Text: text}); c.Text == nil || *c.Text != replaced(text) {
			t.Fatalf("%q is %+v", text, c)
		}
		if c := sentChunk(t, chat.Chunk{Type: chat.ErrorChunk, Text: text}); c.Error == nil || *c.Error != replaced(text) {
			t.Fatalf("%q is %+v", text, c)
		}
		for _, handled := range []bool{false, true} {
			c := sentChunk(t, chat.Chunk{Type: chat.CallChunk, CallID: id, Name: text, Args: raw, ServerHandled: handled})
			if c.ToolCall == nil || c.ToolCall.ID != replaced(id) || c.ToolCall.Name != replaced(text) || c.ToolCall.ServerHandled != handled {
				t.Fatalf("the call is %+v", c.ToolCall)
			}
			checkSameJSON(t, c.ToolCall.Args, raw)
		}
		c := sentChunk(t, chat.Chunk{Type: chat.ResultChunk, CallID: id, Result: raw})
		if c.ToolResult == nil || c.ToolResult.CallID != replaced(id) {
			t.Fatalf("the result is %+v", c.ToolResult)
		}
		checkSameJSON(t, c.ToolResult.Result, raw)
		c = sentChunk(t, chat.Chunk{Type: chat.DoneChunk, Usage: chat.Usage{Input: input, Output: output, CacheRead: 3}})
		if c.Usage == nil || c.Usage.InputTokens != input || c.Usage.OutputTokens != output {
			t.Fatalf("the usage is %+v", c.Usage)
		}
	})
}
