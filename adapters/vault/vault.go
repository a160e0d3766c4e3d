// Package vault encrypts what must not be read where it is kept, with a Tink
// keyset in a file.
package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// Load reads a file with a Tink keyset of AEAD keys in JSON. Its errors never
// hold anything of the file's content.
func Load(path string) (*Vault, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: does not hold a Tink keyset in JSON", path)
	}
	keys, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("%s: holds a key that is not for authenticated encryption", path)
	}
	return &Vault{keys}, nil
}

// LoadOrCreate reads a file with a keyset, having made it with one new
// AES-256-GCM key when there was none. Of several processes that start at once
// one makes it and all read the same.
func LoadOrCreate(path string) (*Vault, error) {
	v, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, err
	}
	if err := create(path, text.Bytes()); err != nil {
		return nil, err
	}
	return Load(path)
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

// create makes the file with the content unless there is one by now. The file
// appears whole or not at all, readable by its owner only, and outlives a crash.
func create(path string, content []byte) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces what another process has made.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
