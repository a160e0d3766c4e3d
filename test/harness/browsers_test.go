package harness_test

import (
	"testing"
	"time"

	"collab/app/access"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/session"
	"collab/test/directory"
	"collab/test/must"
)

// signInBrowser signs a browser without a session in, and returns the secret of its session.
func signInBrowser(t *testing.T, a *access.Access) string {
	t.Helper()
	return signInBrowserAgain(t, a, "")
}

// signInBrowserAgain signs in a browser that has a session with the secret former.
func signInBrowserAgain(t *testing.T, a *access.Access, former string) string {
	t.Helper()
	to, cookie, err := a.StartBrowser(t.Context(), "/page", former)
	must.NoError(t, err)
	back := identity.Return{Code: "code", State: queryOf(t, to).Get("state")}
	// The cookie of a browser's sign-in is none of a command line's.
	must.Fail(t, must.ErrorOf(a.FinishSignIn(t.Context(), cookie, access.CLIReturn{Return: back})), fault.Invalid)
	secret, path, err := a.FinishBrowser(t.Context(), cookie, back, laptop, audit.Origin{})
	if err != nil || path != "/page" {
		t.Fatalf("%q, %v", path, err)
	}
	return secret
}

// useBrowser makes a request with the secret of a browser's session.
func useBrowser(t *testing.T, a *access.Access, secret string) (user, error) {
	return verified(access.WithBrowser(t.Context(), secret, ""), a, "")
}

func TestABrowserSessionEndsWhenItIsNotUsedAndAfterItsLifetime(t *testing.T) {
	c := core(t)
	start := browsers(t, c)
	claims := identity.Claims{Subject: "user_1", Org: "org_1", OrgRole: "org:member", IssuedAt: c.Clock.Now()}
	servers := []*access.Access{start(claims), start(claims)}
	wantIn := func(secret string) {
		t.Helper()
		for _, a := range servers {
			must.Do(useBrowser(t, a, secret)).Or(t)
		}
	}
	wantOut := func(secret string) {
		t.Helper()
		for _, a := range servers {
			must.Fail(t, must.ErrorOf(useBrowser(t, a, secret)), fault.Unauthenticated)
		}
	}

	secret := signInBrowser(t, servers[0])
	wantIn(secret)
	wantOut(secret + "x")
	wantOut(string(session.BrowserID(secret))) // which the list of sessions shows

	idle := signInBrowser(t, servers[0])
	wantIn(idle)
	for day := range 29 {
		c.Clock.Advance(24 * time.Hour)
		if _, err := useBrowser(t, servers[0], secret); err != nil {
			t.Fatalf("after %d days: %v", day+1, err)
		}
		must.NoError(t, servers[0].FlushUses(t.Context()))
		switch day + 1 {
		case 6:
			must.Do(useBrowser(t, servers[1], secret)).Or(t) // which was used on the other server alone
		case 7:
			wantOut(idle)
			in := must.Do(useBrowser(t, servers[0], secret)).Or(t)
			for _, s := range must.Do(servers[0].Sessions(t.Context(), in.Actor)).Or(t) {
				if s.ID == session.BrowserID(idle) {
					t.Error("the session that has ended is listed")
				}
			}
		}
	}
	c.Clock.Advance(24*time.Hour - time.Millisecond)
	wantIn(secret)
	c.Clock.Advance(time.Millisecond)
	wantOut(secret)

	ended := signInBrowser(t, servers[0])
	wantIn(ended)
	for range 2 {
		to, err := servers[1].EndBrowser(t.Context(), ended, audit.Origin{})
		if q := queryOf(t, to); err != nil || q.Get("back") != "https://collab.example.com/console/signed-out" || q.Get("state") == "" {
			t.Fatalf("it leads to %q, %v", to, err)
		}
		wantOut(ended)
	}
}

func TestASignInEndsTheFormerSessionOfTheBrowser(t *testing.T) {
	c := core(t)
	start := browsers(t, c)
	ada, ben := start(claimsOf(c, "user_ada", "org_1")), start(claimsOf(c, "user_ben", "org_2"))
	secret := signInBrowser(t, ada)
	elsewhere := signInBrowser(t, ada)
	for _, next := range []*access.Access{ada, ben} { // the same person, then another one
		former := secret
		must.Do(useBrowser(t, ben, former)).Or(t) // so that both servers have read it
		secret = signInBrowserAgain(t, next, former)
		for _, a := range []*access.Access{ada, ben} {
			must.Fail(t, must.ErrorOf(useBrowser(t, a, former)), fault.Unauthenticated)
			must.Succeed(t, must.ErrorOf(useBrowser(t, a, secret)))
			must.Succeed(t, must.ErrorOf(useBrowser(t, a, elsewhere)))
		}
	}
	signInBrowserAgain(t, ada, "of-a-session-that-ended-long-ago")
}

