package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/spool"
	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/objects"
	"collab/app/webhooks"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/release"
	"collab/domain/task"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// sendStalled sends requests with stalled bodies, of which size bytes arrive, one after the other until one is
// answered. It returns that response and the number of requests that wait for the rest of their body. The bodies end
// with the test.
func sendStalled(t *testing.T, h http.Handler, most, size int, request func(io.Reader) *http.Request) (*httptest.ResponseRecorder, int) {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for waiting := range most {
		stalled, answered := make(chan struct{}), make(chan struct{})
		rest := readFunc(func([]byte) (int, error) {
			close(stalled)
			<-end
			return 0, io.EOF
		})
		w := httptest.NewRecorder()
		go func() {
			defer close(answered)
			h.ServeHTTP(w, request(io.MultiReader(strings.NewReader(strings.Repeat(" ", size)), rest)))
		}()
		select {
		case <-stalled:
		case <-answered:
			return w, waiting
		}
	}
	t.Fatalf("%d requests wait and none was refused", most)
	return nil, 0
}

// checkBusy checks that a response is 503 with a Retry-After of a second.
func checkBusy(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	checkError(t, w, http.StatusServiceUnavailable)
	must.Is(t, "1", w.Header().Get("Retry-After"))
}

func TestAnonymousBodiesShareABudget(t *testing.T) {
	for _, g := range []guard{public, browser, webhook} {
		t.Run(string(g), func(t *testing.T) {
			var a *api
			var waiting int
			done := make(chan struct{}, 100)
			t.Run("stalled bodies", func(t *testing.T) {
				a = serveEndpoint(t, http.MethodPost, g, func(c *call) error {
					defer func() { done <- struct{}{} }()
					return must.ErrorOf(c.read(body.MaxJSON))
				}, func(o *Options) { o.Budgets.Anonymous = 4 << 20 })
				from := func(address string) func(io.Reader) *http.Request {
					return func(body io.Reader) *http.Request {
						r := httptest.NewRequest(http.MethodPost, "/test", body)
						r.RemoteAddr = address
						return r
					}
				}
				var w *httptest.ResponseRecorder
				w, waiting = sendStalled(t, a, 10, 500<<10, from("192.0.2.1:1"))
				checkBusy(t, w)
				must.Is(t, "close", w.Header().Get("Connection"))
				if used := a.budgets.anonymous.Used(); waiting < 2 || used > 2<<20 {
					t.Errorf("%d requests of one address wait with %d bytes", waiting, used)
				}
				<-done
				must.Is(t, http.StatusOK, send(a, from("192.0.2.2:1")(strings.NewReader("x"))).Code)
				<-done
			})
			for range waiting {
				<-done
			}
		})
	}
}

func TestCallersBodiesLeaveBudgetForOthers(t *testing.T) {
	a := serveEndpoint(t, http.MethodPost, unlimited, func(c *call) error {
		c.caller = access.Caller{User: id.User(c.r.Header.Get("X-User"))}
		return must.ErrorOf(c.read(body.MaxJSON))
	}, func(o *Options) { o.Budgets.Callers = 16 << 20 })
	w, waiting := sendStalled(t, a, 30, 1<<20, func(body io.Reader) *http.Request {
		return newRequest(http.MethodPost, "/test", body, "X-User: ada")
	})
	checkError(t, w, http.StatusServiceUnavailable)
	if waiting < 6 || waiting > 8 {
		t.Errorf("%d bodies of one caller are in memory", waiting)
	}
	must.Is(t, http.StatusOK, send(a, post("/test", strings.Repeat(" ", 1<<20), "X-User: bob")).Code)
}

// largeBlobs takes a MiB of memory for each Put.
type largeBlobs struct{ ports.Blobs }

func (largeBlobs) PutMemory(int64) int64 { return 1 << 20 }

