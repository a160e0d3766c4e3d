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

// serveMember returns an interface with one endpoint, at /test, for a member.
func serveMember(t *testing.T, g guard, handle func(*api) handler) *memberServer {
	t.Helper()
	w := newMemberServer(t, limit.Rates{})
	w.setRoutes(t, row{http.MethodPost, "/test", g, none, handle(w.api)})
	return w
}

// request sends a request by the member. It calls atEOF, unless that is nil, when the whole body is read.
func (w *memberServer) request(body string, atEOF func(), headers ...string) *httptest.ResponseRecorder {
	r := post("/test", "", append(headers, "Authorization: Bearer token")...)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), readFunc(func([]byte) (int, error) {
		if atEOF != nil {
			atEOF()
		}
		return 0, io.EOF
	})))
	r.ContentLength = int64(len(body))
	return send(w, r)
}

func TestRightsAreReadAfterTheBody(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *memberServer)
		body   string
		status int
	}{
		"no change":             {func(*memberServer) {}, `{}`, 200},
		"new epoch":             {(*memberServer).restore, `{}`, 200},
		"removed":               {(*memberServer).remove, `{}`, 403},
		"demoted":               {func(w *memberServer) { w.setRole(org.Member) }, `{}`, 403},
		"expired token":         {func(*memberServer) { time.Sleep(time.Second) }, `{}`, 401},
		"removed, invalid body": {(*memberServer).remove, `{`, 403},
		"invalid body":          {func(*memberServer) {}, `{`, 400},
	} {
		for _, headers := range [][]string{nil, {keyHeader}} {
			runSynctest(t, name+" "+strings.Join(headers, ""), func(t *testing.T) {
				acts := 0
				w := serveMember(t, owner, func(a *api) handler {
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
				w.request(`{}`, nil)
				acts = 0
				if got := w.request(test.body, func() { test.change(w) }, headers...); got.Code != test.status || (acts == 1) != (test.status == 200) {
					t.Errorf("%d %s after %d acts", got.Code, got.Body, acts)
				}
				if test.status == 403 && headers != nil {
					w.restore()
					if got := w.request(`{}`, nil, headers...); got.Code != 200 || got.Header().Get("Idempotent-Replayed") != "" {
						t.Errorf("the refusal was stored: %d %s %v", got.Code, got.Body, got.Header())
					}
				}
				if test.status == 200 && headers != nil {
					w.remove()
					checkError(t, w.request(test.body, nil, headers...), http.StatusForbidden)
					w.restore()
					if got := w.request(test.body, nil, headers...); got.Header().Get("Idempotent-Replayed") != "true" || acts != 1 {
						t.Errorf("not replayed: %d %s after %d acts", got.Code, got.Body, acts)
					}
				}
			})
		}
	}
}

func TestQueuedListIsAuthorizedAtItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan struct{})
		w := serveMember(t, member, func(a *api) handler {
			return func(c *call) error {
				return list(a, c, body.Query{}, body.Page{}, func(int) body.Position { return body.Position{} }, func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil },
					func(_ org.Actor, each func(int) error) error {
						<-more
						return each(1)
					})
			}
		})
		responses := make(chan *httptest.ResponseRecorder, maxLists+1)
		for range maxLists + 1 {
			go func() { responses <- w.request(`{}`, nil) }()
			synctest.Wait()
		}
		w.remove()
		// The queued list is answered at any time after the first has ended.
		for range maxLists {
			more <- struct{}{}
		}
		complete := 0
		for range maxLists + 1 {
			if got := <-responses; got.Code == http.StatusOK {
				complete++
			} else {
				checkError(t, got, http.StatusForbidden)
			}
		}
		must.Is(t, maxLists, complete)
	})
}

func TestReadingBodyAfterAuthorizePanics(t *testing.T) {
	a := serveEndpoint(t, http.MethodPost, public, nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c := &call{r: post("/test", `{}`), w: httptest.NewRecorder(), route: &endpoint{}}
	must.Do(a.authorize(c)).Or(t)
	_, _ = c.read(body.MaxJSON)
}
