package mcp

// Limits of the JSON values of a response. The SDK decodes without a context, and reads a value once for each value
// that contains it. It takes up to 270 bytes of memory for a value: 51 MiB for 200,000 of a list, and a server has 16
// lists at once.
const (
	maxDepth         = 100
	maxValues        = 40_000
	maxSessionValues = 200_000 // of a Session
)

// jsonScanner follows JSON text to the ends of its strings, and counts values.
type jsonScanner struct {
	quoted, escaped bool
	depth, values   int
}

// next reports whether the text is within maxDepth up to the byte.
func (s *jsonScanner) next(b byte) bool {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted:
		s.escaped, s.quoted = b == '\\', b != '"'
	case b == '"':
		s.quoted = true
	case b == '[' || b == '{':
		s.depth++
		s.values++
	case b == ']' || b == '}':
		s.depth--
	case b == ',':
		s.values++
	}
	return s.depth <= maxDepth
}

// eventScanner scans the data of each event of an event stream as JSON text.
type eventScanner struct {
	data  jsonScanner
	at    int  // bytes of the line so far
	other bool // the line is not one of data
	text  bool // the line is not empty
}

// next reports whether an event ends with the byte, and whether its data is within maxDepth so far.
func (s *eventScanner) next(b byte) (ended, ok bool) {
	const field = "data:"
	ok = true
	switch {
	case b == '\n' && !s.text:
		*s = eventScanner{}
		return true, true
	case b == '\n':
		s.at, s.other, s.text = 0, false, false
		return false, true
	case s.at < len(field):
		s.other = s.other || b != field[s.at]
		s.at++
	case !s.other:
		ok = s.data.next(b)
	}
	s.text = s.text || b != '\r'
	return false, ok
}
