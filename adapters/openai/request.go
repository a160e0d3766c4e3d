package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"collab/domain/chat"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// maxRequestID is how long the id of a call may be in a request.
const maxRequestID = 40

// request returns the call in the provider's terms.
func request(c chat.Call, own bool) (openai.ChatCompletionNewParams, error) {
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
		messages, err := turn(t, ids)
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

// parameters returns the schema of a tool's arguments, of the type object, which
// OpenAI demands; the rest is as it was.
func parameters(schema string) (json.RawMessage, error) {
	if !isObject(schema) {
		return nil, errors.New("its schema is no JSON object")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(schema), &fields); err != nil {
		return nil, err
	}
	if _, ok := fields["type"]; ok {
		return json.RawMessage(schema), nil
	}
	begin := `{"type":"object"`
	if len(fields) > 0 {
		begin += ","
	}
	_, rest, _ := strings.Cut(schema, "{")
	return json.RawMessage(begin + rest), nil
}

// turn returns the messages of a turn. Results come first, each in a message of
// its own. Texts are joined: many servers take no list of them.
func turn(t chat.Turn, ids map[string]string) ([]openai.ChatCompletionMessageParamUnion, error) {
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

// shortIDs returns the id of each call as the provider accepts it: a history may
// have been begun with another one.
func shortIDs(turns []chat.Turn) map[string]string {
	ids := map[string]string{}
	var long []string
	for _, t := range turns {
		for _, b := range t.Blocks {
			if b.Kind != chat.ToolUse {
				continue
			}
			ids[b.ID] = b.ID
			if len(b.ID) > maxRequestID {
				long = append(long, b.ID)
			}
		}
	}
	n := 0
	for _, id := range long {
		for {
			n++
			name := "call_" + strconv.Itoa(n)
			if _, taken := ids[name]; !taken {
				ids[id] = name
				break
			}
		}
	}
	return ids
}
