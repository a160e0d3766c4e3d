package scenario

import (
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
func Main(ctx context.Context, args []string, out, log io.Writer) int {
	if len(args) < 2 || args[0] != "run" {
		fmt.Fprint(log, manual)
		return exitUnusable
	}
	return runFiles(ctx, args[1:], out, log)
}

// runFiles runs files one after the other, also after a failure.
func runFiles(ctx context.Context, files []string, out, log io.Writer) int {
	code := exitOK
	for _, file := range files {
		began := time.Now()
		r, err := runFile(ctx, file)
		switch {
		case err != nil:
			fmt.Fprintln(log, err)
			code = exitUnusable
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
	text, err := os.ReadFile(file)
	if err != nil {
		return report{}, err
	}
	s, errs := parse(file, string(text))
	if len(errs) > 0 {
		return report{}, errors.Join(errs...)
	}
	return s.run(ctx)
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

// listOfActs returns the list of acts that docs/scenarios.md has.
func listOfActs() string {
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
	return b.String()
}
