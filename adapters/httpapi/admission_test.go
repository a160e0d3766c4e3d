package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/access"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/session"
	"collab/ports"
	"collab/test/must"
)

// fixedTokens reads every token as the same one.
type fixedTokens struct {
	ports.ServiceTokens
	session.Claims
}

func (fixedTokens) IssuedHere(string) bool                { return true }
func (t fixedTokens) Read(string) (session.Claims, error) { return t.Claims, nil }

// markCounter counts how often somebody asks for marks.
type markCounter struct {
	*memory.Store
	n      int
	cached *org.Mark // of every organisation; nil: none is cached
}

func (l *markCounter) Cached(id.Org) (org.Mark, bool) {
	if l.cached == nil {
		return org.Mark{}, false
	}
	return *l.cached, true
}

func (l *markCounter) Marks(ctx context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	l.n++
	return l.Store.Marks(ctx, orgs)
}

// memberServer is an interface whose chat is where it belongs, behind its guard, for a
// member with a token.
type memberServer struct {
	*chatServer
	looks *markCounter
	day   quota.Day // on which it began
}

func newMemberServer(t *testing.T, rates limit.Rates) *memberServer {
	t.Helper()
	answer := func(_ context.Context, to ports.Sink) (chat.Reply, error) { return whole, to.Chunk(says("Hello")) }
	w := &memberServer{chatServer: newChatServer(t, answer, func(o *Options) { o.Rates = rates }), day: quota.DayOf(time.Now())}
	w.looks = &markCounter{Store: w.store}
	w.Access = access.New(access.Options{
		Store: w.store, Epochs: w.looks, Clock: system.Clock{},
		Tokens: fixedTokens{Claims: session.Issue("t", someID, someID, org.Owner, time.Now())},
	})
	w.actorOf = w.Access.Authorize
	router, err := w.router([]row{{http.MethodPost, chatPath, writer, w.startChat}})
	must.NoError(t, err)
	w.inner = router
	_, err = w.store.Directory().Users().Upsert(w.Context(), org.User{ID: someID, ProviderID: "u"}, func(u org.User) (org.User, error) { return u, nil })
	must.NoError(t, err)
	w.change(func(m org.Membership) org.Membership { return m })
	return w
}

// change stores what fn makes of the membership that the member began with.
func (w *memberServer) change(fn func(org.Membership) org.Membership) {
	w.Helper()
	inOrganisation(w, w.store, func(r ports.Records) error {
		m := org.NewMembership(someID, someID, "owner", time.Now(), org.Naming{}, time.Now())
		return r.Directory().Members().Put(w.Context(), someID, fn(m))
	})
}

func (w *memberServer) remove() {
	w.change(func(m org.Membership) org.Membership { return m.Removed(time.Now()) })
}

func (w *memberServer) chat(body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := post(chatPath, body)
	r.Header.Set("Authorization", "Bearer token")
	for _, fn := range change {
		fn(r)
	}
	return send(w, r)
}

// chats checks how many chats there were, and that nothing is reserved for others.
func (w *memberServer) chats(want int) {
	w.Helper()
	all := w.entries()
	a, err := w.store.Usage().Quotas().Account(w.Context(), someID, someID, w.day)
	if sum := int64(want) * whole.Usage.Total(); len(all) != want || err != nil || a != (quota.Account{Used: sum}) {
		w.Errorf("there are %d chats, the account is %+v, %v; want %d chats", len(all), a, err, want)
	}
}

