package devidp

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"collab/adapters/devkit"
	"collab/domain/fault"
)

const (
	codeLifetime  = time.Minute
	tokenLifetime = time.Hour
)

// request is an authorization request whose client and redirect URI are valid.
type request struct {
	redirect  string
	state     string
	nonce     string
	challenge string
	hint      string // the e-mail address that the client expects
	silent    bool   // prompt=none: no page may be shown
}

// grant belongs to an authorization code.
type grant struct {
	session
	request
	expires time.Time
}

// oauthError is an error of OAuth that the client receives by redirect.
type oauthError struct{ code, description string }

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	p.site.Reply(w, http.StatusOK, map[string]any{
		"issuer":                 p.Issuer(),
		"authorization_endpoint": p.Issuer() + "/authorize",
		"token_endpoint":         p.Issuer() + "/token",
		"end_session_endpoint":   p.Issuer() + endSessionPath,
		"jwks_uri":               p.Issuer() + "/keys",
		"scopes_supported":       []string{"openid", "profile", "email"},
		"claims_supported": []string{
			"iss", "sub", "aud", "azp", "iat", "nbf", "exp", "jti", "nonce", "name", "email", "email_verified",
			"picture", "o",
		},
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code"},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{string(jose.ES256)},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic"},
		"prompt_values_supported":                        []string{"none", "login", "select_account"},
		"request_uri_parameter_supported":                false,
		"authorization_response_iss_parameter_supported": true,
	})
	return nil
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	p.site.Reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.public}})
	return nil
}

// redirects lists the registered redirect URIs.
func (p *Provider) redirects() []string {
	list := append([]string{p.public + p.options.CallbackPath}, p.options.Redirects...)
	if p.options.AppURL != "" {
		list = append(list, p.options.AppURL)
	}
	return list
}

var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// readRequest returns the authorization request in the query. After an error nothing of it
// may be used, the redirect URI included.
func (p *Provider) readRequest(r *http.Request) (request, *oauthError, error) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID {
		return request{}, nil, fault.Field("client_id", "is not a client of this provider")
	}
	if !slices.Contains(p.redirects(), q.Get("redirect_uri")) {
		return request{}, nil, fault.Field("redirect_uri", "is not an address that this client has registered")
	}
	req := request{
		redirect:  q.Get("redirect_uri"),
		state:     q.Get("state"),
		nonce:     q.Get("nonce"),
		challenge: q.Get("code_challenge"),
		hint:      q.Get("login_hint"),
		silent:    q.Get("prompt") == "none",
	}
	for name, values := range q {
		if len(values) > 1 {
			return req, &oauthError{"invalid_request", name + " is there more than once"}, nil
		}
	}
	switch {
	case q.Get("response_type") != "code":
		return req, &oauthError{"unsupported_response_type", "response_type must be code"}, nil
	case q.Has("response_mode") && q.Get("response_mode") != "query":
		return req, &oauthError{"invalid_request", "response_mode must be query"}, nil
	case !slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		return req, &oauthError{"invalid_scope", "scope must contain openid"}, nil
	case q.Get("code_challenge_method") != "S256":
		return req, &oauthError{"invalid_request", "code_challenge_method must be S256"}, nil
	case !challengeForm.MatchString(req.challenge):
		return req, &oauthError{"invalid_request", "code_challenge must be a SHA-256 in base64url"}, nil
	case q.Has("request"):
		return req, &oauthError{"request_not_supported", "request is not supported"}, nil
	case q.Has("request_uri"):
		return req, &oauthError{"request_uri_not_supported", "request_uri is not supported"}, nil
	case req.silent:
		return req, &oauthError{"login_required", "the provider has no sign-in sessions"}, nil
	}
	return req, nil, nil
}

const endSessionPath = "/end-session"

// endSession is the logout endpoint (OpenID Connect RP-Initiated Logout 1.0). The provider has no
// sessions, so there is nothing to end, and nobody to ask. Without a registered redirect URI the
// browser stays here.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		var err error
		if q, err = devkit.Form(r); err != nil {
			return err
		}
	}
	if q.Has("client_id") && q.Get("client_id") != ClientID {
		return fault.Field("client_id", "is not a client of this provider")
	}
	back := q.Get("post_logout_redirect_uri")
	if back == "" {
		return p.home(w, r)
	}
	if back != p.options.SignedOut || !q.Has("client_id") {
		return fault.Field("post_logout_redirect_uri", "is not an address that the client in client_id has registered")
	}
	if state := q.Get("state"); state != "" {
		back += "?" + url.Values{"state": {state}}.Encode()
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, back, http.StatusSeeOther)
	return nil
}

func (p *Provider) authorizePage(w http.ResponseWriter, r *http.Request) error {
	req, refused, err := p.readRequest(r)
	if err != nil {
		return err
	}
	if refused != nil {
		p.redirectError(w, r, req, *refused)
		return nil
	}
	p.showSignIn(w, r, http.StatusOK, signInView{request: &req, Email: req.hint})
	return nil
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) error {
	req, refused, err := p.readRequest(r)
	if err != nil {
		return err
	}
	fields, err := p.postedForm(r)
	if err != nil {
		return err
	}
	if refused == nil && fields.Get("action") == "cancel" {
		refused = &oauthError{"access_denied", "the sign-in was cancelled"}
	}
	if refused != nil {
		p.redirectError(w, r, req, *refused)
		return nil
	}
	s, err := p.signInSelected(r, fields)
	if fault.Is(err, fault.Invalid) {
		p.showSignIn(w, r, http.StatusBadRequest, viewOf(fields, err, &req))
		return nil
	}
	if err != nil {
		return err
	}
	code := p.options.Secrets.Secret()
	now := p.options.Clock.Now()
	p.mu.Lock()
	for hash, g := range p.grants {
		if !now.Before(g.expires) {
			delete(p.grants, hash)
		}
	}
	p.grants[sha256.Sum256([]byte(code))] = grant{s, req, now.Add(codeLifetime)}
	p.mu.Unlock()
	p.redirectBack(w, r, req, url.Values{"code": {code}})
	return nil
}

