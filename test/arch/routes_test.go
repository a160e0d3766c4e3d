package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const (
	ruleRoutes   = "the route table equals the endpoints that are specified and built"
	ruleDocument = "docs/openapi.yaml describes the endpoints that are specified and built"

	routesFile   = "adapters/httpapi/routes.go"
	documentFile = "docs/openapi.yaml"
	prefix       = "/api/v1"
)

// A group of endpoints, as the specification has them. Endpoints are written
// "METHOD path" with the specification's :names, below the prefix.
type group struct {
	name      string
	built     bool
	endpoints string
}

// specified is the specification's list of endpoints. A group that is not built
// yet has neither routes nor a description; when it is implemented, built is set here.
var specified = []group{
	{"auth", true, `
		GET /auth/cli-auth
		GET /auth/cli-callback
		POST /auth/exchange-token
		POST /auth/refresh
		GET /auth/me
		POST /auth/onboarding-complete
		POST /auth/seed-onboarding
		POST /auth/webhook`},
	{"organisation", true, `
		GET /org/members
		PATCH /org/members/:userId/role
		DELETE /org/members/:userId
		GET /org/invites
		POST /org/invite
		POST /org/invite/:id/resend
		DELETE /org/invite/:id`},
	{"tasks", true, `
		GET /tasks
		GET /tasks/:id
		POST /tasks
		PATCH /tasks/:id
		DELETE /tasks/:id
		POST /tasks/reorder
		POST /tasks/reprioritize`},
	{"teams", true, `
		GET /teams
		GET /teams/:id
		POST /teams
		PATCH /teams/:id
		DELETE /teams/:id
		GET /teams/:id/members
		POST /teams/:id/members
		DELETE /teams/:id/members/:userId`},
	{"workspaces", true, `
		GET /workspaces
		GET /workspaces/:id
		POST /workspaces
		PATCH /workspaces/:id
		DELETE /workspaces/:id
		POST /workspaces/:id/move
		PUT /workspaces/order`},
	{"sync", true, `
		PUT /sync/profile
		GET /sync/profile
		PUT /sync/org-onboarding
		GET /sync/org-onboarding
		PUT /sync/memory/:scope
		GET /sync/memory/:scope
		PUT /sync/memory/workspace/:workspaceId/:fileName
		GET /sync/memory/workspace/:workspaceId/:fileName
		GET /sync/memory/workspace/:workspaceId
		POST /sync/files
		GET /sync/files/:id
		GET /sync/files
		PUT /sync/files/:id
		DELETE /sync/files/:id
		GET /sync/manifest
		GET /sync/changes`},
	{"chat and models", true, `
		POST /chat
		GET /models`},
	{"connectors", true, `
		GET /connector-providers
		GET /connectors
		POST /connectors
		GET /connectors/:instanceId/credentials
		POST /connectors/:instanceId/credentials
		DELETE /connectors/:instanceId
		POST /mcp-oauth/start
		GET /mcp-oauth/callback
		GET /mcp-oauth/poll`},
	{"billing", true, `
		GET /billing/status
		GET /billing/subscription
		POST /billing/trial
		POST /billing/checkout
		POST /billing/portal
		POST /billing/downgrade
		GET /billing/checkout/success
		GET /billing/checkout/cancel
		POST /billing/webhook`},
	{"metering", true, `
		GET /metering/org
		GET /metering/user
		GET /metering/quota`},
	{"updates", true, `
		GET /updates/check
		POST /updates
		PATCH /updates/:id
		GET /updates/releases`},

	// What docs/decisions/ adds to the specification.
	{"operator", true, `
		GET /admin/health
		GET /admin/doctor
		GET /admin/organisations
		GET /admin/organisations/:id
		PUT /admin/organisations/:id/subscription
		GET /admin/organisations/:id/members
		PUT /admin/organisations/:id/members/:userId/role`},
	{"audit", true, `
		GET /org/audit
		GET /org/members/former`},
	{"exports", true, `
		POST /org/export
		GET /org/exports
		GET /org/exports/:id
		GET /org/exports/:id/archive`},
	{"sessions", true, `
		GET /auth/organisations
		GET /auth/sessions
		DELETE /auth/sessions
		DELETE /auth/sessions/:id`},
	{"sign-in of devices", true, `
		POST /auth/device
		POST /auth/device/token
		GET /auth/device
		POST /auth/device/decision`},
	{"moves", true, `
		PATCH /sync/files/:id
		POST /sync/move`},
	{"earlier versions", true, `
		GET /sync/files/:id/versions
		DELETE /sync/files/:id/versions
		GET /sync/files/:id/versions/:version
		DELETE /sync/files/:id/versions/:version
		POST /sync/files/:id/restore`},
	{"uploads to object stores", true, `
		POST /sync/uploads
		POST /sync/uploads/:id/complete
		DELETE /sync/uploads/:id`},
	{"resumable uploads", true, `
		POST /sync/resumable-uploads
		GET /sync/resumable-uploads
		GET /sync/resumable-uploads/:id
		PATCH /sync/resumable-uploads/:id
		DELETE /sync/resumable-uploads/:id`},
	{"plans", true, `GET /billing/plans`},
	{"storage and daily usage", true, `
		GET /metering/storage
		GET /metering/daily`},
	{"batches of files", true, `
		POST /sync/batch
		POST /sync/batch/read
		GET /sync/limits`},
	{"task history", true, `GET /tasks/:id/history`},
	{"authorizations", true, `
		GET /mcp-oauth/authorize
		POST /mcp-oauth/authorize
		GET /mcp-oauth/callback/:issuer
		GET /mcp-oauth/client-metadata.json
		GET /mcp-oauth/client-metadata/:issuer`},
	{"rollout, adoption and reports", true, `
		GET /updates/releases/:id/progress
		GET /updates/releases/:id/reports
		POST /updates/reports
		GET /updates/releases/:id/rollout
		GET /updates/adoption`},
	{"feeds of updaters", true, `
		GET /updates/feeds/electron/:file
		GET /updates/feeds/squirrel/darwin/:arch/:version
		GET /updates/feeds/squirrel/win32/:arch/:version/RELEASES
		GET /updates/feeds/tauri/:target/:arch/:version
		GET /updates/feeds/sparkle/appcast.xml`},
	{"document", true, `GET /openapi.json`},
}

