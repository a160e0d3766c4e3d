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
	"github.com/gorilla/mux"

	"collab/adapters/httpapi/body"
	"collab/app/access"
	"collab/domain/org"
	"collab/test/must"
)

var update = flag.Bool("update", false, "write the golden files")

// everything is the interface of a deployment that has every endpoint.
func everything(o *Options) {
	o.AdminSecret = "secret"
	o.Metrics = http.NotFoundHandler()
}

func TestRoutesPageMatchesTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Routes\n\nPrinted from `adapters/httpapi/routes.go` by its test. HEAD works wherever GET does.\n\n")
	b.WriteString("Guards: `unlimited` anyone, without limits on how often; `public` anyone; `browser` anyone, with pages for errors; `webhook` whoever signed the body; `caller` a valid token; `member` a member of the organisation; `writer` a member who is not VIEWER; `manager` OWNER or ADMIN; `owner` OWNER; `operator` the operator's secret.\n\n")
	b.WriteString("| method | path | guard |\n|---|---|---|\n")
	for _, r := range built(t, everything).routes() {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.Method, r.Path, r.Guard)
	}
	const file = "../../docs/routes.md"
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want := must.Do(os.ReadFile(file)).Or(t)
	if b.String() != string(want) {
		t.Fatalf("%s is not what the table says; run the test with -update", file)
	}
}

// describedRoutes returns the interface of a deployment that has every endpoint, and its
// OpenAPI document.
func describedRoutes(t *testing.T) (*api, *openapi3.T) {
	t.Helper()
	a := built(t, everything)
	a.actorOf = func(context.Context, access.Caller) (org.Actor, error) { return org.Actor{}, nil }
	d := must.Do(openapi3.NewLoader().LoadFromData(a.Document)).Or(t)
	return a, d
}

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

		t.Run(r.Method+" "+r.Path+" is described with its guard, parameters and key", func(t *testing.T) {
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
			if got != want {
				t.Errorf("security is %q, want %q", got, want)
			}
			var inPath []string
			keyed := false
			for _, p := range op.Parameters {
				if p.Value.In == "path" {
					inPath = append(inPath, p.Value.Name)
				}
				keyed = keyed || p.Value.Name == "Idempotency-Key"
			}
			var inTemplate []string
			for _, segment := range strings.Split(r.Path, "/") {
				if name, ok := strings.CutPrefix(segment, "{"); ok {
					inTemplate = append(inTemplate, strings.TrimSuffix(name, "}"))
				}
			}
			if !slices.Equal(inPath, inTemplate) {
				t.Errorf("path parameters are %v, want %v", inPath, inTemplate)
			}
			if takes := r.Method == http.MethodPost && r.Guard.keyed(); keyed != takes {
				t.Errorf("Idempotency-Key described: %v, taken: %v", keyed, takes)
			}
		})
	}
	for name := range described {
		t.Errorf("%s is described and not in the table", name)
	}
}

// answersOf are the statuses that a route's guard and method alone can be answered
// with, whatever its handler does.
func answersOf(r row, body bool) []string {
	var all []string
	add := func(when bool, statuses ...string) {
		if when {
			all = append(all, statuses...)
		}
	}
	keyed := r.Method == http.MethodPost && r.Guard.keyed()
	add(r.Guard != unlimited, "429", "500")
	add(r.Guard != unlimited && r.Path != CheckPath, "503") // which waits for nothing
	add(r.Guard.token() || r.Guard == byOperator, "401")
	add(r.Guard.token(), "403")
	add(r.Method == http.MethodGet && !passesBy(r), "400") // for parameters that are not known
	add(keyed, "400", "409", "413", "422")
	add(body, "400", "413")
	add(body && r.Guard != webhook, "415") // whatever is signed is read
	return all
}

// TestOpenAPIDescribesGuardAndKeyResponses checks every route that has guards or keys, also those without
// a conversation that gets such a response.
func TestOpenAPIDescribesGuardAndKeyResponses(t *testing.T) {
	a, d := describedRoutes(t)
	for _, r := range a.routes() {
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			item := d.Paths.Find(r.Path)
			if item == nil || item.GetOperation(r.Method) == nil {
				t.Fatal("it is not described")
			}
			op := item.GetOperation(r.Method)
			for _, status := range answersOf(r, op.RequestBody != nil) {
				if op.Responses.Value(status) == nil {
					t.Errorf("%s is not described", status)
				}
			}
			for status, answer := range op.Responses.Map() {
				described := func(name string) bool { return answer.Value.Headers[name] != nil }
				caching := answer.Value.Headers["Cache-Control"]
				public := caching != nil && strings.HasPrefix(caching.Ref, "#/components/headers/Public")
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
					if status < "400" && status != "304" && described(name) != (r.Guard != unlimited && r.Guard != webhook && !public) {
						t.Errorf("%s: %s is described: %t", status, name, described(name))
					}
				}
				if want := status == "429" || status == "503"; described("Retry-After") != want {
					t.Errorf("%s: Retry-After is described: %t", status, !want)
				}
				if want := status == "401" && r.Guard.token(); described("WWW-Authenticate") != want {
					t.Errorf("%s: WWW-Authenticate is described: %t", status, !want)
				}
				if r.Method == http.MethodPost && r.Guard.keyed() && status < "400" && !described("Idempotent-Replayed") {
					t.Errorf("%s: Idempotent-Replayed is not described", status)
				}
				if page := answer.Value.Content["text/html"] != nil; status >= "400" && page != (r.Guard == browser) {
					t.Errorf("%s: a page is described: %t", status, page)
				}
			}
		})
	}
}

