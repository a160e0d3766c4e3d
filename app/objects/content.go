package objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
)

// store writes the upload's content to a new blob and describes it.
func (s *Objects) store(ctx context.Context, o object.Object, u *Upload) (object.Content, error) {
	if u.direct != nil {
		stored := u.beforeStore()
		content, err := s.verify(ctx, u)
		return content, cmp.Or(err, stored())
	}
	if u.Size > s.MaxSize {
		return object.Content{}, tooLarge(s.MaxSize)
	}
	name := o.BlobName(s.Secrets.Secret()[:randomLength])
	if err := s.Store.Storage().BlobNames().Announce(ctx, o.Org, name, 0, s.Clock.Now()); err != nil {
		return object.Content{}, err
	}
	stored := u.beforeStore()
	in := s.newUploadReader(u)
	if err := s.Blobs.Put(ctx, name, o.MimeType, s.longest(u), in); err != nil {
		return object.Content{}, err
	}
	return in.content(name), stored()
}

// beforeStore calls BeforeStore, if it is set, and returns its result.
func (u *Upload) beforeStore() (stored func() error) {
	if u.BeforeStore == nil {
		return func() error { return nil }
	}
	return u.BeforeStore()
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "The content must be at most %d bytes", limit)
}

// uploadReader reads an upload's content, and computes its size and checksum. If they are not as
// the client stated it returns an error instead of io.EOF, so that the store keeps nothing.
type uploadReader struct {
	upload *Upload
	limit  int64

	size        int64
	sum         hash.Hash
	text        bool              // the bytes so far are valid UTF-8
	partial     [utf8.UTFMax]byte // a character that continues in the next read
	partialSize int               // the number of bytes in partial
}

func (s *Objects) newUploadReader(u *Upload) *uploadReader {
	return &uploadReader{upload: u, limit: s.MaxSize, sum: sha256.New(), text: true}
}

// content describes content that was read to its end.
func (in *uploadReader) content(blob string) object.Content {
	return object.Content{Blob: blob, Size: in.size, Checksum: in.checksum(), Text: in.text && in.partialSize == 0}
}