func (p *Provider) redirectError(w http.ResponseWriter, r *http.Request, req request, oauthErr oauthError) {
	p.redirectBack(w, r, req, url.Values{"error": {oauthErr.code}, "error_description": {oauthErr.description}})
}

// redirectBack redirects the browser to the client, with iss (RFC 9207).
func (p *Provider) redirectBack(w http.ResponseWriter, r *http.Request, req request, values url.Values) {
	values.Set("iss", p.Issuer())
	if req.state != "" {
		values.Set("state", req.state)
	}
	separator := "?"
	if strings.Contains(req.redirect, "?") {
		separator = "&"
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, req.redirect+separator+values.Encode(), http.StatusSeeOther)
}

// token is the token endpoint. A request without grant_type is one of a script.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) error {
	fields, err := devkit.Form(r)
	if err != nil {
		return err
	}
	if !fields.Has("grant_type") {
		return p.scriptToken(w, r, fields)
	}
	if origin := r.Header.Get("Origin"); origin != "" && slices.ContainsFunc(p.redirects(), func(uri string) bool { return devkit.Origin(uri) == origin }) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Vary", "Origin")
	}
	g, refused := p.redeem(r, fields)
	if refused != nil {
		status := http.StatusBadRequest
		if refused.code == "invalid_client" {
			status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", `Basic realm="Collab development identity"`)
		}
		p.site.Reply(w, status, map[string]string{"error": refused.code, "error_description": refused.description})
		return nil
	}
	token, err := p.issue(g.session, ClientID, g.nonce)
	if err != nil {
		return err
	}
	p.site.Reply(w, http.StatusOK, map[string]any{
		// Services take the identity token itself as the bearer token.
		"access_token": token, "id_token": token, "token_type": "Bearer",
		"expires_in": int(tokenLifetime.Seconds()), "scope": "openid profile email",
	})
	return nil
}

// redeem returns the grant of the code. The first use by an authenticated client
// invalidates the code, also if it fails.
func (p *Provider) redeem(r *http.Request, fields url.Values) (grant, *oauthError) {
	if !authenticated(r, fields) {
		return grant{}, &oauthError{"invalid_client", "the client is not known or its secret is wrong"}
	}
	if fields.Get("grant_type") != "authorization_code" {
		return grant{}, &oauthError{"unsupported_grant_type", "grant_type must be authorization_code"}
	}
	hash := sha256.Sum256([]byte(fields.Get("code")))
	p.mu.Lock()
	g, ok := p.grants[hash]
	delete(p.grants, hash)
	p.mu.Unlock()
	challenge := sha256.Sum256([]byte(fields.Get("code_verifier")))
	switch {
	case !ok || !p.options.Clock.Now().Before(g.expires):
		return grant{}, &oauthError{"invalid_grant", "the code is not known, used or expired"}
	case fields.Get("redirect_uri") != g.redirect:
		return grant{}, &oauthError{"invalid_grant", "redirect_uri is not the one that the code was sent to"}
	case subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(challenge[:])), []byte(g.challenge)) != 1:
		return grant{}, &oauthError{"invalid_grant", "code_verifier does not fit the code_challenge"}
	}
	return g, nil
}

// authenticated reports whether the request has the id of the client, which has no secret, in the
// Authorization header or the form.
func authenticated(r *http.Request, fields url.Values) bool {
	name, secret, basic := r.BasicAuth()
	if !basic {
		name, secret = fields.Get("client_id"), fields.Get("client_secret")
	}
	return name == ClientID && secret == ""
}

// issue signs an identity token for the session. Audience is empty for a token without a
// client.
func (p *Provider) issue(s session, audience, nonce string) (string, error) {
	now := p.options.Clock.Now()
	c := claims{
		Issuer: p.Issuer(), Subject: s.Account.ID, Audience: audience, AuthorizedParty: cmp.Or(audience, p.public),
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(tokenLifetime).Unix(),
		ID: p.options.IDs.New(), Nonce: nonce, Status: "active", Version: 2,
		Name: s.Account.Name, Email: s.Account.Email, EmailVerified: true, Picture: p.picture(s.Account.ID),
	}
	if s.Org.ID != "" {
		c.Org = &orgClaim{ID: s.Org.ID, Role: s.Role, Slug: s.Org.Slug}
	}
	return p.key.sign(c)
}

// scriptToken issues a token for an account to a script.
func (p *Provider) scriptToken(w http.ResponseWriter, r *http.Request, fields url.Values) error {
	// Pages of other sites can send forms and must not create accounts.
	if err := p.site.CheckOrigin(r); err != nil {
		return err
	}
	s := session{}
	err := p.update(r, func(b *state, now time.Time) (events []event, err error) {
		s, events, err = b.signIn(signInRequest{
			Email: fields.Get("email"), Name: fields.Get("name"), Org: fields.Get("org"), Role: fields.Get("role"),
		}, now)
		return events, err
	})
	if err != nil {
		return err
	}
	token, err := p.issue(s, "", "")
	if err != nil {
		return err
	}
	p.site.Reply(w, http.StatusOK, struct {
		IdentityToken string `json:"identityToken"`
	}{token})
	return nil
}
