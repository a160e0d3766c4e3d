package accept

import (
	"maps"
	"strings"
	"testing"
)

func TestWeights(t *testing.T) {
	for header, want := range map[string]map[string]float64{
		"": {"": 1},
		"Text/HTML;charset=utf-8, */*;q=0.8, a/b;q=.5":   {"text/html": 1, "*/*": 0.8, "a/b": 0.5},
		"a/b;q=2, c/d;q=x, e/f;q=-1, g/h;q=NaN, i/j;q=0": {"a/b": 0, "c/d": 0, "e/f": 0, "g/h": 0, "i/j": 0},
		"x text/html": {"": 1},
		strings.Repeat(",", maxEntries-1) + "a/b": {"": 1, "a/b": 1},
		strings.Repeat(",", maxEntries) + "a/b":   {"": 1},
	} {
		if got := maps.Collect(Weights([]string{header})); !maps.Equal(got, want) {
			t.Errorf("%.40q: %v", header, got)
		}
	}
}

func TestGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip, deflate, br, zstd": true, "GZIP": true, "x-gzip": true, "*": true, "br;q=1, gzip;q=0.1": true, "gzip, *;q=0": true,
		"": false, "br": false, "gzip;q=0": false, "*, gzip;q=0": false, "gzip;q=x": false, "*;q=0": false, "identity": false,
	} {
		if got := Gzip([]string{header}); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}
