package openai

import (
	"bytes"

	"collab/adapters/eventstream"
)

// shape has the bytes around the text in an event that has only text. They differ between
// servers, but not between the events of a stream: an event that differs from a decoded one
// only in its text, and the padding that hides its length, needs no decoding.
type shape struct {
	head   []byte // up to the quote before the text
	middle []byte // from the quote after the text to the quote before the padding
	tail   []byte // from the quote after the padding; empty without padding
}

// text returns the text of an event of the shape. It returns false for another event, which
// must be decoded.
func (s *shape) text(data []byte) (text string, ok bool) {
	if len(s.head) == 0 || !bytes.HasPrefix(data, s.head) {
		return "", false
	}
	rest := data[len(s.head):]
	end, escaped, ok := eventstream.ScanString(rest)
	if !ok {
		return "", false
	}
	after := rest[end:]
	if len(s.tail) == 0 {
		ok = bytes.Equal(after, s.middle)
	} else if after, ok = bytes.CutPrefix(after, s.middle); ok {
		var padding int
		padding, _, ok = eventstream.ScanString(after)
		ok = ok && bytes.Equal(after[padding:], s.tail)
	}
	switch {
	case !ok:
		return "", false
	case escaped:
		return eventstream.Unquote(data[len(s.head)-1:][:end+2])
	}
	return string(rest[:end]), true
}

// learn sets the shape from a decoded event that has only the text.
func (s *shape) learn(data []byte, text string) {
	s.head = s.head[:0]
	begin, ok := value(data, `"content"`)
	if !ok {
		return
	}
	end, _, ok := eventstream.ScanString(data[begin:])
	if !ok {
		return
	}
	if same, ok := eventstream.Unquote(data[begin-1:][:end+2]); !ok || same != text {
		return
	}
	after := data[begin+end:]
	s.middle, s.tail = append(s.middle[:0], after...), s.tail[:0]
	if padding, ok := value(after, `"obfuscation"`); ok {
		if end, _, ok := eventstream.ScanString(after[padding:]); ok {
			s.middle, s.tail = append(s.middle[:0], after[:padding]...), append(s.tail[:0], after[padding+end:]...)
		}
	}
	// An escape could hide a repeated key.
	if bytes.IndexByte(data[:begin], '\\') >= 0 || bytes.IndexByte(s.middle, '\\') >= 0 || bytes.IndexByte(s.tail, '\\') >= 0 {
		return
	}
	s.head = append(s.head, data[:begin]...)
}

// value returns the index of the key's string value, after its quote. It returns false if
// data does not contain the key exactly once.
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
