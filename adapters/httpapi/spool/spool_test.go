package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"collab/domain/fault"
	"collab/test/must"
)

// zeros implements io.Reader. It returns zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// unlimited are resources without limits.
type unlimited struct{}

func (unlimited) Hold(int64) error    { return nil }
func (unlimited) Release(int64)       {}
func (unlimited) HoldDisk(int64) bool { return true }

// diskLimit are resources without limits, except for free bytes of disk.
type diskLimit struct {
	unlimited
	free int64
}

func (r *diskLimit) HoldDisk(n int64) bool {
	if n > r.free {
		return false
	}
	r.free -= n
	return true
}

func TestSpoolRoundTrips(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, size := range []int{0, 1, BlockSize - 1, BlockSize, BlockSize + 1, 3*BlockSize + 7} {
		for name, pieces := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader, "with its end": iotest.DataErrReader} {
			t.Run(fmt.Sprintf("%d bytes %s", size, name), func(t *testing.T) {
				content := make([]byte, size)
				_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
				s := New(unlimited{})
				must.NoError(t, s.Fill(pieces(bytes.NewReader(content)), int64(size), nil))
				if inFile := s.file != nil; inFile != (size >= BlockSize) || s.Size != int64(size) {
					t.Errorf("%d bytes, in a file: %v", s.Size, inFile)
				}
				if named, err := filepath.Glob(os.Getenv("TMPDIR") + "/*"); err != nil || len(named) > 0 {
					t.Errorf("the file is not unlinked: %v %v", named, err)
				}
				if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes are read: %v", len(got), err)
				}
				must.Succeed(t, s.Close())
			})
		}
	}
	t.Run("too large", func(t *testing.T) {
		tooLarge := errors.New("too large")
		for _, limit := range []int64{0, 10, BlockSize, 2 * BlockSize} {
			s := New(unlimited{})
			if err := s.Fill(io.LimitReader(zeros{}, limit+1), limit, func() error { return tooLarge }); err != tooLarge {
				t.Errorf("%d: %v", limit, err)
			}
			_ = s.Close()
		}
	})
	t.Run("read error", func(t *testing.T) {
		broken := errors.New("broken")
		s := New(unlimited{})
		if err := s.Fill(io.MultiReader(io.LimitReader(zeros{}, 2*BlockSize), iotest.ErrReader(broken)), 1<<30, nil); err != broken {
			t.Errorf("%v", err)
		}
		_ = s.Close()
	})
	t.Run("no directory", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
		s := New(unlimited{})
		must.Fail(t, s.Fill(io.LimitReader(zeros{}, 2*BlockSize), 1<<30, nil), fault.Unavailable)
		_ = s.Close()
	})
}

func TestSpoolsShareADiskBudget(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := &diskLimit{free: 2 * BlockSize}
	first, second := New(r), New(r)
	must.NoError(t, first.Fill(io.LimitReader(zeros{}, 2*BlockSize), 1<<30, nil))
	must.Fail(t, second.Fill(io.LimitReader(zeros{}, BlockSize), 1<<30, nil), fault.Unavailable)
	must.Is(t, 0, r.free)
	_, _ = first.Close(), second.Close()
}
