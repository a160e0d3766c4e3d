package oidc_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"collab/adapters/memory"
	"collab/adapters/oidc"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/ports"
	"collab/test/must"

	"github.com/go-jose/go-jose/v4"
)

const callback = "http://localhost:8080/api/v1/auth/cli-callback"

var flow = identity.Flow{Port: 4321, State: "the command line's", Own: "own-state", Nonce: "nonce-1", Verifier: strings.Repeat("v", 43)}

// redeem is the token endpoint (RFC 6749, RFC 7636).
func (i *issuer) redeem(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.exchanges = append(i.exchanges, r.PostForm)
	name, secret, _ := r.BasicAuth()
	i.basic = append(i.basic, [2]string{name, secret})
	g, ok := i.grants[r.PostForm.Get("code")]
	delete(i.grants, r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || r.Method != http.MethodPost || r.PostForm.Get("grant_type") != "authorization_code" || r.PostForm.Get("redirect_uri") != g.callback ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	if g.status != 0 {
		w.WriteHeader(g.status)
	}
	_, _ = w.Write([]byte(g.response))
}

// consent approves an authorization request and returns the code.
func (i *issuer) consent(t *testing.T, address, response string, status int) (code string) {
	t.Helper()
	u := must.Do(url.Parse(address)).Or(t)
	q := u.Query()
	i.set(func() { i.grants["code-1"] = grant{q.Get("code_challenge"), q.Get("redirect_uri"), status, response} })
	return "code-1"
}

func idToken(t *testing.T, i *issuer, key signer, c *memory.Clock, changes map[string]any) string {
	token := key.token(t, i.claims(c, map[string]any{"aud": "collab-cli", "nonce": flow.Nonce}, changes))
	return string(must.Get(json.Marshal(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})))
}

func start(t *testing.T, s ports.SignIn) string {
	t.Helper()
	return must.Do(s.Start(context.Background(), flow, callback)).Or(t)
}

