package harness_test

import (
	"context"
	"errors"
	"testing"

	"collab/domain/chat"
	"collab/domain/quota"
	"collab/ports"
)

// blurt says everything at once, and ends.
type blurt struct{ end error }

func (m blurt) Stream(_ context.Context, _ chat.Call, to ports.Sink) (chat.Reply, error) {
	to.Alive()
	for _, s := range []string{"Hel", "lo"} {
		if err := to.Chunk(chat.Chunk{Type: chat.TextChunk, Text: s}); err != nil {
			return chat.Reply{}, err
		}
	}
	return chat.Reply{Usage: chat.Usage{Input: 12, Output: 7}, InputKnown: true, OutputKnown: true}, m.end
}

// prompt is a sink that looks at the account when what it took is to go out.
type prompt struct {
	ports.Sink
	look  func() quota.Account
	taken string
	used  map[string]int64 // when this went out
}

func (s *prompt) Chunk(c chat.Chunk) error {
	s.taken += c.Text
	return s.Sink.Chunk(c)
}

func (s *prompt) Wait() error {
	if _, out := s.used[s.taken]; !out {
		s.used[s.taken] = s.look().Used
	}
	return s.Sink.Wait()
}

func TestTextThatComesWithTheEndGoesOutBeforeItIsSettled(t *testing.T) {
	for name, end := range map[string]error{
		"the provider's end": nil, "a failure": &chat.Failure{Kind: chat.Broken}, "no end": &chat.Failure{Kind: chat.Truncated}, "an error": errors.New("a mistake"),
	} {
		t.Run("with "+name, func(t *testing.T) {
			w := talking(t)
			w.Providers["anthropic"] = blurt{end}
			to := &prompt{Sink: w.said, used: map[string]int64{}, look: func() quota.Account {
				a, err := w.Store.Usage().Quotas().Account(t.Context(), w.ada.Org, w.ada.User, quota.DayOf(w.Clock.Now()))
				if err != nil {
					t.Error(err)
				}
				return a
			}}
			call, err := w.Admit(t.Context(), w.ada, chat.Request{Message: "Hello"})
			if err != nil {
				t.Fatal(err)
			}
			call.Run(t.Context(), to)
			if used, out := to.used["Hello"]; !out || used != 0 {
				t.Errorf("what went out, and what was used by then: %v", to.used)
			}
		})
	}
}
