package objects

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/test/must"
)

// chunkReader returns content in reads of the sizes, and the rest in one.
type chunkReader struct {
	content []byte
	sizes   []int
	withEnd bool // the last bytes are returned with io.EOF
}

func (p *chunkReader) Read(b []byte) (int, error) {
	size := len(p.content)
	if len(p.sizes) > 0 {
		size, p.sizes = min(size, p.sizes[0]), p.sizes[1:]
	}
	n := copy(b, p.content[:size])
	p.content = p.content[n:]
	if len(p.content) == 0 && (n == 0 || p.withEnd) {
		return n, io.EOF
	}
	return n, nil
}

func readIn(t interface{ Fatal(...any) }, content []byte, sizes []int, withEnd bool) *uploadReader {
	in := New(Options{MaxSize: 1 << 20}).newUploadReader(&Upload{Content: &chunkReader{content, sizes, withEnd}})
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatal("read ", got, err)
	}
	return in
}

// isText reports whether the content that was read is text.
func isText(in *uploadReader) bool { return in.text && in.partialSize == 0 }

func TestTextIsDetectedAcrossSplitCharacters(t *testing.T) {
	parts := []string{"a", "é", "文", "👩", "\xff", "\xc3", "\xe6\x96", "\xf0\x9f\x91"}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				content := []byte(a + b + c)
				for i := range len(content) + 1 {
					for j := i; j <= len(content); j++ {
						if got, want := isText(readIn(t, content, []int{i, j - i}, true)), utf8.Valid(content); got != want {
							t.Fatalf("%q cut at %d and %d is text: %v", content, i, j, got)
						}
					}
				}
			}
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "文\xe6", "\xf0\x9f\x91\xa9", "\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80"} {
		f.Add([]byte(s), 1, 2)
	}
	f.Fuzz(func(t *testing.T, content []byte, a, b int) {
		if len(content) > 1<<20 || a < 0 || b < 0 {
			return
		}
		if got, want := isText(readIn(t, content, []int{a, b, 1, 1, 1}, a%2 == 0)), utf8.Valid(content); got != want {
			t.Fatalf("%q is text: %v", content, got)
		}
	})
}

// read reads stored content whose record has the size and checksum, through how(reader).
func read(stored string, size int64, checksum string, how func(io.Reader) io.Reader) (string, error) {
	c := &verifyingReader{from: io.NopCloser(how(strings.NewReader(stored))), left: size, sum: sha256.New(), want: checksum}
	got, err := io.ReadAll(c)
	if again, end := c.Read(make([]byte, 8)); again != 0 || end == nil {
		return "", io.ErrNoProgress
	}
	return string(got), err
}

func TestReadingDamagedContentFails(t *testing.T) {
	const content = "what was stored"
	for name, how := range map[string]func(io.Reader) io.Reader{
		"at once":              func(r io.Reader) io.Reader { return r },
		"byte by byte":         iotest.OneByteReader,
		"in halves":            iotest.HalfReader,
		"with the end at once": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(content, int64(len(content)), must.Sum(content), how); err != nil || got != content {
				t.Errorf("the right content is %q, %v", got, err)
			}
			if got, err := read("", 0, must.Sum(""), how); err != nil || got != "" {
				t.Errorf("no content is %q, %v", got, err)
			}
			for about, stored := range map[string]string{
				"a byte at the beginning differs": "What was stored",
				"a byte at the end differs":       "what was storeD",
				"the end is missing":              "what was store",
				"everything is missing":           "",
				"a byte is inserted":              "!" + content,
			} {
				got, err := read(stored, int64(len(content)), must.Sum(content), how)
				if !fault.Is(err, fault.Internal) || len(got) >= len(content) {
					t.Errorf("%s: %q, %v", about, got, err)
				}
			}
			// Bytes after the content are never returned.
			for _, c := range []string{"", content} {
				if got, err := read(c+"!", int64(len(c)), must.Sum(c), how); got != c && !fault.Is(err, fault.Internal) {
					t.Errorf("with more after it, %q is %q, %v", c, got, err)
				}
			}
		})
	}
	broken := func(r io.Reader) io.Reader {
		return io.MultiReader(io.LimitReader(r, 4), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	if got, err := read(content, int64(len(content)), must.Sum(content), broken); err != io.ErrUnexpectedEOF || got != "what" {
		t.Errorf("a failing reader: %q, %v", got, err)
	}
}
