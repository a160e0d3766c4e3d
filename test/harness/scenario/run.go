package scenario

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/test/harness"
)

// start is what the clock of a scenario shows before it is set.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// report says what a run did.
type report struct {
	File         string
	Acts         int
	Expectations int
	Simulated    time.Duration // by which the clock was moved
	Failures     []failure
}

// failure is something that was not as expected.
type failure struct {
	File     string
	Line     int
	Text     string // the act or expectation as it was written
	Expected string
	Actual   string
}

func (f failure) String() string {
	return fmt.Sprintf("%s:%d: %s\n    expected: %s\n    actual:   %s", f.File, f.Line, f.Text, f.Expected, f.Actual)
}

// run runs a scenario in a deployment of its own, to its end or to the first act that succeeds or
// fails otherwise than it must: later acts would fail for that alone.
func (s *scenario) run(ctx context.Context) (report, error) {
	r, err := newRun(s.File)
	if err != nil {
		return report{}, err
	}
	defer r.close()
	r.steps(ctx, s.steps)
	return r.report, nil
}

// run is a scenario in progress.
type run struct {
	*harness.Deployment
	api server

	report        report
	results       map[string]named
	nameOf        map[string]string // the first name of an id
	variables     []variable        // of the blocks around the present step
	sessions      map[*harness.Account]session
	subscriptions map[string]*subscription // by the person's name
	pending       map[string]harness.Fault // of the next calls, by name
	leaves        bool                     // the client leaves the next response after its first part
	started       bool                     // something was done
}

// named is a result with a name.
type named struct {
	id string
	result
}

type variable struct{ name, value string }

func newRun(file string) (*run, error) {
	w, err := harness.NewDeployment(start)
	if err != nil {
		return nil, err
	}
	w.Faults.FailNext(map[string]harness.Fault{})
	r := &run{
		Deployment: w, report: report{File: file}, results: map[string]named{}, nameOf: map[string]string{},
		sessions: map[*harness.Account]session{}, subscriptions: map[string]*subscription{}, pending: map[string]harness.Fault{},
	}
	r.api, err = newServer(w)
	return r, err
}

func (r *run) close() {
	r.api.close()
	r.Deployment.Close()
}

// restart replaces the server. What is in its memory is gone.
func (r *run) restart() (err error) {
	clear(r.subscriptions)
	r.api.close()
	if err = r.Restart(); err == nil {
		r.api, err = newServer(r.Deployment)
	}
	return err
}

// steps does steps one after the other. It reports false after an act that ends the scenario.
func (r *run) steps(ctx context.Context, steps []*step) bool {
	for _, s := range steps {
		if s.act != nil {
			if !r.do(ctx, s) {
				return false
			}
			continue
		}
		for _, v := range s.values {
			if !r.block(ctx, s, v) {
				return false
			}
		}
		for i := range s.times {
			if !r.block(ctx, s, fmt.Sprint(i+1)) {
				return false
			}
		}
	}
	return true
}

func (r *run) block(ctx context.Context, s *step, value string) bool {
	r.variables = append(r.variables, variable{s.variable, value})
	ok := r.steps(ctx, s.body)
	r.variables = r.variables[:len(r.variables)-1]
	return ok
}

// fail reports a failure, with the values of the variables.
func (r *run) fail(line int, text, expected, actual string) {
	for _, v := range r.variables {
		if v.name != "" {
			text += fmt.Sprintf("  [%s is %s]", v.name, v.value)
		}
	}
	r.report.Failures = append(r.report.Failures, failure{r.report.File, line, text, expected, actual})
}

// do does an act and compares its result with what is expected. It reports false where the
// scenario ends.
func (r *run) do(ctx context.Context, s *step) bool {
	if ctx.Err() != nil {
		r.fail(s.line, s.text, "the end of the scenario", "it was cancelled")
		return false
	}
	got, err := r.perform(ctx, s)
	var wrong *misuse
	if errors.As(err, &wrong) {
		r.fail(s.line, s.text, "an act that can be done", wrong.message)
		return false
	}
	switch {
	case s.refusal != nil:
		return r.refused(s, err) && r.expectAll(s, got)
	case err != nil:
		r.fail(s.line, s.text, "success", r.show(refusalOf(err).String()))
		return false
	}
	r.expectAll(s, got)
	return true
}

