package openai

import (
	"encoding/json"
	"errors"
	"strconv"
)

// event is what is used of an event. The SDK's notes of each field how it was
// written.
type event struct {
	Error   json.RawMessage `json:"error"`
	Usage   *counts         `json:"usage"`
	Choices []struct {
		Index        int64  `json:"index"`
		Delta        delta  `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// delta is what is used of what an event adds.
type delta struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
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
	Input        count `json:"prompt_tokens"`
	Output       count `json:"completion_tokens"`
	InputDetails struct {
		CacheRead count `json:"cached_tokens"`
		CacheMade count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// count is a number from 0 to maxTokens, not known where the server gives none.
type count struct {
	n     int64
	known bool
}

func (c *count) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(string(data), 64); err == nil {
		*c = count{int64(min(max(n, 0), maxTokens)), true}
	}
	return nil
}

// decode reports whether data is JSON. What has another type than it should is
// left out, as servers differ.
func decode(data []byte, to any) bool {
	err := json.Unmarshal(data, to)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}
