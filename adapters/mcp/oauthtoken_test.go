package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/test/authserver"
	"collab/test/must"

	"golang.org/x/oauth2"
)

func TestAnAuthorizationIsGrantedRenewedAndRevoked(t *testing.T) {
	for _, method := range []string{"none", "client_secret_basic", "client_secret_post"} {
		for _, path := range []string{"", "/tenant"} {
			t.Run(method+" at an issuer with path "+path, func(t *testing.T) {
				s := newFixture(t, path)
				s.auth.Set(func(b *authserver.Script) { b.Methods = []string{method} })
				s.tool.response(401, `Bearer scope="read write"`)
				server, client, code := s.consent(t)
				if client.Method != method || (client.Secret == "") != (method == "none") {
					t.Fatalf("registered %+v", client)
				}
				first := s.exchange(t, server, client, code)
				expires := now.Add(time.Hour)
				want := map[string]string{
					"accessToken": fields(t, first.Entries)["accessToken"], "tokenType": "Bearer", "scope": "read write",
					"expiresAt": "2026-03-04T06:06:07.000Z",
				}
				must.Equal(t, want, fields(t, first.Entries))
				if !first.Renewable || first.ExpiresAt == nil || !first.ExpiresAt.Equal(expires) {
					t.Errorf("got %v, %v", first.Renewable, first.ExpiresAt)
				}
				if !s.auth.Valid(want["accessToken"]) {
					t.Error("the access token is not valid")
				}

				second := must.Do(s.Renew(t.Context(), first.Renewal)).Or(t)
				access := fields(t, second.Entries)["accessToken"]
				if access == want["accessToken"] || !s.auth.Valid(access) || second.Renewal == first.Renewal {
					t.Errorf("renewed to %s", second.Entries)
				}
				if fields(t, second.Entries)["scope"] != "read write" {
					t.Errorf("renewed to %s", second.Entries)
				}

				must.NoError(t, s.Revoke(t.Context(), second.Renewal))
				if s.auth.Valid(access) {
					t.Error("the access token is valid still")
				}
				must.NoError(t, s.Revoke(t.Context(), second.Renewal))                            // the second time
				must.Fail(t, must.ErrorOf(s.Renew(t.Context(), second.Renewal)), fault.Forbidden) // renewed after that
				for _, r := range s.auth.Requests(authserver.Token) {
					if !slices.Equal(r.Form["resource"], []string{server.Resource}) || r.Header.Get("Accept") != "application/json" {
						t.Errorf("sent %v %v", r.Form, r.Header)
					}
				}
			})
		}
	}
}

func TestAClientIsRegistered(t *testing.T) {
	s := newFixture(t, "")
	server := s.discover(t)
	client, expires, err := s.Register(t.Context(), server, redirect)
	if err != nil || expires != nil || client.ID == "" || client.Secret == "" {
		t.Fatalf("got %+v, %v, %v", client, expires, err)
	}
	var sent map[string]any
	must.NoError(t, json.Unmarshal(s.auth.Requests(authserver.Registration)[0].Body, &sent))
	want := map[string]any{
		"redirect_uris": []any{redirect}, "application_type": "web", "client_name": "Collab", "client_uri": "https://collab.example",
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
		"token_endpoint_auth_method": "client_secret_basic",
	}
	must.Equal(t, want, sent)

	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s.auth.Set(func(b *authserver.Script) { b.SecretEnds = ends })
	if _, expires, err = s.Register(t.Context(), server, redirect); err != nil || expires == nil || !expires.Equal(ends) {
		t.Errorf("the secret expires %v, %v", expires, err)
	}
	server.Registration = ""
	if _, _, err = s.Register(t.Context(), server, redirect); !fault.Is(err, fault.Invalid) {
		t.Errorf("where there is no registration: %v", err)
	}
}