// refused compares the error of an act with the refusal that is expected.
func (r *run) refused(s *step, err error) bool {
	r.report.Expectations++
	want := *s.refusal
	want.message = r.expand(want.message)
	if err == nil {
		r.fail(want.line, s.text, want.String(), "success")
		return false
	}
	got := refusalOf(err)
	if got.status != want.status || want.message != "" && !matches(got.message, want.message) {
		r.fail(want.line, s.text, want.String(), r.show(got.String()))
		return false
	}
	return true
}

// expectAll checks all expectations of an act.
func (r *run) expectAll(s *step, got result) bool {
	ok := true
	for _, e := range s.expects {
		ok = r.expect(e, got) && ok
	}
	return ok
}

func (r *run) expect(e expectation, got result) bool {
	r.report.Expectations++
	want, err := r.value(e.value)
	if err != nil {
		r.fail(e.line, e.text, "a value", err.Error())
		return false
	}
	actual, err := r.find(got, e.path)
	if err != nil {
		r.fail(e.line, e.text, "a path", err.Error())
		return false
	}
	text := "none"
	if want != nil {
		text = *want
	}
	if compare(actual, e.op, text) {
		return true
	}
	path := r.expand(e.path.text)
	r.fail(e.line, e.text, path+" "+e.op+" "+quote(r.show(text)), path+" = "+quote(r.show(format(actual))))
	return false
}

// find follows the path of an expectation.
func (r *run) find(got result, path word) (any, error) {
	parts, problem := parsePath(r.expand(path.text))
	if problem != "" {
		return nil, &misuse{problem}
	}
	for i, p := range parts {
		if p.find && strings.HasPrefix(p.value, "@") {
			v, err := r.value(word{text: p.value})
			if err != nil {
				return nil, err
			}
			if parts[i].value = "none"; v != nil {
				parts[i].value = *v
			}
		}
	}
	return got.find(parts), nil
}

