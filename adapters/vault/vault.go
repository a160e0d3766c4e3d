// Package vault encrypts what must not be read where it is kept, with a Tink
// keyset.
package vault

import (
	"bytes"
	"errors"

	"collab/domain/fault"
	"collab/ports"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

var _ ports.Sealer = (*Vault)(nil)

// Vault seals with the primary key of its keyset and opens with all of them,
// so that a key is rotated by adding a new primary one. What is sealed names
// its key.
type Vault struct {
	keys tink.AEAD
}

// New returns the vault of a Tink keyset of AEAD keys in JSON. Its errors never
// hold anything of the keyset.
func New(text []byte) (*Vault, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, errors.New("does not hold a Tink keyset in JSON")
	}
	keys, err := aead.New(handle)
	if err != nil {
		return nil, errors.New("holds a key that is not for authenticated encryption")
	}
	return &Vault{keys}, nil
}

// Generate returns a keyset with one new AES-256-GCM key.
func Generate() ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// Seal encrypts and authenticates plain; only Open with the same context
// returns it.
func (v *Vault) Seal(plain, context []byte) ([]byte, error) {
	return v.keys.Encrypt(plain, context)
}

// Open returns what was sealed with this context. Invalid for anything else.
func (v *Vault) Open(sealed, context []byte) ([]byte, error) {
	plain, err := v.keys.Decrypt(sealed, context)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The sealed content cannot be opened")
	}
	return plain, nil
}