func TestMemoryOfTheStoreIsChargedToTheCaller(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, o *fileServer) func(io.Reader) *http.Request{
		"for a new file": func(*testing.T, *fileServer) func(io.Reader) *http.Request {
			return func(body io.Reader) *http.Request { return syncRequest("POST", "/files?path=new", body) }
		},
		"for the next content of a file": func(t *testing.T, o *fileServer) func(io.Reader) *http.Request {
			path := "/files/" + o.store(t, "x", "text").ID
			return func(body io.Reader) *http.Request { return syncRequest("PUT", path, body) }
		},
		"for a resumable upload": func(t *testing.T, o *fileServer) func(io.Reader) *http.Request {
			created := send(o, syncRequest("POST", "/resumable-uploads?path=x", nil, "Upload-Complete: ?0", "Upload-Length: 5000"))
			path := "/resumable-uploads/" + read[resumable](t, created, http.StatusCreated).ID
			return func(body io.Reader) *http.Request {
				return syncRequest("PATCH", path, body, "Content-Type: application/partial-upload", "Upload-Complete: ?0", "Upload-Offset: 0")
			}
		},
		"for a resumable upload with its content": func(*testing.T, *fileServer) func(io.Reader) *http.Request {
			return func(body io.Reader) *http.Request {
				return syncRequest("POST", "/resumable-uploads?path=x", body, "Upload-Complete: ?0", "Upload-Length: 5000")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFileServer(t, func(s *objects.Options) { s.Blobs = largeBlobs{s.Blobs} })
			request := prepare(t, o)
			must.Is(t, 0, o.budgets.callers.Used())
			o.budgets.callers = limit.NewBudget(5 << 20)
			w, waiting := sendStalled(t, o, 9, 100, request)
			checkBusy(t, w)
			must.Is(t, 2, waiting)
			checkBusy(t, o.put("/memory/org", "text/plain", "memory"))
			r := syncRequest("PUT", "/memory/org", strings.NewReader("memory"), "Content-Type: text/plain", "X-Actor: eve")
			must.Is(t, http.StatusOK, send(o, r).Code)
		})
	}
}

func TestPartsOfABodyAreChargedToTheCaller(t *testing.T) {
	for name, test := range map[string]struct {
		few, most  int64 // few are charged for nothing
		bytes      int64 // of one
		begin, end string
		part       func(i int64) string
	}{
		"names":    {999, 50_000, 128, "{", "}", func(i int64) string { return fmt.Sprintf(`"%x":0`, i) }},
		"elements": {1990, 100_000, 64, `{"a":[`, "]}", func(int64) string { return "0" }},
	} {
		t.Run(name, func(t *testing.T) {
			parsed := 0
			a := serveEndpoint(t, http.MethodPost, public, func(c *call) error {
				c.caller = access.Caller{User: "ada"}
				_, err := c.fields()
				if err == nil {
					parsed++
					must.Is(t, parsed > 1, c.budgets.callers.Used() > test.most*test.bytes)
				}
				return c.succeedUnless(err)
			}, func(o *Options) { o.Budgets.Callers = 16 << 20 })
			body := func(parts int64) *http.Request {
				all := make([]string, parts)
				for i := range all {
					all[i] = test.part(int64(i))
				}
				return post("/test", test.begin+strings.Join(all, ",")+test.end)
			}
			for _, parts := range []int64{test.few, test.most} {
				must.Is(t, http.StatusOK, send(a, body(parts)).Code)
			}
			a.budgets.callers.Take("bob", 4<<20)
			checkBusy(t, send(a, body(test.most)))
			a.budgets.callers.Give("bob", 4<<20)
			must.Is(t, 2, parsed)
			must.Is(t, 0, a.budgets.callers.Used())
		})
	}
}

func TestChatsAreChargedForTheRequestOfTheProvider(t *testing.T) {
	body := `{"message":"` + strings.Repeat("x", 200<<10) + `"}`
	var w *chatServer
	var used int64
	w = newChatServer(t, func(context.Context, ports.Sink) (chat.Reply, error) {
		used = w.budgets.callers.Used()
		return whole, nil
	})
	if got := send(w, post("/test", body)); got.Code != http.StatusOK || used < int64(2*len(body)) {
		t.Errorf("%d %s is charged with %d bytes", got.Code, got.Body, used)
	}
	w.budgets.callers = limit.NewBudget(2*used - 2)
	checkBusy(t, send(w, post("/test", body)))
	must.Is(t, 1, len(w.entries()))
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
		"valid signature":   {nil, 30},
		"invalid signature": {fault.New(fault.Unauthenticated, "Bad signature"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			var a *api
			a = serveEndpoint(t, http.MethodPost, webhook, func(c *call) error {
				return a.receiveMessage(c, func(context.Context, func(string) string, []byte, webhooks.Admit) error { return test.err }, refusedCredentials...)
			}, limits)
			for i := range test.allowed {
				if w := send(a, post("/test", "{}")); w.Code == http.StatusTooManyRequests {
					t.Fatalf("message %d is refused", i+1)
				}
			}
			w := send(a, httptest.NewRequest(http.MethodPost, "/test", readFunc(func([]byte) (int, error) {
				t.Error("the body was read")
				return 0, io.EOF
			})))
			checkError(t, w, http.StatusTooManyRequests)
			if w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close" {
				t.Errorf("headers %v", w.Header())
			}
			other := post("/test", "{}")
			other.RemoteAddr = "192.0.2.77:1"
			if w := send(a, other); w.Code == http.StatusTooManyRequests {
				t.Error("another address is refused")
			}
		})
	}
}

