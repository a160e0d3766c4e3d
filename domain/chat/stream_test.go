package chat_test

import (
	"errors"
	"strings"
	"testing"

	"collab/domain/chat"
	"collab/test/must"

	"pgregory.net/rapid"
)

func TestMessagesOfFailures(t *testing.T) {
	const other = "An error occurred while processing your request."
	for _, c := range []struct {
		kind      chat.FailureKind
		message   string
		name      string
		retryable bool
	}{
		{chat.Overloaded, "The model is overloaded. Please retry in a few moments.", "overloaded", true},
		{chat.RateLimited, "Rate limit exceeded.", "rate_limited", false},
		{chat.Network, other, "network", true},
		{chat.Truncated, other, "truncated", false},
		{chat.OtherFailure, other, "error", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cause := errors.New("the key sk-1 is not known")
			f := &chat.Failure{Kind: c.kind, Cause: cause}
			if f.Message() != c.message || c.kind.String() != c.name || f.Retryable() != c.retryable {
				t.Errorf("got %q, %s, %v", f.Message(), c.kind, f.Retryable())
			}
			if !errors.Is(f, cause) || f.Error() != c.message+": the key sk-1 is not known" {
				t.Errorf("the log has %q", f.Error())
			}
			if bare := (&chat.Failure{Kind: c.kind}).Error(); bare != c.message {
				t.Errorf("without a cause the log has %q", bare)
			}
		})
	}
}

func TestUsageOfACall(t *testing.T) {
	call := must.Do(chat.Request{Message: strings.Repeat("word ", 100)}.Call(small)).Or(t)
	estimate := call.Estimate()
	for _, c := range []struct {
		about string
		reply chat.Reply
		came  int64
		want  chat.Usage
		from  chat.Provenance
	}{
		{"the provider's figures stand, whatever came", chat.Reply{Usage: chat.Usage{Input: 10, Output: 20, CacheRead: 3, CacheCreated: 4, Searches: 1}, InputKnown: true, OutputKnown: true}, 500,
			chat.Usage{Input: 10, Output: 20, CacheRead: 3, CacheCreated: 4, Searches: 1}, chat.Provider},
		{"nothing, said by the provider, is nothing", chat.Reply{InputKnown: true, OutputKnown: true}, 500, chat.Usage{}, chat.Provider},
		{"of an output that was cut off, what came counts", chat.Reply{Usage: chat.Usage{Input: 10, Output: 1, CacheRead: 3}, InputKnown: true}, 50,
			chat.Usage{Input: 10, Output: 50, CacheRead: 3}, chat.Partial},
		{"and what is in no chunk", chat.Reply{Usage: chat.Usage{Input: 10, Output: 1}, InputKnown: true, Unsent: 30}, 50,
			chat.Usage{Input: 10, Output: 80}, chat.Partial},
		{"and the provider's figure where it is more", chat.Reply{Usage: chat.Usage{Input: 10, Output: 80}, InputKnown: true}, 50,
			chat.Usage{Input: 10, Output: 80}, chat.Partial},
		{"without any figure all is estimated", chat.Reply{}, 50, chat.Usage{Input: estimate, Output: 50}, chat.Estimated},
		{"an unknown input is estimated beside a known output", chat.Reply{Usage: chat.Usage{Output: 20}, OutputKnown: true}, 50,
			chat.Usage{Input: estimate, Output: 20}, chat.Estimated},
		{"an input known in part counts where it is more than the estimate", chat.Reply{Usage: chat.Usage{Input: estimate + 1}}, 0,
			chat.Usage{Input: estimate + 1}, chat.Estimated},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got, from := call.FinalUsage(c.reply, c.came); got != c.want || from != c.from {
				t.Errorf("got %+v of %s, want %+v of %s", got, from, c.want, c.from)
			}
		})
	}
}

func someReply(t *rapid.T) chat.Reply {
	tokens := rapid.Int64Range(0, 5_000)
	return chat.Reply{
		Usage:      chat.Usage{Input: tokens.Draw(t, "input"), Output: tokens.Draw(t, "output"), CacheRead: tokens.Draw(t, "read"), CacheCreated: tokens.Draw(t, "made"), Searches: tokens.Draw(t, "searches")},
		InputKnown: rapid.Bool().Draw(t, "input known"), OutputKnown: rapid.Bool().Draw(t, "output known"),
		Stop: rapid.SampledFrom([]string{"", "end_turn"}).Draw(t, "stop"),
	}
}

func TestNoTokenOfACallIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call, err := chat.Request{Message: "a" + rapid.String().Draw(t, "message")}.Call(small)
		if err != nil {
			t.Skip(err)
		}
		first, again := someReply(t), someReply(t)
		came := rapid.Int64Range(0, 5_000).Draw(t, "came")
		both := first.Plus(again)
		got, from := call.FinalUsage(both, came)
		sum := first.Usage.Plus(again.Usage)
		input, output := first.InputKnown && again.InputKnown, first.OutputKnown && again.OutputKnown
		switch {
		case got.CacheRead != sum.CacheRead || got.CacheCreated != sum.CacheCreated || got.Searches != sum.Searches || both.Stop != again.Stop:
			t.Fatalf("%+v and %+v come to %+v", first, again, got)
		case got.Input < sum.Input || got.Output < sum.Output:
			t.Fatalf("%+v is less than %+v", got, sum)
		case input && got.Input != sum.Input || output && got.Output != sum.Output:
			t.Fatalf("%+v is not the provider's %+v", got, sum)
		case !input && got.Input < call.Estimate() || !output && got.Output < came:
			t.Fatalf("%+v is less than our estimates, %d and %d", got, call.Estimate(), came)
		case got.Input > max(sum.Input, call.Estimate()) || got.Output > max(sum.Output, came):
			t.Fatalf("%+v is more than the provider's figures and our estimates", got)
		case (from == chat.Provider) != (input && output) || (from == chat.Estimated) != !input:
			t.Fatalf("%+v and %+v are of %s", first, again, from)
		}
	})
}

func TestUsagesAddUp(t *testing.T) {
	got := chat.Usage{Input: 1, Output: 2, CacheRead: 3, CacheCreated: 4, Searches: 5}.Plus(chat.Usage{Input: 10, Output: 20, CacheRead: 30, CacheCreated: 40, Searches: 50})
	if want := (chat.Usage{Input: 11, Output: 22, CacheRead: 33, CacheCreated: 44, Searches: 55}); got != want || got.Total() != 33 {
		t.Errorf("got %+v, %d in all", got, got.Total())
	}
}

func TestTextsHaveEstimates(t *testing.T) {
	for s, want := range map[string]int64{"": 0, "a": 1, "abc": 1, "abcd": 2, "é": 2, "日本": 4, "a日": 3} {
		if got := chat.EstimateText(s); got != want {
			t.Errorf("%q comes to %d, want %d", s, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		both := chat.EstimateText(a + b)
		if both < max(chat.EstimateText(a), chat.EstimateText(b)) || both > chat.EstimateText(a)+chat.EstimateText(b) {
			t.Fatalf("%q comes to %d, %q to %d and both to %d", a, chat.EstimateText(a), b, chat.EstimateText(b), both)
		}
	})
}
