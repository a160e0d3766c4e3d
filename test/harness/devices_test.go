package harness_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// signInPage is an identity provider whose sign-in page signs in whoever returns its code.
type signInPage struct{}

func (signInPage) Start(_ context.Context, f identity.Flow, callback string) (string, error) {
	if strings.Contains(callback, "?") { // of a provider that signs in by session
		return callback, nil
	}
	return callback + "?" + url.Values{"state": {f.Own}}.Encode(), nil
}

func (signInPage) Finish(_ context.Context, f identity.Flow, _ string, r identity.Return) (string, error) {
	if r.State != f.Own {
		return "", fault.New(fault.Unauthenticated, "The sign-in did not succeed")
	}
	return "token", nil
}

// End leads to the provider's logout, which has its parameters in the query.
func (signInPage) End(_ context.Context, back, state string) (string, error) {
	return "https://id.example.com/logout?" + url.Values{"back": {back}, "state": {state}}.Encode(), nil
}

// browsers returns servers for the browser of a person with these claims.
func browsers(t *testing.T, c *harness.Deployment) func(identity.Claims) *access.Access {
	server := presenting(t, c)
	return func(claims identity.Claims) *access.Access {
		a := server(claims)
		a.SignIn, a.Sealer, a.Secrets = signInPage{}, c.Sealer, c.Secrets
		a.CallbackURL, a.BrowserCallbackURL = "https://collab.example.com/callback", "https://collab.example.com/console/callback"
		a.SignedOutURL = "https://collab.example.com/console/signed-out"
		return a
	}
}

// queryOf returns the query of the address that a sign-in leads to.
func queryOf(t *testing.T, to string) url.Values {
	t.Helper()
	u := must.Do(url.Parse(to)).Or(t)
	return u.Query()
}

// decider signs a person in in a browser to decide about a device, and returns the cookie.
func decider(t *testing.T, a *access.Access, userCode string) string {
	t.Helper()
	to, cookie, err := a.StartDeviceSignIn(t.Context(), userCode)
	must.NoError(t, err)
	in, err := a.FinishSignIn(t.Context(), cookie, access.CLIReturn{Return: identity.Return{Code: "code", State: queryOf(t, to).Get("state")}})
	if err != nil || in.UserCode != userCode || in.Redirect != "" {
		t.Fatalf("%+v, %v", in, err)
	}
	return in.Decider
}

// wantRefused checks the refusal of a poll.
func wantRefused(t *testing.T, a *access.Access, device string, want session.DeviceRefusal) {
	t.Helper()
	s, err := a.ClaimDevice(t.Context(), device, laptop)
	if refused := session.DeviceRefusal(""); !errors.As(err, &refused) || refused != want || s.Token != "" {
		t.Fatalf("a poll is %v, want %s", err, want)
	}
}

