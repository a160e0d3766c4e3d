package console

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/session"
	"collab/test/must"
)

const operatorSecret = "the operator's secret, which is long enough"

// fleet is what servers of one deployment share.
type fleet struct {
	t      *testing.T
	sealer *vault.Vault
	clock  *memory.Clock
	store  *memory.Store
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{t, newKeys(t), memory.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), memory.NewStore()}
}

func newKeys(t *testing.T) *vault.Vault {
	t.Helper()
	keys := must.Do(vault.Generate()).Or(t)
	return must.Do(vault.New(keys)).Or(t)
}

// consoleServer is a server of the fleet, whose interface says what it is asked.
type consoleServer struct {
	*Console
	fleet *fleet
}

func (f *fleet) server(secret, address string) *consoleServer {
	f.t.Helper()
	c, err := New(access.New(access.Options{Store: f.store, Sealer: f.sealer, Clock: f.clock, IDs: system.IDs{}, OperatorSecret: secret}), address)
	must.NoError(f.t, err)
	return &consoleServer{c, f}
}

// seen is what the interface behind the bridge sees of a request.
type seen struct {
	path     string
	operator bool
	header   http.Header
}

// bridged sends a request through the bridge.
func (s *consoleServer) bridged(path, token string, header http.Header) (got seen) {
	s.fleet.t.Helper()
	r := httptest.NewRequestWithContext(s.fleet.t.Context(), "GET", "https://collab.example.com"+path, nil)
	r.Header = http.Header{"Sec-Fetch-Site": {"same-origin"}, "Cookie": {s.opCookie + "=" + token}}
	for name, values := range header {
		r.Header[name] = values
	}
	s.Bridge("/api/v1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = seen{r.URL.EscapedPath(), access.ByOperator(r.Context()), r.Header}
	})).ServeHTTP(httptest.NewRecorder(), r)
	return got
}

// admits reports whether a token admits to the operators' endpoints.
func (s *consoleServer) admits(token string) bool {
	s.fleet.t.Helper()
	return s.bridged("/console/api/v1/admin/health", token, nil).operator
}

// post sends a request of a page with the cookie of a token.
func (s *consoleServer) post(path, token, body string) (*http.Response, error) {
	s.fleet.t.Helper()
	return s.send("POST", path, token, body, "same-origin")
}

func (s *consoleServer) send(method, path, token, body, site string) (*http.Response, error) {
	s.fleet.t.Helper()
	r := httptest.NewRequestWithContext(s.fleet.t.Context(), method, "https://collab.example.com"+path, strings.NewReader(body))
	r.Header = http.Header{"Cookie": {s.opCookie + "=" + token}}
	if site != "" {
		r.Header["Sec-Fetch-Site"] = []string{site}
	}
	w := httptest.NewRecorder()
	err := s.Serve(w, r, session.Client{Address: "192.0.2.1"}, "request-1")
	return w.Result(), err
}

// signIn gives the secret, and returns the cookie and the times of the session.
func (s *consoleServer) signIn() (*http.Cookie, operatorView) {
	s.fleet.t.Helper()
	res, err := s.post(operatorSignInPath, "", `{"secret": "`+operatorSecret+`"}`)
	if err != nil {
		s.fleet.t.Fatal(err)
	}
	return s.cookie(res)
}

// cookie returns the cookie that a response sets, and the times of the session.
func (s *consoleServer) cookie(res *http.Response) (*http.Cookie, operatorView) {
	s.fleet.t.Helper()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	var v operatorView
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if all := res.Cookies(); err != nil || len(all) != 1 || strings.Contains(string(text)+all[0].Raw, operatorSecret) {
		s.fleet.t.Fatalf("%s %v %v", text, res.Header, err)
	}
	return res.Cookies()[0], v
}

func TestTheSecretBeginsAnOperatorsSessionInACookieThatIsNotIt(t *testing.T) {
	f := newFleet(t)
	s := f.server(operatorSecret, "https://collab.example.com")
	cookie, v := s.signIn()
	if cookie.Name != "__Host-collab_operator" || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge != 900 {
		t.Errorf("the cookie is %s", cookie.Raw)
	}
	if now := f.clock.Now(); !v.ExpiresAt.Equal(now.Add(session.OperatorIdle)) || !v.EndsAt.Equal(now.Add(session.OperatorLifetime)) {
		t.Errorf("the session lasts until %+v", v)
	}
	if !s.admits(cookie.Value) {
		t.Error("the session does not admit")
	}
}

