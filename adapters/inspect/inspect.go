// Package inspect has the findings that adapters report about the systems of a configuration,
// and checks that several of them make: of directories, key files, webhook secrets and clocks. It is a leaf: it imports the standard library alone.
package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Severity says whether something must be done about a finding.
type Severity string

const (
	OK    Severity = "ok"
	Note  Severity = "note"  // nothing is wrong: what is built in, not used, or worth knowing
	Risk  Severity = "risk"  // Wrong in production, Note in development
	Wrong Severity = "wrong" // the server does not work, or does not work safely
)

// Finding is one result of an inspection.
type Finding struct {
	Part     string // of the system, such as schema; empty: the caller names it
	Severity Severity
	Text     string
	Err      error  // its message follows Text; it may contain what other systems answer
	Remedy   string // what to do; empty: nothing
}

// Findings collects the results of an inspection.
type Findings []Finding

// OK adds a finding with nothing to do.
func (f *Findings) OK(format string, args ...any) *Finding { return f.add(OK, "", format, args) }

// Note adds a note. The caller may set Err of what it returns before the next finding.
func (f *Findings) Note(remedy, format string, args ...any) *Finding {
	return f.add(Note, remedy, format, args)
}

// Risk adds a risk. The caller may set Err of what it returns before the next finding.
func (f *Findings) Risk(remedy, format string, args ...any) *Finding {
	return f.add(Risk, remedy, format, args)
}

// Wrong adds a fault. The caller may set Err of what it returns before the next finding.
func (f *Findings) Wrong(remedy, format string, args ...any) *Finding {
	return f.add(Wrong, remedy, format, args)
}

func (f *Findings) add(s Severity, remedy, format string, args []any) *Finding {
	*f = append(*f, Finding{Severity: s, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	return &(*f)[len(*f)-1]
}

// Of sets the part of each finding and returns the findings.
func (f Findings) Of(part string) Findings {
	for i := range f {
		f[i].Part = part
	}
	return f
}

// Address is a URL that findings name.
type Address interface {
	Text() string    // the whole URL, which must not be printed
	String() string  // without credentials, parameters and fragment
	Plaintext() bool // requests to another machine are not encrypted
}

// Get requests a URL and returns the status of the response.
func Get(ctx context.Context, client *http.Client, address string) (status int, err error) {
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	return response.StatusCode, response.Body.Close()
}

// Milliseconds returns the text of a duration in whole milliseconds.
func Milliseconds(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1 ms"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// WebhookSecrets inspects the secrets of a sender's messages, which the variable lists.
// The errors of check must not contain the secret.
func WebhookSecrets(secrets []string, sender, variable string, check func(secret string) error) (f Findings) {
	remedy := "copy the secret of the endpoint from " + sender + " to " + variable
	if len(secrets) == 0 {
		f.Note(remedy, "no message of %s is accepted", sender)
		return f
	}
	valid := true
	for i, s := range secrets {
		if err := check(s); err != nil {
			valid = false
			f.Wrong(remedy, "secret %d", i+1).Err = err
		}
		if before := slices.Index(secrets, s); before < i {
			f.Note("take it out of "+variable, "secret %d is secret %d again", i+1, before+1)
		}
	}
	if valid {
		f.OK("%d of the right form", len(secrets))
	}
	return f
}
