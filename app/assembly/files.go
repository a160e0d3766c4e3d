package assembly

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"collab/adapters/atomicfile"
	"collab/app/assembly/config"
)

// keys reads the configured file of keys, or the one in the data directory, which it makes if
// there is none. Errors name the file.
func keys[K any](configured, defaultPath string, generate func() ([]byte, error), parse func([]byte) (K, error)) (K, error) {
	var none K
	path := configured
	text, err := []byte(nil), error(nil)
	if path == "" {
		path = defaultPath
		text, err = atomicfile.ReadOrCreate(path, generate)
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

// webhookSecrets returns the configured secrets of a provider's messages, or one that is made at
// the first start and kept in a file of the data directory.
func webhookSecrets(configured config.Secrets, c config.Config, file string, generate func() string) ([]string, error) {
	if configured.IsSet {
		return configured.Values(), nil
	}
	text, err := atomicfile.ReadOrCreate(filepath.Join(c.DataDir, file), func() ([]byte, error) {
		return []byte("whsec_" + generate() + "\n"), nil
	})
	return []string{strings.TrimSpace(string(text))}, err
}

// toStandardBase64 converts the URL-safe alphabet without padding, which Secrets uses, to the
// standard one of webhook secrets.
func toStandardBase64(s string) string {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	return s + strings.Repeat("=", (4-len(s)%4)%4)
}
