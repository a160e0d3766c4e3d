// Package identity has the contents of the identity provider's tokens and events, and the
// order of its messages.
package identity

import (
	"cmp"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"collab/domain/id"
)

// Claims are the verified contents of an identity token. Texts that the token
// does not carry are empty.
type Claims struct {
	Subject   string // the provider's user id, never empty
	Org       string // the provider's organisation id; empty: no organisation
	OrgRole   string // the provider's name of the role, as sent
	OrgSlug   string
	Name      string
	Email     string
	AvatarURL string
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Leeway is how far the provider's clock may be off ours: a token is accepted for so
// long before it was issued and after it has expired.
const Leeway = time.Minute

// Stamp orders the provider's messages about one record. Messages come late,
// twice and in any order; the record keeps the stamp of the latest one that it
// reflects, and only a later one changes it.
type Stamp struct {
	At      time.Time // the record's update time at the provider, else the message's own time
	Rank    int       // orders messages of the same instant: RankCreated, RankUpdated, …
	Message string    // the message's id, which decides between otherwise equal ones
}

// Ranks of messages with the same instant.
const (
	RankCreated = 1
	RankUpdated = 2
	RankEnded   = 3 // deleted, removed, accepted, revoked
	RankLocal   = 9 // decided by this service, so that only a strictly later message changes it
)

// Before reports whether a record that reflects s is older than o.
func (s Stamp) Before(o Stamp) bool {
	return cmp.Or(s.At.Compare(o.At), cmp.Compare(s.Rank, o.Rank), cmp.Compare(s.Message, o.Message)) < 0
}

// IsZero reports whether no message was seen yet.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Kind is the kind of an event.
type Kind uint8

// The kinds of event. Other is any type without an effect.
const (
	Other Kind = iota
	UserChanged
	UserDeleted
	OrgChanged
	OrgDeleted
	MemberChanged
	MemberRemoved
	InvitationCreated
	InvitationAccepted
	InvitationRevoked
)

// Event is one verified message of the provider. Which of the parts are set
// follows from Kind: memberships come with their user and organisation,
// invitations with their organisation's id at least.
type Event struct {
	Message string // the message's id, the key of the inbox
	Kind    Kind
	Stamp   Stamp

	User       UserData
	Org        OrgData
	Member     MemberData
	Invitation InvitationData
}

// UserData are the contents of a message about a user.
type UserData struct {
	ProviderID string
	Name       string
	Email      string
	AvatarURL  string
	Blocked    bool // banned or locked; set only by events about the user itself
}

// Texts returns the name, the e-mail address and the picture's address.
func (f UserData) Texts() [3]string { return [3]string{f.Name, f.Email, f.AvatarURL} }

// OrgData are the contents of a message about an organisation. Stamp is the embedded
// organisation's own if the message is about something else.
type OrgData struct {
	ProviderID string
	Name       string
	Slug       string
	CreatedBy  string // the provider's id of the user who made it; empty: not in the message
	Stamp      Stamp
}

// MemberData are the contents of a message about a membership.
type MemberData struct {
	Role     string    // the provider's name of the role
	JoinedAt time.Time // zero: not in the message
	EndedAt  time.Time // of a removal: the message's own time, because the record's stays as it was before
}

// InvitationData are the contents of a message about an invitation.
type InvitationData struct {
	ProviderID string
	Email      string
	Role       string // the provider's name of the role
	InvitedBy  string // the provider's id of the inviter; empty: not in the message
}

// FoldEmail returns the form in which e-mail addresses are compared: without regard to case and Unicode composition.
func FoldEmail(email string) string {
	decomposed := norm.NFD.String(strings.TrimSpace(email)) // the lower case of İ alone is i, which is another letter
	return norm.NFC.String(strings.ToLower(decomposed))
}

// Flow is the state of a sign-in while the browser is at the provider. It is stored in a
// sealed cookie.
type Flow struct {
	Port     int        // the command line's local port; 0 for a device and a browser
	State    string     // the command line's state, returned unchanged
	Browser  bool       // the browser itself is signed in, by a session of its own
	Path     string     // where the browser that is signed in goes next
	Former   id.Session // the session of the browser that the new one replaces; empty if none is known
	UserCode string     // the user code of the device that is signed in; empty for a command line
	Own      string     // our own state, which the provider returns
	Nonce    string
	Verifier string // PKCE
	Expires  time.Time
}

// Return has the parameters of the provider's redirect back to us.
type Return struct {
	Code    string // authorization code, if the provider uses codes
	State   string
	Issuer  string // the iss parameter of RFC 9207, empty when absent
	Error   string // the provider's error code, empty when there is none
	Session string // the provider's session cookie, if it uses session cookies
}
