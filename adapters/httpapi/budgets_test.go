package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/spool"
	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/webhooks"
	"collab/domain/fault"
	"collab/domain/release"
	"collab/test/must"
)

// stalledBody is a body whose second half does not come before it is let.
type stalledBody struct {
	first io.Reader
	stuck chan struct{} // closed when the first half was read
	let   chan struct{}
}

func (b *stalledBody) Read(p []byte) (int, error) {
	n, err := b.first.Read(p)
	if err == io.EOF {
		close(b.stuck)
		<-b.let
	}
	return n, err
}

// holding sends requests with half a body each, one after the other, until one is
// answered, and returns that answer with the number of those that wait. All are
// let go when the test ends.
func holding(t *testing.T, h http.Handler, most, size int, request func(io.Reader) *http.Request) (*httptest.ResponseRecorder, int) {
	t.Helper()
	let := make(chan struct{})
	t.Cleanup(func() { close(let) })
	for waiting := range most {
		b := &stalledBody{bytes.NewReader(bytes.Repeat([]byte{' '}, size)), make(chan struct{}), let}
		answered := make(chan struct{})
		w := httptest.NewRecorder()
		go func() {
			defer close(answered)
			h.ServeHTTP(w, request(b))
		}()
		select {
		case <-b.stuck:
		case <-answered:
			return w, waiting
		}
	}
	t.Fatalf("%d requests wait and none was refused", most)
	return nil, 0
}

func TestAnonymousBodiesShareABudget(t *testing.T) {
	for _, g := range []guard{public, browser, webhook} {
		t.Run(string(g), func(t *testing.T) {
			var a *api
			var waiting int
			done := make(chan struct{}, 100)
			t.Run("while bodies are awaited", func(t *testing.T) {
				a = serving(t, http.MethodPost, g, func(c *call) error {
					defer func() { done <- struct{}{} }()
					_, err := c.read(body.MaxJSON)
					return err
				}, func(o *Options) { o.Budgets.Anonymous = 4 << 20 })
				from := func(address string) func(io.Reader) *http.Request {
					return func(body io.Reader) *http.Request {
						r := httptest.NewRequest(http.MethodPost, "/test", body)
						r.RemoteAddr = address
						return r
					}
				}
				var w *httptest.ResponseRecorder
				w, waiting = holding(t, a, 10, 500<<10, from("192.0.2.1:1"))
				refused(t, w, http.StatusServiceUnavailable)
				if w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
					t.Errorf("headers %v", w.Header())
				}
				if used := a.budgets.anonymous.Used(); waiting < 2 || used > 2<<20 {
					t.Errorf("%d of one address wait with %d bytes", waiting, used)
				}
				<-done
				if w := send(a, from("192.0.2.2:1")(strings.NewReader("x"))); w.Code != http.StatusOK {
					t.Errorf("another address meanwhile: %d", w.Code)
				}
				<-done
			})
			for range waiting {
				<-done
			}
		})
	}
}

func TestCallersBodiesLeaveBudgetForOthers(t *testing.T) {
	a := serving(t, http.MethodPost, unlimited, func(c *call) error {
		c.caller = access.Caller{User: "ada"}
		if c.r.Header.Get("User") != "" {
			c.caller.User = "bob"
		}
		_, err := c.read(body.MaxJSON)
		return err
	}, func(o *Options) { o.Budgets.Callers = 16 << 20 })
	w, waiting := holding(t, a, 30, 1<<20, func(body io.Reader) *http.Request {
		return httptest.NewRequest(http.MethodPost, "/test", body)
	})
	refused(t, w, http.StatusServiceUnavailable)
	if waiting < 6 || waiting > 8 {
		t.Errorf("%d bodies of one caller are in memory", waiting)
	}
	r := post("/test", strings.Repeat(" ", 1<<20))
	r.Header.Set("User", "bob")
	if w := send(a, r); w.Code != http.StatusOK {
		t.Errorf("another caller meanwhile: %d", w.Code)
	}
}

// unreadableBody is a body that must not be read.
type unreadableBody struct{ t *testing.T }

func (b unreadableBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

func TestWebhookRateIsTakenBeforeTheBodyIsRead(t *testing.T) {
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	limits := func(o *Options) {
		o.Now, o.Rates = manual.Now, limit.Rates{Webhook: limit.Rate{Count: 30, Per: time.Minute}}
	}
	for name, test := range map[string]struct {
		err     error
		allowed int
	}{
		"good ones":               {nil, 30},
		"those without signature": {fault.New(fault.Unauthenticated, "Bad signature"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			var a *api
			a = serving(t, http.MethodPost, webhook, func(c *call) error {
				return a.receiveMessage(c, func(context.Context, func(string) string, []byte, webhooks.Enter) error { return test.err }, refusedCredentials...)
			}, limits)
			for i := range test.allowed {
				if w := send(a, post("/test", "{}")); w.Code == http.StatusTooManyRequests {
					t.Fatalf("message %d is refused", i+1)
				}
			}
			w := send(a, httptest.NewRequest(http.MethodPost, "/test", unreadableBody{t}))
			refused(t, w, http.StatusTooManyRequests)
			if w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close" {
				t.Errorf("headers %v", w.Header())
			}
			other := post("/test", "{}")
			other.RemoteAddr = "192.0.2.77:1"
			if w := send(a, other); w.Code == http.StatusTooManyRequests {
				t.Error("another address is refused as well")
			}
		})
	}
}