func TestTheStrongestSupportedMethodIsRegistered(t *testing.T) {
	for name, test := range map[string]struct {
		named []string
		want  []string
	}{
		"none named":   {nil, []string{"client_secret_basic"}},
		"all":          {[]string{"none", "private_key_jwt", "client_secret_post", "client_secret_basic"}, []string{"client_secret_basic", "client_secret_post", "none"}},
		"public alone": {[]string{"none"}, []string{"none"}},
		"no known one": {[]string{"private_key_jwt"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			s.auth.Set(func(b *authserver.Script) { b.Methods = test.named })
			server := s.discover(t)
			must.Equal(t, test.want, server.AuthMethods)
			if _, _, err := s.Register(t.Context(), server, redirect); (err == nil) != (len(test.want) > 0) {
				t.Errorf("registered with %v", err)
			}
		})
	}
}

func TestRegistrationResponses(t *testing.T) {
	for name, test := range map[string]struct {
		status   int
		response string
		want     connector.Client
		kind     fault.Kind // Internal: no error
	}{
		"a secret without a method": {201, `{"client_id":"a","client_secret":"b"}`, connector.Client{ID: "a", Secret: "b", Method: "client_secret_basic"}, 0},
		"another method":            {200, `{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"client_secret_post"}`, connector.Client{ID: "a", Secret: "b", Method: "client_secret_post"}, 0},
		"a method without a secret": {201, `{"client_id":"a","token_endpoint_auth_method":"client_secret_basic"}`, connector.Client{ID: "a", Method: "none"}, 0},
		"a secret for nothing":      {201, `{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"none"}`, connector.Client{ID: "a", Method: "none"}, 0},
		"unknown fields":            {201, `{"client_id":"a","jwks":{},"contacts":null,"client_id_issued_at":"x","client_secret_expires_at":null}`, connector.Client{ID: "a", Method: "none"}, 0},
		"a method that we lack":     {201, `{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"private_key_jwt"}`, connector.Client{}, fault.Unavailable},
		"another address":           {201, `{"client_id":"a","redirect_uris":["https://evil.example/"]}`, connector.Client{}, fault.Unavailable},
		"no id":                     {201, `{}`, connector.Client{}, fault.Unavailable},
		"an id with a line break":   {201, `{"client_id":"a\r\nb"}`, connector.Client{}, fault.Unavailable},
		"an enormous secret":        {201, `{"client_id":"a","client_secret":"` + strings.Repeat("b", 3000) + `"}`, connector.Client{}, fault.Unavailable},
		"a page":                    {200, `<!doctype html>`, connector.Client{}, fault.Unavailable},
		"a refusal":                 {400, `{"error":"invalid_redirect_uri"}`, connector.Client{}, fault.Forbidden},
		"status 401":                {401, ``, connector.Client{}, fault.Forbidden},
		"a redirect":                {307, ``, connector.Client{}, fault.Forbidden},
		"too many":                  {429, `{"client_id":"a"}`, connector.Client{}, fault.Unavailable},
		"status 502":                {502, ``, connector.Client{}, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			server := s.discover(t)
			s.auth.Fail(authserver.Registration, func(_ *authserver.Server, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.response))
			}, 1)
			got, _, err := s.Register(t.Context(), server, redirect)
			if fault.KindOf(err) != test.kind || (err == nil) != (test.kind == 0) {
				t.Errorf("got %v", err)
			}
			must.Equal(t, test.want, got)
		})
	}
}

func TestAPageHasEachParameterOnce(t *testing.T) {
	s := newFixture(t, "")
	server := connector.AuthServer{
		Authorization: "https://a.example/go?tenant=x&tenant=y&prompt=&response_type=token" +
			"&client_id=theirs&state=theirs&resource=theirs&scope=theirs",
		Resource: "https://b.example/mcp?c=d", Scopes: []string{"e", "f g"},
	}
	page := must.Do(s.AuthCodeURL(server, connector.Client{ID: "h&i"}, redirect, state, verifier)).Or(t)
	u := must.Do(url.Parse(page)).Or(t)
	want := url.Values{
		"tenant": {"x"}, "prompt": {""}, "response_type": {"code"}, "client_id": {"h&i"}, "redirect_uri": {redirect}, "state": {state},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"},
		"resource": {"https://b.example/mcp?c=d"}, "scope": {"e f g"},
	}
	must.Equal(t, want, u.Query())
	if !strings.HasPrefix(page, "https://a.example/go?") {
		t.Error(page)
	}
}

