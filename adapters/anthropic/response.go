package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"collab/adapters/eventstream"
	"collab/domain/chat"
)

const (
	maxBlocks   = 4096     // of one response
	maxRetained = 32 << 20 // bytes of one response: arguments, and all content if it is resumable

	citationMemory = 32 // bytes of a citation, beside its text
)

// Stop reasons.
const (
	maxTokensReached = "max_tokens"
	windowExceeded   = "model_context_window_exceeded"
	refusal          = "refusal"
	pauseTurn        = "pause_turn"
)

// response is the response to a call while it is received: one message, or several if the
// provider pauses.
type response struct {
	eventstream.Relay[chat.Chunk]

	before      chat.Usage // of the previous messages
	usage       chat.Usage // of this message
	inputKnown  bool
	outputKnown bool
	stop        string

	resumable   bool     // blocks are retained, to continue after a pause
	blocks      []*block // of all messages, in their order
	firstBlock  int      // index in blocks of this message's first block
	retained    int      // bytes
	unsent      int64    // estimated tokens of thoughts and of arguments of calls that were not sent
	toolCalled  bool     // this message calls a tool of the client
	ids         chat.CallIDSet
	searches    map[string]string // our ids of searches without a result, by the provider's
	emptyCall   *block            // a call without arguments, complete unless the response was cut off
	invalidCall *block            // a call whose arguments are no JSON object, an error unless the response was cut off
}

// block is a content block.
type block struct {
	index     int64
	kind      string
	id, name  string
	raw       string // JSON at its start
	text      strings.Builder
	thinking  strings.Builder
	signature strings.Builder
	input     strings.Builder
	unsent    int64 // estimated tokens of input, until it was sent
	citations []json.RawMessage
	stopped   bool
}

// startMessage resets the state of the previous message.
func (t *response) startMessage() {
	t.before, t.usage = t.before.Plus(t.usage), chat.Usage{}
	t.outputKnown, t.stop, t.toolCalled = false, "", false
	t.firstBlock = len(t.blocks)
}

func (t *response) reply() chat.Reply {
	r := chat.Reply{Usage: t.before.Plus(t.usage), InputKnown: t.inputKnown, OutputKnown: t.outputKnown, Stop: t.stop}
	if !t.outputKnown {
		r.Unsent = t.unsent
	}
	return r
}

// event processes an event and reports whether it is the last.
func (t *response) event(data []byte) (over bool, err error) {
	if len(data) == 0 {
		return false, nil
	}
	if index, text, ok := textDelta(data); ok {
		return false, t.text(int64(index), text)
	}
	var e event
	if !eventstream.Decode(data, &e) {
		return false, fail(chat.OtherFailure, "an event of %d bytes is not one of the protocol", len(data))
	}
	switch e.Type {
	case "message_start":
		t.messageStart(e.Message.Usage)
	case "content_block_start":
		return false, t.blockStart(e)
	case "content_block_delta":
		return false, t.blockDelta(e)
	case "content_block_stop":
		return false, t.blockStop(t.find(e.Index))
	case "message_delta":
		return false, t.messageDelta(e)
	case "message_stop":
		if t.stop == "" {
			return false, fail(chat.Truncated, "message_stop came without a reason to stop")
		}
		return true, nil
	case "error":
		return false, fail(failureKind(http.StatusOK, e.Error), "the stream ended in the error %s", eventstream.Name(e.Error.Type))
	}
	return false, nil // a ping or an unknown event
}

func (t *response) messageStart(u counts) {
	t.inputKnown = u.Input.Known
	t.usage.CacheRead, t.usage.CacheCreated = u.CacheRead.N, u.CacheCreated.N
	t.usage.Input = u.Input.N + t.usage.CacheRead + t.usage.CacheCreated
	t.usage.Output = u.Output.N
}

func (t *response) find(index int64) *block {
	for i := len(t.blocks) - 1; i >= t.firstBlock; i-- {
		if t.blocks[i].index == index {
			return t.blocks[i]
		}
	}
	return nil
}

func (t *response) retain(n int) error {
	if t.retained += n; t.retained > maxRetained {
		return fail(chat.OtherFailure, "an answer retains more than %d bytes", maxRetained)
	}
	return nil
}

