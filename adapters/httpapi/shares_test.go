package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/app/objects"
	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// fewPlaces are few of each kind; of those for requests, an organisation has 2 beside others.
var fewPlaces = limit.Concurrency{Requests: 128, Streams: 16, Transfers: 16, Calls: 16, Webhooks: 16}

// withShares gives organisations shares of few places.
func withShares(o *Options) { o.Concurrency = fewPlaces }

func TestRequestsOfAnOrganisationWaitForItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		var a *api
		a = serving(t, http.MethodGet, public, func(c *call) error {
			c.caller = access.Caller{User: "u", Org: id.Org(c.r.Header.Get("X-Org"))}
			c.route.databaseShares = a.shares.requests
			if _, err := a.authorize(c); err != nil {
				return err
			}
			<-proceed
			return c.succeed()
		}, withShares)
		begin := func(of string) <-chan *httptest.ResponseRecorder {
			r := get("/test")
			r.Header.Set("X-Org", of)
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() { done <- send(a, r) }()
			synctest.Wait()
			return done
		}
		quiet := begin("quiet")
		noisy := []<-chan *httptest.ResponseRecorder{begin("noisy"), begin("noisy"), begin("noisy")}
		if f := a.shares.requests.Figures(); f.Used != 3 || f.Waiting != 1 {
			t.Errorf("%+v", f)
		}
		late := <-noisy[2]
		refused(t, late, http.StatusServiceUnavailable)
		must.Is(t, "1", late.Header().Get("Retry-After"))
		next := begin("noisy")
		close(proceed)
		for _, done := range []<-chan *httptest.ResponseRecorder{noisy[0], noisy[1], quiet, next} {
			if w := <-done; w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		must.Is(t, (limit.SharesFigures{Refusals: 1}), a.shares.requests.Figures())
	})
}

// checkedContent fails the test if a place is taken while it is read or written.
type checkedContent struct {
	*httptest.ResponseRecorder
	t      *testing.T
	shares *limit.Shares
	from   io.Reader
	calls  int
}

func (w *checkedContent) check() {
	w.calls++
	if f := w.shares.Figures(); f.Used != 0 {
		w.t.Errorf("%d places are taken", f.Used)
	}
}

func (w *checkedContent) Read(p []byte) (int, error) {
	w.check()
	return w.from.Read(p[:min(len(p), 4096)])
}

func (w *checkedContent) Write(p []byte) (int, error) {
	w.check()
	return w.ResponseRecorder.Write(p)
}

// checkedBlobs fails the test if a place is taken while the store is used.
type checkedBlobs struct {
	ports.Blobs
	ports.SignedBlobs
	checkedContent
}

func (b *checkedBlobs) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	b.check()
	return b.Blobs.Put(ctx, name, mimeType, size, r)
}

func (b *checkedBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	b.check()
	return b.Blobs.Open(ctx, name, offset, length)
}

func (b *checkedBlobs) Stat(ctx context.Context, name string) (size int64, checksum string, err error) {
	b.check()
	return b.SignedBlobs.Stat(ctx, name)
}

func TestNoPlaceIsHeldWhileTheStoreIsUsed(t *testing.T) {
	blobs := &checkedBlobs{checkedContent: checkedContent{t: t}}
	o := newFileServer(t, func(s *objects.Options) {
		blobs.Blobs, blobs.SignedBlobs = s.Blobs, s.Signed
		s.Blobs, s.Signed = blobs, blobs
	})
	o.shares = newShares(fewPlaces)
	blobs.shares = o.shares.requests
	started := o.sent(t, `"path": "a.md"`, "content")
	read[record](t, o.finish(started.ID), http.StatusCreated)
	must.Is(t, 2, blobs.calls)
	r := request(http.MethodPost, "/files?path=b.md", strings.NewReader("content"), "Content-Type: text/markdown", "Idempotency-Key: k")
	read[record](t, send(o, r), http.StatusCreated)
	must.Is(t, 3, blobs.calls)
	must.Is(t, (limit.SharesFigures{}), o.shares.requests.Figures())
}

