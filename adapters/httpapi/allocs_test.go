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

// discardResponse is a response whose body is discarded. It does not allocate.
type discardResponse struct{ header http.Header }

func (w discardResponse) Header() http.Header            { return w.header }
func (discardResponse) WriteHeader(int)                  {}
func (discardResponse) Write(b []byte) (int, error)      { return len(b), nil }
func (discardResponse) SetReadDeadline(time.Time) error  { return nil }
func (discardResponse) SetWriteDeadline(time.Time) error { return nil }

// layers are those of the table in docs/performance.md, with their limits of allocations for a request.
var layers = []struct {
	name string
	most float64
}{
	{"deadlines", 0}, {"id", 1}, {"limits", 2}, {"guards", 2}, {"route", 0}, {"endpoint and encoding", 4}, {"duration", 0}, {"log line", 1}, {"rest", 4},
}

// allocations returns the number of allocations of each layer except the rest for the request of c, which is r.
func (a *api) allocations(c *call, r *http.Request) map[string]float64 {
	w, began, address, request, caller, route := c.w, c.began, c.address, c.id, c.caller, c.route
	begin := func() {
		*c = call{w: w, r: r, began: began, address: address, id: request, caller: caller, route: route, budgets: a.budgets}
		c.deadlines = stream.Start(c, r, began)
	}
	enter := func() {
		begin()
		c.r = r.WithContext(c.deadlines.Context(r.Context()))
	}
	of := route.series.entryOf(outcome{r.Method, http.StatusOK})
	admit := func() { _ = a.admit(c, route.Guard) }
	// count returns the number of allocations of a layer after those of prepare.
	count := func(prepare, layer func()) float64 {
		prepared := testing.AllocsPerRun(1000, prepare)
		return testing.AllocsPerRun(1000, func() {
			prepare()
			layer()
		}) - prepared
	}
	found := map[string]float64{
		"deadlines": count(func() {}, func() {
			begin()
			_ = c.deadlines.Context(r.Context())
			c.deadlines.End()
		}),
		"id":                    count(begin, func() { a.requestID(r) }),
		"limits":                count(begin, func() { _ = a.callers.Take(c, string(c.caller.User)) }),
		"route":                 count(begin, func() { a.inner.ServeHTTP(c, r) }) - count(begin, func() { a.serveAt(route, c, r) }),
		"endpoint and encoding": count(func() { enter(); admit() }, func() { _ = route.Handle(c) }),
		"duration":              count(begin, func() { a.duration.Record(r.Context(), 1, of.options...) }),
		"log line":              count(begin, func() { a.log(r.Context(), slog.LevelInfo, c, of.line, c.began) }),
	}
	found["guards"] = count(enter, admit) - found["limits"]
	return found
}

func TestAllocationsOfASignedInRequest(t *testing.T) {
	race.Skip(t, "its pools drop values at random, so that more is allocated")
	w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 1_000_000, Per: time.Second}})
	mark := must.Do(w.store.Marks(t.Context(), []id.Org{someID})).Or(t)[someID]
	w.marks.cached = &mark // as on SQLite between commits
	w.NewID = func() string { return strings.Clone("0198a1b2-0000-7000-8000-000000000001") }
	w.setRoutes(t, row{http.MethodGet, prefix + "/models", member, queries, withoutQuery(w.authorized(w.listModels))})
	r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"/models", nil)).Or(t)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("Authorization", "Bearer "+strings.Repeat("token", 100))
	response := discardResponse{http.Header{}}
	rest := testing.AllocsPerRun(1000, func() {
		clear(response.header)
		w.api.ServeHTTP(response, r)
	})
	if len(response.header["Ratelimit"]) == 0 {
		t.Errorf("the headers are %v", response.header)
	}
	var of *call
	w.setRoutes(t, row{http.MethodGet, prefix + "/models", member, queries, func(c *call) error {
		of = c
		return w.authorized(w.listModels)(c)
	}})
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
