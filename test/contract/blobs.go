package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// blobFixture is the store of a sub-test, and names below a
// folder that is its own.
type blobFixture struct {
	*fixture
	ports.Blobs
	folder string
}

// name returns a name that no other sub-test has.
func (s *blobFixture) name(last string) string { return s.folder + last }

func (s *blobFixture) put(name, content string) {
	s.Helper()
	s.ok(s.Put(s.ctx, name, "text/plain", int64(len(content)), strings.NewReader(content)))
}

// read returns a part of a blob.
func (s *blobFixture) read(name string, offset, length int64) (string, error) {
	s.Helper()
	r, err := s.Open(s.ctx, name, offset, length)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	return string(content), errors.Join(err, r.Close())
}

// wantContent ends the sub-test unless the content is all that is under the name.
func (s *blobFixture) wantContent(name, content string) {
	s.Helper()
	got := must.Do(s.read(name, 0, -1)).Or(s)
	if got != content {
		s.Fatalf("%d bytes are under %q, want %d others", len(got), name, len(content))
	}
}

// wantAbsent ends the sub-test unless there is nothing under the name, in no way.
func (s *blobFixture) wantAbsent(name string) {
	s.Helper()
	resultOf(s.read(name, 0, -1)).wantNotFound(s.fixture)
	if _, listed := s.listed()[name]; listed {
		s.Fatalf("%q is in the list", name)
	}
}

// listed returns the sizes of the sub-test's own blobs by their names.
func (s *blobFixture) listed() map[string]int64 {
	s.Helper()
	all := map[string]int64{}
	s.ok(s.List(s.ctx, func(name string, size int64, written time.Time) error {
		if !strings.HasPrefix(name, s.folder) {
			return nil
		}
		if _, twice := all[name]; twice {
			return fmt.Errorf("%q is listed twice", name)
		}
		if since := time.Since(written); since < -time.Minute || since > time.Hour {
			return fmt.Errorf("%q was written at %v", name, written)
		}
		all[name] = size
		return nil
	}))
	return all
}

// names are such as paths of people lead to, and such as would confuse a store
// that takes parts of them for its own.
var names = []string{
	"profile.json@1-0198c0de", "a", "a/b", "a/b/c@1-x", "a@1-x/b@2-y", "@", "@@", "x@", "@/@", "Ünïcödé/名前 🦉.md@3-r",
	"a b/ c/d @1", "...", "..a/.b/c..d@1", "ends./with /dots.@1 ", "a+b&c=d?e#f%2Fg%@1", "100%", "%2e%2e/x", "!", "!40", "!@", "!+", "a!@", "a!+/b", "!new/x",
	"back\\slash", "\"quoted\" <b> |p* :c", "'; --", "[x]{y}~$z`^", "__0x40__", "a__0x2f__b/__0x2e__@1", "-rf", "~", "$HOME", "CON", "con.txt",
	"a.attrs", "x.tmp", ".well-known/acme-challenge/x", "0198c0de-0000-7000-8000-000000000000@1-r", "e\u0301", "\u00e9", "\u202e", "\ufeff",
	"A/Big", "a/big", strings.Repeat("ß", 127), strings.Repeat("%", 255) + "/" + strings.Repeat("!", 255), strings.Repeat("x", 240) + "@1-abcdef",
	strings.Repeat("@", 255) + "/" + strings.Repeat("@", 255), strings.Repeat("d/", 300) + "deep@1-x", strings.Repeat(strings.Repeat("名", 80)+"/", 3) + "x@1-r",
}

