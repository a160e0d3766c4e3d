package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// block is a part of a message, of Anthropic's.
type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

type messagesBody struct {
	Model     string `json:"model"`
	MaxTokens int64  `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	System    []block
	Messages  []struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		MaxUses     *int64          `json:"max_uses"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Thinking *struct {
		Type string `json:"type"`
	} `json:"thinking"`
}

type chatBody struct {
	Model               string `json:"model"`
	MaxTokens           int64  `json:"max_tokens"`
	MaxCompletionTokens int64  `json:"max_completion_tokens"`
	Stream              bool   `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		ToolCallID string `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

var (
	messagesID   = regexp.MustCompile(`\A[a-zA-Z0-9_-]+\z`)
	toolName     = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
	jsonObject   = regexp.MustCompile(`\A\s*\{`)
	objectSchema = regexp.MustCompile(`"type"\s*:\s*"object"`)
)

// read returns the request, or why the real provider would refuse it.
func read(p Protocol, header http.Header, body []byte) (Request, string) {
	r := Request{Protocol: p, Header: header.Clone(), Body: body}
	if p == Messages {
		return r, r.readMessages()
	}
	return r, r.readChat()
}

func (r *Request) readMessages() (refusal string) {
	var b messagesBody
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return err.Error()
	}
	r.Model, r.MaxTokens = b.Model, b.MaxTokens
	switch {
	case r.Header.Get("Anthropic-Version") == "":
		return "anthropic-version: header is required"
	case r.Header.Get("X-Api-Key") == "":
		return "x-api-key: header is required"
	case b.Model == "":
		return "model: Field required"
	case b.MaxTokens < 1:
		return "max_tokens: must be greater than or equal to 1"
	case !b.Stream:
		return "stream: these tests stream"
	case len(b.Messages) == 0 || b.Messages[0].Role != "user":
		return "messages: first message must use the user role"
	}
	for i, t := range b.System {
		if t.Text == nil || strings.TrimSpace(*t.Text) == "" {
			return fmt.Sprintf("system.%d: text content blocks must contain non-whitespace text", i)
		}
	}
	var names []string
	for i, t := range b.Tools {
		switch {
		case slices.Contains(names, t.Name):
			return "tools: Tool names must be unique"
		case !toolName.MatchString(t.Name):
			return fmt.Sprintf("tools.%d.name: String should match pattern", i)
		case t.Type == "" && !(json.Valid(t.InputSchema) && jsonObject.Match(t.InputSchema) && objectSchema.Match(t.InputSchema)):
			return fmt.Sprintf("tools.%d.input_schema.type: Field required", i)
		case t.MaxUses != nil && *t.MaxUses < 1:
			return fmt.Sprintf("tools.%d.max_uses: Input should be greater than 0", i)
		case t.MaxUses != nil:
			r.MaxSearches = *t.MaxUses
		}
		names = append(names, t.Name)
	}
	var open []string // the ids of the uses that the next message has to answer
	for i, m := range b.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Sprintf("messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		if len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: must have non-empty content", i)
		}
		var uses, results []string
		for j, c := range m.Content {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			switch c.Type {
			case "text":
				if c.Text == nil || strings.TrimSpace(*c.Text) == "" {
					return at + ": text content blocks must contain non-whitespace text"
				}
				if m.Role == "user" {
					r.Message = *c.Text
				}
			case "tool_use":
				if !messagesID.MatchString(c.ID) || !toolName.MatchString(c.Name) || !jsonObject.Match(c.Input) || len(b.Tools) == 0 {
					return at + ": tool_use: a valid id, name and input, and tools are required"
				}
				uses = append(uses, c.ID)
			case "tool_result":
				var inner []block
				if c.Content != nil && json.Unmarshal(c.Content, &inner) != nil {
					return at + ".content: must be blocks"
				}
				for _, t := range inner {
					if t.Text == nil || strings.TrimSpace(*t.Text) == "" {
						return at + ": text content blocks must be non-empty"
					}
				}
				if !slices.Contains(open, c.ToolUseID) {
					return at + ": unexpected tool_use_id found in tool_result blocks: " + c.ToolUseID
				}
				results = append(results, c.ToolUseID)
			case "server_tool_use", "web_search_tool_result", "thinking", "redacted_thinking":
				if m.Role != "assistant" {
					return at + ".type: must be the assistant's"
				}
			default:
				return at + ".type: Input tag " + c.Type + " does not match any of the expected tags"
			}
		}
		if len(results) != len(open) {
			return fmt.Sprintf("messages.%d: tool_use ids were found without tool_result blocks immediately after", i)
		}
		open = uses
	}
	if len(open) > 0 {
		return "messages: tool_use ids were found without tool_result blocks immediately after"
	}
	return ""
}

func (r *Request) readChat() (refusal string) {
	var b chatBody
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return err.Error()
	}
	r.Model, r.MaxTokens, r.wantsUsage = b.Model, max(b.MaxTokens, b.MaxCompletionTokens), b.StreamOptions.IncludeUsage
	switch {
	case b.Model == "":
		return "you must provide a model parameter"
	case r.MaxTokens < 1 || b.MaxTokens != 0 && b.MaxCompletionTokens != 0:
		return "one of max_tokens and max_completion_tokens must be set"
	case !b.Stream:
		return "stream: these tests stream"
	case len(b.Messages) == 0:
		return "[] is too short - 'messages'"
	}
	for i, t := range b.Tools {
		if t.Type != "function" || !toolName.MatchString(t.Function.Name) || t.Function.Parameters != nil && !(jsonObject.Match(t.Function.Parameters) && objectSchema.Match(t.Function.Parameters)) {
			return fmt.Sprintf("Invalid 'tools[%d]'", i)
		}
	}
	var open []string // the ids of the calls that the next messages have to answer
	for i, m := range b.Messages {
		at := fmt.Sprintf("'messages[%d]", i)
		var text string
		if m.Content != nil && !bytes.Equal(m.Content, []byte("null")) && json.Unmarshal(m.Content, &text) != nil {
			return at + ".content': must be a string"
		}
		if m.Role == "tool" {
			n := slices.Index(open, m.ToolCallID)
			if n < 0 {
				return at + ".tool_call_id' does not answer a call"
			}
			open = slices.Delete(open, n, n+1)
			continue
		}
		switch {
		case len(open) > 0:
			return at + "': an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
		case m.Role != "system" && m.Role != "user" && m.Role != "assistant":
			return at + ".role' does not support '" + m.Role + "'"
		case text == "" && len(m.ToolCalls) == 0:
			return at + ".content': must not be empty"
		case m.Role == "user":
			r.Message = text
		}
		for _, c := range m.ToolCalls {
			if len(c.ID) > 40 {
				return at + ".tool_calls[0].id': string too long. Expected a string with maximum length 40"
			}
			if c.ID == "" || c.Type != "function" || !toolName.MatchString(c.Function.Name) || !json.Valid([]byte(c.Function.Arguments)) || slices.Contains(open, c.ID) {
				return at + ".tool_calls' is invalid"
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
	}
	return ""
}
