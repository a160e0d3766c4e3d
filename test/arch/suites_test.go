package arch

import (
	"go/ast"
	"slices"
	"strings"
)

const ruleSuites = "every port has a suite in test/contract that at least two adapters call, or a reason"

// unsuited has the reason for a port without a suite, or with one that fewer than two adapters
// call. A reason for a port that does not need one is reported as well.
var unsuited = map[string]string{
	"Records":     "hands over collections, each of which has its own suite",
	"Connections": "hands over collections, each of which has its own suite",
	"Directory":   "hands over collections, each of which has its own suite",
	"Work":        "hands over collections, each of which has its own suite",
	"Journal":     "hands over collections, each of which has its own suite",
	"Usage":       "hands over collections, each of which has its own suite",
	"Deployment":  "hands over collections, each of which has its own suite",

	// Ports with one adapter, which its own tests hold to the port's comment.
	"IdentityTokens": "one adapter, oidc: whatever else said yes to a token would be a hole; its tests run against devidp",
	"IdentityEvents": "one adapter, standardwebhooks: the payloads are what it is about",
	"PaymentEvents":  "one adapter, stripepay: the payloads are what it is about",
	"SignIn":         "one adapter, oidc, in two forms that share nothing but the port; its tests run both",
	"ServiceTokens":  "one adapter, servicetoken: whatever else made tokens would make worthless ones",
	"Sealer":         "one adapter, vault, which calls the suite: whatever else sealed would not",
	"Blobs":          "one adapter, bucket, which calls the suite for each sort of store that it is for",
	"SignedBlobs":    "one adapter, bucket, which calls the suite for each protocol whose servers check signatures",
	"BlobSets":       "of one sort of store, files, whose own tests hold it to the port's comment",
	"BlobFile":       "part of the readers of one sort of store, files, whose own tests hold them to the port's comment",
	"Health":         "one method, which each adapter's own tests call with its store open and closed",
	"Archiver":       "one adapter, archive: the format is what it is about, and its tests read what they wrote and what nobody may read",
	"ToolServers":    "one adapter, mcp: it speaks with foreign servers, and its tests run scripted ones of the real protocol",
	"Authorizer":     "one adapter, mcp: it speaks with foreign servers, and its tests run a scripted one of the real protocol",
	"Generations":    "one adapter, analytics, whose tests hold each of its forms to the protocol that it speaks",
	"ChunkSink":      "what a chat is given: part of Sink",
	"Sink":           "what models are given: their suite's own one holds them to how it is called",
	"Alarm":          "part of Alarms, whose suite it is in",
	"Disk":           "one adapter, the directory of a device; its suite holds it and the virtual disks of the simulation to the port's comment",
	"DiskWriter":     "one adapter, the directory of a device; its suite holds it and the virtual disks of the simulation to the port's comment",
	"Watcher":        "one adapter, the notifications of a system; a simulation names what changed itself",
	"MirrorState":    "one adapter, a file of a device; its suite holds it and the state of the simulation to the port's comment",
	"Remote":         "one adapter, the HTTP interface; the simulation has the core in its place",
	"RemoteWriter":   "one adapter, the HTTP interface; the simulation has the core in its place",
	"Mailer":         "what it does shows outside only: adapters/mail is tested against an SMTP server, memory keeps the letters",
}

// checkSuites takes a suite to be the exported function of test/contract with
// the port's name. An adapter calls it directly or through another suite, in
// any of its own test files.
func checkSuites(reasons map[string]string) func(*tree) []finding {
	return func(t *tree) []finding {
		var found []finding
		report := t.reporter(ruleSuites, &found)

		// What each function of test/contract calls there.
		calls := map[string][]string{}
		for _, f := range t.files {
			if f.dir != "test/contract" || f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv != nil {
					continue
				}
				calls[fn.Name.Name] = []string{}
				ast.Inspect(fn, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if name, ok := call.Fun.(*ast.Ident); ok {
							calls[fn.Name.Name] = append(calls[fn.Name.Name], name.Name)
						}
					}
					return true
				})
			}
		}

		// The adapters that call each suite.
		callers := map[string][]string{}
		var called func(suite, adapter string)
		called = func(suite, adapter string) {
			inner, ok := calls[suite]
			if !ok || slices.Contains(callers[suite], adapter) {
				return
			}
			callers[suite] = append(callers[suite], adapter)
			for _, s := range inner {
				called(s, adapter)
			}
		}
		for _, f := range t.files {
			parts := strings.Split(f.dir, "/")
			if !f.test || len(parts) < 2 || parts[0] != "adapters" {
				continue
			}
			names := f.names()
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] == t.module+"/test/contract" {
						called(sel.Sel.Name, parts[1])
					}
				}
				return true
			})
		}

		types, _ := t.portTypes()
		for name, typ := range types {
			_, reason := reasons[name]
			switch n := len(callers[name]); {
			case reason && n >= 2:
				report(typ.Pos(), "%s has a reason and %d adapters as well", name, n)
			case reason:
			case calls[name] == nil:
				report(typ.Pos(), "%s has no suite", name)
			case n < 2:
				report(typ.Pos(), "%s's suite is called by %d adapters", name, n)
			}
		}
		for name := range reasons {
			if types[name] == nil {
				found = append(found, finding{"ports", 0, ruleSuites, "a reason for " + name + ", which is no port"})
			}
		}
		return found
	}
}
