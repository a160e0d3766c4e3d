package limit

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestHolderHasAtMostTheFreeBytes(t *testing.T) {
	b := NewBudget(100)
	if b.Take("a", 51) {
		t.Error("a holder has more than half")
	}
	if !b.Take("a", 30) || !b.Take("a", 20) || b.Take("a", 1) {
		t.Error("a holder alone does not have half")
	}
	for i, want := range []int64{25, 12, 6} {
		if holder := fmt.Sprint("b", i); b.Take(holder, want+1) || !b.Take(holder, want) {
			t.Errorf("holder %d does not have %d", i, want)
		}
	}
	if b.Used() != 93 || b.Refusals() != 5 {
		t.Errorf("%d used, %d refused", b.Used(), b.Refusals())
	}
	b.Give("a", 50)
	if !b.Take("b0", 1) || b.Used() != 44 {
		t.Errorf("%d used after Give", b.Used())
	}
}

func TestBudgetIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 1000).Draw(t, "size")
		b := NewBudget(size)
		accounts := make([]Account, 8)
		for i := range accounts {
			accounts[i] = Account{Budget: b, Holder: fmt.Sprint(i % 5)}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			a := &accounts[rapid.IntRange(0, len(accounts)-1).Draw(t, "account")]
			switch n := rapid.Int64Range(0, size).Draw(t, "bytes"); {
			case rapid.Bool().Draw(t, "close"):
				a.Close()
			case rapid.Bool().Draw(t, "give"):
				a.Give(min(n, a.taken))
			default:
				free, held := size-b.Used(), b.held[a.Holder]
				if took := a.Take(n); took != (held+n <= free-n) {
					t.Fatalf("%d more of %d free for a holder of %d: %t", n, free, held, took)
				}
			}
			if used := b.Used(); used < 0 || used > size {
				t.Fatalf("%d of %d are used", used, size)
			}
		}
		for i := range accounts {
			accounts[i].Close()
		}
		if b.Used() != 0 || len(b.held) != 0 {
			t.Fatalf("%d used, held by %v", b.Used(), b.held)
		}
	})
}