// show writes a text with names in the place of ids that have one.
func (r *run) show(text string) string {
	const length = 36 // of an id
	if len(text) < length {
		return text
	}
	names := map[string]string{}
	for name := range r.Identity.Accounts {
		if user, found := r.Identity.UserOf(name); found {
			names[user] = name
		}
	}
	for id, name := range r.nameOf {
		names[id] = name
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if i+length <= len(text) && names[text[i:i+length]] != "" {
			b.WriteString("@" + names[text[i:i+length]])
			i += length - 1
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// expand puts the variables' values into a text.
func (r *run) expand(text string) string {
	return expand(text, func(name string) (string, bool) {
		for i := len(r.variables) - 1; i >= 0; i-- {
			if r.variables[i].name == name {
				return r.variables[i].value, true
			}
		}
		return "", false
	})
}

// value returns what a word stands for; nil: none.
func (r *run) value(w word) (*string, error) {
	text := r.expand(w.text)
	switch {
	case w.quoted || text == "":
	case text == "none":
		return nil, nil
	case text[0] == '@' && len(text) > 1:
		return r.lookup(text[1:])
	case text[0] == '+' || text[0] == '-':
		if d, ok := parseSpan(text[1:]); ok {
			if text[0] == '-' {
				d = -d
			}
			text = instant(r.Clock.Now().Add(d))
		}
	}
	return &text, nil
}

// lookup returns the id of a named result, or a part of the result.
func (r *run) lookup(name string) (*string, error) {
	name, path, parted := strings.Cut(name, ".")
	n, ok := r.results[name]
	if !ok {
		if r.Identity.Accounts[name] == nil {
			return nil, &misuse{fmt.Sprintf("nothing has the name @%s", name)}
		}
		// A person of whom the service knows nothing has no id but the name.
		if n.id, ok = r.Identity.UserOf(name); !ok {
			n.id = name
		}
	}
	if !parted {
		if n.id == "" {
			return nil, &misuse{fmt.Sprintf("@%s has no id: write @%s. and a field", name, name)}
		}
		return &n.id, nil
	}
	parts, problem := parsePath(path)
	if problem != "" {
		return nil, &misuse{problem}
	}
	v := n.find(parts)
	if v == nil {
		return nil, nil
	}
	return new(format(v)), nil
}

// bind gives a name to a result.
func (r *run) bind(name string, of result) error {
	if !isName(name) {
		return &misuse{fmt.Sprintf("%q cannot be a name", name)}
	}
	if r.Identity.Accounts[name] != nil || partyOf(name) != person {
		return &misuse{fmt.Sprintf("@%s is a person or a party", name)}
	}
	n := named{idOf(of.value), of}
	r.results[name] = n
	if _, ok := r.nameOf[n.id]; !ok && n.id != "" {
		r.nameOf[n.id] = name
	}
	return nil
}

// idOf returns the id that the name of a result stands for; empty: it has none.
func idOf(v any) string {
	of, _ := v.(object)
	for _, name := range []string{"id", "state", "org", "userId", "instanceId", "serverId", "cursor"} {
		switch v := of[name].(type) {
		case string:
			return v
		case object:
			if text, ok := v["id"].(string); ok {
				return text
			}
		}
	}
	return ""
}

// misuse is an act that makes no sense, whatever the server would answer.
type misuse struct{ message string }

func (m *misuse) Error() string { return m.message }

// refusal is the error of an act, or the one that is expected.
type refusal struct {
	line    int
	status  string // of HTTP, or crashed
	message string // of one that is expected … stands for any text; empty: any
}

// crashed is the status of an act during which the server crashed.
const crashed = "crashed"

func (r *refusal) Error() string { return r.String() }

// String writes a refusal as scenarios do.
func (r refusal) String() string {
	return strings.TrimSuffix("! "+r.status+": "+r.message, ": ")
}

// refusalOf returns the refusal of an error, as the API would reply with it.
func refusalOf(err error) refusal {
	var f *fault.Error
	var r *refusal
	switch {
	case errors.As(err, &r):
		return *r
	case errors.As(err, &f):
		return refusal{status: fmt.Sprint(statuses[f.Kind]), message: f.Message}
	}
	return refusal{status: "500", message: err.Error()}
}

// matches reports whether a message is as a pattern says, in which … stands for any text.
func matches(message, pattern string) bool {
	expr := strings.NewReplacer("…", ".*", `\.\.\.`, ".*").Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile("(?s)^" + expr + "$").MatchString(message)
}

// perform does an act.
func (r *run) perform(ctx context.Context, s *step) (got result, err error) {
	r.report.Acts++
	c := &call{run: r, ctx: ctx, step: s, act: s.act, actor: r.expand(s.actor), args: make(map[string]*string, len(s.args))}
	if s.subject != nil {
		if s.act.free {
			c.on = new(r.expand(s.subject.text))
		} else if c.on, err = r.value(*s.subject); err != nil {
			return got, err
		}
	}
	for _, a := range s.args {
		if c.args[a.key], err = r.value(a); err != nil {
			return got, err
		}
	}
	if err := c.findAccount(); err != nil {
		return got, err
	}
	got, err = r.attempt(c)
	if c.wrong != nil {
		return got, c.wrong
	}
	if e := r.Payments.Report(ctx); err == nil {
		err = e
	}
	if err != nil {
		return got, err
	}
	if r.started = r.started || s.act.party != clock; s.as != nil {
		return got, r.bind(r.expand(s.as.text), got)
	}
	return got, nil
}

// attempt does an act with the faults that were injected for it. A server that crashes is
// replaced by another.
func (r *run) attempt(c *call) (got result, err error) {
	if len(r.pending) == 0 {
		return guarded(c)
	}
	r.Faults.FailNext(r.pending)
	defer r.Faults.FailNext(map[string]harness.Fault{})
	if err, crashed := harness.Run(func() (err error) { got, err = guarded(c); return err }); !crashed {
		return got, err
	}
	if err := r.restart(); err != nil {
		return got, err
	}
	return got, &refusal{status: crashed}
}

// guarded does an act, and returns a panic as an error.
func guarded(c *call) (got result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	v, err := c.act.do(c)
	if err != nil {
		return got, err
	}
	if got, ok := v.(result); ok {
		return got, nil
	}
	return result{value: v}, nil
}