func TestRefreshTokensAreRotatedOrKept(t *testing.T) {
	for name, test := range map[string]struct {
		refreshing authserver.RefreshMode
		same       bool // the renewal stays as it is
	}{
		"rotated":   {authserver.RotateToken, false},
		"repeated":  {authserver.RepeatToken, true},
		"forgotten": {authserver.OmitToken, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			s.auth.Set(func(b *authserver.Script) { b.Refreshing, b.RevokesOnReuse = test.refreshing, true })
			c := s.authorise(t)
			for range 3 {
				next := must.Do(s.Renew(t.Context(), c.Renewal)).Or(t)
				if !next.Renewable || (next.Renewal == c.Renewal) != test.same || !s.auth.Valid(fields(t, next.Entries)["accessToken"]) {
					t.Fatalf("got %+v after %+v", next, c)
				}
				c = next
			}
			must.Is(t, 0, s.auth.Reused())
		})
	}
}

func TestAnAuthorizationWithoutARefreshToken(t *testing.T) {
	s := newFixture(t, "")
	s.auth.Set(func(b *authserver.Script) { b.Refreshing = authserver.NoRefreshTokens })
	c := s.authorise(t)
	access := fields(t, c.Entries)["accessToken"]
	if c.Renewable || c.Renewal == "" || c.ExpiresAt == nil {
		t.Fatalf("got %+v", c)
	}
	must.Fail(t, must.ErrorOf(s.Renew(t.Context(), c.Renewal)), fault.Forbidden)
	if err := s.Revoke(t.Context(), c.Renewal); err != nil || s.auth.Valid(access) {
		t.Errorf("revoked: %v", err)
	}
	must.Equal(t, []string{access}, s.auth.Revoked())
	s.auth.Set(func(b *authserver.Script) { b.Revokes = false })
	if c = s.authorise(t); c.Renewal != "" || c.Renewable {
		t.Errorf("got %+v where nothing can be done with it", c)
	}
}

func TestAServerWithoutRevocationIsNotAsked(t *testing.T) {
	s := newFixture(t, "")
	s.auth.Set(func(b *authserver.Script) { b.Revokes = false })
	must.NoError(t, s.Revoke(t.Context(), s.authorise(t).Renewal))
	must.Is(t, 0, len(s.auth.Requests(authserver.Revocation)))
}

