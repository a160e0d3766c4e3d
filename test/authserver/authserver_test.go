package authserver_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"collab/test/authserver"
	"collab/test/must"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	redirect = "https://client.example/callback"
	resource = "https://tools.example/mcp"
	verifier = "verifier-verifier-verifier-verifier-verifier-verifier"
)

// address is that of the consent page, for a client known as "us".
func address(s *authserver.Server, change ...func(url.Values)) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {"us"}, "redirect_uri": {redirect}, "state": {"s"}, "resource": {resource},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"},
	}
	for _, c := range change {
		c(q)
	}
	return s.Issuer + "/authorize?" + q.Encode()
}

func approved(t *testing.T, s *authserver.Server, at string) url.Values {
	t.Helper()
	back := must.Do(s.Approve(at)).Or(t)
	return back.Query()
}

// send posts a form, and returns the response's status and object.
func send(t *testing.T, s *authserver.Server, form url.Values) (int, map[string]any) {
	t.Helper()
	r, err := http.PostForm(s.Issuer+"/token", form)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer r.Body.Close()
	var response map[string]any
	must.NoError(t, json.NewDecoder(r.Body).Decode(&response))
	return r.StatusCode, response
}

func codeForm(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		"client_id": {"us"}, "resource": {resource},
	}
}

func refreshForm(token any) url.Values {
	text, _ := token.(string) // none is seen by the server
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {text}, "client_id": {"us"}, "resource": {resource}}
}

func start(t *testing.T) *authserver.Server {
	t.Helper()
	s := authserver.Start(t, "/tenant")
	s.Know("us", "", "none", redirect)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

func TestAnAuthorizationRequestHasToBeRight(t *testing.T) {
	s := start(t)
	set := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	for name, test := range map[string]struct {
		change func(url.Values)
		want   string // the error it is sent back with; empty: it is not sent back
	}{
		"of an unknown client":   {set("client_id", "them"), ""},
		"to another address":     {set("redirect_uri", redirect+"/more"), ""},
		"with something twice":   {func(q url.Values) { q.Add("state", "t") }, ""},
		"without a resource":     {func(q url.Values) { q.Del("resource") }, "invalid_target"},
		"without a challenge":    {func(q url.Values) { q.Del("code_challenge") }, "invalid_request"},
		"with a plain challenge": {set("code_challenge_method", "plain"), "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := s.Approve(address(s, test.change))
			if test.want == "" {
				if err == nil {
					t.Errorf("sent back to %s", back)
				}
				return
			}
			if err != nil || back.Query().Get("error") == "" || back.Query().Get("iss") != s.Issuer || back.Query().Has("code") {
				t.Errorf("sent back to %v, %v", back, err)
			}
		})
	}
}

func TestACodeIsRedeemedOnceWithItsVerifier(t *testing.T) {
	s := start(t)
	for name, change := range map[string]func(url.Values){
		"another verifier": func(q url.Values) { q.Set("code_verifier", verifier+"x") },
		"no verifier":      func(q url.Values) { q.Del("code_verifier") },
		"another resource": func(q url.Values) { q.Set("resource", "https://other.example/") },
		"no resource":      func(q url.Values) { q.Del("resource") },
		"another address":  func(q url.Values) { q.Set("redirect_uri", "https://other.example/") },
		"another client":   func(q url.Values) { q.Set("client_id", "them") },
		"a secret":         func(q url.Values) { q.Set("client_secret", "x") },
	} {
		form := codeForm(approved(t, s, address(s)).Get("code"))
		change(form)
		if status, response := send(t, s, form); status < 400 || response["error"] == nil || response["access_token"] != nil {
			t.Errorf("%s: %d %v", name, status, response)
		}
	}
	code := approved(t, s, address(s)).Get("code")
	if status, response := send(t, s, codeForm(code)); status != 200 || !s.Valid(response["access_token"].(string)) {
		t.Errorf("%d %v", status, response)
	}
	if status, response := send(t, s, codeForm(code)); status != 400 {
		t.Errorf("again: %d %v", status, response)
	}
	if all := s.Redeemed(); len(all) != 1 || all[0] != code {
		t.Errorf("redeemed %v", all)
	}
}

func TestOfManyRefreshesAtOnceOneSucceeds(t *testing.T) {
	s := start(t)
	_, first := send(t, s, codeForm(approved(t, s, address(s)).Get("code")))
	old := first["refresh_token"]
	var wg sync.WaitGroup
	results := make(chan map[string]any, 8)
	for range cap(results) {
		wg.Go(func() {
			_, response := send(t, s, refreshForm(old))
			results <- response
		})
	}
	wg.Wait()
	close(results)
	var access []string
	for r := range results {
		if text, ok := r["access_token"].(string); ok {
			access = append(access, text)
		}
	}
	if len(access) != 1 || s.Reused() != 7 || !s.Valid(access[0]) || s.Valid(first["access_token"].(string)) {
		t.Errorf("%d access tokens, %d times reused", len(access), s.Reused())
	}

	s.Set(func(b *authserver.Script) { b.RevokesOnReuse = true })
	send(t, s, refreshForm(old))
	if s.Valid(access[0]) {
		t.Error("reuse is not punished")
	}
}
