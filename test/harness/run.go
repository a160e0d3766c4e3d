package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"collab/app/access"
	"collab/domain/fault"
)

// Beginning is what the clock of a scenario shows before it is set.
var Beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// end is as far as the clock can be moved.
var end = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// Report is what came of a run.
type Report struct {
	File         string
	Acts         int
	Expectations int
	Simulated    time.Duration // that went by in the scenario
	Failures     []Failed
}

// Failed is something that was not as expected.
type Failed struct {
	File     string
	Line     int
	Text     string // the act or expectation as it was written
	Expected string
	Actual   string
}

func (f Failed) String() string {
	return fmt.Sprintf("%s:%d: %s\n    expected: %s\n    actual:   %s", f.File, f.Line, f.Text, f.Expected, f.Actual)
}

// Run plays a scenario in a world of its own, to its end or to the first act
// that does not come out as it should: what is built on it would fail as well.
func (s *Scenario) Run(ctx context.Context) (Report, error) {
	w, err := NewWorld(Beginning)
	if err != nil {
		return Report{}, err
	}
	r := newRun(w, s.File)
	defer r.close()
	r.play(ctx, s.steps)
	return r.report, nil
}

// run is a world with the names that a scenario has given in it.
type run struct {
	world     *World
	report    Report
	names     map[string]named
	nameOf    map[string]string // the first name of an id
	variables []variable        // of the blocks around the present step
	feeds     map[string]*feed  // by the name of who listens
	started   bool              // something was done
}

type named struct {
	id     string
	answer any
}

type variable struct{ name, value string }

func newRun(w *World, file string) *run {
	w.Line.Heal()
	w.Line.Wait(true)
	return &run{world: w, report: Report{File: file}, names: map[string]named{}, nameOf: map[string]string{}, feeds: map[string]*feed{}}
}

func (r *run) close() {
	r.hush()
	r.world.Close()
}

// play does steps one after the other; false: an act came out otherwise than it
// should.
func (r *run) play(ctx context.Context, steps []*step) bool {
	for _, s := range steps {
		switch {
		case s.act != nil:
			if !r.do(ctx, s) {
				return false
			}
		case s.values != nil:
			for _, v := range s.values {
				if !r.block(ctx, s, v) {
					return false
				}
			}
		default:
			for i := range s.times {
				if !r.block(ctx, s, fmt.Sprint(i+1)) {
					return false
				}
			}
		}
	}
	return true
}

func (r *run) block(ctx context.Context, s *step, value string) bool {
	r.variables = append(r.variables, variable{s.variable, value})
	ok := r.play(ctx, s.body)
	r.variables = r.variables[:len(r.variables)-1]
	return ok
}

// fail notes a failure.
func (r *run) fail(line int, text, expected, actual string) {
	r.report.Failures = append(r.report.Failures, Failed{r.report.File, line, text + r.where(), expected, actual})
}

// where says in which round of the blocks something is.
func (r *run) where() string {
	var b strings.Builder
	for _, v := range r.variables {
		if v.name != "" {
			fmt.Fprintf(&b, "  [%s is %s]", v.name, v.value)
		}
	}
	return b.String()
}

// do does an act and holds what comes of it against what is expected.
func (r *run) do(ctx context.Context, s *step) bool {
	if ctx.Err() != nil {
		r.fail(s.line, s.text, "the end of the scenario", "it was broken off")
		return false
	}
	answer, err := r.perform(ctx, s)
	var wrong *misuse
	if errors.As(err, &wrong) {
		r.fail(s.line, s.text, "an act that can be done", wrong.message)
		return false
	}
	if s.refusal != nil {
		return r.refused(s, err) && (len(s.expects) == 0 || r.hold(s, nil))
	}
	if err != nil {
		kind, said := refusalOf(err)
		r.fail(s.line, s.text, "it is done", "! "+kind+": "+r.show(said))
		return false
	}
	r.hold(s, answer)
	return true
}

