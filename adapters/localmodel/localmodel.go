// Package localmodel is a model that needs no network and no key: it answers
// with every type of chunk that there is, so that a client can be tried against
// it. It understands nothing, and the same conversation always gets the same
// answer.
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

// Why an answer ended.
const (
	ended    = "end_turn"
	calling  = "tool_use"
	cutShort = "max_tokens"
)

var _ ports.Models = (*Models)(nil)

// Models is the one local model, under whatever id it is asked for.
type Models struct{ pace func(context.Context) error }

// New returns the model. It calls pace before each word, which makes a stream of
// what is otherwise there at once; nil: it does not wait.
func New(pace func(context.Context) error) *Models { return &Models{pace: pace} }

// Stream answers a call. Its tokens are our estimate of each word, so that the
// usage is exact also where the answer is broken off.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	s := &speech{ctx: ctx, pace: m.pace, to: to, left: int64(c.MaxTokens)}
	s.reply.InputKnown, s.reply.OutputKnown = true, true
	if ctx.Err() != nil {
		return s.reply, context.Cause(ctx)
	}
	s.reply.Usage.Input = c.Estimate()
	chunks, stop := compose(c)
	for _, chunk := range chunks {
		over, err := s.say(chunk)
		if err != nil {
			return s.reply, err
		}
		if over {
			stop = cutShort
			break
		}
	}
	s.reply.Stop = stop
	return s.reply, nil
}

// speech is an answer on its way out.
type speech struct {
	ctx   context.Context
	pace  func(context.Context) error
	to    ports.Sink
	left  int64 // tokens
	reply chat.Reply
}

// say hands on a chunk, a text word by word. It reports whether the limit has
// cut it short; a call that does not fit is not made at all.
func (s *speech) say(c chat.Chunk) (over bool, err error) {
	switch c.Type {
	case chat.TextChunk:
		for word := range words(c.Text) {
			fits := fitting(word, s.left)
			if fits != "" {
				if err := s.hand(chat.Chunk{Type: chat.TextChunk, Text: fits}, chat.EstimateText(fits)); err != nil {
					return false, err
				}
			}
			if fits != word {
				return true, nil
			}
		}
		return false, nil
	case chat.CallChunk:
		cost := chat.EstimateText(c.Name + c.Args)
		if cost > s.left {
			return true, nil
		}
		if err := s.hand(c, cost); err != nil {
			return false, err
		}
		if c.ServerHandled {
			s.reply.Usage.Searches++
		}
		return false, nil
	default: // a result, which the model did not write
		return false, s.hand(c, 0)
	}
}

func (s *speech) hand(c chat.Chunk, cost int64) error {
	if s.pace != nil {
		if err := s.to.Wait(); err != nil {
			return err
		}
		if err := s.pace(s.ctx); err != nil && s.ctx.Err() == nil {
			return &chat.Failure{Kind: chat.Broken, Cause: err}
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

// fitting returns as much of the word, in whole characters, as so many tokens
// are enough for.
func fitting(word string, tokens int64) string {
	for chat.EstimateText(word) > tokens {
		_, size := utf8.DecodeLastRuneInString(word)
		word = word[:len(word)-size]
	}
	return word
}

const (
	maxQuote = 160   // characters of the message or a result that are repeated
	maxRead  = 8_000 // bytes of the message that are looked at
)

// excerpt returns the beginning of a text in one line.
func excerpt(text string, most int) string {
	text = strings.Join(strings.Fields(upTo(text, maxRead)), " ")
	n := 0
	for i := range text {
		if n++; n > most {
			return strings.TrimSpace(text[:i]) + "…"
		}
	}
	return text
}

// upTo returns the beginning of a text, in whole characters.
func upTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
