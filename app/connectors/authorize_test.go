package connectors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// response returns a valid authorization response.
func response(b connectors.Authorization) connectors.AuthorizationResponse {
	return connectors.AuthorizationResponse{State: b.State, Code: "code", Issuer: issuer, Redirect: redirect}
}

// wantFlow checks the status of an authorization, and returns it.
func (w *fixture) wantFlow(b connectors.Authorization, want connector.FlowStatus) connector.Flow {
	w.Helper()
	f := must.Do(w.connectors.Poll(w.Context(), w.member, b.State)).Or(w)
	if f.Status() != want {
		w.Errorf("the authorization is %s, want %s", f.Status(), want)
	}
	return f
}

func TestAnAuthorization(t *testing.T) {
	w := newFixture(t)
	b := must.Do(w.connectors.Start(t.Context(), w.member, "", "notes")).Or(w)
	if b.URL != "https://collab.example.com/authorize?state="+b.State {
		t.Errorf("the page is at %s", b.URL)
	}
	w.wantFlow(b, connector.Pending)
	for _, other := range []org.Actor{w.org, w.viewer, w.stranger} {
		must.Fail(w, must.ErrorOf(w.connectors.Poll(t.Context(), other, b.State)), fault.NotFound)
	}
	asked := must.Do(w.connectors.Confirmation(t.Context(), b.State)).Or(w)
	if want := (connectors.Confirmation{Label: "Notes", Provider: "Notes", Host: "auth.example.com", Server: "notes.example.com", Person: "Ada", Email: "ada@example.com", Organisation: "Office"}); asked != want {
		t.Errorf("the page asks %+v, want %+v", asked, want)
	}
	const browser = "a secret of Ada's browser"
	page := must.Do(w.connectors.Confirm(t.Context(), b.State, browser)).Or(w)
	if page != issuer+"/authorize?client_id=client-1&state="+b.State {
		t.Errorf("the provider's page is at %s", page)
	}
	w.Must(w.connectors.Finish(t.Context(), response(b), browser))
	must.Is(t, b.Instance, w.wantFlow(b, connector.Ready).Instance)
	w.wantStatus(b.Instance, connector.Connecting, "")
	w.work()
	w.wantStatus(b.Instance, connector.Connected, "")
	c, err := w.connectors.Read(t.Context(), w.member, b.Instance)
	if err != nil || c.Entries != `{"accessToken":"access-2"}` || len(w.authorizer.verifier) < 43 || strings.Contains(page, w.authorizer.verifier) {
		t.Errorf("%+v, %v", c, err)
	}
	w.Must(w.connectors.Delete(t.Context(), w.org, b.Instance))
	if got, want := w.auditLog(), []string{"connector.created notes", "connector.authorized ", "connector.credentials_read ", "connector.deleted notes"}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
	must.Fail(w, must.ErrorOf(w.connectors.Poll(t.Context(), w.member, b.State)), fault.NotFound)
}

