package scenario

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

const manual = `harness runs the whole server of Collab in one process, offline: no network, no
database, no files, and a clock that scenarios move.

Usage:
  harness run file...      run scenarios, and report what is not as expected
  harness repl             run a scenario line by line
  harness acts             print all acts with their arguments
  harness help             print this

The exit status is 0 when everything is as expected, 1 when something is not, and
2 for a wrong call and for files that cannot be read. docs/scenarios.md has the
language of scenarios.
`

// The exit statuses.
const (
	exitOK = iota
	exitFailed
	exitUnusable
)

// Main is the program cmd/harness. It returns the exit status.
func Main(ctx context.Context, args []string, in io.Reader, out, log io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == "run" && len(args) > 0:
		return runFiles(ctx, args, out, log)
	case command == "repl" && len(args) == 0:
		return repl(ctx, in, out, log)
	case command == "acts" && len(args) == 0:
		return exitOf(printActs(out), log)
	case (command == "help" || command == "-h" || command == "--help") && len(args) == 0:
		_, err := io.WriteString(out, manual)
		return exitOf(err, log)
	}
	fmt.Fprint(log, manual)
	return exitUnusable
}

// exitOf logs an error, and returns the exit status.
func exitOf(err error, log io.Writer) int {
	if err != nil {
		fmt.Fprintln(log, err)
		return exitUnusable
	}
	return exitOK
}

// runFiles runs files one after the other, also after a failure.
func runFiles(ctx context.Context, files []string, out, log io.Writer) int {
	code := exitOK
	for _, file := range files {
		began := time.Now()
		r, err := runFile(ctx, file)
		switch {
		case err != nil:
			code = exitOf(err, log)
		case len(r.Failures) > 0:
			code = max(code, exitFailed)
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
func (r report) String() string {
	return fmt.Sprintf("%d acts, %d expectations, simulated %.1f days", r.Acts, r.Expectations, r.Simulated.Hours()/24)
}

// runFile runs a file. The error says why it could not be run.
func runFile(ctx context.Context, file string) (report, error) {
	f, err := os.Open(file)
	if err != nil {
		return report{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1)) // one byte more is refused
	if err != nil {
		return report{}, err
	}
	s, errs := parse(file, string(text))
	if len(errs) > 0 {
		return report{}, errors.Join(errs...)
	}
	return s.run(ctx)
}

const prompt = "> "

const replHelp = `Write an act, as in a scenario: ada sign-up org="Analytical Engines"
Its result follows, as the expectations that hold for it. An expectation that you
write is compared with the result before it. Blocks run at their end.
help <act> explains an act, harness acts lists them all, quit ends this.
`

// repl runs what is written, line by line. Errors end nothing.
func repl(ctx context.Context, in io.Reader, out, log io.Writer) int {
	r, err := newRun("line")
	if err != nil {
		return exitOf(err, log)
	}
	defer r.close()
	r.out, r.err = out, errors.New("there is no act before")
	var p *parser // of a block that has no end yet; nil: there is none
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine+1)
	for fmt.Fprint(out, prompt); lines.Scan(); fmt.Fprint(out, prompt) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " "); word {
		case "quit", "exit":
			return exitOK
		case "help":
			help(out, strings.TrimSpace(rest))
		default:
			p = r.interpret(ctx, p, lines.Text())
		}
	}
	fmt.Fprintln(out)
	return exitOf(lines.Err(), log)
}

// interpret runs a line and prints its result. It returns the parser of a block that has no
// end yet, which the next line belongs to, or nil.
func (r *run) interpret(ctx context.Context, p *parser, line string) *parser {
	if p == nil {
		p = &parser{file: "line", last: &step{text: "the act before"}} // expectations are about the act before
	}
	before := p.last
	p.read(line)
	failed, expected := len(r.report.Failures), r.report.Expectations
	switch {
	case len(p.errs) > 0: // the line is left out
		for _, err := range p.errs {
			fmt.Fprintln(r.out, err)
		}
		p.errs = nil
	case len(p.open) == 0 && len(p.steps) > 0:
		r.steps(ctx, p.steps)
		r.variables = nil
	case len(p.open) == 0 && before != nil:
		r.check(before)
	}
	for _, f := range r.report.Failures[failed:] {
		fmt.Fprintln(r.out, f)
	}
	if len(r.report.Failures) == failed && r.report.Expectations > expected {
		fmt.Fprintln(r.out, "yes")
	}
	if len(p.open) > 0 {
		return p
	}
	return nil
}

// help explains an act, or how to go on.
func help(out io.Writer, name string) {
	if name == "" {
		fmt.Fprint(out, replHelp)
		return
	}
	var names []string
	found := false
	for _, a := range acts {
		names = append(names, a.name)
		if !a.free && (a.name == name || a.title() == name) {
			fmt.Fprintf(out, "%s\n  %s\n", a.usage(), a.does)
			found = true
		}
	}
	if !found {
		fmt.Fprintf(out, "there is no act %q%s\n", name, suggest(name, names))
	}
}

// usage is an act with its arguments; those in brackets are optional.
func (a *act) usage() string {
	words := []string{string(a.party), a.name}
	if a.party == person {
		words[0] = "<person>"
	}
	switch {
	case a.needsSubject():
		words = append(words, "<"+a.subject+">")
	case a.subject != "":
		words = append(words, "[<"+strings.TrimSuffix(a.subject, "?")+">]")
	}
	for _, name := range strings.Fields(a.args) {
		if required, ok := strings.CutSuffix(name, "*"); ok {
			words = append(words, required+"=")
		} else {
			words = append(words, "["+name+"=]")
		}
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// headings are the headings of the list of acts.
var headings = map[party]string{
	person: "People", clock: "The clock", identity: "The identity provider", payments: "The payment provider",
	models: "The models", tools: "The tool servers", machinery: "The server",
}

// printActs writes the list of acts that docs/scenarios.md has.
func printActs(w io.Writer) error {
	var b strings.Builder
	for _, p := range parties {
		if headings[p] == "" {
			continue // requests are all it does
		}
		fmt.Fprintf(&b, "### %s\n\n", headings[p])
		for _, a := range acts {
			if a.party == p && !a.free {
				fmt.Fprintf(&b, "- `%s`\n  %s\n", a.usage(), a.does)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("The calls that `server fail` knows: " + strings.Join(faultyCalls, ", ") + ".\n")
	_, err := io.WriteString(w, b.String())
	return err
}
