package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/app/changes"
	"collab/docs"
	"collab/domain/org"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const publicURL = "https://collab.example"

// openAPI returns the OpenAPI document. It is generated once, because that takes longer than
// everything else that newAPI does.
var openAPI = sync.OnceValues(docs.JSON)

// newAPI returns an interface without use cases, whose options the functions may change.
func newAPI(t testing.TB, change ...func(*Options)) *api {
	t.Helper()
	var ids atomic.Int64
	o := Options{
		Heartbeat: 30 * time.Second,
		Access:    access.New(access.Options{}),
		Feed:      &changes.Feed{},
		Log:       slog.New(slog.DiscardHandler),
		Meter:     noop.Meter{},
		PublicURL: publicURL,
		Release:   "1.2.3",
		Document:  must.Do(openAPI()).Or(t),
		Budgets:   limit.Budgets{Anonymous: 64 << 20, Callers: 256 << 20, Spool: 1 << 30}, Connections: limit.NewBudget(1 << 30),
		JWKS:  []byte(`{"keys":[]}`),
		Ready: func(context.Context) error { return nil }, Doctor: func(context.Context) []Finding { return nil },
		NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
		Now:   time.Now,
	}
	for _, fn := range change {
		fn(&o)
	}
	return must.Do(build(o)).Or(t)
}

// setRoutes replaces the routes.
func (a *api) setRoutes(t testing.TB, rows ...row) {
	t.Helper()
	a.inner = must.Do(a.router(rows)).Or(t)
}

// serveEndpoint returns an interface with one endpoint, at /test. Its callers are authorized without a role.
func serveEndpoint(t testing.TB, method string, g guard, handle handler, change ...func(*Options)) *api {
	t.Helper()
	a := newAPI(t, change...)
	a.setRoutes(t, row{method, "/test", g, none, handle})
	a.actorOf = func(_ context.Context, c access.Caller) (org.Actor, error) {
		return org.Actor{User: c.User, Org: c.Org}, nil
	}
	return a
}

// as returns handle for requests of the actor, which may be changed between requests.
func (a *api) as(actor *org.Actor, handle handler) handler {
	a.actorOf = func(context.Context, access.Caller) (org.Actor, error) { return *actor, nil }
	return func(c *call) error {
		c.caller = access.Caller{User: actor.User, Org: actor.Org}
		return handle(c)
	}
}

// runSynctest runs test as a subtest in a bubble of synctest.
func runSynctest(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// newRequest returns a request with the headers, each of which is a name, ": " and a value.
func newRequest(method, target string, body io.Reader, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, body)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func get(target string, headers ...string) *http.Request {
	return newRequest(http.MethodGet, target, nil, headers...)
}

// post returns a request with a JSON body.
func post(target, body string, headers ...string) *http.Request {
	return newRequest(http.MethodPost, target, strings.NewReader(body), append([]string{"Content-Type: application/json"}, headers...)...)
}

// readFunc implements io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

type errorBody struct {
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Error      string `json:"error"`
}

// checkError checks the status of an error response and that its body has all fields of an error and no others,
// and returns the body.
func checkError(t testing.TB, w *httptest.ResponseRecorder, status int) errorBody {
	t.Helper()
	e := read[errorBody](t, w, status)
	if e.StatusCode != status || e.Error != http.StatusText(status) || e.Message == "" {
		t.Fatalf("got %d %+v, want %d", w.Code, e, status)
	}
	must.Is(t, "application/json", w.Header().Get("Content-Type"))
	return e
}

// read decodes the JSON of a response, which must have the status.
func read[T any](t testing.TB, w *httptest.ResponseRecorder, status int) (v T) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("%d %.300s, want %d", w.Code, w.Body, status)
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.300s", err, w.Body)
	}
	return v
}

// checkHeader checks the values of the headers; "" means that a header is missing.
func checkHeader(t testing.TB, h http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := strings.Join(h.Values(name), ", "); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// newCall returns the call of a request that is not served, with its own budgets.
func newCall(r *http.Request) *call {
	return &call{r: r, budgets: newBudgets(limit.Budgets{Anonymous: 1 << 30, Callers: 1 << 30, Spool: 1 << 30})}
}