func TestRefusedResponses(t *testing.T) {
	for name, of := range map[string]struct {
		change func(w *fixture, a *connectors.AuthorizationResponse, browser *string)
		kind   fault.Kind
		left   connector.FlowStatus
	}{
		"without a browser":   {func(_ *fixture, _ *connectors.AuthorizationResponse, b *string) { *b = "" }, fault.Forbidden, connector.Pending},
		"of another browser":  {func(_ *fixture, _ *connectors.AuthorizationResponse, b *string) { *b = "other" }, fault.Forbidden, connector.Pending},
		"of an unknown state": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) { a.State = "unknown" }, fault.NotFound, connector.Pending},
		"of another flow": {func(w *fixture, a *connectors.AuthorizationResponse, _ *string) {
			other, _ := w.confirm("", "calendar")
			a.State = other.State
		}, fault.Forbidden, connector.Pending},
		"too late": {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) {
			w.clock.Advance(connector.FlowLifetime)
		}, fault.NotFound, ""},
		"of another issuer": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) { a.Issuer = issuer + "/" }, fault.Forbidden, connector.Refused},
		"at another issuer's address": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) {
			a.Redirect = connector.Redirect(callback, "https://other.example.com")
		}, fault.Forbidden, connector.Refused},
		"without the issuer": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) { a.Issuer = "" }, fault.Forbidden, connector.Refused},
		"that declines": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) {
			a.Code, a.Error = "", "access_denied"
		}, fault.Forbidden, connector.Refused},
		"that is an error": {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) { a.Error = "<script>" }, fault.Forbidden, connector.Refused},
		"without a code":   {func(_ *fixture, a *connectors.AuthorizationResponse, _ *string) { a.Code = "" }, fault.Forbidden, connector.Refused},
		"of a removed member": {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) {
			w.Remove(w.member.Org, w.member.User)
		}, fault.Forbidden, connector.Refused},
		"of a closed organisation": {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) { w.Close(w.member.Org) }, fault.Forbidden, connector.Refused},
		"of a viewer": {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) {
			w.Put(org.Membership{Org: w.member.Org, User: w.member.User, Role: org.Viewer, JoinedAt: startTime})
		}, fault.Forbidden, connector.Refused},
		"while the server is down": {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) { w.authorizer.fail = errDown }, fault.Unavailable, connector.Refused},
		"with an internal error":   {func(w *fixture, _ *connectors.AuthorizationResponse, _ *string) { w.authorizer.fail = errInternal }, fault.Internal, connector.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			b, browser := w.confirm("", "notes")
			a := response(b)
			of.change(w, &a, &browser)
			must.Fail(w, w.connectors.Finish(t.Context(), a, browser), of.kind)
			if of.left != "" {
				if f := w.wantFlow(b, of.left); (f.Error != "") != (of.left == connector.Refused) || strings.Contains(f.Error, "script") || strings.Contains(f.Error, "memory") {
					t.Errorf("it is told %q", f.Error)
				}
			}
			if now := w.wantStatus(b.Instance, connector.Disconnected, ""); now.Version != 0 {
				t.Errorf("the connector is %+v", now)
			}
			if len(w.authorizer.valid) != 0 {
				t.Errorf("there is a grant: %v", w.authorizer.calls)
			}
		})
	}
}

// TestAResponseBelongsToTheIssuerOfItsAddress covers responses without iss, which the redirect address alone attributes.
func TestAResponseBelongsToTheIssuerOfItsAddress(t *testing.T) {
	for name, of := range map[string]struct {
		flow, response string // redirect addresses
		kind           fault.Kind
	}{
		"of another issuer":             {redirect, connector.Redirect(callback, "https://other.example.com"), fault.Forbidden},
		"of all issuers":                {redirect, callback, fault.Forbidden},
		"of a document":                 {redirect, connector.DocumentRedirect(callback, connector.IssuerKey(issuer)), fault.Forbidden},
		"without a part for the issuer": {callback, callback, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.authorizer.server.ReturnsIssuer = false
			b, browser := w.confirm("", "notes")
			_, err := w.store.Connections().Flows().Update(t.Context(), id.Digest(b.State), func(f connector.Flow) (connector.Flow, error) {
				f.Redirect = of.flow
				return f, nil
			})
			w.Must(err)
			must.Fail(w, w.connectors.Finish(t.Context(), connectors.AuthorizationResponse{State: b.State, Code: "code", Redirect: of.response}, browser), of.kind)
			w.wantFlow(b, connector.Refused)
			if w.authorizer.count("redeem") != 0 {
				t.Errorf("the code was redeemed: %v", w.authorizer.calls)
			}
		})
	}
}

func TestAResponseIsAcceptedOnce(t *testing.T) {
	w := newFixture(t)
	b, browser := w.confirm("", "notes")
	var group sync.WaitGroup
	errs := make([]error, 20)
	for n := range errs {
		group.Go(func() { errs[n] = w.connectors.Finish(t.Context(), response(b), browser) })
	}
	group.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else {
			must.Fail(w, err, fault.NotFound)
		}
	}
	if done != 1 || w.authorizer.count("redeem") != 1 {
		t.Errorf("%d answers counted, and %d were redeemed", done, w.authorizer.count("redeem"))
	}
	w.wantFlow(b, connector.Ready)
}

