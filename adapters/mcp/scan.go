package mcp

// Limits of the JSON values of a response. The SDK decodes without a context: it reads a value once for each value
// that contains it, and an empty array of two bytes takes 184 bytes of memory.
const (
	maxDepth  = 100
	maxValues = 200_000
)

// jsonScanner follows JSON text to the ends of its strings, and counts values.
type jsonScanner struct {
	quoted, escaped bool
	depth, values   int
}

// scan reports whether the text is within the limits so far.
func (s *jsonScanner) scan(text []byte) bool {
	for _, b := range text {
		if !s.next(b) {
			return false
		}
	}
	return true
}

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
	return s.depth <= maxDepth && s.values <= maxValues
}

// eventScanner scans the data of each event of an event stream as JSON text.
type eventScanner struct {
	data  jsonScanner
	at    int  // bytes of the line so far
	other bool // the line is not one of data
	text  bool // the line is not empty
}

// scan reports whether the data of all events is within the limits so far.
func (s *eventScanner) scan(text []byte) bool {
	const field = "data:"
	for _, b := range text {
		switch {
		case b == '\n' && !s.text: // the event ends
			s.data = jsonScanner{values: s.data.values}
			s.at, s.other = 0, false
		case b == '\n':
			s.at, s.other, s.text = 0, false, false
		case s.at < len(field):
			s.other = s.other || b != field[s.at]
			s.text = s.text || b != '\r'
			s.at++
		case !s.other && !s.data.next(b):
			return false
		default:
			s.text = s.text || b != '\r'
		}
	}
	return true
}
