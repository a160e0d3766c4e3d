package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// What an upload says beside its content. Where the blob lies follows from the
// placing fields, and so they are needed before the content can go there.
var (
	placing    = []string{"path", "kind", "scope", "workspaceId", "teamId"}
	describing = []string{"mimeType", "checksum", "expectedVersion"}
)

// aroundParts is the most that multipart/form-data takes beside the content, in
// bytes.
const aroundParts = maxParts * (maxPartHeader + maxFieldValue)

// longestWriting is how many bytes of JSON one byte of content can take: a
// control character is six.
const longestWriting = 6

// upload is the request of an upload in any of its forms: multipart/form-data,
// JSON, or the bytes themselves with the fields in the query. It is the reader
// of its content, which goes through as it comes where all came before that is
// needed for it, and is kept for a moment where not. At the content's end it has
// read the rest of the request.
type upload struct {
	objects.Upload
	draft object.Draft

	c     *call
	limit int64    // of the content, in bytes
	known []string // the fields that count
	first []string // those that have to come before the content for it to go through
	given []string

	fileName string // of the part, for a path
	mimeType string // as the form has it, where no field says it
	encoding string

	in        *window        // the body, where it is a form
	text      *window        // base64
	multipart *multipartForm // nil: another form
	json      *jsonForm      // nil: another form
	pairs     int            // of the object: how many were read
	found     bool           // the content has come

	begun   bool
	through bool // the content goes through
	content io.Reader
	spool   spool
	rest    bool // something of the request follows the content
	err     error
}

// bodyForm is the form of an upload's body.
type bodyForm struct {
	json     bool
	boundary string // of multipart/form-data; empty: another form
	mimeType string // of content that is the body; empty: it says nothing
	limit    int64  // of the body, in bytes
}

// form decides by the content type, and refuses a body of which it is known
// that it is too long.
func (a *api) form(c *call) (f bodyForm, err error) {
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return f, fault.New(fault.Unsupported, "The body must not have a content encoding")
	}
	f.limit = a.Objects.MaxSize
	header := c.r.Header.Get("Content-Type")
	media, params, broken := mime.ParseMediaType(header)
	switch {
	case media == "multipart/form-data":
		// RFC 2046, section 5.1.1.
		f.boundary = params["boundary"]
		if broken != nil || len(f.boundary) < 1 || len(f.boundary) > 70 {
			return f, fault.New(fault.Invalid, "The content type must name the boundary, of 1 to 70 characters")
		}
		f.limit += aroundParts
	case isJSON(media):
		if err := jsonContent(header); err != nil {
			return f, err
		}
		f.json = true
		f.limit = longestWriting*f.limit + maxAround
	default:
		f.mimeType = telling(header)
	}
	if c.r.ContentLength > f.limit {
		return f, a.tooLarge()
	}
	return f, nil
}

func (a *api) tooLarge() error {
	return fault.New(fault.TooLarge, "The content must be at most %d bytes", a.Objects.MaxSize)
}

// telling returns a media type that says something of the content, and not only
// that it is bytes or, as some clients have it by default, a form.
func telling(mimeType string) string {
	switch media, _, _ := mime.ParseMediaType(mimeType); media {
	case object.Bytes, "application/x-www-form-urlencoded":
		return ""
	}
	return mimeType
}

// receive prepares to read an upload: of a new file with where it lies, of
// one that is there without.
func (a *api) receive(c *call, placed bool) (*upload, error) {
	f, err := a.form(c)
	if err != nil {
		return nil, err
	}
	u := &upload{c: c, spool: spool{c: c}, limit: a.Objects.MaxSize, known: describing, draft: object.Draft{Kind: object.Artifact, Scope: object.Shared}}
	u.Content, u.Size = u, -1
	if placed {
		u.known = slices.Concat(placing, describing)
		u.first = placing[:3]
	}
	if f.json {
		u.known = append(slices.Clip(u.known), "encoding")
		u.first = append(slices.Clip(u.first), "encoding")
	}
	if err := u.readQuery(); err != nil {
		return nil, err
	}
	body := c.incoming()
	if f.json || f.boundary != "" {
		if u.in, err = c.openWindow(body); err != nil {
			return nil, err
		}
	}
	switch {
	case f.json:
		u.json, u.rest = newJSONForm(u.in), true
	case f.boundary != "":
		u.multipart, u.rest = newMultipartForm(u.in, f.boundary), true
	default:
		u.content, u.Size, u.mimeType = body, c.r.ContentLength, f.mimeType
		u.begun, u.found = true, true
	}
	u.settle()
	return u, nil
}

