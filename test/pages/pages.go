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
