package httpapi

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// fakeAuthorizer is an authorization server without a network.
type fakeAuthorizer struct {
	ports.Authorizer
	server connector.AuthServer
	redeem func() (connector.Credentials, error)
}

func (m *fakeAuthorizer) Discover(context.Context, connector.Provider, string) (connector.AuthServer, error) {
	return m.server, nil
}

func (m *fakeAuthorizer) Register(context.Context, connector.AuthServer, string) (connector.Client, *time.Time, error) {
	return connector.Client{ID: "client", Method: "none"}, nil, nil
}

func (m *fakeAuthorizer) AuthCodeURL(s connector.AuthServer, _ connector.Client, redirect, state, verifier string) (string, error) {
	return s.Authorization + "?" + url.Values{"redirect_uri": {redirect}, "state": {state}, "challenge": {id.Digest(verifier)}}.Encode(), nil
}

func (m *fakeAuthorizer) Exchange(context.Context, connector.AuthServer, connector.Client, string, string, string) (connector.Credentials, error) {
	return m.redeem()
}

// authorizationPages is an interface with an authorization that a user has started.
type authorizationPages struct {
	*api
	core    *harness.Deployment
	server  *fakeAuthorizer
	started connectors.Authorization
}

// newAuthorizationPages returns an interface where a user has started to authorise the provider. The names are those
// of the user and of the organisation.
func newAuthorizationPages(t *testing.T, p connector.Provider, user, organisation string, change ...func(*Options)) *authorizationPages {
	t.Helper()
	core, err := harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	must.NoError(t, err)
	e := &authorizationPages{core: core, server: &fakeAuthorizer{
		server: connector.AuthServer{Issuer: "https://issuer.example", Authorization: "https://sign-in.example/authorize", Registration: "https://issuer.example/register"},
		redeem: func() (connector.Credentials, error) {
			return connector.Credentials{Entries: `{"accessToken":"token-of-ada"}`}, nil
		},
	}}
	actor := must.Do(core.Join(t.Context(), "org_office", "user_ada", org.Owner)).Or(t)
	directory := core.Store.Directory()
	must.Do(directory.Users().Upsert(t.Context(), org.User{ProviderID: "user_ada"}, func(u org.User) (org.User, error) {
		u.Name, u.Email = user, "ada@example.com"
		return u, nil
	})).Or(t)
	must.Do(directory.Organisations().Upsert(t.Context(), org.Organisation{ProviderID: "org_office"}, func(o org.Organisation) (org.Organisation, error) {
		o.Name = organisation
		return o, nil
	})).Or(t)
	p.ID, p.Auth, p.Transport, p.URL, p.Enabled = "notes", connector.ServerMediated, connector.HTTP, "https://notes.example/mcp", true
	e.api = newAPI(t, append(change, func(o *Options) {
		o.Connectors = connectors.New(connectors.Options{
			Store: core.Store, Catalog: connector.NewCatalog([]connector.Provider{p}, nil), Authorizer: e.server, Sealer: newVault(t),
			Clock: core.Clock, IDs: core.IDs, Secrets: &memory.Secrets{}, Log: o.Log,
			Reauthorize: core.Access.Reauthorize, Locked: core.Access.Locked, Atomic: core.Access.Atomic, Origin: access.Origin,
			Page: o.PublicURL + AuthorizePath, Callback: o.PublicURL + CallbackPath,
		})
	})...)
	e.started = must.Do(e.Connectors.Start(t.Context(), actor, "", "notes")).Or(t)
	return e
}

// newNotesPages is newAuthorizationPages with fixed names.
func newNotesPages(t *testing.T, change ...func(*Options)) *authorizationPages {
	t.Helper()
	return newAuthorizationPages(t, connector.Provider{Name: "Notes"}, "Ada", "Office", change...)
}

// browse sends a request with the headers of a browser.
func (e *authorizationPages) browse(method, target, body string, change ...func(http.Header)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", publicURL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, fn := range change {
		fn(r.Header)
	}
	return send(e, r)
}

func withCookie(c *http.Cookie) func(http.Header) {
	return func(h http.Header) { h.Add("Cookie", c.Name+"="+c.Value) }
}

// cookie returns the only cookie of a response.
func cookie(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	all := w.Result().Cookies()
	if len(all) != 1 {
		t.Fatalf("%d: the cookies are %v", w.Code, all)
	}
	return all[0]
}

// prompt opens the page that asks for confirmation, and returns its form and its cookie.
func (e *authorizationPages) prompt(t *testing.T) (form url.Values, asked *http.Cookie) {
	t.Helper()
	w := e.browse(http.MethodGet, e.started.URL, "")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	form = url.Values{}
	for _, name := range []string{"state", "token"} {
		_, rest, ok := strings.Cut(w.Body.String(), `<input type="hidden" name="`+name+`" value="`)
		value, _, closed := strings.Cut(rest, `"`)
		if !ok || !closed {
			t.Fatalf("the form has no %s: %s", name, w.Body)
		}
		form.Set(name, html.UnescapeString(value))
	}
	return form, cookie(t, w)
}