// refused holds what an act was refused for, nil where it was not, against what is
// expected.
func (r *run) refused(s *step, err error) bool {
	r.report.Expectations++
	want, message := s.refusal.kind, r.expand(s.refusal.message)
	if message != "" {
		want += ": " + message
	}
	if err == nil {
		r.fail(s.refusal.line, s.text, "! "+want, "it was done")
		return false
	}
	kind, said := refusalOf(err)
	if kind != s.refusal.kind || message != "" && !matches(said, message) {
		r.fail(s.refusal.line, s.text, "! "+want, "! "+kind+": "+r.show(said))
		return false
	}
	return true
}

// hold checks all expectations of an act.
func (r *run) hold(s *step, answer any) bool {
	ok := true
	for _, e := range s.expects {
		ok = r.expect(e, answer) && ok
	}
	return ok
}

func (r *run) expect(e expectation, answer any) bool {
	r.report.Expectations++
	want, err := r.value(e.value)
	if err != nil {
		r.fail(e.line, e.text, "a value that is there", err.Error())
		return false
	}
	actual, err := r.find(answer, e.path)
	if err != nil {
		r.fail(e.line, e.text, "a path that leads somewhere", err.Error())
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
	r.fail(e.line, e.text, path+" "+e.op+" "+quote(r.show(text)), path+" = "+quote(r.show(write(actual))))
	return false
}

// find follows a path of an expectation.
func (r *run) find(answer any, path word) (any, error) {
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
	return find(answer, parts), nil
}

// show writes a text with names in the place of ids that have one.
func (r *run) show(text string) string {
	const length = 36 // of an id
	if len(text) < length {
		return text
	}
	people := r.world.people()
	var b strings.Builder
	for i := 0; i < len(text); {
		if i+length <= len(text) {
			name, ok := r.nameOf[text[i:i+length]]
			if !ok {
				name, ok = people[text[i:i+length]]
			}
			if ok {
				b.WriteString("@" + name)
				i += length
				continue
			}
		}
		b.WriteByte(text[i])
		i++
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
			text = instant(r.world.Clock.Now().Add(d)).(string)
		}
	}
	return &text, nil
}

// lookup returns the id that has a name, or a part of what the name was given for.
func (r *run) lookup(name string) (*string, error) {
	name, path, parted := strings.Cut(name, ".")
	n, ok := r.names[name]
	if !ok {
		if r.world.Identity.accounts[name] == nil {
			return nil, &misuse{fmt.Sprintf("nothing has the name @%s", name)}
		}
		// Of whom the service has not heard yet there is no more than the name.
		if n.id, ok = r.world.userOf(name); !ok {
			n.id = name
		}
	}
	if !parted {
		if n.id == "" {
			return nil, &misuse{fmt.Sprintf("@%s was given for something without an id: write @%s. and a field", name, name)}
		}
		return &n.id, nil
	}
	parts, problem := parsePath(path)
	if problem != "" {
		return nil, &misuse{problem}
	}
	switch v := find(n.answer, parts).(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	default:
		text := write(v)
		return &text, nil
	}
}

// bind gives a name to what an act answered with.
func (r *run) bind(name string, answer any) error {
	if !isName(name) {
		return &misuse{fmt.Sprintf("%q cannot be a name", name)}
	}
	if _, taken := r.world.Identity.accounts[name]; taken || partyOf(name) != person {
		return &misuse{fmt.Sprintf("@%s is somebody already", name)}
	}
	if _, ok := r.names[name]; !ok && len(r.names) == maxNames {
		return &misuse{fmt.Sprintf("there are more than %d names", maxNames)}
	}
	n := named{idOf(answer), answer}
	r.names[name] = n
	if _, ok := r.nameOf[n.id]; !ok && n.id != "" {
		r.nameOf[n.id] = name
	}
	return nil
}

// idOf returns what a name stands for that is given to an answer.
func idOf(answer any) string {
	v, ok := answer.(record)
	if !ok {
		return ""
	}
	for _, name := range []string{"id", "session", "state", "org", "userId", "instanceId", "serverId", "cursor"} {
		switch of := v.get(name).(type) {
		case string:
			return of
		case record:
			if text, ok := of.get("id").(string); ok {
				return text
			}
		}
	}
	return ""
}

// misuse is something that a scenario asks for that makes no sense, whatever the
// core would say to it.
type misuse struct{ message string }