// incoming is the body of an upload, as it comes or as it was kept.
func (c *call) incoming() io.Reader {
	if c.spooled != nil {
		return c.spooled
	}
	return &arriving{c: c}
}

// readQuery reads the fields of the query, which come before all others.
func (u *upload) readQuery() error {
	when, err := u.c.condition()
	if err != nil {
		return err
	}
	if when.given {
		u.given, u.Expected = append(u.given, "expectedVersion"), when.version
	}
	if u.c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(u.c.r.URL.RawQuery)
	if err != nil {
		return fault.New(fault.Invalid, "The query could not be read")
	}
	for _, name := range u.known {
		if name == "expectedVersion" {
			continue
		}
		for _, text := range values[name] {
			if err := u.set(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// set sets a field. Those that do not count are passed over.
func (u *upload) set(name, text string) error {
	switch {
	case !slices.Contains(u.known, name):
		return nil
	case slices.Contains(u.given, name):
		return fault.Field(name, "must be given only once")
	case u.through && !slices.Contains(describing, name):
		return fault.Field(name, "must come before the content")
	}
	u.given = append(u.given, name)
	var ok bool
	switch name {
	case "path":
		u.draft.Path = text
	case "kind":
		if u.draft.Kind, ok = object.ParseKind(text); !ok {
			return fault.Field(name, "must be one of %s", join(object.Kinds))
		}
	case "scope":
		if u.draft.Scope, ok = object.ParseScope(text); !ok {
			return fault.Field(name, "must be one of %s", join(object.Scopes))
		}
	case "workspaceId":
		w, ok := id.Parse[id.Workspace](text)
		if !ok {
			return fault.Field(name, "must be the id of a workspace")
		}
		u.draft.Workspace = &w
	case "teamId":
		t, ok := id.Parse[id.Team](text)
		if !ok {
			return fault.Field(name, "must be the id of a team")
		}
		u.draft.Team = &t
	case "mimeType":
		if text == "" {
			return fault.Field(name, "must not be empty")
		}
		u.MimeType = text
	case "checksum":
		sum, err := object.ParseChecksum(text)
		if err != nil {
			return err
		}
		u.Checksum = sum
	case "expectedVersion":
		version, err := parseVersion(text)
		if err != nil {
			return err
		}
		u.Expected = &version
	case "encoding":
		if text != "utf8" && text != "base64" {
			return fault.Field(name, "must be one of utf8, base64")
		}
		u.encoding = text
	}
	return nil
}

// settle fills in what no field says.
func (u *upload) settle() {
	if u.MimeType == "" {
		u.MimeType = u.mimeType
	}
	if !slices.Contains(u.given, "path") {
		u.draft.Path = u.fileName
	}
}

// begin reads up to the content and, where something is missing that is needed
// first, all of the request.
func (u *upload) begin() error {
	if !u.begun {
		u.begun = true
		u.err = u.advance()
		u.settle()
	}
	return u.err
}

func (u *upload) advance() error {
	from, err := u.open()
	if err != nil {
		return err
	}
	missing := func(name string) bool { return !slices.Contains(u.given, name) }
	if !slices.ContainsFunc(u.first, missing) {
		u.through = true
		u.content, err = u.decoded(from)
		return err
	}
	limit, encoded := u.limit, u.json != nil && missing("encoding")
	if encoded {
		limit = (limit + 2) / 3 * 4 // it may turn out to be base64
	} else {
		if from, err = u.decoded(from); err != nil {
			return err
		}
	}
	tooLarge := func() error { return fault.New(fault.TooLarge, "The content must be at most %d bytes", u.limit) }
	if err := u.spool.fill(from, limit, tooLarge); err != nil {
		return err
	}
	if err := u.finish(); err != nil {
		return err
	}
	u.content, u.Size = &u.spool, u.spool.size
	if encoded && u.encoding == "base64" {
		u.Size = -1
		u.content, err = u.decoded(&u.spool)
	}
	return err
}

// decoded is what the text stands for.
func (u *upload) decoded(text io.Reader) (content io.Reader, err error) {
	if u.encoding != "base64" {
		return text, nil
	}
	if u.text, err = u.c.openWindow(text); err != nil {
		return nil, err
	}
	return &decoding{in: u.text}, nil
}

// open reads up to the content.
func (u *upload) open() (io.Reader, error) {
	if u.multipart != nil {
		if err := u.readParts(); err != nil {
			return nil, err
		}
		if !u.found {
			return nil, fault.Field("file", "is required")
		}
		return u.multipart, nil
	}
	var err error
	if u.found, err = u.json.open(); err != nil {
		return nil, err
	}
	if err := u.readPairs(); err != nil {
		return nil, err
	}
	if !u.found {
		for _, p := range u.json.pairs {
			if string(p.name) == "content" && p.raw[0] != 'n' {
				return nil, fault.Field("content", "must be a string")
			}
		}
		return nil, fault.Field("content", "is required")
	}
	return u.json, nil
}

// finish reads what follows the content.
func (u *upload) finish() error {
	u.rest = false
	if u.multipart != nil {
		return u.readParts()
	}
	if err := u.json.finish(); err != nil {
		return err
	}
	return u.readPairs()
}

// readParts reads parts up to the content, or to the end of the body.
func (u *upload) readParts() error {
	for {
		p, ok, err := u.multipart.next()
		switch {
		case err != nil || !ok:
			return err
		case p.name == "file" && u.found:
			return fault.Field("file", "must be given only once")
		case p.name == "file":
			u.found, u.fileName, u.mimeType = true, p.fileName, telling(p.mimeType)
			return nil
		case p.file:
			return fault.Field(quoted(p.name), "is not the file of an upload")
		}
		text, err := u.multipart.value(p.name)
		if err != nil {
			return err
		}
		if err := u.set(p.name, text); err != nil {
			return err
		}
	}
}

// readPairs reads the fields of the object that were not read before.
func (u *upload) readPairs() error {
	pairs := u.json.pairs[u.pairs:]
	u.pairs = len(u.json.pairs)
	for _, p := range pairs {
		name := string(p.name)
		if !slices.Contains(u.known, name) || p.raw[0] == 'n' {
			continue
		}
		text, problem := string(p.raw), ""
		if name == "expectedVersion" {
			_, problem = asInteger(p.raw)
		} else {
			text, problem = asText(p.raw)
		}
		if problem != "" {
			return fault.Field(name, "%s", problem)
		}
		if err := u.set(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the content.
func (u *upload) Read(p []byte) (int, error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	n, err := u.content.Read(p)
	if errors.Is(err, io.EOF) && u.rest {
		if u.err = u.finish(); u.err != nil {
			return 0, u.err
		}
	}
	return n, err
}

// close gives back what the upload takes.
func (u *upload) close() {
	for _, w := range []*window{u.in, u.text} {
		if w != nil {
			w.close()
		}
	}
	_ = u.spool.Close() // of a file that has no name any more
}

// condition is the version that a write expects.
type condition struct {
	given   bool
	version *int64 // nil: any
}

// condition reads If-Match, If-None-Match and the query's expectedVersion.
func (c *call) condition() (when condition, err error) {
	if header := c.r.Header["If-Match"]; len(header) > 0 {
		version, ok := versionOfTag(header)
		if !ok {
			return when, fault.Field("If-Match", "must be one entity tag of the file's, its version, or *")
		}
		when = condition{true, version}
	}
	if header := c.r.Header["If-None-Match"]; len(header) > 0 {
		if len(header) != 1 || strings.TrimSpace(header[0]) != "*" || when.given {
			return when, fault.Field("If-None-Match", "must be *, for nothing, and without If-Match")
		}
		when = condition{true, new(int64(0))}
	}
	if c.r.URL.RawQuery == "" {
		return when, nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return when, fault.New(fault.Invalid, "The query could not be read")
	}
	for _, text := range values["expectedVersion"] {
		if when.given {
			return when, fault.Field("expectedVersion", "must be given only once")
		}
		version, err := parseVersion(text)
		if err != nil {
			return when, err
		}
		when = condition{true, &version}
	}
	return when, nil
}

// versionOfTag reads the one entity tag that a header has, or the version that
// stands in its place; nil is any. A weak tag never matches (RFC 9110, section
// 13.1.1).
func versionOfTag(header []string) (*int64, bool) {
	if len(header) != 1 {
		return nil, false
	}
	text := strings.TrimSpace(header[0])
	if text == "*" {
		return nil, true
	}
	text, weak := strings.CutPrefix(text, "W/")
	tag, quoted := strings.CutPrefix(text, `"`)
	if quoted {
		if text, quoted = strings.CutSuffix(tag, `"`); !quoted {
			return nil, false
		}
		text = strings.TrimSuffix(text, inJSON)
	}
	version, err := parseVersion(text)
	if err != nil || weak && !quoted {
		return nil, false
	}
	if weak {
		version = object.Inexact
	}
	return &version, true
}

// parseVersion reads the number of a version, as we write it.
func parseVersion(text string) (int64, error) {
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 || strconv.FormatInt(version, 10) != text {
		return 0, fault.Field("expectedVersion", "must be the number of a version")
	}
	return version, nil
}