func TestMountedHandlersAreChargedAsWebhooks(t *testing.T) {
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	a := built(t, func(o *Options) {
		o.Now, o.Rates, o.Budgets.Anonymous = manual.Now, limit.Rates{Webhook: limit.Rate{Count: 2, Per: time.Minute}}, 4<<20
		o.Mounts = map[string]http.Handler{"/dev/x": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		})}
	})
	body := strings.Repeat("x", 1<<20)
	w := send(a, post("/dev/x/y", body))
	if w.Code != http.StatusOK || w.Body.String() != body {
		t.Errorf("it is %d with %d bytes", w.Code, w.Body.Len())
	}
	a.budgets.anonymous.Take("somebody else", 2<<20)
	w = send(a, post("/dev/x/y", body))
	refused(t, w, http.StatusServiceUnavailable)
	must.Is(t, "1", w.Header().Get("Retry-After"))
	a.budgets.anonymous.Give("somebody else", 2<<20)
	refused(t, send(a, post("/dev/x/y", "")), http.StatusTooManyRequests)
	must.Is(t, 0, a.budgets.anonymous.Used())
}

func TestDownloadsAreChargedToTheCaller(t *testing.T) {
	o := newFileServer(t)
	content := strings.Repeat("x", 2*spool.BlockSize)
	path := "/files/" + o.store(t, "x", content).ID
	o.api.budgets.callers = limit.NewBudget(3 * spool.BlockSize)
	if w := o.get(path + "?raw=1"); w.Code != http.StatusOK || w.Body.String() != content {
		t.Errorf("one that needs a block is %d", w.Code)
	}
	w := o.get(path)
	refused(t, w, http.StatusServiceUnavailable)
	must.Is(t, "1", w.Header().Get("Retry-After"))
	must.Is(t, 0, o.api.budgets.callers.Used())
}

func TestLargeAnswersAreChargedToTheAnonymousBudget(t *testing.T) {
	a := built(t, func(o *Options) {
		o.Releases = newReleases(t, []release.Release{released(t, "2.0.0", "darwin/universal", noted(strings.Repeat("x", 60_000)))})
	})
	for _, path := range []string{feeds + "sparkle/appcast.xml?version=1.0.0", "/docs/" + a.reference.script, prefix + "/updates/check?version=1.0.0&platform=darwin&arch=universal"} {
		a.budgets.anonymous = limit.NewBudget(4 << 20)
		if w := send(a, get(path)); w.Code != http.StatusOK {
			t.Errorf("%s is %d %s", path, w.Code, w.Body)
		}
		if used := a.budgets.anonymous.Used(); used != 0 {
			t.Errorf("%s still holds %d bytes", path, used)
		}
		a.budgets.anonymous = limit.NewBudget(3 * requestMemory)
		w := send(a, get(path))
		refused(t, w, http.StatusServiceUnavailable)
		if w.Header().Get("Retry-After") != "1" || strings.Contains(w.Header().Get("Cache-Control"), "public") {
			t.Errorf("%s is refused with %v", path, w.Header())
		}
	}
}

func TestConcurrentScrapesAreLimited(t *testing.T) {
	within, goOn := make(chan struct{}), make(chan struct{})
	a := built(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			within <- struct{}{}
			<-goOn
			w.WriteHeader(http.StatusOK)
		})
	})
	codes := make(chan int)
	for range maxScrapes {
		go func() { codes <- send(a, get("/metrics")).Code }()
		<-within
	}
	w := send(a, get("/metrics"))
	refused(t, w, http.StatusServiceUnavailable)
	must.Is(t, "1", w.Header().Get("Retry-After"))
	close(goOn)
	for range maxScrapes {
		must.Is(t, http.StatusOK, <-codes)
	}
}

// blockedWriter is an answer that its client does not take until it goes on.
type blockedWriter struct {
	*httptest.ResponseRecorder
	writes chan struct{} // a value when the answer goes out
	goOn   chan struct{}
}

func (s blockedWriter) Write(b []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.goOn
	return s.ResponseRecorder.Write(b)
}

func TestSlowScrapesDoNotBlockOthers(t *testing.T) {
	a := built(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(make([]byte, requestMemory+1))
		})
	})
	writes, goOn := make(chan struct{}), make(chan struct{})
	var slow sync.WaitGroup
	for range maxScrapes {
		slow.Go(func() { a.ServeHTTP(blockedWriter{httptest.NewRecorder(), writes, goOn}, get("/metrics")) })
		<-writes
	}
	if w := send(a, get("/metrics")); w.Code != http.StatusOK || w.Body.Len() != requestMemory+1 {
		t.Errorf("another is answered %d with %d bytes", w.Code, w.Body.Len())
	}
	must.Is(t, maxScrapes*(requestMemory+1), a.budgets.anonymous.Used())
	close(goOn)
	slow.Wait()
	a.budgets.anonymous = limit.NewBudget(requestMemory)
	w := send(a, get("/metrics"))
	refused(t, w, http.StatusServiceUnavailable)
	must.Is(t, "", w.Header().Get("Content-Encoding"))
}

func TestCallReleasesItsBudgets(t *testing.T) {
	c := newCall(nil)
	if err := c.Hold(10); err != nil || !c.HoldDisk(20) || c.budgets.anonymous.Used() != 10 || c.budgets.spool.Used() != 20 {
		t.Fatal(err)
	}
	if c.releaseAll(); c.budgets.anonymous.Used() != 0 || c.budgets.spool.Used() != 0 {
		t.Errorf("%d and %d bytes are still held", c.budgets.anonymous.Used(), c.budgets.spool.Used())
	}
}
