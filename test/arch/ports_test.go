package arch

import (
	"fmt"
	"go/ast"
	"go/token"

	"slices"
)

const (
	rulePorts     = "ports holds interfaces and nothing else, in one flat package"
	ruleMethods   = "a port has at most six methods"
	ruleSignature = "ports speak in context, domain types, io, time and builtin types"
)

const maxMethods = 6

// wider are the ports that may have more, each with the reason.
var wider = map[string]string{
	"Directory": "it hands over collections and does nothing",
	"Records":   "it hands over collections and does nothing: a part of the store is a method",
	"Storage":   "it hands over collections, and does what takes several of them",
	"Store":     "it is Records, with transactions over it",
	"Work":      "it hands over collections and does nothing",
}

var builtins = []string{
	"any", "bool", "byte", "error", "float32", "float64", "int", "int8", "int16", "int32", "int64",
	"rune", "string", "uint", "uint8", "uint16", "uint32", "uint64",
}

// knownSizes are the interfaces of other packages that a port may embed.
var knownSizes = map[string]int{"io.Reader": 1, "io.Writer": 1, "io.Closer": 1, "io.ReadCloser": 2, "io.WriteCloser": 2}

func checkPorts(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		if !f.under("ports") {
			continue
		}
		report := t.reporter(rulePorts, &found)
		if f.dir != "ports" || f.test {
			report(f.ast.Name.Pos(), "%s", f.path)
			continue
		}
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				report(d.Pos(), "a function")
				continue
			}
			for _, s := range gen.Specs {
				switch s := s.(type) {
				case *ast.ImportSpec:
				case *ast.TypeSpec:
					if _, ok := s.Type.(*ast.InterfaceType); !ok || s.Assign != token.NoPos || s.TypeParams != nil {
						report(s.Pos(), "type %s", s.Name.Name)
					}
				default:
					report(s.Pos(), "a %s", gen.Tok)
				}
			}
		}
	}
	return found
}

// portTypes returns the interfaces of ports by name, with the files they are in.
func (t *tree) portTypes() (types map[string]*ast.InterfaceType, in map[string]*file) {
	types, in = map[string]*ast.InterfaceType{}, map[string]*file{}
	for _, f := range t.files {
		if f.dir != "ports" || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					if typ, ok := s.Type.(*ast.InterfaceType); ok {
						types[s.Name.Name], in[s.Name.Name] = typ, f
					}
				}
			}
		}
	}
	return types, in
}

func checkMethods(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleMethods, &found)
	types, _ := t.portTypes()
	var count func(name string, seen []string) int
	count = func(name string, seen []string) int {
		if slices.Contains(seen, name) {
			return 0
		}
		n := 0
		for _, m := range types[name].Methods.List {
			switch e := m.Type.(type) {
			case *ast.FuncType:
				n += len(m.Names)
			case *ast.Ident:
				if types[e.Name] == nil {
					report(m.Pos(), "%s embeds %s, which cannot be counted", name, e.Name)
					continue
				}
				n += count(e.Name, append(seen, name))
			default:
				size, ok := knownSizes[written(e)]
				if !ok {
					report(m.Pos(), "%s embeds %s, which cannot be counted", name, written(e))
				}
				n += size
			}
		}
		return n
	}
	for name, typ := range types {
		if n := count(name, nil); n > maxMethods && wider[name] == "" {
			report(typ.Pos(), "%s has %d", name, n)
		}
	}
	return found
}

func checkSignatures(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleSignature, &found)
	types, in := t.portTypes()
	for name, typ := range types {
		names := in[name].names()
		for _, m := range typ.Methods.List {
			fn, ok := m.Type.(*ast.FuncType)
			if !ok {
				continue
			}
			var check func(e ast.Expr)
			checkFunc := func(fn *ast.FuncType) {
				for _, list := range []*ast.FieldList{fn.Params, fn.Results} {
					if list == nil {
						continue
					}
					for _, field := range list.List {
						check(field.Type)
					}
				}
			}
			check = func(e ast.Expr) {
				switch e := e.(type) {
				case *ast.Ident:
					if !slices.Contains(builtins, e.Name) && types[e.Name] == nil {
						report(e.Pos(), "%s.%s mentions %s", name, m.Names[0].Name, e.Name)
					}
				case *ast.SelectorExpr:
					x, ok := e.X.(*ast.Ident)
					if !ok {
						report(e.Pos(), "%s.%s mentions %s", name, m.Names[0].Name, written(e))
						return
					}
					dir, isLocal := t.isLocal(names[x.Name])
					if !slices.Contains([]string{"context", "io", "time"}, names[x.Name]) && (!isLocal || !within(dir, "domain")) {
						report(e.Pos(), "%s.%s mentions %s", name, m.Names[0].Name, written(e))
					}
				case *ast.StarExpr:
					check(e.X)
				case *ast.ParenExpr:
					check(e.X)
				case *ast.ArrayType:
					check(e.Elt)
				case *ast.Ellipsis:
					check(e.Elt)
				case *ast.MapType:
					check(e.Key)
					check(e.Value)
				case *ast.FuncType:
					checkFunc(e)
				case *ast.IndexExpr: // a domain type with a type argument
					check(e.X)
					check(e.Index)
				default:
					report(e.Pos(), "%s.%s mentions a type without a name", name, m.Names[0].Name)
				}
			}
			checkFunc(fn)
		}
	}
	return found
}

func written(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return written(e.X) + "." + e.Sel.Name
	}
	return fmt.Sprintf("%T", e)
}
