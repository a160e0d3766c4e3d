package body

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"collab/adapters/encode"
	"collab/domain/fault"
)

// maxJSONOverhead is the size of the largest JSON body without the text of its content, in bytes.
const maxJSONOverhead = 64 << 10

// maxOverheadFields is the most fields of such a body and of the objects within it. They are in memory for as long as
// the content arrives.
const maxOverheadFields = 1000

// jsonForm reads a JSON object whose field content is a string of any length, which is
// streamed. The rest is kept with an empty string in its place, and is then parsed like
// other bodies.
type jsonForm struct {
	in        *peekReader
	rest      []byte
	omittedAt int   // the offset in rest of the omitted text; 0: not reached yet
	length    int64 // of the escaped text, in bytes

	depth     int
	naming    bool // the next string of the outermost object is a name
	atContent bool // the last name was content

	valid   int               // buffered bytes that are complete characters in UTF-8
	char    [utf8.UTFMax]byte // the last escape's character
	pending []byte            // its unread bytes
	ended   bool              // the text has ended
	pairs   []pair            // the fields read so far
}

func newJSONForm(in *peekReader) *jsonForm { return &jsonForm{in: in, rest: make([]byte, 0, 512)} }

// byte reads the next byte outside the text.
func (j *jsonForm) byte() (byte, error) {
	if err := j.in.fillTo(1); err != nil {
		return 0, err
	}
	if len(j.rest) == maxJSONOverhead {
		return 0, fault.New(fault.TooLarge, "The body must have at most %d bytes beside content", maxJSONOverhead)
	}
	b := j.in.buffered()[0]
	j.in.take(1)
	j.rest = append(j.rest, b)
	return b, nil
}

// open advances to the text. Found is false if the body ends without it. Pairs then has the
// fields before it.
func (j *jsonForm) open() (found bool, err error) {
	found, err = j.scan()
	if err != nil {
		return false, err
	}
	if !found {
		return false, j.parse(j.rest)
	}
	j.omittedAt = len(j.rest)
	return true, j.parse(slices.Concat(j.rest, []byte(`"}`)))
}

// finish reads the rest after the text. Pairs then has all fields.
func (j *jsonForm) finish() error {
	if _, err := j.scan(); err != nil {
		return err
	}
	return j.parse(j.rest)
}

func (j *jsonForm) parse(rest []byte) (err error) {
	if len(bytes.TrimSpace(rest)) == 0 {
		return fault.New(fault.Invalid, "A JSON body is required")
	}
	s := scanner{data: rest, maxNames: maxOverheadFields, omittedAt: j.omittedAt, omittedLength: int(j.length)}
	j.pairs, err = s.whole()
	return err
}

// scan reads up to the text of content, or to the end of the body. It only finds the names
// of the outermost object; the parser reports errors in the rest.
func (j *jsonForm) scan() (found bool, err error) {
	for {
		b, err := j.byte()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch b {
		case '{', '[':
			j.depth++
			j.naming = b == '{'
		case '}', ']':
			j.depth--
			j.atContent = false
		case ',':
			j.naming = true
		case '"':
			if j.omittedAt == 0 && j.atContent && j.depth == 1 && !j.naming {
				return true, nil
			}
			raw, err := j.text()
			if err != nil {
				return false, err
			}
			j.atContent = j.depth == 1 && j.naming && isContent(raw)
			j.naming = false
		}
	}
}

// text reads the rest of a string after its opening quote, and returns it with both quotes.
func (j *jsonForm) text() ([]byte, error) {
	start := len(j.rest) - 1
	for {
		b, err := j.byte()
		if err == nil && b == '\\' {
			b, err = j.byte()
			if b == '"' {
				b = 0 // it does not end the string
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil, nil // the parser reports it
			}
			return nil, err
		}
		if b == '"' {
			return j.rest[start:], nil
		}
	}
}

// isContent reports whether a string is the name content, with or without escapes.
func isContent(raw []byte) bool {
	if s := (scanner{data: raw}); raw == nil || !s.text() {
		return false
	}
	return string(unescape(raw[1:len(raw)-1])) == "content"
}

