package eventstream

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxCount is the largest Count. A larger number is invalid.
const MaxCount = 1 << 40

// Count is a number of tokens from 0 to MaxCount, unknown if it is missing or invalid.
type Count struct {
	N     int64
	Known bool
}

// UnmarshalJSON never fails.
func (c *Count) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(string(data), 64); err == nil {
		*c = Count{int64(min(max(n, 0), MaxCount)), true}
	}
	return nil
}

// maxCommas limits the commas between the values of one event. An element of an array, which has two bytes in
// 0,0,0, takes up to 300 bytes of memory.
const maxCommas = 1 << 16

// tooMany reports whether JSON has more than maxCommas outside its texts.
func tooMany(data []byte) bool {
	if len(data) <= maxCommas {
		return false
	}
	commas, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++ // the escaped byte
		case ',':
			if !quoted {
				commas++
			}
		}
	}
	return commas > maxCommas
}

// Decode decodes data and reports whether it is JSON, without too many values. Fields of an unexpected type are left
// unset, because servers differ.
func Decode(data []byte, to any) bool {
	if tooMany(data) {
		return false
	}
	err := json.Unmarshal(data, to)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}

// IsObject reports whether s is a JSON object.
func IsObject(s string) bool {
	return strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") && json.Valid([]byte(s))
}

// ObjectSchema returns a JSON schema, by default {}, and adds the type object if it has no
// type, which providers require. Other bytes are unchanged, because providers cache by bytes.
func ObjectSchema(schema string) (json.RawMessage, error) {
	if strings.TrimSpace(schema) == "" {
		schema = "{}"
	}
	if !IsObject(schema) {
		return nil, errors.New("its schema is no JSON object")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(schema), &fields); err != nil {
		return nil, err
	}
	if _, ok := fields["type"]; ok {
		return json.RawMessage(schema), nil
	}
	begin := `{"type":"object"`
	if len(fields) > 0 {
		begin += ","
	}
	_, rest, _ := strings.Cut(schema, "{")
	return json.RawMessage(begin + rest), nil
}

// ScanString returns the index of the quote that ends a JSON string, given the bytes after
// its first quote, and whether the string has escapes. It returns false for invalid JSON or
// UTF-8.
func ScanString(data []byte) (end int, escaped, ok bool) {
	ascii := true
	for ; end < len(data) && data[end] != '"'; end++ {
		switch b := data[end]; {
		case b == '\\':
			escaped = true
			end++ // the escaped byte
		case b < ' ':
			return 0, false, false
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return end, escaped, end < len(data) && (ascii || utf8.Valid(data[:end]))
}

// Unquote returns the text of a JSON string that ScanString has accepted, given with both
// quotes. It returns false for invalid escapes.
func Unquote(quoted []byte) (string, bool) {
	var b strings.Builder
	b.Grow(len(quoted))
	for i := 1; i < len(quoted)-1; i++ {
		c := quoted[i]
		if c == '\\' {
			i++
			switch c = quoted[i]; c {
			case '"', '\\', '/':
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			default:
				return unquoteSlow(quoted)
			}
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// unquoteSlow decodes other escapes. It is a function of its own, because it allocates s.
func unquoteSlow(quoted []byte) (s string, ok bool) {
	ok = json.Unmarshal(quoted, &s) == nil
	return s, ok
}
