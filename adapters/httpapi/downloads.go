package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"collab/adapters/accept"
	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/domain/org"
)

// copyMemory is the memory of net/http while the kernel copies a file, in bytes.
const copyMemory = 32 << 10

// maxRanges is the limit of the ranges of one request. Each is a read of the store.
const maxRanges = 16

var (
	contentPolicy = []string{"sandbox; default-src 'none'"}
	byteRanges    = []string{"bytes"}
)

// metadataHeaders are the headers of the metadata record beside the bytes. Characters of
// values that are not visible ASCII, and %, are percent-encoded.
var metadataHeaders = []string{
	"X-Collab-Id", "X-Collab-Storage-Key", "X-Collab-Path", "X-Collab-Mime-Type", "X-Collab-Size", "X-Collab-Checksum", "X-Collab-Version",
	"X-Collab-Kind", "X-Collab-Scope", "X-Collab-Workspace-Id", "X-Collab-Team-Id", "X-Collab-Owner-Id",
	"X-Collab-Created-By", "X-Collab-Updated-By", "X-Collab-Created-At", "X-Collab-Updated-At",
}

// setMetadataHeaders sets the headers of the metadata record. Null fields have none.
func (c *call) setMetadataHeaders(o object.Object) {
	values := [...]string{
		string(o.ID), o.StorageKey(), o.Path, o.MimeType, strconv.FormatInt(o.Size, 10), o.Checksum, strconv.FormatInt(o.Version, 10),
		string(o.Kind), string(o.Scope), valueOrEmpty(o.Workspace), valueOrEmpty(o.Team), valueOrEmpty(o.Owner),
		string(o.CreatedBy), string(o.UpdatedBy),
		strings.Trim(string(encode.AppendTime(nil, o.CreatedAt)), `"`), strings.Trim(string(encode.AppendTime(nil, o.UpdatedAt)), `"`),
	}
	// One allocation for all of them.
	lists := make([]string, len(values))
	h := c.Header()
	for i, v := range values {
		if v != "" {
			lists[i] = percentEncode(v)
			h[metadataHeaders[i]] = lists[i : i+1 : i+1]
		}
	}
}

func valueOrEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// percentEncode percent-encodes all but visible ASCII.
func percentEncode(s string) string {
	visible := func(r rune) bool { return r > ' ' && r <= '~' && r != '%' }
	if !strings.ContainsFunc(s, func(r rune) bool { return !visible(r) }) {
		return s
	}
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		if visible(rune(s[i])) {
			b = append(b, s[i])
		} else {
			b = fmt.Appendf(b, "%%%02X", s[i])
		}
	}
	return string(b)
}

// escapedName returns a path's file name as a parameter value of RFC 8187.
func escapedName(path string) string {
	return strings.ReplaceAll(url.QueryEscape(path[strings.LastIndexByte(path, '/')+1:]), "+", "%20")
}

// wantsRedirect reports whether the client asks for an address at the object store in place of
// the bytes: by a parameter, or by a preference (RFC 7240).
func (c *call) wantsRedirect(q body.Query) (bool, error) {
	if text, given := q.Get("redirect"); given && text != "1" {
		return false, fault.Field("redirect", "must be 1")
	} else if given {
		if raw, given := q.Get("raw"); given && raw != "1" {
			return false, fault.Field("redirect", "does not go with raw=0: the object store has the bytes only")
		}
		q.Values.Set("raw", "1")
		return true, nil
	}
	return c.prefersRedirect(), nil
}

// prefersRedirect reports whether a Prefer header names redirect.
func (c *call) prefersRedirect() bool {
	for _, line := range c.r.Header["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), "redirect") {
				return true
			}
		}
	}
	return false
}

// wantsBytes reports whether a request prefers the bytes of a file to JSON, by a parameter or because it accepts their
// type or any bytes.
func (c *call) wantsBytes(q body.Query, o object.Object) (bool, error) {
	if raw, given := q.Get("raw"); given {
		if raw != "1" && raw != "0" {
			return false, fault.Field("raw", "must be 1 or 0")
		}
		return raw == "1", nil
	}
	own, _, _ := mime.ParseMediaType(o.MimeType)
	bytes, best := false, 0.0
	for media, weight := range accept.Weights(c.r.Header["Accept"]) {
		if weight > best {
			switch media {
			case "application/json", "application/*", "*/*":
				bytes, best = false, weight
			case object.OctetStream, own:
				bytes, best = true, weight
			}
		}
	}
	return bytes, nil
}

