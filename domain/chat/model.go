// Package chat has the rules of conversations with models: requests and their limits, the
// conversion of a client's history for a provider, and answers.
package chat

import (
	"regexp"
	"slices"
	"unicode/utf8"

	"collab/domain/check"
	"collab/domain/fault"
)

// WebSearch is the capability that changes a call. A registry may list others.
const WebSearch = "web_search"

// Model is a model of the registry.
type Model struct {
	ID              string
	DisplayName     string
	Provider        string
	Tier            string
	ContextWindow   int
	MaxOutputTokens int
	Capabilities    []string

	// SearchTool is the provider's version of the server tool for web_search.
	SearchTool string
	// Thinking is the configuration of extended thinking: "" leaves it to the provider,
	// "off" asks it not to, "adaptive" lets it decide. Thinking is never shown.
	Thinking string
}

// SearchesWeb reports whether the model can search the web.
func (m Model) SearchesWeb() bool { return slices.Contains(m.Capabilities, WebSearch) }

// Registry lists the models, the default one first.
type Registry []Model

// NewRegistry returns the models of the configured providers. It returns Invalid if any model is
// invalid. If defaultID is empty, the first model is the default one.
func NewRegistry(all []Model, defaultID string, configured func(provider string) bool) (Registry, error) {
	var r Registry
	seen := map[string]bool{}
	for _, m := range all {
		switch {
		case m.ID == "" || m.DisplayName == "" || m.Provider == "" || m.Tier == "":
			return nil, fault.New(fault.Invalid, "The model %q must have an id, a displayName, a provider and a tier", m.ID)
		case seen[m.ID]:
			return nil, fault.New(fault.Invalid, "The model %q is in the registry twice", m.ID)
		case m.MaxOutputTokens < 1 || m.ContextWindow < m.MaxOutputTokens:
			return nil, fault.New(fault.Invalid,
				"The model %q must have a maxOutputTokens of at least 1 and a contextWindow that holds it", m.ID)
		case m.SearchesWeb() && m.SearchTool == "":
			return nil, fault.New(fault.Invalid, "The model %q has web_search and must say with which tool", m.ID)
		case m.Thinking != "" && m.Thinking != "off" && m.Thinking != "adaptive":
			return nil, fault.New(fault.Invalid, "The model %q must have a thinking of off or adaptive, or none", m.ID)
		}
		seen[m.ID] = true
		if configured(m.Provider) {
			r = append(r, m)
		}
	}
	if len(r) == 0 {
		return nil, fault.New(fault.Invalid, "No model of the registry has a provider that is configured")
	}
	if defaultID == "" {
		return r, nil
	}
	i := slices.IndexFunc(r, func(m Model) bool { return m.ID == defaultID })
	if i < 0 {
		return nil, fault.New(fault.Invalid,
			"The default model %q is not in the registry, or its provider is not configured", defaultID)
	}
	first := r[i]
	return slices.Insert(slices.Delete(r, i, i+1), 0, first), nil
}

// Find returns the model with the id, the default one for an empty id.
func (r Registry) Find(modelID string) (Model, error) {
	if modelID == "" {
		return r[0], nil
	}
	for _, m := range r {
		if m.ID == modelID {
			return m, nil
		}
	}
	return Model{}, fault.Field("model", "must be one of the models that GET /models lists")
}

// Bounds of a request.
const (
	MaxMessage  = 400_000 // characters of the message and of each text of the history
	MaxSystem   = 200_000 // characters of the system prompt
	MaxTurns    = 2_000   // messages of the history
	MaxBlocks   = 200     // blocks of one message
	MaxTools    = 128
	MaxToolText = 10_000  // characters of a tool's description
	MaxSchema   = 100_000 // characters of a tool's schema
	MaxCallID   = 256     // characters of a tool call's id
)

// Role is the author of a turn.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// BlockKind is the kind of a block.
type BlockKind string

const (
	Text       BlockKind = "text"
	ToolUse    BlockKind = "tool_use"
	ToolResult BlockKind = "tool_result"
)

// Block is a part of a turn.
type Block struct {
	Kind BlockKind
	// Text is a text block's text, or a tool result's content.
	Text string
	// ID is a tool use's own id, or the id of the use that a result answers.
	ID   string
	Name string // of a tool use
	Args string // of a tool use: a JSON object
	// ServerHandled says that the provider itself ran the tool.
	ServerHandled bool
	IsError       bool // of a tool result
}

