// Package vault encrypts what must not be read where it is kept, with a Tink
// keyset.
package vault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"collab/domain/fault"
	"collab/ports"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
)

var _ ports.Sealer = (*Vault)(nil)

// Vault seals with the primary key of its keyset and opens with all of them,
// so that a key is rotated by adding a new primary one. What is sealed names
// its key.
type Vault struct {
	keys tink.AEAD

	// What is sealed begins with the name of its key: with present, or with one of
	// former by the keys that open only. Present is empty for a primary key whose
	// prefix is RAW.
	present []byte
	former  [][]byte
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
	v := &Vault{keys: keys}
	info := handle.KeysetInfo()
	for _, k := range info.KeyInfo {
		switch name := prefix(k); {
		case k.KeyId == info.PrimaryKeyId:
			v.present = name
		case len(name) > 0:
			v.former = append(v.former, name)
		}
	}
	return v, nil
}

// prefix is what a key puts before what it seals: a byte for the kind of prefix
// and its id. A RAW key puts nothing.
func prefix(k *tinkpb.KeysetInfo_KeyInfo) []byte {
	var kind byte
	switch k.OutputPrefixType {
	case tinkpb.OutputPrefixType_RAW:
		return nil
	case tinkpb.OutputPrefixType_TINK:
		kind = 1
	}
	return binary.BigEndian.AppendUint32([]byte{kind}, k.KeyId)
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

// Old reports whether something was not sealed with the primary key, by the name
// of a key that it begins with. What RAW keys seal has no such name: it is old
// under a primary key that has one. Under a RAW primary key nothing is old but
// what begins with the name of another; so such a keyset is rotated by a primary
// key with a name, as those of Generate are.
func (v *Vault) Old(sealed []byte) bool {
	if len(v.present) > 0 {
		return !bytes.HasPrefix(sealed, v.present)
	}
	return slices.ContainsFunc(v.former, func(name []byte) bool { return bytes.HasPrefix(sealed, name) })
}
