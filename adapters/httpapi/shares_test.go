package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/app/objects"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// fewPlaces are small limits. An organisation may have 2 concurrent requests if others have any.
var fewPlaces = limit.Concurrency{Requests: 128, Streams: 16, Transfers: 16, Calls: 16, Webhooks: 16}

// withShares sets the limits fewPlaces.
func withShares(o *Options) { o.Concurrency = fewPlaces }

func TestRequestsOfAnOrganisationWaitForItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		var a *api
		a = serveEndpoint(t, http.MethodGet, public, func(c *call) error {
			c.caller = access.Caller{User: "u", Org: id.Org(c.r.Header.Get("X-Org"))}
			c.route.databaseShares = a.shares.requests
			if _, err := a.authorize(c); err != nil {
				return err
			}
			<-proceed
			return c.succeed()
		}, withShares)
		begin := func(of string) <-chan *httptest.ResponseRecorder {
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() { done <- send(a, get("/test", "X-Org: "+of)) }()
			synctest.Wait()
			return done
		}
		quiet := begin("quiet")
		noisy := []<-chan *httptest.ResponseRecorder{begin("noisy"), begin("noisy"), begin("noisy")}
		if f := a.shares.requests.Stats(); f.Used != 3 || f.Waiting != 1 {
			t.Errorf("%+v", f)
		}
		checkBusy(t, <-noisy[2])
		next := begin("noisy")
		close(proceed)
		for _, done := range []<-chan *httptest.ResponseRecorder{noisy[0], noisy[1], quiet, next} {
			must.Is(t, http.StatusOK, (<-done).Code)
		}
		must.Is(t, (limit.SharesStats{Refusals: 1}), a.shares.requests.Stats())
	})
}

// permitChecker counts calls, and fails the test if a permit is held during one.
type permitChecker struct {
	t      *testing.T
	shares *limit.Shares
	calls  int
}

func (p *permitChecker) check() {
	p.calls++
	must.Is(p.t, 0, p.shares.Stats().Used)
}

// body returns a reader of the content that checks each read.
func (p *permitChecker) body(content string) io.Reader {
	r := strings.NewReader(content)
	return readFunc(func(b []byte) (int, error) {
		p.check()
		return r.Read(b[:min(len(b), 4096)])
	})
}

// serve serves a request, and checks each write of the response, of which there must be one.
func (p *permitChecker) serve(h http.Handler, r *http.Request) {
	p.t.Helper()
	w, before := httptest.NewRecorder(), p.calls
	h.ServeHTTP(funcWriter{w, func(b []byte) {
		p.check()
		_, _ = w.Write(b)
	}}, r)
	if w.Code != http.StatusOK || p.calls == before {
		p.t.Errorf("%s: %d %.100s", r.URL, w.Code, w.Body)
	}
}

// checkedBlobs checks each call.
type checkedBlobs struct {
	ports.Blobs
	ports.SignedBlobs
	permitChecker
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

func TestNoPermitIsHeldWhileTheStoreIsUsed(t *testing.T) {
	blobs := &checkedBlobs{permitChecker: permitChecker{t: t}}
	o := newFileServer(t, func(s *objects.Options) {
		blobs.Blobs, blobs.SignedBlobs = s.Blobs, s.Signed
		s.Blobs, s.Signed = blobs, blobs
	})
	o.shares = newShares(fewPlaces)
	blobs.shares = o.shares.requests
	started := o.sent(t, `"path": "a.md"`, "content")
	read[record](t, o.finish(started.ID), http.StatusCreated)
	must.Is(t, 2, blobs.calls)
	r := syncRequest(http.MethodPost, "/files?path=b.md", strings.NewReader("content"), "Content-Type: text/markdown", keyHeader)
	file := read[record](t, send(o, r), http.StatusCreated)
	must.Is(t, 3, blobs.calls)
	must.Is(t, http.StatusOK, send(o, readFilesRequest([]string{file.ID})).Code)
	must.Is(t, 4, blobs.calls)
	must.Is(t, (limit.SharesStats{}), o.shares.requests.Stats())
}

func TestNoPermitIsHeldWhileRecordedResponsesAreSent(t *testing.T) {
	for name, size := range map[string]int{"stored": 1000, "too long to be stored": 2 * maxStored} {
		t.Run(name, func(t *testing.T) {
			var a *api
			a, _ = serveKeyed(t, public, func(c *call) error {
				c.caller, c.route.databaseShares = access.Caller{User: "u", Org: "o"}, a.shares.requests
				if _, err := a.authorize(c); err != nil {
					return err
				}
				return must.ErrorOf(c.Write(make([]byte, size)))
			})
			a.shares = newShares(fewPlaces)
			permits := &permitChecker{t: t, shares: a.shares.requests}
			for range 2 {
				before := permits.calls
				a.ServeHTTP(funcWriter{httptest.NewRecorder(), func([]byte) { permits.check() }}, postWithKey("k"))
				if permits.calls == before {
					t.Error("no response was written")
				}
			}
		})
	}
}

func TestNoPermitIsHeldWhileAListWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *api
		a, _ = serveKeyed(t, public, func(c *call) error {
			c.caller, c.route.databaseShares = access.Caller{User: "u", Org: "o"}, a.shares.requests
			if err := c.acquirePermit(); err != nil { // as for the key of a caller
				return err
			}
			return list(a, c, body.Query{}, body.Page{}, nil, nil, func(org.Actor, func(int) error) error { return nil })
		})
		a.shares = newShares(fewPlaces)
		var others []func()
		for range maxLists {
			others = append(others, must.Do(a.lists.Acquire(t.Context(), "u")).Or(t))
		}
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- send(a, postWithKey("k")) }()
		synctest.Wait()
		must.Is(t, (limit.SharesStats{}), a.shares.requests.Stats())
		others[0]()
		must.Is(t, http.StatusOK, (<-done).Code)
	})
}