// confirm submits the form of the prompt, and returns the cookie for the callback.
func (e *authorizationPages) confirm(t *testing.T) *http.Cookie {
	t.Helper()
	form, asked := e.prompt(t)
	w := e.browse(http.MethodPost, AuthorizePath, form.Encode(), withCookie(asked))
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return cookie(t, w)
}

// callback returns the target of the issuer's redirect with the parameters and the state.
func (e *authorizationPages) callback(params url.Values) string {
	params.Set("state", e.started.State)
	return connector.Redirect(CallbackPath, "https://issuer.example") + "?" + params.Encode()
}

// checkHidden checks the headers of pages that must not be stored, indexed, framed or named to other sites.
func checkHidden(t *testing.T, w *httptest.ResponseRecorder, referrer string) {
	t.Helper()
	checkHeader(t, w.Header(), map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": referrer, "X-Robots-Tag": "noindex", "X-Content-Type-Options": "nosniff",
	})
	if p := w.Header().Get("Content-Security-Policy"); w.Code != http.StatusSeeOther &&
		(!strings.HasPrefix(p, "default-src 'none';") || !strings.Contains(p, "frame-ancestors 'none'") || strings.Contains(p, "script-src")) {
		t.Errorf("the policy is %q", p)
	}
}

func TestAuthorizationPageEscapesNames(t *testing.T) {
	const evil = `</bdi><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;` + "\u202e"
	e := newAuthorizationPages(t, connector.Provider{Name: "provider" + evil}, "ada"+evil, "office"+evil)
	w := e.browse(http.MethodGet, e.started.URL, "")
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html; charset=utf-8") {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	checkHidden(t, w, "same-origin")
	for _, bad := range []string{"<script", "<img", "onerror='", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, name := range []string{"provider", "ada", "office"} {
		if !strings.Contains(html.UnescapeString(page), "<bdi>"+name+evil+"</bdi>") || strings.Contains(page, name+evil) {
			t.Errorf("the name of the %s is missing or not escaped: %s", name, page)
		}
	}
	for _, part := range []string{"<bdi>ada@example.com</bdi>", "<dd><bdi>sign-in.example</bdi></dd>", "<dd><bdi>notes.example</bdi></dd>", `<form method="post" action="/api/v1/mcp-oauth/authorize">`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
}

func TestAuthorizationPageWithoutNames(t *testing.T) {
	e := newAuthorizationPages(t, connector.Provider{Name: "Notes"}, "", "")
	page := e.browse(http.MethodGet, e.started.URL, "").Body.String()
	if !strings.Contains(page, "somebody without a name") || !strings.Contains(page, "<bdi>without a name</bdi>") {
		t.Error(page)
	}
}

func TestAuthorizationCookieAttributes(t *testing.T) {
	for public, want := range map[string]string{
		publicURL:               "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax",
		"http://localhost:8080": "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax",
	} {
		e := newNotesPages(t, func(o *Options) { o.PublicURL = public })
		prefix := ""
		if e.secure {
			prefix = "__Host-"
		}
		suffix := id.Digest(e.started.State)[:12]
		form, asked := e.prompt(t)
		if asked.Name != prefix+"collab_asked_"+suffix || asked.Raw != asked.Name+"="+asked.Value+want || len(asked.Value) < 26 {
			t.Errorf("the prompt sets %s", asked.Raw)
		}
		if _, other := e.prompt(t); other.Value == asked.Value {
			t.Error("two browsers have the same secret")
		}
		must.Is(t, asked.Raw, cookie(t, e.browse(http.MethodGet, e.started.URL, "", withCookie(asked))).Raw)
		if strings.Contains(form.Get("token"), asked.Value) {
			t.Error("the secret is in the page")
		}
		w := e.browse(http.MethodPost, AuthorizePath, form.Encode(), withCookie(asked), func(h http.Header) { h.Set("Origin", public) })
		confirmed := cookie(t, w)
		if w.Code != http.StatusSeeOther || confirmed.Name != prefix+"collab_confirmed_"+suffix || confirmed.Raw != confirmed.Name+"="+confirmed.Value+want {
			t.Errorf("%d: the form sets %s", w.Code, confirmed.Raw)
		}
		if to := w.Header().Get("Location"); !strings.HasPrefix(to, "https://sign-in.example/authorize?") {
			t.Errorf("the form redirects to %s", to)
		}
		checkHidden(t, w, "no-referrer")
		removed := cookie(t, e.browse(http.MethodGet, e.callback(url.Values{"code": {"code"}}), "", withCookie(confirmed)))
		if removed.Name != confirmed.Name || removed.Value != "" || removed.MaxAge != -1 || removed.Secure != e.secure {
			t.Errorf("the callback sets %s", removed.Raw)
		}
	}
}

func TestAuthorizationFormIsAcceptedFromItsPageOnly(t *testing.T) {
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	none := func(http.Header) {}
	field := func(name, value string) func(url.Values) {
		return func(v url.Values) { v.Set(name, value) }
	}
	same := func(url.Values) {}
	for name, test := range map[string]struct {
		header func(http.Header)
		form   func(url.Values)
		want   int
	}{
		"unchanged":           {none, same, 303},
		"no Origin":           {func(h http.Header) { h.Del("Origin"); h.Del("Sec-Fetch-Site") }, same, 303},
		"idempotency key":     {set("Idempotency-Key", "k"), same, 303},
		"reloaded":            {set("Sec-Fetch-Site", "none"), same, 303},
		"charset":             {set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8"), same, 303},
		"other site":          {set("Origin", "https://attacker.example"), same, 403},
		"other scheme":        {set("Origin", "http://collab.example"), same, 403},
		"other port":          {set("Origin", publicURL+":8443"), same, 403},
		"opaque origin":       {set("Origin", "null"), same, 403},
		"two origins":         {func(h http.Header) { h.Add("Origin", "https://attacker.example") }, same, 403},
		"cross-site":          {set("Sec-Fetch-Site", "cross-site"), same, 403},
		"same-site":           {set("Sec-Fetch-Site", "same-site"), same, 403},
		"no cookie":           {func(h http.Header) { h.Del("Cookie") }, same, 403},
		"empty cookie":        {func(h http.Header) { h.Set("Cookie", strings.SplitAfter(h.Get("Cookie"), "=")[0]) }, same, 403},
		"other cookie":        {func(h http.Header) { h.Set("Cookie", h.Get("Cookie")+"x") }, same, 403},
		"other token":         {none, field("token", confirmation("", "")), 403},
		"no token":            {none, func(v url.Values) { v.Del("token") }, 403},
		"token in upper case": {none, func(v url.Values) { v.Set("token", strings.ToUpper(v.Get("token"))) }, 403},
		"two tokens":          {none, func(v url.Values) { v.Add("token", v.Get("token")) }, 400},
		"other state":         {none, field("state", "other"), 403},
		"no state":            {none, field("state", ""), 400},
		"too long state":      {none, field("state", strings.Repeat("s", 201)), 400},
		"too long body":       {none, field("more", strings.Repeat("m", 8<<10)), 413},
		"JSON":                {set("Content-Type", "application/json"), same, 415},
		"multipart":           {set("Content-Type", "multipart/form-data; boundary=x"), same, 415},
		"plain text":          {set("Content-Type", "text/plain"), same, 415},
		"no content type":     {func(h http.Header) { h.Del("Content-Type") }, same, 415},
	} {
		t.Run(name, func(t *testing.T) {
			e := newNotesPages(t)
			form, asked := e.prompt(t)
			test.form(form)
			w := e.browse(http.MethodPost, AuthorizePath, form.Encode(), withCookie(asked), test.header)
			if w.Code != test.want {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			checkHidden(t, w, "no-referrer")
			if accepted := w.Code == http.StatusSeeOther; accepted != (len(w.Result().Cookies()) == 1) || accepted != (w.Header().Get("Location") != "") {
				t.Errorf("%v", w.Header())
			}
			if ct := w.Header().Get("Content-Type"); w.Code >= 400 && !strings.HasPrefix(ct, "text/html") {
				t.Errorf("the error is %s", ct)
			}
		})
	}
}

func TestAuthorizationOutcomePage(t *testing.T) {
	refusal := fault.Wrap(fault.Forbidden, errors.New("token-of-ada"), "The provider did not accept the authorization")
	for name, test := range map[string]struct {
		query  url.Values
		redeem error
		want   int
		text   string // in the page
	}{
		"connected":                {url.Values{"code": {"code-of-ada"}, "iss": {"https://issuer.example"}}, nil, 200, "<h1>Connected</h1>"},
		"no issuer":                {url.Values{"code": {"code-of-ada"}}, nil, 200, "You can close this window"},
		"declined":                 {url.Values{"error": {"access_denied"}, "error_description": {"code-of-ada"}}, nil, 403, "The authorization was declined"},
		"other error":              {url.Values{"error": {"<b>code-of-ada"}}, nil, 403, "refused the authorization"},
		"no code":                  {url.Values{}, nil, 403, "refused the authorization"},
		"other issuer":             {url.Values{"code": {"code-of-ada"}, "iss": {"https://attacker.example"}}, nil, 403, "does not come from the server"},
		"invalid code":             {url.Values{"code": {"code-of-ada"}}, refusal, 403, "The provider did not accept the authorization"},
		"provider unavailable":     {url.Values{"code": {"code-of-ada"}}, fault.New(fault.Unavailable, "The provider does not answer"), 503, "The provider does not answer"},
		"internal error":           {url.Values{"code": {"code-of-ada"}}, errors.New("token-of-ada"), 500, "Internal server error"},
		"two codes":                {url.Values{"code": {"code-of-ada", "b"}}, nil, 400, "must not be repeated"},
		"too long code":            {url.Values{"code": {strings.Repeat("c", maxCode+1)}}, nil, 400, "code must be at most 4096 bytes"},
		"too long issuer":          {url.Values{"iss": {strings.Repeat("i", maxIssuer+1)}}, nil, 400, "iss must be at most 2048 bytes"},
		"too long error":           {url.Values{"error": {strings.Repeat("e", maxRefusal+1)}}, nil, 400, "error must be at most 200 bytes"},
		"two of another parameter": {url.Values{"code": {"code-of-ada"}, "more": {"a", "b"}}, nil, 400, "must not be repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newNotesPages(t)
			if test.redeem != nil {
				e.server.redeem = func() (connector.Credentials, error) { return connector.Credentials{}, test.redeem }
			}
			confirmed := e.confirm(t)
			w := e.browse(http.MethodGet, e.callback(test.query), "", withCookie(confirmed))
			page := html.UnescapeString(w.Body.String())
			if w.Code != test.want || !strings.Contains(page, test.text) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			checkHidden(t, w, "no-referrer")
			if removed := len(w.Result().Cookies()) > 0; removed != (test.want != 503 && test.want != 400) {
				t.Errorf("the cookies are %v", w.Result().Cookies())
			}
			for _, secret := range []string{"code-of-ada", "token-of-ada", e.started.State, confirmed.Value, "<b>"} {
				if strings.Contains(page, secret) {
					t.Errorf("the page has %s", secret)
				}
			}
		})
	}
}

func TestAuthorizationExpires(t *testing.T) {
	e := newNotesPages(t)
	confirmed := e.confirm(t)
	form, asked := e.prompt(t)
	e.core.Clock.Advance(connector.FlowLifetime)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"prompt":   e.browse(http.MethodGet, e.started.URL, ""),
		"form":     e.browse(http.MethodPost, AuthorizePath, form.Encode(), withCookie(asked)),
		"callback": e.browse(http.MethodGet, e.callback(url.Values{"code": {"code"}}), "", withCookie(confirmed)),
	} {
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "10 minutes") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestOriginOfPublicURL(t *testing.T) {
	for address, want := range map[string]string{
		"https://collab.example": "https://collab.example", "https://Collab.Example:443/sub": "https://collab.example", "http://localhost:8080": "http://localhost:8080",
		"http://[::1]:80": "http://[::1]", "https://collab.example:80": "https://collab.example:80", "collab.example": "", "": "", "https://%zz": "",
	} {
		if got, err := originOf(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", address, got, err)
		}
	}
}

func TestFlowViewShowsRedeemingAsPending(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	redeemed, err := connector.Flow{Instance: "i", Browser: "b"}.Started(now).Redeemed("b", now)
	if err != nil || redeemed.Status() != connector.Redeeming {
		t.Fatalf("the flow is %s, %v", redeemed.Status(), err)
	}
	for want, f := range map[string]connector.Flow{
		`{"status":"pending","instanceId":"i","error":null}`: redeemed,
		`{"status":"ready","instanceId":"i","error":null}`:   redeemed.Done(),
		`{"status":"error","instanceId":"i","error":"Why"}`:  redeemed.Failed("Why"),
	} {
		must.Is(t, want, string(must.Do(appendView(nil, viewFlow(f))).Or(t)))
	}
}

func TestReadObjectReturnsItsStrings(t *testing.T) {
	d, problem := body.ReadObject([]byte(` {"a" : "\u00e9\n", "b": 1, "c": {"a": "inner"}, "d": "", "\u0065": "e"}`)[1:])
	if want := `{"a":"\u00e9\n","b":1,"c":{"a":"inner"},"d":"","\u0065":"e"}`; d.Text != want || problem != "" {
		t.Errorf("the text is %s, %s", d.Text, problem)
	}
	must.Equal(t, map[string]string{"a": "é\n", "d": "", "e": "e"}, d.Texts)
	for _, raw := range []string{`"a"`, `[]`, `7`, `true`} {
		if _, problem := body.ReadObject([]byte(raw)); problem != "must be a JSON object" {
			t.Errorf("%s: %q", raw, problem)
		}
	}
}