func TestADeviceIsSignedInAsTheBrowsersUser(t *testing.T) {
	c := core(t)
	server := browsers(t, c)
	ada, ben := server(claimsOf(c, "user_ada", "org_1")), server(claimsOf(c, "user_ben", "org_1"))
	device, code, err := ada.StartDevice(t.Context(), "laptop", laptop)
	must.NoError(t, err)
	_, other, err := ada.StartDevice(t.Context(), "", laptop)
	if err != nil || other == code {
		t.Fatalf("%s, %v", other, err)
	}
	of, ofBen := decider(t, ada, code), decider(t, ben, code)
	for name, cookie := range map[string]string{"no cookie": "", "nonsense": "AAAA", "the cookie of another device": decider(t, ada, other)} {
		if _, signedIn, err := ada.DeviceRequest(t.Context(), cookie, code); signedIn || err != nil {
			t.Errorf("%s shows the device: %v", name, err)
		}
		if err := ada.DecideDevice(t.Context(), cookie, code, true); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s decides: %v", name, err)
		}
	}
	wantRefused(t, ben, device, session.DeviceUndecided)
	wantRefused(t, ada, device, session.DeviceTooEarly) // a poll on another server counts
	asked, signedIn, err := ada.DeviceRequest(t.Context(), of, code)
	if err != nil || !signedIn || asked.Device.Name != "laptop" || asked.Device.From != laptop || asked.Person.ProviderID != "user_ada" || asked.Org.ProviderID != "org_1" {
		t.Fatalf("%+v, %v", asked, err)
	}
	must.NoError(t, errors.Join(ben.DecideDevice(t.Context(), of, code, true), ada.DecideDevice(t.Context(), of, code, true)))
	must.Fail(t, ada.DecideDevice(t.Context(), ofBen, code, false), fault.NotFound) // another person's decision
	if _, _, err := ada.DeviceRequest(t.Context(), of, code); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a decided device is shown: %v", err)
	}

	var mu sync.Mutex
	var wait sync.WaitGroup
	tokens, elsewhere := map[string]int{}, session.Client{Address: "192.0.2.8"}
	for i := range 8 {
		wait.Go(func() {
			s, err := []*access.Access{ada, ben}[i%2].ClaimDevice(t.Context(), device, session.Client{Address: "192.0.2.7"})
			if refused := session.DeviceRefusal(""); err != nil && (!errors.As(err, &refused) || refused != session.DeviceUnknown) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if s.Token != "" {
				tokens[s.Token]++
			}
		})
	}
	wait.Wait()
	if len(tokens) != 1 {
		t.Fatalf("8 polls of the device got %d tokens", len(tokens))
	}
	token := slices.Collect(maps.Keys(tokens))[0]
	actor, err := use(t, ben, token)
	if err != nil || actor.Role != org.Member || actor.User != asked.Person.ID || actor.Org != asked.Org.ID {
		t.Fatalf("%+v, %v", actor, err)
	}
	all, err := ben.Sessions(t.Context(), actor.Actor)
	if err != nil || len(all) != 1 || all[0].Address != "192.0.2.7" {
		t.Errorf("the sessions are %+v, %v", all, err)
	}
	claim := func(from session.Client) (string, error) {
		s, err := ada.ClaimDevice(t.Context(), device, from)
		return s.Token, err
	}
	if again, err := claim(elsewhere); !errors.Is(err, session.DeviceUnknown) || again != "" {
		t.Errorf("another client got a token: %v", err)
	}
	c.Clock.Advance(time.Minute - time.Millisecond)
	if again, err := claim(session.Client{Address: "192.0.2.7"}); err != nil || again != token {
		t.Errorf("the device got another token: %v", err)
	}
	c.Clock.Advance(time.Millisecond)
	if again, err := claim(session.Client{Address: "192.0.2.7"}); !errors.Is(err, session.DeviceUnknown) || again != "" {
		t.Errorf("the device got a token after a minute: %v", err)
	}
}

// unsigned signs no token once.
type unsigned struct {
	ports.ServiceTokens
	failed bool
}

func (u *unsigned) Issue(c session.Claims) (string, error) {
	if !u.failed {
		u.failed = true
		return "", errors.New("no token")
	}
	return u.ServiceTokens.Issue(c)
}

func TestADeviceGetsItsTokenAfterAFailure(t *testing.T) {
	c := core(t)
	ada := browsers(t, c)(claimsOf(c, "user_ada", "org_1"))
	signed := ada.Tokens
	for about, disturb := range map[string]func(){
		"no token is signed": func() { ada.Tokens = &unsigned{ServiceTokens: signed} },
		"the answer is lost": func() {
			ada.Store = c.Faults.Store(c.Store)
			c.Faults.FailNext(map[string]harness.Fault{"Atomic": harness.ResponseLost})
		},
	} {
		device, code, err := ada.StartDevice(t.Context(), about, laptop)
		if err == nil {
			err = ada.DecideDevice(t.Context(), decider(t, ada, code), code, true)
		}
		must.NoError(t, err)
		disturb()
		if s, err := ada.ClaimDevice(t.Context(), device, laptop); err == nil || s.Token != "" {
			t.Errorf("%s: no error", about)
		}
		ada.Tokens, ada.Store = signed, c.Store
		s, err := ada.ClaimDevice(t.Context(), device, laptop)
		if err != nil {
			t.Errorf("%s: %v", about, err)
			continue
		}
		actor, err := use(t, ada, s.Token)
		if err == nil {
			err = ada.EndSession(t.Context(), actor.Actor, actor.session)
		}
		if err != nil {
			t.Errorf("%s: %v", about, err)
		}
		wantRefused(t, ada, device, session.DeviceUnknown)
	}
}

