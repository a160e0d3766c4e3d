package body

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"net/http"
	"slices"

	"collab/domain/fault"
)

// lineTypes are the media types of JSON lines.
var lineTypes = []string{"application/x-ndjson", "application/ndjson", "application/jsonl"}

// CheckLines checks that a body of the length, negative if unknown, can be JSON lines of at most limit
// bytes.
func CheckLines(h http.Header, length, limit int64) error {
	if err := CheckWhole(h); err != nil {
		return err
	}
	if media, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || !slices.Contains(lineTypes, media) {
		return fault.New(fault.Unsupported, "The content type must be %s, with a JSON object in each line", lineTypes[0])
	}
	if length > limit {
		return TooLarge(limit)
	}
	return nil
}

// TooLarge returns the error of a body of more than limit bytes.
func TooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "The body must be at most %d bytes", limit)
}

// LineCounter is an io.Writer that counts the lines that are not blank.
type LineCounter struct {
	Lines int
	begun bool // the present line is not blank
}

// Write never fails.
func (c *LineCounter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		if !c.begun && !isBlank(line) {
			c.begun = true
			c.Lines++
		}
		if ended {
			c.begun = false
		}
		p = rest
	}
	return n, nil
}

// isBlank reports whether a line has only white space of JSON.
func isBlank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

// LineReader reads lines into a buffer.
type LineReader struct {
	From   io.Reader
	Buffer []byte

	start, end int  // of what is buffered and was not returned
	ended      bool // From has been read to its end
	long       bool // the buffered bytes continue a line that is longer than the buffer
}

// Next returns the next lines that are not blank, at most so many and as many as the buffer has room for,
// without line breaks. They are valid until the next call. Of a line that is longer than the
// buffer nil is returned. The error is io.EOF after the last line.
func (r *LineReader) Next(most int) (lines [][]byte, err error) {
	for {
		for len(lines) < most {
			line, _, whole := bytes.Cut(r.Buffer[r.start:r.end], []byte{'\n'})
			if !whole && (!r.ended || len(line) == 0) {
				break
			}
			r.start = min(r.end, r.start+len(line)+1)
			switch {
			case r.long:
				lines, r.long = append(lines, nil), false
			case !isBlank(line):
				lines = append(lines, line)
			}
		}
		switch {
		case len(lines) > 0:
			return lines, nil
		case r.ended && r.long:
			r.long = false
			return [][]byte{nil}, nil
		case r.ended:
			return nil, io.EOF
		}
		if r.start == 0 && r.end == len(r.Buffer) {
			r.end, r.long = 0, r.long || !isBlank(r.Buffer)
		}
		r.start, r.end = 0, copy(r.Buffer, r.Buffer[r.start:r.end])
		for !r.ended && r.end < len(r.Buffer) {
			n, err := r.From.Read(r.Buffer[r.end:])
			r.end += n
			if r.ended = err == io.EOF; err != nil && !r.ended {
				return nil, err
			}
		}
	}
}

// maxLineFields is the most fields of a line that ParseLine reads.
const maxLineFields = 64

// ParseLine reads a line as ParseFields reads a body, with a bounded number of fields in the object and
// those within it.
func ParseLine(line []byte) (*Fields, error) {
	s := scanner{data: line, maxNames: maxLineFields}
	found, err := s.whole()
	if err != nil {
		return nil, err
	}
	return newFields(found), nil
}

// Content reads the fields content and encoding of a file. The content may lie in the object's text,
// which it replaces.
func Content(o *Fields) []byte {
	encoding := OrZero(o, "encoding", func(raw []byte) (string, string) {
		text, problem := Text(raw)
		if problem != "" || text != "utf8" && text != "base64" {
			problem = "must be one of utf8, base64"
		}
		return text, problem
	})
	return Required(o, "content", func(raw []byte) ([]byte, string) {
		if raw[0] != '"' {
			return nil, "must be a string"
		}
		content := raw[1 : len(raw)-1]
		if bytes.IndexByte(content, '\\') >= 0 {
			content = appendUnescaped(content[:0], content) // no escape is shorter than its character
		}
		if encoding != "base64" {
			return content, ""
		}
		decoded, ok := decodeBase64(content)
		if !ok {
			return nil, "must be base64"
		}
		return decoded, ""
	})
}

// decodeBase64 decodes what a base64Reader accepts, in place.
func decodeBase64(text []byte) (decoded []byte, ok bool) {
	bare := bytes.TrimRight(text, "=")
	if len(bare) != len(text) && (len(text)%4 != 0 || len(text)-len(bare) > 2) ||
		bytes.ContainsAny(text, "\r\n") { // which the decoder ignores
		return nil, false
	}
	n, err := base64.RawStdEncoding.Strict().Decode(bare, bare) // it writes nothing that it has not read
	return bare[:n], err == nil
}
