package arch

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"collab/test/must"
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
	project := must.Do(read(os.DirFS("../.."))).Or(t)
	text := func(name string) string {
		content := must.Do(fs.ReadFile(project.fsys, name)).Or(t)
		return string(content)
	}
	direct := requirements(text("go.mod"))
	if len(direct) < 20 {
		t.Fatalf("go.mod requires %q", direct)
	}
	// modules returns the modules of what the programs import, of those that go.mod requires.
	modules := func(programs ...string) map[string]bool {
		found := map[string]bool{}
		for _, program := range programs {
			for _, library := range project.reached(program) {
				longest := ""
				for _, module := range direct {
					if within(library, module) && len(module) > len(longest) {
						longest = module
					}
				}
				if longest == "" {
					t.Errorf("%s is of no module that go.mod requires", library)
				}
				found[longest] = true
			}
		}
		return found
	}
	inServer := modules("cmd/collabd")
	inClient := modules("cmd/collab", "adapters/localdisk", "adapters/mirrorstate")
	maps.DeleteFunc(inClient, func(module string, _ bool) bool { return inServer[module] })
	server, client, found := strings.Cut(text("docs/dependencies.md"), "\n## In the client\n")
	client, tests, more := strings.Cut(client, "\n## In tests\n")
	tests, _, programs := strings.Cut(tests, "\n## Programs\n")
	if !found || !more || !programs {
		t.Fatal("docs/dependencies.md has no parts about the client, tests and programs")
	}
	listed := func(part string) (modules []string) {
		for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(part, -1) {
			modules = append(modules, match[1])
		}
		slices.Sort(modules)
		return modules
	}
	inTests := slices.DeleteFunc(slices.Clone(direct), func(module string) bool { return inServer[module] || inClient[module] })
	slices.Sort(inTests)
	must.Equal(t, slices.Sorted(maps.Keys(inServer)), listed(server)) // libraries of the server
	must.Equal(t, slices.Sorted(maps.Keys(inClient)), listed(client)) // libraries of the client alone
	must.Equal(t, inTests, listed(tests))                             // libraries of tests
}
