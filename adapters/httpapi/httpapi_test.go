package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"collab/docs"
	"collab/domain/org"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const publicURL = "https://collab.example"

// documented is the OpenAPI document, which takes longer to make than all else that an
// interface is built of.
var documented = sync.OnceValues(docs.JSON)

// options are those of an interface without use cases behind it, except that
// a missing token is noticed.
func options(t testing.TB) Options {
	t.Helper()
	document := must.Do(documented()).Or(t)
	var n atomic.Int64
	return Options{
		Access:    access.New(access.Options{}),
		Log:       slog.New(slog.DiscardHandler),
		Meter:     noop.Meter{},
		PublicURL: publicURL,
		Release:   "1.2.3",
		Document:  document,
		Budgets:   limit.Budgets{Anonymous: 64 << 20, Callers: 256 << 20, Spool: 1 << 30}, Connections: limit.NewBudget(1 << 30),
		JWKS:  []byte(`{"keys":[]}`),
		Ready: func(context.Context) error { return nil }, Doctor: func(context.Context) []Finding { return nil },
		NewID: func() string { return fmt.Sprintf("made-%d", n.Add(1)) },
		Now:   time.Now,
	}
}

func built(t testing.TB, change ...func(*Options)) *api {
	t.Helper()
	o := options(t)
	for _, fn := range change {
		fn(&o)
	}
	return must.Do(build(o)).Or(t)
}

// serving returns the interface with one endpoint of a test's own inside the
// whole chain, at /test. Its callers are authorized without a role.
func serving(t testing.TB, method string, g guard, handle handler, change ...func(*Options)) *api {
	t.Helper()
	a := built(t, change...)
	router := must.Do(a.router([]row{{method, "/test", g, handle}})).Or(t)
	a.inner = router
	a.actorOf = func(_ context.Context, c access.Caller) (org.Actor, error) {
		return org.Actor{User: c.User, Org: c.Org}, nil
	}
	return a
}

// as has the requests that handle takes act as the actor, who may change between them.
func (a *api) as(actor *org.Actor, handle handler) handler {
	a.actorOf = func(context.Context, access.Caller) (org.Actor, error) { return *actor, nil }
	return func(c *call) error {
		c.caller = access.Caller{User: actor.User, Org: actor.Org}
		return handle(c)
	}
}

// timed runs a sub-test whose time passes while it waits.
func timed(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

func post(target, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

type errorBody struct {
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Error      string `json:"error"`
}

// refused checks that an answer has the error shape and nothing else in it.
func refused(t testing.TB, w *httptest.ResponseRecorder, status int) errorBody {
	t.Helper()
	var e errorBody
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || e.StatusCode != status || e.Error != http.StatusText(status) || e.Message == "" {
		t.Fatalf("got %d %+v, want %d", w.Code, e, status)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Fatalf("content type %q", ct)
	}
	return e
}

func TestNewNamesMissingOptions(t *testing.T) {
	_, err := New(Options{})
	if err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Fatalf("got %v", err)
	}
}

// newCall is the call of a request that nobody serves, with budgets of its own.
func newCall(r *http.Request) *call {
	return &call{r: r, budgets: newBudgets(limit.Budgets{Anonymous: 1 << 30, Callers: 1 << 30, Spool: 1 << 30})}
}