func TestChatOfCachedActorIsDecidedByCurrentRecords(t *testing.T) {
	const nonsense = `{"message":7}`
	for about, c := range map[string]struct {
		rates  limit.Rates
		first  plan.Plan // empty: PREMIUM
		change func(w *memberServer)
		body   string // empty: hello
		status int
		text   string // of the error
		looks  int    // for the second chat
		limits string // the header RateLimit-Limit of the answer
	}{
		"nothing has changed":              {status: 200},
		"the organisation's epoch changed": {change: func(w *memberServer) { w.change(func(m org.Membership) org.Membership { return m }) }, status: 200, looks: 1},
		"they were removed":                {change: (*memberServer).remove, status: 403, text: "The caller is not a member of the organisation", looks: 1},
		"they were removed, and ask wrong": {change: (*memberServer).remove, body: nonsense, status: 403, text: "The caller is not a member of the organisation", looks: 1},
		"they ask wrong":                   {body: nonsense, status: 400, text: "message must be a string", looks: 1},
		"the token has expired":            {change: func(*memberServer) { time.Sleep(session.Lifetime) }, status: 401, text: "The token is invalid or expired"},
		"they are VIEWER": {
			change: func(w *memberServer) {
				w.change(func(m org.Membership) org.Membership { return m.WithRole(org.Viewer) })
			},
			status: 403, text: "A VIEWER has read-only access", looks: 1,
		},
		"the plan has nothing":      {change: func(w *memberServer) { w.subscribe(plan.None) }, status: 403, text: "The organisation's plan includes no tokens for the chat", looks: 1},
		"the plan still has no use": {first: plan.None, status: 403, text: "The organisation's plan includes no tokens for the chat", looks: 1},
		"the plan has something":    {first: plan.None, change: func(w *memberServer) { w.subscribe(plan.Free) }, status: 200, looks: 1},
		"there were too many chats": {
			rates: limit.Rates{Caller: limit.Rate{Count: 100, Per: time.Hour}, Chat: limit.Rate{Count: 1, Per: time.Hour}}, status: 429, text: "Too many requests", looks: 1, limits: "1",
		},
		"there were too many requests": {
			rates: limit.Rates{Caller: limit.Rate{Count: 1, Per: time.Hour}, Chat: limit.Rate{Count: 100, Per: time.Hour}}, status: 429, text: "Too many requests", looks: 1, limits: "1",
		},
		"they were removed, and there were too many chats": {
			rates: limit.Rates{Caller: limit.Rate{Count: 100, Per: time.Hour}, Chat: limit.Rate{Count: 1, Per: time.Hour}}, change: (*memberServer).remove, status: 403, text: "The caller is not a member of the organisation", looks: 1,
		},
		"they were removed, and their address has a limit": {
			rates: limit.Rates{Caller: limit.Rate{Count: 100, Per: time.Hour}, Address: limit.Rate{Count: 50, Per: time.Hour}}, change: (*memberServer).remove,
			status: 403, text: "The caller is not a member of the organisation", looks: 1, limits: "50",
		},
		"their requests are counted once": {
			rates:  limit.Rates{Caller: limit.Rate{Count: 2, Per: time.Hour}, Chat: limit.Rate{Count: 2, Per: time.Hour}},
			change: func(w *memberServer) { w.change(func(m org.Membership) org.Membership { return m }) }, status: 200, looks: 1, limits: "2",
		},
	} {
		timed(t, about, func(t *testing.T) {
			w := newMemberServer(t, c.rates)
			want := 1
			if c.first != "" {
				w.subscribe(c.first)
				want = 0
			}
			if first := w.chat(hello); (first.Code == 200) != (want == 1) {
				t.Fatalf("the first chat is answered with %d %s", first.Code, first.Body)
			}
			if c.change != nil {
				c.change(w)
			}
			before := w.looks.n
			body := hello
			if c.body != "" {
				body = c.body
			}
			got := w.chat(body)
			must.Is(t, c.looks, w.looks.n-before)
			must.Is(t, c.limits, got.Header().Get("RateLimit-Limit"))
			if c.status == 200 {
				want++
				if got.Code != 200 || got.Body.String() != textEvent("Hello")+doneEvent {
					t.Errorf("got %d %s", got.Code, got.Body)
				}
			} else if e := refused(t, got, c.status); e.Message != c.text {
				t.Errorf("the error is %q, want %q", e.Message, c.text)
			}
			w.chats(want)
		})
	}
}

func TestRefusedCallerIsAuthorizedBeforeRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 100, Per: time.Hour}})
		w.chat(hello)
		w.remove()
		for range 3 {
			refused(t, w.chat(hello), http.StatusForbidden)
		}
		w.change(func(m org.Membership) org.Membership { return m })
		if got := w.chat(hello); got.Code != 200 || got.Header().Get("RateLimit-Remaining") != "97" { // three counted: the first two, and this
			t.Errorf("got %d %s, %s remain", got.Code, got.Body, got.Header().Get("RateLimit-Remaining"))
		}
		w.chats(2)
	})
}

func TestReplayedAnswerNeedsCurrentRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberServer(t, limit.Rates{})
		for range 2 {
			if got := w.chat(hello, key("a")); got.Code != 200 || got.Body.String() != textEvent("Hello")+doneEvent {
				t.Errorf("got %d %s", got.Code, got.Body)
			}
		}
		w.chats(1)
		w.remove()
		refused(t, w.chat(hello, key("a")), http.StatusForbidden)
		if w.looks.n != 3 {
			t.Errorf("the caller was looked at %d times", w.looks.n)
		}
		w.chats(1)
	})
}
