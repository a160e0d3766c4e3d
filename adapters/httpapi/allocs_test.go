package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/domain/id"
	"collab/test/must"
	"collab/test/race"
)

// discardedResponse is a response that nobody reads.
type discardedResponse struct{ header http.Header }

func (w discardedResponse) Header() http.Header            { return w.header }
func (discardedResponse) WriteHeader(int)                  {}
func (discardedResponse) Write(b []byte) (int, error)      { return len(b), nil }
func (discardedResponse) SetReadDeadline(time.Time) error  { return nil }
func (discardedResponse) SetWriteDeadline(time.Time) error { return nil }

// layers are those of the table in docs/performance.md, with how often each allocates at most.
var layers = []struct {
	name string
	most float64
}{
	{"deadlines", 0}, {"id", 1}, {"limits", 2}, {"guards", 2}, {"route", 0}, {"endpoint and encoding", 4}, {"duration", 0}, {"log line", 1}, {"rest", 4},
}

// allocations returns how often each layer but the rest allocates for the request of c, which began as r.
func (a *api) allocations(c *call, r *http.Request) map[string]float64 {
	w, since, address, request, caller, route := c.w, c.since, c.address, c.id, c.caller, c.route
	began := func(c *call) {
		*c = call{w: w, r: r, since: since, address: address, id: request, caller: caller, route: route, budgets: a.budgets}
		c.deadlines = stream.Start(c, r, since)
	}
	entered := func(c *call) {
		began(c)
		c.r = r.WithContext(c.deadlines.Context(r.Context()))
	}
	of := route.series.with(outcome{r.Method, http.StatusOK})
	counted := func(begin, layer func(*call)) float64 {
		before := testing.AllocsPerRun(1000, func() { begin(c) })
		return testing.AllocsPerRun(1000, func() {
			begin(c)
			layer(c)
		}) - before
	}
	admitted := func(c *call) {
		entered(c)
		_ = a.admit(c, route.Guard)
	}
	found := map[string]float64{
		"deadlines": counted(func(*call) {}, func(c *call) {
			began(c)
			_ = c.deadlines.Context(r.Context())
			c.deadlines.End()
		}),
		"id":                    counted(began, func(*call) { a.requestID(r) }),
		"limits":                counted(began, func(c *call) { _ = a.callers.Take(c, string(c.caller.User)) }),
		"route":                 counted(began, func(c *call) { a.inner.ServeHTTP(c, r) }) - counted(began, func(c *call) { a.serveAt(route, c, r) }),
		"endpoint and encoding": counted(admitted, func(c *call) { _ = route.Handle(c) }),
		"duration":              counted(began, func(c *call) { a.duration.Record(r.Context(), 1, of.options...) }),
		"log line":              counted(began, func(c *call) { a.log(r.Context(), slog.LevelInfo, c, of.line, c.since) }),
	}
	found["guards"] = counted(entered, func(c *call) { _ = a.admit(c, route.Guard) }) - found["limits"]
	return found
}

func TestAllocationsOfASignedInRequest(t *testing.T) {
	race.Skip(t, "with it pools drop what they are given at random, and more is allocated")
	w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 1_000_000, Per: time.Second}})
	mark := must.Do(w.store.Marks(t.Context(), []id.Org{someID})).Or(t)[someID]
	w.looks.cached = &mark // as on SQLite between commits
	w.NewID = func() string { return strings.Clone("0198a1b2-0000-7000-8000-000000000001") }
	w.inner = must.Do(w.router([]row{{http.MethodGet, prefix + "/models", member, withoutQuery(w.authorized(w.listModels))}})).Or(t)
	r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"/models", nil)).Or(t)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("Authorization", "Bearer token")
	response := discardedResponse{http.Header{}}
	rest := testing.AllocsPerRun(1000, func() {
		clear(response.header)
		w.api.ServeHTTP(response, r)
	})
	if len(response.header["Ratelimit"]) == 0 {
		t.Errorf("the answer has %v", response.header)
	}
	var of *call
	w.inner = must.Do(w.router([]row{{http.MethodGet, prefix + "/models", member, func(c *call) error {
		of = c
		return w.authorized(w.listModels)(c)
	}}})).Or(t)
	w.api.ServeHTTP(response, r)
	found := w.allocations(of, r)
	for _, n := range found {
		rest -= n
	}
	found["rest"] = rest
	for _, l := range layers {
		if n := found[l.name]; n > l.most {
			t.Errorf("%s: %v allocations, want at most %v", l.name, n, l.most)
		}
	}
}
