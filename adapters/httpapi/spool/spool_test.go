package spool

import (
	"math/rand/v2"

	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"collab/domain/fault"
	"collab/test/must"
)

// zeros is a stream without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// resourcesOf counts what is held. Memory has no bound, and disk none where most is 0.
type resourcesOf struct{ memory, disk, most int64 }

func (r *resourcesOf) Hold(n int64) error { r.memory += n; return nil }
func (r *resourcesOf) Release(n int64)    { r.memory -= n }
func (r *resourcesOf) HoldDisk(n int64) bool {
	if r.most > 0 && r.disk+n > r.most {
		return false
	}
	r.disk += n
	return true
}

func TestSpoolRoundTrips(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, size := range []int{0, 1, BlockSize - 1, BlockSize, BlockSize + 1, 3*BlockSize + 7} {
		for name, pieces := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader, "with its end": iotest.DataErrReader} {
			t.Run(fmt.Sprintf("%d bytes %s", size, name), func(t *testing.T) {
				content := make([]byte, size)
				_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
				s := New(&resourcesOf{})
				must.NoError(t, s.Fill(pieces(bytes.NewReader(content)), int64(size), nil))
				if inFile := s.file != nil; inFile != (size >= BlockSize) || s.Size != int64(size) {
					t.Errorf("%d bytes, in a file: %v", s.Size, inFile)
				}
				left, err := filepath.Glob(os.Getenv("TMPDIR") + "/*")
				if err != nil || len(left) > 0 {
					t.Errorf("the file has a name: %v %v", left, err)
				}
				if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes came back: %v", len(got), err)
				}
				must.Succeed(t, s.Close())
			})
		}
	}
	t.Run("beyond the limit it says so", func(t *testing.T) {
		tooLarge := errors.New("too large")
		for _, limit := range []int64{0, 10, BlockSize, 2 * BlockSize} {
			s := New(&resourcesOf{})
			if err := s.Fill(io.LimitReader(zeros{}, limit+1), limit, func() error { return tooLarge }); err != tooLarge {
				t.Errorf("%d: %v", limit, err)
			}
			_ = s.Close()
		}
	})
	t.Run("what cannot be read says why", func(t *testing.T) {
		broken := errors.New("broken")
		s := New(&resourcesOf{})
		if err := s.Fill(io.MultiReader(io.LimitReader(zeros{}, 2*BlockSize), iotest.ErrReader(broken)), 1<<30, nil); err != broken {
			t.Errorf("%v", err)
		}
		_ = s.Close()
	})
	t.Run("without room for it the upload can be tried again", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nothing"))
		s := New(&resourcesOf{})
		must.Fail(t, s.Fill(io.LimitReader(zeros{}, 2*BlockSize), 1<<30, nil), fault.Unavailable)
		_ = s.Close()
	})
}

func TestSpoolsShareADiskBudget(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := &resourcesOf{most: 2 * BlockSize}
	fits, none := New(r), New(r)
	must.NoError(t, fits.Fill(io.LimitReader(zeros{}, 2*BlockSize), 1<<30, nil))
	must.Fail(t, none.Fill(io.LimitReader(zeros{}, BlockSize), 1<<30, nil), fault.Unavailable) // beyond the budget
	must.Is(t, 2*BlockSize, r.disk)
	_, _ = fits.Close(), none.Close()
}
