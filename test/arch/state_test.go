package arch

import (
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const ruleTags = "json tags are under adapters and in cmd/collab, gorm tags in adapters/gormdb"

// checkTags holds test files too, except those under test: they read answers as
// a client does.
func checkTags(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleTags, &found)
	for _, f := range t.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			text, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				return true
			}
			tag := reflect.StructTag(text)
			if v, ok := tag.Lookup("json"); ok && !f.under("adapters") && !f.under("cmd/collab") && !f.under("test") {
				report(field.Tag.Pos(), "json:%q in %s", v, f.dir)
			}
			if v, ok := tag.Lookup("gorm"); ok && !f.under("adapters/gormdb") {
				report(field.Tag.Pos(), "gorm:%q in %s", v, f.dir)
			}
			return true
		})
	}
	return found
}

// aggregate is a record whose state only its own package decides.
type aggregate struct {
	dir    string
	name   string
	fields []string
}

var aggregates = []aggregate{
	{"domain/task", "Task", []string{"status", "completedAt"}},
	{"domain/plan", "Subscription", []string{"status"}},
	{"domain/invitation", "Invitation", []string{"status"}},
	{"domain/connector", "Instance", []string{"status"}},
	{"domain/connector", "Flow", []string{"status"}},
	{"domain/export", "Export", []string{"status"}},
	{"domain/upload", "Upload", []string{"status"}},
}

const ruleFields = "state fields are unexported and given back by Restore, which returns the record"

// checkFields checks that the compiler keeps other packages from assigning
// the state.
func checkFields(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleFields, &found)
	for _, a := range aggregates {
		declared, restored := false, false
		for _, f := range t.files {
			if f.dir != a.dir || f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					restored = restored || d.Name.Name == "Restore" && receiver(d) == a.name
				case *ast.GenDecl:
					for _, s := range d.Specs {
						typ, ok := s.(*ast.TypeSpec)
						if !ok || typ.Name.Name != a.name {
							continue
						}
						declared = true
						fields, ok := typ.Type.(*ast.StructType)
						if !ok {
							report(typ.Pos(), "%s is not a struct", a.name)
							continue
						}
						var names []string
						for _, field := range fields.Fields.List {
							for _, name := range field.Names {
								names = append(names, name.Name)
								if slices.Contains(a.fields, strings.ToLower(name.Name[:1])+name.Name[1:]) && name.IsExported() {
									report(name.Pos(), "%s.%s is exported", a.name, name.Name)
								}
							}
						}
						for _, want := range a.fields {
							if !slices.Contains(names, want) {
								report(typ.Pos(), "%s has no field %s", a.name, want)
							}
						}
					}
				}
			}
		}
		switch {
		case !declared:
			found = append(found, finding{a.dir, 0, ruleFields, "there is no " + a.name})
		case !restored:
			found = append(found, finding{a.dir, 0, ruleFields, a.name + " has no Restore"})
		}
	}
	return found
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

const ruleRestore = "Restore is for adapters that read records"

// checkRestore checks every call, or value, of a method Restore. Without type
// information the name alone decides; nothing else in the tree may bear it.
// Test files are held to it too: they reach a state as users do. The suites of
// test/contract may use it, because they put every record that can be stored
// through an adapter and back.
func checkRestore(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleRestore, &found)
	for _, f := range t.files {
		own := slices.ContainsFunc(aggregates, func(a aggregate) bool { return f.dir == a.dir })
		if own || f.under("adapters/gormdb") || f.under("adapters/memory") || f.under("test/contract") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Restore" {
				report(sel.Sel.Pos(), "%s uses it", f.dir)
			}
			return true
		})
	}
	return found
}
