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
	data       jsonScanner
	prefix     int  // bytes of the line that were compared with the field name
	otherField bool // the line is not a data field
	notEmpty   bool // the line has other bytes than \r
}

// next reports whether an event ends with the byte, and whether its data is within maxDepth so far.
func (s *eventScanner) next(b byte) (ended, ok bool) {
	const field = "data:"
	ok = true
	switch {
	case b == '\n' && !s.notEmpty:
		*s = eventScanner{}
		return true, true
	case b == '\n':
		s.prefix, s.otherField, s.notEmpty = 0, false, false
		return false, true
	case s.prefix < len(field):
		s.otherField = s.otherField || b != field[s.prefix]
		s.prefix++
	case !s.otherField:
		ok = s.data.next(b)
	}
	s.notEmpty = s.notEmpty || b != '\r'
	return false, ok
}
