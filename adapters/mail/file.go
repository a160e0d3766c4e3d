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

// File writes messages into a file instead of sending them, for development.
// They hold secrets, so that the file is its owner's alone and the log says
// nothing but where it is.
type File struct {
	path  string
	log   *slog.Logger
	clock ports.Clock
	mu    sync.Mutex // one message after the other
}

// NewFile returns the mailer that appends to the file at path.
func NewFile(path string, log *slog.Logger, clock ports.Clock) *File {
	return &File{path: path, log: log, clock: clock}
}

// Send appends the message. Invalid for a recipient that is not an address.
func (f *File) Send(_ context.Context, m mail.Message) error {
	err := f.write(m)
	if err != nil {
		f.log.Error("e-mail not written", "file", f.path, "reason", err)
	} else {
		f.log.Info("e-mail written to a file instead of sent", "file", f.path)
	}
	return err
}

func (f *File) write(m mail.Message) error {
	to, err := recipient(m.To)
	if err != nil {
		return err
	}
	// Quoting the lines keeps a text from looking like the next message.
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
