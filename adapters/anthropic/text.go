package anthropic

import (
	"bytes"

	"collab/adapters/eventstream"
)

var (
	deltaBegins = []byte(`{"type":"content_block_delta","index":`)
	textBegins  = []byte(`,"delta":{"type":"text_delta","text":"`)
	brace       = []byte("}")
)

// textDelta returns the block and the text of an event that is byte for byte in the usual
// form of a text delta. It returns false for any other event, which must be decoded.
func textDelta(data []byte) (index int, text string, ok bool) {
	rest, ok := bytes.CutPrefix(data, deltaBegins)
	if !ok {
		return 0, "", false
	}
	digits := 0
	for digits < len(rest) && digits < 6 && '0' <= rest[digits] && rest[digits] <= '9' {
		index = index*10 + int(rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 1 && rest[0] == '0' {
		return 0, "", false
	}
	if rest, ok = bytes.CutPrefix(rest[digits:], textBegins); !ok {
		return 0, "", false
	}
	end, escaped, ok := eventstream.ScanString(rest)
	if !ok {
		return 0, "", false
	}
	// Two braces, with padding that hides how long the text is.
	tail, ok := bytes.CutPrefix(rest[end+1:], brace)
	switch tail = bytes.Trim(tail, " "); {
	case !ok || len(tail) != 1 || tail[0] != '}':
		return 0, "", false
	case escaped:
		text, ok = eventstream.Unquote(data[len(data)-len(rest)-1:][:end+2])
		return index, text, ok
	}
	return index, string(rest[:end]), true
}
