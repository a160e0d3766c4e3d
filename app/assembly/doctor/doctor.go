// Package doctor checks a configuration against the systems that it names.
package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/domain/fault"
)

const (
	checkWithin = 10 * time.Second // what one check waits for others
	tidyWithin  = 5 * time.Second  // and then for taking away what it put somewhere
	maxSaid     = 300              // characters that are repeated of what somebody else says
)

// verdict is what a check comes to.
type verdict string

// The verdicts. A note is nothing wrong: it says what is built in, what is not
// used, or what is better known.
const (
	isFine  verdict = "ok"
	isNote  verdict = "note"
	isWrong verdict = "wrong"
)

// finding is a line of the doctor's: of which part, what there is to say, and,
// where something is to be done, what.
type finding struct {
	check   string
	verdict verdict
	message string
	remedy  string
}

// checks are all that the doctor looks at, in the order of the lines.
var checks = []struct {
	name string
	look func(*doctor, context.Context, *lines)
}{
	{"address", (*doctor).address},
	{"public-url", (*doctor).publicURL},
	{"proxies", (*doctor).proxies},
	{"data", (*doctor).data},
	{"database", (*doctor).database},
	{"bucket", (*doctor).bucket},
	{"bus", (*doctor).bus},
	{"token-keys", (*doctor).tokenKeys},
	{"secrets-keys", (*doctor).secretsKeys},
	{"identity", (*doctor).identity},
	{"identity-webhooks", (*doctor).identityWebhooks},
	{"payments", (*doctor).payments},
	{"payment-webhooks", (*doctor).paymentWebhooks},
	{"models", (*doctor).models},
	{"anthropic", (*doctor).anthropic},
	{"openai", (*doctor).openai},
	{"connectors", (*doctor).connectors},
	{"mail", (*doctor).mail},
	{"operator", (*doctor).operator},
	{"traces", (*doctor).traces},
	{"analytics", (*doctor).analytics},
}

// doctor looks at one configuration.
type doctor struct {
	c       config.Config
	version string
	secrets *strings.Replacer

	mu     sync.Mutex
	clocks []reading // guarded by mu
}

// Run checks a configuration for real and writes what it finds, for people or as JSON.
// It changes nothing that lasts, and disturbs no server that runs. The exit code is 0
// when nothing is wrong, 1 when something is, and 2 when the configuration is invalid by
// itself. The version is that of the program.
func Run(ctx context.Context, environ []string, version string, asJSON bool, out io.Writer) (code int) {
	c, err := config.Read(environ)
	d := &doctor{c: c, version: version, secrets: c.Redactor()}
	var all []finding
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			l := d.lines("configuration")
			l.wrong("", "%s", errors.New(strings.TrimSpace(line)))
			all = append(all, l.all...)
		}
		code = 2
	} else {
		all = d.examine(ctx)
		for _, f := range all {
			if f.verdict == isWrong {
				code = 1
			}
		}
	}
	if asJSON {
		writeJSON(out, all, code == 0)
	} else {
		write(out, all)
	}
	return code
}

func writeJSON(out io.Writer, all []finding, ok bool) {
	views := make([]map[string]string, len(all))
	for i, f := range all {
		views[i] = map[string]string{"check": f.check, "verdict": string(f.verdict), "message": f.message, "remedy": f.remedy}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]any{"ok": ok, "checks": views})
}

// columns is where messages begin.
const columns = "%-5s %-17s "

func write(out io.Writer, all []finding) {
	wrong := 0
	for _, f := range all {
		fmt.Fprintf(out, columns+"%s\n", f.verdict, f.check, f.message)
		if f.remedy != "" {
			fmt.Fprintf(out, columns+"→ %s\n", "", "", f.remedy)
		}
		if f.verdict == isWrong {
			wrong++
		}
	}
	switch wrong {
	case 0:
		fmt.Fprintln(out, "Nothing is wrong.")
	case 1:
		fmt.Fprintln(out, "One thing is wrong.")
	default:
		fmt.Fprintf(out, "%d things are wrong.\n", wrong)
	}
}

// examine makes all checks at once. One that hangs is left behind.
func (d *doctor) examine(ctx context.Context) []finding {
	first := d.lines("configuration")
	first.ok("complete, for %s (collabd %s)", d.c.Mode, d.version)
	for _, u := range d.c.Unknown {
		first.inProduction("set "+u.Nearest+", or nothing", "%s", u.String())
	}
	found := make([]chan []finding, len(checks))
	for i, check := range checks {
		found[i] = make(chan []finding, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, checkWithin)
			defer cancel()
			l := d.lines(check.name)
			check.look(d, ctx, l)
			found[i] <- l.all
		}()
	}
	all := first.all
	over := time.NewTimer(checkWithin + tidyWithin)
	defer over.Stop()
	hung := false
	for i, check := range checks {
		if !hung {
			select {
			case lines := <-found[i]:
				all = append(all, lines...)
				continue
			case <-over.C:
				hung = true
			}
		}
		select {
		case lines := <-found[i]:
			all = append(all, lines...)
		default:
			l := d.lines(check.name)
			l.wrong("a disk or a name server may hang", "does not come to an end in %s", checkWithin+tidyWithin)
			all = append(all, l.all...)
		}
	}
	last := d.lines("clock")
	d.clock(last)
	return append(all, last.all...)
}

