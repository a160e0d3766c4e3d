package session

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
)

// Limits of browser sessions, whose secret is in a cookie and which have no token.
const (
	// BrowserLifetime is how long a browser session lasts at most.
	BrowserLifetime = 30 * 24 * time.Hour
	// BrowserIdle is how long a browser session lasts after its last use, give or take the
	// precision of LastUsedAt.
	BrowserIdle = 7 * 24 * time.Hour
)

// BrowserID returns the id of the browser session with a secret: 122 bits of its SHA-256, in the
// form of a UUIDv8.
func BrowserID(secret string) id.Session {
	sum := sha256.Sum256([]byte(secret))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return id.Session(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// BeginBrowser returns the session of a browser that signed in at now.
func BeginBrowser(secret string, user id.User, o id.Org, from Client, now time.Time) Session {
	return Session{
		ID: BrowserID(secret), User: user, Org: o, CreatedAt: now, LastUsedAt: now, ExpiresAt: now.Add(BrowserLifetime),
		Address: from.Address, UserAgent: identity.CleanName(from.UserAgent),
	}
}

// Switched returns the browser session that follows this one when the browser changes to another
// organisation at now: with a new secret, and the old beginning and end.
func (s Session) Switched(secret string, o id.Org, from Client, now time.Time) Session {
	next := BeginBrowser(secret, s.User, o, from, now)
	next.CreatedAt, next.ExpiresAt = s.CreatedAt, s.ExpiresAt
	return next
}

// BrowserClaims returns the claims that a token of a browser session would have. There is none.
func (s Session) BrowserClaims() Claims {
	return Claims{ID: string(s.ID), Session: s.ID, User: s.User, Org: s.Org, IssuedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt}
}

// Idle reports whether the session is a browser's that has ended at now for lack of use.
func (s Session) Idle(now time.Time) bool { return s.ID[14] == '8' && IdleSince(s.LastUsedAt, now) }

// IdleSince reports whether a browser session that was used last at used has ended at now.
func IdleSince(used, now time.Time) bool { return !now.Before(used.Add(BrowserIdle)) }