// text sends text to the sink.
func (t *response) text(index int64, s string) error {
	if s = chat.Clean(s); s == "" {
		return nil
	}
	if t.resumable {
		b := t.find(index)
		if b == nil {
			return fail(chat.OtherFailure, "text came for the block %d, which did not begin", index)
		}
		b.text.WriteString(s)
		if err := t.retain(len(s)); err != nil {
			return err
		}
	}
	return t.Chunk(chat.Chunk{Type: chat.TextChunk, Text: s})
}

func (t *response) blockStart(e event) error {
	// A call before another block is complete.
	if err := t.resolveCall(); err != nil {
		return err
	}
	if len(t.blocks) == maxBlocks {
		return fail(chat.OtherFailure, "an answer has more than %d blocks", maxBlocks)
	}
	if t.find(e.Index) != nil {
		return fail(chat.OtherFailure, "the block %d begins twice", e.Index)
	}
	var c content
	eventstream.Decode(e.ContentBlock, &c) // as a part of the event it can be decoded
	b := &block{index: e.Index, kind: c.Type, id: c.ID, name: c.Name}
	t.blocks = append(t.blocks, b)
	if t.resumable {
		b.raw = string(e.ContentBlock)
		if err := t.retain(len(b.raw)); err != nil {
			return err
		}
	}
	switch b.kind {
	case "text":
		return t.text(b.index, c.Text)
	case "tool_use", "server_tool_use":
		if !chat.IsToolName(b.name) {
			return fail(chat.OtherFailure, "a %s has no valid name of a tool", b.kind)
		}
		if whole := string(c.Input); eventstream.IsObject(whole) && strings.Trim(whole, "{} \t\r\n") != "" {
			return t.input(b, whole) // of servers that do not stream arguments
		}
	case "web_search_tool_result":
		return t.searchResult(c)
	}
	return nil
}

func (t *response) blockDelta(e event) error {
	b := t.find(e.Index)
	if b == nil {
		return fail(chat.OtherFailure, "a delta came for the block %d, which did not begin", e.Index)
	}
	switch e.Delta.Type {
	case "text_delta":
		return t.text(e.Index, e.Delta.Text)
	case "input_json_delta":
		if b.stopped {
			return fail(chat.OtherFailure, "a delta came for the block %d, which is over", e.Index)
		}
		return t.input(b, e.Delta.PartialJSON)
	case "thinking_delta":
		t.unsent += chat.EstimateText(e.Delta.Thinking)
	}
	if !t.resumable {
		return nil
	}
	switch e.Delta.Type {
	case "thinking_delta":
		b.thinking.WriteString(e.Delta.Thinking)
		return t.retain(len(e.Delta.Thinking))
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
		return t.retain(len(e.Delta.Signature))
	case "citations_delta":
		b.citations = append(b.citations, e.Delta.Citation)
		return t.retain(citationMemory + len(e.Delta.Citation))
	}
	return nil
}

// input adds a part of the arguments of a call.
func (t *response) input(b *block, part string) error {
	tokens := chat.EstimateText(part)
	b.unsent, t.unsent = b.unsent+tokens, t.unsent+tokens
	b.input.WriteString(part)
	return t.retain(len(part))
}

// blockStop sends a call once it is complete.
func (t *response) blockStop(b *block) error {
	if b == nil || b.stopped {
		return nil
	}
	b.stopped = true
	if b.kind != "tool_use" && b.kind != "server_tool_use" {
		return nil
	}
	// The call before this one is complete.
	if err := t.resolveCall(); err != nil {
		return err
	}
	switch input := strings.ToValidUTF8(b.input.String(), "\ufffd"); {
	case eventstream.IsObject(input):
		return t.call(b, input)
	case strings.TrimSpace(input) == "":
		t.emptyCall = b
	default:
		t.invalidCall = b
	}
	return nil
}

// resolveCall sends the pending call.
func (t *response) resolveCall() error {
	empty, invalid := t.emptyCall, t.invalidCall
	t.emptyCall, t.invalidCall = nil, nil
	switch {
	case invalid != nil:
		return fail(chat.OtherFailure, "the arguments of a call are no JSON object")
	case empty != nil:
		return t.call(empty, "{}")
	}
	return nil
}

