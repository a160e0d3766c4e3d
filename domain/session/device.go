package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/domain/replay"
)

// Times of device grants.
const (
	// DeviceLifetime is how long the sign-in of a device may take, from its start.
	DeviceLifetime = 10 * time.Minute
	// DeviceInterval is the least time between two polls at first, and what each poll that
	// is too early adds to it.
	DeviceInterval = 5 * time.Second

	deviceLeeway = time.Second // how much earlier a poll may arrive than it is allowed
	deviceRepeat = time.Minute // how long after its sign-in a device may ask for its token again
)

// User codes are of letters that form no words and are not mistaken for each other (RFC 8628,
// section 6.1): 34 bits.
const (
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// NewUserCode returns the user code that follows from a secret.
func NewUserCode(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	n, code := binary.BigEndian.Uint64(sum[:]), make([]byte, userCodeLength)
	for i := range code {
		code[i] = userCodeLetters[n%uint64(len(userCodeLetters))]
		n /= uint64(len(userCodeLetters))
	}
	return string(code)
}

// ParseUserCode returns the user code that a person typed, without regard to case, dashes and
// spaces; ok is false if it cannot be one.
func ParseUserCode(text string) (code string, ok bool) {
	code = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(text))
	return code, len(code) == userCodeLength && strings.Trim(code, userCodeLetters) == ""
}

// FormatUserCode returns a user code as it is shown.
func FormatUserCode(code string) string {
	return code[:userCodeLength/2] + "-" + code[userCodeLength/2:]
}

// DeviceStatus is the state of a device grant.
type DeviceStatus string

const (
	DevicePending  DeviceStatus = "pending"
	DeviceApproved DeviceStatus = "approved"
	DeviceDenied   DeviceStatus = "denied"
	DeviceClaimed  DeviceStatus = "claimed" // the device has its token
)

// DeviceRefusal is the error of a poll that yields no token: an error code of RFC 8628, section
// 3.5, or of RFC 6749, section 5.2.
type DeviceRefusal string

const (
	DeviceUndecided DeviceRefusal = "authorization_pending"
	DeviceTooEarly  DeviceRefusal = "slow_down"
	DeviceRefused   DeviceRefusal = "access_denied"
	DeviceExpired   DeviceRefusal = "expired_token"
	DeviceUnknown   DeviceRefusal = "invalid_grant"
)

// Error returns a sentence for people.
func (r DeviceRefusal) Error() string {
	switch r {
	case DeviceUndecided:
		return "Nobody has decided about this device yet"
	case DeviceTooEarly:
		return "The device polls too often: wait 5 seconds longer between polls from now on"
	case DeviceRefused:
		return "The sign-in of this device was denied"
	case DeviceExpired:
		return "The sign-in of this device took too long and must be started again"
	}
	return "device_code is unknown or was used already"
}

// DeviceGrant is the sign-in of a device without a browser (RFC 8628): a person who is signed
// in elsewhere approves or denies it, and the device polls for its token meanwhile.
type DeviceGrant struct {
	Code      string        // the digest of the device code, which the device alone knows
	UserCode  string        // the digest of the user code
	Name      string        // that the device has stated; may be empty
	From      Client        // of the device
	User      id.User       // who decided; empty: nobody yet
	Org       id.Org        // of the token; empty: none
	Interval  time.Duration // the least time between two polls
	PolledAt  *time.Time    // the last poll while pending; nil: none yet
	CreatedAt time.Time
	ExpiresAt time.Time

	status DeviceStatus
}

// BeginDevice returns the grant of a device that begins to sign in at now.
func BeginDevice(deviceCode, userCode, name string, from Client, now time.Time) DeviceGrant {
	return DeviceGrant{
		Code: id.Digest(deviceCode), UserCode: id.Digest(userCode), Name: identity.CleanName(name),
		From:     Client{Address: from.Address, UserAgent: identity.CleanName(from.UserAgent)},
		Interval: DeviceInterval, CreatedAt: now, ExpiresAt: now.Add(DeviceLifetime), status: DevicePending,
	}
}

func (g DeviceGrant) Status() DeviceStatus { return g.status }

// Restore returns the grant with its stored state.
func (g DeviceGrant) Restore(s DeviceStatus) DeviceGrant {
	g.status = s
	return g
}

// CheckOpen returns NotFound unless the grant is undecided and has not expired at now.
func (g DeviceGrant) CheckOpen(now time.Time) error {
	if g.status != DevicePending || !now.Before(g.ExpiresAt) {
		return fault.New(fault.NotFound, "No device waits for this code: it was mistyped or used already, or "+
			"is older than %d minutes", int(DeviceLifetime.Minutes()))
	}
	return nil
}

// Decided returns the grant after the user has approved or denied it, for a token of the
// organisation. The same decision of the same user can be repeated; otherwise it fails with
// NotFound unless the grant is open.
func (g DeviceGrant) Decided(approve bool, user id.User, o id.Org, now time.Time) (DeviceGrant, error) {
	if g.User == user && approve == (g.status != DeviceDenied) {
		return g, nil
	}
	if err := g.CheckOpen(now); err != nil {
		return g, err
	}
	g.status, g.User, g.Org = DeviceDenied, user, o
	if approve {
		g.status = DeviceApproved
	}
	return g, nil
}

// SessionID returns the id of the session of a device whose sign-in is approved, in the form of UUIDv7. It
// is the same each time, so that the device has one session however often it asks for its token.
func (g DeviceGrant) SessionID() id.Session {
	return id.Session(replay.RecordID([]byte("device "+g.Code), g.CreatedAt))
}

// Reissue returns the claims of the token that the device with a session was given, with its present role:
// DeviceUnknown unless the client that asks is the one which it was given to, within a minute of that.
func (s Session) Reissue(from Client, role org.Role, now time.Time) (Claims, error) {
	if s.Address != from.Address || s.UserAgent != identity.CleanName(from.UserAgent) || !now.Before(s.CreatedAt.Add(deviceRepeat)) {
		return Claims{}, DeviceUnknown
	}
	return Issue(string(s.ID), s.User, s.Org, role, s.CreatedAt).WithSession(s.ID), nil
}

// Polled returns the grant after the device asked for its token at now, which is to be stored
// also with an error. It returns nil once, after the approval; the grant is claimed then.
// Otherwise the error is a DeviceRefusal. Once a grant is decided polls are never too early.
func (g DeviceGrant) Polled(now time.Time) (DeviceGrant, error) {
	switch {
	case g.status == DeviceClaimed:
		return g, DeviceUnknown // but see Session.Reissue
	case !now.Before(g.ExpiresAt):
		return g, DeviceExpired
	case g.status == DeviceDenied:
		return g, DeviceRefused
	case g.status == DeviceApproved:
		g.status = DeviceClaimed
		return g, nil
	}
	early := g.PolledAt != nil && now.Before(g.PolledAt.Add(g.Interval-deviceLeeway))
	g.PolledAt = &now
	if early {
		g.Interval += DeviceInterval
		return g, DeviceTooEarly
	}
	return g, DeviceUndecided
}
