package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// shape is what the events of a stream that bring nothing but text look like
// around their text. Servers differ in it, the events of one stream do not: so
// an event that is equal to one that was decoded, but for the text, and for the
// padding which hides how long that is, means the same.
type shape struct {
	head   []byte // up to the quote before the text
	middle []byte // from the quote after it, to the quote before the padding
	tail   []byte // from the quote after the padding; empty where there is none
}

// text returns the text of an event of the shape. Another event is not ok and
// needs decoding.
func (s *shape) text(data []byte) (text string, ok bool) {
	if len(s.head) == 0 || !bytes.HasPrefix(data, s.head) {
		return "", false
	}
	rest := data[len(s.head):]
	end, escaped, ok := literal(rest)
	if !ok {
		return "", false
	}
	after := rest[end:]
	if len(s.tail) == 0 {
		ok = bytes.Equal(after, s.middle)
	} else if after, ok = bytes.CutPrefix(after, s.middle); ok {
		var padding int
		padding, _, ok = literal(after)
		ok = ok && bytes.Equal(after[padding:], s.tail)
	}
	switch {
	case !ok:
		return "", false
	case escaped:
		return unquoted(data[len(s.head)-1:][:end+2])
	}
	return string(rest[:end]), true
}

// learn takes the shape of an event that has been decoded and brought this text
// and nothing else.
func (s *shape) learn(data []byte, text string) {
	s.head = s.head[:0]
	begin, ok := value(data, `"content"`)
	if !ok {
		return
	}
	end, _, ok := literal(data[begin:])
	if !ok {
		return
	}
	if same, ok := unquoted(data[begin-1:][:end+2]); !ok || same != text {
		return
	}
	after := data[begin+end:]
	s.middle, s.tail = append(s.middle[:0], after...), s.tail[:0]
	if padding, ok := value(after, `"obfuscation"`); ok {
		if end, _, ok := literal(after[padding:]); ok {
			s.middle, s.tail = append(s.middle[:0], after[:padding]...), append(s.tail[:0], after[padding+end:]...)
		}
	}
	// An escape could hide that a key is there twice.
	if bytes.IndexByte(data[:begin], '\\') >= 0 || bytes.IndexByte(s.middle, '\\') >= 0 || bytes.IndexByte(s.tail, '\\') >= 0 {
		return
	}
	s.head = append(s.head, data[:begin]...)
}

// value returns where the string begins that is the value of the key, after its
// quote. A key that is not there once and no more is not ok.
func value(data []byte, key string) (int, bool) {
	at := bytes.Index(data, []byte(key))
	if at < 0 || bytes.Count(data, []byte(key)) != 1 {
		return 0, false
	}
	at += len(key)
	for _, want := range []byte(`:"`) {
		for at < len(data) && data[at] == ' ' {
			at++
		}
		if at == len(data) || data[at] != want {
			return 0, false
		}
		at++
	}
	return at, true
}

// literal returns where the quote is that ends a string, and whether something
// in it is escaped. What is no JSON, or not UTF-8, is not ok.
func literal(data []byte) (end int, escaped, ok bool) {
	ascii := true
	for ; end < len(data) && data[end] != '"'; end++ {
		switch b := data[end]; {
		case b == '\\':
			escaped = true
			end++ // and what is escaped
		case b < ' ':
			return 0, false, false
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return end, escaped, end < len(data) && (ascii || utf8.Valid(data[:end]))
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