// Turn is one message of a conversation.
type Turn struct {
	Role   Role
	Blocks []Block
}

// Tool is a tool of the client's that the model may call.
type Tool struct {
	Name        string
	Description string
	Schema      string // of its arguments: a JSON schema that is an object
}

// Request is a client's request for an answer.
type Request struct {
	Message   string
	History   []Turn
	Tools     []Tool
	Model     string // empty: the default
	MaxTokens *int
	System    string
	WebSearch bool
}

// Call is a request in the form that providers accept: turns alternate, the first and the
// last are the user's, and each tool use is followed by its result in the next turn.
type Call struct {
	Model     Model
	Turns     []Turn
	Tools     []Tool
	System    string
	WebSearch bool
	MaxTokens int   // of output, in all messages together
	Input     int64 // the estimate of the input, once Need was called
	Budget    int64 // tokens that all messages together may use, set by WithBudget
}

var toolName = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)

// IsToolName reports whether a name is valid for a tool.
func IsToolName(name string) bool { return toolName.MatchString(name) }

// Call returns the call of a model for the request; Invalid if the request breaks a rule.
func (r Request) Call(m Model) (Call, error) {
	call := Call{Model: m, Tools: r.Tools, System: r.System, MaxTokens: m.MaxOutputTokens, WebSearch: r.WebSearch && m.SearchesWeb()}
	var c check.List
	c.Text("message", r.Message, MaxMessage)
	c.Text("systemPrompt", r.System, MaxSystem)
	if r.MaxTokens != nil {
		if *r.MaxTokens < 1 || *r.MaxTokens > m.MaxOutputTokens {
			c.Add("maxTokens", "must be between 1 and %d for the model %s", m.MaxOutputTokens, m.ID)
		}
		call.MaxTokens = *r.MaxTokens
	}
	r.checkTools(&c, call.WebSearch)
	if err := c.Err(); err != nil {
		return Call{}, err
	}
	turns, err := convert(r.History, r.Message)
	if err != nil {
		return Call{}, err
	}
	call.Turns = turns
	return call, nil
}

func (r Request) checkTools(c *check.List, searching bool) {
	if len(r.Tools) > MaxTools {
		c.Add("tools", "must be at most %d", MaxTools)
		return
	}
	seen := map[string]bool{}
	for i, t := range r.Tools {
		field := indexed("tools", i)
		switch {
		case !IsToolName(t.Name):
			c.Add(field+".name", "must be 1 to 64 letters, digits, _ or -")
		case seen[t.Name]:
			c.Add(field+".name", "must not be another tool's")
		case searching && t.Name == WebSearch:
			c.Add(field+".name", "must not be web_search while enableWebSearch is set")
		}
		seen[t.Name] = true
		c.Text(field+".description", t.Description, MaxToolText)
		c.Text(field+".inputSchema", t.Schema, MaxSchema)
	}
}

// Estimates of tokens; only the provider knows its tokenizer. English has about
// four characters a token and code three; other scripts more than one byte.
const (
	asciiPerToken = 3
	turnTokens    = 8   // around each turn and tool
	frameTokens   = 64  // around a request
	searchTokens  = 600 // the provider's description of its search tool
)

// Estimate returns an estimate of the tokens of the call's input, which is rather too high than too low.
func (c Call) Estimate() int64 {
	var text tokenCounter
	text.add(c.System)
	n := int64(frameTokens)
	for _, t := range c.Turns {
		n += turnTokens
		for _, b := range t.Blocks {
			text.add(b.Text, b.ID, b.Name, b.Args)
		}
	}
	for _, t := range c.Tools {
		n += turnTokens
		text.add(t.Name, t.Description, t.Schema)
	}
	if c.WebSearch {
		n += searchTokens
	}
	return n + text.tokens()
}

// EstimateText returns an estimate of the tokens of a text.
func EstimateText(s string) int64 {
	var text tokenCounter
	text.add(s)
	return text.tokens()
}

// tokenCounter counts the ASCII characters of texts, and the bytes of all their characters.
type tokenCounter struct{ ascii, bytes int }

func (t *tokenCounter) add(texts ...string) {
	for _, s := range texts {
		for i := range len(s) {
			if s[i] < utf8.RuneSelf {
				t.ascii++
			}
		}
		t.bytes += len(s)
	}
}

// tokens returns the estimated number of tokens.
func (t tokenCounter) tokens() int64 {
	return int64((t.ascii+asciiPerToken-1)/asciiPerToken + (2*(t.bytes-t.ascii)+2)/3)
}
