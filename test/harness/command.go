package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const manual = `harness runs the whole core of Collab in one process, offline: no network, no
database, no files, and a clock that is moved by hand.

Usage:
  harness run file...      play scenarios, and say what is otherwise than expected
  harness repl             play a scenario line by line
  harness acts             print all acts with their arguments
  harness help             print this

It ends with 0 when everything is as expected, 1 when something is not, and 2 for
a wrong call and for files that cannot be read. docs/scenarios.md has the language
of scenarios.
`

// The exit codes.
const (
	fine = iota
	otherwise
	unusable
)

// Main is the program cmd/harness: it does what the arguments say and returns the
// exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, log io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == "run" && len(args) > 0:
		return runFiles(ctx, args, out, log)
	case command == "repl" && len(args) == 0:
		return converse(ctx, in, out, log)
	case command == "acts" && len(args) == 0:
		return printed(PrintActs(out), log)
	case (command == "help" || command == "-h" || command == "--help") && len(args) == 0:
		_, err := io.WriteString(out, manual)
		return printed(err, log)
	}
	fmt.Fprint(log, manual)
	return unusable
}

// printed is the exit code of what only prints.
func printed(err error, log io.Writer) int {
	if err != nil {
		fmt.Fprintln(log, err)
		return unusable
	}
	return fine
}

// runFiles plays files one after the other, also after one has failed.
func runFiles(ctx context.Context, files []string, out, log io.Writer) int {
	code := fine
	for _, file := range files {
		began := time.Now()
		r, err := runFile(ctx, file, log)
		switch {
		case err != nil:
			code = unusable
		case len(r.Failures) > 0:
			code = max(code, otherwise)
			for _, f := range r.Failures {
				fmt.Fprintln(out, f)
			}
			fmt.Fprintf(out, "failed %s\n", file)
		default:
			fmt.Fprintf(out, "ok %s (%s in %.1fs)\n", file, r, time.Since(began).Seconds())
		}
	}
	return code
}

// String says how much was done.
func (r Report) String() string {
	return fmt.Sprintf("%d acts, %d expectations, simulated %s", r.Acts, r.Expectations, spanOf(r.Simulated))
}

// spanOf writes a length of time as scenarios do, such as 14d or 1d3h30m.
func spanOf(d time.Duration) string {
	const day = 24 * time.Hour
	text := (d % day).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	if days := d / day; days > 0 {
		return fmt.Sprintf("%dd%s", days, strings.TrimPrefix(text, "0s"))
	}
	return text
}

var errUnreadable = errors.New("the file is no scenario")

// runFile plays a file. What keeps it from being played is on log.
func runFile(ctx context.Context, file string, log io.Writer) (Report, error) {
	text, err := readFile(file)
	if err != nil {
		fmt.Fprintln(log, err)
		return Report{}, err
	}
	s, errs := Parse(file, text)
	for _, err := range errs {
		fmt.Fprintln(log, err)
	}
	if len(errs) > 0 {
		return Report{}, errUnreadable
	}
	r, err := s.Run(ctx)
	if err != nil {
		fmt.Fprintf(log, "%s: %v\n", file, err)
	}
	return r, err
}

// readFile reads a file of which one byte more than allowed is enough to refuse it.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text), nil
}

const prompt = "> "

const replHelp = `Write an act, as in a scenario: ada sign-up org="Analytical Engines"
Its answer follows, as the expectations that hold of it. An expectation that you
write is held against the answer before it. Blocks are done at their end.
help <act> explains an act, harness acts lists them all, quit ends this.
`

// converse plays what is written, line by line. Errors end nothing.
func converse(ctx context.Context, in io.Reader, out, log io.Writer) int {
	w, err := NewWorld(Beginning)
	if err != nil {
		return printed(err, log)
	}
	t := &talkWith{run: newRun(w, "line"), out: out}
	defer t.run.close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine+1)
	for n := 1; ; n++ {
		if fmt.Fprint(out, prompt); !lines.Scan() {
			break
		}
		if line := strings.TrimSpace(lines.Text()); line == "quit" || line == "exit" {
			return fine
		} else if word, rest, _ := strings.Cut(line, " "); word == "help" {
			t.help(strings.TrimSpace(rest))
		} else {
			t.read(ctx, lines.Text())
		}
	}
	fmt.Fprintln(out)
	return printed(lines.Err(), log)
}

// talkWith is a conversation with a world.
type talkWith struct {
	run    *run
	out    io.Writer
	parser *parser // of the lines that are not done yet; nil: there are none
	did    bool    // there was an act before, which was done or refused
	answer any     // what it answered with
	err    error   // what it was refused for; nil: it was done
}

// read takes a line.
func (t *talkWith) read(ctx context.Context, line string) {
	p := t.parser
	if t.parser = nil; p == nil {
		// An expectation is about the act before, whose answer is there.
		p = &parser{file: "line", last: &step{}}
	}
	before := p.last
	p.read(line)
	for _, err := range p.errs {
		var of *SyntaxError
		if errors.As(err, &of) {
			fmt.Fprintln(t.out, of.Message)
		}
	}
	wrong := len(p.errs) > 0
	p.errs = nil
	switch {
	case len(p.open) > 0: // a line that is none is left out
		t.parser = p
	case wrong:
	case len(p.steps) > 0:
		for _, s := range p.steps {
			t.do(ctx, s)
		}
	case before != nil:
		t.expect(before)
	}
}

// do does a step that is complete.
func (t *talkWith) do(ctx context.Context, s *step) {
	failed := len(t.run.report.Failures)
	if s.act == nil {
		t.run.play(ctx, []*step{s})
		for _, f := range t.run.report.Failures[failed:] {
			fmt.Fprintln(t.out, f)
		}
		t.run.variables = nil
		return
	}
	answer, err := t.run.perform(ctx, s)
	var wrong *misuse
	if errors.As(err, &wrong) {
		fmt.Fprintln(t.out, wrong.message)
		return
	}
	t.did, t.answer, t.err = true, answer, err
	switch {
	case err != nil:
		kind, message := refusalOf(err)
		fmt.Fprintf(t.out, "! %s: %s\n", kind, t.run.show(message))
	default:
		for _, line := range lines(answer, "", nil) {
			fmt.Fprintln(t.out, t.run.show(line))
		}
	}
}

// expect holds an expectation against what the act before came to.
func (t *talkWith) expect(s *step) {
	failed := len(t.run.report.Failures)
	switch {
	case !t.did:
		fmt.Fprintln(t.out, "there is no act to hold that against")
		return
	case s.refusal != nil:
		t.run.refused(s, t.err)
	case t.err != nil:
		fmt.Fprintln(t.out, "the act before was refused")
		return
	default:
		t.run.hold(s, t.answer)
	}
	for _, f := range t.run.report.Failures[failed:] {
		fmt.Fprintf(t.out, "no: %s\n", f.Actual)
		return
	}
	fmt.Fprintln(t.out, "yes")
}

// help explains an act, or how to go on.
func (t *talkWith) help(name string) {
	if name == "" {
		fmt.Fprint(t.out, replHelp)
		return
	}
	found := false
	for _, a := range acts {
		if a.name == name || a.title() == name || a.name == "" && string(a.who) == name {
			fmt.Fprintf(t.out, "%s\n  %s\n", a.usage(), a.does)
			found = true
		}
	}
	if !found {
		fmt.Fprintf(t.out, "there is no act %q%s\n", name, suggest(name, actNames()))
	}
}
