// Package localmodel implements ports.Models without network and key, for development. Its
// answers have every type of chunk and depend on the conversation alone.
package localmodel

import (
	"context"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"collab/domain/chat"
	"collab/ports"
)

// Stop reasons.
const (
	endTurn   = "end_turn"
	toolUse   = "tool_use"
	maxTokens = "max_tokens"
)

var _ ports.Models = (*Models)(nil)

// Models implements ports.Models. The id of the model does not matter.
type Models struct{ pace func(context.Context) error }

// New returns the model. It calls pace, unless it is nil, before each word.
func New(pace func(context.Context) error) *Models { return &Models{pace: pace} }

// Stream implements ports.Models. Usage is the estimate of the words sent, so that it is
// exact also for an interrupted answer.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	s := &stream{ctx: ctx, pace: m.pace, to: to, left: int64(c.MaxTokens)}
	s.reply.InputKnown, s.reply.OutputKnown = true, true
	if ctx.Err() != nil {
		return s.reply, context.Cause(ctx)
	}
	s.reply.Usage.Input = c.Estimate()
	chunks, stop := compose(c)
	for _, chunk := range chunks {
		truncated, err := s.send(chunk)
		if err != nil {
			return s.reply, err
		}
		if truncated {
			stop = maxTokens
			break
		}
	}
	s.reply.Stop = stop
	return s.reply, nil
}

// stream is a response that is being sent.
type stream struct {
	ctx   context.Context
	pace  func(context.Context) error
	to    ports.Sink
	left  int64 // tokens
	reply chat.Reply
}

// send sends a chunk, text word by word. It reports whether the token limit truncated the
// response; a tool call that exceeds it is not sent.
func (s *stream) send(c chat.Chunk) (truncated bool, err error) {
	switch c.Type {
	case chat.TextChunk:
		for word := range words(c.Text) {
			part := truncateTokens(word, s.left)
			if part != "" {
				if err := s.sendChunk(chat.Chunk{Type: chat.TextChunk, Text: part}, chat.EstimateText(part)); err != nil {
					return false, err
				}
			}
			if part != word {
				return true, nil
			}
		}
		return false, nil
	case chat.CallChunk:
		cost := chat.EstimateText(c.Name + c.Args)
		if cost > s.left {
			return true, nil
		}
		if err := s.sendChunk(c, cost); err != nil {
			return false, err
		}
		if c.ServerHandled {
			s.reply.Usage.Searches++
		}
		return false, nil
	default: // a result, which is not output of the model
		return false, s.sendChunk(c, 0)
	}
}

func (s *stream) sendChunk(c chat.Chunk, cost int64) error {
	if s.pace != nil {
		if err := s.to.Wait(); err != nil {
			return err
		}
		if err := s.pace(s.ctx); err != nil && s.ctx.Err() == nil {
			return &chat.Failure{Kind: chat.OtherFailure, Cause: err}
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.left -= cost
	s.reply.Usage.Output += cost
	s.to.Alive()
	return s.to.Chunk(c)
}

// words yields the words of a text, each with the space after it.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := len(text)
			spaces := false
			for i, r := range text {
				if unicode.IsSpace(r) {
					spaces = true
				} else if spaces {
					end = i
					break
				}
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// truncateTokens returns the longest prefix of the word within a number of tokens.
func truncateTokens(word string, tokens int64) string {
	for chat.EstimateText(word) > tokens {
		_, size := utf8.DecodeLastRuneInString(word)
		word = word[:len(word)-size]
	}
	return word
}

const (
	maxQuote = 160   // characters of a quoted message or result
	maxInput = 8_000 // bytes of the message that are read
)

// excerpt returns at most limit characters of a text in one line, with an ellipsis if it is cut.
func excerpt(text string, limit int) string {
	text = strings.Join(strings.Fields(truncate(text)), " ")
	n := 0
	for i := range text {
		if n++; n > limit {
			return strings.TrimSpace(text[:i]) + "…"
		}
	}
	return text
}

// truncate returns the first maxInput bytes of a text, in whole characters.
func truncate(text string) string {
	if len(text) <= maxInput {
		return text
	}
	n := maxInput
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
