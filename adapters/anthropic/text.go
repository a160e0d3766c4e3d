package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

var (
	deltaBegins = []byte(`{"type":"content_block_delta","index":`)
	textBegins  = []byte(`,"delta":{"type":"text_delta","text":"`)
	brace       = []byte("}")
)

// textDelta returns the block and the text of an event that has the form in
// which text comes, byte for byte. Whatever has another form, or is no JSON, is
// not ok and needs decoding.
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
	escaped, ascii, end := false, true, 0
	for ; end < len(rest) && rest[end] != '"'; end++ {
		switch b := rest[end]; {
		case b == '\\':
			escaped = true
			end++ // and what is escaped
		case b < ' ':
			return 0, "", false
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	if end >= len(rest) {
		return 0, "", false
	}
	// Two braces, with padding that hides how long the text is.
	tail, ok := bytes.CutPrefix(rest[end+1:], brace)
	if tail = bytes.Trim(tail, " "); !ok || len(tail) != 1 || tail[0] != '}' {
		return 0, "", false
	}
	switch {
	case !ascii && !utf8.Valid(rest[:end]):
		return 0, "", false
	case escaped:
		text, ok = unquoted(data[len(data)-len(rest)-1:][:end+2])
		return index, text, ok
	}
	return index, string(rest[:end]), true
}

// unquoted returns the text of a string in its quotes, which is UTF-8.
func unquoted(literal []byte) (string, bool) {
	var b strings.Builder
	b.Grow(len(literal))
	for i := 1; i < len(literal)-1; i++ {
		c := literal[i]
		if c == '\\' {
			i++
			switch c = literal[i]; c {
			case '"', '\\', '/':
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			default:
				return decoded(literal)
			}
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// decoded is for rarer escapes. It is apart so that only they take its memory.
func decoded(literal []byte) (s string, ok bool) {
	ok = json.Unmarshal(literal, &s) == nil
	return s, ok
}