func (t *response) call(b *block, args string) error {
	t.unsent -= b.unsent
	serverHandled := b.kind == "server_tool_use"
	if serverHandled && b.name != chat.WebSearch {
		return nil // a tool of the provider, which was not requested
	}
	id := t.ids.Add(b.id)
	if serverHandled {
		t.searches[b.id] = id
	}
	t.toolCalled = t.toolCalled || !serverHandled
	return t.Chunk(chat.Chunk{Type: chat.CallChunk, CallID: id, Name: b.name, Args: args, ServerHandled: serverHandled})
}

// source is a search result in the form that clients receive.
type source struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	PageAge string `json:"pageAge,omitempty"`
}

// searchResult sends the result of a search, which is complete in the start of its block.
func (t *response) searchResult(c content) error {
	id, waiting := t.searches[c.ToolUseID]
	if !waiting {
		return nil
	}
	delete(t.searches, c.ToolUseID)
	var failed struct {
		Code string `json:"error_code"`
	}
	eventstream.Decode(c.Content, &failed) // one of them: sources are an array, a failure is an object
	var result any = map[string]string{"error": failed.Code}
	if failed.Code == "" {
		var found []searchHit
		eventstream.Decode(c.Content, &found)
		sources := []source{}
		for _, p := range found {
			sources = append(sources, source(p))
		}
		result = sources
	}
	text, err := json.Marshal(result)
	if err != nil {
		return fail(chat.OtherFailure, "a search cannot be written: %T", err)
	}
	return t.Chunk(chat.Chunk{Type: chat.ResultChunk, CallID: id, Result: string(text)})
}

// messageDelta sets the stop reason and the usage, which counts the whole message so far
// and overwrites what it names.
func (t *response) messageDelta(e event) error {
	u := e.Usage
	uncached := t.usage.Input - t.usage.CacheRead - t.usage.CacheCreated
	overwrite(&t.usage.CacheRead, u.CacheRead)
	overwrite(&t.usage.CacheCreated, u.CacheCreated)
	overwrite(&uncached, u.Input)
	overwrite(&t.usage.Output, u.Output)
	overwrite(&t.usage.Searches, u.ServerTools.Searches)
	t.usage.Input = uncached + t.usage.CacheRead + t.usage.CacheCreated
	t.inputKnown = t.inputKnown || u.Input.Known
	if e.Delta.StopReason == "" {
		return nil
	}
	t.stop = e.Delta.StopReason
	t.outputKnown = u.Output.Known
	for _, b := range t.blocks[t.firstBlock:] {
		if err := t.blockStop(b); err != nil {
			return err
		}
	}
	switch t.stop {
	case maxTokensReached, windowExceeded, refusal, pauseTurn: // the response was cut off
		t.emptyCall, t.invalidCall = nil, nil
		return nil
	}
	return t.resolveCall()
}

// content returns the blocks so far in the form of a request.
func (t *response) content() ([]any, error) {
	var all []any
	for _, b := range t.blocks {
		if b.kind == "text" && strings.TrimSpace(b.text.String()) == "" {
			continue // the API refuses it
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(b.raw), &fields); err != nil {
			return nil, err
		}
		set := func(name string, value any) error {
			text, err := json.Marshal(value)
			fields[name] = text
			return err
		}
		var err error
		switch b.kind {
		case "text":
			err = set("text", b.text.String())
			if len(b.citations) > 0 {
				err = errors.Join(err, set("citations", b.citations))
			}
		case "thinking":
			err = errors.Join(set("thinking", b.thinking.String()), set("signature", b.signature.String()))
		case "tool_use", "server_tool_use":
			if input := b.input.String(); eventstream.IsObject(input) {
				fields["input"] = json.RawMessage(input)
			} else if strings.TrimSpace(input) != "" {
				err = errors.New("the arguments of a call are no JSON object")
			}
		}
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		all = append(all, json.RawMessage(raw))
	}
	if len(all) == 0 {
		return nil, errors.New("it has no content")
	}
	return all, nil
}
