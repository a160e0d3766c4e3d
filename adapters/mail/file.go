package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"collab/domain/mail"
	"collab/ports"
)

var _ ports.Mailer = (*File)(nil)

// File appends messages to a file instead of sending them, for development. Messages contain
// secrets, so only the owner can read the file, and the log has only its name.
type File struct {
	path  string
	log   *slog.Logger
	clock ports.Clock
	mu    sync.Mutex // serialises writes
}

// NewFile returns a mailer that appends to the file at path.
func NewFile(path string, log *slog.Logger, clock ports.Clock) *File {
	return &File{path: path, log: log, clock: clock}
}

// Send appends the message. It returns Invalid if the recipient is not an address.
func (f *File) Send(_ context.Context, m mail.Message) error {
	err := f.write(m)
	if err != nil {
		f.log.Error("e-mail file write failed", "file", f.path, "reason", err)
	} else {
		f.log.Info("e-mail written to file", "file", f.path)
	}
	return err
}

func (f *File) write(m mail.Message) error {
	to, err := recipient(m.To)
	if err != nil {
		return err
	}
	// The lines are indented, so that a text cannot look like the next message.
	text := strings.ReplaceAll(strings.TrimRight(m.Text, "\n"), "\n", "\n  ")
	entry := fmt.Sprintf("Date: %s\nTo: %s\nSubject: %s\n\n  %s\n\n",
		f.clock.Now().Format(time.RFC3339), to.Address, oneLine(m.Subject), text)
	return f.append(entry)
}

func (f *File) append(entry string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(entry)
	return errors.Join(err, file.Close())
}
