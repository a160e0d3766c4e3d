// Package idempotency stores the answers to requests with an idempotency key, so that a
// repeated request gets the first response on any server.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"collab/domain/fault"
	"collab/domain/replay"
	"collab/ports"
)

// RenewEvery is how often an Attempt is to be renewed while its request runs.
const RenewEvery = replay.Lease / 4

// Idempotency keeps the answers to requests with a key.
type Idempotency struct {
	store   ports.Store
	sealer  ports.Sealer
	clock   ports.Clock
	secrets ports.Secrets
}

// New returns the use cases. Responses are sealed, as they can contain secrets. Fingerprints are
// keyed, because a password could be guessed from a plain digest.
func New(store ports.Store, sealer ports.Sealer, clock ports.Clock, secrets ports.Secrets) *Idempotency {
	return &Idempotency{store: store, sealer: sealer, clock: clock, secrets: secrets}
}

// Attempt is one request with a key: either the first, which has to Finish or
// Abandon it, or a repetition, which has a Response.
type Attempt struct {
	idempotency *Idempotency
	record      replay.Record
	recordID    string
	response    []byte
}

// Begin claims the key for a request, or finds its response. The key belongs to the caller and
// the route. Conflict while the first request runs, and if its record cannot be read because
// its encryption key or format is unknown; Mismatch if the key was used with another request.
func (s *Idempotency) Begin(ctx context.Context, caller, route, key string, fingerprint [32]byte) (*Attempt, error) {
	digest := sha256.New()
	for _, part := range []string{caller, route, key} {
		sum := sha256.Sum256([]byte(part))
		digest.Write(sum[:])
	}
	now := s.clock.Now()
	record := replay.Record{Key: hex.EncodeToString(digest.Sum(nil)), Claim: s.secrets.Secret(), ExpiresAt: now.Add(replay.Lease)}
	mac, err := s.sealer.MAC(fingerprint[:], fingerprintContext(record.Key))
	if err != nil {
		return nil, err
	}
	record.Fingerprint = hex.EncodeToString(mac)
	stored, err := s.store.Journal().Replays().Begin(ctx, record, now)
	if err != nil {
		return nil, err
	}
	if stored.Claim == record.Claim {
		return &Attempt{idempotency: s, record: stored, recordID: replay.RecordID(mac, now)}, nil
	}
	// The error is ignored because Verify refuses the truncated MAC.
	mac, _ = hex.DecodeString(stored.Fingerprint)
	same, err := s.sealer.Verify(mac, fingerprint[:], fingerprintContext(stored.Key))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case !same:
		return nil, fault.New(fault.Mismatch, "Idempotency-Key was used before with another request")
	case !stored.Done:
		return nil, fault.New(fault.Conflict, "The first request with this Idempotency-Key is still running").RetryIn(1)
	}
	response, err := s.sealer.Open(stored.Answer, []byte(stored.Key))
	if err != nil {
		return nil, unreadable(err)
	}
	return &Attempt{idempotency: s, record: stored, response: response}, nil
}

// unreadable is the error of a repetition if the record of the first request cannot be read.
// The first request may have had its effect, so the repetition is refused.
func unreadable(err error) error {
	return fault.Wrap(fault.Conflict, err, "The stored record of the first request with this Idempotency-Key can no longer be read")
}

// fingerprintContext is the context of the fingerprint of a key.
func fingerprintContext(key string) []byte { return []byte("fingerprint " + key) }

// Response returns the first request's response to a repetition.
func (a *Attempt) Response() ([]byte, bool) { return a.response, a.record.Done }

// RecordID returns the id of the record that the request makes, if it makes one: see replay.RecordID.
func (a *Attempt) RecordID() string { return a.recordID }

// Finish stores the response for replay.Retention.
func (a *Attempt) Finish(ctx context.Context, response []byte) error {
	sealed, err := a.idempotency.sealer.Seal(response, []byte(a.record.Key))
	if err != nil {
		return err
	}
	done := a.record
	done.Done, done.Answer, done.ExpiresAt = true, sealed, a.idempotency.clock.Now().Add(replay.Retention)
	return a.idempotency.store.Journal().Replays().Finish(ctx, done)
}

// Renew extends the claim of the key. It must not be called concurrently with Finish or after
// it.
func (a *Attempt) Renew(ctx context.Context) error {
	r := a.record
	r.ExpiresAt = a.idempotency.clock.Now().Add(replay.Lease)
	return a.idempotency.store.Journal().Replays().Finish(ctx, r)
}

// Abandon frees the key, so that the request can be tried again.
func (a *Attempt) Abandon(ctx context.Context) error {
	return a.idempotency.store.Journal().Replays().Abandon(ctx, a.record.Key, a.record.Claim)
}