// passesBy reports whether a route takes parameters that it does not know: devices,
// their updaters and readers of event streams add some, and so does who sends a browser
// here or watches over servers.
func passesBy(r row) bool {
	return r.Guard == unlimited || r.Guard == browser || r.Path == CheckPath || r.Path == prefix+"/sync/changes" || strings.HasPrefix(r.Path, feeds) || r.Path == "/docs/{file}"
}

func TestUnknownParametersAreRefused(t *testing.T) {
	a, d := describedRoutes(t)
	for _, r := range a.routes() {
		if r.Method != http.MethodGet {
			continue
		}
		// refuses reports whether the endpoint refuses a parameter for its name. What it
		// does with it otherwise fails, as there are no use cases behind it.
		refuses := func(name string) (refused bool) {
			ids := map[string]string{"scope": "user"}
			for _, segment := range strings.Split(r.Path, "/") {
				if of, ok := strings.CutPrefix(segment, "{"); ok && of != "scope}" {
					ids[strings.TrimSuffix(of, "}")] = body.NilID
				}
			}
			defer func() { _ = recover() }()
			w := httptest.NewRecorder()
			err := r.Handle(&call{w: w, route: &endpoint{}, r: mux.SetURLVars(get(r.Path+"?"+name+"=1"), ids)})
			return err != nil && err.Error() == fmt.Sprintf("%q is not a parameter of this endpoint", name)
		}
		t.Run(r.Path, func(t *testing.T) {
			if refuses("colour") == passesBy(r) {
				t.Errorf("one that is not known is refused: %t", !passesBy(r))
			}
			for _, p := range d.Paths.Find(r.Path).Get.Parameters {
				if p.Value.In == "query" && refuses(p.Value.Name) {
					t.Errorf("%s is described and refused", p.Value.Name)
				}
			}
		})
	}
}

func TestEveryRouteNeedsItsCredentials(t *testing.T) {
	a := built(t, everything)
	for _, r := range a.routes() {
		if !r.Guard.token() && r.Guard != byOperator {
			continue
		}
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			w := send(a, httptest.NewRequest(r.Method, strings.NewReplacer("{", "", "}", "").Replace(r.Path), nil))
			refused(t, w, http.StatusUnauthorized)
			if got := w.Header().Get("Www-Authenticate"); (got == "Bearer") != r.Guard.token() {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		})
	}
}

func TestUnknownPathsAre404WithoutRedirect(t *testing.T) {
	a := built(t, everything)
	for _, target := range []string{
		"/", "/api", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/tasks/", "/api/v1//tasks", "//api/v1/tasks",
		"/api/v1/tasks/x/", "/api/v1/tasks//history", "/api/v1/./tasks", "/api/v1/teams/../tasks", "/api/v2/tasks", "/API/v1/tasks", "/api/v1/organisations",
		"/healthz/", "/Healthz", "//healthz", "/docs/", "/docs/../healthz",
		// An encoded slash is no slash.
		"/api/v1/tasks/a%2Fb", "/healthz%2F", "/api/v1%2Fopenapi.json", "/api/v1/admin%2forganisations", "/api/v1/tasks/" + someID + "%2Fhistory", "/api/v1/tasks%2freorder",
	} {
		t.Run(target, func(t *testing.T) {
			r := get("/")
			u := must.Do(url.Parse("http://x" + target)).Or(t)
			r.URL = u
			w := send(a, r)
			if e := refused(t, w, http.StatusNotFound); e.Message != "There is no such endpoint" || w.Header().Get("Location") != "" {
				t.Errorf("%s %v", e.Message, w.Header())
			}
		})
	}
	refused(t, send(built(t), get("/metrics")), http.StatusNotFound) // no metrics are configured
	for _, target := range []string{"/healthz", "/health%7A", "/%68ealthz", "/healthz?a=b"} {
		if w := send(a, get(target)); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

func TestWrongMethodIs405BeforeAuthentication(t *testing.T) {
	a := built(t, everything)
	methods := map[string][]string{}
	for _, r := range a.routes() {
		path := regexp.MustCompile(`{\w+}`).ReplaceAllString(r.Path, "x")
		methods[path] = append(methods[path], r.Method)
		if r.Method == http.MethodGet {
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, all := range methods {
		slices.Sort(all)
		for _, method := range []string{"TRACE", "OPTIONS", "PROPFIND"} {
			w := send(a, httptest.NewRequest(method, path, nil))
			refused(t, w, http.StatusMethodNotAllowed)
			if got, want := w.Header().Get("Allow"), strings.Join(all, ", "); got != want {
				t.Errorf("%s: Allow is %q, want %q", path, got, want)
			}
		}
	}
}

func TestOnlyUpdateChecksHaveNoTimeout(t *testing.T) {
	router := must.Do(built(t).router(built(t, everything).routes())).Or(t)
	for template, p := range router.literal {
		for method, e := range p.methods {
			if want := method == "GET" && template == "/api/v1/updates/check"; e.inMemory != want {
				t.Errorf("%s %s: %t", method, template, e.inMemory)
			}
		}
	}
	if p := router.literal["/api/v1/updates/check"]; p == nil || !p.methods["GET"].inMemory {
		t.Error("checks are limited")
	}
}
