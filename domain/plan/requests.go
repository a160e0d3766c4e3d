package plan

import (
	"maps"
	"slices"
	"strconv"
)

// RequestLimits are how many requests the members of an organisation may send in a minute, by
// plan. A plan that is missing has no limit.
type RequestLimits map[Plan]int64

// ParseRequestLimits reads "FREE=600,STANDARD=6000", or "off".
func ParseRequestLimits(text string) (RequestLimits, error) {
	return parseLimits(text, "FREE=600, of NO_PLAN, FREE, STANDARD, PREMIUM or ENTERPRISE", func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && n >= 1 && n <= 1_000_000_000
	})
}

// Of returns the limit of a plan, or Unlimited.
func (l RequestLimits) Of(p Plan) int64 { return limitOf(l, p) }

// Lot returns how many requests under a limit one server may admit before the others know: a
// tenth, at least 10.
func Lot(limit int64) int64 { return max(10, limit/10) }

// LeastLot returns the smallest lot of the limits, of which there must be one.
func (l RequestLimits) LeastLot() int64 {
	return Lot(slices.Min(slices.Collect(maps.Values(l))))
}
