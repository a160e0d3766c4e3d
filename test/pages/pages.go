// Package pages reads the project's documents for tests. Files are named by their
// paths from the project's root.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/must"
)

// Root returns the path to the project's root from the working directory.
func Root(t testing.TB) string {
	t.Helper()
	for root := "."; strings.Count(root, "..") < 5; root = filepath.Join(root, "..") {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return root
		}
	}
	t.Fatal("there is no go.mod above this directory")
	return ""
}

// Read returns the content of a file.
func Read(t testing.TB, file string) string {
	t.Helper()
	text := must.Do(os.ReadFile(filepath.Join(Root(t), file))).Or(t)
	return string(text)
}

// Markdown returns the Markdown files at the root and those in docs.
func Markdown(t testing.TB) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found := must.Do(fs.Glob(os.DirFS(Root(t)), pattern)).Or(t)
		all = append(all, found...)
	}
	return all
}

// Route is a row of docs/routes.md.
type Route struct{ Method, Path, Guard string }

// Routes returns the endpoints of docs/routes.md.
func Routes(t testing.TB) (all []Route) {
	t.Helper()
	for line := range strings.Lines(Read(t, "docs/routes.md")) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && strings.HasPrefix(cells[1], "`/") {
			all = append(all, Route{strings.TrimPrefix(cells[0], "| "), strings.Trim(cells[1], "`"), cells[2]})
		}
	}
	if len(all) < 100 {
		t.Fatalf("docs/routes.md has %d rows", len(all))
	}
	return all
}
