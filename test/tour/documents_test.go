package tour

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"collab/test/pages"
)

// block is a fenced block of a document.
type block struct {
	file     string
	line     int // of its first line of content
	language string
	text     string
	notRun   string // why nothing runs it; empty: a test does
}

var fence = regexp.MustCompile("^```(\\w*)$")

// notRun matches the comment before a block that no test runs.
var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// blocks returns the fenced blocks of a document, given by its path from the root.
func blocks(t *testing.T, file string) (all []block) {
	t.Helper()
	var open *block
	before := ""
	n := 0
	for line := range strings.Lines(pages.Read(t, file)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open = &block{file: file, line: n + 1, language: m[1]}
			if why := notRun.FindStringSubmatch(before); why != nil {
				open.notRun = why[1]
			}
		case open != nil && m != nil:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
		before = line
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", file, open.line)
	}
	return all
}

// run has the documents whose commands are run by tests of this package; that of the page on scenarios is in the tour.
var run = []string{"README.md", "docs/tour.md", "docs/client.md", "docs/deployment.md", "docs/operations.md", "docs/scenarios.md"}

func TestEveryCommandIsRunOrHasAReason(t *testing.T) {
	// Languages of blocks without commands.
	still := []string{"", "ini", "js", "json", "nginx", "sql", "text", "xml", "yaml"}
	for _, file := range pages.Markdown(t) {
		for _, b := range blocks(t, file) {
			command := b.language == "sh" || b.language == "console"
			switch {
			case !command && !slices.Contains(still, b.language):
				t.Errorf("%s:%d: a block of %q; commands are in blocks of sh or console", b.file, b.line, b.language)
			case command && b.notRun == "" && !slices.Contains(run, file):
				t.Errorf("%s:%d: no test runs this block, and it gives no reason", b.file, b.line)
			case !command && b.notRun != "":
				t.Errorf("%s:%d: a reason for a block without commands", b.file, b.line)
			}
		}
	}
}
