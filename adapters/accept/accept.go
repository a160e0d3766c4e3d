// Package accept reads the headers in which clients say what they accept. It is a leaf: it
// imports the standard library alone.
package accept

import (
	"iter"
	"mime"
	"strconv"
	"strings"
)

// maxEntries is how many entries of a header have an effect. Browsers send fewer than ten; 64 KiB of them took 13 ms.
const maxEntries = 100

// Weights returns the first entries of an Accept or Accept-Encoding header, without parameters,
// and their weights between 0 and 1 (RFC 9110, section 12.4.2). An entry that cannot be read
// has no name, and an invalid weight is 0.
func Weights(header []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		left := maxEntries
		for one := range strings.SplitSeq(strings.Join(header, ","), ",") {
			if left--; left < 0 {
				return
			}
			name, params, _ := mime.ParseMediaType(one)
			weight := 1.0
			if q, given := params["q"]; given {
				if weight, _ = strconv.ParseFloat(q, 64); !(weight >= 0 && weight <= 1) {
					weight = 0
				}
			}
			if !yield(name, weight) {
				return
			}
		}
	}
}

// Gzip reports whether an Accept-Encoding header accepts gzip.
func Gzip(header []string) (accepted bool) {
	for coding, weight := range Weights(header) {
		switch coding {
		case "gzip", "x-gzip":
			return weight > 0
		case "*":
			accepted = weight > 0
		}
	}
	return accepted
}
