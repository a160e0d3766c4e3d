package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Methods of client authentication (RFC 7591, section 2).
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
)

// authMethods returns the server's methods that this service supports. A server that names
// none has the default of RFC 8414.
func authMethods(supported []string) []string {
	if len(supported) == 0 {
		return []string{authBasic}
	}
	return slices.DeleteFunc([]string{authBasic, authPost, authNone}, func(m string) bool {
		return !slices.Contains(supported, m)
	})
}

// clientInformation is a client information response (RFC 7591, section 3.2.1).
type clientInformation struct {
	ID        string   `json:"client_id"`
	Secret    string   `json:"client_secret"`
	ExpiresAt seconds  `json:"client_secret_expires_at"`
	Method    string   `json:"token_endpoint_auth_method"`
	Redirects []string `json:"redirect_uris"`
}

// Register registers a client by RFC 7591, with a secret if the server supports one:
// without the secret a stolen refresh token is useless. It requests no scope, because the
// client serves all tool servers of the authorization server.
func (a *Authorizer) Register(ctx context.Context, s connector.AuthServer, redirect string) (connector.Client, *time.Time, error) {
	if s.Registration == "" || len(s.AuthMethods) == 0 {
		return connector.Client{}, nil, fault.New(fault.Invalid, "The authorization server does not support client registration: configure a client ID")
	}
	body, err := json.Marshal(oauthex.ClientRegistrationMetadata{
		RedirectURIs:            []string{redirect},
		TokenEndpointAuthMethod: s.AuthMethods[0],
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		ClientName:              "Collab",
		ClientURI:               a.Home,
		ApplicationType:         "web",
	})
	if err != nil {
		return connector.Client{}, nil, err
	}
	res, err := a.post(ctx, s.Registration, "application/json", body, nil)
	if err != nil {
		return connector.Client{}, nil, err
	}
	if res.status != http.StatusCreated && res.status != http.StatusOK {
		return connector.Client{}, nil, fault.Wrap(fault.Forbidden, status(res.status), "The authorization server refuses to register this service")
	}
	var r clientInformation
	if decode(res.body, &r) != nil || !r.usable(redirect) {
		return connector.Client{}, nil, invalidResponse(authServer)
	}
	c := connector.Client{ID: r.ID, Secret: r.Secret, Method: r.Method}
	if c.Method == "" {
		c.Method = s.AuthMethods[0]
	}
	if c.Secret == "" || c.Method == authNone {
		c.Secret, c.Method = "", authNone
	}
	if c.Secret == "" || r.ExpiresAt == 0 {
		return c, nil, nil
	}
	expires := time.Unix(int64(r.ExpiresAt), 0).UTC()
	return c, &expires, nil
}

// usable reports whether the registered client can be used: servers may change the
// requested values.
func (r clientInformation) usable(redirect string) bool {
	return r.ID != "" && isASCII(r.ID, ' ', maxClient) && isASCII(r.Secret, ' ', maxClient) &&
		(r.Method == "" || slices.Contains([]string{authBasic, authPost, authNone}, r.Method)) &&
		(len(r.Redirects) == 0 || slices.Contains(r.Redirects, redirect))
}

// AuthCodeURL returns the URL of the authorization request. Parameters of the endpoint itself are
// kept; each is there once, as OAuth requires.
func (a *Authorizer) AuthCodeURL(s connector.AuthServer, c connector.Client, redirect, state, verifier string) (string, error) {
	u, err := url.Parse(s.Authorization)
	if err != nil {
		return "", refusedAddress(authServer)
	}
	q := u.Query()
	for name, values := range q {
		q[name] = values[:1]
	}
	q.Set("response_type", "code")
	q.Set("client_id", c.ID)
	q.Set("redirect_uri", redirect)
	q.Set("state", state)
	q.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier))
	q.Set("code_challenge_method", "S256")
	q.Set("resource", s.Resource)
	if len(s.Scopes) > 0 {
		q.Set("scope", strings.Join(s.Scopes, " "))
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// grantVersion is the version of the JSON form of grant.
const grantVersion = 1

// grant has the data to renew and to revoke an authorization.
type grant struct {
	Version    int    `json:"version"`
	Issuer     string `json:"issuer"`
	Token      string `json:"tokenEndpoint"`
	Revocation string `json:"revocationEndpoint,omitempty"`
	Client     string `json:"client"`
	Secret     string `json:"secret,omitempty"`
	Method     string `json:"method"`
	Resource   string `json:"resource"`
	Scope      string `json:"scope,omitempty"`   // granted, for responses without scope
	Refresh    string `json:"refresh,omitempty"` // empty: it cannot be renewed
	Access     string `json:"access,omitempty"`  // to revoke if there is no refresh token
}

func parseGrant(text string) (grant, error) {
	var r grant
	if err := decode([]byte(text), &r); err != nil {
		return grant{}, err
	}
	if r.Version != grantVersion {
		return grant{}, errors.New("a grant of another version")
	}
	return r, nil
}

// credentialsJSON is the JSON form of the credentials.
type credentialsJSON struct {
	AccessToken string `json:"accessToken"`
	TokenType   string `json:"tokenType"`
	Scope       string `json:"scope,omitempty"`
	ExpiresAt   string `json:"expiresAt,omitempty"`
}

// tokenResponse is a response of a token endpoint, which may be an error.
type tokenResponse struct {
	Access    string  `json:"access_token"`
	Type      string  `json:"token_type"`
	Refresh   string  `json:"refresh_token"`
	Scope     string  `json:"scope"`
	ExpiresIn seconds `json:"expires_in"`
	Error     string  `json:"error"`
}

// Exchange exchanges a code.
func (a *Authorizer) Exchange(ctx context.Context, s connector.AuthServer, c connector.Client, redirect, code, verifier string) (connector.Credentials, error) {
	r := grant{
		Version: grantVersion, Issuer: s.Issuer, Token: s.Token, Revocation: s.Revocation,
		Client: c.ID, Secret: c.Secret, Method: c.Method, Resource: s.Resource, Scope: strings.Join(s.Scopes, " "),
	}
	return a.requestToken(ctx, r, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier},
	})
}

