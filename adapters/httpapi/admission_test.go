package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/access"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/session"
	"collab/ports"
	"collab/test/must"
)

// fixedTokens returns the same claims for every token.
type fixedTokens struct {
	ports.ServiceTokens
	session.Claims
}

func (fixedTokens) IssuedHere(string) bool                { return true }
func (t fixedTokens) Read(string) (session.Claims, error) { return t.Claims, nil }

// markCounter counts the calls of Marks.
type markCounter struct {
	*memory.Store
	n      int
	cached *org.Mark // of every organisation; nil: none is cached
}

func (m *markCounter) Cached(id.Org) (org.Mark, bool) {
	if m.cached == nil {
		return org.Mark{}, false
	}
	return *m.cached, true
}

func (m *markCounter) Marks(ctx context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	m.n++
	if err := ctx.Err(); err != nil {
		return nil, err // like Postgres
	}
	return m.Store.Marks(ctx, orgs)
}

// memberServer is an interface whose chat has its path and guard, with a member, who begins as OWNER.
type memberServer struct {
	*chatServer
	marks *markCounter
	day   calendar.Day // of its beginning
}

func newMemberServer(t *testing.T, rates limit.Rates) *memberServer {
	t.Helper()
	response := func(_ context.Context, to ports.Sink) (chat.Reply, error) { return whole, to.Chunk(says("Hello")) }
	w := &memberServer{chatServer: newChatServer(t, response, func(o *Options) { o.Rates = rates }), day: calendar.DayOf(time.Now())}
	w.marks = &markCounter{Store: w.store}
	w.Access = access.New(access.Options{
		Store: w.store, Epochs: w.marks, Clock: system.Clock{},
		Tokens: fixedTokens{Claims: session.Issue("t", someID, someID, org.Owner, time.Now())},
	})
	w.actorOf = w.Access.Authorize
	w.setRoutes(t, row{http.MethodPost, chatPath, writer, generation, w.startChat})
	addUser(t, w.store)
	w.restore()
	return w
}

// addUser adds the user someID.
func addUser(t testing.TB, store *memory.Store) {
	t.Helper()
	must.Do(store.Directory().Users().Upsert(t.Context(), org.User{ID: someID, ProviderID: "u"}, func(u org.User) (org.User, error) { return u, nil })).Or(t)
}

// put stores fn of the member's first membership, and raises the organisation's epoch.
func (w *memberServer) put(fn func(org.Membership) org.Membership) {
	w.Helper()
	inOrganisation(w, w.store, func(r ports.Records) error {
		m := org.NewMembership(someID, someID, "owner", time.Now(), org.RoleMapping{}, time.Now())
		return r.Directory().Members().Put(w.Context(), someID, fn(m))
	})
}

func (w *memberServer) restore() { w.put(func(m org.Membership) org.Membership { return m }) }

func (w *memberServer) remove() {
	w.put(func(m org.Membership) org.Membership { return m.Removed(time.Now()) })
}

func (w *memberServer) setRole(r org.Role) {
	w.put(func(m org.Membership) org.Membership { return m.WithRole(r) })
}

func (w *memberServer) chat(body string, headers ...string) *httptest.ResponseRecorder {
	return send(w, post(chatPath, body, append(headers, "Authorization: Bearer token")...))
}

// checkChats checks the number of chats, and that the account has only their tokens.
func (w *memberServer) checkChats(want int) {
	w.Helper()
	all := w.entries()
	a, err := w.store.Usage().Quotas().Account(w.Context(), someID, someID, w.day)
	if sum := int64(want) * whole.Usage.Total(); len(all) != want || err != nil || a != (quota.Account{Used: sum}) {
		w.Errorf("%d chats, the account is %+v, %v; want %d chats", len(all), a, err, want)
	}
}

// TestRightsOfACachedActorAreNotReadAfterItsBodyTimedOut stalls a body until its deadline, which cancels the context.
func TestRightsOfACachedActorAreNotReadAfterItsBodyTimedOut(t *testing.T) {
	w := newMemberServer(t, limit.Rates{})
	w.chat(`{"message":"hello"}`) // which caches the actor
	late(&w.Options)
	read := w.marks.n
	stalled := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token\r\n" +
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	response := roundTrip(t, w.api, stalled)
	if !strings.Contains(response, "The body did not come within 30 seconds") || w.marks.n != read {
		t.Errorf("the response is %q after %d reads", response, w.marks.n-read)
	}
}