func TestASignInForADeviceComesBackFromAProviderThatSignsInBySession(t *testing.T) {
	c := core(t)
	a := browsers(t, c)(claimsOf(c, "user_ada", "org_1"))
	a.SessionCookie = "__session"
	_, code, err := a.StartDevice(t.Context(), "", laptop)
	must.NoError(t, err)
	to, cookie, err := a.StartDeviceSignIn(t.Context(), code)
	must.NoError(t, err)
	query := queryOf(t, to)
	port, state := query.Get("port"), query.Get("state")
	for _, wrong := range []access.CLIReturn{{Port: port}, {Return: returned(state)}, {Port: "4711", Return: returned(state)}, {Port: port, Return: returned(state + "x")}} {
		if _, err := a.FinishSignIn(t.Context(), cookie, wrong); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	must.Is(t, code, must.Do(a.FinishSignIn(t.Context(), cookie, access.CLIReturn{Port: port, Return: returned(state)})).Or(t).UserCode)
}

func TestADevicesCodesLiveTenMinutes(t *testing.T) {
	c := core(t)
	a := browsers(t, c)(claimsOf(c, "user_ada", ""))
	device, code, err := a.StartDevice(t.Context(), "", laptop)
	must.NoError(t, err)
	c.Clock.Advance(10*time.Minute - time.Millisecond)
	of := decider(t, a, code)
	c.Clock.Advance(time.Millisecond)
	wantRefused(t, a, device, session.DeviceExpired)
	must.Fail(t, a.DecideDevice(t.Context(), of, code, true), fault.NotFound) // the device has expired
	if _, _, err := a.StartDeviceSignIn(t.Context(), code); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody signs in for an expired device: %v", err)
	}
	c.Clock.Advance(time.Millisecond)
	must.NoError(t, c.Upkeep.Run(t.Context()))
	wantRefused(t, a, device, session.DeviceUnknown)
}

func TestADeviceIsNotSignedInForAUserWhoIsRefused(t *testing.T) {
	for name, event := range map[string]string{
		"banned":  `{"type":"user.updated","timestamp":%[1]d,"data":{"id":"user_ada","banned":true,"updated_at":%[1]d}}`,
		"deleted": `{"type":"user.deleted","timestamp":%d,"data":{"id":"user_ada","deleted":true}}`,
		"removed": `{"type":"organizationMembership.deleted","timestamp":%[1]d,"data":{"id":"m","role":"org:member","updated_at":%[1]d,"organization":{"id":"org_1"},"public_user_data":{"user_id":"user_ada"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := core(t)
			a := browsers(t, c)(claimsOf(c, "user_ada", "org_1"))
			device, code, err := a.StartDevice(t.Context(), "", laptop)
			must.NoError(t, err)
			must.NoError(t, a.DecideDevice(t.Context(), decider(t, a, code), code, true))
			c.Clock.Advance(time.Second)
			must.NoError(t, c.Receive(t.Context(), "msg_1", fmt.Appendf(nil, event, c.Clock.Now().UnixMilli())))
			wantRefused(t, a, device, session.DeviceRefused)
		})
	}
}

// returned is what a provider that signs in by session sends back.
func returned(state string) identity.Return { return identity.Return{State: state} }
