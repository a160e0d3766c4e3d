package httpapi

import (
	"iter"
	"mime"
	"strconv"
	"strings"
)

// maxWeights is how many entries of a header have an effect. Browsers send fewer than ten; 64 KiB of them took 13 ms.
const maxWeights = 100

// weights returns the first entries of an Accept or Accept-Encoding header, without parameters,
// and their weights between 0 and 1 (RFC 9110, section 12.4.2). An entry that cannot be read
// has no name, and an invalid weight is 0.
func weights(header []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		left := maxWeights
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

// weightOf returns the weight of the entry that names a media type, 0 if none does.
func weightOf(header []string, media string) (weight float64) {
	for name, w := range weights(header) {
		if name == media {
			weight = max(weight, w)
		}
	}
	return weight
}

// prefersPage reports whether the Accept header prefers text/html to JSON.
func (c *call) prefersPage() bool {
	accept := c.r.Header["Accept"]
	page := weightOf(accept, "text/html")
	return page > 0 && page >= weightOf(accept, "application/json")
}
