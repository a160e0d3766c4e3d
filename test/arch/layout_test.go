package arch

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// What may stand at the top of the repository.
var (
	topFixed  = []string{"domain", "ports", "adapters", "app", "cmd", "test", "docs", "go.mod", "go.sum", "Makefile"}
	topBeside = []string{"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".ci", ".gitignore", ".gitattributes", ".dockerignore", ".editorconfig", ".git"}
)

// namesNever are the package names that say nothing.
var namesNever = []string{
	"util", "utils", "common", "helper", "helpers", "model", "models", "service", "services",
	"types", "shared", "manager", "managers", "base", "impl", "dto", "dtos",
}

const ruleTop = "nothing stands at the top of the repository beside what the architecture names"

func checkTop(t *tree) []finding {
	var found []finding
	entries, err := fs.ReadDir(t.fsys, ".")
	if err != nil {
		return []finding{{".", 0, ruleTop, err.Error()}}
	}
	ignored := ignoredAtTop(t.fsys)
	for _, e := range entries {
		if !slices.Contains(topFixed, e.Name()) && !slices.Contains(topBeside, e.Name()) && !slices.Contains(ignored, e.Name()) {
			found = append(found, finding{e.Name(), 0, ruleTop, e.Name()})
		}
	}
	return found
}

// ignoredAtTop returns the directories at the top that are not part of the
// repository, which .gitignore names as /directory/.
func ignoredAtTop(fsys fs.FS) []string {
	text, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			names = append(names, strings.Trim(line, "/"))
		}
	}
	return names
}

const ruleNames = "a package's name says what is in it"

func checkNames(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleNames, &found)
	for _, f := range t.files {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if slices.Contains(namesNever, name) || slices.Contains(namesNever, path.Base(f.dir)) {
			report(f.ast.Name.Pos(), "package %s in %s", f.ast.Name.Name, f.dir)
		}
	}
	return found
}
