// Package vault encrypts what must not be read where it is kept, and authenticates
// what is only compared, with a Tink keyset.
package vault

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
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

	primary uint32            // the id of the primary key
	secrets map[uint32][]byte // of enabled keys by id: what HKDF derives keys of codes from
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
	info := handle.KeysetInfo()
	v := &Vault{keys: keys, primary: info.PrimaryKeyId, secrets: map[uint32][]byte{}}
	for _, k := range insecurecleartextkeyset.KeysetMaterial(handle).Key {
		if k.Status == tinkpb.KeyStatusType_ENABLED {
			v.secrets[k.KeyId] = k.KeyData.Value
		}
	}
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

// macSize is the size of what MAC returns in bytes: the key's id and an HMAC-SHA256.
const macSize = 4 + sha256.Size

// MAC returns the id of the primary key, and the HMAC-SHA256 of data under a key that
// HKDF derives from the primary key for the context.
func (v *Vault) MAC(data, context []byte) ([]byte, error) {
	return v.mac(v.primary, data, context)
}

// Verify compares with the key that mac names, in constant time.
func (v *Vault) Verify(mac, data, context []byte) (bool, error) {
	if len(mac) != macSize {
		return false, fault.New(fault.Invalid, "It is no message authentication code")
	}
	want, err := v.mac(binary.BigEndian.Uint32(mac), data, context)
	return err == nil && hmac.Equal(mac, want), err
}

func (v *Vault) mac(id uint32, data, context []byte) ([]byte, error) {
	secret, ok := v.secrets[id]
	if !ok {
		return nil, fault.New(fault.Invalid, "The key of the message authentication code is not known")
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "collab mac "+string(context), sha256.Size)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(binary.BigEndian.AppendUint32(nil, id)), nil
}