func (m *misuse) Error() string { return m.message }

// errDied is what comes of an act during which the server died.
var errDied = errors.New("the server died")

// kinds are the names of the kinds of refusals, in the order of fault's kinds.
var kinds = []string{
	"internal", "invalid", "unauthenticated", "forbidden", "not found", "gone", "conflict", "stale", "mismatch", "too large", "unsupported", "limited",
	"unavailable", "died",
}

// refusalOf names an error.
func refusalOf(err error) (kind, message string) {
	if errors.Is(err, errDied) {
		return "died", "The server died"
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return kinds[f.Kind], f.Message
	}
	return kinds[fault.Internal], err.Error()
}

// matches reports whether a message is as a pattern says, in which … stands for
// anything.
func matches(message, pattern string) bool {
	parts := strings.Split(strings.ReplaceAll(pattern, "...", "…"), "…")
	rest, ok := strings.CutPrefix(message, parts[0])
	if !ok {
		return false
	}
	if len(parts) == 1 {
		return rest == ""
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, p); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// perform does an act.
func (r *run) perform(ctx context.Context, s *step) (answer any, err error) {
	if r.report.Acts == maxSteps {
		return nil, &misuse{fmt.Sprintf("there are more than %d acts", maxSteps)}
	}
	r.report.Acts++
	c := &call{run: r, World: r.world, ctx: ctx, act: s.act, who: r.expand(s.who), args: make(map[string]*string, len(s.args))}
	if partyOf(s.who) == person && (!isPerson(c.who) || partyOf(c.who) != person) {
		return nil, &misuse{fmt.Sprintf("%q cannot be who acts", c.who)}
	}
	if s.on != nil {
		if c.on, err = r.value(*s.on); err != nil {
			return nil, err
		}
	}
	for _, a := range s.args {
		if c.args[a.key], err = r.value(a.value); err != nil {
			return nil, err
		}
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	answer, err = r.attempt(c)
	if c.wrong != nil {
		return nil, c.wrong
	}
	if e := r.world.Payments.look(ctx); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	if r.started = r.started || s.act.who != clock; s.as != nil {
		return answer, r.bind(r.expand(s.as.text), answer)
	}
	return answer, nil
}

// attempt does an act with the failures that were planned for it. A server that
// dies of one is followed by another.
func (r *run) attempt(c *call) (answer any, err error) {
	if !r.world.Line.Planned() {
		return guarded(c)
	}
	r.world.Line.Wait(false)
	defer r.world.Line.Wait(true)
	died := true
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer, err = guarded(c)
		died = false
	}()
	<-done
	if !died {
		return answer, err
	}
	r.hush()
	if err := r.world.Restart(); err != nil {
		return nil, err
	}
	return nil, errDied
}

// guarded does an act; one that panics is an error of the core.
func guarded(c *call) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	v, err := c.act.do(c)
	if err != nil {
		return nil, err
	}
	return view(v, c.Clock.Now()), nil
}

// enter finds who acts.
func (c *call) enter() error {
	if partyOf(c.who) != person {
		return nil
	}
	c.person = c.Identity.accounts[c.who]
	if c.person == nil {
		if !c.act.begins {
			return &misuse{fmt.Sprintf("%s has no account yet: people come by sign-up, join or accept", c.who)}
		}
		if _, taken := c.run.names[c.who]; taken {
			return &misuse{fmt.Sprintf("@%s is something else already", c.who)}
		}
		c.person = c.Identity.account(c.who)
	}
	if c.act.open {
		return nil
	}
	bearer := c.text("token")
	if bearer == "" {
		if now := c.Clock.Now(); c.person.token == "" || !now.Before(c.person.expires) {
			if _, err := c.signIn(c.ctx, c.person); err != nil {
				return err
			}
		}
		bearer = c.person.token
	}
	caller, err := c.Access.Verify(c.ctx, bearer)
	if err != nil {
		return err
	}
	c.ctx = access.NewContext(c.ctx, caller.Request(""))
	if c.actor, err = c.Access.Authorize(c.ctx, caller); err != nil || c.act.anywhere {
		return err
	}
	return c.actor.CheckMember()
}