func TestCredentialsThatCannotBeStoredAreRevoked(t *testing.T) {
	for name, meanwhile := range map[string]func(w *fixture, i id.Connector){
		"the connector is deleted": func(w *fixture, i id.Connector) { w.Must(w.connectors.Delete(w.Context(), w.org, i)) },
		"the member is removed":    func(w *fixture, _ id.Connector) { w.Remove(w.member.Org, w.member.User) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			b, browser := w.confirm("", "notes")
			w.before("redeem", func() { meanwhile(w, b.Instance) })
			if err := w.connectors.Finish(t.Context(), response(b), browser); err == nil {
				t.Error("the credentials were stored")
			}
			w.work()
			if len(w.authorizer.valid) != 0 || w.authorizer.count("revoke renewal-2") != 1 {
				t.Errorf("after %v %v are valid", w.authorizer.calls, w.authorizer.valid)
			}
		})
	}
}

func TestCredentialsWhoseCommitWasNotConfirmedAreKept(t *testing.T) {
	w := newFixture(t)
	b, browser := w.confirm("", "notes")
	atomic := w.connectors.Atomic
	w.connectors.Atomic = func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
		return errors.Join(atomic(ctx, actor, fn), fault.New(fault.Unavailable, "The database does not answer"))
	}
	w.Must(w.connectors.Finish(t.Context(), response(b), browser))
	w.connectors.Atomic = atomic
	w.wantFlow(b, connector.Ready)
	w.work()
	must.Is(t, 0, w.authorizer.count("revoke renewal-2"))
	w.wantStatus(b.Instance, connector.Connected, "")
}

func TestACancelledRequestStillRedeemsItsCode(t *testing.T) {
	w := newFixture(t)
	b, browser := w.confirm("", "notes")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Must(w.connectors.Finish(ctx, response(b), browser))
	w.wantFlow(b, connector.Ready)
}

func TestWhichClientIsUsed(t *testing.T) {
	w := newFixture(t)
	used := func(provider string) string {
		t.Helper()
		b, browser := w.confirm("", provider)
		a := response(b)
		if w.authorizer.server.SupportsClientDocument() && w.clients == nil {
			a.Redirect = connector.DocumentRedirect(callback, connector.IssuerKey(issuer))
		}
		w.Must(w.connectors.Finish(t.Context(), a, browser))
		return w.authorizer.calls[len(w.authorizer.calls)-1]
	}
	w.authorizer.server.Documents = true
	must.Is(t, "redeem https://collab.example.com/client/"+connector.IssuerKey(issuer), used("notes"))
	w.clients = map[string]connector.Client{issuer: {ID: "known", Secret: "s"}}
	w.connectors = w.newServer()
	must.Is(t, "redeem known", used("notes"))
	w.clients = nil
	w.connectors = w.newServer()
	w.authorizer.server.Documents, w.authorizer.server.Registration = false, ""
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.member, "", "notes")), fault.Conflict)
	w.authorizer.server.Registration = issuer + "/register"
	first := used("notes")
	w.authorizer.server.Documents, w.authorizer.server.ReturnsIssuer = true, false // its documents could be another's
	if second := used("calendar"); first != second || w.authorizer.count("register") != 1 {
		t.Errorf("%s and %s, after %d registrations", first, second, w.authorizer.count("register"))
	}
}

func TestAClientIsUsedForItsFlowsUntilItsSecretExpires(t *testing.T) {
	for _, secretIn := range []time.Duration{12 * time.Minute, 5 * time.Minute} {
		t.Run(fmt.Sprint(secretIn), func(t *testing.T) {
			w := newFixture(t)
			w.authorizer.secretIn = secretIn
			b := must.Do(w.connectors.Start(t.Context(), w.member, "", "notes")).Or(w)
			w.clock.Advance(3 * time.Minute)
			const browser = "a secret of Ada's browser"
			must.Do(w.connectors.Confirm(t.Context(), b.State, browser)).Or(w)
			w.Must(w.connectors.Finish(t.Context(), response(b), browser))
			if w.authorizer.count("register") != 1 {
				t.Errorf("the calls were %v", w.authorizer.calls)
			}
			w.confirm("", "calendar") // a new flow gets another client
			if w.authorizer.count("register") != 2 {
				t.Errorf("the calls were %v", w.authorizer.calls)
			}
		})
	}
}

