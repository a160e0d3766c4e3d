package object

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
)

// ChangeType is the type of a change.
type ChangeType string

// The types. AccessChanged has no object: from this entry on its audience sees
// another set of objects, so clients that follow the log must read all objects
// again.
const (
	Changed       ChangeType = "file-changed"
	Deleted       ChangeType = "file-deleted"
	AccessChanged ChangeType = "access-changed"
)

// Change is one entry of an organisation's log.
type Change struct {
	N      int64 // its number: one more than the entry's before it
	Type   ChangeType
	Object Object // as it is after the change, of a deletion as it was before
	// FromPath is the path that a moved object had before; empty: the change is not a move.
	FromPath string
	By       id.User // empty: not a user
	At       time.Time
	// Audience are the members who receive the change, if that does not follow from the object.
	Audience *Audience
}

// Audience is a set of members.
type Audience struct {
	Everyone bool
	Managers bool      // owners and admins of the organisation
	Teams    []id.Team // members who see one of them when the change is read
	Users    []id.User
}

// Includes reports whether the actor belongs to the audience.
func (a Audience) Includes(actor org.Actor) bool {
	return a.Everyone || a.Managers && actor.Role.MayManage() || slices.ContainsFunc(a.Teams, actor.SeesTeam) || slices.Contains(a.Users, actor.User)
}

// NewChange returns the change for an object that was just stored.
func NewChange(o Object) Change {
	return Change{Type: Changed, Object: o, By: o.UpdatedBy, At: o.UpdatedAt}
}

// Replacement is the next content of a stored object, with the state in which it replaces the previous one.
type Replacement struct {
	Change   Change  // NewChange's of the object with the next content
	Previous Content // of the object
	Epoch    int64   // of the organisation
	Limit    int64   // of all its content, earlier versions included, in bytes; negative: none
	Keep     Retention
}

// MaxUsed returns the most content that the organisation may have before the replacement, in bytes.
func (r Replacement) MaxUsed() int64 {
	growth := r.Change.Object.Size
	if !r.Keep.Enabled() {
		growth -= r.Previous.Size
	}
	if growth <= 0 || r.Limit < 0 {
		return math.MaxInt64
	}
	return r.Limit - growth
}

// NewMove returns the change for an object that was just moved from a path.
func NewMove(o Object, fromPath string) Change {
	c := NewChange(o)
	c.FromPath = fromPath
	return c
}

// FromKey returns the storage key that a moved object had before.
func (c Change) FromKey() string { return c.Object.keyPrefix(c.Object.Org) + c.FromPath }

// NewDeletion returns the change for a deleted object. The audience is nil if the
// object's place cannot be deleted.
func NewDeletion(o Object, by id.User, now time.Time, a *Audience) Change {
	return Change{Type: Deleted, Object: o, By: by, At: now, Audience: a}
}

// NewAccessChange returns the entry that tells an audience to read all objects again,
// because what it sees has changed.
func NewAccessChange(a Audience, by id.User, now time.Time) Change {
	return Change{Type: AccessChanged, By: by, At: now, Audience: &a}
}

// MembershipChange returns the entry that a changed role or a return of a member needs;
// ok is false if what they see is the same.
func MembershipChange(previous, current org.Membership, by id.User, now time.Time) (c Change, ok bool) {
	if !current.Active() || previous.Active() && previous.Role.MayManage() == current.Role.MayManage() {
		return Change{}, false
	}
	return NewAccessChange(Audience{Users: []id.User{current.User}}, by, now), true
}

// TeamAudience returns the audience of a team's objects, without the members
// that were added to the team.
func TeamAudience(t team.Team) Audience {
	a := Audience{Everyone: t.Kind == team.Shared, Managers: t.Kind != team.Personal}
	if t.Kind == team.Personal {
		a.Users = []id.User{t.CreatedBy} // also while no record says that they belong to it
	}
	return a
}

// VisibleTo reports whether the actor, of the same organisation, receives the
// change. Changes of a personal object are visible to its owner alone.
func (c Change) VisibleTo(a org.Actor) bool {
	if c.Audience != nil && (c.Type == AccessChanged || c.Object.Scope != Personal) {
		return c.Audience.Includes(a)
	}
	return c.Object.VisibleTo(a)
}

// Head is the state of an organisation's log, which has the entries above Floor up to N.
type Head struct {
	Epoch int64 // changed when the log is restored from a backup
	N     int64
	Floor int64
}

// Cursor returns the place after the last entry.
func (h Head) Cursor() Cursor { return Cursor{h.Epoch, h.N} }

// Reaches reports whether the log has every entry after the cursor.
func (h Head) Reaches(c Cursor) bool { return c.Epoch == h.Epoch && h.Floor <= c.N && c.N <= h.N }

// Cursor is a place in an organisation's log: after the entry N.
type Cursor struct {
	Epoch int64
	N     int64
}

// String writes the cursor as clients keep it.
func (c Cursor) String() string {
	return strconv.FormatInt(c.Epoch, 10) + "-" + strconv.FormatInt(c.N, 10)
}

// ParseCursor parses the result of String, and nothing else.
func ParseCursor(s string) (Cursor, bool) {
	if len(s) > 40 {
		return Cursor{}, false
	}
	epoch, n, _ := strings.Cut(s, "-")
	var c Cursor
	var err error
	if c.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return Cursor{}, false
	}
	if c.N, err = strconv.ParseInt(n, 10, 64); err != nil || c.Epoch < 0 || c.N < 0 || c.String() != s {
		return Cursor{}, false
	}
	return c, true
}

// Hint says that the last number of an organisation's log is N.
type Hint struct {
	Org id.Org
	N   int64
}

// Blob is the name of a blob that no object has: it is being written, or is to be removed.
type Blob struct {
	Org       id.Org
	Name      string
	Discarded bool      // to be removed
	At        time.Time // since when
	Size      int64     // declared by an upload to the store, in bytes; else 0
}

// BlobContent is a small content to write as the blob of a name.
type BlobContent struct {
	Name     string
	MimeType string
	Content  []byte
}

// BlobGracePeriod is how long a blob that no object has is kept, so that downloads and uploads of it
// can end.
const BlobGracePeriod = 24 * time.Hour

// Address is where a client sends the content of a blob, at its store: with the method PUT and
// the headers.
type Address struct {
	URL     string
	Headers map[string]string
}
