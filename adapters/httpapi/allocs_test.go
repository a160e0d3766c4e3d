package httpapi

import (
	"net/http"
	"testing"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/domain/id"
	"collab/test/must"
)

// discardedResponse is a response that nobody reads.
type discardedResponse struct{ header http.Header }

func (w discardedResponse) Header() http.Header            { return w.header }
func (discardedResponse) WriteHeader(int)                  {}
func (discardedResponse) Write(b []byte) (int, error)      { return len(b), nil }
func (discardedResponse) SetReadDeadline(time.Time) error  { return nil }
func (discardedResponse) SetWriteDeadline(time.Time) error { return nil }

// docs/performance.md says which layers allocate.
func TestAllocationsOfASignedInRequest(t *testing.T) {
	const most = 14
	w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 1_000_000, Per: time.Second}})
	mark := must.Do(w.store.Marks(t.Context(), []id.Org{someID})).Or(t)[someID]
	w.looks.cached = &mark // as on SQLite between commits
	w.inner = must.Do(w.router([]row{{http.MethodGet, prefix + "/models", member, withoutQuery(w.authorized(w.listModels))}})).Or(t)
	r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"/models", nil)).Or(t)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("Authorization", "Bearer token")
	response := discardedResponse{http.Header{}}
	n := testing.AllocsPerRun(1000, func() {
		clear(response.header)
		w.api.ServeHTTP(response, r)
	})
	if n > most || len(response.header["Ratelimit"]) == 0 {
		t.Errorf("a request allocates %v times, want at most %d; its answer has %v", n, most, response.header)
	}
}
