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

// models is the registry of the deployment, the default model first.
var models = []chat.Model{
	{
		ID: "scripted-large", DisplayName: "Large", Provider: modelProvider, Tier: "standard",
		ContextWindow: 1_000_000, MaxOutputTokens: 64_000, Capabilities: []string{chat.WebSearch}, SearchTool: "search",
	},
	{ID: "scripted-small", DisplayName: "Small", Provider: modelProvider, Tier: "fast", ContextWindow: 200_000, MaxOutputTokens: 8_000},
}

// Reply is the response of a model to one call.
type Reply struct {
	Text     string
	Input    int64  // tokens that the provider counts; below 0: the estimate
	Output   int64  // likewise, at most what the call allows
	Tool     string // a tool of the client that it calls; empty: none
	Args     string // of the tool
	Search   string // the query of a web search; empty: none
	Failure  *chat.Failure
	Stalling bool // it sends nothing after the text and does not end
}

// Model is a provider whose models give the replies that were set.
type Model struct {
	Queue []Reply // of the next calls

	clock *memory.Clock
}

var (
	_ ports.Models      = (*Model)(nil)
	_ ports.Generations = (*Model)(nil)
)

func newModel(c *memory.Clock) *Model {
	return &Model{clock: c}
}

// Record implements ports.Generations.
func (*Model) Record(chat.Generation) {}

// Stream replies with the next reply.
func (m *Model) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	r := Reply{Text: "Hello.", Input: -1, Output: -1}
	if len(m.Queue) > 0 {
		r, m.Queue = m.Queue[0], m.Queue[1:]
	}
	if r.Failure != nil && r.Text == "" {
		return chat.Reply{}, r.Failure
	}
	to.Alive()
	reply := chat.Reply{Usage: chat.Usage{Input: r.Input}, InputKnown: true}
	if r.Input < 0 {
		reply.Usage.Input = c.Estimate()
	}
	for _, chunk := range r.chunks() {
		if err := errors.Join(to.Chunk(chunk), to.Wait()); err != nil {
			return reply, err
		}
	}
	switch {
	case r.Failure != nil:
		return reply, r.Failure
	case r.Stalling:
		m.clock.Advance(stall)
		<-ctx.Done()
		return reply, context.Cause(ctx)
	}
	reply.OutputKnown, reply.Stop = true, "end_turn"
	if reply.Usage.Output = r.Output; r.Output < 0 {
		reply.Usage.Output = max(1, chat.EstimateText(r.Text+r.Args))
	}
	if most := int64(c.MaxTokens); reply.Usage.Output > most {
		reply.Usage.Output, reply.Stop = most, "max_tokens"
	}
	return reply, nil
}

// stall is longer than the server waits for a model that sends nothing more.
const stall = 10 * time.Minute

func (r Reply) chunks() (all []chat.Chunk) {
	if r.Search != "" {
		all = append(all,
			chat.Chunk{Type: chat.CallChunk, CallID: "call_search", Name: chat.WebSearch, Args: fmt.Sprintf(`{"query":%q}`, r.Search), ServerHandled: true},
			chat.Chunk{Type: chat.ResultChunk, CallID: "call_search", Result: "[]"})
	}
	if r.Text != "" {
		all = append(all, chat.Chunk{Type: chat.TextChunk, Text: r.Text})
	}
	if r.Tool != "" {
		all = append(all, chat.Chunk{Type: chat.CallChunk, CallID: "call_1", Name: r.Tool, Args: r.Args})
	}
	return all
}
