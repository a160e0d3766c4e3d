package cache

import (
	"strings"
	"testing"
)

func TestCacheIsBoundedAndKeepsUsedEntries(t *testing.T) {
	c := New(1000, func(k int, v string) int { return len(v) })
	weight := func() (n int) {
		for _, generation := range []map[int]string{c.young, c.old} {
			for _, v := range generation {
				n += len(v)
			}
		}
		return n
	}
	c.Put(0, "kept")
	for i := 1; i < 1000; i++ {
		c.Put(i, strings.Repeat("x", i%50))
		c.Put(i, strings.Repeat("y", i%49))
		if v, ok := c.Get(0); !ok || v != "kept" {
			t.Fatalf("a used entry was evicted after %d others", i)
		}
		if v, ok := c.Get(i); !ok || len(v) != i%49 {
			t.Fatalf("%d is %q, %v", i, v, ok)
		}
		if n := weight(); n > 1000 {
			t.Fatalf("%d bytes are cached", n)
		}
	}
	if _, ok := c.Get(500); ok {
		t.Error("an unused entry was not evicted")
	}
}
