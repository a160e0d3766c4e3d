package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"collab/adapters/memory"
	"collab/domain/chat"
	"collab/ports"
)

const modelProvider = "scripted"

// models is the registry of the world, the default model first.
var models = []chat.Model{
	{
		ID: "scripted-large", DisplayName: "Large", Provider: modelProvider, Tier: "standard",
		ContextWindow: 1_000_000, MaxOutputTokens: 64_000, Capabilities: []string{chat.WebSearch}, SearchTool: "search",
	},
	{ID: "scripted-small", DisplayName: "Small", Provider: modelProvider, Tier: "fast", ContextWindow: 200_000, MaxOutputTokens: 8_000},
}

// reply is what the model does with one call.
type reply struct {
	text     string
	input    int64 // tokens; below 0: as many as we estimate
	output   int64
	call     string // a tool of the client's that it calls; empty: none
	args     string
	search   string           // what it looks for in the web; empty: nothing
	failure  chat.FailureKind // once the text was said
	fails    bool
	silent   bool // it falls silent instead of ending
	vanishes bool // the stream ends without its end marker
}

// Model is a provider whose models give the answers that were set.
type Model struct {
	clock       *memory.Clock
	always      reply   // where no other is set
	next        []reply // that were set, the first first
	calls       int
	generations []chat.Generation
	last        chat.Call
}

var (
	_ ports.Models      = (*Model)(nil)
	_ ports.Generations = (*Model)(nil)
)

func newModel(c *memory.Clock) *Model {
	return &Model{clock: c, always: reply{text: "Hello.", input: -1, output: -1}}
}

// Record keeps what analytics learn of a call, of the last ones.
func (m *Model) Record(g chat.Generation) {
	if m.generations = append(m.generations, g); len(m.generations) > maxSent {
		m.generations = m.generations[1:]
	}
}

// Stream answers with the next reply.
func (m *Model) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	m.calls++
	m.last = c
	r := m.always
	if len(m.next) > 0 {
		r, m.next = m.next[0], m.next[1:]
	}
	if r.fails && r.text == "" {
		return chat.Reply{}, refused(r.failure)
	}
	to.Alive()
	said := chat.Reply{Usage: chat.Usage{Input: r.input}, InputKnown: true}
	if r.input < 0 {
		said.Usage.Input = c.Estimate()
	}
	for _, chunk := range r.chunks() {
		if err := to.Chunk(chunk); err != nil {
			return said, err
		}
	}
	switch {
	case r.fails:
		return said, refused(r.failure)
	case r.vanishes:
		return said, refused(chat.Truncated)
	case r.silent:
		m.clock.Advance(patience)
		<-ctx.Done()
		return said, context.Cause(ctx)
	}
	said.OutputKnown, said.Stop = true, "end_turn"
	if said.Usage.Output = r.output; r.output < 0 {
		said.Usage.Output = max(1, chat.EstimateText(r.text+r.args))
	}
	if most := int64(c.MaxTokens); said.Usage.Output > most {
		said.Usage.Output, said.Stop = most, "max_tokens"
	}
	return said, nil
}

// patience is longer than the server waits for a model that has fallen silent.
const patience = 10 * time.Minute

func (r reply) chunks() (all []chat.Chunk) {
	if r.search != "" {
		all = append(all,
			chat.Chunk{Type: chat.CallChunk, CallID: "call_search", Name: chat.WebSearch, Args: fmt.Sprintf(`{"query":%q}`, r.search), ServerHandled: true},
			chat.Chunk{Type: chat.ResultChunk, CallID: "call_search", Result: "[]"})
	}
	if r.text != "" {
		all = append(all, chat.Chunk{Type: chat.TextChunk, Text: r.text})
	}
	if r.call != "" {
		all = append(all, chat.Chunk{Type: chat.CallChunk, CallID: "call_1", Name: r.call, Args: r.args})
	}
	return all
}

func refused(k chat.FailureKind) error {
	return &chat.Failure{Kind: k, Cause: errors.New("planned: the provider failed")}
}

// listener takes the chunks of a chat, and may leave after the first.
type listener struct {
	leaves bool
	chunks []chat.Chunk
}

func (l *listener) Chunk(c chat.Chunk) error {
	l.chunks = append(l.chunks, c)
	if l.leaves {
		return errors.New("the client is gone")
	}
	return nil
}

func (*listener) Alive()      {}
func (*listener) Wait() error { return nil }
