// Package arch holds the rules of docs/architecture.md as tests. Each rule is a
// function over a parsed tree; the same functions run over the project and over
// small trees in testdata/planted, each of which breaks one rule.
//
// Test files are held to the rules about names, imports (with what testing
// needs, see tests), fx, tags and Restore. They may read the clock, be random
// and keep package variables.
package arch

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"collab/test/must"
)

// rules returns every rule, for a project with these endpoints and ports
// without suites.
func rules(groups []group, reasons map[string]string) map[string]func(*tree) []finding {
	return map[string]func(*tree) []finding{
		ruleTop:       checkTop,
		ruleNames:     checkNames,
		ruleImports:   checkImports,
		ruleFx:        checkFx,
		ruleTemplates: checkTemplates,
		ruleDownward:  checkDownward,
		ruleClock:     checkClock,
		ruleRandom:    checkRandom,
		ruleState:     checkGlobals,
		ruleTags:      checkTags,
		ruleFields:    checkFields,
		ruleRestore:   checkRestore,
		ruleActor:     checkActor,
		rulePorts:     checkPorts,
		ruleMethods:   checkMethods,
		ruleSignature: checkSignatures,
		ruleSuites:    checkSuites(reasons),
		ruleRoutes:    checkRoutes(groups),
		ruleDocument:  checkDocument(groups),
	}
}

func TestTheProjectFollowsItsArchitecture(t *testing.T) {
	project := must.Do(read(os.DirFS("../.."))).Or(t)
	for name, rule := range rules(specified, unsuited) {
		t.Run(name, func(t *testing.T) {
			for _, f := range rule(project) {
				t.Error(f)
			}
		})
	}
}

// The planted trees are small projects of their own, with two endpoints.
var (
	plantedEndpoints = []group{
		{"tasks", true, "GET /tasks\nDELETE /tasks/:id"},
		{"sync", false, "GET /sync/files"},
	}
	plantedReasons = map[string]string{"Records": "hands over collections"}
)

// TestPlantedViolationsAreFound reads the archives of testdata/planted: the findings that are expected,
// a line each, then files that are laid over testdata/clean.txt. An empty file
// takes one away.
func TestPlantedViolationsAreFound(t *testing.T) {
	clean := archive(t, "testdata/clean.txt")
	paths, err := filepath.Glob("testdata/planted/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no planted violations: %v", err)
	}
	broken := map[string]bool{}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			planted := archive(t, path)
			want := strings.Split(strings.TrimSpace(planted.expected), "\n")
			slices.Sort(want)
			for _, line := range want {
				broken[ruleIn(line)] = true
			}
			files := maps.Clone(clean.files)
			for name, f := range planted.files {
				files[name] = f
				if len(f.Data) == 0 {
					delete(files, name)
				}
			}
			must.Equal(t, want, findings(t, files))
		})
	}
	for rule := range rules(nil, nil) {
		if !broken[rule] {
			t.Errorf("no planted tree breaks the rule %q", rule)
		}
	}
}

func TestACleanTreePasses(t *testing.T) {
	if got := findings(t, archive(t, "testdata/clean.txt").files); len(got) > 0 {
		t.Errorf("findings in the clean tree:\n%s", strings.Join(got, "\n"))
	}
}

// ruleIn returns the rule's sentence in "path:line: sentence (detail)".
func ruleIn(line string) string {
	_, rest, _ := strings.Cut(line, ": ")
	sentence, _, _ := strings.Cut(rest, " (")
	return sentence
}

func findings(t *testing.T, files fstest.MapFS) []string {
	t.Helper()
	planted := must.Do(read(files)).Or(t)
	var got []string
	for _, rule := range rules(plantedEndpoints, plantedReasons) {
		for _, f := range rule(planted) {
			got = append(got, f.String())
		}
	}
	slices.Sort(got)
	return got
}

type archived struct {
	expected string
	files    fstest.MapFS
}

// archive reads a text with files in it, each after a line "-- name --".
func archive(t *testing.T, path string) archived {
	t.Helper()
	text := must.Do(fs.ReadFile(os.DirFS("."), filepath.ToSlash(path))).Or(t)
	a := archived{files: fstest.MapFS{}}
	name := ""
	for line := range strings.Lines(string(text)) {
		rest, isName := strings.CutPrefix(line, "-- ")
		if header, ok := strings.CutSuffix(strings.TrimSpace(rest), " --"); isName && ok {
			name = header
			a.files[name] = &fstest.MapFile{}
			continue
		}
		if name == "" {
			a.expected += line
		} else {
			a.files[name].Data = append(a.files[name].Data, line...)
		}
	}
	return a
}
