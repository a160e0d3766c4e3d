package chat_test

import (
	"testing"

	"collab/domain/chat"
	"collab/domain/quota"

	"pgregory.net/rapid"
)

func TestTokensThatACallNeeds(t *testing.T) {
	plain := chat.Call{Model: small, MaxTokens: 1000, Turns: []chat.Turn{user(text("Hello"))}}
	searching := plain
	searching.WebSearch = true
	if n := plain.Need(1_000_000); n != (quota.Need{Input: plain.Estimate(), Output: 1000}) || plain.Input != n.Input {
		t.Errorf("a call without searches needs %+v", n)
	}
	input := searching.Estimate()
	for limit, want := range map[int64]int64{
		10_000_000: 1000 + 8*input + 36*12_000, // each search has the input read again, with the results before
		1_000_000:  1000 + 250_000,             // a quarter of the limit
	} {
		if n := searching.Need(limit); n.Input != input || n.Output != want {
			t.Errorf("of %d a call with searches needs %+v, want an output of %d", limit, n, want)
		}
	}
}

func TestTheLimitsOfAMessage(t *testing.T) {
	for _, c := range []struct {
		about      string
		call       chat.Call
		used, last chat.Usage
		want       chat.Limits
		ok         bool
	}{
		{"all that is asked for", chat.Call{MaxTokens: 100, Input: 10, Budget: 110}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 100}, true},
		{"what the budget has", chat.Call{MaxTokens: 100, Input: 10, Budget: 11}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 1}, true},
		{"nothing where the input takes it all", chat.Call{MaxTokens: 100, Input: 10, Budget: 10}, chat.Usage{}, chat.Usage{}, chat.Limits{}, false},
		{"eight searches at most", chat.Call{MaxTokens: 100, Input: 10, Budget: 1 << 40, WebSearch: true}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 100, MaxSearches: 8}, true},
		{"as many searches as there is room for", chat.Call{MaxTokens: 100, Input: 1000, Budget: 3*1000 + 3*12_000 + 100, WebSearch: true}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 100, MaxSearches: 2}, true},
		{"room for an answer first", chat.Call{MaxTokens: 5000, Input: 1000, Budget: 2*1000 + 12_000 + 4095, WebSearch: true}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 5000}, true},
		{"an answer shortened for a search", chat.Call{MaxTokens: 5000, Input: 1000, Budget: 2*1000 + 12_000 + 4096, WebSearch: true}, chat.Usage{}, chat.Usage{}, chat.Limits{MaxTokens: 4096, MaxSearches: 1}, true},
		{"after a pause what was said and found is read again", chat.Call{MaxTokens: 100, Input: 10, Budget: 100_000, WebSearch: true},
			chat.Usage{Input: 20_000, Output: 40, Searches: 1}, chat.Usage{Input: 20_000, Output: 40, Searches: 1}, chat.Limits{MaxTokens: 60, MaxSearches: 2}, true},
		{"after a pause nothing without room for the search", chat.Call{MaxTokens: 100, Input: 10, Budget: 55_000, WebSearch: true},
			chat.Usage{Input: 20_000, Output: 40, Searches: 1}, chat.Usage{Input: 20_000, Output: 40, Searches: 1}, chat.Limits{}, false},
		{"the provider's own figure of the input, where it is higher", chat.Call{MaxTokens: 100, Input: 10, Budget: 100_000, WebSearch: true},
			chat.Usage{Input: 60_000, Output: 40}, chat.Usage{Input: 60_000, Output: 40}, chat.Limits{}, false},
		{"one search more than eight, for an answer that goes on", chat.Call{MaxTokens: 100, Input: 10, Budget: 1 << 40, WebSearch: true},
			chat.Usage{Input: 9, Searches: 8}, chat.Usage{Input: 9, Searches: 8}, chat.Limits{MaxTokens: 100, MaxSearches: 1}, true},
		{"nothing once the output is used up", chat.Call{MaxTokens: 100, Input: 10, Budget: 1 << 40}, chat.Usage{Output: 100}, chat.Usage{Output: 100}, chat.Limits{}, false},
		{"nothing once the budget is", chat.Call{MaxTokens: 100, Input: 10, Budget: 1000, WebSearch: true}, chat.Usage{Input: 99_999}, chat.Usage{Input: 99_999}, chat.Limits{}, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got, ok := c.call.NextLimits(c.used, c.last); ok != c.ok || ok && got != c.want {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}

// TestMessagesStayWithinTheBudget plays a provider that pauses for as long as it is
// asked on, uses any part of its maxima, and now and then ten times as much.
func TestMessagesStayWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chat.Call{Model: chat.Model{ContextWindow: 200_000}, MaxTokens: rapid.IntRange(1, 100_000).Draw(t, "maxTokens"), WebSearch: rapid.Bool().Draw(t, "searches"), Turns: []chat.Turn{user(text("Hello"))}}
		limit := rapid.Int64Range(1, 2_000_000).Draw(t, "limit")
		granted := quota.Account{}.Grant(limit, c.Need(limit))
		c, ok := c.WithBudget(granted)
		if granted == 0 {
			return
		}
		if !ok {
			t.Fatalf("%d tokens were granted, which have no room for an answer", granted)
		}
		var used, last chat.Usage
		var excess int64 // of the last message over its own maximum
		for message := 0; message < 20; message++ {
			l, ok := c.NextLimits(used, last)
			if !ok && message == 0 {
				t.Fatalf("%d tokens of %d were granted, which have no room for a message", granted, limit)
			}
			if !ok {
				break
			}
			if l.MaxTokens < 1 || l.MaxTokens > c.MaxTokens || l.MaxSearches < 0 || l.MaxSearches > 8 || l.MaxSearches > 0 && !c.WebSearch {
				t.Fatalf("the limits are %+v", l)
			}
			n := int64(l.MaxSearches)
			input := max(c.Input+used.Output+used.Searches*12_000, last.Input/(last.Searches+1)+last.Output)
			most := (n+1)*input + n*(n+1)/2*12_000 + int64(l.MaxTokens)
			if most > granted-used.Total() {
				t.Fatalf("a message may use %d of %d that are left", most, granted-used.Total())
			}
			times := rapid.Int64Range(0, 10).Draw(t, "tenths")
			if rapid.IntRange(0, 9).Draw(t, "exceeds") == 0 {
				times *= 10
			}
			output := min(int64(l.MaxTokens), most) * times / 10
			last = chat.Usage{Input: most*times/10 - output, Output: output, Searches: n * min(times, 10) / 10}
			used, excess = used.Plus(last), max(0, last.Total()-most)
		}
		if used.Total() > granted+excess {
			t.Fatalf("%d were used of %d, %d more than the last message may", used.Total(), granted, excess)
		}
	})
}
