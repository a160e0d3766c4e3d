package cached_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"collab/test/cached"
)

func TestFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := cached.Directory("x", func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "part"), nil, 0o600), errors.New("no more"))
	}); err == nil {
		t.Fatal("a directory that was not filled is there")
	}
	var filled atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			path, err := cached.Directory("x", func(dir string) error {
				filled.Add(1)
				return os.WriteFile(filepath.Join(dir, "whole"), []byte("content"), 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			files, err := os.ReadDir(path)
			if err != nil || len(files) != 1 || files[0].Name() != "whole" {
				t.Errorf("the directory holds %v, %v", files, err)
			}
		})
	}
	all.Wait()
	if filled.Load() != 1 {
		t.Errorf("it was filled %d times", filled.Load())
	}
}
