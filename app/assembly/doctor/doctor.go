// Package doctor checks a configuration against the systems that it names. Adapters inspect
// their own; the doctor runs them, checks what is the program's own, and prints the findings.
package doctor

import (
	"cmp"
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

	"collab/adapters/httpapi"
	"collab/adapters/inspect"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/domain/fault"
)

const (
	checkTimeout   = 10 * time.Second // of one check
	cleanupTimeout = 5 * time.Second  // more, to remove what a check has written
	maxErrorText   = 300              // characters of an error
)

// doctor checks one configuration.
type doctor struct {
	c        config.Config
	version  string
	secrets  *strings.Replacer
	clocks   *inspect.Clocks
	inServer bool // the program that runs the checks is the server of the configuration
}

// Examine checks the configuration of the server that calls it as Run does, within 15 seconds. The
// version is that of the program.
func Examine(ctx context.Context, c config.Config, version string) []httpapi.Finding {
	d := newDoctor(c, version)
	d.inServer = true
	return d.examine(ctx)
}

func newDoctor(c config.Config, version string) *doctor {
	return &doctor{c: c, version: version, secrets: c.Redactor(), clocks: &inspect.Clocks{Now: system.Clock{}.Now, Timeout: checkTimeout}}
}

// Run checks a configuration for real and writes what it finds, for people or as JSON.
// It changes nothing that lasts, and disturbs no server that runs. The exit code is 0
// when nothing is wrong, 1 when something is, and 2 when the configuration is invalid by
// itself. The version is that of the program.
func Run(ctx context.Context, environ []string, version string, asJSON bool, out io.Writer) (code int) {
	c, err := config.Read(environ)
	d := newDoctor(c, version)
	var all []httpapi.Finding
	if err != nil {
		var f inspect.Findings
		for line := range strings.Lines(err.Error()) {
			f.Wrong("", "").Err = errors.New(strings.TrimSpace(line))
		}
		all = d.views("configuration", f)
		code = 2
	} else {
		all = d.examine(ctx)
		if countWrong(all) > 0 {
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

// views returns findings as they are shown, those without a part under the name of the
// check.
func (d *doctor) views(check string, findings inspect.Findings) (all []httpapi.Finding) {
	for _, f := range findings {
		v := httpapi.Finding{Check: cmp.Or(f.Part, check), Verdict: string(f.Severity), Message: f.Text, Remedy: f.Remedy, Variables: []httpapi.Variable{}}
		switch {
		case f.Severity != inspect.Risk:
		case d.c.Production():
			v.Verdict = string(inspect.Wrong)
		default:
			v.Verdict = string(inspect.Note)
		}
		if f.Err != nil && v.Message != "" {
			v.Message += ": "
		}
		if f.Err != nil {
			v.Message += d.explain(f.Err)
		}
		v.Message = oneLine(v.Message)
		config.DescribeVariables(v.Message+" "+v.Remedy, func(name, help string) {
			v.Variables = append(v.Variables, httpapi.Variable{Name: name, Help: help})
		})
		all = append(all, v)
	}
	return all
}

func countWrong(all []httpapi.Finding) (n int) {
	for _, v := range all {
		if v.Verdict == string(inspect.Wrong) {
			n++
		}
	}
	return n
}

func writeJSON(out io.Writer, all []httpapi.Finding, ok bool) {
	checks := make([]map[string]any, len(all))
	for i, v := range all {
		checks[i] = map[string]any{"check": v.Check, "verdict": v.Verdict, "message": v.Message, "remedy": v.Remedy}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"ok": ok, "checks": checks})
}

// columns is the format of what comes before a message.
const columns = "%-5s %-17s "

func write(out io.Writer, all []httpapi.Finding) {
	for i, v := range all {
		fmt.Fprintf(out, columns+"%s\n", v.Verdict, v.Check, v.Message)
		sameRemedyFollows := i+1 < len(all) && all[i+1].Check == v.Check && all[i+1].Remedy == v.Remedy
		if v.Remedy != "" && !sameRemedyFollows {
			fmt.Fprintf(out, columns+"→ %s\n", "", "", v.Remedy)
		}
	}
	switch n := countWrong(all); n {
	case 0:
		fmt.Fprintln(out, "Nothing is wrong.")
	case 1:
		fmt.Fprintln(out, "One thing is wrong.")
	default:
		fmt.Fprintf(out, "%d things are wrong.\n", n)
	}
}

// examine runs all checks concurrently. One that does not end in time is abandoned.
func (d *doctor) examine(ctx context.Context) []httpapi.Finding {
	var first inspect.Findings
	first.OK("complete, for %s (collabd %s)", d.c.Mode, d.version)
	for _, u := range d.c.Unknown {
		first.Risk("set "+u.Nearest+", or nothing", "%s", u.String())
	}
	all := append(d.views("configuration", first), d.views("production", d.missing())...)
	found := make([]chan inspect.Findings, len(checks))
	for i, check := range checks {
		found[i] = make(chan inspect.Findings, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			var f inspect.Findings
			if err := fault.Catch(func() error { f = check.run(d, ctx); return nil }); err != nil {
				f.Wrong("report it", "the check failed").Err = err
			}
			found[i] <- f
		}()
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout+cleanupTimeout)
	defer cancel()
	for i, check := range checks {
		var f inspect.Findings
		select {
		case f = <-found[i]:
		case <-late.Done():
			select {
			case f = <-found[i]: // both were ready
			default:
				f.Wrong("see whether a disk or the name server answers", "does not end within %s", checkTimeout+cleanupTimeout)
			}
		}
		all = append(all, d.views(check.name, f)...)
	}
	return append(all, d.views("clock", d.clocks.Inspect())...)
}

// missing returns what a configuration for development lacks for production.
func (d *doctor) missing() (f inspect.Findings) {
	switch {
	case d.c.Production():
	case len(d.c.Missing) == 0:
		f.Note("set COLLAB_MODE=production, which never uses stand-ins", "everything is set that production needs")
	default:
		f.Note("set COLLAB_MODE=production once all below is set", "stand-ins replace what is not configured: they are for trying the server out")
		for _, line := range d.c.Missing {
			f.Note("set it for production", "%s", line)
		}
	}
	return f
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

// explain returns the message of an error and of its cause. Other systems may reply with
// what they were sent, so the text is shortened and has no secrets of the configuration.
func (d *doctor) explain(err error) string {
	text := ""
	if known, ok := errors.AsType[*fault.Error](err); ok {
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
