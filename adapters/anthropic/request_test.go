package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/anthropics/anthropic-sdk-go/shared/constant"
	"pgregory.net/rapid"

	"collab/domain/chat"
)

// inSDK returns the call in the SDK's terms.
func inSDK(c chat.Call) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{
		Model:        c.Model.ID,
		MaxTokens:    int64(c.MaxTokens),
		CacheControl: anthropic.NewCacheControlEphemeralParam(),
	}
	if strings.TrimSpace(c.System) != "" {
		p.System = []anthropic.TextBlockParam{{Text: c.System}}
	}
	switch c.Model.Thinking {
	case "off":
		disabled := anthropic.NewThinkingConfigDisabledParam()
		p.Thinking.OfDisabled = &disabled
	case "adaptive":
		// Nobody sees it: it need not come.
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplayOmitted}
	}
	ids := safeIDs(c.Turns)
	for i, t := range c.Turns {
		m := anthropic.MessageParam{Role: anthropic.MessageParamRole(t.Role)}
		for _, b := range t.Blocks {
			block, err := blockInSDK(b, ids)
			if err != nil {
				return p, fmt.Errorf("anthropic: turn %d: %w", i, err)
			}
			m.Content = append(m.Content, block)
		}
		p.Messages = append(p.Messages, m)
	}
	for i, t := range c.Tools {
		schema, err := inputSchema(t.Schema)
		if err != nil {
			return p, fmt.Errorf("anthropic: tool %d: %w", i, err)
		}
		p.Tools = append(p.Tools, toolInSDK(t.Name, t.Description, schema))
	}
	if c.WebSearch {
		search := &anthropic.WebSearchTool20260209Param{ // the versions differ in nothing that is set here
			Type: constant.WebSearch20260209(c.Model.SearchTool), MaxUses: anthropic.Int(maxSearches),
		}
		if c.Model.SearchTool != basicSearch {
			search.AllowedCallers = []string{"direct"}
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfWebSearchTool20260209: search})
	}
	if len(p.Tools) == 0 {
		// A history with calls needs tools, also where there are none any more.
		schema := json.RawMessage(`{"type":"object"}`)
		for _, name := range called(c.Turns) {
			p.Tools = append(p.Tools, toolInSDK(name, "", schema))
		}
		if len(p.Tools) > 0 {
			none := anthropic.NewToolChoiceNoneParam()
			p.ToolChoice.OfNone = &none
		}
	}
	return p, nil
}

func blockInSDK(b chat.Block, ids map[string]string) (anthropic.ContentBlockParamUnion, error) {
	switch b.Kind {
	case chat.Text:
		return anthropic.NewTextBlock(b.Text), nil
	case chat.ToolUse:
		if !isObject(b.Args) {
			return anthropic.ContentBlockParamUnion{}, errors.New("the arguments of a call are no JSON object")
		}
		return anthropic.NewToolUseBlock(ids[b.ID], json.RawMessage(b.Args), b.Name), nil
	case chat.ToolResult:
		result := &anthropic.ToolResultBlockParam{ToolUseID: ids[b.ID]}
		if b.IsError {
			result.IsError = anthropic.Bool(true)
		}
		if strings.TrimSpace(b.Text) != "" { // an empty text is refused, none is not
			result.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: b.Text}}}
		}
		return anthropic.ContentBlockParamUnion{OfToolResult: result}, nil
	}
	return anthropic.ContentBlockParamUnion{}, fmt.Errorf("a block is of the kind %q", b.Kind)
}

func toolInSDK(name, description string, schema json.RawMessage) anthropic.ToolUnionParam {
	t := &anthropic.ToolParam{Name: name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema)}
	if description != "" {
		t.Description = anthropic.String(description)
	}
	return anthropic.ToolUnionParam{OfTool: t}
}

// anyCall draws a call of any shape that can be asked, whatever its texts are.
func anyCall(t *rapid.T) chat.Call {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "Hello", "a<b>&c", "\u2028\u2029", "\xff", "\"\\\n\t\x00", "Café 😀"}))
	objects := rapid.SampledFrom([]string{`{}`, ` { "a" : [1.50, "<", null] }`, `{"type":"object","properties":{"x":{}}}`, `{"b":"\u2028\ud83d"}`})
	ids := rapid.SampledFrom([]string{"a", "b_1-C", "toolu.1", "call_1", strings.Repeat("x", 41), "é", ""})
	blocks := rapid.Custom(func(t *rapid.T) chat.Block {
		return chat.Block{
			Kind: rapid.SampledFrom([]chat.BlockKind{chat.Text, chat.Text, chat.ToolUse, chat.ToolUse, chat.ToolResult, chat.ToolResult}).Draw(t, "kind"),
			Text: texts.Draw(t, "text"), ID: ids.Draw(t, "id"), Name: texts.Draw(t, "name"), Args: objects.Draw(t, "args"), IsError: rapid.Bool().Draw(t, "isError"),
		}
	})
	turns := rapid.Custom(func(t *rapid.T) chat.Turn {
		return chat.Turn{
			Role:   rapid.SampledFrom([]chat.Role{chat.User, chat.Assistant}).Draw(t, "role"),
			Blocks: rapid.SliceOfN(blocks, 1, 4).Draw(t, "blocks"),
		}
	})
	tools := rapid.Custom(func(t *rapid.T) chat.Tool {
		return chat.Tool{Name: rapid.SampledFrom([]string{"w", "a<b>"}).Draw(t, "tool"), Description: texts.Draw(t, "description"), Schema: rapid.OneOf(objects, rapid.Just(" ")).Draw(t, "schema")}
	})
	return chat.Call{
		Model: chat.Model{
			ID: rapid.SampledFrom([]string{"m", "m<1>"}).Draw(t, "model"), Thinking: rapid.SampledFrom([]string{"", "off", "adaptive"}).Draw(t, "thinking"),
			SearchTool: rapid.SampledFrom([]string{"web_search_20250305", "web_search_20260209"}).Draw(t, "searchTool"),
		},
		MaxTokens: rapid.IntRange(1, 1<<30).Draw(t, "maxTokens"), System: texts.Draw(t, "system"), WebSearch: rapid.Bool().Draw(t, "webSearch"),
		Turns: append(rapid.SliceOfN(turns, 0, 4).Draw(t, "turns"), chat.Turn{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "Hello"}}}), Tools: rapid.SliceOfN(tools, 0, 3).Draw(t, "tools"),
	}
}

func TestARequestIsWrittenAsTheSDKWritesIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := anyCall(r)
		sdk, refused := inSDK(c)
		q, err := request(c)
		if refused != nil || err != nil {
			r.Fatal(refused, err)
		}
		want, err := json.Marshal(sdk)
		if err != nil {
			r.Fatal(err)
		}
		got, err := json.Marshal(q)
		if err != nil {
			r.Fatal(err)
		}
		if want := `{"stream":true,` + string(want[1:]); string(got) != want {
			r.Errorf("it is\n%s, with the SDK\n%s", got, want)
		}
	})
}

func TestWhatWasSaidBeforeAPauseIsWrittenAsTheSDKWritesIt(t *testing.T) {
	raw := json.RawMessage(`{"type":"thinking","thinking":"a < b","signature":"c"}`)
	got, err := json.Marshal(message{[]any{raw}, "assistant"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(anthropic.NewAssistantMessage(param.Override[anthropic.ContentBlockParamUnion](raw)))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it is %s, with the SDK %s", got, want)
	}
}
