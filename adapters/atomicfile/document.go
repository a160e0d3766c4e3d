package atomicfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Document is a JSON document in memory and in a file, which no other process may use. It
// is safe for concurrent use.
type Document[T any] struct {
	path string

	mu    sync.Mutex
	value T
}

// OpenDocument reads the document at path and returns the error of check, or creates it
// with the value initial.
func OpenDocument[T any](path string, initial T, check func(T) error) (*Document[T], error) {
	d := &Document[T]{path: path}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		return d, d.store(initial)
	case err != nil:
		return nil, err
	}
	if err = json.Unmarshal(content, &d.value); err == nil {
		err = check(d.value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Read calls fn with the value, which fn must not retain. Changes by fn are stored with the
// next Update.
func (d *Document[T]) Read(fn func(*T)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn(&d.value)
}

// Update calls fn with a copy of the value, decoded from its JSON. If fn reports a change,
// the copy is stored and then becomes the value.
func (d *Document[T]) Update(fn func(*T) (changed bool, err error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := json.Marshal(d.value)
	if err != nil {
		return err
	}
	var next T
	if err := json.Unmarshal(content, &next); err != nil {
		return err
	}
	changed, err := fn(&next)
	if err != nil || !changed {
		return err
	}
	return d.store(next)
}

func (d *Document[T]) store(value T) error {
	content, err := json.Marshal(value)
	if err == nil {
		err = Replace(d.path, Content(content))
	}
	if err == nil {
		d.value = value
	}
	return err
}
