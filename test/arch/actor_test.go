package arch

import (
	"go/ast"
	"slices"
	"strings"
)

const ruleActor = "an actor is what the records say at the moment of the act"

// actorsFile is where adapters/httpapi has its only way to an actor.
const actorsFile = "adapters/httpapi/guards.go"

// lookups are the functions of app/access, and what stands for them, that return an actor
// or replace the request whose session and expiry are checked again.
var lookups = []string{"Authorize", "Cached", "Reauthorize", "Reauthorizer", "actorOf", "NewContext", "WithBrowser", "WithOperator", "carry"}

// checkActor has adapters/httpapi, with the directories below it, get its actors in one file:
// no other makes one that is not empty, changes one, keeps one, asks app/access for one, or
// replaces the request that app/access checks again.
func checkActor(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleActor, &found)
	for _, f := range t.files {
		if f.test || !f.under("adapters/httpapi") || f.path == actorsFile {
			continue
		}
		names := f.names()
		isActor := func(e ast.Expr) bool {
			sel, ok := e.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Actor" {
				return false
			}
			x, ok := sel.X.(*ast.Ident)
			return ok && strings.HasSuffix(names[x.Name], "/domain/org")
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if isActor(n.Type) && len(n.Elts) > 0 {
					report(n.Pos(), "%s makes one", f.path)
				}
			case *ast.ValueSpec:
				if isActor(n.Type) {
					report(n.Pos(), "%s declares one", f.path)
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if isActor(field.Type) {
						report(field.Pos(), "%s keeps one", f.path)
					}
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if sel, ok := to.(*ast.SelectorExpr); ok {
						if x, ok := sel.X.(*ast.Ident); ok && x.Name == "actor" {
							report(to.Pos(), "%s changes one", f.path)
						}
					}
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(lookups, sel.Sel.Name) {
					report(sel.Sel.Pos(), "%s calls %s", f.path, sel.Sel.Name)
				}
			}
			return true
		})
	}
	return found
}