// outsidePrefix are the paths of the server that are not below the prefix.
var outsidePrefix = []string{"/favicon.ico", "/device", "/docs", "/docs/{file}", "/healthz", "/readyz", "/metrics", "/.well-known/jwks.json"}

func (g group) list() []string {
	var list []string
	for line := range strings.Lines(g.endpoints) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, endpoint(strings.Fields(line)[0], strings.Fields(line)[1]))
		}
	}
	return list
}

var parameter = regexp.MustCompile(`:[A-Za-z]+|\{[^{}/]+\}`)

// endpoint writes a method and a path in one form, whatever the parameters are
// called and whether the prefix is there.
func endpoint(method, path string) string {
	return method + " " + parameter.ReplaceAllString(strings.TrimPrefix(path, prefix), "{}")
}

// checkRoutes reads the route table as it is written: every composite literal
// with a method and a path that begins with a slash among its elements.
func checkRoutes(groups []group) func(*tree) []finding {
	return func(t *tree) []finding {
		var found []finding
		report := t.reporter(ruleRoutes, &found)
		at := map[string]ast.Node{}
		for _, f := range t.files {
			if f.path != routesFile {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				method, path := "", ""
				for _, e := range lit.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Value
					}
					if m := methodOf(e); m != "" && method == "" {
						method = m
					} else if s, ok := stringOf(e); ok && strings.HasPrefix(s, "/") && path == "" {
						path = s
					}
				}
				if method != "" && path != "" && !slices.Contains(outsidePrefix, path) {
					e := endpoint(method, path)
					if at[e] != nil {
						report(lit.Pos(), "%s is there twice", e)
					}
					at[e] = lit
				}
				return true
			})
		}
		compare(groups, slices.Collect(maps.Keys(at)), func(e, detail string) {
			if n := at[e]; n != nil {
				report(n.Pos(), "%s %s", e, detail)
			} else {
				found = append(found, finding{routesFile, 0, ruleRoutes, e + " " + detail})
			}
		})
		return found
	}
}

func methodOf(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "http" {
			if m, ok := strings.CutPrefix(sel.Sel.Name, "Method"); ok {
				return strings.ToUpper(m)
			}
		}
	}
	s, _ := stringOf(e)
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, s) {
		return s
	}
	return ""
}

func stringOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// compare reports endpoints that are unexpected, and missing ones the other way
// round.
func compare(groups []group, have []string, report func(endpoint, detail string)) {
	known := map[string]group{}
	for _, g := range groups {
		for _, e := range g.list() {
			known[e] = g
		}
	}
	for _, e := range slices.Sorted(slices.Values(have)) {
		switch g, ok := known[e]; {
		case !ok:
			report(e, "is specified nowhere")
		case !g.built:
			report(e, fmt.Sprintf("is of the group %q, which is marked as not built", g.name))
		}
	}
	for _, e := range slices.Sorted(maps.Keys(known)) {
		if g := known[e]; g.built && !slices.Contains(have, e) {
			report(e, fmt.Sprintf("of the group %q is missing", g.name))
		}
	}
}

// checkDocument reads docs/openapi.yaml.
func checkDocument(groups []group) func(*tree) []finding {
	return func(t *tree) []finding {
		fail := func(err error) []finding { return []finding{{documentFile, 0, ruleDocument, err.Error()}} }
		text, err := fs.ReadFile(t.fsys, documentFile)
		if err != nil {
			return fail(err)
		}
		loader := openapi3.NewLoader()
		loader.IncludeOrigin = true
		doc, err := loader.LoadFromData(text)
		if err != nil {
			return fail(err)
		}
		if err := doc.Validate(loader.Context); err != nil {
			return fail(err)
		}
		lines := map[string]int{}
		for path, item := range doc.Paths.Map() {
			if slices.Contains(outsidePrefix, path) {
				continue
			}
			for method, op := range item.Operations() {
				line := 0
				if op.Origin != nil && op.Origin.Key != nil {
					line = op.Origin.Key.Line
				}
				lines[endpoint(method, path)] = line
			}
		}
		var found []finding
		compare(groups, slices.Collect(maps.Keys(lines)), func(e, detail string) {
			found = append(found, finding{documentFile, lines[e], ruleDocument, e + " " + detail})
		})
		slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
		return found
	}
}
