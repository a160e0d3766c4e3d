package body

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
	"collab/domain/object"
)

// maxPartOverhead is the most bytes of multipart/form-data beside the content.
const maxPartOverhead = maxParts * (maxPartHeader + maxFieldValue)

// MaxEscaped is the most bytes of JSON for one byte of content: a control character has
// six.
const MaxEscaped = 6

// FormType is the form of an upload's body: multipart/form-data, JSON, or the content itself.
type FormType struct {
	json     bool
	Boundary string // of multipart/form-data; empty: not multipart
	MimeType string // of content that is the whole body; empty: unknown
	Limit    int64  // of the body, in bytes
	maxSize  int64  // of the content, in bytes
}

// ParseFormType decides by the content type. It fails with fault.TooLarge if the length of
// the body, negative if unknown, is too large for content of at most maxSize bytes.
func ParseFormType(h http.Header, length, maxSize int64) (f FormType, err error) {
	if err := CheckWhole(h); err != nil {
		return f, err
	}
	f.Limit, f.maxSize = maxSize, maxSize
	header := h.Get("Content-Type")
	media, params, broken := mime.ParseMediaType(header)
	switch {
	case media == "multipart/form-data":
		// RFC 2046, section 5.1.1.
		f.Boundary = params["boundary"]
		if broken != nil || len(f.Boundary) < 1 || len(f.Boundary) > 70 {
			return f, fault.New(fault.Invalid, "The content type must name the boundary, of 1 to 70 characters")
		}
		f.Limit += maxPartOverhead
	case IsJSON(media):
		if err := jsonContent(header); err != nil {
			return f, err
		}
		f.json = true
		f.Limit = MaxEscaped*f.Limit + maxJSONOverhead
	default:
		f.MimeType = SpecificType(header)
	}
	if length > f.Limit {
		return f, f.TooLarge()
	}
	return f, nil
}

// CheckWhole returns an error if the body has a content encoding, or is a part of what it replaces.
func CheckWhole(h http.Header) error {
	if len(h["Content-Range"]) > 0 {
		return fault.Field("Content-Range", "must not be given: the body is the whole content")
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fault.New(fault.Unsupported, "The body must not have a content encoding")
	}
	return nil
}

// TooLarge returns the error for content that is larger than it may be.
func (t FormType) TooLarge() error {
	return fault.New(fault.TooLarge, "The content must be at most %d bytes", t.maxSize)
}

// SpecificType returns a media type, or nothing for the generic types of bytes and, which
// some clients send by default, of forms.
func SpecificType(mimeType string) string {
	switch media, _, _ := mime.ParseMediaType(mimeType); media {
	case object.OctetStream, "application/x-www-form-urlencoded":
		return ""
	}
	return mimeType
}

// FormOptions are the fields of a form, and the resources that it is charged to.
type FormOptions struct {
	Fields   []string // to set; others are ignored
	Integers []string // those of Fields that are integers in JSON
	Leading  []string // those of Fields without which the content is spooled
	Trailing []string // those of Fields that may follow content that is not spooled
	Preset   []string // that are set already and must not be set again

	Query     string                        // whose parameters are fields too
	Set       func(name, text string) error // sets a field, once
	Resources spool.Resources
}

// Form reads an upload in any of its forms. It is the reader of the content, which is
// streamed if the fields of Leading precede it, and spooled if not. At the content's end it
// has read the rest of the request.
type Form struct {
	FormOptions
	FormType

	FileName string // of the part that has the content
	MimeType string // of the content, from the form
	Size     int64  // of the content, in bytes; -1: unknown

	encoding       string
	in             *peekReader    // the body of a form
	text           *peekReader    // base64
	multipart      *multipartForm // nil: not multipart
	jsonForm       *jsonForm      // nil: not JSON
	pairs          int            // of the object: how many were read
	contentReached bool

	begun      bool
	streamed   bool // the content is not spooled
	content    io.Reader
	spool      *spool.Spool
	unfinished bool // the request continues after the content
	err        error
}

// NewForm returns a reader of a body of so many bytes, negative if unknown, after it has
// set the fields of the query.
func NewForm(t FormType, from io.Reader, length int64, o FormOptions) (*Form, error) {
	f := &Form{FormOptions: o, FormType: t, Size: -1, spool: spool.New(o.Resources)}
	if t.json {
		f.Fields = append(slices.Clip(f.Fields), "encoding")
		f.Leading = append(slices.Clip(f.Leading), "encoding")
	}
	err := f.readQuery()
	if err == nil && (t.json || t.Boundary != "") {
		f.in, err = newPeekReader(from, o.Resources)
	}
	switch {
	case err != nil:
		return nil, err
	case t.json:
		f.jsonForm, f.unfinished = newJSONForm(f.in), true
	case t.Boundary != "":
		f.multipart, f.unfinished = newMultipartForm(f.in, t.Boundary), true
	default:
		f.content, f.Size, f.MimeType = from, length, t.MimeType
		f.begun, f.contentReached = true, true
	}
	return f, nil
}

