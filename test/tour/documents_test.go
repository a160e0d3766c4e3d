package tour

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	for line := range strings.Lines(read(t, file)) {
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

// read returns the content of a file, given by its path from the root.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents returns the Markdown files at the root and those in docs, named from
// the root.
func documents(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pages...)
	}
	return all
}

// run has the documents whose commands are run by tests of this package.
var run = []string{"README.md", "docs/tour.md", "docs/deployment.md", "docs/operations.md", "docs/scenarios.md"}

func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	// Languages of blocks without commands.
	still := []string{"", "ini", "js", "json", "nginx", "sql", "text", "xml", "yaml"}
	for _, file := range documents(t) {
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
