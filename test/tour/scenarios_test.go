package tour

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"collab/test/must"
)

// TestTheFirstScenarioRuns compares the output of the page's first example with the page.
func TestTheFirstScenarioRuns(t *testing.T) {
	dir := t.TempDir()
	m := &machine{dir: dir, environ: os.Environ(), instead: strings.NewReplacer("trial.txt", filepath.Join(dir, "trial.txt"))}
	all := blocks(t, "docs/scenarios.md")
	played := 0
	for i, b := range all {
		if b.language != "sh" && b.language != "console" || b.notRun != "" {
			continue
		}
		if b.text != "go run ./cmd/harness run trial.txt\n" || i == 0 || i+1 == len(all) {
			t.Errorf("%s:%d: this block is not run", b.file, b.line)
			continue
		}
		played++
		must.NoError(t, os.WriteFile(filepath.Join(dir, "trial.txt"), []byte(all[i-1].text), 0o600))
		out, err := m.shell(t, m.instead.Replace(b.text))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		took := regexp.MustCompile(`in \d+\.\ds`)
		got, shown := took.ReplaceAllString(strings.ReplaceAll(out, dir+"/", ""), ""), took.ReplaceAllString(all[i+1].text, "")
		must.Is(t, shown, got)
	}
	if played == 0 {
		t.Error("the page runs no scenario")
	}
}