func TestTheAuthorizationRequestHasAllParameters(t *testing.T) {
	i, c := newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
	address := start(t, i.provider(t, c).ByCode("collab-cli", ""))
	u := must.Get(url.Parse(address))
	if got := "http://" + u.Host + u.Path; got != i.URL+"/authorize" {
		t.Errorf("redirected to %s", got)
	}
	sum := sha256.Sum256([]byte(flow.Verifier))
	want := url.Values{
		"response_type": {"code"}, "client_id": {"collab-cli"}, "redirect_uri": {callback}, "scope": {"openid profile email"}, "state": {flow.Own},
		"nonce": {flow.Nonce}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if got := u.Query(); got.Encode() != want.Encode() {
		t.Errorf("redirected with %v, want %v", got, want)
	}
	if strings.Contains(address, flow.Verifier) {
		t.Error("the verifier is in the address")
	}
}

func TestACodeIsExchangedOnceForAVerifiedToken(t *testing.T) {
	for name, tt := range map[string]struct {
		secret  string
		methods any
		basic   [2]string
		form    url.Values
	}{
		"a public client":                     {"", nil, [2]string{}, url.Values{"client_id": {"collab-cli"}}},
		"a client with a secret":              {"s/1", nil, [2]string{"collab-cli", "s%2F1"}, url.Values{}},
		"a secret that may be in the header":  {"s", []string{"client_secret_post", "client_secret_basic"}, [2]string{"collab-cli", "s"}, url.Values{}},
		"a secret that must be in the body":   {"s", []string{"client_secret_post"}, [2]string{}, url.Values{"client_id": {"collab-cli"}, "client_secret": {"s"}}},
		"a public client whatever is offered": {"", []string{"client_secret_basic"}, [2]string{}, url.Values{"client_id": {"collab-cli"}}},
	} {
		key := signer{"k1", jose.EdDSA, edKey(1)}
		i, c := newIssuer(t, key), newClock()
		i.document["token_endpoint_auth_methods_supported"] = tt.methods
		p := i.provider(t, c)
		s := p.ByCode("collab-cli", tt.secret)
		r := identity.Return{Code: i.consent(t, start(t, s), idToken(t, i, key, c, nil), 0), State: flow.Own}
		token, err := s.Finish(context.Background(), flow, callback, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := verify(p, token); err != nil || got.Subject != "user_1" {
			t.Errorf("%s: the token is for %+v, %v", name, got, err)
		}
		tt.form["grant_type"], tt.form["code"] = []string{"authorization_code"}, []string{"code-1"}
		tt.form["redirect_uri"], tt.form["code_verifier"] = []string{callback}, []string{flow.Verifier}
		if len(i.exchanges) != 1 || i.exchanges[0].Encode() != tt.form.Encode() || i.basic[0] != tt.basic {
			t.Errorf("%s: the token endpoint got %v, %v", name, i.exchanges, i.basic)
		}
		if _, err := s.Finish(context.Background(), flow, callback, r); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: the code a second time gives %v", name, err)
		}
	}
}

func TestAResponseToAnotherSignInIsRefused(t *testing.T) {
	key := signer{"k1", jose.EdDSA, edKey(1)}
	for name, tt := range map[string]struct {
		changes  map[string]any // of the token
		document map[string]any
		response string
		back     func(*identity.Return)
		flow     func(*identity.Flow)
		callback string
		kind     fault.Kind
	}{
		"no fault":                              {kind: 99},
		"no state":                              {back: func(r *identity.Return) { r.State = "" }, kind: fault.Unauthenticated},
		"another state":                         {back: func(r *identity.Return) { r.State = "own-stata" }, kind: fault.Unauthenticated},
		"a flow without state":                  {back: func(r *identity.Return) { r.State = "" }, flow: func(f *identity.Flow) { f.Own = "" }, kind: fault.Unauthenticated},
		"the provider's error":                  {back: func(r *identity.Return) { r.Error, r.Code = "access_denied", "" }, kind: fault.Unauthenticated},
		"an error beside a code":                {back: func(r *identity.Return) { r.Error = "server_error" }, kind: fault.Unauthenticated},
		"no code":                               {back: func(r *identity.Return) { r.Code = "" }, kind: fault.Unauthenticated},
		"another code":                          {back: func(r *identity.Return) { r.Code = "code-2" }, kind: fault.Unauthenticated},
		"another issuer's answer":               {back: func(r *identity.Return) { r.Issuer = "https://evil.example.com" }, kind: fault.Unauthenticated},
		"no issuer though the provider says it": {document: map[string]any{"authorization_response_iss_parameter_supported": true}, kind: fault.Unauthenticated},
		"another verifier":                      {flow: func(f *identity.Flow) { f.Verifier = strings.Repeat("w", 43) }, kind: fault.Unauthenticated},
		"another callback":                      {callback: callback + "?port=1", kind: fault.Unauthenticated},
		"another nonce":                         {changes: map[string]any{"nonce": "nonce-2"}, kind: fault.Unauthenticated},
		"no nonce":                              {changes: map[string]any{"nonce": nil}, kind: fault.Unauthenticated},
		"no nonce in flow and token":            {changes: map[string]any{"nonce": nil}, flow: func(f *identity.Flow) { f.Nonce = "" }, kind: fault.Unauthenticated},
		"a token for another client":            {changes: map[string]any{"aud": "other"}, kind: fault.Unauthenticated},
		"a token without audience":              {changes: map[string]any{"aud": nil}, kind: fault.Unauthenticated},
		"a token that another client asked for": {changes: map[string]any{"azp": "other"}, kind: fault.Unauthenticated},
		"an expired token":                      {changes: map[string]any{"exp": 1}, kind: fault.Unauthenticated},
		"a token of another issuer":             {changes: map[string]any{"iss": "https://evil.example.com"}, kind: fault.Unauthenticated},
		"no token in the answer":                {response: `{"access_token":"a","token_type":"Bearer"}`, kind: fault.Unauthenticated},
		"a token that is no string":             {response: `{"access_token":"a","token_type":"Bearer","id_token":7}`, kind: fault.Unauthenticated},
		"an unsigned token":                     {response: `{"access_token":"a","token_type":"Bearer","id_token":"eyJhbGciOiJub25lIn0.e30."}`, kind: fault.Unauthenticated},
		"the issuer in the response":            {back: func(r *identity.Return) { r.Issuer = "the issuer" }, document: map[string]any{"authorization_response_iss_parameter_supported": true}, kind: 99},
	} {
		i, c := newIssuer(t, key), newClock()
		maps.Copy(i.document, tt.document)
		s := i.provider(t, c).ByCode("collab-cli", "")
		if tt.response == "" {
			tt.response = idToken(t, i, key, c, tt.changes)
		}
		r := identity.Return{Code: i.consent(t, start(t, s), tt.response, 0), State: flow.Own}
		if tt.back != nil {
			tt.back(&r)
		}
		if r.Issuer == "the issuer" {
			r.Issuer = i.URL
		}
		f := flow
		if tt.flow != nil {
			tt.flow(&f)
		}
		if tt.callback == "" {
			tt.callback = callback
		}
		token, err := s.Finish(context.Background(), f, tt.callback, r)
		if ok := tt.kind == 99; ok != (err == nil) || ok != (token != "") || !ok && !fault.Is(err, tt.kind) {
			t.Errorf("%s: %q, %v", name, token, err)
		}
		if err != nil && strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%s: the error contains a token: %v", name, err)
		}
	}
}

