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
	"io/fs"
	"os"
	"path/filepath"
)

// Keys are the private keys of a file, in its order: the first signs, all
// verify. A key is retired by leaving it in the file behind the new first one
// until the last token that it signed can no longer be refreshed.
type Keys []ed25519.PrivateKey

const pemType = "PRIVATE KEY" // PKCS #8

// Load reads a file of PEM Ed25519 private keys.
func Load(path string) (Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// LoadOrCreate reads a file of keys, having made it with one new key when there
// was none. Of several processes that start at once one makes it and all read
// the same.
func LoadOrCreate(path string) (Keys, error) {
	keys, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := create(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})); err != nil {
		return nil, err
	}
	return Load(path)
}

func parse(text []byte) (Keys, error) {
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

// thumbprint names a key as RFC 7638 and RFC 8037 say.
func thumbprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + coordinate(key) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func coordinate(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

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
