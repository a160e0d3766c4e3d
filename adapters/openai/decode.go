package openai

import "collab/adapters/eventstream"

// event has the used fields of an event.
type event struct {
	Error   *eventstream.Problem `json:"error"`
	Usage   *counts              `json:"usage"`
	Choices []struct {
		Index        int64  `json:"index"`
		Delta        delta  `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// delta has the used fields of an event's delta.
type delta struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
	Reasoning string `json:"reasoning"`
	Thinking  string `json:"reasoning_content"` // Reasoning, as other servers call it
	ToolCalls []struct {
		Index    int64  `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type counts struct {
	Input        eventstream.Count `json:"prompt_tokens"`
	Output       eventstream.Count `json:"completion_tokens"`
	InputDetails struct {
		CacheRead    eventstream.Count `json:"cached_tokens"`
		CacheCreated eventstream.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}
