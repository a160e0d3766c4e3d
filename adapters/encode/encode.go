// Package encode appends JSON in the form of the interface: strings, times, and error
// bodies. It is a leaf: it imports the standard library alone.
package encode

import (
	"encoding/binary"
	"math/bits"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			// Valid in JSON, but not in JavaScript source that JSON is pasted into.
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends the escape of a character that needs one.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendOptional appends a string or null.
func AppendOptional[T ~string](dst []byte, s *T) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, string(*s))
}

// AppendTime appends a time in the format of the interface, in quotes.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	if year < 0 || year > 9999 {
		year = 0 // not representable; no record has such a time
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, '"',
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second), '.',
		digit(ms/100), digit(ms/10), digit(ms), 'Z', '"')
}

func digit(n int) byte { return byte('0' + n%10) }

// PlainLength returns the length of the longest prefix of b that needs no escape in a
// JSON string.
func PlainLength(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		// Eight bytes at a time: the high bit of each that needs an escape is set, and
		// possibly of bytes after the first of those.
		x := binary.LittleEndian.Uint64(b[n:])
		quote, backslash := x^ones*'"', x^ones*'\\'
		if mask := ((x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & high; mask != 0 {
			return n + bits.TrailingZeros64(mask)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// AppendEscaped appends valid UTF-8, or a part of it, with the escapes of a JSON string.
func AppendEscaped(dst, src []byte) []byte {
	for {
		n := PlainLength(src)
		dst = append(dst, src[:n]...)
		if n == len(src) {
			return dst
		}
		dst = appendEscape(dst, src[n])
		src = src[n+1:]
	}
}

// AppendError appends the body of a response that is an error, with the end of its line.
func AppendError(dst []byte, status int, message string) []byte {
	dst = append(dst, `{"statusCode":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, message)
	dst = append(dst, `,"error":`...)
	dst = AppendString(dst, http.StatusText(status))
	return append(dst, "}\n"...)
}

// AppendLine appends JSON as one line of valid UTF-8. A line break can only be between
// tokens and becomes a space; U+2028, U+2029 and invalid bytes can only be in strings and
// are escaped.
func AppendLine(dst []byte, text string) []byte {
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\r' || r == '\n':
			dst = append(dst, ' ')
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
		default:
			dst = append(dst, text[i:i+size]...)
		}
	}
	return dst
}
