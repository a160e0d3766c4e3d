package connector

import (
	"strconv"
	"time"

	"collab/domain/id"
)

// Credentials authenticate an instance at its tool server. A user entered them, or an
// authorization server issued them for a code or a refresh token.
type Credentials struct {
	Entries   string     // a JSON object, as clients receive it
	Renewal   string     // for renewing and revoking them, in the authorizer's own form; empty: neither is possible
	Renewable bool       // they can be renewed
	ExpiresAt *time.Time // of the access token; nil: not known
}

// Sealed are encrypted credentials as they are stored. They are bound to their
// instance and version and cannot be opened as those of another.
type Sealed struct {
	Instance id.Connector
	Version  int64
	Entries  []byte
	Renewal  []byte // empty: there is none
}

// The parts of credentials, which are sealed separately.
const (
	EntriesPart = "entries"
	RenewalPart = "renewal"
)

// SealingContext returns the context in which a part of credentials is sealed.
func SealingContext(o id.Org, i id.Connector, version int64, part string) []byte {
	return []byte("connector|" + string(o) + "|" + string(i) + "|" + strconv.FormatInt(version, 10) + "|" + part)
}

// Access is an instance's server with the credentials for it.
type Access struct {
	URL                 string
	Transport           Transport
	Auth                AuthMode
	CredentialTemplates map[string]string // see Provider
	Entries             string            // of the credentials; empty: there are none
}

// Revocation is an authorization that is to be revoked at its server.
type Revocation struct {
	ID       id.Connector // of the instance that had it
	Org      id.Org
	Renewal  []byte // sealed, for RevocationContext
	Attempts int
	DueAt    time.Time // a server that claims it sets this to a later time
}

// maxRevocations is the number of attempts before a revocation is given up, after 20 hours.
const maxRevocations = 12

// RevocationContext returns the context in which the renewal of a revocation is sealed.
func RevocationContext(o id.Org, i id.Connector) []byte {
	return []byte("revocation|" + string(o) + "|" + string(i))
}

// Retried returns the revocation after an attempt failed at now, and false if that was the
// last attempt.
func (r Revocation) Retried(now time.Time) (Revocation, bool) {
	r.Attempts++
	r.DueAt = now.Add(backoff(r.Attempts))
	return r, r.Attempts < maxRevocations
}