func TestALifetimeIsBounded(t *testing.T) {
	long := now.Add(366 * 24 * time.Hour)
	second := now.Add(time.Second)
	for name, test := range map[string]struct {
		expires any
		want    *time.Time
	}{
		"a second":        {1, &second},
		"a text":          {"1", &second},
		"a fraction more": {1.9, &second},
		"none":            {0, nil},
		"negative":        {-3600, nil},
		"less than one":   {0.5, nil},
		"no number":       {"soon", nil},
		"null":            {nil, nil},
		"a list":          {[]int{1}, nil},
		"NaN":             {"NaN", nil},
		"a thousand years": {
			1000 * 366 * 24 * 3600, &long,
		},
		"beyond an integer": {json.Number("1e300"), &long},
		"infinite":          {"Inf", &long},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			s.auth.Set(func(b *authserver.Script) { b.Answer = func(m map[string]any) { m["expires_in"] = test.expires } })
			c := s.authorise(t)
			must.Equal(t, test.want, c.ExpiresAt)
			if _, ok := fields(t, c.Entries)["expiresAt"]; ok != (test.want != nil) {
				t.Error(c.Entries)
			}
		})
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no access token":                func(m map[string]any) { delete(m, "access_token") },
		"another type":                   func(m map[string]any) { m["token_type"] = "DPoP" },
		"no type":                        func(m map[string]any) { delete(m, "token_type") },
		"an access token of two lines":   func(m map[string]any) { m["access_token"] = "a\r\nX: b" },
		"an access token with a space":   func(m map[string]any) { m["access_token"] = "a b" },
		"an enormous access token":       func(m map[string]any) { m["access_token"] = strings.Repeat("a", 20_000) },
		"an enormous refresh token":      func(m map[string]any) { m["refresh_token"] = strings.Repeat("a", 20_000) },
		"a refresh token of two lines":   func(m map[string]any) { m["refresh_token"] = "a\nb" },
		"an access token that is no one": func(m map[string]any) { m["access_token"] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			server, client, code := s.consent(t)
			s.auth.Set(func(b *authserver.Script) { b.Answer = change })
			if c, err := s.Exchange(t.Context(), server, client, redirect, code, verifier); !fault.Is(err, fault.Unavailable) {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
}

func TestTheScopeIsTheGrantedOne(t *testing.T) {
	s := newFixture(t, "")
	s.tool.response(401, `Bearer scope="read write"`)
	for scope, want := range map[any]string{"read": "read", nil: "read write", "": "read write", "\"\"": "read write"} {
		s.auth.Set(func(b *authserver.Script) { b.Answer = func(m map[string]any) { m["scope"] = scope } })
		c := s.authorise(t)
		if got := fields(t, c.Entries)["scope"]; got != want {
			t.Errorf("%v granted is %q", scope, got)
		}
		s.auth.Set(func(b *authserver.Script) { b.Answer = func(m map[string]any) { delete(m, "scope") } })
		next := must.Do(s.Renew(t.Context(), c.Renewal)).Or(t)
		if got := fields(t, next.Entries)["scope"]; got != want {
			t.Errorf("%v granted is %q when renewed", scope, got)
		}
	}
}

// tokensWithStatus replies with tokens and another status than 200.
func tokensWithStatus(status int) authserver.Fault {
	return func(_ *authserver.Server, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"access_token":"a","token_type":"Bearer"}`))
	}
}

// outcomes are responses of a token endpoint and the kinds of their errors.
var outcomes = map[string]struct {
	fault   authserver.Fault
	kind    fault.Kind
	unknown bool // the client is unknown
	hangs   bool
}{
	"invalid_grant":                     {authserver.Refuse(400, "invalid_grant"), fault.Forbidden, false, false},
	"unauthorized_client":               {authserver.Refuse(400, "unauthorized_client"), fault.Forbidden, false, false},
	"access_denied":                     {authserver.Refuse(403, "access_denied"), fault.Forbidden, false, false},
	"invalid_target":                    {authserver.Refuse(400, "invalid_target"), fault.Forbidden, false, false},
	"an unknown code":                   {authserver.Refuse(400, "out_of_cheese"), fault.Forbidden, false, false},
	"an error with status 200":          {authserver.Refuse(200, "bad_verification_code"), fault.Forbidden, false, false},
	"invalid_client":                    {authserver.Refuse(401, "invalid_client"), fault.Forbidden, true, false},
	"invalid_client with status 400":    {authserver.Refuse(400, "invalid_client"), fault.Forbidden, true, false},
	"invalid_client of a broken server": {authserver.Refuse(500, "invalid_client"), fault.Unavailable, false, false},
	"temporarily_unavailable":           {authserver.Refuse(400, "temporarily_unavailable"), fault.Unavailable, false, false},
	"server_error":                      {authserver.Refuse(400, "server_error"), fault.Unavailable, false, false},
	"an echo of all":                    {authserver.Echo(400, "invalid_grant"), fault.Forbidden, false, false},
	"an echo in the code itself":        {authserver.Echo(400, ""), fault.Forbidden, false, false},
	"an echo for an unknown client":     {authserver.Echo(401, "invalid_client"), fault.Forbidden, true, false},
	"an echo that is no HTTP":           {authserver.Garble, fault.Unavailable, false, false},
	"a page":                            {authserver.Status(200), fault.Unavailable, false, false},
	"a proxy's page":                    {authserver.Status(403), fault.Unavailable, false, false},
	"nothing there":                     {authserver.Status(404), fault.Unavailable, false, false},
	"a 401 without a code":              {authserver.Status(401), fault.Unavailable, false, false},
	"an enormous answer":                {authserver.Enormous, fault.Unavailable, false, false},
	"no answer":                         {authserver.Hang, fault.Unavailable, false, true},
	"half an answer":                    {authserver.Stall, fault.Unavailable, false, true},
	"a closed connection":               {authserver.Cut, fault.Unavailable, false, false},
	"tokens with status 404":            {tokensWithStatus(404), fault.Unavailable, false, false},
	"tokens with a redirect":            {tokensWithStatus(302), fault.Unavailable, false, false},
	"a broken server":                   {authserver.Status(500), fault.Unavailable, false, false},
	"a busy server":                     {authserver.Status(429), fault.Unavailable, false, false},
	"a redirect into a private network": {authserver.Redirect("http://10.0.0.1/token"), fault.Unavailable, false, false},
	"a redirect to an invalid address":  {authserver.Redirect("http://[::1"), fault.Invalid, false, false},
}

func TestRefusalsAndOutagesAreDistinguished(t *testing.T) {
	for name, test := range outcomes {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			server, client, code := s.consent(t)
			s.auth.Fail(authserver.Token, test.fault, 1)
			_, err := s.authorizer(test.hangs).Exchange(t.Context(), server, client, redirect, code, verifier)
			check := func(what string, err error) {
				t.Helper()
				var unknown *connector.UnknownClient
				if fault.KindOf(err) != test.kind || errors.As(err, &unknown) != test.unknown {
					t.Errorf("%s: %v, of kind %d", what, err, fault.KindOf(err))
				}
				if unknown != nil && (unknown.Issuer != server.Issuer || unknown.Client != client.ID) {
					t.Errorf("%s: %+v is unknown", what, unknown)
				}
			}
			check("redeemed", err)
			s.auth.Fail(authserver.Token, nil, 0)
			c, err := s.Exchange(t.Context(), server, client, redirect, code, verifier)
			must.NoError(t, err)
			s.auth.Fail(authserver.Token, test.fault, 1)
			_, err = s.authorizer(test.hangs).Renew(t.Context(), c.Renewal)
			check("renewed", err)
			s.auth.Fail(authserver.Token, nil, 0)
			if _, err = s.Renew(t.Context(), c.Renewal); err != nil {
				t.Errorf("and then: %v", err)
			}
		})
	}
}

func TestARevocationThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		fault authserver.Fault
		kind  fault.Kind // Internal: no error
		hangs bool
	}{
		"revoked already":                {authserver.Refuse(400, "invalid_token"), 0, false},
		"revoked already, invalid_grant": {authserver.Refuse(400, "invalid_grant"), 0, false},
		"refused":                        {authserver.Refuse(400, "unsupported_token_type"), fault.Forbidden, false},
		"of an unknown client":           {authserver.Refuse(401, "invalid_client"), fault.Forbidden, false},
		"refused with a page":            {authserver.Status(403), fault.Forbidden, false},
		"broken":                         {authserver.Status(503), fault.Unavailable, false},
		"busy":                           {authserver.Status(429), fault.Unavailable, false},
		"temporarily_unavailable":        {authserver.Refuse(400, "temporarily_unavailable"), fault.Unavailable, false},
		"without an answer":              {authserver.Hang, fault.Unavailable, true},
		"cut off":                        {authserver.Cut, fault.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			c := s.authorise(t)
			s.auth.Fail(authserver.Revocation, test.fault, 1)
			err := s.authorizer(test.hangs).Revoke(t.Context(), c.Renewal)
			if fault.KindOf(err) != test.kind || (err == nil) != (test.kind == 0) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestARedirectIsNotFollowedWithSecrets(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(elsewhere.Close)
	s := newFixture(t, "")
	server, client, code := s.consent(t)
	c := s.exchange(t, server, client, code)
	for _, e := range []authserver.Endpoint{authserver.Token, authserver.Registration, authserver.Revocation} {
		s.auth.Fail(e, authserver.Redirect(elsewhere.URL), -1)
	}
	_, _, registered := s.Register(t.Context(), server, redirect)
	_, exchanged := s.Exchange(t.Context(), server, client, redirect, code, verifier)
	_, renewed := s.Renew(t.Context(), c.Renewal)
	revoked := s.Revoke(t.Context(), c.Renewal)
	for _, err := range []error{registered, exchanged, renewed, revoked} {
		if err == nil {
			t.Error("there was no error")
		}
	}
	must.Is(t, 0, reached.Load())
}

func TestASecretOfAnyCharactersIsSent(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			s := newFixture(t, "")
			s.auth.Set(func(b *authserver.Script) { b.Methods = []string{method} })
			s.auth.Know("known: us", "sec%ret +", method, redirect)
			server := s.discover(t)
			client := connector.Client{ID: "known: us", Secret: "sec%ret +", Method: method}
			must.Do(s.Exchange(t.Context(), server, client, redirect, s.agree(t, server, client), verifier)).Or(t)
		})
	}
}

func TestAMetadataDocumentIdentifiesAClient(t *testing.T) {
	s := newFixture(t, "")
	s.auth.Set(func(b *authserver.Script) { b.Documents = true })
	at := s.tool.url + "/.well-known/client"
	s.tool.put("/.well-known/client", `{"client_id":"`+at+`","redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none"}`)
	server, client := s.discover(t), connector.Client{ID: at}
	c := s.exchange(t, server, client, s.agree(t, server, client))
	must.Do(s.Renew(t.Context(), c.Renewal)).Or(t)
}

func TestAnInvalidGrantIsAnError(t *testing.T) {
	s := newFixture(t, "")
	for _, text := range []string{"", "secret-renewal", `{"version":2}`, `{"version":"secret-renewal"}`, `[]`} {
		_, renewed := s.Renew(t.Context(), text)
		for _, err := range []error{renewed, s.Revoke(t.Context(), text)} {
			if err == nil || strings.Contains(err.Error(), "secret-renewal") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

func TestErrorsContainNoSecrets(t *testing.T) {
	for name, test := range outcomes {
		for _, method := range []string{"client_secret_basic", "client_secret_post"} {
			t.Run(name+", "+method, func(t *testing.T) {
				s := newFixture(t, "")
				s.auth.Set(func(b *authserver.Script) { b.Methods = []string{method} })
				server, client, code := s.consent(t)
				c := s.exchange(t, server, client, code)
				secrets := []string{
					code, verifier, client.Secret, fields(t, c.Entries)["accessToken"], fields(t, c.Renewal)["refresh"],
					base64.StdEncoding.EncodeToString([]byte(client.ID + ":" + client.Secret)),
				}
				if slices.Contains(secrets, "") {
					t.Fatalf("one of %q is empty", secrets)
				}
				for _, e := range []authserver.Endpoint{authserver.Token, authserver.Registration, authserver.Revocation, authserver.Metadata} {
					s.auth.Fail(e, test.fault, -1)
				}
				a := s.authorizer(test.hangs)
				_, discovered := a.Discover(t.Context(), connector.Provider{}, s.tool.address+"?key="+code)
				_, _, registered := a.Register(t.Context(), server, redirect+"?code="+code)
				_, exchanged := a.Exchange(t.Context(), server, client, redirect, code, verifier)
				_, renewed := a.Renew(t.Context(), c.Renewal)
				revoked := a.Revoke(t.Context(), c.Renewal)
				for _, err := range []error{discovered, registered, exchanged, renewed, revoked} {
					for ; err != nil; err = errors.Unwrap(err) {
						text := fmt.Sprintf("%v %+v", err, err)
						for _, secret := range secrets {
							if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) {
								t.Errorf("%s is in %s", secret, text)
							}
						}
					}
				}
			})
		}
	}
}
