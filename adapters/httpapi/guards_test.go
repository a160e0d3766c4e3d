package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/domain/org"
	"collab/domain/session"
	"collab/test/must"
)

// serveRow is an interface with a row of a test's own, for a member who is remembered.
func serveRow(t *testing.T, method string, g guard, handle func(*api) handler) *memberServer {
	t.Helper()
	w := newMemberServer(t, limit.Rates{})
	router := must.Do(w.router([]row{{method, "/test", g, handle(w.api)}})).Or(t)
	w.inner = router
	return w
}

// request sends a request whose body ends with a call of meanwhile.
func (w *memberServer) request(body string, meanwhile func(), change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := post("/test", "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), endOfBody(meanwhile)))
	r.ContentLength = int64(len(body))
	r.Header.Set("Authorization", "Bearer token")
	for _, fn := range change {
		fn(r)
	}
	return send(w, r)
}

// endOfBody is the end of a body that does something when it is read.
type endOfBody func()

func (r endOfBody) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}

func TestRightsAreReadAfterTheBody(t *testing.T) {
	for about, c := range map[string]struct {
		change func(w *memberServer)
		body   string
		status int
		acted  bool
	}{
		"nothing has changed": {func(*memberServer) {}, `{}`, 200, true},
		"others have come":    {func(w *memberServer) { w.change(func(m org.Membership) org.Membership { return m }) }, `{}`, 200, true},
		"they were removed":   {(*memberServer).remove, `{}`, 403, false},
		"they were demoted": {func(w *memberServer) {
			w.change(func(m org.Membership) org.Membership { return m.WithRole(org.Member) })
		}, `{}`, 403, false},
		"the token has expired":       {func(*memberServer) { time.Sleep(time.Second) }, `{}`, 401, false},
		"they were removed, bad body": {(*memberServer).remove, `{`, 403, false},
		"a bad body":                  {func(*memberServer) {}, `{`, 400, false},
	} {
		for _, keyed := range []bool{false, true} {
			t.Run(about, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					acts := 0
					w := serveRow(t, http.MethodPost, owner, func(a *api) handler {
						return func(c *call) error {
							if _, err := c.fields(); err != nil {
								return err
							}
							actor, err := a.authorize(c)
							if err != nil {
								return err
							}
							if actor.Role != org.Owner || actor.User != someID || access.Origin(c.r.Context()).Address == "" {
								t.Errorf("the actor is %+v", actor)
							}
							acts++
							return c.succeed()
						}
					})
					time.Sleep(session.Lifetime - time.Second)
					w.request(`{}`, func() {})
					acts = 0
					key := key("k")
					if !keyed {
						key = func(*http.Request) {}
					}
					if got := w.request(c.body, func() { c.change(w) }, key); got.Code != c.status || (acts == 1) != c.acted {
						t.Errorf("%d %s, it acted %d times", got.Code, got.Body, acts)
					}
					if c.acted && keyed {
						w.remove()
						refused(t, w.request(c.body, func() {}, key), http.StatusForbidden)
						w.change(func(m org.Membership) org.Membership { return m })
						if got := w.request(c.body, func() {}, key); got.Header().Get("Idempotent-Replayed") != "true" || acts != 1 {
							t.Errorf("the first answer is not there again: %d %s, it acted %d times", got.Code, got.Body, acts)
						}
					}
				})
			})
		}
	}
}

func TestForbiddenIsNotStoredForTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveRow(t, http.MethodPost, writer, func(a *api) handler {
			return a.authorized(func(c *call, _ org.Actor) error { return c.succeed() })
		})
		w.request(`{}`, func() {})
		refused(t, w.request(`{}`, w.remove, key("k")), http.StatusForbidden)
		w.change(func(m org.Membership) org.Membership { return m })
		if got := w.request(`{}`, func() {}, key("k")); got.Code != 200 || got.Header().Get("Idempotent-Replayed") != "" {
			t.Errorf("%d %s %v", got.Code, got.Body, got.Header())
		}
	})
}

func TestQueuedListIsAuthorizedAtItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan struct{})
		w := serveRow(t, http.MethodPost, member, func(a *api) handler {
			return func(c *call) error {
				return list(a, c, body.Query{}, body.Page{}, func(int) body.Position { return body.Position{} }, func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil },
					func(_ org.Actor, each func(int) error) error {
						<-more
						return each(1)
					})
			}
		})
		answers := make(chan *httptest.ResponseRecorder, maxLists+1)
		for range maxLists + 1 {
			go func() { answers <- w.request(`{}`, func() {}) }()
			synctest.Wait()
		}
		w.remove()
		// The list that waited is answered at any time after the first has ended.
		for range maxLists {
			more <- struct{}{}
		}
		begun := 0
		for range maxLists + 1 {
			if got := <-answers; got.Code == http.StatusOK {
				begun++
			} else {
				refused(t, got, http.StatusForbidden)
			}
		}
		if begun != maxLists {
			t.Errorf("%d lists were sent, %d had begun", begun, maxLists)
		}
	})
}

func TestReadingBodyAfterAuthorizePanics(t *testing.T) {
	a := serving(t, http.MethodPost, public, nil)
	defer func() {
		if recover() == nil {
			t.Error("it goes unnoticed")
		}
	}()
	c := &call{r: post("/test", `{}`), w: httptest.NewRecorder(), route: &endpoint{}}
	must.Do(a.authorize(c)).Or(t)
	_, _ = c.read(body.MaxJSON)
}
