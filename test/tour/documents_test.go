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

// notRun is what stands right before a block that no test runs.
var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// blocks returns the fenced blocks of a document, which is named from the root.
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

// read returns a file of the project, which is named from the root.
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

// run are the documents whose commands are run, each by a test of this package.
var run = []string{"README.md", "docs/tour.md", "docs/deployment.md", "docs/operations.md", "docs/scenarios.md"}

func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	// What a block of any other language holds is nothing that one runs.
	still := []string{"", "ini", "js", "json", "nginx", "sql", "text", "xml", "yaml"}
	for _, file := range documents(t) {
		for _, b := range blocks(t, file) {
			command := b.language == "sh" || b.language == "console"
			switch {
			case !command && !slices.Contains(still, b.language):
				t.Errorf("%s:%d: commands are in blocks of sh or console, not of %q", b.file, b.line, b.language)
			case command && b.notRun == "" && !slices.Contains(run, file):
				t.Errorf("%s:%d: no test runs this, and it does not say why not", b.file, b.line)
			case !command && b.notRun != "":
				t.Errorf("%s:%d: there is nothing to run", b.file, b.line)
			}
		}
	}
}

func TestTargetsOfMakeAreThere(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, file := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`make ([a-z-]+)`|^make ([a-z-]+) +#)").FindAllStringSubmatch(read(t, file), -1) {
			if target := m[1] + m[2]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s has make %s, which there is not", file, target)
			}
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
				continue
			}
			if section != "" && !slices.Contains(sections(read(t, path)), section) {
				t.Errorf("%s links to %s, a section that is not there", file, m[1])
			}
		}
	}
}

// sections are the names of a document's headings as links have them.
func sections(text string) (names []string) {
	other := regexp.MustCompile(`[^\w\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

func TestDecisionsHaveUniqueIds(t *testing.T) {
	begins := regexp.MustCompile(`(?m)^\*\*(\S+)`)
	id := regexp.MustCompile(`^[A-Z]+-[1-9][0-9]*$`)
	seen := map[string]string{}
	for _, file := range documents(t) {
		if !strings.HasPrefix(file, "docs/decisions/") {
			continue
		}
		for _, m := range begins.FindAllStringSubmatch(read(t, file), -1) {
			if !id.MatchString(m[1]) || seen[m[1]] != "" {
				t.Errorf("%s: the decision %q has no id, or that of one in %s", file, m[1], seen[m[1]])
			}
			seen[m[1]] = file
		}
	}
}

// Threats are met by what there is.
func TestWhatThePageOnSecurityNamesIsThere(t *testing.T) {
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for _, m := range declared.FindAllSubmatch(text, -1) {
			all[filepath.Dir(path)+" "+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	folder, named := "", 0
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(read(t, "docs/security.md"), -1) {
		switch name := m[1]; {
		case strings.HasPrefix(name, "test/script/testdata/"):
			read(t, name)
			named++
		case regexp.MustCompile(`^(adapters|app|domain|test)/[\w/]+$`).MatchString(name):
			folder = name
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				t.Errorf("%s is not there", name)
			}
		case regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`).MatchString(name):
			named++
			if !all[folder+" "+name] {
				t.Errorf("%s has no %s", folder, name)
			}
		}
	}
	if named < 40 {
		t.Errorf("the page names only %d tests", named)
	}
}

func TestTheWalksPassFilesThatAreThere(t *testing.T) {
	text := section(t, "docs/architecture.md", "## Three walks")
	folder, named := "", 0
	for _, name := range names(text) {
		if regexp.MustCompile(`^(adapters|app|domain|ports|test)/[\w/]+$`).MatchString(name) {
			folder = name
		}
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		named++
		path := name
		if strings.Contains(name, "/") {
			folder = filepath.Dir(name)
		} else {
			path = filepath.Join(folder, name)
		}
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("%s is not there", path)
		}
	}
	if named < 12 {
		t.Errorf("the walks name only %d files", named)
	}
}
