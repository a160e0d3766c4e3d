// Package org holds users, organisations, memberships and the actor that every
// request acts as.
package org

import (
	"time"

	"collab/domain/id"
	"collab/domain/identity"
)

// User is a person, known by the identity provider's id. Name, Email and
// AvatarURL are empty where the provider did not say.
type User struct {
	ID         id.User
	ProviderID string
	Name       string
	Email      string
	AvatarURL  string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	// Full is set once an event about the user itself was seen; what other
	// messages say in passing no longer counts then.
	Full bool
	Seen identity.Stamp
	// DeletedAt is set for good by the provider's deletion. The row stays, empty
	// of personal data, so that no late message brings the user back.
	DeletedAt *time.Time
}

// Deleted reports whether the provider has deleted the user.
func (u User) Deleted() bool { return u.DeletedAt != nil }

// Observed returns the user after an event about it.
func (u User) Observed(f identity.UserFacts, s identity.Stamp, now time.Time) User {
	if u.Deleted() || u.Full && !u.Seen.Before(s) {
		return u
	}
	u.Name, u.Email, u.AvatarURL = f.Name, f.Email, f.AvatarURL
	u.Full, u.Seen, u.UpdatedAt = true, s, now
	return u
}

// Mentioned returns the user after an event about something else that names
// it. A mention counts only until the first event about the user itself.
func (u User) Mentioned(f identity.UserFacts, s identity.Stamp, now time.Time) User {
	if u.Deleted() || u.Full || !u.Seen.Before(s) {
		return u
	}
	if u.Seen.IsZero() {
		// What is there came with a token: a mention that says less keeps it.
		f.Name, f.Email, f.AvatarURL = or(f.Name, u.Name), or(f.Email, u.Email), or(f.AvatarURL, u.AvatarURL)
	}
	u.Name, u.Email, u.AvatarURL = f.Name, f.Email, f.AvatarURL
	u.Seen, u.UpdatedAt = s, now
	return u
}

// Presented returns the user after a verified token said claims, and the
// caller said hints beside it. The claims count when the token is newer than
// the last event; hints only fill what nobody else has said.
func (u User) Presented(claims identity.Claims, hints identity.UserFacts, now time.Time) User {
	if u.Deleted() {
		return u
	}
	was := u
	if claims.IssuedAt.After(u.Seen.At) {
		u.Name, u.Email, u.AvatarURL = or(claims.Name, u.Name), or(claims.Email, u.Email), or(claims.AvatarURL, u.AvatarURL)
	}
	u.Name = or(u.Name, or(claims.Name, hints.Name))
	u.Email = or(u.Email, or(claims.Email, hints.Email))
	u.AvatarURL = or(u.AvatarURL, or(claims.AvatarURL, hints.AvatarURL))
	if u != was {
		u.UpdatedAt = now
	}
	return u
}

// Erased returns what is kept of a deleted user: its ids alone.
func (u User) Erased(now time.Time) User {
	if u.Deleted() {
		return u
	}
	return User{ID: u.ID, ProviderID: u.ProviderID, CreatedAt: u.CreatedAt, UpdatedAt: now, DeletedAt: &now}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
