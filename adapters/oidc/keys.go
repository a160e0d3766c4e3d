package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	keysBurst  = 5                // burst of reads of the keys
	keysEvery  = 30 * time.Second // per further read; also how long a key id stays in Provider.unknown
	maxKeysAge = time.Hour        // after which the keys are read again
	maxKeys    = 64
)

// algorithms are the accepted ones, without HMAC and none.
var (
	algorithms     = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
	algorithmNames = []string{string(jose.RS256), string(jose.ES256), string(jose.EdDSA)}
)

// keys are the provider's public keys that could sign a token for us.
type keys []jose.JSONWebKey

func (p *Provider) fetchKeys(ctx context.Context) (keys, error) {
	text, err := p.get(ctx, p.metadata.last().value.keysURL)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

// parseKeys skips keys that are not supported (RFC 7517, section 5).
func parseKeys(text []byte) (keys, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	var found keys
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) == nil && (k.Use == "" || k.Use == "sig") && algorithmOf(k) != "" && len(found) < maxKeys {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the identity provider publishes no key that we accept")
	}
	return found, nil
}

// algorithmOf returns the algorithm of a key, empty if it is not accepted.
func algorithmOf(k jose.JSONWebKey) string {
	var a jose.SignatureAlgorithm
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= 2048 && bits <= 8192 {
			a = jose.RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			a = jose.ES256
		}
	case ed25519.PublicKey:
		a = jose.EdDSA
	}
	if k.Algorithm != "" && k.Algorithm != string(a) {
		return ""
	}
	return string(a)
}

// keyVerifier verifies a token with a set of keys.
type keyVerifier struct {
	keys     keys
	kid      string // of the token, empty if it has none
	failed   bool   // none of the keys signed the token
	keyFound bool   // kid is that of a key
}

// VerifySignature returns the payload of a token that one of the keys signed: the key with
// the token's key id, or any of its algorithm if it has none.
func (c *keyVerifier) VerifySignature(_ context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	head := jws.Signatures[0].Header
	c.kid = head.KeyID
	for _, k := range c.keys {
		if head.KeyID != "" && k.KeyID != head.KeyID || algorithmOf(k) != head.Algorithm {
			continue
		}
		c.keyFound = head.KeyID != ""
		if payload, err := jws.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	c.failed = true
	return nil, errors.New("none of the identity provider's keys signed the token")
}
