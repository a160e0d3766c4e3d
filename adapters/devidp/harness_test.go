package devidp_test

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"collab/adapters/devidp"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/domain/fault"
	"collab/test/forms"
	"collab/test/must"
)

// fixture is a provider on a real listener, with a clock moved by hand.
type fixture struct {
	*httptest.Server
	provider    *devidp.Provider
	options     devidp.Options
	clock       *memory.Clock
	service     *forms.Service[event]
	invitations map[string]devidp.Invite
}

// event is what an event has besides its type.
type event struct {
	Object string         `json:"object"`
	At     int64          `json:"timestamp"`
	Data   map[string]any `json:"data"`
}

// withProvider runs a sub-test with a provider of its own.
func withProvider(t *testing.T, name string, test func(t *testing.T, st *fixture)) {
	t.Run(name, func(t *testing.T) { test(t, newFixture(t, t.TempDir())) })
}

// newFixture starts a provider whose files are in directory.
func newFixture(t *testing.T, directory string, change ...func(*devidp.Options)) *fixture {
	t.Helper()
	st := &fixture{
		clock:       memory.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		service:     &forms.Service[event]{},
		invitations: map[string]devidp.Invite{},
	}
	st.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { st.provider.ServeHTTP(w, r) }))
	t.Cleanup(st.Close)
	st.options = devidp.Options{
		Development: true, Listen: st.Listener.Addr().String(), PublicURL: st.URL,
		CallbackPath: "/api/v1/auth/cli-callback", ExchangePath: "/api/v1/auth/exchange-token",
		AppURL:  "http://localhost:3000/welcome",
		KeyFile: filepath.Join(directory, "identity.pem"), AccountsFile: filepath.Join(directory, "identity.json"),
		Clock: st.clock, IDs: &memory.IDs{}, Secrets: system.Secrets{},
		Emit: st.service.Emit,
		Invitation: func(_ context.Context, token string) (devidp.Invite, error) {
			if i, ok := st.invitations[token]; ok {
				return i, nil
			}
			return devidp.Invite{}, fault.Missing("Invitation")
		},
	}
	for _, c := range change {
		c(&st.options)
	}
	st.provider = must.Do(devidp.New(st.options)).Or(t)
	return st
}

// verify checks a token with the published keys, as a relying party does. An empty audience
// means any.
func (st *fixture) verify(t *testing.T, token, audience string) tokenClaims {
	t.Helper()
	provider := must.Do(oidc.NewProvider(t.Context(), st.provider.Issuer())).Or(t)
	verified := must.Do(provider.VerifierContext(t.Context(), &oidc.Config{
		ClientID: audience, SkipClientIDCheck: audience == "", Now: st.clock.Now,
	}).Verify(t.Context(), token)).Or(t)
	c := tokenClaims{}
	must.NoError(t, verified.Claims(&c))
	return c
}

type tokenClaims struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Party   string `json:"azp"`
	Nonce   string `json:"nonce"`
	Expires int64  `json:"exp"`
	Issued  int64  `json:"iat"`
	Version int    `json:"v"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Picture string `json:"picture"`
	Org     *struct {
		ID   string `json:"id"`
		Role string `json:"rol"`
		Slug string `json:"slg"`
	} `json:"o"`
}

// script requests a token for a script and returns the status and the body.
func (st *fixture) script(t *testing.T, fields ...string) (int, map[string]any) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	res := must.Do(http.PostForm(st.provider.Issuer()+"/token", values)).Or(t)
	defer res.Body.Close()
	body := map[string]any{}
	must.NoError(t, json.NewDecoder(res.Body).Decode(&body))
	return res.StatusCode, body
}

// signedIn requires that script succeeds and returns the token's claims.
func (st *fixture) signedIn(t *testing.T, fields ...string) tokenClaims {
	t.Helper()
	status, body := st.script(t, fields...)
	token, ok := body["identityToken"].(string)
	if status != http.StatusOK || !ok {
		t.Fatalf("script(%q) answered %d %v", fields, status, body)
	}
	return st.verify(t, token, "")
}

// textOf returns the contents of the page's text area with this id.
func textOf(t *testing.T, p forms.Page, id string) string {
	t.Helper()
	_, rest, found := strings.Cut(p.Text, `<textarea id="`+id+`"`)
	_, rest, _ = strings.Cut(rest, ">")
	text, _, closed := strings.Cut(rest, "</textarea>")
	if !found || !closed {
		t.Fatalf("no text area %s on this page (%s):\n%s", id, p.Status, p.Text)
	}
	return html.UnescapeString(text)
}
