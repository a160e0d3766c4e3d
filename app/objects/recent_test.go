package objects

import (
	"strings"
	"testing"
)

func TestWhatIsRememberedIsBounded(t *testing.T) {
	r := newRecent(1000, func(k int, v string) int { return len(v) })
	weight := func() (n int) {
		for _, one := range []map[int]string{r.young, r.old} {
			for _, v := range one {
				n += len(v)
			}
		}
		return n
	}
	r.put(0, "kept")
	for i := 1; i < 1000; i++ {
		r.put(i, strings.Repeat("x", i%50))
		r.put(i, strings.Repeat("y", i%49)) // in the place of the other
		if v, ok := r.get(0); !ok || v != "kept" {
			t.Fatalf("what is asked for all the time was forgotten after %d", i)
		}
		if v, ok := r.get(i); !ok || len(v) != i%49 {
			t.Fatalf("%d is %q, %v", i, v, ok)
		}
		if n := weight(); n > 1000 {
			t.Fatalf("%d bytes are remembered", n)
		}
	}
	if _, ok := r.get(500); ok {
		t.Error("what nobody asks for is still there")
	}
}
