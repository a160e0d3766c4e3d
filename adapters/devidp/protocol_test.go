package devidp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"collab/adapters/devidp"
	"collab/test/forms"
	"collab/test/must"
)

// relyingParty is a relying party configured with the issuer only.
type relyingParty struct {
	oauth2.Config
	state, nonce, verifier string
}

func (st *fixture) party(t *testing.T) relyingParty {
	t.Helper()
	provider := must.Do(oidc.NewProvider(t.Context(), st.provider.Issuer())).Or(t)
	return relyingParty{
		oauth2.Config{
			ClientID: devidp.ClientID, Endpoint: provider.Endpoint(),
			RedirectURL: st.URL + "/api/v1/auth/cli-callback", Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
		},
		"state &=", "nonce", oauth2.GenerateVerifier(),
	}
}

func (c relyingParty) address(more ...oauth2.AuthCodeOption) string {
	return c.AuthCodeURL(c.state, append([]oauth2.AuthCodeOption{oidc.Nonce(c.nonce), oauth2.S256ChallengeOption(c.verifier)}, more...)...)
}

// ada returns the form of a new account and organisation.
func ada() url.Values {
	return url.Values{"account": {"new"}, "name": {"Ada Lovelace"}, "email": {"ada@example.com"}, "org": {"new"}, "orgName": {"Engines"}, "role": {"admin"}}
}

// code signs ada in on the page and returns the response to the client.
func (c relyingParty) code(t *testing.T) url.Values {
	t.Helper()
	b := forms.New(t)
	return c.response(t, b.Submit(b.Open(c.address()), ada()))
}

// response returns the parameters of the redirect to the client.
func (c relyingParty) response(t *testing.T, p forms.Page) url.Values {
	t.Helper()
	to, err := p.Location()
	if err != nil || p.StatusCode != http.StatusSeeOther {
		t.Fatalf("answered %s: %v\n%s", p.Status, err, p.Text)
	}
	q := to.Query()
	to.RawQuery = ""
	if to.String() != c.RedirectURL {
		t.Fatalf("leads to %s", to)
	}
	return q
}

func TestCodeFlow(t *testing.T) {
	withProvider(t, "the authorization-code flow", func(t *testing.T, st *fixture) {
		client := st.party(t)
		got := client.code(t)
		if got.Get("state") != client.state || got.Get("iss") != st.provider.Issuer() || got.Has("error") {
			t.Errorf("the client gets %v", got)
		}
		tokens := must.Do(client.Exchange(t.Context(), got.Get("code"), oauth2.VerifierOption(client.verifier))).Or(t)
		raw, _ := tokens.Extra("id_token").(string)
		c := st.verify(t, raw, devidp.ClientID)
		if c.Nonce != client.nonce || c.Party != devidp.ClientID || c.Version != 2 || c.Expires-c.Issued != 3600 || c.Issued != st.clock.Now().Unix() {
			t.Errorf("token says %+v", c)
		}
		if c.Name != "Ada Lovelace" || c.Email != "ada@example.com" || !strings.HasPrefix(c.Subject, "user_") || !strings.HasPrefix(c.Picture, st.URL) {
			t.Errorf("token says %+v", c)
		}
		if c.Org == nil || c.Org.Role != "admin" || c.Org.Slug != "engines" || !strings.HasPrefix(c.Org.ID, "org_") {
			t.Errorf("token says %+v", c.Org)
		}
	})
	t.Run("the redirect leaks no code by cache or Referer", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		h := b.Submit(b.Open(st.party(t).address()), ada()).Header
		if h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", h)
		}
	})
	withProvider(t, "the application is registered too", func(t *testing.T, st *fixture) {
		client := st.party(t)
		client.RedirectURL = st.options.AppURL
		if got := client.code(t); got.Get("code") == "" {
			t.Errorf("the client gets %v", got)
		}
	})
	t.Run("a registered address with a query keeps it", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir(), func(o *devidp.Options) { o.Redirects = []string{"http://localhost:5/cb?a=b"} }), forms.New(t)
		client := st.party(t)
		client.RedirectURL = "http://localhost:5/cb?a=b"
		to := b.Submit(b.Open(client.address()), ada()).Header.Get("Location")
		if !strings.HasPrefix(to, "http://localhost:5/cb?a=b&") || !strings.Contains(to, "code=") {
			t.Errorf("leads to %s", to)
		}
	})
	t.Run("cancelling redirects without a code", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		client := st.party(t)
		got := client.response(t, b.Submit(b.Open(client.address()), url.Values{"action": {"cancel"}}))
		if got.Get("error") != "access_denied" || got.Get("state") != client.state || got.Has("code") {
			t.Errorf("the client gets %v", got)
		}
	})
	t.Run("the login hint is filled in", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		b.Open(st.party(t).address(oauth2.SetAuthURLParam("login_hint", "bob@example.com"))).Contains(t, `value="bob@example.com"`)
	})
	t.Run("a mistake on the page keeps the request", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		client := st.party(t)
		wrong := ada()
		wrong.Set("email", "")
		p := b.Submit(b.Open(client.address()), wrong)
		if p.StatusCode != http.StatusBadRequest {
			t.Fatalf("answered %s", p.Status)
		}
		if got := client.response(t, b.Submit(p, ada())); got.Get("code") == "" {
			t.Errorf("the client gets %v", got)
		}
	})
	withProvider(t, "a form from another site gets no code", func(t *testing.T, st *fixture) {
		r := forms.Request(st.party(t).address(), ada().Encode(), "")
		if p := forms.New(t).Do(r); p.StatusCode != http.StatusForbidden || p.Header.Get("Location") != "" {
			t.Errorf("answered %s to %s", p.Status, p.Header.Get("Location"))
		}
	})
}

