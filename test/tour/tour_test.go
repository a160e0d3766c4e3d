// Package tour runs the commands of the README and of docs as a reader would paste
// them, and compares the facts in these documents with the server.
package tour

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	// The code of the programs, on which the test cache must depend.
	_ "collab/app/assembly"
	_ "collab/test/harness/scenario"
	"collab/test/pages"
)

const root = "../.."

// patience is the time limit of a tour.
const patience = 5 * time.Minute

// step is one command of a tour with the response that the page shows.
type step struct{ command, response string }

// stepsOf reads a block of a console.
func stepsOf(text string) (all []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: command})
		} else {
			all[len(all)-1].response += line + "\n"
		}
	}
	return all
}

// matches reports whether got is what a page shows, where … stands for anything
// within a line.
func matches(got, shown string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString(".*")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(got)
}

func TestTheToursAnswerAsShown(t *testing.T) {
	for _, program := range []string{"Makefile", "cmd/collabd/main.go", "cmd/harness/main.go"} {
		pages.Read(t, program) // makes the test cache depend on it
	}
	dir := t.TempDir()
	var all []step
	begin := ""
	// The other tours continue that of the README.
	for _, b := range slices.Concat(blocks(t, "README.md"), blocks(t, "docs/tour.md"), blocks(t, "docs/client.md")) {
		switch {
		case b.language == "console":
			all = append(all, stepsOf(b.text)...)
		case strings.HasSuffix(b.text, "make run\n"):
			begin = strings.TrimSpace(b.text)
		}
	}
	if begin == "" {
		t.Fatal("the README does not run the server")
	}
	server := launch(t, root, "export COLLAB_LISTEN=127.0.0.1:0 COLLAB_DATA_DIR="+filepath.Join(dir, "data")+" BIN="+filepath.Join(dir, "bin")+"\n"+begin, os.Environ()...)
	server.make = true
	url := server.url

	// Files that a reader has in the checkout are in the test's directory.
	here := strings.NewReplacer("http://localhost:8080", url, " data/", " "+dir+"/data/", "bin/collab", dir+"/bin/collab", "~/", dir+"/")

	if len(all) < 40 {
		t.Errorf("the tours have only %d steps", len(all))
	}
	// One shell runs all lines, because later ones use variables of earlier ones.
	const mark = "\x1e"
	var script strings.Builder
	for _, s := range all {
		fmt.Fprintf(&script, "%s\nprintf '\\n%s'\n", here.Replace(s.command), mark)
	}
	for _, time := range []string{"the first time", "again"} {
		t.Run(time, func(t *testing.T) { take(t, dir, script.String(), mark, url, all) })
	}
}

// take runs the script of the tours and compares the responses of the steps.
func take(t *testing.T, dir, script, mark, url string, all []step) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir, shell.Env = root, append(os.Environ(), "COLLAB_DATA_DIR="+filepath.Join(dir, "data"))
	var failures bytes.Buffer
	shell.Stderr = &failures
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, failures.String())
	}
	if failures.Len() > 0 {
		t.Errorf("the shell reports:\n%s", failures.String())
	}
	responses := strings.Split(string(out), mark)
	for i, s := range all {
		got := strings.TrimRight(strings.ReplaceAll(responses[i], url, "http://localhost:8080"), "\n")
		if shown := strings.TrimRight(s.response, "\n"); !matches(got, shown) {
			t.Errorf("$ %s\ngot:   %s\nshown: %s", s.command, got, shown)
		}
	}
}
