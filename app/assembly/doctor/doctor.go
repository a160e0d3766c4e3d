// Package doctor checks a configuration against the systems that it names. Adapters inspect
// their own; the doctor runs them, checks what is the program's own, and prints the findings.
package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode"

	"collab/adapters/inspect"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/domain/fault"
)

const (
	checkTimeout = 10 * time.Second // of one check
	tidyTimeout  = 5 * time.Second  // more, to remove what a check has written
	maxErrorText = 300              // characters of an error
)

// doctor checks one configuration.
type doctor struct {
	c       config.Config
	version string
	secrets *strings.Replacer
	clocks  *inspect.Clocks
}

// Run checks a configuration for real and writes what it finds, for people or as JSON.
// It changes nothing that lasts, and disturbs no server that runs. The exit code is 0
// when nothing is wrong, 1 when something is, and 2 when the configuration is invalid by
// itself. The version is that of the program.
func Run(ctx context.Context, environ []string, version string, asJSON bool, out io.Writer) (code int) {
	c, err := config.Read(environ)
	d := &doctor{c: c, version: version, secrets: c.Redactor(), clocks: &inspect.Clocks{Now: system.Clock{}.Now, Timeout: checkTimeout}}
	var all []view
	if err != nil {
		var f inspect.Findings
		for line := range strings.Lines(err.Error()) {
			f.Wrong("", "").Err = errors.New(strings.TrimSpace(line))
		}
		all = d.views("configuration", f)
		code = 2
	} else {
		all = d.examine(ctx)
		if wrong(all) > 0 {
			code = 1
		}
	}
	if asJSON {
		writeJSON(out, all, code == 0)
	} else {
		write(out, all)
	}
	return code
}

// view is a finding as it is printed.
type view struct {
	check   string
	verdict inspect.Severity
	message string
	remedy  string
}

// views returns findings as they are printed, those without a part under the name of the
// check.
func (d *doctor) views(check string, findings inspect.Findings) (all []view) {
	for _, f := range findings {
		v := view{check, f.Severity, f.Text, f.Remedy}
		if f.Part != "" {
			v.check = f.Part
		}
		if f.Severity == inspect.Risk {
			v.verdict = inspect.Note
			if d.c.Production() {
				v.verdict = inspect.Wrong
			}
		}
		if f.Err != nil && v.message != "" {
			v.message += ": "
		}
		if f.Err != nil {
			v.message += d.explain(f.Err)
		}
		v.message = oneLine(v.message)
		all = append(all, v)
	}
	return all
}

func wrong(all []view) (n int) {
	for _, v := range all {
		if v.verdict == inspect.Wrong {
			n++
		}
	}
	return n
}

func writeJSON(out io.Writer, all []view, ok bool) {
	checks := make([]map[string]any, len(all))
	for i, v := range all {
		checks[i] = map[string]any{"check": v.check, "verdict": v.verdict, "message": v.message, "remedy": v.remedy}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"ok": ok, "checks": checks})
}

// columns is the format of what comes before a message.
const columns = "%-5s %-17s "

func write(out io.Writer, all []view) {
	for _, v := range all {
		fmt.Fprintf(out, columns+"%s\n", v.verdict, v.check, v.message)
		if v.remedy != "" {
			fmt.Fprintf(out, columns+"→ %s\n", "", "", v.remedy)
		}
	}
	switch n := wrong(all); n {
	case 0:
		fmt.Fprintln(out, "Nothing is wrong.")
	case 1:
		fmt.Fprintln(out, "One thing is wrong.")
	default:
		fmt.Fprintf(out, "%d things are wrong.\n", n)
	}
}

// examine runs all checks concurrently. One that does not end in time is abandoned.
func (d *doctor) examine(ctx context.Context) []view {
	var first inspect.Findings
	first.OK("complete, for %s (collabd %s)", d.c.Mode, d.version)
	for _, u := range d.c.Unknown {
		first.Risk("set "+u.Nearest+", or nothing", "%s", u.String())
	}
	all := d.views("configuration", first)
	found := make([]chan inspect.Findings, len(checks))
	for i, check := range checks {
		found[i] = make(chan inspect.Findings, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			found[i] <- check.run(d, ctx)
		}()
	}
	deadline := time.NewTimer(checkTimeout + tidyTimeout)
	defer deadline.Stop()
	late := false
	for i, check := range checks {
		if !late {
			select {
			case f := <-found[i]:
				all = append(all, d.views(check.name, f)...)
				continue
			case <-deadline.C:
				late = true
			}
		}
		var f inspect.Findings
		select {
		case f = <-found[i]:
		default:
			f.Wrong("a disk or a name server may hang", "does not end within %s", checkTimeout+tidyTimeout)
		}
		all = append(all, d.views(check.name, f)...)
	}
	return append(all, d.views("clock", d.clocks.Inspect())...)
}

// warnings returns the warnings of the configuration that belong to a check.
func (d *doctor) warnings(check string) (f inspect.Findings) {
	for _, w := range d.c.Warnings() {
		if w.Check == check {
			f.Risk(w.Remedy, "%s", w.Message)
		}
	}
	return f
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
}

// explain returns the message of an error and of its cause. Other systems may answer with
// what they were sent, so the text is shortened and has no secrets of the configuration.
func (d *doctor) explain(err error) string {
	var known *fault.Error
	text := ""
	if errors.As(err, &known) {
		text, err = known.Message, known.Cause
	}
	if err != nil {
		if text != "" {
			text += ": "
		}
		text += reason(err)
	}
	text = d.secrets.Replace(text)
	if all := []rune(text); len(all) > maxErrorText {
		text = string(all[:maxErrorText]) + "…"
	}
	return text
}

func reason(err error) string {
	var name *net.DNSError
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("the host %q does not exist", name.Name)
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &plain):
		return "it does not speak TLS"
	case errors.As(err, &op):
		return op.Error()
	}
	return err.Error()
}
