// Command scaled prints the arguments of go test for the tests that try more in a soak:
// those that reach test/soak or check properties, and their packages. It parses the
// module in the working directory and follows names of functions, methods and variables
// through its packages. A name of which there are two in a package stands for both, so
// that it finds a test too many rather than one too few. Methods are followed only within
// their package: what tests of other packages call to try more must be a function.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path of this module, and rapid that of the library for properties.
const (
	module = "collab/"
	rapid  = "pgregory.net/rapid"
)

// name is one of the package level, or a method's, in a directory or library.
type name struct{ in, name string }

// scales are the functions that a test which tries more calls in the end.
var scales = []name{{"test/soak", "Count"}, {"test/soak", "Full"}, {rapid, "Check"}, {rapid, "MakeCheck"}}

func main() {
	tests, directories, err := scaled(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slices.Reverse(directories) // those that take longest are in test
	fmt.Printf("-run ^(%s)$ %s\n", strings.Join(tests, "|"), strings.Join(directories, " "))
}

// scaled returns the names of the tests and the directories that they are in, as
// arguments of go test.
func scaled(fsys fs.FS) (tests, directories []string, err error) {
	uses := map[name][]name{} // what uses a name
	all := map[name]bool{}    // the tests
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if base := d.Name(); base == "testdata" || len(base) > 1 && strings.ContainsAny(base[:1], "._") {
				return fs.SkipDir
			}
			return nil
		case path.Ext(file) != ".go":
			return nil
		}
		source, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(file)
		imported := imports(parsed)
		for _, d := range parsed.Decls {
			for _, declared := range names(d) {
				by := name{dir, declared}
				ast.Inspect(d, func(n ast.Node) bool {
					used, found := reference(n, dir, imported)
					if found {
						uses[used] = append(uses[used], by)
					}
					return !found
				})
				if strings.HasPrefix(declared, "Test") && strings.HasSuffix(file, "_test.go") {
					all[by] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	reached := map[name]bool{}
	for next := slices.Clone(scales); len(next) > 0; next = next[1:] {
		if n := next[0]; !reached[n] {
			reached[n] = true
			next = append(next, uses[n]...)
		}
	}
	for test := range all {
		if reached[test] && test.name != "TestMain" {
			tests, directories = append(tests, test.name), append(directories, "./"+test.in)
		}
	}
	return sorted(tests), sorted(directories), nil
}

func sorted[T cmp.Ordered](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

// imports returns the directory or library that each imported name of a file stands for.
func imports(f *ast.File) map[string]string {
	found := map[string]string{}
	for _, i := range f.Imports {
		library, _ := strconv.Unquote(i.Path.Value) // the parser has read it
		library = strings.TrimPrefix(library, module)
		as := path.Base(library)
		if i.Name != nil {
			as = i.Name.Name
		}
		found[as] = library
	}
	return found
}

// names returns the names that a declaration of the package level declares.
func names(d ast.Decl) (found []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					found = append(found, n.Name)
				}
			}
		}
	}
	return found
}

// reference returns the name that a node may stand for: one of its own package, or of
// one that is imported.
func reference(n ast.Node, dir string, imported map[string]string) (name, bool) {
	switch n := n.(type) {
	case *ast.Ident:
		return name{dir, n.Name}, true
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
			return name{imported[x.Name], n.Sel.Name}, true
		}
	}
	return name{}, false
}
