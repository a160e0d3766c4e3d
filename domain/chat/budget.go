package chat

import "collab/domain/quota"

// Limits of searches. A provider's search adds its results to the input, and has
// the model read all of the input once more.
const (
	maxSearches  = 8      // of one call
	resultTokens = 12_000 // of the results of one search, and of what the model writes before the next
	searchShare  = 4      // the searches of one call reserve at most this fraction of the daily limit
	answerTokens = 4_096  // of output are kept for the answer before searches are allowed
)

// Limits are the maxima that a provider is given for one message. A call has
// several messages where the provider pauses its answer.
type Limits struct {
	MaxTokens   int // of output, at least 1
	MaxSearches int // 0: the message has no search tool
}

// messageTokens returns the most tokens that a message uses within its limits: it
// reads its input once, and once more after each search, with the results of all
// searches before.
func messageTokens(input, output, searches int64) int64 {
	return (searches+1)*input + searches*(searches+1)/2*resultTokens + output
}

// Need returns what the call may use under a daily limit of tokens: its input once
// and its output, and for its searches what they add, as far as they may reserve
// it. It sets the call's Input.
func (c *Call) Need(limit int64) quota.Need {
	c.Input = c.Estimate()
	n := quota.Need{Input: c.Input, Output: int64(c.MaxTokens)}
	if c.WebSearch {
		n.Output += min(messageTokens(c.Input, 0, maxSearches)-c.Input, limit/searchShare)
	}
	return n
}

// WithBudget returns the call with a budget of tokens, its input included, and with an
// output that the budget has room for. It is not ok where there is no room for any.
// Need has been called before.
func (c Call) WithBudget(tokens int64) (call Call, ok bool) {
	c.Budget = tokens
	c.MaxTokens = int(min(int64(c.MaxTokens), tokens-c.Input))
	return c, c.MaxTokens >= 1
}

// NextLimits returns the limits of the call's next message, where its messages before it
// have used the given tokens, and the last of them its own; both are zero for the
// first message. With what was used the message stays within the budget if it stays
// within its limits and its input was estimated well. It is not ok where too little
// of the budget is left for a message.
func (c Call) NextLimits(used, last Usage) (Limits, bool) {
	left, output := c.Budget-used.Total(), int64(c.MaxTokens)-used.Output
	// The next message reads all that was said before it. What the provider reported
	// is a better estimate of the call's input than ours, where it is higher.
	input := max(c.Input+used.Output+used.Searches*resultTokens, last.Input/(last.Searches+1)+last.Output)
	var searches int64
	if c.WebSearch {
		// A message after a pause keeps the search tool.
		goesOn := used != Usage{}
		searches = maxSearches
		if goesOn {
			searches = max(1, maxSearches-used.Searches)
		}
		for searches > 0 && messageTokens(input, min(output, answerTokens), searches) > left {
			searches--
		}
		if goesOn && searches == 0 {
			return Limits{}, false
		}
	}
	output = min(output, left-messageTokens(input, 0, searches))
	return Limits{int(output), int(searches)}, output >= 1
}
