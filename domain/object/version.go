package object

import (
	"time"

	"collab/domain/id"
)

// EarlierVersion is an earlier version of an object: the record and the content that it had until its
// content was replaced or it was deleted. N is 0.
type EarlierVersion struct {
	Object
	EndedAt   time.Time // when it was replaced or deleted
	EndedBy   id.User   // empty: not a user
	Deleted   bool      // it is the last version of a deleted object
	ExpiresAt time.Time // from then on it is removed
}

// DeletedKey returns the position of a deleted object in lists of them: its storage key, and its
// id after a character that no path has, because several deleted objects may have had one path.
func (e EarlierVersion) DeletedKey() string { return e.StorageKey() + "\x01" + string(e.ID) }

// Retention is how many earlier versions of each object are kept, and for how long. The zero value
// keeps none.
type Retention struct {
	Days     int
	Versions int64
}

// Enabled reports whether any version is kept.
func (r Retention) Enabled() bool { return r.Days > 0 && r.Versions > 0 }

// Ended returns the earlier version that an object becomes which the user replaced or deleted at now.
func (r Retention) Ended(o Object, by id.User, now time.Time, deleted bool) EarlierVersion {
	o.N = 0
	return EarlierVersion{Object: o, EndedAt: now, EndedBy: by, Deleted: deleted, ExpiresAt: now.AddDate(0, 0, r.Days)}
}
