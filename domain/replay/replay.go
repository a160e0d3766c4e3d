// Package replay has the record of a request with an idempotency key, so that a repetition
// of the request gets the same response.
package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

const (
	// Retention is how long a key is remembered.
	Retention = 24 * time.Hour
	// Lease is how long a first request may run before its key is free again,
	// which happens only when the server that ran it died.
	Lease = 2 * time.Minute
)

// Record is one key with its request and, once there is one, its response.
type Record struct {
	Key         string // digest of caller, route and key
	Fingerprint string // of method, address and body, keyed
	Claim       string // names the attempt that holds the key
	Done        bool
	Answer      []byte // sealed; empty until Done
	ExpiresAt   time.Time
}

// Live reports whether the record has not expired at now.
func (r Record) Live(now time.Time) bool { return now.Before(r.ExpiresAt) }

// RecordID returns the id of the record that a request with the fingerprint makes, in the form of
// UUIDv7. Attempts of the request have the same, so that a second one finds what the first has
// made, also if the response to that was lost or its server died. The time in the id is that of now to
// within 50 days.
func RecordID(fingerprint []byte, now time.Time) string {
	sum := sha256.Sum256(fingerprint)
	u := sum[:16]
	binary.BigEndian.PutUint16(u, uint16(now.UnixMilli()>>32))
	u[6] = 0x70 | u[6]&0x0f
	u[8] = 0x80 | u[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
