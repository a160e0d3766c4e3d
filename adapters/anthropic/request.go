package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"collab/adapters/eventstream"
	"collab/domain/chat"
)

// basicSearch is the version of the search tool that the model calls directly. It calls
// later versions from code execution, which some models lack and clients are not shown.
const basicSearch = "web_search_20250305"

// The parts of a request.
type (
	requestBody struct {
		Stream       bool      `json:"stream"`
		MaxTokens    int       `json:"max_tokens"`
		Messages     []message `json:"messages"`
		Model        string    `json:"model"`
		CacheControl kind      `json:"cache_control"`
		System       []text    `json:"system,omitempty"`
		Thinking     *thinking `json:"thinking,omitempty"`
		ToolChoice   *kind     `json:"tool_choice,omitempty"`
		Tools        []any     `json:"tools,omitempty"`
	}
	message struct {
		Content []any  `json:"content"`
		Role    string `json:"role"`
	}
	kind struct {
		Type string `json:"type"`
	}
	thinking struct {
		Display string `json:"display,omitempty"`
		Type    string `json:"type"`
	}
	text struct {
		Text string `json:"text"`
		Type string `json:"type"`
	}
	toolUse struct {
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input"`
		Name  string          `json:"name"`
		Type  string          `json:"type"`
	}
	toolResult struct {
		ToolUseID string `json:"tool_use_id"`
		IsError   bool   `json:"is_error,omitempty"`
		Content   []text `json:"content,omitempty"`
		Type      string `json:"type"`
	}
	tool struct {
		InputSchema json.RawMessage `json:"input_schema"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
	}
	search struct {
		MaxUses        int      `json:"max_uses"`
		AllowedCallers []string `json:"allowed_callers,omitempty"`
		Name           string   `json:"name"`
		Type           string   `json:"type"`
	}
)

func textOf(s string) text { return text{Text: s, Type: "text"} }

// request returns a message of the call in the form of the API.
func request(c chat.Call, limits chat.Limits) (requestBody, error) {
	q := requestBody{Stream: true, MaxTokens: limits.MaxTokens, Model: c.Model.ID, CacheControl: kind{"ephemeral"}}
	if strings.TrimSpace(c.System) != "" {
		q.System = []text{textOf(c.System)}
	}
	switch c.Model.Thinking {
	case "off":
		q.Thinking = &thinking{Type: "disabled"}
	case "adaptive":
		q.Thinking = &thinking{Type: "adaptive", Display: "omitted"} // thinking is not shown
	}
	ids := chat.MapCallIDs(c.Turns, acceptedID.MatchString)
	q.Messages = make([]message, len(c.Turns))
	for i, t := range c.Turns {
		m := message{Content: make([]any, len(t.Blocks)), Role: string(t.Role)}
		for j, b := range t.Blocks {
			var err error
			if m.Content[j], err = contentBlock(b, ids); err != nil {
				return q, fmt.Errorf("anthropic: turn %d: %w", i, err)
			}
		}
		q.Messages[i] = m
	}
	for i, t := range c.Tools {
		schema, err := eventstream.ObjectSchema(t.Schema)
		if err != nil {
			return q, fmt.Errorf("anthropic: tool %d: %w", i, err)
		}
		q.Tools = append(q.Tools, tool{schema, t.Name, t.Description})
	}
	if limits.MaxSearches > 0 {
		s := search{MaxUses: limits.MaxSearches, Name: "web_search", Type: c.Model.SearchTool}
		if c.Model.SearchTool != basicSearch {
			s.AllowedCallers = []string{"direct"}
		}
		q.Tools = append(q.Tools, s)
	}
	if len(q.Tools) == 0 {
		// The API requires tools if the history has calls.
		for _, name := range calledTools(c.Turns) {
			q.Tools = append(q.Tools, tool{InputSchema: json.RawMessage(`{"type":"object"}`), Name: name})
		}
		if len(q.Tools) > 0 {
			q.ToolChoice = &kind{"none"}
		}
	}
	return q, nil
}

func contentBlock(b chat.Block, ids map[string]string) (any, error) {
	switch b.Kind {
	case chat.Text:
		return textOf(b.Text), nil
	case chat.ToolUse:
		if !eventstream.IsObject(b.Args) {
			return nil, errors.New("the arguments of a call are no JSON object")
		}
		return toolUse{ids[b.ID], json.RawMessage(b.Args), b.Name, "tool_use"}, nil
	case chat.ToolResult:
		result := toolResult{ToolUseID: ids[b.ID], IsError: b.IsError, Type: "tool_result"}
		if strings.TrimSpace(b.Text) != "" { // the API refuses empty text blocks
			result.Content = []text{textOf(b.Text)}
		}
		return result, nil
	}
	return nil, fmt.Errorf("a block is of the kind %q", b.Kind)
}

// calledTools returns the names of the tools that turns call, each once.
func calledTools(turns []chat.Turn) []string {
	var names []string
	for _, t := range turns {
		for _, b := range t.Blocks {
			if b.Kind == chat.ToolUse && !slices.Contains(names, b.Name) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

var acceptedID = regexp.MustCompile(`\A[a-zA-Z0-9_-]+\z`)