// warn adds the warnings of the configuration that belong to the check.
func (l *lines) warn() {
	for _, w := range l.d.c.Warnings() {
		if w.Check == l.name {
			l.inProduction(w.Remedy, "%s", w.Message)
		}
	}
}

// lines are what one check finds.
type lines struct {
	d    *doctor
	name string
	all  []finding
}

func (d *doctor) lines(name string) *lines { return &lines{d: d, name: name} }

func (l *lines) ok(format string, args ...any)           { l.add(isFine, "", format, args) }
func (l *lines) note(remedy, format string, args ...any) { l.add(isNote, remedy, format, args) }

// wrong notes what is to be mended, and how.
func (l *lines) wrong(remedy, format string, args ...any) { l.add(isWrong, remedy, format, args) }

// inProduction notes what is wrong in production, and no more than worth a note in
// development.
func (l *lines) inProduction(remedy, format string, args ...any) {
	v := isNote
	if l.d.c.Production() {
		v = isWrong
	}
	l.add(v, remedy, format, args)
}

func (l *lines) add(v verdict, remedy, format string, args []any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = l.d.said(err)
		}
	}
	l.all = append(l.all, finding{l.name, v, oneLine(fmt.Sprintf(format, args...)), remedy})
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
}

// said puts an error in plain words: what it is to people, and what is behind
// that. What others said may hold what they were told, so that it is shortened
// and has no secrets of the configuration's left in it.
func (d *doctor) said(err error) string {
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
	if all := []rune(text); len(all) > maxSaid {
		text = string(all[:maxSaid]) + "…"
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
		return fmt.Sprintf("there is no host of the name %q", name.Name)
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &plain):
		return "it does not speak TLS"
	case errors.As(err, &op):
		return op.Error()
	}
	return err.Error()
}

func now() time.Time { return system.Clock{}.Now() }

// reading is somebody else's clock, read between two looks at ours.
type reading struct {
	whose         string
	theirs        time.Time
	exact         time.Duration // theirs is of so much precision, downwards
	before, after time.Time
}

// apart is how far the other clock is from ours at least: positive where it is
// ahead. The way there and back counts for nobody.
func (r reading) apart() time.Duration {
	if ahead := r.theirs.Sub(r.after); ahead > 0 {
		return ahead
	}
	if behind := r.before.Sub(r.theirs.Add(r.exact)); behind > 0 {
		return -behind
	}
	return 0
}

func (d *doctor) compare(r reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.clocks {
		if known.whose == r.whose {
			return
		}
	}
	d.clocks = append(d.clocks, r)
}

// maxApart is how far clocks may be apart.
const maxApart = 5 * time.Second

func (d *doctor) clock(l *lines) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var agree []string
	for _, r := range d.clocks {
		apart := r.apart().Round(100 * time.Millisecond)
		if apart.Abs() <= maxApart {
			agree = append(agree, r.whose)
			continue
		}
		which := "ahead of"
		if apart < 0 {
			which = "behind"
		}
		l.wrong("keep the time of both machines by NTP: tokens and signed messages that are off by minutes are refused",
			"that of %s is %s %s this machine's", r.whose, apart.Abs(), which)
	}
	switch {
	case len(d.clocks) == 0:
		l.note("", "nothing to compare this machine's with")
	case len(agree) > 0:
		l.ok("this machine's agrees with %s", strings.Join(agree, ", "))
	}
}

// timed are the clients of checks: they note what the Date of answers says.
type timed struct {
	next  http.RoundTripper
	d     *doctor
	whose string
}

func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	before := now()
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	date, wrong := http.ParseTime(answer.Header.Get("Date"))
	// A cache gives the Date of when it was told.
	age, _ := time.ParseDuration(answer.Header.Get("Age") + "s")
	if wrong == nil && age >= 0 {
		t.d.compare(reading{t.whose, date.Add(age), time.Second, before, now()})
	}
	return answer, nil
}

// client returns a client for somebody's interface.
func (d *doctor) client(whose string) *http.Client {
	return &http.Client{Transport: timed{http.DefaultTransport, d, whose}, Timeout: checkWithin}
}