func TestFailuresOfTheProviderAreDistinguished(t *testing.T) {
	for name, tt := range map[string]struct {
		status   int
		response string
		want     fault.Kind
	}{
		"it refuses the code":      {400, `{"error":"invalid_grant","error_description":"secret-detail"}`, fault.Unauthenticated},
		"the client is unknown":    {401, `{"error":"invalid_client","error_description":"secret-detail"}`, fault.Internal},
		"it is overloaded":         {429, `secret-detail`, fault.Unavailable},
		"it fails":                 {500, `secret-detail`, fault.Unavailable},
		"it is unavailable":        {503, `secret-detail`, fault.Unavailable},
		"its response is not JSON": {200, `secret-detail`, fault.Unavailable},
	} {
		i, c := newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
		s := i.provider(t, c).ByCode("collab-cli", "")
		r := identity.Return{Code: i.consent(t, start(t, s), tt.response, tt.status), State: flow.Own}
		_, err := s.Finish(context.Background(), flow, callback, r)
		if err == nil || fault.KindOf(err) != tt.want || strings.Contains(err.Error(), "secret-detail") {
			t.Errorf("when %s: %v", name, err)
		}
		if len(i.exchanges) != 1 {
			t.Errorf("when %s: the code was sent %d times", name, len(i.exchanges))
		}
	}
	i, c := newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
	i.broken = true
	s := i.provider(t, c).ByCode("collab-cli", "")
	must.Fail(t, must.ErrorOf(s.Start(context.Background(), flow, callback)), fault.Unavailable) // without the provider
	must.Fail(t, must.ErrorOf(s.Finish(context.Background(), flow, callback, identity.Return{Code: "c", State: flow.Own})), fault.Unavailable)
	i, c = newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
	i.document["token_endpoint"] = nil
	if _, err := i.provider(t, c).ByCode("collab-cli", "").Start(context.Background(), flow, callback); err == nil {
		t.Error("a sign-in by code starts at a provider without codes")
	}
}

func TestASessionIsReadFromTheProvidersCookie(t *testing.T) {
	key := signer{"k1", jose.RS256, rsaKey()}
	i, c := newIssuer(t, key), newClock()
	p := i.provider(t, c, func(o *oidc.Options) { o.AuthorizedParties = []string{"https://app.example.com"} })
	s := must.Do(p.BySession("https://accounts.example.com/sign-in?theme=dark")).Or(t)
	back := callback + "?port=4321&state=a%26b"
	address := must.Do(s.Start(context.Background(), flow, back)).Or(t)
	u := must.Get(url.Parse(address))
	if u.Host != "accounts.example.com" || u.Path != "/sign-in" || u.Query().Get("theme") != "dark" || u.Query().Get("redirect_url") != back {
		t.Errorf("sent to %s", address)
	}
	if again := must.Get(s.Start(context.Background(), flow, callback)); must.Get(url.Parse(again)).Query().Get("redirect_url") != callback {
		t.Errorf("the second one is sent to %s", again)
	}
	good := key.token(t, i.claims(c, map[string]any{"azp": "https://app.example.com"}))
	must.Is(t, good, must.Do(s.Finish(context.Background(), flow, back, identity.Return{Session: good})).Or(t))
	for name, r := range map[string]identity.Return{
		"no cookie":               {},
		"a code instead":          {Code: "c", State: flow.Own},
		"an error":                {Session: good, Error: "access_denied"},
		"a cookie of something":   {Session: "abc"},
		"another party's session": {Session: key.token(t, i.claims(c, map[string]any{"azp": "https://evil.example.com"}))},
		"an expired session":      {Session: key.token(t, i.claims(c, map[string]any{"azp": "https://app.example.com", "exp": 1}))},
	} {
		if token, err := s.Finish(context.Background(), flow, back, r); !fault.Is(err, fault.Unauthenticated) || token != "" {
			t.Errorf("with %s: %q, %v", name, token, err)
		}
	}
	for _, page := range []string{"", "accounts.example.com", "javascript:alert(1)"} {
		if _, err := p.BySession(page); err == nil {
			t.Errorf("%q is accepted as a page", page)
		}
	}
}

func TestALogoutRequestNamesTheClientAndTheWayBack(t *testing.T) {
	const back = "http://localhost:8080/console/signed-out"
	for name, tt := range map[string]struct {
		end  any // of the discovery document
		want string
	}{
		"a provider with logout": {"https://id.example.com/logout?theme=dark", "https://id.example.com/logout?client_id=collab-cli&post_logout_redirect_uri=" + url.QueryEscape(back) + "&state=s+t&theme=dark"},
		"a provider without it":  {nil, ""},
	} {
		i, c := newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
		i.document["end_session_endpoint"] = tt.end
		p := i.provider(t, c)
		if got, err := p.ByCode("collab-cli", "secret").End(t.Context(), back, "s t"); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		bySession := must.Get(p.BySession("https://accounts.example.com/sign-in"))
		if got, err := bySession.End(t.Context(), back, "s t"); got != "" || err != nil {
			t.Errorf("%s, by session: %q, %v", name, got, err)
		}
	}
	i, c := newIssuer(t, signer{"k1", jose.EdDSA, edKey(1)}), newClock()
	i.document["end_session_endpoint"] = "javascript:alert(1)"
	if got, err := i.provider(t, c).ByCode("collab-cli", "").End(t.Context(), back, "s"); got != "" || err == nil {
		t.Errorf("an address that is none leads to %q, %v", got, err)
	}
}
