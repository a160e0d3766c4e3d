package httpapi

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/adapters/httpapi/body"
	"collab/app/access"
	"collab/domain/org"
	"collab/test/must"
)

var update = flag.Bool("update", false, "write the golden files")

// everything sets the options without which endpoints are missing.
func everything(o *Options) {
	o.AdminSecret = "secret"
	o.Metrics = http.NotFoundHandler()
}

func TestRoutesPageMatchesTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Routes\n\nPrinted from `adapters/httpapi/routes.go` by its test. HEAD works wherever GET does.\n\n")
	b.WriteString("Guards: `unlimited` anyone, without limits on how often; `public` anyone; `browser` anyone, with pages for errors; `webhook` whoever signed the body; `caller` a valid token; `member` a member of the organisation; `writer` a member who is not VIEWER; `manager` OWNER or ADMIN; `owner` OWNER; `operator` the operator's secret.\n\n")
	b.WriteString("Work: `queries`, `streams`, `uploads`, `downloads`, `generation` and `calls` acquire permits of the organisation's [shares](limits.md#shares-of-organisations). `downloads` take no idempotency key; `in memory` is charged to no budget.\n\n")
	b.WriteString("| method | path | guard | work |\n|---|---|---|---|\n")
	for _, r := range newAPI(t, everything).routes() {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.Method, r.Path, r.Guard, r.Work)
	}
	const file = "../../docs/routes.md"
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want := must.Do(os.ReadFile(file)).Or(t)
	if b.String() != string(want) {
		t.Fatalf("%s differs from the table; run the test with -update", file)
	}
}

// describedRoutes returns an interface with every endpoint and its OpenAPI document.
func describedRoutes(t *testing.T) (*api, *openapi3.T) {
	t.Helper()
	a := newAPI(t, everything)
	a.actorOf = func(context.Context, access.Caller) (org.Actor, error) { return org.Actor{}, nil }
	return a, must.Do(openapi3.NewLoader().LoadFromData(a.Document)).Or(t)
}

// templateNames returns the names of the parameters in the template of a path.
func templateNames(path string) (names []string) {
	for _, m := range templateName.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

var templateName = regexp.MustCompile(`{(\w+)}`)

func TestRouteTableMatchesOpenAPI(t *testing.T) {
	a, d := describedRoutes(t)
	described := map[string]*openapi3.Operation{}
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			described[method+" "+path] = op
		}
	}
	for _, r := range a.routes() {
		op := described[r.Method+" "+r.Path]
		if op == nil {
			t.Errorf("%s %s is not described", r.Method, r.Path)
			continue
		}
		delete(described, r.Method+" "+r.Path)

		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			want := "bearer"
			switch r.Guard {
			case unlimited, public, browser, webhook:
				want = ""
			case byOperator:
				want = "operator"
			}
			got := "bearer"
			if op.Security != nil {
				got = ""
				for _, s := range *op.Security {
					for name := range s {
						got = name
					}
				}
			}
			must.Is(t, want, got)
			var inPath []string
			keyed := false
			for _, p := range op.Parameters {
				if p.Value.In == "path" {
					inPath = append(inPath, p.Value.Name)
				}
				keyed = keyed || p.Value.Name == "Idempotency-Key"
			}
			must.Equal(t, templateNames(r.Path), inPath)
			if want := r.keyed(); keyed != want {
				t.Errorf("Idempotency-Key is described: %v", keyed)
			}
		})
	}
	for name := range described {
		t.Errorf("%s is described and not in the table", name)
	}
}

// guardStatuses returns the statuses of responses that a route's guard and method cause, whatever its handler does.
func guardStatuses(r row, body bool) []string {
	var all []string
	add := func(when bool, statuses ...string) {
		if when {
			all = append(all, statuses...)
		}
	}
	add(r.Guard != unlimited, "429", "500", "503")
	add(r.Guard.token() || r.Guard == byOperator, "401")
	add(r.Guard.token(), "403")
	add(!allowsUnknown(r), "400") // for unknown parameters
	add(r.keyed(), "400", "409", "413", "422")
	add(body, "400", "413")
	add(body && r.Guard != webhook, "415") // a signed body may have any type
	return all
}

// TestOpenAPIDescribesGuardAndKeyResponses checks the responses of guards and keys, of which few are in the
// conversations of test/script.
func TestOpenAPIDescribesGuardAndKeyResponses(t *testing.T) {
	a, d := describedRoutes(t)
	for _, r := range a.routes() {
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			item := d.Paths.Find(r.Path)
			if item == nil || item.GetOperation(r.Method) == nil {
				t.Fatal("the operation is not described")
			}
			op := item.GetOperation(r.Method)
			for _, status := range guardStatuses(r, op.RequestBody != nil) {
				if op.Responses.Value(status) == nil {
					t.Errorf("%s is not described", status)
				}
			}
			for status, response := range op.Responses.Map() {
				described := func(name string) bool { return response.Value.Headers[name] != nil }
				caching := response.Value.Headers["Cache-Control"]
				public := caching != nil && strings.HasPrefix(caching.Ref, "#/components/headers/Public")
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
					if status < "400" && status != "304" && described(name) != (r.Guard != unlimited && !public) {
						t.Errorf("%s: %s is described: %t", status, name, described(name))
					}
				}
				if want := status == "429" || status == "503" || status == "409" && described("Idempotent-Replayed"); described("Retry-After") != want {
					t.Errorf("%s: Retry-After is described: %t", status, !want)
				}
				if want := status == "401" && r.Guard.token(); described("WWW-Authenticate") != want {
					t.Errorf("%s: WWW-Authenticate is described: %t", status, !want)
				}
				if r.keyed() && status < "400" && !described("Idempotent-Replayed") {
					t.Errorf("%s: Idempotent-Replayed is not described", status)
				}
				if page := response.Value.Content["text/html"] != nil; status >= "400" && page != (r.Guard == browser) {
					t.Errorf("%s: a page is described: %t", status, page)
				}
			}
		})
	}
}