func TestAFlowOfARemovedClientHasToBeStartedAgain(t *testing.T) {
	w := newFixture(t)
	b, browser := w.confirm("", "notes")
	w.Must(w.store.Connections().Clients().Remove(t.Context(), issuer, redirect, "client-1"))
	must.Fail(w, w.connectors.Finish(t.Context(), response(b), browser), fault.Conflict)
	must.Fail(w, must.ErrorOf(w.connectors.Confirm(t.Context(), b.State, browser)), fault.NotFound)
	if w.authorizer.count("register") != 1 {
		t.Errorf("the calls were %v", w.authorizer.calls)
	}
}

func TestConcurrentStartsRegisterOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		proceed := make(chan struct{})
		w.before("register", func() { <-proceed })
		i := w.create("notes").ID
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { must.Succeed(t, must.ErrorOf(w.connectors.Start(t.Context(), w.member, i, ""))) })
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := w.connectors.Start(gone, w.member, i, ""); err == nil {
				t.Error("a cancelled start succeeded")
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(proceed)
		group.Wait()
		must.Is(t, 1, w.authorizer.count("register"))
	})
}

func TestPermissions(t *testing.T) {
	w := newFixture(t)
	i := w.create("search").ID
	w.giveKey(i)
	gone := w.member
	for name, do := range map[string]func(a org.Actor) error{
		"create": func(a org.Actor) error {
			return must.ErrorOf(w.connectors.Create(t.Context(), a, connector.Draft{Provider: "notes"}))
		},
		"give": func(a org.Actor) error {
			_, err := w.connectors.StoreCredentials(t.Context(), a, i, `{"apiKey":"k"}`, map[string]string{"apiKey": "k"})
			return err
		},
		"read":   func(a org.Actor) error { _, err := w.connectors.Read(t.Context(), a, i); return err },
		"start":  func(a org.Actor) error { _, err := w.connectors.Start(t.Context(), a, "", "notes"); return err },
		"delete": func(a org.Actor) error { return w.connectors.Delete(t.Context(), a, i) },
	} {
		t.Run(name, func(t *testing.T) {
			must.Fail(w, do(w.viewer), fault.Forbidden)
			must.Fail(w, do(org.Actor{User: w.member.User, Role: org.Owner}), fault.Forbidden)
			before := w.auditLog()
			w.Remove(gone.Org, gone.User) // after the request was authorized
			must.Fail(w, do(gone), fault.Forbidden)
			if !slices.Equal(before, w.auditLog()) {
				t.Errorf("the audit log has %q", w.auditLog())
			}
			w.Put(org.Membership{Org: gone.Org, User: gone.User, Role: gone.Role, JoinedAt: startTime})
		})
	}
	for name, do := range map[string]func() error{
		"give": func() error {
			return must.ErrorOf(w.connectors.StoreCredentials(t.Context(), w.stranger, i, `{"apiKey":"k"}`, map[string]string{"apiKey": "k"}))
		},
		"read":   func() error { _, err := w.connectors.Read(t.Context(), w.stranger, i); return err },
		"delete": func() error { return w.connectors.Delete(t.Context(), w.stranger, i) },
	} {
		t.Run(name+" another's", func(t *testing.T) { must.Fail(w, do(), fault.NotFound) })
	}
	before := w.authorizer.count("")
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.stranger, i, "")), fault.Invalid)
	if w.authorizer.count("") != before {
		t.Errorf("the calls were %v", w.authorizer.calls)
	}
	all, err := w.list(w.viewer)
	if err != nil || len(all) != 1 {
		t.Errorf("a viewer sees %v, %v", all, err)
	}
}