// sendBytes replies with the content or the requested ranges of it. If redirect is set and the object store has
// addresses it redirects to one, and leaves ranges to the store.
func (a *api) sendBytes(c *call, o object.Object, redirect bool) error {
	tag := etag(o.Version)
	if c.notModified(tag) {
		return nil
	}
	disposition := "attachment; filename*=UTF-8''" + escapedName(o.Path)
	if redirect && c.r.Method == http.MethodGet {
		to, err := a.Objects.Address(c.r.Context(), o, disposition)
		if err != nil {
			return err
		}
		if to != "" {
			c.hideAddress()
			c.setMetadataHeaders(o)
			if c.prefersRedirect() {
				c.Set("Preference-Applied", "redirect")
			}
			c.redirect(http.StatusTemporaryRedirect, to)
			return nil
		}
	}
	writeHead := func(status int, mimeType string, length int64) {
		h := c.Header()
		h["Accept-Ranges"] = byteRanges
		h["Content-Security-Policy"] = contentPolicy // so that scripts in the content do not run
		c.setMetadataHeaders(o)
		c.Set("Etag", tag)
		c.Set("Content-Type", mimeType)
		c.Set("Content-Disposition", disposition)
		if length >= 0 {
			c.Set("Content-Length", strconv.FormatInt(length, 10))
		}
		c.WriteHeader(status)
	}
	if c.r.Method == http.MethodHead {
		writeHead(http.StatusOK, o.MimeType, o.Size)
		return nil
	}
	ranges, err := parseRanges(c.r, tag, o.Size)
	if err != nil {
		c.refuseRange(err, o.Size)
		return nil
	}
	switch len(ranges) {
	case 0:
		return a.sendContent(c, c, o, byteRange{0, o.Size}, func() error {
			writeHead(http.StatusOK, o.MimeType, o.Size)
			return nil
		})
	case 1:
		return a.sendContent(c, c, o, ranges[0], func() error {
			c.Set("Content-Range", ranges[0].contentRange(o.Size))
			writeHead(http.StatusPartialContent, o.MimeType, ranges[0].length)
			return nil
		})
	}
	parts := multipart.NewWriter(c)
	for i, r := range ranges {
		var part io.Writer
		err := a.sendContent(c, writerFunc(func(b []byte) (int, error) { return part.Write(b) }), o, r, func() (err error) {
			if i == 0 {
				writeHead(http.StatusPartialContent, "multipart/byteranges; boundary="+parts.Boundary(), -1)
			}
			part, err = parts.CreatePart(textproto.MIMEHeader{"Content-Range": {r.contentRange(o.Size)}, "Content-Type": {o.MimeType}})
			return err
		})
		if err != nil {
			return err
		}
	}
	_ = parts.Close() // it fails if the client closed the connection
	return nil
}