func TestMountedHandlersAreChargedAsWebhooks(t *testing.T) {
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	a := newAPI(t, func(o *Options) {
		o.Now, o.Rates, o.Budgets.Anonymous = manual.Now, limit.Rates{Webhook: limit.Rate{Count: 2, Per: time.Minute}}, 4<<20
		o.Mounts = map[string]http.Handler{"/dev/x": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		})}
	})
	body := strings.Repeat("x", 1<<20)
	w := send(a, post("/dev/x/y", body))
	if w.Code != http.StatusOK || w.Body.String() != body {
		t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
	}
	a.budgets.anonymous.Take("other", 2<<20)
	checkBusy(t, send(a, post("/dev/x/y", body)))
	a.budgets.anonymous.Give("other", 2<<20)
	checkError(t, send(a, post("/dev/x/y", "")), http.StatusTooManyRequests)
	must.Is(t, 0, a.budgets.anonymous.Used())
}

func TestDownloadsAreChargedToTheCaller(t *testing.T) {
	o := newFileServer(t)
	content := strings.Repeat("x", 2*spool.BlockSize)
	path := "/files/" + o.store(t, "x", content).ID
	o.budgets.callers = limit.NewBudget(3 * spool.BlockSize)
	if w := o.get(path + "?raw=1"); w.Code != http.StatusOK || w.Body.String() != content {
		t.Errorf("a download that needs a block: %d", w.Code)
	}
	checkBusy(t, o.get(path))
	must.Is(t, 0, o.budgets.callers.Used())
}

func TestLargeRecordsAreChargedToTheCaller(t *testing.T) {
	for name, reply := range map[string]func(c *call, text string) error{
		"record":            func(c *call, text string) error { return c.reply(http.StatusOK, text) },
		"record with a tag": func(c *call, text string) error { return c.replyTask(http.StatusOK)(task.Task{Title: text}, nil) },
	} {
		runSynctest(t, name, func(t *testing.T) {
			a := serveEndpoint(t, http.MethodGet, public, func(c *call) error {
				c.caller = access.Caller{User: "ada"}
				return reply(c, strings.Repeat("x", int(c.r.ContentLength)))
			}, func(o *Options) { o.Budgets.Callers = 1 << 20 })
			resume := make(chan struct{})
			request := func(size int64) *http.Request {
				r := get("/test")
				r.ContentLength = size
				return r
			}
			block := func(size int64) {
				go a.ServeHTTP(blockedWriter{httptest.NewRecorder(), resume, nil}, request(size))
				synctest.Wait()
			}
			block(30 << 10)
			must.Is(t, 0, a.budgets.callers.Used()) // a small record
			block(300 << 10)
			if used := a.budgets.callers.Used(); used < 300<<10 || used > 512<<10 {
				t.Errorf("a record of 300 KiB is charged with %d bytes", used)
			}
			checkBusy(t, send(a, request(300<<10)))
			close(resume)
			synctest.Wait()
			must.Is(t, 0, a.budgets.callers.Used())
		})
	}
}