func TestBounds(t *testing.T) {
	w := newFixture(t)
	for _, d := range []connector.Draft{
		{Provider: "none"}, {Provider: "retired"}, {Provider: "elsewhere"},
		{Provider: "elsewhere", URL: "ftp://example.com"}, {Provider: "elsewhere", URL: "https://user@example.com/"}, {Provider: "elsewhere", URL: "https://example.com/#a"},
		{Provider: "elsewhere", URL: "https:///mcp"}, {Provider: "elsewhere", URL: "https://example.com:99999/mcp"},
		{Provider: "elsewhere", URL: "https://example.com:0/mcp"}, {Provider: "elsewhere", URL: "https://[::1]:65536"}, {Provider: "notes", Name: new(" ")},
	} {
		must.Fail(w, must.ErrorOf(w.connectors.Create(t.Context(), w.member, d)), fault.Invalid)
	}
	i := w.create("search").ID
	for entries, texts := range map[string]map[string]string{
		`{}`: nil, `{"apiKey":" "}`: {"apiKey": " "}, `{"apiKey":"` + strings.Repeat("x", connector.MaxCredentials) + `"}`: {"apiKey": "x"},
	} {
		must.Fail(w, must.ErrorOf(w.connectors.StoreCredentials(t.Context(), w.member, i, entries, texts)), fault.Invalid)
	}
	must.Fail(w, must.ErrorOf(w.connectors.Read(t.Context(), w.member, i)), fault.NotFound)
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.member, i, "")), fault.Invalid)
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.member, i, "notes")), fault.Invalid)
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.member, "", "")), fault.Invalid)

	var group sync.WaitGroup
	for range connector.MaxInstances + 20 {
		group.Go(func() {
			if _, err := w.connectors.Create(t.Context(), w.member, connector.Draft{Provider: "notes"}); err != nil {
				must.Fail(w, err, fault.Conflict)
			}
		})
	}
	group.Wait()
	all, err := w.list(w.member)
	if err != nil || len(all) != connector.MaxInstances {
		t.Errorf("there are %d connectors, %v", len(all), err)
	}
	// A refusal of the authorization server is not the caller's error.
	w.authorizer.fail = fault.New(fault.Forbidden, "The authorization server refuses to register this service")
	must.Fail(w, must.ErrorOf(w.connectors.Start(t.Context(), w.member, "", "notes")), fault.Unavailable)
}

func TestUseOfAClientIsRecordedOnceADay(t *testing.T) {
	w := newFixture(t)
	kept := w.store.Connections().Clients()
	used := func() time.Time {
		t.Helper()
		c := must.Do(kept.Get(t.Context(), issuer, redirect)).Or(w)
		return c.UsedAt
	}
	begun := func() {
		t.Helper()
		must.Do(w.connectors.Start(t.Context(), w.member, "", "notes")).Or(w)
	}
	begun()
	for _, step := range []struct {
		after time.Duration
		want  time.Duration // after noon
	}{{24*time.Hour - time.Millisecond, 0}, {time.Millisecond, 24 * time.Hour}, {time.Hour, 24 * time.Hour}, {29 * 24 * time.Hour, 30*24*time.Hour + time.Hour}} {
		w.clock.Advance(step.after)
		begun()
		if got := used(); !got.Equal(startTime.Add(step.want)) {
			t.Errorf("it was used at %v, want %v after noon", got, step.want)
		}
	}
	must.Is(t, 1, w.authorizer.count("register"))

	// Existing authorizations do not need the client.
	i := w.authorise("calendar")
	must.Do(kept.Sweep(t.Context(), w.clock.Now().Add(time.Hour), 10)).Or(w)
	w.clock.Advance(time.Hour)
	w.work()
	if now := w.wantStatus(i, connector.Connected, ""); now.Version != 2 {
		t.Errorf("the credentials are of version %d", now.Version)
	}
	begun()
	if n := w.authorizer.count("register"); n != 2 || !used().Equal(w.clock.Now()) {
		t.Errorf("%d clients were registered, the last at %v", n, used())
	}
}
