package release

import (
	"cmp"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
)

// CheckCount counts the checks of one day by devices of one target at one version.
type CheckCount struct {
	Day calendar.Day
	Target
	Version string // in its full form without build metadata; OtherVersions for those that are not counted one by one
	Checks  int64
	Offered int64 // checks to which an update was offered
}

// Compare orders counts by day, target and version, which no two stored ones share.
func (t CheckCount) Compare(o CheckCount) int {
	return cmp.Or(cmp.Compare(t.Day, o.Day), t.Target.Compare(o.Target), cmp.Compare(t.Version, o.Version))
}

// OtherVersions is the version under which uncounted versions are summed.
const OtherVersions = "other"

// MaxUnknown is how many versions without a release a server counts one by one on
// a day: devices may send any.
const MaxUnknown = 200

// Retention is how long counts are kept.
const Retention = 400 * 24 * time.Hour

// BusOrg is the organisation id of releases' changes on the bus. No organisation has
// it.
const BusOrg id.Org = "00000000-0000-0000-0000-000000000000"
