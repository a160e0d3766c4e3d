// Package standardwebhooks verifies and decodes webhook messages of the identity provider:
// signatures by Standard Webhooks, also with Svix's header names, and bodies by Clerk's
// schemas.
package standardwebhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/ports"
)

// Headers of a message. Svix calls them svix-id, svix-timestamp and svix-signature.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // whole seconds since 1970, of the attempt
	HeaderSignature = "webhook-signature" // one or several, separated by spaces
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24              // bytes, the scheme's minimum
	tolerance    = 5 * time.Minute // of a message's timestamp, both ways
	maxSignature = 4096            // bytes of the signature header
)

var _ ports.IdentityEvents = (*Events)(nil)

// Events implements ports.IdentityEvents.
type Events struct {
	keys  [][]byte
	clock ports.Clock
}

// New returns Events that accept messages signed with any of the secrets, so that secrets
// can be rotated. Each is "whsec_" and at least 24 bytes in base64. Empty ones are skipped;
// without secrets every message is refused.
func New(secrets []string, clock ports.Clock) (*Events, error) {
	e := &Events{clock: clock}
	for i, s := range secrets {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		key, err := parseSecret(s)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		e.keys = append(e.keys, key)
	}
	return e, nil
}

// parseSecret decodes a secret. Its errors do not contain it.
func parseSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, errors.New("must begin with " + secretPrefix)
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, errors.New("must be base64 after " + secretPrefix)
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("must be at least %d bytes", minSecret)
	}
	return key, nil
}

// Sign returns the signature header of a message that is sent at the time.
func Sign(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := parseSecret(secret)
	if err != nil {
		return "", err
	}
	mac := sign(key, id, strconv.FormatInt(at.Unix(), 10), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac), nil
}

func sign(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Read verifies the signature over the raw body and translates the message.
func (e *Events) Read(header func(name string) string, body []byte) (identity.Event, error) {
	m, err := e.verify(header, body)
	if err != nil {
		return identity.Event{}, err
	}
	return translate(m, body)
}

// message has the id and the time of a verified message.
type message struct {
	id   string
	sent time.Time
}

func (e *Events) verify(header func(name string) string, body []byte) (message, error) {
	// All headers of a message have the same family of names.
	id, timestamp, signatures := header(HeaderID), header(HeaderTimestamp), header(HeaderSignature)
	if id == "" {
		id, timestamp, signatures = header("svix-id"), header("svix-timestamp"), header("svix-signature")
	}
	if id == "" || timestamp == "" || signatures == "" {
		return message{}, fault.New(fault.Unauthenticated, "The webhook's id, timestamp and signature headers are required")
	}
	invalid := fault.New(fault.Unauthenticated, "The webhook's signature is not valid")
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	if err != nil || !identity.ValidID(id) || len(signatures) > maxSignature {
		return message{}, invalid
	}
	sent, now := time.Unix(int64(seconds), 0).UTC(), e.clock.Now()
	if now.Sub(sent) > tolerance || sent.Sub(now) > tolerance {
		return message{}, fault.New(fault.Unauthenticated, "The webhook's timestamp is too far from the present")
	}
	var macs [][]byte
	for s := range strings.FieldsSeq(signatures) {
		// Other versions, such as the asymmetric v1a, are not supported.
		if text, ok := strings.CutPrefix(s, "v1,"); ok {
			if mac, err := base64.StdEncoding.Strict().DecodeString(text); err == nil {
				macs = append(macs, mac)
			}
		}
	}
	for _, key := range e.keys {
		want := sign(key, id, timestamp, body)
		if slices.ContainsFunc(macs, func(mac []byte) bool { return hmac.Equal(mac, want) }) {
			return message{id: id, sent: sent}, nil
		}
	}
	return message{}, invalid
}
