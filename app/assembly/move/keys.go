package move

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"collab/adapters/atomicfile"
	"collab/adapters/fileowner"
	"collab/app/assembly/backup"
)

// keyPath returns the path of a file of keys or secrets, which need not exist.
func (p location) keyPath(name string) string {
	if path := p.keys[name]; path != "" {
		return path
	}
	return filepath.Join(p.directory, name)
}

// eachKeyFile calls fn with the path in the target and the content of each file of keys, secrets and
// development providers, if both locations are data directories.
func (m *mover) eachKeyFile(fn func(path string, content []byte) error) error {
	if m.from.directory == "" || m.to.directory == "" {
		return nil
	}
	for _, name := range backup.SmallFiles {
		content, err := os.ReadFile(m.from.keyPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = fn(filepath.Join(m.to.directory, name), content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSameFile returns an error if a file exists with other content.
func checkSameFile(path string, content []byte) error {
	existing, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !bytes.Equal(existing, content) {
		err = fmt.Errorf("the target is not empty: it has another %s; choose an empty target", path)
	}
	return err
}

// copyKeyFiles copies the files to the target, and returns an error if it has others.
func (m *mover) copyKeyFiles() error {
	return m.eachKeyFile(func(path string, content []byte) error {
		if err := atomicfile.Create(path, content); err != nil {
			return err
		}
		if err := fileowner.Inherit(path); err != nil {
			return err
		}
		return checkSameFile(path, content)
	})
}

// printSummary prints the variables of servers on the target, without secrets.
func (m *mover) printSummary() error {
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "The target is complete. Servers on it need:")
	if m.to.directory != "" {
		fmt.Fprintf(w, "  COLLAB_DATA_DIR\t%s\n", m.to.directory)
	} else {
		fmt.Fprintf(w, "  COLLAB_DATABASE_URL\t%s, as given with --to\n", m.to.database)
	}
	switch {
	case !m.to.blobs.IsSet():
		fmt.Fprintf(w, "  COLLAB_BLOB_URL\t%s, as before: no content was copied\n", m.from.blobs)
	case m.to.directory == "" || m.to.blobs.Path() != filepath.Join(m.to.directory, "blobs"):
		fmt.Fprintf(w, "  COLLAB_BLOB_URL\t%s, as given with --blobs\n", m.to.blobs)
	}
	switch {
	case m.from.directory == "":
		fmt.Fprintln(w, "  COLLAB_TOKEN_KEYS, COLLAB_SECRETS_KEYS\tthe files of the source's servers")
	case m.to.directory != "":
		fmt.Fprintln(w, "The files of keys and secrets are in that directory.")
	case m.archive != "":
		fmt.Fprintf(w, "  COLLAB_TOKEN_KEYS, COLLAB_SECRETS_KEYS\tthe files that are in the archive: tar --zstd -xf %s %s %s\n",
			m.archive, backup.SmallFiles[0], backup.SmallFiles[1])
	default:
		for i, variable := range []string{"COLLAB_TOKEN_KEYS", "COLLAB_SECRETS_KEYS"} {
			fmt.Fprintf(w, "  %s\t%s\n", variable, m.from.keyPath(backup.SmallFiles[i]))
		}
		for name, variable := range map[string]string{
			"identity-webhook-secret": "COLLAB_IDENTITY_WEBHOOK_SECRETS", "payment-webhook-secret": "COLLAB_STRIPE_WEBHOOK_SECRETS",
		} {
			if _, err := os.Stat(m.from.keyPath(name)); err == nil {
				fmt.Fprintf(w, "  %s\tthe line in %s, or as it is set now\n", variable, m.from.keyPath(name))
			}
		}
	}
	if m.epochRaised {
		fmt.Fprintln(w, "Clients will read everything again, because the source is older than what they may have read.")
	}
	return w.Flush()
}
