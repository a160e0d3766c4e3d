package openai

import (
	"cmp"
	"net/http"
	"strings"

	"collab/adapters/eventstream"
	"collab/domain/chat"
	"collab/ports"
)

const (
	maxCalls     = 512      // of one response
	maxArguments = 16 << 20 // bytes of arguments of one response
)

// response is the response to a call while it is received.
type response struct {
	eventstream.Relay[chat.Chunk]

	reply         chat.Reply
	shape         shape
	calls         []*call
	byIndex       map[int64]*call // the last call of each index
	argumentBytes int
	ids           chat.CallIDSet
}

// call is the received part of a tool call.
type call struct {
	id, name string
	args     strings.Builder
	unsent   int64 // estimated tokens of args
}

func newResponse(c chat.Call, to ports.Sink) *response {
	return &response{Relay: eventstream.Relay[chat.Chunk]{To: to}, byIndex: map[int64]*call{}, ids: c.CallIDs()}
}

func (t *response) text(s string) error {
	if s = chat.Clean(s); s == "" {
		return nil
	}
	return t.Chunk(chat.Chunk{Type: chat.TextChunk, Text: s})
}

// event processes an event and reports whether it is the last.
func (t *response) event(data []byte) (over bool, err error) {
	if len(data) == 0 {
		return false, nil
	}
	if text, ok := t.shape.text(data); ok {
		return false, t.text(text)
	}
	if string(data) == "[DONE]" {
		if t.reply.Stop == "" {
			return false, fail(chat.Truncated, "[DONE] came without a reason to stop")
		}
		return true, nil
	}
	var e event
	if !eventstream.Decode(data, &e) {
		return false, fail(chat.OtherFailure, "an event of %d bytes is not one of the protocol", len(data))
	}
	if e.Error != nil {
		return false, fail(failureKind(http.StatusOK, *e.Error), "the stream ended in the error %s", e.Error)
	}
	t.setUsage(e.Usage)
	for _, c := range e.Choices {
		if c.Index != 0 {
			continue
		}
		if err := t.addDelta(c.Delta); err != nil {
			return false, err
		}
		if c.FinishReason != "" {
			return false, t.finish(e, c.FinishReason)
		}
		if len(e.Choices) == 1 && c.Delta.Content != "" && len(c.Delta.ToolCalls) == 0 && c.Delta.Refusal == "" && e.Usage == nil {
			t.shape.learn(data, c.Delta.Content)
		}
	}
	return false, nil
}

// setUsage sets the usage, which counts the whole response so far. Most servers send it
// once, after the stop reason.
func (t *response) setUsage(u *counts) {
	if u == nil || !u.Input.Known || !u.Output.Known {
		return
	}
	t.reply.Usage = chat.Usage{Input: u.Input.N, Output: u.Output.N, CacheRead: u.InputDetails.CacheRead.N, CacheCreated: u.InputDetails.CacheCreated.N}
	t.reply.InputKnown = true
	t.reply.OutputKnown = t.reply.Stop != ""
}

// addDelta adds a delta to the response.
func (t *response) addDelta(d delta) error {
	if err := t.text(d.Content); err != nil {
		return err
	}
	if err := t.text(d.Refusal); err != nil {
		return err
	}
	t.reply.Unsent += chat.EstimateText(cmp.Or(d.Reasoning, d.Thinking))
	for _, f := range d.ToolCalls {
		c := t.byIndex[f.Index]
		// Some servers give every call the same index.
		if c == nil || f.ID != "" && c.id != "" && f.ID != c.id {
			if len(t.calls) == maxCalls {
				return fail(chat.OtherFailure, "an answer has more than %d calls", maxCalls)
			}
			c = &call{}
			t.calls, t.byIndex[f.Index] = append(t.calls, c), c
		}
		c.id, c.name = cmp.Or(c.id, f.ID), cmp.Or(c.name, f.Function.Name)
		c.args.WriteString(f.Function.Arguments)
		tokens := chat.EstimateText(f.Function.Arguments)
		c.unsent, t.reply.Unsent = c.unsent+tokens, t.reply.Unsent+tokens
		if t.argumentBytes += len(f.Function.Arguments); t.argumentBytes > maxArguments {
			return fail(chat.OtherFailure, "an answer has more than %d bytes of arguments", maxArguments)
		}
	}
	return nil
}

// finish sets the stop reason and sends the calls, which are complete.
func (t *response) finish(e event, reason string) error {
	if reason == "error" {
		return fail(chat.OtherFailure, "the server stopped for an error")
	}
	t.reply.Stop = reason
	t.reply.OutputKnown = t.reply.InputKnown && e.Usage != nil
	calls := t.calls
	t.calls, t.byIndex = nil, map[int64]*call{}
	for i, c := range calls {
		args := strings.ToValidUTF8(c.args.String(), "\ufffd")
		if i == len(calls)-1 && (reason == "length" || reason == "content_filter") && !eventstream.IsObject(args) {
			return nil // cut off
		}
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		switch {
		case !chat.IsToolName(c.name):
			return fail(chat.OtherFailure, "a call has no valid name of a tool")
		case !eventstream.IsObject(args):
			return fail(chat.OtherFailure, "the arguments of a call are no JSON object")
		}
		t.reply.Unsent -= c.unsent
		if err := t.Chunk(chat.Chunk{Type: chat.CallChunk, CallID: t.ids.Add(c.id), Name: c.name, Args: args}); err != nil {
			return err
		}
	}
	return nil
}