// sendStored replies with a JSON document byte for byte as it is stored.
func (a *api) sendStored(c *call, o object.Object) error {
	tag := etag(o.Version)
	if c.notModified(tag) {
		return nil
	}
	writeHead := func() error {
		c.Header()["Content-Type"] = jsonType
		c.Set("Etag", tag)
		c.Set("Content-Length", strconv.FormatInt(o.Size, 10))
		c.WriteHeader(http.StatusOK)
		return nil
	}
	if c.r.Method == http.MethodHead {
		return writeHead()
	}
	return a.sendContent(c, c, o, byteRange{0, o.Size}, writeHead)
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

// sendContent copies a range of the content to w, and calls writeHead before the first write,
// when the content could be read. Damaged content is an error before its last bytes are
// written, so that no client takes it for complete.
func (a *api) sendContent(c *call, w io.Writer, o object.Object, part byteRange, writeHead func() error) error {
	c.releasePermit()
	r, err := a.Objects.Open(c.r.Context(), o, part.start, part.length)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.copyContent(c, w, r, part.length, string(o.ID), o.VisibleTo, writeHead)
}

// copyContent copies content of the length to w while it is visible to the caller, and calls writeHead before the first
// write. Errors have the id of the content.
func (a *api) copyContent(c *call, w io.Writer, r io.Reader, length int64, id string, visible func(org.Actor) bool,
	writeHead func() error) error {
	confirm := a.confirmation(c, visible)
	if from, ok := r.(io.WriterTo); ok && w == io.Writer(c) && c.readsFiles() {
		if err := c.Hold(copyMemory); err != nil {
			return err
		}
		defer c.Release(copyMemory)
		if err := writeHead(); err != nil {
			return c.ClientClosed(err)
		}
		if _, err := from.WriteTo(fileWriter{c, confirm}); err != nil {
			if _, ours := errors.AsType[*fault.Error](err); ours {
				return err
			}
			return c.ClientClosed(err)
		}
		return nil
	}
	block, err := spool.TakeBlock(c, length)
	if err != nil {
		return err
	}
	defer spool.ReleaseBlock(c, &block)
	for left, begun := length, false; ; begun = true {
		// Read a whole block, so that content that fits into one is verified before it is sent.
		n, err := io.ReadFull(r, *block)
		end := err == io.EOF || err == io.ErrUnexpectedEOF // compared without errors.Is, as a broken connection may wrap them
		if left -= int64(n); left < 0 || end && left > 0 {
			return fault.Wrap(fault.Internal, err, "The stored content of %s is not as long as it was", id)
		}
		if err != nil && !end {
			return err
		}
		if !begun {
			if err := writeHead(); err != nil {
				return c.ClientClosed(err)
			}
		}
		if n > 0 {
			if err := confirm(); err != nil {
				return err
			}
			c.ExtendFor(n)
			if _, err := w.Write((*block)[:n]); err != nil {
				return c.ClientClosed(err)
			}
		}
		if end {
			return nil
		}
	}
}

// readsFiles reports whether the kernel can copy files to the connection.
func (c *call) readsFiles() bool {
	_, ok := c.w.(io.ReaderFrom)
	return ok
}

// fileWriter is the body of a response on a connection that reads files. It extends the
// deadlines for each piece of content.
type fileWriter struct {
	*call
	confirm func() error
}

// ReadFrom implements io.ReaderFrom for pieces of at most a block.
func (w fileWriter) ReadFrom(piece io.Reader) (int64, error) {
	if err := w.confirm(); err != nil {
		return 0, err
	}
	w.ExtendFor(spool.BlockSize)
	n, err := w.w.(io.ReaderFrom).ReadFrom(piece)
	w.bytes += n
	return n, err
}

// byteRange is a part of content, in bytes.
type byteRange struct{ start, length int64 }

// contentRange returns the Content-Range of the range in content of the size.
func (s byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.start, s.start+s.length-1, size)
}

// refuseRange replies that no requested range is in the content, for the error of parseRanges.
func (c *call) refuseRange(err error, size int64) {
	c.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	c.writeError(errorView{Status: http.StatusRequestedRangeNotSatisfiable, Message: "Range " + err.Error()})
}

// parseRanges returns the requested ranges of the content, or none for all of it. It returns an error if no range is
// satisfiable. It ignores those of other methods than GET, other units than bytes, ranges of another version, and
// ranges that are together longer than the content.
func parseRanges(r *http.Request, tag string, size int64) (ranges []byteRange, err error) {
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok || r.Method != http.MethodGet {
		return nil, nil
	}
	if version := r.Header.Get("If-Range"); version != "" && version != tag {
		return nil, nil
	}
	none, total := false, int64(0)
	for one := range strings.SplitSeq(text, ",") {
		if one = textproto.TrimString(one); one == "" {
			continue
		}
		parsed, ok := parseRange(one, size)
		if !ok {
			return nil, errors.New("must name bytes, as in bytes=0-99")
		}
		if parsed.length == 0 {
			none = true
			continue
		}
		if ranges = append(ranges, parsed); len(ranges) > maxRanges {
			return nil, nil
		}
		total += parsed.length
	}
	switch {
	case total > size:
		return nil, nil
	case none && len(ranges) == 0 && size > 0:
		return nil, errors.New("lies beyond the end of the content")
	}
	return ranges, nil
}

