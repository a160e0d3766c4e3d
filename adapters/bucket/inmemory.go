package bucket

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// inMemory keeps objects in this process.
type inMemory struct {
	mu      sync.Mutex
	objects map[string]memoryObject // by key
}

type memoryObject struct {
	content  []byte
	metadata map[string]string
	written  time.Time
}

// get returns the object of a key, or NotFound.
func (m *inMemory) get(key string) (memoryObject, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, found := m.objects[key]
	if !found {
		return object, notFound(nil)
	}
	return object, nil
}

func (m *inMemory) put(_ context.Context, key string, r io.Reader, u upload) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.objects[key]; found {
		return conflict(nil)
	}
	m.objects[key] = memoryObject{content, u.metadata, time.Now()}
	return nil
}

// memory returns 0: the content is in memory before and after put.
func (m *inMemory) memory(int64, int) int64 { return 0 }

func (m *inMemory) open(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	object, err := m.get(key)
	part := object.content[min(offset, int64(len(object.content))):]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return io.NopCloser(bytes.NewReader(part)), err
}

func (m *inMemory) stat(_ context.Context, key string) (stat, error) {
	object, err := m.get(key)
	return stat{metadata: object.metadata, size: int64(len(object.content))}, err
}

func (m *inMemory) remove(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

func (m *inMemory) list(_ context.Context, prefix string, _ int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		m.mu.Lock()
		objects := maps.Clone(m.objects)
		m.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			object := objects[key]
			if strings.HasPrefix(key, prefix) && !yield(entry{key, int64(len(object.content)), object.written}, nil) {
				return
			}
		}
	}
}

func (m *inMemory) close() error { return nil }
