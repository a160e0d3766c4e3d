// Package id holds the typed identifiers of every record.
//
// An identifier is a UUIDv7 in its canonical lower-case form. The types keep
// one kind from being passed where another is meant; they carry no behaviour.
package id

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// The identifiers, one type for each kind of record.
type (
	User       string
	Org        string
	Team       string
	Workspace  string
	Task       string
	Invitation string
	Object     string
	Connector  string // an instance of a tool server
	Release    string
	Request    string // a request to a model
	Session    string // of a service token and those that it was refreshed to
	Export     string // a member's request for an archive of the organisation
	Upload     string // a resumable upload
	Entry      string // an entry of the audit log or of a task's history
)

// Position is a place in a list of records that are in the order of a time, then of their ids.
// The zero value is before the first.
type Position[T ~string] struct {
	At time.Time
	ID T
}

// Digest returns the form in which secrets that find a record are stored: SHA-256 in hexadecimal.
func Digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Parse returns s as an identifier of kind T. It accepts exactly the canonical
// form, 36 characters with lower-case hexadecimal digits; ok is false for
// anything else, which callers treat as a record that does not exist.
func Parse[T ~string](s string) (t T, ok bool) {
	if len(s) != 36 {
		return "", false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return "", false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return "", false
			}
		}
	}
	return T(s), true
}