// parseRange parses one range of content of the size. The length is 0 if the range is beyond the end.
func parseRange(text string, size int64) (r byteRange, ok bool) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return r, false
	}
	from, to = textproto.TrimString(from), textproto.TrimString(to)
	number := func(text string) (int64, bool) {
		n, err := strconv.ParseUint(text, 10, 63)
		return int64(n), err == nil
	}
	if from == "" { // a suffix
		n, ok := number(to)
		n = min(n, size)
		return byteRange{size - n, n}, ok
	}
	if r.start, ok = number(from); !ok || r.start >= size {
		return r, ok
	}
	last := size - 1
	if to != "" {
		if last, ok = number(to); !ok || last < r.start {
			return r, false
		}
		last = min(last, size-1)
	}
	r.length = last - r.start + 1
	return r, true
}

// maxWriteChunk is the number of bytes of content that are escaped at once. Even if every byte is escaped they fit into
// a block.
const maxWriteChunk = 32 << 10

// sendRecord replies with the metadata record and the content in it. Text is sent as a string, other content in
// base64.
func (a *api) sendRecord(c *call, o object.Object, tag string) error {
	if c.notModified(tag) {
		return nil
	}
	c.Set("Etag", tag)
	if c.r.Method == http.MethodHead {
		c.Header()["Content-Type"] = jsonType
		c.WriteHeader(http.StatusOK)
		return nil
	}
	block, err := spool.TakeBlock(c, 2*o.Size) // few bytes of a text are escaped
	if err != nil {
		return err
	}
	defer spool.ReleaseBlock(c, &block)
	w := recordWriter{c: c, out: (*block)[:0], text: o.Text}
	w.out = appendObject(w.out, o)
	w.out = append(w.out[:len(w.out)-1], `,"content":"`...)
	ending := `","encoding":"utf8"}` + "\n"
	if !o.Text {
		ending = `","encoding":"base64"}` + "\n"
		w.length = len(w.out) + base64.StdEncoding.EncodedLen(int(o.Size)) + len(ending)
	}
	nothing := func() error { return nil }
	if err := a.sendContent(c, &w, o, byteRange{0, o.Size}, nothing); err != nil {
		return err
	}
	w.out = base64.StdEncoding.AppendEncode(w.out, w.partial[:w.partialLen])
	w.out = append(w.out, ending...)
	if !c.sent {
		c.send(http.StatusOK, w.out)
		return nil
	}
	c.ExtendFor(len(w.out))
	_, _ = c.Write(w.out) // it fails if the client closed the connection
	return nil
}

// recordWriter appends content to JSON in a block, which it sends when it is full.
type recordWriter struct {
	c      *call
	out    []byte
	text   bool
	length int // of the response; 0: unknown

	partial    [3]byte // bytes of an incomplete group of base64
	partialLen int
}

// Write writes a part of the content.
func (w *recordWriter) Write(b []byte) (int, error) {
	all := len(b)
	for len(b) > 0 {
		part := b[:min(len(b), maxWriteChunk)]
		b = b[len(part):]
		if len(w.out)+body.MaxEscaped*len(part) > spool.BlockSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
		if w.text {
			// Characters that are split between two parts need no escapes, so their bytes
			// are copied.
			w.out = encode.AppendEscaped(w.out, part)
			continue
		}
		for w.partialLen > 0 && w.partialLen < 3 && len(part) > 0 {
			w.partial[w.partialLen] = part[0]
			w.partialLen, part = w.partialLen+1, part[1:]
		}
		if w.partialLen == 3 {
			w.out = base64.StdEncoding.AppendEncode(w.out, w.partial[:])
			w.partialLen = 0
		}
		if w.partialLen == 0 {
			whole := len(part) / 3 * 3
			w.out = base64.StdEncoding.AppendEncode(w.out, part[:whole])
			w.partialLen = copy(w.partial[:], part[whole:])
		}
	}
	return all, nil
}

func (w *recordWriter) flush() error {
	if !w.c.sent {
		w.c.Header()["Content-Type"] = jsonType
		if w.length > 0 {
			w.c.Set("Content-Length", strconv.Itoa(w.length))
		}
	}
	w.c.ExtendFor(len(w.out))
	_, err := w.c.Write(w.out)
	w.out = w.out[:0]
	return err
}
