package bucket_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"collab/test/must"
)

// BenchmarkSmallFiles writes files of 4 KiB into one directory. Run it with TMPDIR on a disk.
func BenchmarkSmallFiles(b *testing.B) {
	store := openFiles(b)
	content := make([]byte, 4096)
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d writers", writers), func(b *testing.B) {
			b.SetParallelism(writers)
			b.RunParallel(func(p *testing.PB) {
				if writers == 1 {
					<-semaphore
					defer func() { semaphore <- struct{}{} }()
				}
				for p.Next() {
					name := "org/workspaces/w/artifacts/" + rand.Text() + "@1-x"
					if err := store.Put(context.Background(), name, "", int64(len(content)), bytes.NewReader(content)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// semaphore is held by the only writer of a file.
var semaphore = func() chan struct{} { c := make(chan struct{}, 1); c <- struct{}{}; return c }()

// BenchmarkBigFile compares Put with a loop that hashes, writes, syncs and renames.
func BenchmarkBigFile(b *testing.B) {
	const size = 100 << 20
	content := func() io.Reader { return io.LimitReader(zeros{}, size) }
	b.Run("bare", func(b *testing.B) {
		b.SetBytes(size)
		directory := b.TempDir()
		for i := range b.N {
			f := must.Do(os.Create(filepath.Join(directory, "new"))).Or(b)
			buffer := make([]byte, 256<<10)
			must.Do(io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{io.TeeReader(content(), sha256.New())}, buffer)).Or(b)
			must.NoError(b, f.Sync())
			must.NoError(b, f.Close())
			must.NoError(b, os.Rename(f.Name(), filepath.Join(directory, fmt.Sprint(i))))
		}
	})
	b.Run("Put", func(b *testing.B) {
		b.SetBytes(size)
		store := openFiles(b)
		for i := range b.N {
			r := io.TeeReader(content(), sha256.New())
			must.NoError(b, store.Put(context.Background(), fmt.Sprintf("org/shared/artifacts/x@%d-y", i), "", size, r))
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
