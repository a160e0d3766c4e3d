package access

import "sync"

// cache is a cache of at most 2*size entries in two generations. When the young generation
// is full it replaces the old one; get copies an entry to the young generation, so an entry
// that is not read in the meantime is evicted.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	size  int
	young map[K]V
	old   map[K]V
}

func newCache[K comparable, V any](size int) *cache[K, V] {
	return &cache[K, V]{size: size, young: map[K]V{}}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.young[k]
	if !ok {
		if v, ok = c.old[k]; ok {
			c.add(k, v)
		}
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(k, v)
}

func (c *cache[K, V]) add(k K, v V) {
	if len(c.young) >= c.size {
		c.young, c.old = make(map[K]V, c.size), c.young
	}
	c.young[k] = v
}