func TestAChangeIsNotMadeWithoutMemoryForItsRecord(t *testing.T) {
	core := must.Do(harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))).Or(t)
	ada := must.Do(core.Join(t.Context(), "org_acme", "user_ada", org.Owner)).Or(t)
	a := newAPI(t, func(o *Options) { o.Tasks = core.Tasks })
	a.setRoutes(t, row{http.MethodPost, "/tasks", public, none, a.as(&ada, a.createTask)}, row{http.MethodPatch, "/tasks/{id}", public, none, a.as(&ada, a.updateTask)})
	titles := func() (all []string) {
		must.NoError(t, core.Tasks.List(t.Context(), ada, task.Filter{}, func(v task.Task) error {
			all = append(all, v.Title)
			return nil
		}))
		return all
	}
	create := func(metadata int) *httptest.ResponseRecorder {
		body := fmt.Sprintf(`{"title":"old","description":"%s","metadata":{"x":"%s"}}`, strings.Repeat("d", 2000), strings.Repeat("x", metadata))
		return send(a, post("/tasks", body))
	}
	change := func(created *httptest.ResponseRecorder) *httptest.ResponseRecorder {
		var v struct{ ID string }
		must.NoError(t, json.Unmarshal(created.Body.Bytes(), &v))
		return send(a, newRequest(http.MethodPatch, "/tasks/"+v.ID, strings.NewReader(`{"title":"new"}`), "Content-Type: application/json"))
	}
	enough := a.budgets.callers
	for size, status := int64(240<<10), 0; status != http.StatusCreated; size += 4 << 10 { // the first is enough for the body
		must.Is(t, 0, len(titles()))
		a.budgets.callers = limit.NewBudget(size)
		status = create(65_000).Code
	}
	a.budgets.callers = enough
	small, large := create(0), create(60_000)
	if small.Code != http.StatusCreated || large.Code != http.StatusCreated {
		t.Fatal(small.Code, large.Code)
	}
	a.budgets.callers = limit.NewBudget(100 << 10)
	checkBusy(t, change(large))
	must.Equal(t, []string{"old", "old", "old"}, titles())
	must.Is(t, http.StatusOK, change(small).Code)
	must.Is(t, 0, a.budgets.callers.Used())
	a.budgets.callers = enough
	must.Is(t, http.StatusOK, change(large).Code)
	must.Is(t, 0, enough.Used())
}

func TestLargeResponsesAreChargedToTheAnonymousBudget(t *testing.T) {
	a := newAPI(t, func(o *Options) {
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
		checkBusy(t, w)
		if caching := w.Header().Get("Cache-Control"); strings.Contains(caching, "public") {
			t.Errorf("%s: Cache-Control of the error is %s", path, caching)
		}
	}
	a.budgets.anonymous = limit.NewBudget(requestMemory - 1)
	checkBusy(t, send(a, httptest.NewRequest(http.MethodPost, prefix+"/auth/refresh", http.NoBody)))
	checkError(t, send(a, get(CheckPath)), http.StatusBadRequest) // it is charged for large responses only
}

func TestConcurrentScrapesAreLimited(t *testing.T) {
	running, end := make(chan struct{}), make(chan struct{})
	a := newAPI(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			running <- struct{}{}
			<-end
			w.WriteHeader(http.StatusOK)
		})
	})
	codes := make(chan int)
	for range maxScrapes {
		go func() { codes <- send(a, get("/metrics")).Code }()
		<-running
	}
	checkBusy(t, send(a, get("/metrics")))
	close(end)
	for range maxScrapes {
		must.Is(t, http.StatusOK, <-codes)
	}
}

func TestSlowScrapesDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, func(o *Options) {
			o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(make([]byte, requestMemory+1))
			})
		})
		resume := make(chan struct{})
		for range maxScrapes {
			go a.ServeHTTP(blockedWriter{httptest.NewRecorder(), resume, nil}, get("/metrics"))
			synctest.Wait()
		}
		if w := send(a, get("/metrics")); w.Code != http.StatusOK || w.Body.Len() != requestMemory+1 {
			t.Errorf("another scrape: %d with %d bytes", w.Code, w.Body.Len())
		}
		must.Is(t, maxScrapes*(requestMemory+1), a.budgets.anonymous.Used())
		close(resume)
		synctest.Wait()
		a.budgets.anonymous = limit.NewBudget(requestMemory)
		w := send(a, get("/metrics"))
		checkError(t, w, http.StatusServiceUnavailable)
		must.Is(t, "", w.Header().Get("Content-Encoding"))
	})
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
