package body

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"golang.org/x/net/http/httpguts"

	"collab/domain/fault"
)

// Bounds of multipart bodies. Sizes are in bytes.
const (
	maxParts      = 32
	maxPartHeader = 8 << 10
	maxFieldValue = 8 << 10
	maxPadding    = 64 // of a boundary's line, and after the last boundary
)

// multipartForm streams multipart/form-data (RFC 7578). Unlike mime/multipart it refuses a
// preamble, an epilogue, and lines that only begin with the boundary, which parsers
// interpret differently, and headers of more than maxPartHeader bytes, of which
// mime/multipart reads 10 MB.
type multipartForm struct {
	in        *peekReader
	delimiter []byte // the end of a part: a line break, two hyphens, the boundary
	parts     int
	safe      int  // buffered bytes of the part
	ended     bool // the delimiter follows them
}

// part is the header of a part.
type part struct {
	name     string
	file     bool
	fileName string
	mimeType string
}

func newMultipartForm(in *peekReader, boundary string) *multipartForm {
	return &multipartForm{in: in, delimiter: []byte("\r\n--" + boundary)}
}

func badMultipart(format string, args ...any) error {
	return fault.New(fault.Invalid, "The body must be valid multipart/form-data: "+format, args...)
}

// truncated returns the error for a truncated body if err is io.EOF.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return badMultipart("unexpected end")
	}
	return err
}

// next advances to the next part, whose content Read returns. Ok is false at the end of the
// body. The previous part must have been read to its end.
func (m *multipartForm) next() (p part, ok bool, err error) {
	boundary := m.delimiter
	if m.parts == 0 {
		if err := m.in.fillTo(1); err != nil {
			return p, false, truncated(err)
		}
		if m.in.buffered()[0] == '-' {
			boundary = boundary[2:] // the first needs no line break before it
		}
	}
	if err := m.in.fillTo(len(boundary) + 2); err != nil && !errors.Is(err, io.EOF) {
		return p, false, err
	}
	if !bytes.HasPrefix(m.in.buffered(), boundary) {
		return p, false, badMultipart("it does not begin with its boundary")
	}
	m.in.take(len(boundary))
	if bytes.HasPrefix(m.in.buffered(), []byte("--")) {
		m.in.take(2)
		return p, false, m.end()
	}
	if err := m.endLine(); err != nil {
		return p, false, err
	}
	if m.parts++; m.parts > maxParts {
		return p, false, badMultipart("more than %d parts", maxParts)
	}
	m.safe, m.ended = 0, false
	header, err := m.header()
	if err != nil {
		return p, false, err
	}
	p, err = readPartHeader(header)
	return p, true, err
}

// endLine reads the rest of a boundary's line.
func (m *multipartForm) endLine() error {
	for range maxPadding {
		if err := m.in.fillTo(2); err != nil {
			return truncated(err)
		}
		switch b := m.in.buffered(); {
		case b[0] == '\r' && b[1] == '\n':
			m.in.take(2)
			return nil
		case b[0] == ' ' || b[0] == '\t':
			m.in.take(1)
		default:
			return badMultipart("a line begins with the boundary and goes on")
		}
	}
	return badMultipart("a boundary's line is too long")
}

// end checks that nothing but space follows the last boundary.
func (m *multipartForm) end() error {
	for range maxPadding {
		err := m.in.fillTo(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch m.in.buffered()[0] {
		case ' ', '\t', '\r', '\n':
			m.in.take(1)
		default:
			return badMultipart("something after the last boundary")
		}
	}
	return badMultipart("something after the last boundary")
}

// header reads the lines of a part's header.
func (m *multipartForm) header() (string, error) {
	for {
		b := m.in.buffered()
		if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 && i <= maxPartHeader {
			header := string(b[:i])
			m.in.take(i + 4)
			return header, nil
		}
		if len(b) > maxPartHeader {
			return "", badMultipart("the header of a part is longer than %d bytes", maxPartHeader)
		}
		if err := m.in.fill(); err != nil {
			return "", truncated(err)
		}
	}
}

func readPartHeader(header string) (p part, err error) {
	seen := map[string]string{}
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		name = strings.ToLower(name)
		if _, repeated := seen[name]; !ok || repeated || !httpguts.ValidHeaderFieldName(name) || strings.ContainsFunc(value, isControl) {
			return p, badMultipart("a part's header cannot be read")
		}
		seen[name] = strings.Trim(value, " \t")
	}
	disposition, params, err := mime.ParseMediaType(seen["content-disposition"])
	if err != nil || disposition != "form-data" || params["name"] == "" {
		return p, badMultipart("a part has no name")
	}
	switch strings.ToLower(seen["content-transfer-encoding"]) {
	case "", "7bit", "8bit", "binary":
	default:
		return p, badMultipart("a part has a transfer encoding")
	}
	p = part{name: params["name"], fileName: params["filename"], mimeType: seen["content-type"]}
	_, p.file = params["filename"]
	return p, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// Read reads the content of the part.
func (m *multipartForm) Read(p []byte) (int, error) {
	for m.safe == 0 {
		if m.ended {
			return 0, io.EOF
		}
		if err := m.scan(); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.in.buffered()[:m.safe])
	m.in.take(n)
	m.safe -= n
	return n, nil
}

// scan sets safe, and reads more if it would be 0.
func (m *multipartForm) scan() error {
	b := m.in.buffered()
	if i := bytes.Index(b, m.delimiter); i >= 0 {
		m.safe, m.ended = i, true
		return nil
	}
	// A possible beginning of a delimiter stays buffered until more is read.
	m.safe = len(b)
	tail := max(0, len(b)-len(m.delimiter)+1)
	if i := bytes.IndexByte(b[tail:], '\r'); i >= 0 {
		m.safe = tail + i
	}
	if m.safe > 0 {
		return nil
	}
	return truncated(m.in.fill())
}

// value reads the content of a part that is a field.
func (m *multipartForm) value(name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(m, maxFieldValue+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFieldValue {
		return "", fault.Field(quote(name), "must be at most %d bytes", maxFieldValue)
	}
	return string(b), nil
}
