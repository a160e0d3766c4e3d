package levenshtein_test

import (
	"testing"

	"collab/adapters/levenshtein"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"LISTN", "LISTEN", 1}, {"ab", "ba", 2}} {
		if got := levenshtein.Distance(c.a, c.b); got != c.want {
			t.Errorf("%q is %d from %q, want %d", c.a, got, c.b, c.want)
		}
	}
}