// Blobs is the suite of ports.Blobs. Open may return the same store each time.
func Blobs(t *testing.T, open func(t *testing.T) ports.Blobs) {
	failure := errors.New("no more content")
	random := func(n int) string {
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b) // never fails
		return string(b)
	}
	runSuite(t, map[string]func(s *blobFixture){
		"content of any length is returned as stored": func(s *blobFixture) {
			for i, n := range []int{0, 1, 511, 512, 32 << 10, 256<<10 - 1, 256 << 10, 256<<10 + 1, 5<<20 + 1, 9 << 20} {
				name, content := s.name(fmt.Sprintf("n@%d-x", i)), random(n)
				s.put(name, content)
				s.wantContent(name, content)
				wantEqual(s.fixture, s.listed()[name], int64(n))
			}
		},
		"the size is a hint": func(s *blobFixture) {
			for i, hint := range []int64{-1, 0, 1, 1 << 20, 1 << 40} {
				name, content := s.name(fmt.Sprintf("h@%d-x", i)), random(700_000)
				s.ok(s.Put(s.ctx, name, "", hint, strings.NewReader(content)))
				s.wantContent(name, content)
			}
		},
		"content may be read in pieces of any size": func(s *blobFixture) {
			content := random(5000)
			for i, r := range []io.Reader{
				iotest.OneByteReader(strings.NewReader(content)), iotest.HalfReader(strings.NewReader(content)),
				iotest.DataErrReader(strings.NewReader(content)), struct{ io.Reader }{strings.NewReader(content)},
			} {
				name := s.name(fmt.Sprintf("p@%d-x", i))
				s.ok(s.Put(s.ctx, name, "text/plain; charset=utf-8", -1, r))
				s.wantContent(name, content)
			}
		},
		"names may contain any characters of paths": func(s *blobFixture) {
			want := map[string]int64{}
			for i, name := range names {
				s.put(s.name(name), fmt.Sprint("content ", i))
				want[s.name(name)] = int64(len(fmt.Sprint("content ", i)))
			}
			for i, name := range names {
				s.wantContent(s.name(name), fmt.Sprint("content ", i))
			}
			wantEqual(s.fixture, s.listed(), want)
			for name := range want {
				s.ok(s.Remove(s.ctx, name))
				resultOf(s.read(name, 0, -1)).wantNotFound(s.fixture)
			}
			wantEqual(s.fixture, s.listed(), nil)
		},
		"a name has up to 1,024 bytes": func(s *blobFixture) {
			for i, part := range []string{"x", "%", "!", "@", "_", "é"} {
				name := s.name("")
				for len(name) < 1024 {
					name += strings.Repeat(part, (min(200, 1024-len(name))-1)/len(part)) + "/"
				}
				name = strings.ReplaceAll(name[:1022], "//", "xx") + fmt.Sprint("z", i)
				s.put(name, "long")
				s.wantContent(name, "long")
				wantEqual(s.fixture, s.listed()[name], 4)
				s.wantConflict(s.Put(s.ctx, name, "", 5, strings.NewReader("other")))
				s.ok(s.Remove(s.ctx, name))
				s.wantAbsent(name)
			}
		},
		"invalid names are refused": func(s *blobFixture) {
			for _, name := range []string{
				"", "/", "/a", "a/", "a//b", ".", "..", "../x", "a/../b", "a/.", "./a", "a\x00b", "a\nb", "\x7f", "\xff",
				strings.Repeat("x", 256), strings.Repeat("x/", 512) + "x",
			} {
				s.wantError(s.Put(s.ctx, name, "", 1, strings.NewReader("x")), fault.Invalid)
				s.wantError(must.ErrorOf(s.read(name, 0, -1)), fault.Invalid)
				s.wantError(s.Remove(s.ctx, name), fault.Invalid)
			}
			s.wantError(s.Put(s.ctx, s.name("x"), "no media type\r\n", 1, strings.NewReader("x")), fault.Invalid)
			s.wantAbsent(s.name("x"))
		},
		"a taken name is a conflict, and keeps its content": func(s *blobFixture) {
			name := s.name("t@1-x")
			s.put(name, "first")
			for _, other := range []string{"", "other", random(1 << 20)} {
				s.wantConflict(s.Put(s.ctx, name, "text/plain", int64(len(other)), strings.NewReader(other)))
				s.wantContent(name, "first")
			}
			wantEqual(s.fixture, s.listed(), map[string]int64{name: 5})
		},
		"of concurrent writes of one name one succeeds": func(s *blobFixture) {
			for _, size := range []int{10, 300_000} {
				name := s.name(fmt.Sprintf("deep/er/%d@1-x", size))
				winner := s.wantOneSuccess(concurrently(16, func(i int) error {
					return s.Put(s.ctx, name, "text/plain", int64(size), strings.NewReader(strings.Repeat(string(rune('a'+i)), size)))
				}), fault.Conflict)
				s.wantContent(name, strings.Repeat(string(rune('a'+winner)), size))
				wantEqual(s.fixture, s.listed()[name], int64(size))
			}
		},
		"different names are written concurrently": func(s *blobFixture) {
			s.allOK(concurrently(concurrent, func(i int) error {
				for n := range 5 {
					name := s.name(fmt.Sprintf("f%d/%d/x@%d-x", i%3, n, i))
					if err := s.Put(s.ctx, name, "text/plain", -1, strings.NewReader(name)); err != nil {
						return err
					}
				}
				return nil
			}))
			all := s.listed()
			wantEqual(s.fixture, len(all), 5*concurrent)
			for name := range all {
				s.wantContent(name, name)
			}
		},
		"an error of the reader is returned unchanged, and nothing is stored": func(s *blobFixture) {
			for i, before := range []int{0, 1, 300_000, 9 << 20} {
				conflict := fault.New(fault.Conflict, "Not now")
				for j, fails := range []error{failure, io.ErrUnexpectedEOF, conflict, context.Canceled} {
					if before > 1<<20 && j > 0 {
						continue // how much came before says more than what the error is
					}
					name := s.name(fmt.Sprintf("e@%d-%d", i, j))
					r := io.MultiReader(strings.NewReader(random(before)), iotest.ErrReader(fails))
					s.wantSameError(s.Put(s.ctx, name, "text/plain", int64(before)+1, r), fails)
					s.wantAbsent(name)
				}
			}
			name := s.name("e@0-0")
			s.put(name, "later")
			s.wantContent(name, "later")
		},
		"nothing is stored if the context ends during the write": func(s *blobFixture) {
			for i, before := range []int{0, 1, 300_000, 9 << 20} {
				name := s.name(fmt.Sprintf("c@%d-x", i))
				ctx, cancel := context.WithCancel(s.ctx)
				endless := io.MultiReader(strings.NewReader(random(before)), reader(func(p []byte) (int, error) {
					cancel()
					return len(p), nil
				}))
				if err := s.Put(ctx, name, "text/plain", -1, endless); !errors.Is(err, context.Canceled) {
					s.Fatalf("the error is %v", err)
				}
				s.wantAbsent(name)
			}
		},
		"an ended context has no effect": func(s *blobFixture) {
			kept, name := s.name("kept@1-x"), s.name("x@1-x")
			s.put(kept, "x")
			ctx, cancel := context.WithCancel(s.ctx)
			cancel()
			_, opened := s.Open(ctx, kept, 0, -1)
			listed := s.List(ctx, func(string, int64, time.Time) error { return errors.New("called") })
			for _, err := range []error{
				s.Put(ctx, name, "", 1, strings.NewReader("x")), opened, listed, s.Remove(ctx, kept), s.Ready(ctx),
			} {
				if !errors.Is(err, context.Canceled) {
					s.Fatalf("the error is %v", err)
				}
			}
			s.wantAbsent(name)
			s.wantContent(kept, "x")
		},
		"a reader may be closed early, and ends with its context": func(s *blobFixture) {
			name := s.name("r@1-x")
			s.put(name, random(4<<20))
			for _, n := range []int{0, 1, 100_000} {
				r := must.Do(s.Open(s.ctx, name, 0, -1)).Or(s.fixture)
				_, err := io.ReadFull(r, make([]byte, n))
				s.ok(errors.Join(err, r.Close()))
			}
			ctx, cancel := context.WithCancel(s.ctx)
			r := must.Do(s.Open(ctx, name, 0, -1)).Or(s.fixture)
			must.Do(io.ReadFull(r, make([]byte, 10))).Or(s.fixture)
			cancel()
			if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
				s.Fatalf("the error is %v", err)
			}
			s.ok(r.Close())
		},
		"any part can be read": func(s *blobFixture) {
			for i, content := range []string{"", "x", "0123456789", random(300_000)} {
				name := s.name(fmt.Sprintf("part@%d-x", i))
				s.put(name, content)
				n := int64(len(content))
				for _, offset := range []int64{0, 1, 2, n / 2, n - 1, n, n + 1, n + 1<<40} {
					for _, length := range []int64{-1, 0, 1, 2, n / 2, n, n + 1, math.MaxInt64} {
						if offset < 0 {
							continue
						}
						from := min(offset, n)
						to := n
						if length >= 0 {
							to = from + min(n-from, length)
						}
						if got := must.Do(s.read(name, offset, length)).Or(s); got != content[from:to] {
							s.Fatalf("%d bytes from %d of %d are %d others", length, offset, n, len(got))
						}
					}
				}
				s.wantError(must.ErrorOf(s.read(name, -1, 1)), fault.Invalid)
			}
		},
		"a name without content is not found": func(s *blobFixture) {
			s.put(s.name("folder/x@1-x"), "x")
			for _, name := range []string{"folder", "folder/x", "folder/x@1-x/y", "folder/x@1-y", "other", "Folder/x@1-x"} {
				for _, length := range []int64{-1, 0, 1} {
					resultOf(s.read(s.name(name), 0, length)).wantNotFound(s.fixture)
					resultOf(s.read(s.name(name), 5, length)).wantNotFound(s.fixture)
				}
			}
		},
		"remove frees the name, and a missing one is no error": func(s *blobFixture) {
			name, other := s.name("a/b/c@1-x"), s.name("a/d@1-x")
			s.put(name, "x")
			s.put(other, "y")
			for range 2 {
				s.ok(s.Remove(s.ctx, name))
				s.wantAbsent(name)
			}
			s.ok(s.Remove(s.ctx, s.name("never/was@1-x")))
			s.ok(s.Remove(s.ctx, s.name("a")))
			s.put(name, "again")
			s.wantContent(name, "again")
			s.wantContent(other, "y")
		},
		"a read during a removal is complete or fails": func(s *blobFixture) {
			name, content := s.name("r@1-x"), random(3<<20)
			s.put(name, content)
			r := must.Do(s.Open(s.ctx, name, 0, -1)).Or(s.fixture)
			head := make([]byte, 10)
			must.Do(io.ReadFull(r, head)).Or(s.fixture)
			s.ok(s.Remove(s.ctx, name))
			rest, err := io.ReadAll(r)
			if err == nil && string(head)+string(rest) != content {
				s.Fatalf("%d bytes of %d were read without an error", len(head)+len(rest), len(content))
			}
			s.ok(r.Close())
		},
		"concurrent writes and removals in one folder lose nothing": func(s *blobFixture) {
			s.allOK(concurrently(8, func(i int) error {
				for n := range 12 {
					name := s.name(fmt.Sprintf("folder/%d/in/x@%d-%d", n%2, n, i))
					if err := s.Put(s.ctx, name, "", 1, strings.NewReader("x")); err != nil {
						return err
					}
					if r, err := s.Open(s.ctx, name, 0, -1); err != nil {
						return err
					} else if err := r.Close(); err != nil {
						return err
					}
					if err := s.Remove(s.ctx, name); err != nil {
						return err
					}
				}
				return nil
			}))
			wantEqual(s.fixture, len(s.listed()), 0)
		},
		"a list during writes has all earlier names": func(s *blobFixture) {
			want := map[string]int64{}
			for i := range 50 {
				name := s.name(fmt.Sprintf("%d/old@%d-x", i%5, i))
				s.put(name, "old")
				want[name] = 3
			}
			ctx, cancel := context.WithCancel(s.ctx)
			written := make(chan error)
			go func() {
				for n := 0; ; n++ {
					name := s.name(fmt.Sprintf("%d/new@%d-x", n%7, n))
					err := s.Put(ctx, name, "", 3, strings.NewReader("new"))
					if err == nil && n%2 == 0 {
						err = s.Remove(ctx, name)
					}
					if err != nil {
						written <- err
						return
					}
				}
			}()
			for range 5 {
				got := s.listed()
				maps.DeleteFunc(got, func(name string, _ int64) bool { return strings.Contains(name, "/new@") })
				wantEqual(s.fixture, got, want)
			}
			cancel()
			if err := <-written; !errors.Is(err, context.Canceled) {
				s.Fatal(err)
			}
		},
		"an incomplete write is in no list": func(s *blobFixture) {
			name := s.name("w@1-x")
			began, end := make(chan struct{}), make(chan struct{})
			r := io.MultiReader(strings.NewReader(random(9<<20)), reader(func([]byte) (int, error) {
				close(began)
				<-end
				return 0, io.EOF
			}))
			put := make(chan error)
			go func() { put <- s.Put(s.ctx, name, "", -1, r) }()
			<-began
			s.wantAbsent(name)
			close(end)
			s.ok(<-put)
			wantEqual(s.fixture, s.listed()[name], 9<<20)
		},
		"an error of each ends the list and is returned unchanged": func(s *blobFixture) {
			for i := range 3 {
				s.put(s.name(fmt.Sprintf("l@%d-x", i)), "x")
			}
			wantStop(s.fixture, func(each func(string) error) error {
				return s.List(s.ctx, func(name string, _ int64, _ time.Time) error { return each(name) })
			})
		},
		"blobs may be removed during a list": func(s *blobFixture) {
			for i := range 20 {
				s.put(s.name(fmt.Sprintf("%d/l@%d-x", i%4, i)), "x")
			}
			s.ok(s.List(s.ctx, func(name string, _ int64, _ time.Time) error {
				if !strings.HasPrefix(name, s.folder) {
					return nil
				}
				return s.Remove(s.ctx, name)
			}))
			wantEqual(s.fixture, len(s.listed()), 0)
		},
		"arguments and results belong to the caller": func(s *blobFixture) {
			name, content := s.name("mine@1-x"), bytes.Repeat([]byte("abc"), 1000)
			in := bytes.NewReader(content)
			s.ok(s.Put(s.ctx, name, "", int64(len(content)), reader(func(p []byte) (int, error) {
				n, err := in.Read(p[:len(p)/2+1])
				clear(p[n:]) // a reader may use all of what it is given
				return n, err
			})))
			clear(content)
			got := []byte(must.Do(s.read(name, 0, -1)).Or(s))
			r := must.Do(s.Open(s.ctx, name, 0, -1)).Or(s.fixture)
			handed := make([]byte, 10)
			must.Do(io.ReadFull(r, handed)).Or(s.fixture)
			clear(handed)
			s.ok(r.Close())
			clear(got)
			s.wantContent(name, strings.Repeat("abc", 1000))
		},
		"a store that answers is ready": func(s *blobFixture) { s.ok(s.Ready(s.ctx)) },
	}, func(t *testing.T) *blobFixture {
		t.Parallel()
		return newBlobFixture(t, open(t))
	})
}

