package harness_test

import (
	"net/url"
	"testing"
	"time"

	"collab/app/access"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/session"
)

// signInBrowser signs a browser in, and returns the secret of its session.
func signInBrowser(t *testing.T, a *access.Access) string {
	t.Helper()
	to, cookie, err := a.StartBrowser(t.Context(), "/page")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	back := identity.Return{Code: "code", State: u.Query().Get("state")}
	if _, err := a.FinishSignIn(t.Context(), cookie, access.CLIReturn{State: back.State, Return: back}); !fault.Is(err, fault.Invalid) {
		t.Fatalf("the cookie of a browser's sign-in is one of a command line's: %v", err)
	}
	secret, path, err := a.FinishBrowser(t.Context(), cookie, back, laptop)
	if err != nil || path != "/page" {
		t.Fatalf("%q, %v", path, err)
	}
	return secret
}

func TestABrowserSessionEndsWhenItIsNotUsedAndAfterItsLifetime(t *testing.T) {
	c := core(t)
	start := browsers(t, c)
	claims := identity.Claims{Subject: "user_1", Org: "org_1", OrgRole: "org:member", IssuedAt: c.Clock.Now()}
	servers := []*access.Access{start(claims), start(claims)}
	for _, a := range servers {
		a.BrowserCallbackURL = "https://collab.example.com/console/callback"
	}
	enter := func(a *access.Access, secret string) error {
		caller, err := a.Verify(access.WithBrowser(t.Context(), secret), "")
		if err == nil {
			_, err = a.Authorize(t.Context(), caller)
		}
		return err
	}
	wantIn := func(secret string) {
		t.Helper()
		for i, a := range servers {
			if err := enter(a, secret); err != nil {
				t.Fatalf("server %d: %v", i, err)
			}
		}
	}
	wantOut := func(secret string) {
		t.Helper()
		for i, a := range servers {
			if err := enter(a, secret); !fault.Is(err, fault.Unauthenticated) {
				t.Fatalf("server %d: %v", i, err)
			}
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
		if err := enter(servers[0], secret); err != nil {
			t.Fatalf("after %d days: %v", day+1, err)
		}
		if err := servers[0].FlushUses(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch day + 1 {
		case 6:
			if err := enter(servers[1], secret); err != nil { // which was used on the other server alone
				t.Fatal(err)
			}
		case 7:
			wantOut(idle)
		}
	}
	c.Clock.Advance(24*time.Hour - time.Millisecond)
	wantIn(secret)
	c.Clock.Advance(time.Millisecond)
	wantOut(secret)

	ended := signInBrowser(t, servers[0])
	wantIn(ended)
	for range 2 {
		if err := servers[1].EndBrowser(t.Context(), ended, audit.Origin{}); err != nil {
			t.Fatal(err)
		}
		wantOut(ended)
	}
}
