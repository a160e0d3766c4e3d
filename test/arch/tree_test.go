package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree is a parsed source tree. It is read through an fs.FS and by this
// process itself, so that the test cache sees every file that was read, and so
// that planted trees in memory go the same way as the project's own.
type tree struct {
	fsys   fs.FS
	module string // the module's path, from go.mod
	fset   *token.FileSet
	files  []*file
}

type file struct {
	path string // from the root, with slashes
	dir  string
	test bool // its name ends in _test.go
	ast  *ast.File
}

// read parses every Go file below the root except in testdata directories and in
// directories whose names begin with a dot or an underscore, as the go command
// does.
func read(fsys fs.FS) (*tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	if t.module == "" {
		return nil, fmt.Errorf("go.mod names no module")
	}
	ignored := ignoredAtTop(fsys)
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir():
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || slices.Contains(ignored, name) {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(t.fset, name, source, parser.ParseComments)
		if err != nil {
			return err
		}
		t.files = append(t.files, &file{path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), ast: parsed})
		return nil
	})
	return t, err
}

// under reports whether the file is in the directory or below it.
func (f *file) under(dir string) bool { return within(f.dir, dir) }

func within(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

// imported is one import of a file.
type imported struct {
	path string
	spec *ast.ImportSpec
}

func (f *file) imports() []imported {
	var all []imported
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			all = append(all, imported{p, spec})
		}
	}
	return all
}

// names returns the name by which the file knows each of its imports. A
// package whose name differs from the end of its path is known by its path's
// last element that is not a version, which holds for what the rules look at.
func (f *file) names() map[string]string {
	names := map[string]string{}
	for _, i := range f.imports() {
		name := path.Base(i.path)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(i.path))
		}
		if i.spec.Name != nil {
			name = i.spec.Name.Name
		}
		names[name] = i.path
	}
	return names
}

// isLocal reports whether the import is of this module, and the directory it names.
func (t *tree) isLocal(importPath string) (dir string, ok bool) {
	if importPath == t.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

// isStandard reports whether the import is of the standard library: the first
// element of every other path has a dot in it.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// finding is one place that breaks a rule.
type finding struct {
	path   string
	line   int // 0: the file or directory as a whole
	rule   string
	detail string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", f.path, f.line, f.rule, f.detail)
}

// reporter notes places that break the rule it was made for.
type reporter func(pos token.Pos, detail string, args ...any)

func (t *tree) reporter(rule string, found *[]finding) reporter {
	return func(pos token.Pos, detail string, args ...any) {
		p := t.fset.Position(pos)
		*found = append(*found, finding{p.Filename, p.Line, rule, fmt.Sprintf(detail, args...)})
	}
}
