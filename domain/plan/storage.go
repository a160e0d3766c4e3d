package plan

import (
	"fmt"
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
		_, again := limits[p]
		limit, ok := parse(value)
		if !known || again || !ok {
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

// Check returns Forbidden if content may not grow by so many bytes on the plan.
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
	return fault.New(fault.Forbidden, "The organisation's plan %s allows at most %s of stored content, and %d bytes are stored: delete content, or choose another plan", p, size, used.Present())
}
