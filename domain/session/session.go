// Package session has the claims and lifetimes of service tokens, and the sessions that
// they belong to.
package session

import (
	"errors"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
)

const (
	// Lifetime is how long a service token is accepted after its issue.
	Lifetime = 30 * 24 * time.Hour
	// GracePeriod is how long after its expiry a service token can still be refreshed.
	GracePeriod = 7 * 24 * time.Hour
	// leeway is how long before its issue a service token is accepted: the clock of the server
	// that issued it may be ahead.
	leeway = 2 * time.Second
)

// ErrExpired is the error of a token that has expired since it was verified.
var ErrExpired = errors.New("the token has expired")

// Claims are the contents of a service token. Org and Role are empty for a
// user without an organisation; Role only informs the client.
type Claims struct {
	ID        string     // jti
	Session   id.Session // the jti of the exchange; empty in tokens that were made before there were sessions
	User      id.User
	Org       id.Org
	Role      org.Role
	IssuedAt  time.Time // whole seconds
	ExpiresAt time.Time // whole seconds
}

// Issue makes the claims of a token issued at now, in whole seconds as tokens
// count time.
func Issue(tokenID string, user id.User, o id.Org, role org.Role, now time.Time) Claims {
	at := now.Truncate(time.Second)
	return Claims{ID: tokenID, User: user, Org: o, Role: role, IssuedAt: at, ExpiresAt: at.Add(Lifetime)}
}

// Valid reports whether a token with these claims is accepted at now: from leeway before its
// issue to its expiry, which is excluded.
func (c Claims) Valid(now time.Time) bool {
	return !now.Before(c.IssuedAt.Add(-leeway)) && now.Before(c.ExpiresAt)
}

// Refreshable reports whether a token with these claims can be exchanged for a
// new one at now: from leeway before its issue to the end of the grace, both included.
func (c Claims) Refreshable(now time.Time) bool {
	return !now.Before(c.IssuedAt.Add(-leeway)) && !now.After(c.ExpiresAt.Add(GracePeriod))
}

// WithSession returns the claims with the session set.
func (c Claims) WithSession(s id.Session) Claims {
	c.Session = s
	return c
}

// SessionID returns the id of the session that the token belongs to. A token that names
// none has one of its own, under its own id.
func (c Claims) SessionID() id.Session {
	if c.Session == "" {
		return id.Session(c.ID)
	}
	return c.Session
}

const (
	// MaxPerUser is how many sessions a user can have; the oldest are ended first.
	MaxPerUser = 100
	// UseInterval is the least time between two updates of a session's LastUsedAt.
	UseInterval = 5 * time.Minute
)

// Client is where a request came from.
type Client struct {
	Address   string // the network address
	UserAgent string // as sent
}

// Session is a token that was issued by one exchange, with those that it was refreshed to.
type Session struct {
	ID        id.Session
	User      id.User
	Org       id.Org // of its tokens; empty: they have none
	CreatedAt time.Time
	// LastUsedAt is when a token of it was used last, give or take UseInterval.
	LastUsedAt time.Time
	ExpiresAt  time.Time // when its last token can no longer be refreshed
	Address    string    // that its last token was issued to
	UserAgent  string
	// Unnamed is set for the session of a token that names none. Such a session
	// stays as a record when it ended, so that its token does not begin another.
	Unnamed bool
	Ended   bool
}

// Begin returns the session of a token that was issued to the client at now.
func Begin(c Claims, from Client, now time.Time) Session {
	s := Session{ID: c.SessionID(), User: c.User, CreatedAt: now}.Issued(c, from, now)
	if c.Session == "" {
		s.CreatedAt, s.Unnamed = c.IssuedAt, true
	}
	return s
}

// Issued returns the session after a token of it was issued to the client at now.
func (s Session) Issued(c Claims, from Client, now time.Time) Session {
	s.Org, s.LastUsedAt, s.ExpiresAt = c.Org, now, c.ExpiresAt.Add(GracePeriod)
	s.Address, s.UserAgent = from.Address, identity.CleanName(from.UserAgent)
	return s
}

// End returns the record that stays of the session when it ends; ok is false if none does.
func (s Session) End() (tombstone Session, ok bool) {
	return Session{
		ID: s.ID, User: s.User, Org: s.Org, CreatedAt: s.CreatedAt, LastUsedAt: s.LastUsedAt, ExpiresAt: s.ExpiresAt, Unnamed: true, Ended: true,
	}, s.Unnamed
}

// Excess returns those of a user's sessions that are more than Max, given the most
// recently used first.
func Excess(all []Session) []Session { return all[min(MaxPerUser, len(all)):] }
