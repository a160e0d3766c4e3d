package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
	"pgregory.net/rapid"

	"collab/domain/chat"
)

// inSDK returns the call in the SDK's terms.
func inSDK(c chat.Call, own bool) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{
		Model:         c.Model.ID,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if own {
		p.MaxCompletionTokens = openai.Int(int64(c.MaxTokens))
	} else {
		p.MaxTokens = openai.Int(int64(c.MaxTokens))
	}
	if c.WebSearch {
		return p, errors.New("openai: chat completions have no web search: the model must not have the capability")
	}
	if c.Model.Thinking == "off" {
		p.ReasoningEffort = shared.ReasoningEffortNone
	}
	if strings.TrimSpace(c.System) != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(c.System))
	}
	ids := shortIDs(c.Turns)
	for i, t := range c.Turns {
		messages, err := turnInSDK(t, ids)
		if err != nil {
			return p, fmt.Errorf("openai: turn %d: %w", i, err)
		}
		p.Messages = append(p.Messages, messages...)
	}
	for i, t := range c.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			f.Description = openai.String(t.Description)
		}
		if strings.TrimSpace(t.Schema) != "" {
			schema, err := parameters(t.Schema)
			if err != nil {
				return p, fmt.Errorf("openai: tool %d: %w", i, err)
			}
			f.SetExtraFields(map[string]any{"parameters": schema})
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	return p, nil
}

// turnInSDK returns the messages of a turn.
func turnInSDK(t chat.Turn, ids map[string]string) ([]openai.ChatCompletionMessageParamUnion, error) {
	var messages []openai.ChatCompletionMessageParamUnion
	var texts []string
	var calls []openai.ChatCompletionMessageToolCallUnionParam
	for _, b := range t.Blocks {
		switch b.Kind {
		case chat.Text:
			texts = append(texts, b.Text)
		case chat.ToolUse:
			if !isObject(b.Args) {
				return nil, errors.New("the arguments of a call are no JSON object")
			}
			calls = append(calls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: ids[b.ID], Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: b.Name, Arguments: b.Args},
			}})
		case chat.ToolResult:
			text := b.Text
			if b.IsError {
				text = "Error: " + text // which the protocol has no field for
			}
			messages = append(messages, openai.ToolMessage(text, ids[b.ID]))
		default:
			return nil, fmt.Errorf("a block is of the kind %q", b.Kind)
		}
	}
	text := strings.Join(texts, "\n\n")
	switch {
	case t.Role == chat.Assistant:
		m := &openai.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if text != "" {
			m.Content.OfString = param.NewOpt(text)
		}
		messages = append(messages, openai.ChatCompletionMessageParamUnion{OfAssistant: m})
	case text != "":
		messages = append(messages, openai.UserMessage(text))
	}
	return messages, nil
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
		MaxTokens: rapid.IntRange(1, 1<<30).Draw(t, "maxTokens"), System: texts.Draw(t, "system"),
		Turns: append(rapid.SliceOfN(turns, 0, 4).Draw(t, "turns"), chat.Turn{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "Hello"}}}), Tools: rapid.SliceOfN(tools, 0, 3).Draw(t, "tools"),
	}
}

func TestARequestIsWrittenAsTheSDKWritesIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c, own := anyCall(r), rapid.Bool().Draw(r, "own")
		sdk, refused := inSDK(c, own)
		q, err := request(c, own)
		if refused != nil || err != nil {
			r.Fatal(refused, err)
		}
		sdk.SetExtraFields(map[string]any{"stream": true})
		want, err := json.Marshal(sdk)
		if err != nil {
			r.Fatal(err)
		}
		got, err := json.Marshal(q)
		if err != nil {
			r.Fatal(err)
		}
		if string(got) != string(want) {
			r.Errorf("it is\n%s, with the SDK\n%s", got, want)
		}
	})
}
