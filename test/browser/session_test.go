//go:build browser

package browser

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"collab/test/must"
)

// sessionProvider starts an identity provider that signs Ada in by a session cookie of the host, which the server shares,
// and that has no logout. It returns the provider's address.
func sessionProvider(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must.NoError(t, err)
	signer := must.Do(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, nil)).Or(t)
	mux, issuer := http.NewServeMux(), ""
	reply := func(of func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(of())
		}
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", reply(func() any {
		return map[string]any{"issuer": issuer, "jwks_uri": issuer + "/keys", "id_token_signing_alg_values_supported": []string{"EdDSA"}}
	}))
	mux.HandleFunc("GET /keys", reply(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1", Use: "sig", Algorithm: "EdDSA"}}}
	}))
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, r *http.Request) {
		back, err := url.Parse(r.URL.Query().Get("redirect_url"))
		if err != nil || back.Path != "/console/callback" {
			http.Error(w, "unknown redirect_url", http.StatusBadRequest)
			return
		}
		now := time.Now()
		token, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer, "sub": "user_ada", "azp": back.Scheme + "://" + back.Host, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
			"name": "Ada", "email": "ada@collab.example", "org_id": "org_1", "org_role": "org:admin", "org_slug": "engines",
		}).Serialize()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "__session", Value: token, Path: "/", SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
	})
	provider := httptest.NewServer(mux)
	t.Cleanup(provider.Close)
	issuer = strings.Replace(provider.URL, "127.0.0.1", "localhost", 1) // the host of the service
	return issuer
}

func TestConsoleWithAProviderThatSignsInBySession(t *testing.T) {
	issuer := sessionProvider(t)
	s := startServer(t, "COLLAB_IDENTITY_ISSUER="+issuer, "COLLAB_IDENTITY_SIGN_IN_URL="+issuer+"/sign-in", "COLLAB_IDENTITY_SESSION_COOKIE=__session")
	b := openTab(t)
	b.load(s.base+"/console/sessions", "Sign in to Collab")
	b.click(`//a[normalize-space()="Sign in"]`)
	b.waitConsole("Sessions")
	b.waitVisible(`//*[@class="badge" and .="This browser"]`)
	b.do(chromedp.Click(chromedp.CSS("button.account")), chromedp.WaitVisible(button("Sign out")))
	b.checkText("Ada", "ada@collab.example")
	b.click(button("Sign out"))
	b.waitConsole("You are signed out")
	if strings.Contains(b.text(), "Here, and at the identity provider") {
		t.Error("the provider, which has no logout, is said to have signed out")
	}
	b.do(chromedp.Reload())
	b.waitConsole("Sign in to Collab")
	b.clearProblems() // of 401
	b.checkProblems(s.base, issuer)
}
