package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
		if err := readAll(body); !errors.Is(err, errLimit) {
			t.Errorf("%s: %v", about, err)
		}
	}
	if err := readAll(strings.Repeat("data: ["+strings.Repeat("1,", maxValues/2)+"1]\n\n", 3)); err != nil {
		t.Errorf("events of many values together: %v", err)
	}
}

// streamOf returns the body of an event stream.
func streamOf(body string) *responseBody {
	x := &limitedTransport{ctx: context.Background(), values: maxValues, bytes: int64(len(body)) + 1}
	return &responseBody{
		buffered: bufio.NewReader(strings.NewReader(body)), transport: x, request: &http.Request{Method: http.MethodGet},
	}
}

func readAll(body string) error {
	_, err := io.Copy(io.Discard, streamOf(body))
	return err
}

func TestAReadOfAStreamEndsWithAnEvent(t *testing.T) {
	r, p := streamOf("event: endpoint\r\ndata: /m\r\n\r\n: \"\n\ndata: x"), make([]byte, 100)
	for _, want := range []string{"event: endpoint\r\ndata: /m\r\n\r\n", ": \"\n\n", "data: x"} {
		if n, err := r.Read(p); string(p[:n]) != want || err != nil {
			t.Errorf("read %q, %v, want %q", p[:n], err, want)
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
		plain, event := true, true
		for _, c := range append([]byte("data: "), b.Bytes()...) {
			_, ok := events.next(c)
			event = event && ok
		}
		for _, c := range b.Bytes() {
			plain = plain && whole.next(c)
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
