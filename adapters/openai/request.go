package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"collab/adapters/eventstream"
	"collab/domain/chat"
)

// maxRequestID is the limit of a call's id in a request, in bytes.
const maxRequestID = 40

// The parts of a request.
type (
	requestBody struct {
		Messages            []any         `json:"messages"`
		Model               string        `json:"model"`
		MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
		MaxTokens           int           `json:"max_tokens,omitempty"`
		ReasoningEffort     string        `json:"reasoning_effort,omitempty"`
		StreamOptions       streamOptions `json:"stream_options"`
		Tools               []tool        `json:"tools,omitempty"`
		Stream              bool          `json:"stream"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	// message is one of the system or the user.
	message struct {
		Content string `json:"content"`
		Role    string `json:"role"`
	}
	assistantMessage struct {
		Content   string     `json:"content,omitempty"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
		Role      string     `json:"role"`
	}
	toolMessage struct {
		Content    string `json:"content"`
		ToolCallID string `json:"tool_call_id"`
		Role       string `json:"role"`
	}
	toolCall struct {
		ID       string         `json:"id"`
		Function calledFunction `json:"function"`
		Type     string         `json:"type"`
	}
	calledFunction struct {
		Arguments string `json:"arguments"`
		Name      string `json:"name"`
	}
	tool struct {
		Function function `json:"function"`
		Type     string   `json:"type"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
)

// request returns the call in the form of the API.
func request(c chat.Call, openAI bool) (requestBody, error) {
	q := requestBody{Model: c.Model.ID, StreamOptions: streamOptions{IncludeUsage: true}, Stream: true}
	if openAI {
		q.MaxCompletionTokens = c.MaxTokens
	} else {
		q.MaxTokens = c.MaxTokens
	}
	if c.WebSearch {
		return q, errors.New("openai: chat completions have no web search: the model must not have the capability")
	}
	if c.Model.Thinking == "off" {
		q.ReasoningEffort = "none"
	}
	if strings.TrimSpace(c.System) != "" {
		q.Messages = append(q.Messages, message{c.System, "system"})
	}
	ids := chat.MapCallIDs(c.Turns, func(id string) bool { return len(id) <= maxRequestID })
	for i, t := range c.Turns {
		messages, err := turn(t, ids)
		if err != nil {
			return q, fmt.Errorf("openai: turn %d: %w", i, err)
		}
		q.Messages = append(q.Messages, messages...)
	}
	for i, t := range c.Tools {
		f := function{Name: t.Name, Description: t.Description}
		if strings.TrimSpace(t.Schema) != "" {
			var err error
			if f.Parameters, err = eventstream.ObjectSchema(t.Schema); err != nil {
				return q, fmt.Errorf("openai: tool %d: %w", i, err)
			}
		}
		q.Tools = append(q.Tools, tool{f, "function"})
	}
	return q, nil
}

// turn returns the messages of a turn. Results come first, each in its own message. Texts
// are joined, because many servers accept no list of texts.
func turn(t chat.Turn, ids map[string]string) ([]any, error) {
	var messages []any
	var texts []string
	var calls []toolCall
	for _, b := range t.Blocks {
		switch b.Kind {
		case chat.Text:
			texts = append(texts, b.Text)
		case chat.ToolUse:
			if !eventstream.IsObject(b.Args) {
				return nil, errors.New("the arguments of a call are no JSON object")
			}
			calls = append(calls, toolCall{ids[b.ID], calledFunction{b.Args, b.Name}, "function"})
		case chat.ToolResult:
			text := b.Text
			if b.IsError {
				text = "Error: " + text // the API has no field for it
			}
			messages = append(messages, toolMessage{text, ids[b.ID], "tool"})
		default:
			return nil, fmt.Errorf("a block is of the kind %q", b.Kind)
		}
	}
	text := strings.Join(texts, "\n\n")
	switch {
	case t.Role == chat.Assistant:
		messages = append(messages, assistantMessage{text, calls, "assistant"})
	case text != "":
		messages = append(messages, message{text, "user"})
	}
	return messages, nil
}