// readQuery sets the fields of the query, which precede all others.
func (f *Form) readQuery() error {
	values, err := url.ParseQuery(f.Query)
	if err != nil {
		return fault.New(fault.Invalid, "The query could not be read")
	}
	for _, name := range f.Fields {
		if slices.Contains(f.Preset, name) {
			continue
		}
		for _, text := range values[name] {
			if err := f.setField(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Has reports whether a field was set.
func (f *Form) Has(name string) bool { return slices.Contains(f.Preset, name) }

func (f *Form) setField(name, text string) error {
	switch {
	case !slices.Contains(f.Fields, name):
		return nil
	case f.Has(name):
		return fault.Field(name, "must be given only once")
	case f.streamed && !slices.Contains(f.Trailing, name):
		return fault.Field(name, "must come before the content")
	}
	f.Preset = append(f.Preset, name)
	if name != "encoding" {
		return f.Set(name, text)
	}
	if text != "utf8" && text != "base64" {
		return fault.Field(name, "must be one of utf8, base64")
	}
	f.encoding = text
	return nil
}

// Begin reads up to the content and, if a field of Leading is missing, all of the request. It
// may be called again.
func (f *Form) Begin() error {
	if !f.begun {
		f.begun = true
		f.err = f.advance()
	}
	return f.err
}

func (f *Form) advance() error {
	from, err := f.open()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(f.Leading, func(name string) bool { return !f.Has(name) }) {
		f.streamed = true
		f.content, err = f.decoded(from)
		return err
	}
	limit, encoded := f.maxSize, f.json && !f.Has("encoding")
	if encoded {
		limit = (limit + 2) / 3 * 4 // it may be base64
	} else if from, err = f.decoded(from); err != nil {
		return err
	}
	if err := f.spool.Fill(from, limit, f.TooLarge); err != nil {
		return err
	}
	if err := f.finish(); err != nil {
		return err
	}
	f.content, f.Size = f.spool, f.spool.Size
	if encoded && f.encoding == "base64" {
		f.Size = -1
		f.content, err = f.decoded(f.spool)
	}
	return err
}

// decoded returns a reader that decodes the text.
func (f *Form) decoded(text io.Reader) (content io.Reader, err error) {
	if f.encoding != "base64" {
		return text, nil
	}
	if f.text, err = newPeekReader(text, f.Resources); err != nil {
		return nil, err
	}
	return &base64Reader{in: f.text}, nil
}

// open reads up to the content and returns its reader.
func (f *Form) open() (io.Reader, error) {
	if f.multipart != nil {
		if err := f.readParts(); err != nil {
			return nil, err
		}
		if !f.contentReached {
			return nil, fault.Field("file", "is required")
		}
		return f.multipart, nil
	}
	var err error
	if f.contentReached, err = f.jsonForm.open(); err != nil {
		return nil, err
	}
	if err := f.readPairs(); err != nil {
		return nil, err
	}
	if !f.contentReached {
		for _, p := range f.jsonForm.pairs {
			if string(p.name) == "content" && p.raw[0] != 'n' {
				return nil, fault.Field("content", "must be a string")
			}
		}
		return nil, fault.Field("content", "is required")
	}
	return f.jsonForm, nil
}

// finish reads the rest after the content.
func (f *Form) finish() error {
	f.unfinished = false
	if f.multipart != nil {
		return f.readParts()
	}
	if err := f.jsonForm.finish(); err != nil {
		return err
	}
	return f.readPairs()
}

// readParts reads parts up to the content, or to the end of the body.
func (f *Form) readParts() error {
	for {
		p, ok, err := f.multipart.next()
		switch {
		case err != nil || !ok:
			return err
		case p.name == "file" && f.contentReached:
			return fault.Field("file", "must be given only once")
		case p.name == "file":
			f.contentReached, f.FileName, f.MimeType = true, p.fileName, SpecificType(p.mimeType)
			return nil
		case p.file:
			return fault.Field(quote(p.name), "is not the file of an upload")
		}
		text, err := f.multipart.value(p.name)
		if err != nil {
			return err
		}
		if err := f.setField(p.name, text); err != nil {
			return err
		}
	}
}

// readPairs sets the fields of the object that were not read before.
func (f *Form) readPairs() error {
	pairs := f.jsonForm.pairs[f.pairs:]
	f.pairs = len(f.jsonForm.pairs)
	for _, p := range pairs {
		name := string(p.name)
		if !slices.Contains(f.Fields, name) || p.raw[0] == 'n' {
			continue
		}
		text, problem := string(p.raw), ""
		if slices.Contains(f.Integers, name) {
			_, problem = Integer(p.raw)
		} else {
			text, problem = Text(p.raw)
		}
		if problem != "" {
			return fault.Field(name, "%s", problem)
		}
		if err := f.setField(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the content.
func (f *Form) Read(p []byte) (int, error) {
	if err := f.Begin(); err != nil {
		return 0, err
	}
	n, err := f.content.Read(p)
	if errors.Is(err, io.EOF) && f.unfinished {
		if f.err = f.finish(); f.err != nil {
			return 0, f.err
		}
	}
	return n, err
}

// Close releases the buffers and the spool.
func (f *Form) Close() {
	f.in.close()
	f.text.close()
	_ = f.spool.Close() // the file is unlinked
}

// DigestForm returns a digest of the parts of a form. Clients choose another boundary for
// each request, even if they send the same form again.
func DigestForm(from io.Reader, boundary string, r spool.Resources) ([]byte, error) {
	in, err := newPeekReader(from, r)
	if err != nil {
		return nil, err
	}
	defer in.close()
	all, m := sha256.New(), newMultipartForm(in, boundary)
	for {
		p, ok, err := m.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return all.Sum([]byte("form\n")), nil
		}
		content := sha256.New()
		if _, err := io.Copy(content, m); err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(all, "%q %t %q %q %x\n", p.name, p.file, p.fileName, p.mimeType, content.Sum(nil)) // hash.Hash never fails
	}
}
