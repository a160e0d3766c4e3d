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
func keep(path string, make func() string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := place(path, make()); err != nil {
			return "", err
		}
	}
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// place writes a file whole or not at all, and leaves alone one that is there.
func place(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// webhookSecrets returns the secrets of the identity provider's messages: the
// configured ones, else one that is made at first start.
func webhookSecrets(c Config, s ports.Secrets) ([]string, error) {
	if c.IdentityWebhooks != nil {
		return strings.Split(*c.IdentityWebhooks, ","), nil
	}
	made, err := keep(filepath.Join(c.DataDir, "identity-webhook-secret"), func() string {
		return "whsec_" + standardBase64(s.Secret())
	})
	return []string{made}, err
}

// standardBase64 turns the URL-safe alphabet without padding, in which secrets
// are made, into the one that webhook secrets are written in.
func standardBase64(s string) string {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	return s + strings.Repeat("=", (4-len(s)%4)%4)
}
