package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"collab/domain/chat"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/anthropics/anthropic-sdk-go/shared/constant"
)

const (
	maxSearches = 8 // of one message: each adds what it found to the input

	// basicSearch is the one version of the search tool that the model always
	// calls itself. Later ones it would call from code that it runs, which not
	// every model can and which we do not show.
	basicSearch = "web_search_20250305"
)

// request returns the call in the provider's terms.
func request(c chat.Call) (anthropic.MessageNewParams, error) {
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
			param, err := contentBlock(b, ids)
			if err != nil {
				return p, fmt.Errorf("anthropic: turn %d: %w", i, err)
			}
			m.Content = append(m.Content, param)
		}
		p.Messages = append(p.Messages, m)
	}
	for i, t := range c.Tools {
		schema, err := inputSchema(t.Schema)
		if err != nil {
			return p, fmt.Errorf("anthropic: tool %d: %w", i, err)
		}
		p.Tools = append(p.Tools, tool(t.Name, t.Description, schema))
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
			p.Tools = append(p.Tools, tool(name, "", schema))
		}
		if len(p.Tools) > 0 {
			none := anthropic.NewToolChoiceNoneParam()
			p.ToolChoice.OfNone = &none
		}
	}
	return p, nil
}

func contentBlock(b chat.Block, ids map[string]string) (anthropic.ContentBlockParamUnion, error) {
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

func tool(name, description string, schema json.RawMessage) anthropic.ToolUnionParam {
	t := &anthropic.ToolParam{Name: name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema)}
	if description != "" {
		t.Description = anthropic.String(description)
	}
	return anthropic.ToolUnionParam{OfTool: t}
}

// inputSchema returns the schema as it is, because the cache goes by bytes, with
// the type that the provider insists on.
func inputSchema(schema string) (json.RawMessage, error) {
	if strings.TrimSpace(schema) == "" {
		schema = "{}"
	}
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

// called returns the names of the tools that were called, each once.
func called(turns []chat.Turn) []string {
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

// safeIDs returns the id of each call as the provider accepts it: a history may
// have been begun with another one.
func safeIDs(turns []chat.Turn) map[string]string {
	ids := map[string]string{}
	var odd []string
	for _, t := range turns {
		for _, b := range t.Blocks {
			if b.Kind != chat.ToolUse {
				continue
			}
			ids[b.ID] = b.ID
			if !acceptedID.MatchString(b.ID) {
				odd = append(odd, b.ID)
			}
		}
	}
	n := 0
	for _, id := range odd {
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
