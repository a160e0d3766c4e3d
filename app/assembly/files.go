package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"collab/ports"
)

// keep returns what the file holds, having written what make returns first if
// there is no such file. Of several processes that start at once one writes,
// and all read the same. The file is readable by its owner alone.
func keep(path string, make func() ([]byte, error)) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		content, err := make()
		if err != nil {
			return nil, err
		}
		if err := place(path, content); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// place writes a file whole or not at all, so that it outlives a crash, and
// leaves alone one that is there.
func place(path string, content []byte) (err error) {
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
	return syncFolder(folder)
}

// keys reads a configured file of keys, else the one in the data folder, which
// is made at first start. Errors name the file.
func keys[K any](configured, own string, make func() ([]byte, error), parse func([]byte) (K, error)) (K, error) {
	var none K
	path := configured
	text, err := []byte(nil), error(nil)
	if path == "" {
		path = own
		text, err = keep(path, make)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return none, err
	}
	k, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// webhookSecrets returns the secrets of the identity provider's messages: the
// configured ones, else one that is made at first start.
func webhookSecrets(c Config, s ports.Secrets) ([]string, error) {
	if c.IdentityWebhooks != nil {
		return strings.Split(*c.IdentityWebhooks, ","), nil
	}
	made, err := keep(filepath.Join(c.DataDir, "identity-webhook-secret"), func() ([]byte, error) {
		return []byte("whsec_" + standardBase64(s.Secret()) + "\n"), nil
	})
	return []string{strings.TrimSpace(string(made))}, err
}

// standardBase64 turns the URL-safe alphabet without padding, in which secrets
// are made, into the one that webhook secrets are written in.
func standardBase64(s string) string {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	return s + strings.Repeat("=", (4-len(s)%4)%4)
}