// allowsUnknown reports whether a route ignores unknown parameters, because updaters, libraries for event streams,
// sites that redirect browsers and monitors add some.
func allowsUnknown(r row) bool {
	return r.Guard == unlimited || r.Guard == browser || r.Guard == webhook || r.Path == CheckPath || r.Path == prefix+"/sync/changes" || strings.HasPrefix(r.Path, feeds) || r.Path == "/docs/{file}"
}

func TestUnknownParametersAreRefused(t *testing.T) {
	a, d := describedRoutes(t)
	for _, r := range a.routes() {
		// refuses reports whether the endpoint refuses the parameter. Otherwise it may panic, without use cases.
		refuses := func(name string) bool {
			ids := map[string]string{}
			for _, param := range templateNames(r.Path) {
				ids[param] = body.NilID
			}
			if _, ok := ids["scope"]; ok {
				ids["scope"] = "user"
			}
			defer func() { _ = recover() }()
			w := httptest.NewRecorder()
			err := r.Handle(&call{w: w, route: &endpoint{}, vars: ids, r: httptest.NewRequest(r.Method, r.Path+"?"+name+"=1", nil)})
			return err != nil && err.Error() == fmt.Sprintf("%q is not a parameter of this endpoint", name)
		}
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			for _, name := range append([]string{"colour"}, uploadFields...) {
				described := d.Paths.Find(r.Path).GetOperation(r.Method).Parameters.GetByInAndName("query", name) != nil
				if refuses(name) == (described || allowsUnknown(r)) {
					t.Errorf("%s is described: %t, and refused: %t", name, described, refuses(name))
				}
			}
			for _, p := range d.Paths.Find(r.Path).GetOperation(r.Method).Parameters {
				if p.Value.In == "query" && refuses(p.Value.Name) {
					t.Errorf("%s is described and refused", p.Value.Name)
				}
			}
		})
	}
}

func TestEveryRouteNeedsItsCredentials(t *testing.T) {
	a := newAPI(t, everything)
	for _, r := range a.routes() {
		if !r.Guard.token() && r.Guard != byOperator {
			continue
		}
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			w := send(a, httptest.NewRequest(r.Method, strings.NewReplacer("{", "", "}", "").Replace(r.Path), nil))
			checkError(t, w, http.StatusUnauthorized)
			if got := w.Header().Get("Www-Authenticate"); (got == "Bearer") != r.Guard.token() {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		})
	}
}

func TestUnknownPathsAre404WithoutRedirect(t *testing.T) {
	a := newAPI(t, everything)
	for _, target := range []string{
		"/", "/api", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/tasks/", "/api/v1//tasks", "//api/v1/tasks",
		"/api/v1/tasks/x/", "/api/v1/tasks//history", "/api/v1/./tasks", "/api/v1/teams/../tasks", "/api/v2/tasks", "/API/v1/tasks", "/api/v1/organisations",
		"/healthz/", "/Healthz", "//healthz", "/docs/", "/docs/../healthz",
		// An encoded slash does not separate segments.
		"/api/v1/tasks/a%2Fb", "/healthz%2F", "/api/v1%2Fopenapi.json", "/api/v1/admin%2forganisations", "/api/v1/tasks/" + someID + "%2Fhistory", "/api/v1/tasks%2freorder",
	} {
		t.Run(target, func(t *testing.T) {
			r := get("/")
			r.URL = must.Do(url.Parse("http://x" + target)).Or(t)
			w := send(a, r)
			if e := checkError(t, w, http.StatusNotFound); e.Message != "There is no such endpoint" || w.Header().Get("Location") != "" {
				t.Errorf("%s %v", e.Message, w.Header())
			}
		})
	}
	checkError(t, send(newAPI(t), get("/metrics")), http.StatusNotFound) // no metrics are configured
	for _, target := range []string{"/healthz", "/health%7A", "/%68ealthz", "/healthz?a=b"} {
		if w := send(a, get(target)); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

func TestWrongMethodIs405BeforeAuthentication(t *testing.T) {
	a := newAPI(t, everything)
	methods := map[string][]string{}
	for _, r := range a.routes() {
		path := templateName.ReplaceAllString(r.Path, "x")
		methods[path] = append(methods[path], r.Method)
		if r.Method == http.MethodGet {
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, all := range methods {
		slices.Sort(all)
		for _, method := range []string{"TRACE", "OPTIONS", "PROPFIND"} {
			w := send(a, httptest.NewRequest(method, path, nil))
			checkError(t, w, http.StatusMethodNotAllowed)
			if got, want := w.Header().Get("Allow"), strings.Join(all, ", "); got != want {
				t.Errorf("%s: Allow is %q, want %q", path, got, want)
			}
		}
	}
}