func TestRedemption(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*fixture, *relyingParty)
		error  string
	}{
		"a wrong verifier":             {func(_ *fixture, c *relyingParty) { c.verifier = oauth2.GenerateVerifier() }, "invalid_grant"},
		"an empty verifier":            {func(_ *fixture, c *relyingParty) { c.verifier = "" }, "invalid_grant"},
		"another redirect address":     {func(st *fixture, c *relyingParty) { c.RedirectURL = st.options.AppURL }, "invalid_grant"},
		"a code of 60 seconds":         {func(st *fixture, _ *relyingParty) { st.clock.Advance(time.Minute) }, "invalid_grant"},
		"another client":               {func(_ *fixture, c *relyingParty) { c.ClientID = "other" }, "invalid_client"},
		"a secret where there is none": {func(_ *fixture, c *relyingParty) { c.ClientSecret = "guess" }, "invalid_client"},
		"another client, without a header": {func(_ *fixture, c *relyingParty) {
			c.ClientID, c.Endpoint.AuthStyle = "other", oauth2.AuthStyleInParams
		}, "invalid_client"},
	} {
		withProvider(t, name+" is refused", func(t *testing.T, st *fixture) {
			client := st.party(t)
			code := client.code(t).Get("code")
			tt.before(st, &client)
			_, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(client.verifier))
			if refused := (*oauth2.RetrieveError)(nil); !errors.As(err, &refused) || refused.ErrorCode != tt.error {
				t.Errorf("Exchange() = %v", err)
			}
		})
	}
	withProvider(t, "a code of 59 seconds is accepted", func(t *testing.T, st *fixture) {
		client := st.party(t)
		code := client.code(t).Get("code")
		st.clock.Advance(59 * time.Second)
		must.Do(client.Exchange(t.Context(), code, oauth2.VerifierOption(client.verifier))).Or(t)
	})
	withProvider(t, "a wrong verifier invalidates the code", func(t *testing.T, st *fixture) {
		client := st.party(t)
		client.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		code := client.code(t).Get("code")
		if _, err := client.Exchange(t.Context(), code, oauth2.VerifierOption("a wrong one")); err == nil {
			t.Error("the wrong verifier was accepted")
		}
		if _, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(client.verifier)); err == nil {
			t.Error("the code was still good")
		}
	})
	withProvider(t, "only one concurrent request gets tokens for a code", func(t *testing.T, st *fixture) {
		client := st.party(t)
		client.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		code := client.code(t).Get("code")
		results := make([]error, 16)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				_, results[i] = client.Exchange(t.Context(), code, oauth2.VerifierOption(client.verifier))
			})
		}
		all.Wait()
		good := 0
		for _, err := range results {
			if err == nil {
				good++
			}
		}
		if good != 1 {
			t.Errorf("%d got tokens: %v", good, results)
		}
	})
	t.Run("another kind of grant is refused", func(t *testing.T) {
		status, body := newFixture(t, t.TempDir()).script(t, "grant_type", "password", "client_id", devidp.ClientID, "email", "ada@example.com")
		if status != http.StatusBadRequest || body["error"] != "unsupported_grant_type" {
			t.Errorf("answered %d %v", status, body)
		}
	})
	withProvider(t, "only the application's origin may read the response", func(t *testing.T, st *fixture) {
		for origin, allowed := range map[string]string{"http://localhost:3000": "http://localhost:3000", "http://localhost:3001": ""} {
			r := forms.Request(st.provider.Issuer()+"/token", "grant_type=authorization_code&client_id="+devidp.ClientID, "")
			r.Header.Set("Origin", origin)
			if got := forms.New(t).Do(r).Header.Get("Access-Control-Allow-Origin"); got != allowed {
				t.Errorf("to %s: %q", origin, got)
			}
		}
	})
}