func TestASessionsCookieIsBoundToTheHostOverHTTPS(t *testing.T) {
	for address, name := range map[string]string{"https://collab.example.com": "__Host-collab_console", "http://localhost:8080": "collab_console_8080"} {
		s, response := newFleet(t).server("", address), httptest.NewRecorder()
		s.setCookie(response, s.browserCookie("secret"), time.Minute)
		c := response.Result().Cookies()[0]
		if c.Name != name || c.Secure != s.secure || s.secure != strings.HasPrefix(address, "https:") || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 60 {
			t.Errorf("%s: %v", address, c)
		}
	}
}

func TestAnOperatorsSessionIsThatOfAllServersAndOfNoOtherKeysOrSecret(t *testing.T) {
	f := newFleet(t)
	cookie, _ := f.server(operatorSecret, "https://collab.example.com").signIn()
	if !f.server(operatorSecret, "https://collab.example.com").admits(cookie.Value) {
		t.Error("another server, or the same after a restart, refuses it")
	}
	other := *f
	other.sealer = newKeys(t)
	for about, s := range map[string]*consoleServer{
		"with other keys":          other.server(operatorSecret, "https://collab.example.com"),
		"after a change of secret": f.server(operatorSecret+"!", "https://collab.example.com"),
		"without a secret":         f.server("", "https://collab.example.com"),
	} {
		if s.admits(cookie.Value) {
			t.Errorf("%s it is accepted", about)
		}
		if _, err := s.post(operatorSessionPath, cookie.Value, ""); !fault.Is(err, fault.Unauthenticated) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s it is renewed: %v", about, err)
		}
	}
}

func TestAnOperatorsSessionEndsUnusedAndInAnHour(t *testing.T) {
	f := newFleet(t)
	s := f.server(operatorSecret, "https://collab.example.com")
	first, v := s.signIn()
	token := first.Value
	for range 5 {
		f.clock.Advance(session.OperatorIdle - time.Minute)
		if !f.clock.Now().Before(v.EndsAt) {
			break
		}
		res := must.Do(s.post(operatorSessionPath, token, "")).Or(t)
		renewed, next := s.cookie(res)
		if token = renewed.Value; !next.EndsAt.Equal(v.EndsAt) || next.ExpiresAt.After(v.EndsAt) || !s.admits(token) {
			t.Fatalf("at %s it is renewed until %+v", f.clock.Now(), next)
		}
		if s.admits(first.Value) && f.clock.Now().Sub(v.ExpiresAt) >= 0 {
			t.Error("the first token does not expire")
		}
	}
	if _, err := s.post(operatorSessionPath, token, ""); s.admits(token) || !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("after an hour it lasts: %v", err)
	}
	unused, _ := s.signIn()
	f.clock.Advance(session.OperatorIdle)
	if _, err := s.post(operatorSessionPath, unused.Value, ""); s.admits(unused.Value) || !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("unused it lasts: %v", err)
	}
}

func TestForgedTokensOfOperatorsAreRefused(t *testing.T) {
	f := newFleet(t)
	s := f.server(operatorSecret, "https://collab.example.com")
	cookie, _ := s.signIn()
	raw := must.Do(base64.RawURLEncoding.DecodeString(cookie.Value)).Or(t)
	forged := []string{"", "x", operatorSecret, strings.Repeat("A", 43), cookie.Value + "A", cookie.Value[1:], strings.Repeat("A", 100_000), base64.RawURLEncoding.EncodeToString(raw[:16])}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		forged = append(forged, base64.RawURLEncoding.EncodeToString(changed))
	}
	// What the same keys authenticate for something else.
	mac := must.Do(f.sealer.MAC(raw[:16], []byte("something else"))).Or(t)
	forged = append(forged, base64.RawURLEncoding.EncodeToString(append(raw[:16:16], mac...)))
	for _, token := range forged {
		if s.admits(token) {
			t.Errorf("%.100q is accepted", token)
		}
		if _, err := s.post(operatorSessionPath, token, ""); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%.100q is renewed: %v", token, err)
		}
	}
	if !s.admits(cookie.Value) {
		t.Error("the real one is refused")
	}
}

