package openai

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"collab/adapters/eventstream"
	"collab/domain/chat"
	"collab/ports"
)

const (
	maxCalls  = 512      // of one answer
	maxKept   = 16 << 20 // bytes of arguments of one answer
	maxCallID = 256      // as histories have it
)

var toolName = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)

// answer is one that is coming.
type answer struct {
	to      ports.Sink
	refused error // the sink's
	pending bool  // the sink was given something and not yet told to wait

	reply chat.Reply
	shape shape
	calls []*call
	at    map[int64]*call // the last one of each index
	kept  int
	ids   map[string]bool // of calls, those of the history included
}

// call is a call of a tool, as much of it as has come.
type call struct {
	id, name string
	args     strings.Builder
}

func newAnswer(c chat.Call, to ports.Sink) *answer {
	t := &answer{to: to, at: map[int64]*call{}, ids: map[string]bool{}}
	for _, turn := range c.Turns {
		for _, b := range turn.Blocks {
			if b.Kind == chat.ToolUse {
				t.ids[b.ID] = true
			}
		}
	}
	return t
}

// chunk hands a chunk on.
func (t *answer) chunk(c chat.Chunk) error {
	t.pending = true
	t.refused = t.to.Chunk(c)
	return t.refused
}

// wait tells the sink, once, that nothing more is there.
func (t *answer) wait() error {
	if !t.pending {
		return nil
	}
	t.pending = false
	t.refused = t.to.Wait()
	return t.refused
}

func (t *answer) text(s string) error {
	if s == "" {
		return nil
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return t.chunk(chat.Chunk{Type: chat.TextChunk, Text: s})
}

// event takes an event and reports whether it is the last.
func (t *answer) event(data []byte) (over bool, err error) {
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
		return false, fail(chat.Broken, "an event of %d bytes is not one of the protocol", len(data))
	}
	if e.Error != nil {
		return false, fail(failureKind(http.StatusOK, *e.Error), "the stream ended in the error %s", e.Error)
	}
	t.uses(e.Usage)
	for _, c := range e.Choices {
		if c.Index != 0 {
			continue
		}
		if err := t.grows(c.Delta); err != nil {
			return false, err
		}
		if c.FinishReason != "" {
			return false, t.stops(e, c.FinishReason)
		}
		if len(e.Choices) == 1 && c.Delta.Content != "" && len(c.Delta.ToolCalls) == 0 && c.Delta.Refusal == "" && e.Usage == nil {
			t.shape.learn(data, c.Delta.Content)
		}
	}
	return false, nil
}

// uses takes the usage, which is of all of the answer so far. Most servers send
// it once, after the reason to stop.
func (t *answer) uses(u *counts) {
	if u == nil || !u.Input.Known || !u.Output.Known {
		return
	}
	t.reply.Usage = chat.Usage{Input: u.Input.N, Output: u.Output.N, CacheRead: u.InputDetails.CacheRead.N, CacheMade: u.InputDetails.CacheMade.N}
	t.reply.InputKnown = true
	t.reply.OutputKnown = t.reply.Stop != ""
}

// grows takes what a delta adds.
func (t *answer) grows(d delta) error {
	if err := t.text(d.Content); err != nil {
		return err
	}
	if err := t.text(d.Refusal); err != nil {
		return err
	}
	for _, f := range d.ToolCalls {
		c := t.at[f.Index]
		// Some servers give every call the same index.
		if c == nil || f.ID != "" && c.id != "" && f.ID != c.id {
			if len(t.calls) == maxCalls {
				return fail(chat.Broken, "an answer has more than %d calls", maxCalls)
			}
			c = &call{}
			t.calls, t.at[f.Index] = append(t.calls, c), c
		}
		c.id, c.name = cmp.Or(c.id, f.ID), cmp.Or(c.name, f.Function.Name)
		c.args.WriteString(f.Function.Arguments)
		if t.kept += len(f.Function.Arguments); t.kept > maxKept {
			return fail(chat.Broken, "an answer has more than %d bytes of arguments", maxKept)
		}
	}
	return nil
}

// stops takes the reason to stop, and hands the calls on, which are whole now.
func (t *answer) stops(e event, reason string) error {
	if reason == "error" {
		return fail(chat.Broken, "the server stopped for an error")
	}
	t.reply.Stop = reason
	t.reply.OutputKnown = t.reply.InputKnown && e.Usage != nil
	calls := t.calls
	t.calls, t.at = nil, map[int64]*call{}
	for i, c := range calls {
		args := strings.ToValidUTF8(c.args.String(), "\ufffd")
		if i == len(calls)-1 && (reason == "length" || reason == "content_filter") && !eventstream.IsObject(args) {
			return nil // cut off
		}
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		switch {
		case !toolName.MatchString(c.name):
			return fail(chat.Broken, "a call is of a tool that cannot be")
		case !eventstream.IsObject(args):
			return fail(chat.Broken, "the arguments of a call are no JSON object")
		}
		if err := t.chunk(chat.Chunk{Type: chat.CallChunk, CallID: t.callID(c.id), Name: c.name, Args: args}); err != nil {
			return err
		}
	}
	return nil
}

// callID returns the id of a call: the server's, unless it has none or one that
// another call of the conversation has already, as with some local ones.
func (t *answer) callID(id string) string {
	for n := len(t.ids) + 1; id == "" || len(id) > maxCallID || !utf8.ValidString(id) || t.ids[id]; n++ {
		id = "call_" + strconv.Itoa(n)
	}
	t.ids[id] = true
	return id
}