func TestAuthorizationRequest(t *testing.T) {
	for name, tt := range map[string]struct{ field, value string }{
		"an unknown client":                    {"client_id", "other"},
		"no client":                            {"client_id", ""},
		"an unknown redirect address":          {"redirect_uri", "https://evil.example/cb"},
		"no redirect address":                  {"redirect_uri", ""},
		"the right address with a slash added": {"redirect_uri", "http://localhost:3000/welcome/"},
		"the right address with a query":       {"redirect_uri", "http://localhost:3000/welcome?x=1"},
		"the right address on another port":    {"redirect_uri", "http://localhost:3001/welcome"},
	} {
		withProvider(t, name+" is an error on a page and never by redirect", func(t *testing.T, st *fixture) {
			p := forms.New(t).Open(st.party(t).address(oauth2.SetAuthURLParam(tt.field, tt.value)))
			if p.StatusCode != http.StatusBadRequest || p.Header.Get("Location") != "" || !strings.Contains(p.Text, tt.field) {
				t.Errorf("answered %s to %q:\n%s", p.Status, p.Header.Get("Location"), p.Text)
			}
		})
	}
	for name, tt := range map[string]struct{ field, value, error string }{
		"another response type":     {"response_type", "token", "unsupported_response_type"},
		"another response mode":     {"response_mode", "fragment", "invalid_request"},
		"a scope without openid":    {"scope", "profile", "invalid_scope"},
		"no challenge":              {"code_challenge", "", "invalid_request"},
		"a plain challenge":         {"code_challenge_method", "plain", "invalid_request"},
		"no challenge method":       {"code_challenge_method", "", "invalid_request"},
		"a challenge that is short": {"code_challenge", "abc", "invalid_request"},
		"a request object":          {"request", "eyJ", "request_not_supported"},
		"a request by reference":    {"request_uri", "https://evil.example", "request_uri_not_supported"},
		"a silent request":          {"prompt", "none", "login_required"},
	} {
		withProvider(t, name+" is an error for the client", func(t *testing.T, st *fixture) {
			client := st.party(t)
			got := client.response(t, forms.New(t).Open(client.address(oauth2.SetAuthURLParam(tt.field, tt.value))))
			if got.Get("error") != tt.error || got.Get("state") != client.state || got.Get("iss") != st.provider.Issuer() {
				t.Errorf("the client gets %v", got)
			}
		})
	}
	withProvider(t, "a repeated parameter is an error for the client", func(t *testing.T, st *fixture) {
		client := st.party(t)
		if got := client.response(t, forms.New(t).Open(client.address()+"&nonce=2")); got.Get("error") != "invalid_request" {
			t.Errorf("the client gets %v", got)
		}
	})
}

