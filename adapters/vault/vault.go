// Package vault encrypts and authenticates data with a Tink keyset.
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

// Vault implements ports.Sealer. It seals with the primary key of its keyset and opens with
// all keys, so that keys are rotated by adding a new primary one.
type Vault struct {
	keys tink.AEAD

	// Sealed data begins with the prefix of its key. The primary key has none if its type is
	// RAW.
	primaryPrefix []byte
	otherPrefixes [][]byte

	primary uint32            // the id of the primary key
	secrets map[uint32][]byte // key material of enabled keys by id, from which HKDF derives MAC keys
}

// New returns the vault of a Tink keyset of AEAD keys in JSON. Its errors contain no part of
// the keyset.
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
		switch p := keyPrefix(k); {
		case k.KeyId == info.PrimaryKeyId:
			v.primaryPrefix = p
		case len(p) > 0:
			v.otherPrefixes = append(v.otherPrefixes, p)
		}
	}
	return v, nil
}

// keyPrefix returns the prefix of data sealed with a key: a byte for its type and the key id.
// RAW keys have none.
func keyPrefix(k *tinkpb.KeysetInfo_KeyInfo) []byte {
	var version byte
	switch k.OutputPrefixType {
	case tinkpb.OutputPrefixType_RAW:
		return nil
	case tinkpb.OutputPrefixType_TINK:
		version = 1
	}
	return binary.BigEndian.AppendUint32([]byte{version}, k.KeyId)
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

// Seal encrypts and authenticates plain. Open needs the same context.
func (v *Vault) Seal(plain, context []byte) ([]byte, error) {
	return v.keys.Encrypt(plain, context)
}

// Open returns the data that was sealed with the context, or Invalid.
func (v *Vault) Open(sealed, context []byte) ([]byte, error) {
	plain, err := v.keys.Decrypt(sealed, context)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The sealed content cannot be opened")
	}
	return plain, nil
}

// OldKey reports whether data was sealed with another key than the primary one, by its prefix.
// If the primary key is RAW, it reports only data with the prefix of another key: such a keyset
// should be rotated to a primary key with a prefix, as Generate returns.
func (v *Vault) OldKey(sealed []byte) bool {
	if len(v.primaryPrefix) > 0 {
		return !bytes.HasPrefix(sealed, v.primaryPrefix)
	}
	return slices.ContainsFunc(v.otherPrefixes, func(prefix []byte) bool { return bytes.HasPrefix(sealed, prefix) })
}

// macSize is the size of a MAC in bytes: the key's id and an HMAC-SHA256.
const macSize = 4 + sha256.Size

// MAC returns the id of the primary key, and the HMAC-SHA256 of data under a key that
// HKDF derives from the primary key for the context.
func (v *Vault) MAC(data, context []byte) ([]byte, error) {
	return v.mac(v.primary, data, context)
}

// Verify reports whether mac is the MAC of data under the key whose id mac has. It compares
// in constant time.
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
