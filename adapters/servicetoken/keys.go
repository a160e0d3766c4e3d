package servicetoken

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// Keys are the private keys of a file, in its order: the first signs, all
// verify. A key is retired by leaving it in the file behind the new first one
// until the last token that it signed can no longer be refreshed.
type Keys []ed25519.PrivateKey

const pemType = "PRIVATE KEY" // PKCS #8

// Generate returns a file with one new key.
func Generate() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// Parse reads a file of PEM Ed25519 private keys. Its errors never hold
// anything of the file's content.
func Parse(text []byte) (Keys, error) {
	var keys Keys
	seen := map[string]bool{}
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		block, after := pem.Decode(rest)
		if block == nil {
			return nil, fmt.Errorf("what follows key %d is not PEM", len(keys))
		}
		if block.Type != pemType {
			return nil, fmt.Errorf("key %d is a %s, not a %s", len(keys)+1, block.Type, pemType)
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("key %d is not PKCS #8", len(keys)+1)
		}
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("key %d is not an Ed25519 key", len(keys)+1)
		}
		kid := thumbprint(public(key))
		if seen[kid] {
			return nil, fmt.Errorf("key %d is in the file twice", len(keys)+1)
		}
		seen[kid] = true
		keys, rest = append(keys, key), after
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key")
	}
	return keys, nil
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// thumbprint returns the thumbprint of a key (RFC 7638, RFC 8037).
func thumbprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + coordinate(key) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func coordinate(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

// names returns the kids of the keys, in their order.
func (k Keys) names() []string {
	names := make([]string, len(k))
	for i, key := range k {
		names[i] = thumbprint(public(key))
	}
	return names
}
