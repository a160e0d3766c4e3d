package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"collab/test/must"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	a, _, _ := terminal(t, 80, nil)
	directory := t.TempDir()
	if code := a.run(t.Context(), []string{"manual", directory}); code != 0 {
		t.Fatal(code)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(directory, name))
		must.Succeed(t, err)
		return string(text)
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		page := read("man/man1/" + manualPageName(c) + ".1")
		if !strings.HasPrefix(page, ".TH "+roff(strings.ToUpper(manualPageName(c)))+" 1 ") || !strings.Contains(page, roff(c.Short)) {
			t.Errorf("the page of %s is\n%s", c.CommandPath(), page)
		}
		for line := range strings.Lines(page) {
			if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(macro, ".") && macro != ".TH" && macro != ".SH" && macro != ".nf" && macro != ".fi" {
				t.Errorf("the page of %s has the request %s", c.CommandPath(), macro)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(a.rootCommand())
	get := read("man/man1/collab-files-get.1")
	for _, want := range []string{`collab files get PATH [FILE] [flags]`, `\-\-version version`, "collab\\-files(1)\n"} {
		if !strings.Contains(get, want) {
			t.Errorf("it lacks %q:\n%s", want, get)
		}
	}
	for _, name := range []string{"collab.bash", "_collab", "collab.fish", "collab.ps1"} {
		if !strings.Contains(read("completions/"+name), "__complete") {
			t.Errorf("%s asks the program for nothing", name)
		}
	}
}
