package anthropic

import (
	"encoding/json"

	"collab/adapters/eventstream"
)

// event has the used fields of an event.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Usage counts `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage     `json:"content_block"`
	Delta        delta               `json:"delta"`
	Usage        counts              `json:"usage"`
	Error        eventstream.Problem `json:"error"`
}

// content has the used fields of a content block at its start.
type content struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Text      string          `json:"text"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// delta has the used fields of a change of a content block or the message.
type delta struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	PartialJSON string          `json:"partial_json"`
	Thinking    string          `json:"thinking"`
	Signature   string          `json:"signature"`
	Citation    json.RawMessage `json:"citation"`
	StopReason  string          `json:"stop_reason"`
}

// searchHit has the used fields of a search result.
type searchHit struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	PageAge string `json:"page_age"`
}

type counts struct {
	Input        eventstream.Count `json:"input_tokens"`
	CacheRead    eventstream.Count `json:"cache_read_input_tokens"`
	CacheCreated eventstream.Count `json:"cache_creation_input_tokens"`
	Output       eventstream.Count `json:"output_tokens"`
	ServerTools  struct {
		Searches eventstream.Count `json:"web_search_requests"`
	} `json:"server_tool_use"`
}

// overwrite sets n to the count, if it is known.
func overwrite(n *int64, c eventstream.Count) {
	if c.Known {
		*n = c.N
	}
}
