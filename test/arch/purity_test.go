package arch

import (
	"go/ast"
	"go/token"
	"slices"
)

const ruleClock = "domain and app are given the time"

// clocks are the functions and variables of package time that read the
// machine's clock or its place on earth; waits are those that wait for it, which
// app/assembly does, as it runs the process.
var (
	clocks = []string{"Now", "Since", "Until", "Local"}
	waits  = []string{"After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
)

func checkClock(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleClock, &found)
	for _, f := range t.files {
		if f.test || !f.under("domain") && !f.under("app") {
			continue
		}
		names := f.names()
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || names[x.Name] != "time" {
				return true
			}
			if slices.Contains(clocks, sel.Sel.Name) || slices.Contains(waits, sel.Sel.Name) && !f.under("app/assembly") {
				report(sel.Pos(), "time.%s", sel.Sel.Name)
			}
			return true
		})
	}
	return found
}

const ruleRandom = "domain and app are given what is random"

var randoms = []string{"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash", "github.com/google/uuid"}

func checkRandom(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleRandom, &found)
	for _, f := range t.files {
		if f.test || !f.under("domain") && !f.under("app") {
			continue
		}
		for _, i := range f.imports() {
			if slices.Contains(randoms, i.path) {
				report(i.spec.Pos(), "imports %s", i.path)
			}
		}
	}
	return found
}

const ruleState = "domain and app keep nothing in package variables"

// checkGlobals allows package variables that are set where they are declared
// and never again, such as tables. It refuses the others: those that are
// assigned or pointed to anywhere, those that exist to be changed (locks,
// pools, counters, channels, maps made empty), and init functions.
func checkGlobals(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleState, &found)
	globals := map[string]map[string]bool{} // by directory, then name
	declared := map[*ast.ValueSpec]bool{}   // outside functions
	for _, f := range t.files {
		if f.test || !f.under("domain") && !f.under("app") {
			continue
		}
		if globals[f.dir] == nil {
			globals[f.dir] = map[string]bool{}
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					report(d.Pos(), "func init")
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					v, ok := s.(*ast.ValueSpec)
					if !ok || d.Tok != token.VAR {
						continue
					}
					declared[v] = true
					for _, name := range v.Names {
						globals[f.dir][name.Name] = true
						if name.Name != "_" && changes(f, v) {
							report(name.Pos(), "var %s", name.Name)
						}
					}
				}
			}
		}
	}
	for _, f := range t.files {
		if f.test || globals[f.dir] == nil {
			continue
		}
		refuse := func(e ast.Expr) {
			name := root(e)
			if name == nil || !globals[f.dir][name.Name] {
				return
			}
			// The parser resolves names within a file; those of the package's other
			// files stay unresolved.
			if name.Obj != nil {
				if v, ok := name.Obj.Decl.(*ast.ValueSpec); !ok || !declared[v] {
					return
				}
			}
			report(e.Pos(), "changes %s", name.Name)
		}
		for _, d := range f.ast.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							refuse(e)
						}
					}
				case *ast.IncDecStmt:
					refuse(n.X)
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						refuse(n.X)
					}
				case *ast.RangeStmt:
					if n.Tok == token.ASSIGN {
						refuse(n.Key)
						refuse(n.Value)
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && len(n.Args) > 0 {
						refuse(n.Args[0])
					}
				}
				return true
			})
		}
	}
	return found
}

// root returns the variable that an operand is a part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isEmbedFS reports whether a type is embed.FS, given the names of a file's imports.
func isEmbedFS(names map[string]string, typ ast.Expr) bool {
	s, ok := typ.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && names[x.Name] == "embed" && s.Sel.Name == "FS"
}

// changes reports whether a package variable is of a kind that only makes sense
// when it changes.
func changes(f *file, v *ast.ValueSpec) bool {
	names := f.names()
	mutable := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.ChanType:
			return true
		case *ast.SelectorExpr:
			x, ok := e.X.(*ast.Ident)
			return ok && (names[x.Name] == "sync" || names[x.Name] == "sync/atomic")
		case *ast.IndexExpr: // atomic.Pointer[T]
			s, ok := e.X.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			x, ok := s.X.(*ast.Ident)
			return ok && names[x.Name] == "sync/atomic"
		}
		return false
	}
	if v.Type != nil {
		typ := v.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		// A string without a value can be set by the linker, and an embed.FS by the
		// compiler. Both stay what they are when nothing assigns them.
		name, isName := typ.(*ast.Ident)
		set := isName && name.Name == "string" || isEmbedFS(names, typ)
		return mutable(typ) || len(v.Values) == 0 && !set
	}
	for _, value := range v.Values {
		if u, ok := value.(*ast.UnaryExpr); ok {
			value = u.X
		}
		switch e := value.(type) {
		case *ast.CompositeLit:
			if _, isMap := e.Type.(*ast.MapType); mutable(e.Type) || isMap && len(e.Elts) == 0 {
				return true
			}
		case *ast.CallExpr:
			fn, ok := e.Fun.(*ast.Ident)
			if ok && (fn.Name == "make" || fn.Name == "new") || mutable(e.Fun) {
				return true
			}
		}
	}
	return false
}