func TestNoPermitIsHeldWhileContentIsReadOrSent(t *testing.T) {
	o := newFileServer(t)
	o.shares = newShares(fewPlaces)
	content := strings.Repeat("x", 100_000)
	permits := &permitChecker{t: t, shares: o.shares.requests}
	upload := func(method, target string, headers ...string) record {
		permits.calls = 0
		r := syncRequest(method, target, permits.body(content), headers...)
		r.ContentLength = int64(len(content))
		stored := read[record](t, send(o, r), http.StatusCreated)
		if permits.calls < 20 {
			t.Errorf("the content was read in %d parts", permits.calls)
		}
		return stored
	}
	of := upload(http.MethodPost, "/files?path=a", "Content-Type: application/octet-stream").ID
	started := read[resumable](t, send(o, syncRequest(http.MethodPost, "/resumable-uploads?path=b&checksum="+harness.Checksum(content), nil, "Upload-Complete: ?0", "Upload-Length: 100000")), http.StatusCreated)
	for range 2 { // the second request repeats the first
		upload(http.MethodPatch, "/resumable-uploads/"+started.ID, "Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0")
	}
	for _, target := range []string{"/files/" + of, "/files/" + of + "?raw=1", "/files", "/manifest"} {
		permits.serve(o, syncRequest(http.MethodGet, target, nil))
	}
	permits.serve(o, readFilesRequest([]string{of, of}))
	must.Is(t, (limit.SharesStats{}), o.shares.requests.Stats())
}

func TestPermitIsAcquiredAfterTheClientDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := limit.NewShares("requests", 1, 1, 1)
		other := must.Do(work.Acquire(t.Context(), "other")).Or(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := &call{r: get("/test").WithContext(ctx), route: &endpoint{databaseShares: work}}
		enter, entered := c.yieldPermit(), make(chan error, 1)
		go func() { entered <- enter() }()
		synctest.Wait()
		other.Release()
		if err := <-entered; err != nil || !c.databasePermit.Held() {
			t.Errorf("%v", err)
		}
		c.releasePermit()
	})
}

func TestSharesOfWork(t *testing.T) {
	a := newAPI(t, withShares)
	s := a.shares
	for w, want := range map[work][2]*limit.Shares{
		none: {}, inMemory: {}, queries: {nil, s.requests}, streams: {s.streams, s.requests}, uploads: {s.transfers, s.requests},
		downloads: {s.transfers, s.requests}, generation: {s.calls, s.requests}, calls: {nil, s.calls},
	} {
		e := must.Do(a.router([]row{{http.MethodGet, "/test", member, w, a.me}})).Or(t).literal["/test"].methods[http.MethodGet]
		if e.requestShares != want[0] || e.databaseShares != want[1] {
			t.Errorf("%q acquires permits of %v and %v", w, e.requestShares, e.databaseShares)
		}
	}
}
