package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDeepValuesAreFoundInEventsHoweverTheyAreWritten(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + "{}" + strings.Repeat("]", maxDepth)
	inLines := strings.Repeat("data: [\r\n", maxDepth+1)
	for about, body := range map[string]string{
		"one line":              "event: message\ndata: " + deep + "\n\n",
		"several lines":         inLines + "\n",
		"quotes in a comment":   ": \"\n" + inLines,
		"brackets in comments":  strings.ReplaceAll(inLines, "\r\n", "\n: ]]]\n"),
		"brackets in texts":     `data: ["]]]]]]]", "\"]]]]]]]", ` + deep + "]\n\n",
		"an open text before":   "data: \"\n\ndata: " + deep + "\n\n",
		"closed too often":      "data: ]]]]]]]]\n\ndata: " + deep + "\n\n",
		"without an empty line": "data:" + deep,
	} {
		var s eventScanner
		if s.scan([]byte(body)) {
			t.Errorf("%s: nothing was found", about)
		}
	}
}

func TestTheScannerFindsTheDepthOfEachJSONText(t *testing.T) {
	text := rapid.StringN(0, 6, -1)
	value := rapid.Custom(func(t *rapid.T) any {
		var v any = text.Draw(t, "text")
		for range rapid.IntRange(0, maxDepth+3).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "array") {
				v = []any{text.Draw(t, "before"), v, text.Draw(t, "after")}
			} else {
				v = map[string]any{text.Draw(t, "name"): v}
			}
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			t.Fatal(err)
		}
		var whole jsonScanner
		var events eventScanner
		plain, event := true, events.scan([]byte("data: "))
		for _, part := range b.Bytes() { // as slowly as it can arrive
			plain, event = plain && whole.scan([]byte{part}), event && events.scan([]byte{part})
		}
		if shallow := depth(v) <= maxDepth; plain != shallow || event != shallow {
			t.Fatalf("depth %d: %v, in an event %v", depth(v), plain, event)
		}
	})
}

func depth(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			n = max(n, depth(one))
		}
	case map[string]any:
		for _, one := range v {
			n = max(n, depth(one))
		}
	default:
		return 0
	}
	return n + 1
}
