// Package replay has the record of a request with an idempotency key, so that a repetition
// of the request gets the same answer.
package replay

import "time"

const (
	// Retention is how long a key is remembered.
	Retention = 24 * time.Hour
	// Lease is how long a first request may run before its key is free again,
	// which happens only when the server that ran it died.
	Lease = 2 * time.Minute
)

// Record is one key with its request and, once there is one, its answer.
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