func TestNoPlaceIsHeldWhileRecordedAnswersAreSent(t *testing.T) {
	for about, size := range map[string]int{"an answer that is stored": 1000, "a long answer": 2 * maxStored} {
		t.Run(about, func(t *testing.T) {
			var a *api
			a, _ = keyed(t, public, func(c *call) error {
				c.caller, c.route.databaseShares = access.Caller{User: "u", Org: "o"}, a.shares.requests
				if _, err := a.authorize(c); err != nil {
					return err
				}
				_, err := c.Write(make([]byte, size))
				return err
			})
			a.shares = newShares(fewPlaces)
			for range 2 {
				w := &checkedContent{ResponseRecorder: httptest.NewRecorder(), t: t, shares: a.shares.requests}
				if a.ServeHTTP(w, withKey("k", "{}")); w.calls == 0 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

func TestNoPlaceIsHeldWhileContentIsReadOrSent(t *testing.T) {
	o := newFileServer(t)
	o.shares = newShares(fewPlaces)
	content := strings.Repeat("x", 100_000)
	body := &checkedContent{t: t, shares: o.shares.requests, from: strings.NewReader(content)}
	r := request(http.MethodPost, "/files?path=a", body, "Content-Type: application/octet-stream")
	r.ContentLength = int64(len(content))
	made := read[record](t, send(o, r), http.StatusCreated)
	if body.calls < 20 {
		t.Errorf("the content was read in %d parts", body.calls)
	}
	began := read[resumable](t, send(o, request(http.MethodPost, "/resumable-uploads?path=b&checksum="+checksum(content), nil, "Upload-Complete: ?0", "Upload-Length: 100000")), http.StatusCreated)
	for range 2 { // the second repeats the first
		body.calls, body.from = 0, strings.NewReader(content)
		r := request(http.MethodPatch, "/resumable-uploads/"+began.ID, body, "Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0")
		r.ContentLength = int64(len(content))
		if read[record](t, send(o, r), http.StatusCreated); body.calls < 20 {
			t.Errorf("the content was read in %d parts", body.calls)
		}
	}
	for _, target := range []string{"/files/" + made.ID, "/files/" + made.ID + "?raw=1", "/files", "/manifest"} {
		w := &checkedContent{ResponseRecorder: httptest.NewRecorder(), t: t, shares: o.shares.requests}
		if o.ServeHTTP(w, request(http.MethodGet, target, nil)); w.Code != http.StatusOK || w.calls == 0 {
			t.Errorf("%s: %d %.100s", target, w.Code, w.Body)
		}
	}
	w := &checkedContent{ResponseRecorder: httptest.NewRecorder(), t: t, shares: o.shares.requests}
	if o.ServeHTTP(w, readFilesRequest([]string{made.ID, made.ID})); w.Code != http.StatusOK || w.calls == 0 {
		t.Errorf("many files: %d %.100s", w.Code, w.Body)
	}
	must.Is(t, (limit.SharesFigures{}), o.shares.requests.Figures())
}

func TestAPlaceIsTakenAfterTheClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := limit.NewShares("requests", 1, 1, 1)
		other := must.Do(work.Enter(t.Context(), "other")).Or(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := &call{r: get("/test").WithContext(ctx), route: &endpoint{databaseShares: work}}
		enter, entered := c.yield(), make(chan error, 1)
		go func() { entered <- enter() }()
		synctest.Wait()
		other.Leave()
		if err := <-entered; err != nil || !c.databasePlace.Held() {
			t.Errorf("%v", err)
		}
		c.releasePlace()
	})
}

func TestSharesOfEndpoints(t *testing.T) {
	a := built(t, withShares)
	s := a.shares
	for name, want := range map[string][2]*limit.Shares{
		"GET /tasks":                                {nil, s.requests},
		"PUT /sync/memory/{scope}":                  {nil, s.requests},
		"DELETE /sync/files/{id}":                   {nil, s.requests},
		"GET /sync/files":                           {nil, s.requests},
		"POST /sync/files":                          {s.transfers, s.requests},
		"GET /sync/files/{id}":                      {s.transfers, s.requests},
		"PUT /sync/files/{id}":                      {s.transfers, s.requests},
		"PATCH /sync/files/{id}":                    {nil, s.requests},
		"GET /sync/changes":                         {s.streams, s.requests},
		"POST /chat":                                {s.calls, s.requests},
		"POST /sync/batch":                          {s.transfers, s.requests},
		"POST /sync/batch/read":                     {s.transfers, s.requests},
		"GET /sync/limits":                          {nil, s.requests},
		"POST /sync/uploads":                        {nil, s.requests},
		"POST /sync/uploads/{id}/complete":          {s.transfers, s.requests},
		"DELETE /sync/uploads/{id}":                 {nil, s.requests},
		"GET /billing/status":                       {nil, s.requests},
		"GET /billing/plans":                        {nil, s.requests},
		"GET /billing/subscription":                 {nil, s.requests},
		"POST /billing/trial":                       {nil, s.requests},
		"POST /billing/checkout":                    {nil, s.calls},
		"POST /billing/portal":                      {nil, s.calls},
		"POST /billing/downgrade":                   {nil, s.calls},
		"GET /billing/checkout/success":             {nil, nil},
		"GET /connectors":                           {nil, s.requests},
		"POST /connectors":                          {nil, s.requests},
		"DELETE /connectors/{instanceId}":           {nil, s.requests},
		"GET /connectors/{instanceId}/credentials":  {nil, s.calls},
		"POST /connectors/{instanceId}/credentials": {nil, s.requests},
		"GET /mcp-oauth/poll":                       {nil, s.requests},
		"POST /mcp-oauth/start":                     {nil, s.calls},
		"POST /auth/exchange-token":                 {nil, nil},
		"POST /auth/webhook":                        {nil, nil},
		"GET /updates/check":                        {nil, nil},
	} {
		found := false
		for _, r := range a.routes() {
			if r.Method+" "+strings.TrimPrefix(r.Path, prefix) == name {
				found = true
				if whole, work := s.of(r); whole != want[0] || work != want[1] {
					t.Errorf("%s takes places of %v and %v", name, whole, work)
				}
			}
		}
		if !found {
			t.Errorf("there is no %s", name)
		}
	}
}
