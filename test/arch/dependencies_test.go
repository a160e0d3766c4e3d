package arch

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requirements returns what go.mod requires without "indirect".
func requirements(goMod string) (direct []string) {
	required := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+|\S+\.\S+) v\S+$`)
	for _, match := range required.FindAllStringSubmatch(goMod, -1) {
		direct = append(direct, match[1])
	}
	return direct
}

// reached returns the libraries' packages that the program of the directory and what it
// imports of the project import.
func (t *tree) reached(program string) (libraries []string) {
	visited := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if visited[dir] {
			return
		}
		visited[dir] = true
		for _, f := range t.files {
			if f.dir != dir || f.test {
				continue
			}
			for _, i := range f.imports() {
				if local, ok := t.isLocal(i.path); ok {
					visit(local)
				} else if !isStandard(i.path) {
					libraries = append(libraries, i.path)
				}
			}
		}
	}
	visit(program)
	return libraries
}

func TestTheTableOfDependenciesIsThatOfTheModule(t *testing.T) {
	project, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		content, err := fs.ReadFile(project.fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	direct := requirements(text("go.mod"))
	if len(direct) < 20 {
		t.Fatalf("go.mod requires %q", direct)
	}
	inServer := map[string]bool{}
	for _, library := range project.reached("cmd/collabd") {
		longest := ""
		for _, module := range direct {
			if within(library, module) && len(module) > len(longest) {
				longest = module
			}
		}
		if longest == "" {
			t.Errorf("%s is of no module that go.mod requires", library)
		}
		inServer[longest] = true
	}
	server, tests, found := strings.Cut(text("docs/dependencies.md"), "\n## In tests\n")
	tests, _, programs := strings.Cut(tests, "\n## Programs\n")
	if !found || !programs {
		t.Fatal("docs/dependencies.md has no parts about tests and programs")
	}
	listed := func(part string) (modules []string) {
		for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(part, -1) {
			modules = append(modules, match[1])
		}
		slices.Sort(modules)
		return modules
	}
	inTests := slices.DeleteFunc(slices.Clone(direct), func(module string) bool { return inServer[module] })
	slices.Sort(inTests)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(inServer)), listed(server)); diff != "" {
		t.Errorf("libraries of the server (-go.mod +docs/dependencies.md):\n%s", diff)
	}
	if diff := cmp.Diff(inTests, listed(tests)); diff != "" {
		t.Errorf("libraries of tests (-go.mod +docs/dependencies.md):\n%s", diff)
	}
}
