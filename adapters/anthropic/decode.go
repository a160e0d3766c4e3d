package anthropic

import (
	"encoding/json"
	"errors"
	"strconv"
)

// event is what is used of an event. The SDK's has a place for all that there can
// be in one, which is five thousand bytes.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Usage counts `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        delta           `json:"delta"`
	Usage        counts          `json:"usage"`
	Error        struct {
		Type string `json:"type"`
	} `json:"error"`
}

// content is what is used of a content block as it begins.
type content struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Text      string          `json:"text"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// delta is what is used of a change of a content block or of the message.
type delta struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	PartialJSON string          `json:"partial_json"`
	Thinking    string          `json:"thinking"`
	Signature   string          `json:"signature"`
	Citation    json.RawMessage `json:"citation"`
	StopReason  string          `json:"stop_reason"`
}

// foundPage is what is used of a page that a search found.
type foundPage struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	PageAge string `json:"page_age"`
}

type counts struct {
	Input       count `json:"input_tokens"`
	CacheRead   count `json:"cache_read_input_tokens"`
	CacheMade   count `json:"cache_creation_input_tokens"`
	Output      count `json:"output_tokens"`
	ServerTools struct {
		Searches count `json:"web_search_requests"`
	} `json:"server_tool_use"`
}

// count is a number from 0 to maxTokens, not known where the provider gives none.
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

func (c count) overwrite(n *int64) {
	if c.known {
		*n = c.n
	}
}

// decode reports whether data is JSON. What has another type than it should is
// left out, as the protocol may grow.
func decode(data []byte, to any) bool {
	err := json.Unmarshal(data, to)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}
