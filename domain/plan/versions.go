package plan

import (
	"strconv"
	"strings"

	"collab/domain/object"
)

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