// newBlobFixture returns a fixture with a folder of its own.
func newBlobFixture(t *testing.T, b ports.Blobs) *blobFixture {
	return &blobFixture{&fixture{T: t, ctx: t.Context()}, b, string(fresh[id.Org]()) + "/shared/"}
}

// BoundedBlobs is the suite of what a store that is elsewhere holds here: it
// must run alone, as it looks at the memory of the whole process. No more is held of
// each call than PutMemory says, beside 4 MiB.
func BoundedBlobs(t *testing.T, open func(t *testing.T) ports.Blobs) {
	const size = 64 << 20
	s := newBlobFixture(t, open(t))
	most := s.PutMemory(size) + 4<<20
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	// The first call makes connections and tables that stay.
	s.put(s.name("first@1-x"), "x")
	s.wantContent(s.name("first@1-x"), "x")

	var before, peak int64
	look := func(n int) {
		if n%(4<<20) == 0 {
			peak = max(peak, held()-before)
		}
	}
	piece := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for _, hint := range []int64{size, -1} {
		name := s.name(fmt.Sprintf("big@%d-x", hint))
		t.Run(fmt.Sprintf("what is written with the hint %d is not held", hint), func(t *testing.T) {
			before, peak = held(), 0
			sent := 0
			s.ok(s.Put(s.ctx, name, "application/octet-stream", hint, reader(func(p []byte) (int, error) {
				if sent == size {
					return 0, io.EOF
				}
				n := copy(p, piece[sent%len(piece):])
				sent += n
				look(sent)
				return n, nil
			})))
			if t.Logf("at most %d KiB are held", peak>>10); peak > most {
				t.Errorf("%d bytes are held", peak)
			}
		})
		t.Run(fmt.Sprintf("what is read after the hint %d is not held", hint), func(t *testing.T) {
			before, peak = held(), 0
			r := must.Do(s.Open(s.ctx, name, 0, -1)).Or(s.fixture)
			defer r.Close()
			got, buffer := 0, make([]byte, len(piece))
			for {
				n, err := io.ReadFull(r, buffer)
				if !bytes.Equal(buffer[:n], piece[:n]) {
					t.Fatalf("other bytes come after %d", got)
				}
				got += n
				if err == io.EOF {
					break
				}
				s.ok(err)
				look(got)
			}
			if t.Logf("at most %d KiB are held", peak>>10); peak > most || got != size {
				t.Errorf("%d bytes were read, and %d held", got, peak)
			}
		})
	}
}

// reader is a function as an io.Reader.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
