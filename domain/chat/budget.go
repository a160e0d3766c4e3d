package chat

import "collab/domain/quota"

// Limits of searches. A provider's search adds its results to the input, which the model
// then reads again.
const (
	maxSearches  = 8      // of one call
	resultTokens = 12_000 // of the results of one search, and of the model's output before the next
	searchShare  = 4      // the searches of one call reserve at most this fraction of the daily limit
	answerTokens = 4_096  // of output that searches must leave for the answer
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

// Need returns the tokens that the call may use under a daily limit: its input, its output,
// and what its searches add, at most 1/searchShare of the limit. It sets c.Input, and limits the
// output to what the input leaves of the model's context, as some providers refuse more.
func (c *Call) Need(limit int64) quota.Need {
	c.Input = c.Estimate()
	c.MaxTokens = min(c.MaxTokens, c.Model.ContextWindow-int(c.Input))
	n := quota.Need{Input: c.Input, Output: int64(c.MaxTokens)}
	if c.WebSearch {
		n.Output += min(messageTokens(c.Input, 0, maxSearches)-c.Input, limit/searchShare)
	}
	return n
}

// WithBudget returns the call with a budget of tokens, its input included, and an output
// that fits into the budget; ok is false if none fits. Need must have been called.
func (c Call) WithBudget(tokens int64) (call Call, ok bool) {
	c.Budget = tokens
	c.MaxTokens = int(min(int64(c.MaxTokens), tokens-c.Input))
	return c, c.MaxTokens >= 1
}

// NextLimits returns the limits of the call's next message. Used is the usage of all
// messages so far, and last that of the latest one; both are zero before the first. A
// message within the limits keeps the call within its budget, unless its input was
// estimated too low. Ok is false if too little of the budget is left.
func (c Call) NextLimits(used, last Usage) (Limits, bool) {
	left, output := c.Budget-used.Total(), int64(c.MaxTokens)-used.Output
	// The input of the next message includes the messages before it. The provider's figure
	// of the call's input is a better estimate than ours if it is higher.
	input := max(c.Input+used.Output+used.Searches*resultTokens, last.Input/(last.Searches+1)+last.Output)
	var searches int64
	if c.WebSearch {
		// A message after a pause keeps the search tool.
		continued := used != Usage{}
		searches = maxSearches
		if continued {
			searches = max(1, maxSearches-used.Searches)
		}
		for searches > 0 && messageTokens(input, min(output, answerTokens), searches) > left {
			searches--
		}
		if continued && searches == 0 {
			return Limits{}, false
		}
	}
	output = min(output, left-messageTokens(input, 0, searches))
	return Limits{int(output), int(searches)}, output >= 1
}
