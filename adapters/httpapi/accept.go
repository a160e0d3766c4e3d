package httpapi

import "collab/adapters/accept"

// weightOf returns the weight of the entry that names a media type, 0 if none does.
func weightOf(header []string, media string) (weight float64) {
	for name, w := range accept.Weights(header) {
		if name == media {
			weight = max(weight, w)
		}
	}
	return weight
}

// prefersPage reports whether the Accept header prefers text/html to JSON.
func (c *call) prefersPage() bool {
	header := c.r.Header["Accept"]
	page := weightOf(header, "text/html")
	return page > 0 && page >= weightOf(header, "application/json")
}