func TestScripts(t *testing.T) {
	withProvider(t, "the token of a new account", func(t *testing.T, st *fixture) {
		c := st.signedIn(t, "email", "Grace.Hopper@example.com", "org", "Navy Yard", "role", "org:ADMIN")
		if c.Name != "Grace Hopper" || c.Email != "Grace.Hopper@example.com" || c.Party != st.URL || c.Nonce != "" {
			t.Errorf("token says %+v", c)
		}
		if c.Org == nil || c.Org.Role != "admin" || c.Org.Slug != "navy-yard" {
			t.Errorf("token says %+v", c.Org)
		}
	})
	withProvider(t, "without a role a creator is owner, others are members, and roles are kept", func(t *testing.T, st *fixture) {
		for _, tt := range []struct{ email, org, role string }{
			{"ada@example.com", "Engines", "owner"},
			{"bob@example.com", "engines", "member"},
			{"ada@example.com", "  ENGINES ", "owner"},
			{"bob@example.com", "Own", "owner"},
		} {
			if c := st.signedIn(t, "email", tt.email, "org", tt.org); c.Org.Role != tt.role {
				t.Errorf("%s is %s of %s, want %s", tt.email, c.Org.Role, tt.org, tt.role)
			}
		}
	})
	withProvider(t, "an organisation is found by its id too", func(t *testing.T, st *fixture) {
		c := st.signedIn(t, "email", "ada@example.com", "org", "Engines")
		if d := st.signedIn(t, "email", "bob@example.com", "org", c.Org.ID); d.Org.ID != c.Org.ID {
			t.Errorf("%s became %s", c.Org.ID, d.Org.ID)
		}
	})
	t.Run("names with other letters make different organisations", func(t *testing.T) {
		st, seen := newFixture(t, t.TempDir()), map[string]string{}
		for _, name := range []string{"Zürich", "東京", "大阪", "東京 2", "!!!", "Engines"} {
			c := st.signedIn(t, "email", "ada@example.com", "org", name)
			if other, taken := seen[c.Org.ID]; taken || strings.Trim(c.Org.Slug, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || c.Org.Slug == "" {
				t.Errorf("%s is %s %q, as is %q", name, c.Org.ID, c.Org.Slug, other)
			}
			seen[c.Org.ID] = name
		}
		if c := st.signedIn(t, "email", "ada@example.com", "org", "zurich"); seen[c.Org.ID] != "Zürich" {
			t.Errorf("zurich is %+v", c.Org)
		}
	})
	for name, tt := range map[string]struct {
		fields []string
		says   string
	}{
		"no address":              {[]string{"name", "Ada"}, "email must not be empty"},
		"a broken address":        {[]string{"email", "ada@"}, "email must be an e-mail address"},
		"an unknown role":         {[]string{"email", "a@b", "org", "x", "role", "king"}, "role must be one of owner, admin, member, viewer"},
		"a role of nothing":       {[]string{"email", "a@b", "role", "admin"}, "org must name the organisation in which the role is meant"},
		"a long name":             {[]string{"email", "a@b", "name", strings.Repeat("x", 201)}, "name must be at most 200 characters"},
		"an id of nothing":        {[]string{"email", "a@b", "org", "org_" + strings.Repeat("x", 27)}, "org is not an organisation that exists here"},
		"an organisation's bytes": {[]string{"email", "a@b", "org", "\xff"}, "org must be valid UTF-8"},
	} {
		withProvider(t, name+" is refused by name", func(t *testing.T, st *fixture) {
			status, body := st.script(t, tt.fields...)
			if status != http.StatusBadRequest || body["message"] != tt.says || body["error"] != "Bad Request" || body["statusCode"] != float64(400) || len(body) != 3 {
				t.Errorf("answered %d %v", status, body)
			}
			st.service.Expect(t, "")
		})
	}
	withProvider(t, "another content type is unsupported and a huge form too large", func(t *testing.T, st *fixture) {
		for kind, want := range map[string]int{"application/json": 415, "application/x-www-form-urlencoded": 413, "multipart/form-data; boundary=x": 413} {
			body := "--x\r\nContent-Disposition: form-data; name=email\r\n\r\n" + strings.Repeat("a", 70<<10)
			res := must.Do(http.Post(st.provider.Issuer()+"/token", kind, strings.NewReader(body))).Or(t)
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s: answered %s", kind, res.Status)
			}
		}
	})
	withProvider(t, "a page of another site gets nothing", func(t *testing.T, st *fixture) {
		r := forms.Request(st.provider.Issuer()+"/token", "email=ada@example.com", "")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if p := forms.New(t).Do(r); p.StatusCode != http.StatusForbidden || len(st.service.Take()) != 0 {
			t.Errorf("answered %s", p.Status)
		}
	})
	withProvider(t, "concurrent requests for one address make one account", func(t *testing.T, st *fixture) {
		subjects := make([]string, 32)
		var all sync.WaitGroup
		for i := range subjects {
			all.Go(func() { subjects[i] = st.signedIn(t, "email", "ada@example.com", "org", "Engines").Subject })
		}
		all.Wait()
		for _, s := range subjects {
			if s != subjects[0] {
				t.Errorf("accounts %s and %s", s, subjects[0])
			}
		}
		st.service.Expect(t, "user.created organization.created organizationMembership.created")
	})
	t.Run("concurrent requests for many addresses lose none", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() { st.signedIn(t, "email", fmt.Sprintf("user%d@example.com", i), "org", "Engines") })
		}
		all.Wait()
		again := newFixture(t, directory)
		again.signedIn(t, "email", "user0@example.com") // redelivers events that were not marked as delivered
		again.service.Take()
		for i := range 32 {
			again.signedIn(t, "email", fmt.Sprintf("user%d@example.com", i), "org", "Engines")
		}
		again.service.Expect(t, "")
	})
}
