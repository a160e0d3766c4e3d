// Package session is the service token: what it says, how long it lives and
// how long it can be refreshed.
package session

import (
	"time"

	"collab/domain/id"
	"collab/domain/org"
)

const (
	// Lifetime is how long a service token is accepted after its issue.
	Lifetime = 30 * 24 * time.Hour
	// Grace is how long after its expiry a service token can still be refreshed.
	Grace = 7 * 24 * time.Hour
)

// Claims are the contents of a service token. Org and Role are empty for a
// user without an organisation; Role only informs the client.
type Claims struct {
	ID        string // jti
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

// Valid reports whether a token with these claims is accepted at now. There is
// no leeway: the clock that issued it is our own.
func (c Claims) Valid(now time.Time) bool {
	return !now.Before(c.IssuedAt) && now.Before(c.ExpiresAt)
}

// Refreshable reports whether a token with these claims can be exchanged for a
// new one at now: from its issue to the end of the grace, both included.
func (c Claims) Refreshable(now time.Time) bool {
	return !now.Before(c.IssuedAt) && !now.After(c.ExpiresAt.Add(Grace))
}
