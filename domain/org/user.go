// Package org holds users, organisations, memberships and the actor that every
// request acts as.
package org

import (
	"cmp"
	"time"

	"collab/domain/fault"
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

	// Full is set by the first event about the user itself. Events about something
	// else that name the user are ignored from then on.
	Full bool
	Seen identity.Stamp
	// When the tokens were issued that Name, Email and AvatarURL come from; zero for
	// one that comes from elsewhere.
	NameIssuedAt      time.Time
	EmailIssuedAt     time.Time
	AvatarURLIssuedAt time.Time
	Blocked           bool // the provider has banned or locked the user
	// DeletedAt is set for good by the provider's deletion. The row stays, empty
	// of personal data, so that no late message brings the user back.
	DeletedAt *time.Time
}

// Deleted reports whether the provider has deleted the user.
func (u User) Deleted() bool { return u.DeletedAt != nil }

// fields returns the texts that tokens set, in the order of identity.UserData.Texts.
func (u *User) fields() [3]tokenField {
	return [3]tokenField{{&u.Name, &u.NameIssuedAt}, {&u.Email, &u.EmailIssuedAt}, {&u.AvatarURL, &u.AvatarURLIssuedAt}}
}

// Observed returns the user after an event about it. A text from a later token stays.
func (u User) Observed(f identity.UserData, s identity.Stamp, now time.Time) User {
	if u.Deleted() || u.Full && !u.Seen.Before(s) {
		return u
	}
	for i, value := range f.Texts() {
		u.fields()[i].fromEvent(value, s.At)
	}
	u.Full, u.Seen, u.UpdatedAt, u.Blocked = true, s, now, f.Blocked
	return u
}

// CheckSignIn returns an error if the user is deleted or blocked and may not sign in.
func (u User) CheckSignIn() error {
	switch {
	case u.Deleted():
		return fault.New(fault.Unauthenticated, "The token is invalid or expired")
	case u.Blocked:
		return fault.New(fault.Unauthenticated, "The identity provider has banned or locked this account")
	}
	return nil
}

// Mentioned returns the user after an event about something else that names it. It changes
// nothing after the first event about the user itself, and no text that comes from a token.
func (u User) Mentioned(f identity.UserData, s identity.Stamp, now time.Time) User {
	if u.Deleted() || u.Full || !u.Seen.Before(s) {
		return u
	}
	for i, value := range f.Texts() {
		field := u.fields()[i]
		if u.Seen.IsZero() {
			value = cmp.Or(value, *field.text) // the caller's hint
		}
		if field.issued.IsZero() {
			*field.text = value
		}
	}
	u.Seen, u.UpdatedAt = s, now
	return u
}

// Presented returns the user after a verified token with the claims, and the caller's
// hints. A claim is used if the token is newer than the last event about the user and not
// older than the token that the text comes from; hints only fill empty texts.
func (u User) Presented(claims identity.Claims, hints identity.UserData, now time.Time) User {
	if u.Deleted() {
		return u
	}
	was := u
	claimed := identity.UserData{Name: claims.Name, Email: claims.Email, AvatarURL: claims.AvatarURL}.Texts()
	for i, hint := range hints.Texts() {
		field := u.fields()[i]
		if !u.Full || claims.IssuedAt.After(u.Seen.At) {
			field.fromToken(claimed[i], claims.IssuedAt)
		}
		*field.text = cmp.Or(*field.text, hint)
	}
	if u != was {
		u.UpdatedAt = now
	}
	return u
}

// Erased returns the record that stays of a deleted user: its ids and times.
func (u User) Erased(now time.Time) User {
	if u.Deleted() {
		return u
	}
	return User{ID: u.ID, ProviderID: u.ProviderID, CreatedAt: u.CreatedAt, UpdatedAt: now, DeletedAt: &now}
}

// tokenField is a text that tokens set, with the time of issue of the token that it comes
// from, zero if it comes from elsewhere. Of two tokens of the same second the one that was
// presented last is used.
type tokenField struct {
	text   *string
	issued *time.Time
}

// fromToken sets the text to a token's, unless that is empty or the token is older than the
// one that the text comes from.
func (f tokenField) fromToken(value string, issued time.Time) {
	if value != "" && !issued.Before(*f.issued) {
		*f.text, *f.issued = value, issued
	}
}

// fromEvent sets the text to an event's, unless the text comes from a later token.
func (f tokenField) fromEvent(value string, at time.Time) {
	if !f.issued.After(at) {
		*f.text, *f.issued = value, time.Time{}
	}
}
