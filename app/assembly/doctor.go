package assembly

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"collab/adapters/system"
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
	c       Config
	secrets *strings.Replacer

	mu     sync.Mutex
	clocks []reading // guarded by mu
}

// Doctor checks a configuration for real and writes what it finds, for people or
// as JSON. It changes nothing that lasts, and disturbs no server that runs. The
// exit code is 0 when nothing is wrong, 1 when something is, and 2 when the
// configuration is of no use by itself.
func Doctor(ctx context.Context, environ []string, asJSON bool, out io.Writer) (code int) {
	c, err := ReadConfig(environ)
	d := &doctor{c: c, secrets: hide(c, environ)}
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
	first.ok("complete, for %s (collabd %s)", d.c.Mode, Version())
	for _, u := range d.c.unknown {
		first.inProduction("set "+u.nearest+", or nothing", "%s", u.String())
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

// hide returns what takes the secrets of a configuration out of a text.
func hide(c Config, environ []string) *strings.Replacer {
	all := []string{c.IdentityClientSecret, c.StripeKey, c.AnthropicKey, c.OpenAIKey, c.PostHogKey, c.AdminSecret}
	for _, list := range []*string{c.IdentityWebhooks, c.StripeWebhooks} {
		if list != nil {
			all = append(all, strings.Split(*list, ",")...)
		}
	}
	for _, address := range append(strings.Split(c.BusURL, ","), c.DatabaseURL, c.SMTPURL, c.IdentityIssuer, c.OTLPEndpoint) {
		// Where the address cannot be read, what is between : and @ may be one.
		if _, rest, found := strings.Cut(address, "://"); found {
			if at := strings.LastIndexByte(rest, '@'); at >= 0 {
				_, password, _ := strings.Cut(rest[:at], ":")
				all = append(all, password)
			}
		}
		if u, err := url.Parse(address); err == nil {
			password, set := u.User.Password()
			if !set && address != c.DatabaseURL {
				password = u.User.Username() // a token
			}
			all = append(all, password, u.Query().Get("password"), u.Query().Get("sslpassword"))
		}
	}
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS") {
			for header := range strings.SplitSeq(value, ",") {
				_, secret, _ := strings.Cut(header, "=")
				all = append(all, secret)
			}
		}
	}
	// The longest first, as one may be the beginning of another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range all {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			pairs = append(pairs, s, "…")
		}
	}
	return strings.NewReplacer(pairs...)
}

// minSecret is the length from which on something is taken for a secret: what is
// shorter is in any text.
const minSecret = 4

// bare is an address without credentials and parameters.
func bare(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		kind, _, _ := strings.Cut(address, ":")
		return kind + ":…"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
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
