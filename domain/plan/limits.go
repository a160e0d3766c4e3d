package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"collab/domain/fault"
	"collab/domain/object"
)

// StorageLimits are the most bytes that the content of an organisation's objects may have, by
// plan. A plan that is missing has no limit.
type StorageLimits map[Plan]int64

var units = []struct {
	suffix string
	size   int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}}

// ParseStorageLimits reads "FREE=10GiB,STANDARD=100GiB" with the units MiB, GiB and TiB, or
// "off".
func ParseStorageLimits(text string) (StorageLimits, error) {
	return parseLimits(text, "FREE=10GiB, of NO_PLAN, FREE, STANDARD, PREMIUM or ENTERPRISE, in MiB, GiB or TiB", parseSize)
}

// parseLimits reads limits by plan, or "off". Parse reports whether a text is a limit; want
// describes one in the error.
func parseLimits[L any](text, want string, parse func(string) (L, bool)) (map[Plan]L, error) {
	limits := map[Plan]L{}
	if text == "off" {
		return limits, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		p, known := Parse(name)
		_, duplicate := limits[p]
		limit, ok := parse(value)
		if !known || duplicate || !ok {
			return nil, fmt.Errorf("%q is not a limit such as %s", part, want)
		}
		limits[p] = limit
	}
	return limits, nil
}

// limitOf returns the limit of a plan, or Unlimited.
func limitOf(limits map[Plan]int64, p Plan) int64 {
	if limit, ok := limits[p]; ok {
		return limit
	}
	return Unlimited
}

// parseSize returns a number of bytes.
func parseSize(text string) (size int64, ok bool) {
	for _, unit := range units {
		if count, ok := strings.CutSuffix(text, unit.suffix); ok {
			if n, err := strconv.ParseInt(count, 10, 64); err == nil && n >= 1 && n <= 1<<20 {
				return n * unit.size, true
			}
		}
	}
	return 0, false
}

// Of returns the limit of a plan, or Unlimited.
func (l StorageLimits) Of(p Plan) int64 { return limitOf(l, p) }

// Check returns Forbidden if the plan does not allow content to grow by growth bytes.
func (l StorageLimits) Check(p Plan, used object.Usage, growth int64) error {
	limit := l.Of(p)
	if used.Allows(growth, limit) {
		return nil
	}
	size := strconv.FormatInt(limit, 10) + " bytes"
	for _, unit := range units {
		if limit > 0 && limit%unit.size == 0 {
			size = strconv.FormatInt(limit/unit.size, 10) + " " + unit.suffix
			break
		}
	}
	return fault.New(fault.Forbidden, "The organisation's plan %s allows at most %s of stored content, "+
		"and %d bytes are stored: delete content, or choose another plan", p, size, used.Present())
}

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

// ServerAllowance returns how many requests under a limit one server may admit before the others know: a
// tenth, at least 10.
func ServerAllowance(limit int64) int64 { return max(10, limit/10) }

// MinServerAllowance returns the smallest allowance of the limits, of which there must be one.
func (l RequestLimits) MinServerAllowance() int64 {
	return ServerAllowance(slices.Min(slices.Collect(maps.Values(l))))
}

// The most that may be kept of each object, so that what one write removes is bounded.
const (
	maxVersionDays = 3650
	maxVersions    = 1000
)

// VersionRetention is how many earlier versions of each object are kept, and for how long, by plan. A
// plan that is missing keeps none.
type VersionRetention map[Plan]object.Retention

// ParseVersionRetention reads "FREE=7d/10,STANDARD=30d/100", days and versions, with 0 for none, or
// "off".
func ParseVersionRetention(text string) (VersionRetention, error) {
	return parseLimits(text, "FREE=7d/10, of NO_PLAN, FREE, STANDARD, PREMIUM or ENTERPRISE, in days and versions, or FREE=0", parseRetention)
}

func parseRetention(text string) (r object.Retention, ok bool) {
	if text == "0" {
		return r, true
	}
	days, versions, _ := strings.Cut(text, "d/")
	var err, err2 error
	r.Days, err = strconv.Atoi(days)
	r.Versions, err2 = strconv.ParseInt(versions, 10, 64)
	return r, err == nil && err2 == nil && r.Days >= 1 && r.Days <= maxVersionDays && r.Versions >= 1 && r.Versions <= maxVersions
}

// Of returns the retention of a plan.
func (v VersionRetention) Of(p Plan) object.Retention { return v[p] }
