// Package cache has the cache that use cases share.
package cache

import "sync"

// Cache is a cache of bounded weight in two generations, each of half of it. When the young
// generation is full it replaces the old one; Get moves an entry to the young generation, so
// an entry that is not read in the meantime is evicted. Methods may be called concurrently.
type Cache[K comparable, V any] struct {
	half   int
	weight func(K, V) int

	mu          sync.Mutex
	young       map[K]V // guarded by mu, as are those below
	old         map[K]V
	youngWeight int
}

// New returns an empty cache of entries whose weights are together at most maxWeight.
func New[K comparable, V any](maxWeight int, weight func(K, V) int) *Cache[K, V] {
	return &Cache[K, V]{half: maxWeight / 2, weight: weight, young: map[K]V{}}
}

// NewCounted returns an empty cache of at most maxEntries entries.
func NewCounted[K comparable, V any](maxEntries int) *Cache[K, V] {
	return New(maxEntries, func(K, V) int { return 1 })
}

// Get returns the value of a key; ok is false if there is none.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok = c.young[k]; ok {
		return v, true
	}
	if v, ok = c.old[k]; ok {
		delete(c.old, k)
		c.add(k, v)
	}
	return v, ok
}

// Put adds or replaces the value of a key.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(k, v)
}

// Remove removes the value of a key, if there is one.
func (c *Cache[K, V]) Remove(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.young[k]; ok {
		c.youngWeight -= c.weight(k, v)
	}
	delete(c.young, k)
	delete(c.old, k)
}

// add is Put for a caller that holds mu.
func (c *Cache[K, V]) add(k K, v V) {
	w := c.weight(k, v)
	if was, ok := c.young[k]; ok {
		c.youngWeight -= c.weight(k, was)
	}
	if c.youngWeight+w > c.half {
		c.young, c.old, c.youngWeight = make(map[K]V, len(c.young)), c.young, 0
	}
	c.young[k] = v
	c.youngWeight += w
}