func TestABrowserSwitchesToAnotherOrganisationOfItsUser(t *testing.T) {
	c := core(t)
	start := browsers(t, c)
	one, two := start(claimsOf(c, "user_1", "org_1")), start(claimsOf(c, "user_1", "org_2"))
	stored := func(secret string) session.Session {
		t.Helper()
		return must.Do(c.Store.Journal().Sessions().Get(t.Context(), session.BrowserID(secret))).Or(t)
	}
	other := must.Do(use(t, two, signIn(t, two))).Or(t)
	stranger := must.Do(use(t, one, signIn(t, start(claimsOf(c, "user_2", "org_3"))))).Or(t)
	first := signInBrowser(t, one)
	began := stored(first)
	for _, a := range []*access.Access{one, two} {
		must.Do(useBrowser(t, a, first)).Or(t)
	}
	for day := range 5 {
		c.Clock.Advance(24 * time.Hour)
		if _, err := useBrowser(t, one, first); err != nil {
			t.Fatalf("after %d days: %v", day+1, err)
		}
	}

	refused := func(secret string, to id.Org, kind fault.Kind) {
		t.Helper()
		_, _, err := one.SwitchBrowser(t.Context(), secret, to, laptop, audit.Origin{})
		must.Fail(t, err, kind)
	}
	refused(first, stranger.Org, fault.Invalid)
	refused(first, "00000000-0000-4000-8000-000000000000", fault.Invalid)
	refused(first+"x", other.Org, fault.Unauthenticated)
	must.Do(useBrowser(t, one, first)).Or(t) // after refused switches

	type result struct {
		secret string
		left   time.Duration
		err    error
	}
	tabs := make(chan result)
	for _, a := range []*access.Access{one, two} {
		go func() {
			secret, left, err := a.SwitchBrowser(t.Context(), first, other.Org, laptop, audit.Origin{})
			tabs <- result{secret, left, err}
		}()
	}
	won, lost := <-tabs, <-tabs
	if won.err != nil {
		won, lost = lost, won
	}
	if won.err != nil || !fault.Is(lost.err, fault.Unauthenticated) {
		t.Fatalf("two tabs at once: %v and %v", won.err, lost.err)
	}
	if want := session.BrowserLifetime - 5*24*time.Hour; won.left != want {
		t.Errorf("the new session lasts %v, want %v", won.left, want)
	}
	if s := stored(won.secret); !s.CreatedAt.Equal(began.CreatedAt) || !s.ExpiresAt.Equal(began.ExpiresAt) || !s.LastUsedAt.Equal(c.Clock.Now()) {
		t.Errorf("the new session is %+v, the old one was %+v", s, began)
	}
	for i, a := range []*access.Access{one, two} {
		if got, err := useBrowser(t, a, won.secret); err != nil || got.Org != other.Org {
			t.Errorf("on server %d: in %s, %v", i, got.Org, err)
		}
		if _, err := useBrowser(t, a, first); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("on server %d the old session: %v", i, err)
		}
	}
	must.Is(t, 2, len(must.Do(one.Sessions(t.Context(), other.Actor)).Or(t)))
	if all := directory.AuditLog(t, c.Store, began.Org); len(all) != 1 || all[0].Action != audit.SessionEnded || all[0].Target != string(began.ID) {
		t.Errorf("the audit log has %+v", all)
	}

	members := c.Store.Directory().Members()
	m := must.Do(members.Get(t.Context(), began.Org, other.User)).Or(t)
	must.NoError(t, members.Put(t.Context(), began.Org, m.Removed(c.Clock.Now())))
	refused(won.secret, began.Org, fault.Invalid) // after a removal
	c.Clock.Advance(session.BrowserIdle)
	refused(won.secret, other.Org, fault.Unauthenticated) // of a session that was not used
}

func TestABrowserComesBackFromAProviderThatSignsInBySession(t *testing.T) {
	c := core(t)
	a := browsers(t, c)(claimsOf(c, "user_ada", "org_1"))
	a.SessionCookie = "__session"
	to, cookie, err := a.StartBrowser(t.Context(), "/page", "")
	must.NoError(t, err)
	state := queryOf(t, to).Get("state")
	for _, wrong := range []string{"", state + "x"} {
		if _, _, err := a.FinishBrowser(t.Context(), cookie, identity.Return{State: wrong, Session: "token"}, laptop, audit.Origin{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("with the state %q: %v", wrong, err)
		}
	}
	secret, path, err := a.FinishBrowser(t.Context(), cookie, identity.Return{State: state, Session: "token"}, laptop, audit.Origin{})
	if err != nil || path != "/page" {
		t.Fatalf("%q, %v", path, err)
	}
	must.Do(useBrowser(t, a, secret)).Or(t)
}