func TestAnOperatorsSessionIsForPathsBelowAdminAlone(t *testing.T) {
	s := newFleet(t).server(operatorSecret, "https://collab.example.com")
	cookie, _ := s.signIn()
	for _, path := range []string{
		"/console/api/v1/tasks", "/console/api/v1/admin", "/console/api/v1/administrators", "/console/api/v1/%61dmin/health", "/console/api/v1/org/../admin/health",
		"/console/api/v1//admin/health", "/console/api/v1/admin%2Fhealth", "/api/v1/admin/health", "/console/operator", "/metrics",
	} {
		if got := s.bridged(path, cookie.Value, nil); got.operator {
			t.Errorf("%s is %s of an operator", path, got.path)
		}
	}
	for _, site := range []string{"cross-site", "same-site", "none", "Same-Origin", ""} {
		if got := s.bridged("/console/api/v1/admin/health", cookie.Value, http.Header{"Sec-Fetch-Site": {site}}); got.operator || got.path != refusedPath {
			t.Errorf("from %q it is %+v", site, got)
		}
	}
	if got := s.bridged("/console/api/v1/admin/health", cookie.Value, http.Header{"Sec-Fetch-Site": nil}); got.operator || got.path != refusedPath {
		t.Errorf("without Sec-Fetch-Site it is %+v", got)
	}
}

func TestTheBridgeTakesNoSecretFromHeaders(t *testing.T) {
	s := newFleet(t).server(operatorSecret, "https://collab.example.com")
	cookie, _ := s.signIn()
	for _, token := range []string{"", cookie.Value} {
		got := s.bridged("/console/api/v1/admin/health", token, http.Header{"X-Admin-Secret": {operatorSecret}, "Authorization": {"Bearer " + operatorSecret}})
		if len(got.header["X-Admin-Secret"])+len(got.header["Authorization"])+len(got.header["Cookie"]) > 0 || got.operator != (token != "") {
			t.Errorf("with the token %q it is %+v", token, got)
		}
	}
	if got := s.bridged("/api/v1/admin/health", "", http.Header{"X-Admin-Secret": {operatorSecret}}); got.header.Get("X-Admin-Secret") != operatorSecret {
		t.Error("the interface itself does not get the header")
	}
}

func TestOperatorsSignInsOfOtherSitesAndMalformedOnesAreRefused(t *testing.T) {
	s := newFleet(t).server(operatorSecret, "https://collab.example.com")
	right := `{"secret": "` + operatorSecret + `"}`
	for _, r := range []struct {
		method, body, site string
		kind               fault.Kind
	}{
		{"POST", right, "cross-site", fault.Forbidden},
		{"POST", right, "same-site", fault.Forbidden},
		{"POST", right, "none", fault.Forbidden},
		{"POST", right, "", fault.Forbidden},
		{"GET", right, "same-origin", fault.Forbidden},
		{"PUT", right, "same-origin", fault.Forbidden},
		{"POST", `{"secret": "wrong"}`, "same-origin", fault.Unauthenticated},
		{"POST", `{"secret": ""}`, "same-origin", fault.Invalid},
		{"POST", `{"secret": null}`, "same-origin", fault.Invalid},
		{"POST", `{"secret": ["x"]}`, "same-origin", fault.Invalid},
		{"POST", "", "same-origin", fault.Invalid},
		{"POST", "secret=" + operatorSecret, "same-origin", fault.Invalid},
		{"POST", `{"secret": "` + strings.Repeat("x", maxOperatorSecret) + `"}`, "same-origin", fault.Invalid},
	} {
		res, err := s.send(r.method, operatorSignInPath, "", r.body, r.site)
		if !fault.Is(err, r.kind) || len(res.Cookies()) > 0 {
			t.Errorf("%s %.60s from %q: %v %v", r.method, r.body, r.site, err, res.Header)
		}
		if err != nil && strings.Contains(err.Error(), operatorSecret) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
	for _, path := range []string{operatorSessionPath, operatorSignOutPath} {
		if _, err := s.send("POST", path, "", "", "cross-site"); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s from another site: %v", path, err)
		}
	}
	none := newFleet(t).server("", "https://collab.example.com")
	for _, body := range []string{right, `{"secret": ""}`, `{"secret": "x"}`} {
		if _, err := none.post(operatorSignInPath, "", body); err == nil || fault.Is(err, fault.Unauthenticated) {
			t.Errorf("without a secret %s: %v", body, err)
		}
	}
}

func TestAnOperatorSignsOut(t *testing.T) {
	s := newFleet(t).server(operatorSecret, "http://localhost:8080")
	res, err := s.post(operatorSignOutPath, "anything", "")
	if all := res.Cookies(); err != nil || res.StatusCode != http.StatusNoContent || len(all) != 1 || all[0].Name != "collab_operator_8080" || all[0].MaxAge >= 0 || all[0].Value != "" {
		t.Errorf("%s %v %v", res.Status, res.Header, err)
	}
}