// Renew exchanges the refresh token. Without a scope parameter the granted ones remain.
func (a *Authorizer) Renew(ctx context.Context, text string) (connector.Credentials, error) {
	r, err := parseGrant(text)
	if err != nil {
		return connector.Credentials{}, err
	}
	if r.Refresh == "" {
		return connector.Credentials{}, fault.New(fault.Forbidden, "The authorization server issued no refresh token: connect again")
	}
	return a.requestToken(ctx, r, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Refresh}})
}

// requestToken requests tokens. It does not use x/oauth2, which cannot send resource in
// refreshes, tries authentication methods with the same code, and has text of the server in
// its errors.
func (a *Authorizer) requestToken(ctx context.Context, r grant, form url.Values) (connector.Credentials, error) {
	form.Set("resource", r.Resource)
	requested := a.Clock.Now() // the token's lifetime begins before the response arrives
	res, err := a.submit(ctx, r, r.Token, form)
	if err != nil {
		return connector.Credentials{}, err
	}
	var t tokenResponse
	readable := decode(res.body, &t) == nil
	switch {
	case readable && t.Error != "":
		return connector.Credentials{}, r.refusal(t.Error, res.status)
	case res.status/100 != 2:
		return connector.Credentials{}, statusError(res.status, authServer)
	case !readable, !t.complete():
		return connector.Credentials{}, invalidResponse(authServer)
	}
	return r.credentials(t, requested)
}

// submit posts a form with the client's authentication.
func (a *Authorizer) submit(ctx context.Context, r grant, endpoint string, form url.Values) (response, error) {
	if r.Method != authBasic {
		form.Set("client_id", r.Client)
	}
	if r.Method == authPost {
		form.Set("client_secret", r.Secret)
	}
	return a.post(ctx, endpoint, "application/x-www-form-urlencoded", []byte(form.Encode()), func(request *http.Request) {
		if r.Method == authBasic {
			request.SetBasicAuth(url.QueryEscape(r.Client), url.QueryEscape(r.Secret)) // RFC 6749, section 2.3.1
		}
	})
}

// complete reports whether the response has valid tokens.
func (t tokenResponse) complete() bool {
	return t.Access != "" && isASCII(t.Access, '!', maxToken) && isASCII(t.Refresh, ' ', maxToken) && strings.EqualFold(t.Type, "Bearer")
}

// refusal returns the error for an OAuth error code, without the code, which is text of the
// server.
func (r grant) refusal(code string, httpStatus int) error {
	switch code {
	case "invalid_client":
		return fault.Wrap(fault.Forbidden, &connector.UnknownClient{Issuer: r.Issuer, Client: r.Client},
			"The authorization server does not know this client any more")
	case "server_error", "temporarily_unavailable", "slow_down":
		return statusError(httpStatus, authServer)
	}
	return fault.Wrap(fault.Forbidden, status(httpStatus), "The authorization server refuses the authorization")
}

// credentials returns the credentials of tokens that were requested at the time.
func (r grant) credentials(t tokenResponse, requested time.Time) (connector.Credentials, error) {
	if granted := validScopes(strings.Fields(t.Scope)); len(granted) > 0 {
		r.Scope = strings.Join(granted, " ")
	}
	if t.Refresh != "" {
		r.Refresh = t.Refresh
	}
	r.Access = ""
	if r.Refresh == "" {
		r.Access = t.Access
	}
	c := connector.Credentials{Renewable: r.Refresh != ""}
	e := credentialsJSON{AccessToken: t.Access, TokenType: "Bearer", Scope: r.Scope}
	// Without a lifetime the expiry is unknown.
	if t.ExpiresIn > 0 {
		expires := requested.Add(time.Duration(min(int64(t.ExpiresIn), int64(maxLifetime/time.Second))) * time.Second)
		c.ExpiresAt, e.ExpiresAt = &expires, expires.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	text, err := json.Marshal(e)
	if err != nil {
		return connector.Credentials{}, err
	}
	c.Entries = string(text)
	if r.Refresh == "" && r.Revocation == "" {
		return c, nil
	}
	if text, err = json.Marshal(r); err != nil {
		return connector.Credentials{}, err
	}
	c.Renewal = string(text)
	return c, nil
}

// Revoke revokes the refresh token (RFC 7009), and with it its access tokens, else the access
// token.
func (a *Authorizer) Revoke(ctx context.Context, text string) error {
	r, err := parseGrant(text)
	if err != nil {
		return err
	}
	if r.Revocation == "" {
		return nil
	}
	form := url.Values{"token": {r.Refresh}, "token_type_hint": {"refresh_token"}}
	if r.Refresh == "" {
		form = url.Values{"token": {r.Access}, "token_type_hint": {"access_token"}}
	}
	res, err := a.submit(ctx, r, r.Revocation, form)
	if err != nil {
		return err
	}
	var t tokenResponse
	switch {
	case res.status/100 == 2:
		return nil
	case decode(res.body, &t) != nil || t.Error == "":
		return fault.Wrap(fault.Forbidden, status(res.status), "The authorization server refuses to revoke the authorization")
	case t.Error == "invalid_token", t.Error == "invalid_grant":
		return nil // it was revoked already
	}
	return r.refusal(t.Error, res.status)
}