func TestChatOfCachedActorIsDecidedByCurrentRecords(t *testing.T) {
	const invalid, notMember, noTokens, limited = `{"message":7}`, "The caller is not a member of the organisation", "The organisation's plan includes no tokens for the chat", "Too many requests"
	hourly := func(n int) limit.Rate { return limit.Rate{Count: n, Per: time.Hour} }
	for name, test := range map[string]struct {
		rates   limit.Rates
		first   plan.Plan           // of the first chat; empty: PREMIUM
		change  func(*memberServer) // between the two chats; nil: none
		body    string              // of the second chat; empty: hello
		status  int                 // of the second chat
		message string              // of its error
		marks   int                 // the calls of Marks for it
		limit   string              // its header RateLimit-Limit
	}{
		"no change":                          {status: 200},
		"new epoch":                          {change: (*memberServer).restore, status: 200, marks: 1},
		"removed":                            {change: (*memberServer).remove, status: 403, message: notMember, marks: 1},
		"removed, invalid body":              {change: (*memberServer).remove, body: invalid, status: 403, message: notMember, marks: 1},
		"invalid body":                       {body: invalid, status: 400, message: "message must be a string", marks: 1},
		"expired token":                      {change: func(*memberServer) { time.Sleep(session.Lifetime) }, status: 401, message: "The token is invalid or expired"},
		"VIEWER":                             {change: func(w *memberServer) { w.setRole(org.Viewer) }, status: 403, message: "A VIEWER has read-only access", marks: 1},
		"plan changed to one without tokens": {change: func(w *memberServer) { w.subscribe(plan.None) }, status: 403, message: noTokens, marks: 1},
		"plan without tokens":                {first: plan.None, status: 403, message: noTokens, marks: 1},
		"plan changed to one with tokens":    {first: plan.None, change: func(w *memberServer) { w.subscribe(plan.Free) }, status: 200, marks: 1},
		"chat rate":                          {rates: limit.Rates{Caller: hourly(100), Chat: hourly(1)}, status: 429, message: limited, marks: 1, limit: "1"},
		"caller rate":                        {rates: limit.Rates{Caller: hourly(1), Chat: hourly(100)}, status: 429, message: limited, marks: 1, limit: "1"},
		"removed, chat rate":                 {rates: limit.Rates{Caller: hourly(100), Chat: hourly(1)}, change: (*memberServer).remove, status: 403, message: notMember, marks: 1},
		"removed, address rate":              {rates: limit.Rates{Caller: hourly(100), Address: hourly(50)}, change: (*memberServer).remove, status: 403, message: notMember, marks: 1, limit: "50"},
		"charged once":                       {rates: limit.Rates{Caller: hourly(2), Chat: hourly(2)}, change: (*memberServer).restore, status: 200, marks: 1, limit: "2"},
	} {
		runSynctest(t, name, func(t *testing.T) {
			w := newMemberServer(t, test.rates)
			want := 1
			if test.first != "" {
				w.subscribe(test.first)
				want = 0
			}
			if first := w.chat(hello); (first.Code == 200) != (want == 1) {
				t.Fatalf("the first chat: %d %s", first.Code, first.Body)
			}
			if test.change != nil {
				test.change(w)
			}
			before := w.marks.n
			got := w.chat(cmp.Or(test.body, hello))
			must.Is(t, test.marks, w.marks.n-before)
			must.Is(t, test.limit, got.Header().Get("RateLimit-Limit"))
			if test.status == 200 {
				want++
				if got.Code != 200 || got.Body.String() != textEvent("Hello")+doneEvent {
					t.Errorf("got %d %s", got.Code, got.Body)
				}
			} else {
				must.Is(t, test.message, checkError(t, got, test.status).Message)
			}
			w.checkChats(want)
		})
	}
}

func TestRefusedCallerIsAuthorizedBeforeRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 100, Per: time.Hour}})
		w.chat(hello)
		w.remove()
		for range 3 {
			checkError(t, w.chat(hello), http.StatusForbidden)
		}
		w.restore()
		if got := w.chat(hello); got.Code != 200 || got.Header().Get("RateLimit-Remaining") != "97" { // the first two and this one are charged
			t.Errorf("got %d %s, %s remain", got.Code, got.Body, got.Header().Get("RateLimit-Remaining"))
		}
		w.checkChats(2)
	})
}

func TestReplayNeedsCurrentRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberServer(t, limit.Rates{})
		for range 2 {
			if got := w.chat(hello, keyHeader); got.Code != 200 || got.Body.String() != textEvent("Hello")+doneEvent {
				t.Errorf("got %d %s", got.Code, got.Body)
			}
		}
		w.checkChats(1)
		w.remove()
		checkError(t, w.chat(hello, keyHeader), http.StatusForbidden)
		must.Is(t, 3, w.marks.n)
		w.checkChats(1)
	})
}
