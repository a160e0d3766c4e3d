package httpapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"collab/adapters/httpapi/encode"
	"collab/domain/fault"
)

// maxAround is the most that a body in JSON may have around the text of its
// content, in bytes.
const maxAround = 64 << 10

// jsonForm reads a JSON object whose field content is a text of any length,
// which goes by as a stream. The rest is kept with an empty text in that one's
// place, and so it is checked and read exactly as other bodies are.
type jsonForm struct {
	in     *window
	rest   []byte
	gap    int   // where in rest the text is left out; 0: it did not come yet
	length int64 // of the text as it was written, in bytes

	depth  int
	naming bool // the next string of the outermost object is a name
	ours   bool // the last name was content

	valid int               // bytes in sight that are whole characters in UTF-8
	char  [utf8.UTFMax]byte // the last escape's character
	held  []byte            // what of it was not read yet
	whole bool              // the text has come to its end
	pairs []pair            // the fields as far as they were read
}

func newJSONForm(in *window) *jsonForm { return &jsonForm{in: in, rest: make([]byte, 0, 512)} }

// byte takes the next byte around the text.
func (j *jsonForm) byte() (byte, error) {
	if err := j.in.least(1); err != nil {
		return 0, err
	}
	if len(j.rest) == maxAround {
		return 0, fault.New(fault.TooLarge, "The body must have at most %d bytes beside content", maxAround)
	}
	b := j.in.sight()[0]
	j.in.take(1)
	j.rest = append(j.rest, b)
	return b, nil
}

// open goes on to the text; found is false where the body ends without it.
// Fields then has what came before it.
func (j *jsonForm) open() (found bool, err error) {
	found, err = j.scan()
	if err != nil {
		return false, err
	}
	if !found {
		return false, j.parse(j.rest)
	}
	j.gap = len(j.rest)
	return true, j.parse(slices.Concat(j.rest, []byte(`"}`)))
}

// finish takes what follows the text. Fields then has all there is.
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
	s := scanner{data: rest, gap: j.gap, skipped: int(j.length)}
	j.pairs, err = s.whole()
	return err
}

// scan takes everything up to the text of content, or to the end of the body. It
// knows just enough of JSON to find a name of the outermost object; what is
// wrong with the rest is for the parser to say.
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
			j.ours = false
		case ',':
			j.naming = true
		case '"':
			if j.gap == 0 && j.ours && j.depth == 1 && !j.naming {
				return true, nil
			}
			raw, err := j.text()
			if err != nil {
				return false, err
			}
			j.ours = j.depth == 1 && j.naming && isContent(raw)
			j.naming = false
		}
	}
}

// text takes a string whose opening quote was taken, and returns it with both.
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
				return nil, nil // the parser says so
			}
			return nil, err
		}
		if b == '"' {
			return j.rest[start:], nil
		}
	}
}

// isContent reports whether a string is the name content, however it is
// written.
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
		case len(j.held) > 0:
			k := copy(p[n:], j.held)
			j.held = j.held[k:]
			n += k
		case j.whole && n == 0:
			return 0, io.EOF
		case j.whole:
			return n, nil
		case j.valid > 0:
			k, err := j.unescape(p[n:])
			if n += k; err != nil {
				return n, err
			}
		case n > 0 && len(j.in.sight()) == 0:
			return n, nil // better than to wait
		default:
			if err := j.look(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// pass moves on past n bytes of the text.
func (j *jsonForm) pass(n int) {
	j.in.take(n)
	j.length += int64(n)
	j.valid = max(0, j.valid-n)
}

// look finds out how much of what is in sight is whole characters.
func (j *jsonForm) look() error {
	b := j.in.sight()
	j.valid = len(b) - openCharacter(b)
	if !utf8.Valid(b[:j.valid]) {
		if j.valid = firstInvalid(b); j.valid == 0 {
			return j.wrong("invalid UTF-8", 0)
		}
	}
	if j.valid > 0 {
		return nil
	}
	err := j.in.more()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF):
		return err
	case len(b) > 0:
		return j.wrong("invalid UTF-8", 0)
	}
	return j.wrong("unexpected end", 0)
}

// unescape reads from what is valid, as far as there is room in p.
func (j *jsonForm) unescape(p []byte) (n int, err error) {
	b, at := j.in.sight()[:j.valid], 0
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
			j.pass(at)
			return n, j.escape()
		case '"':
			j.pass(at)
			j.in.take(1)
			j.rest = append(j.rest, '"')
			j.whole, j.ours = true, false
			return n, nil
		}
		j.pass(at)
		return n, j.wrong("a control character in a string", 0)
	}
	j.pass(at)
	return n, nil
}

func (j *jsonForm) wrong(problem string, at int) error {
	return fault.New(fault.Invalid, "The body must be valid JSON: %s at byte %d", problem, j.in.taken+int64(at))
}

// longestEscape is a pair of surrogates.
const longestEscape = len(`\ud83d\ude00`)

// escape takes one escape.
func (j *jsonForm) escape() error {
	s := scanner{data: j.in.sight()}
	for !s.escape() {
		if len(s.data) >= longestEscape {
			return j.wrong(s.problem, 0)
		}
		switch err := j.in.more(); {
		case errors.Is(err, io.EOF):
			return j.wrong(s.problem, s.pos)
		case err != nil:
			return err
		}
		s = scanner{data: j.in.sight()}
	}
	j.held = appendUnescaped(j.char[:0], s.data[:s.pos])
	j.pass(s.pos)
	return nil
}

// openCharacter returns how many bytes at the end of b begin a character of
// which the rest is missing.
func openCharacter(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

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

// decoding reads what base64 stands for, with or without padding.
type decoding struct {
	in   *window
	held []byte  // what of the last group was not read yet
	last [3]byte // that group
}

// Read decodes a part of the text.
func (d *decoding) Read(p []byte) (int, error) {
	if len(d.held) == 0 && len(p) > 0 {
		// The last group may be padded or short, so that it has to be known as
		// the last.
		err := d.in.least(5)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		b := d.in.sight()
		if err == nil {
			if groups := min((len(b)-1)/4, len(p)/3); groups > 0 {
				return d.decode(base64.RawStdEncoding, p, b[:4*groups], 3*groups)
			}
			n, err := d.decode(base64.RawStdEncoding, d.last[:], b[:4], 3)
			if d.held = d.last[:n]; err != nil {
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
			n, err := d.decode(base64.RawStdEncoding, d.last[:], text, base64.RawStdEncoding.DecodedLen(len(text)))
			if err != nil {
				return 0, err
			}
			d.in.take(len(b) - len(text))
			d.held = d.last[:n]
		}
	}
	n := copy(p, d.held)
	d.held = d.held[n:]
	return n, nil
}

// decode decodes the text, which must stand for n bytes.
func (d *decoding) decode(as *base64.Encoding, dst, text []byte, n int) (int, error) {
	// Line breaks are passed over by the decoder, which then finds less.
	if got, err := as.Strict().Decode(dst, text); err != nil || got != n || n == 0 {
		return 0, notBase64()
	}
	d.in.take(len(text))
	return n, nil
}

func notBase64() error { return fault.Field("content", "must be base64") }