// Read reads the text of content.
func (j *jsonForm) Read(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case len(j.pending) > 0:
			k := copy(p[n:], j.pending)
			j.pending = j.pending[k:]
			n += k
		case j.ended && n == 0:
			return 0, io.EOF
		case j.ended:
			return n, nil
		case j.valid > 0:
			k, err := j.unescape(p[n:])
			if n += k; err != nil {
				return n, err
			}
		case n > 0 && len(j.in.buffered()) == 0:
			return n, nil // instead of waiting for more
		default:
			if err := j.fillValid(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// skip advances by n bytes of the text.
func (j *jsonForm) skip(n int) {
	j.in.take(n)
	j.length += int64(n)
	j.valid = max(0, j.valid-n)
}

// fillValid sets valid, and reads more if it would be 0.
func (j *jsonForm) fillValid() error {
	b := j.in.buffered()
	if j.valid = len(b); !utf8.Valid(b) {
		j.valid = firstInvalid(b)
	}
	switch {
	case j.valid > 0:
		return nil
	case utf8.FullRune(b):
		return j.syntaxError("invalid UTF-8", 0)
	}
	err := j.in.fill()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF):
		return err
	case len(b) > 0:
		return j.syntaxError("invalid UTF-8", 0)
	}
	return j.syntaxError("unexpected end", 0)
}

// unescape copies the valid bytes into p, up to the first escape that must be decoded.
func (j *jsonForm) unescape(p []byte) (n int, err error) {
	b, at := j.in.buffered()[:j.valid], 0
	for n < len(p) && at < len(b) {
		k := encode.PlainLength(b[at:min(len(b), at+len(p)-n)])
		copy(p[n:], b[at:at+k])
		n, at = n+k, at+k
		if n == len(p) || at == len(b) {
			break
		}
		switch b[at] {
		case '\\':
			if at+1 < len(b) && escapes[b[at+1]] != 0 {
				p[n] = escapes[b[at+1]]
				n, at = n+1, at+2
				continue
			}
			j.skip(at)
			return n, j.escape()
		case '"':
			j.skip(at)
			j.in.take(1)
			j.rest = append(j.rest, '"')
			j.ended, j.atContent = true, false
			return n, nil
		}
		j.skip(at)
		return n, j.syntaxError("a control character in a string", 0)
	}
	j.skip(at)
	return n, nil
}

func (j *jsonForm) syntaxError(problem string, at int) error {
	return fault.New(fault.Invalid, "The body must be valid JSON: %s at byte %d", problem, j.in.taken+int64(at))
}

// longestEscape is the length of the longest escape, a pair of surrogates.
const longestEscape = len(`\ud83d\ude00`)

// escape decodes one escape into held.
func (j *jsonForm) escape() error {
	s := scanner{data: j.in.buffered()}
	for !s.escape() {
		if len(s.data) >= longestEscape {
			return j.syntaxError(s.problem, 0)
		}
		switch err := j.in.fill(); {
		case errors.Is(err, io.EOF):
			return j.syntaxError(s.problem, s.pos)
		case err != nil:
			return err
		}
		s = scanner{data: j.in.buffered()}
	}
	j.pending = appendUnescaped(j.char[:0], s.data[:s.pos])
	j.skip(s.pos)
	return nil
}

// firstInvalid returns the number of bytes before the first that begins no complete character.
func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// base64Reader decodes base64, with or without padding.
type base64Reader struct {
	in      *peekReader
	pending []byte  // the unread bytes of the last group
	last    [3]byte // that group
}

// Read decodes a part of the text.
func (d *base64Reader) Read(p []byte) (int, error) {
	if len(d.pending) == 0 && len(p) > 0 {
		// The last group may be padded or short, so it must be recognised as the last.
		err := d.in.fillTo(5)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		b := d.in.buffered()
		if err == nil {
			if groups := min((len(b)-1)/4, len(p)/3); groups > 0 {
				return d.decode(p, b[:4*groups], 3*groups)
			}
			n, err := d.decode(d.last[:], b[:4], 3)
			if d.pending = d.last[:n]; err != nil {
				return 0, err
			}
		} else {
			if len(b) == 0 {
				return 0, io.EOF
			}
			text := bytes.TrimRight(b, "=")
			if padded := len(text) != len(b); padded && len(b) != 4 {
				return 0, notBase64()
			}
			n, err := d.decode(d.last[:], text, base64.RawStdEncoding.DecodedLen(len(text)))
			if err != nil {
				return 0, err
			}
			d.in.take(len(b) - len(text))
			d.pending = d.last[:n]
		}
	}
	n := copy(p, d.pending)
	d.pending = d.pending[n:]
	return n, nil
}

// decode decodes the text, which must be the encoding of n bytes.
func (d *base64Reader) decode(dst, text []byte, n int) (int, error) {
	// The decoder ignores line breaks, and then returns fewer bytes.
	if got, err := base64.RawStdEncoding.Strict().Decode(dst, text); err != nil || got != n || n == 0 {
		return 0, notBase64()
	}
	d.in.take(len(text))
	return n, nil
}

func notBase64() error { return fault.Field("content", "must be base64") }