func (in *uploadReader) Read(p []byte) (int, error) {
	n, err := in.upload.Content.Read(p)
	in.size += int64(n)
	if in.size > in.limit {
		return 0, tooLarge(in.limit)
	}
	in.sum.Write(p[:n])
	if in.text {
		in.scan(p[:n])
	}
	if err == io.EOF {
		if err := in.compare(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// compare checks the content against the client's checksum.
func (in *uploadReader) compare() error {
	if in.upload.Checksum == "" {
		return nil
	}
	stated, err := object.ParseChecksum(in.upload.Checksum)
	if err != nil {
		return err
	}
	err = checkChecksum(stated, in.checksum())
	in.upload.differs = err != nil
	return err
}

func checkChecksum(stated, actual string) error {
	if stated != actual {
		return fault.Field("checksum", "is not the content's, which is %s", actual)
	}
	return nil
}

func (in *uploadReader) checksum() string { return hex.EncodeToString(in.sum.Sum(nil)) }

// scan checks that p continues the content as UTF-8.
func (in *uploadReader) scan(p []byte) {
	for in.partialSize > 0 && len(p) > 0 {
		in.partial[in.partialSize] = p[0]
		in.partialSize, p = in.partialSize+1, p[1:]
		if utf8.FullRune(in.partial[:in.partialSize]) {
			r, n := utf8.DecodeRune(in.partial[:in.partialSize])
			in.text = in.text && (r != utf8.RuneError || n > 1) && n == in.partialSize
			in.partialSize = 0
		}
	}
	// An incomplete character at the end is completed by the next read.
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		last := p[len(p)-back:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				in.partialSize = copy(in.partial[:], last)
				p = p[:len(p)-back]
			}
			break
		}
	}
	in.text = in.text && utf8.Valid(p)
}

// Open reads the content of an object: length bytes from offset on, or to its end if
// length is negative. A read of the whole content verifies the checksum before it returns
// the last bytes, and fails instead if the checksum is wrong.
//
// The reader implements io.WriterTo where no byte needs to be looked at: it is a part of the
// content, or the content was verified before and nothing has written to its file since.
func (s *Objects) Open(ctx context.Context, o object.Object, offset, length int64) (io.ReadCloser, error) {
	if o.Size > maxCachedContent {
		return s.open(ctx, o, offset, length)
	}
	content, ok := s.contents.Get(o.Blob)
	if !ok {
		r, err := s.open(ctx, o, offset, length)
		if err == nil && offset == 0 && (length < 0 || length >= o.Size) {
			r = &cachingReader{ReadCloser: r, content: make([]byte, 0, o.Size), store: func(content []byte) { s.contents.Put(o.Blob, content) }}
		}
		return r, err
	}
	content = content[min(offset, int64(len(content))):]
	if length >= 0 && length < int64(len(content)) {
		content = content[:length]
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// cachingReader passes the content to keep when it has been read to its end and verified.
type cachingReader struct {
	io.ReadCloser
	content []byte
	store   func([]byte)
}

func (k *cachingReader) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.content = append(k.content, p[:n]...)
	if err == io.EOF {
		k.store(k.content)
	}
	return n, err
}

func (s *Objects) open(ctx context.Context, o object.Object, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Blobs.Open(ctx, o.Blob, offset, length)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(fault.Internal, err, "The content of the file cannot be read")
	}
	if err != nil {
		return nil, err
	}
	var size int64
	var state string
	file, ok := r.(ports.BlobFile)
	if ok {
		size, state = file.State()
	}
	if offset != 0 || length >= 0 && length < o.Size {
		if size != o.Size || state == "" {
			return struct{ io.ReadCloser }{r}, nil
		}
		return r, nil
	}
	v := &verifyingReader{from: r, left: o.Size, sum: sha256.New(), want: o.Checksum}
	if state == "" || o.Size <= alwaysVerified {
		return v, nil
	}
	now := s.Clock.Now()
	if known, ok := s.verified.Get(o.Blob); ok && known.state == state {
		if age := now.Sub(known.at); age >= 0 && age < verifyAgain {
			return verifiedReader{v, file}, nil
		}
	}
	v.verified = func() {
		if _, after := file.State(); after == state {
			s.verified.Put(o.Blob, verification{state, now})
		}
	}
	return v, nil
}

// verifiedReader reads content that was verified before. WriteTo does not verify it again.
type verifiedReader struct {
	*verifyingReader
	io.WriterTo
}

// verifyingReader reads content and compares its size and checksum with the record's.
type verifyingReader struct {
	from io.ReadCloser
	left int64 // bytes not read yet
	sum  hash.Hash
	want string
	err  error

	verified func() // called when the checksum is right; may be nil
}

func (c *verifyingReader) Read(p []byte) (int, error) {
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	if c.left == 0 {
		c.err = io.EOF
		return 0, c.verify()
	}
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	c.left -= int64(n)
	switch {
	case c.left < 0 || err == io.EOF && c.left > 0:
		return 0, c.damaged(err)
	case c.left == 0:
		if err := c.verify(); err != io.EOF {
			return 0, err
		}
		c.err = io.EOF
		return n, nil
	case err != nil:
		c.err = err
	}
	return n, err
}

// verify returns io.EOF if the checksum is right.
func (c *verifyingReader) verify() error {
	if hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		return c.damaged(nil)
	}
	if c.verified != nil {
		c.verified()
	}
	return io.EOF
}

func (c *verifyingReader) damaged(cause error) error {
	c.err = fault.Wrap(fault.Internal, cause, "The stored content is damaged")
	return c.err
}

// Close closes the content's reader.
func (c *verifyingReader) Close() error { return c.from.Close() }
