package body

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
)

// The memory of a name and of an element of an array in bytes, whose texts may be shorter, and the least that is
// charged at once: smaller bodies are charged nothing.
const (
	nameMemory    = 128
	elementMemory = 64
	chargedMemory = 1000 * nameMemory
)

// maxDepth is the maximum nesting of the values of a body.
const maxDepth = 64

// pair is a name of a JSON object with the text of its value, which was checked and
// trimmed.
type pair struct {
	name []byte
	raw  []byte
}

// parseObject parses data as exactly one JSON object and returns its pairs, in their order.
// It is stricter than RFC 8259: names must not repeat, at any depth, and strings must be
// valid Unicode. The pairs refer to data.
func parseObject(data []byte) ([]pair, error) {
	s := scanner{data: data}
	return s.whole()
}

// Elements returns the texts of a checked array's elements.
func Elements(raw []byte) (found [][]byte) {
	s := scanner{data: raw}
	s.array(0, &found)
	return found
}

// scanner checks JSON text in one pass. Its methods return false at the first error, which
// problem then describes.
type scanner struct {
	data    []byte
	pos     int
	problem string

	maxNames, names int // that all objects may have together, 0: any number, and how many there were

	resources spool.Resources // that many names and elements are charged to; nil: nothing is
	uncharged int64           // bytes that are not charged yet
	refused   error           // of resources

	// For a body without the text of its content: the offset and the length of the omitted
	// text, in bytes.
	omittedAt, omittedLength int
}

// whole parses the text as exactly one object.
func (s *scanner) whole() ([]pair, error) {
	s.space()
	if s.peek() != '{' {
		if !s.value(0) || !s.end() {
			return nil, s.err()
		}
		return nil, fault.New(fault.Invalid, "The body must be a JSON object")
	}
	var found []pair
	if !s.object(0, &found) || !s.end() {
		return nil, s.err()
	}
	return found, nil
}

func (s *scanner) err() error {
	if s.refused != nil {
		return s.refused
	}
	at := s.pos
	if at > s.omittedAt {
		at += s.omittedLength
	}
	return fault.New(fault.Invalid, "The body must be valid JSON: %s at byte %d", s.problem, at)
}

func (s *scanner) fail(problem string) bool {
	if s.pos >= len(s.data) {
		problem = "unexpected end"
	}
	s.problem = problem
	return false
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// end reports whether only white space follows.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.data) || s.fail("something after the end of the value")
}

func (s *scanner) value(depth int) bool {
	if depth > maxDepth {
		return s.fail("nested too deeply")
	}
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth, nil)
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.fail("unexpected character")
}

func (s *scanner) literal(w string) bool {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(w)) {
		return s.fail("unexpected character")
	}
	s.pos += len(w)
	return true
}

// charge charges n bytes of memory and reports whether it could.
func (s *scanner) charge(n int64) bool {
	if s.uncharged += n; s.resources == nil || s.uncharged < chargedMemory {
		return true
	}
	s.refused, s.uncharged = s.resources.Hold(s.uncharged), 0
	return s.refused == nil
}

// object reads an object; if found is not nil, it appends the pairs to it.
func (s *scanner) object(depth int, found *[]pair) bool {
	var seen names
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return true
	}
	for {
		s.space()
		if s.peek() != '"' {
			return s.fail("a name in double quotes is missing")
		}
		start := s.pos
		if s.names++; s.maxNames > 0 && s.names > s.maxNames {
			return s.fail("more than " + strconv.Itoa(s.maxNames) + " fields")
		}
		if !s.charge(nameMemory) || !s.text() {
			return false
		}
		name := s.data[start+1 : s.pos-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		if !seen.add(name) {
			s.pos = start
			return s.fail("a repeated name")
		}
		s.space()
		if s.peek() != ':' {
			return s.fail("a colon is missing")
		}
		s.pos++
		s.space()
		start = s.pos
		if !s.value(depth + 1) {
			return false
		}
		if found != nil {
			*found = append(*found, pair{name, s.data[start:s.pos]})
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return true
		default:
			return s.fail("a comma or a closing brace is missing")
		}
	}
}

// array reads an array; if found is not nil, it appends the texts of the elements to it.
func (s *scanner) array(depth int, found *[][]byte) bool {
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for {
		s.space()
		start := s.pos
		if !s.charge(elementMemory) || !s.value(depth+1) {
			return false
		}
		if found != nil {
			*found = append(*found, s.data[start:s.pos])
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return true
		default:
			return s.fail("a comma or a closing bracket is missing")
		}
	}
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case !s.digits():
		return s.fail("a digit is missing")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a digit is missing")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a digit is missing")
		}
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) text() bool {
	s.pos++
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < 0x20:
			return s.fail("a control character in a string")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return s.fail("invalid UTF-8")
			}
			s.pos += size
		}
	}
	return s.fail("")
}

// escape checks one escape; surrogates must be in pairs.
func (s *scanner) escape() bool {
	if s.pos+1 >= len(s.data) {
		s.pos = len(s.data)
		return s.fail("")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return true
	case 'u':
		r, ok := hex4(s.data[s.pos:])
		if !ok {
			return s.fail("an invalid escape")
		}
		if utf16.IsSurrogate(r) {
			low, ok := hex4(s.data[s.pos+6:])
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return s.fail("half a surrogate pair")
			}
			s.pos += 6
		}
		s.pos += 6
		return true
	}
	return s.fail("an invalid escape")
}

// hex4 decodes the \uXXXX at the beginning of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '/': '/'}

// unescape returns the contents of a checked string, given without its quotes.
func unescape(b []byte) []byte { return appendUnescaped(make([]byte, 0, len(b)), b) }

func appendUnescaped(out, b []byte) []byte {
	for i := 0; i < len(b); {
		switch {
		case b[i] != '\\':
			out = append(out, b[i])
			i++
		case b[i+1] != 'u':
			out = append(out, escapes[b[i+1]])
			i += 2
		default:
			r, _ := hex4(b[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				low, _ := hex4(b[i:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// names detects repeated names of an object: by comparison while they are few, then with a
// map.
type names struct {
	few  [12][]byte
	n    int
	many map[string]bool
}

func (s *names) add(name []byte) bool {
	if s.many == nil {
		for _, other := range s.few[:s.n] {
			if bytes.Equal(other, name) {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = name
			s.n++
			return true
		}
		s.many = make(map[string]bool, 4*len(s.few))
		for _, other := range s.few {
			s.many[string(other)] = true
		}
	}
	if s.many[string(name)] {
		return false
	}
	s.many[string(name)] = true
	return true
}
