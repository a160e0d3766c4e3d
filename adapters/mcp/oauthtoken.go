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
	byNothing = "none"
	byHeader  = "client_secret_basic"
	byForm    = "client_secret_post"
)

// authMethods returns those of a server's methods that this service has. A server
// that names none has the one of RFC 8414.
func authMethods(named []string) []string {
	if len(named) == 0 {
		return []string{byHeader}
	}
	return slices.DeleteFunc([]string{byHeader, byForm, byNothing}, func(m string) bool { return !slices.Contains(named, m) })
}

// registered is the part of an answer to a registration that matters.
type registered struct {
	ID        string   `json:"client_id"`
	Secret    string   `json:"client_secret"`
	ExpiresAt seconds  `json:"client_secret_expires_at"`
	Method    string   `json:"token_endpoint_auth_method"`
	Redirects []string `json:"redirect_uris"`
}

// Register makes a client by RFC 7591, with a secret where the server has them: the
// secret of a client keeps stolen refresh tokens from being of use. No scope is
// named, because one client serves all tool servers of the authorization server.
func (a *Authorizer) Register(ctx context.Context, s connector.AuthServer, redirect string) (connector.Client, *time.Time, error) {
	if s.Registration == "" || len(s.AuthMethods) == 0 {
		return connector.Client{}, nil, fault.New(fault.Invalid, "The authorization server has no way to register this service")
	}
	body, err := json.Marshal(oauthex.ClientRegistrationMetadata{
		RedirectURIs:            []string{redirect},
		TokenEndpointAuthMethod: s.AuthMethods[0],
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		ClientName:              a.Name,
		ClientURI:               a.Home,
		ApplicationType:         "web",
	})
	if err != nil {
		return connector.Client{}, nil, err
	}
	answer, err := a.post(ctx, s.Registration, "application/json", body, nil)
	if err != nil {
		return connector.Client{}, nil, err
	}
	if answer.status != http.StatusCreated && answer.status != http.StatusOK {
		return connector.Client{}, nil, fault.Wrap(fault.Forbidden, status(answer.status), "The authorization server refuses to register this service")
	}
	var r registered
	if decode(answer.body, &r) != nil || !r.fits(redirect) {
		return connector.Client{}, nil, unusable(authServer)
	}
	c := connector.Client{ID: r.ID, Secret: r.Secret, Method: r.Method}
	if c.Method == "" {
		c.Method = s.AuthMethods[0]
	}
	if c.Secret == "" || c.Method == byNothing {
		c.Secret, c.Method = "", byNothing
	}
	if c.Secret == "" || r.ExpiresAt == 0 {
		return c, nil, nil
	}
	expires := time.Unix(int64(r.ExpiresAt), 0).UTC()
	return c, &expires, nil
}

// fits reports whether it is a client of ours: servers may register something else
// than they were asked for.
func (r registered) fits(redirect string) bool {
	return r.ID != "" && isText(r.ID, true, maxClient) && isText(r.Secret, true, maxClient) &&
		(r.Method == "" || slices.Contains([]string{byHeader, byForm, byNothing}, r.Method)) &&
		(len(r.Redirects) == 0 || slices.Contains(r.Redirects, redirect))
}

// Page returns the address of the authorization server's page. Each parameter is
// in it once, as OAuth demands; the endpoint's own are kept.
func (a *Authorizer) Page(s connector.AuthServer, c connector.Client, redirect, state, verifier string) (string, error) {
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

// renewalVersion is that of the form of renewals.
const renewalVersion = 1

// renewal is what is kept to renew an authorization and to take it back.
type renewal struct {
	Version    int    `json:"version"`
	Issuer     string `json:"issuer"`
	Token      string `json:"tokenEndpoint"`
	Revocation string `json:"revocationEndpoint,omitempty"`
	Client     string `json:"client"`
	Secret     string `json:"secret,omitempty"`
	Method     string `json:"method"`
	Resource   string `json:"resource"`
	Scope      string `json:"scope,omitempty"`   // that was granted, for answers that do not say
	Refresh    string `json:"refresh,omitempty"` // empty: it cannot be renewed
	Access     string `json:"access,omitempty"`  // what is revoked where there is no refresh token
}

func readRenewal(text string) (renewal, error) {
	var r renewal
	if err := decode([]byte(text), &r); err != nil {
		return renewal{}, err
	}
	if r.Version != renewalVersion {
		return renewal{}, errors.New("a renewal of another version")
	}
	return r, nil
}

// entries are the credentials as their readers get them.
type entries struct {
	AccessToken string `json:"accessToken"`
	TokenType   string `json:"tokenType"`
	Scope       string `json:"scope,omitempty"`
	ExpiresAt   string `json:"expiresAt,omitempty"`
}

// answer is what a token endpoint answers, for better or worse.
type answer struct {
	Access    string  `json:"access_token"`
	Type      string  `json:"token_type"`
	Refresh   string  `json:"refresh_token"`
	Scope     string  `json:"scope"`
	ExpiresIn seconds `json:"expires_in"`
	Error     string  `json:"error"`
}

// Redeem exchanges a code.
func (a *Authorizer) Redeem(ctx context.Context, s connector.AuthServer, c connector.Client, redirect, code, verifier string) (connector.Credentials, error) {
	r := renewal{
		Version: renewalVersion, Issuer: s.Issuer, Token: s.Token, Revocation: s.Revocation,
		Client: c.ID, Secret: c.Secret, Method: method(s, c), Resource: s.Resource, Scope: strings.Join(s.Scopes, " "),
	}
	return a.exchange(ctx, r, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier},
	})
}

// method returns how a client authenticates: as it says, else as the server takes
// it.
func method(s connector.AuthServer, c connector.Client) string {
	switch {
	case c.Secret == "":
		return byNothing
	case c.Method != "":
		return c.Method
	case slices.Contains(s.AuthMethods, byForm) && !slices.Contains(s.AuthMethods, byHeader):
		return byForm
	}
	return byHeader
}

// Renew exchanges the refresh token. No scope is named, which means those that were
// granted.
func (a *Authorizer) Renew(ctx context.Context, text string) (connector.Credentials, error) {
	r, err := readRenewal(text)
	if err != nil {
		return connector.Credentials{}, err
	}
	if r.Refresh == "" {
		return connector.Credentials{}, fault.New(fault.Forbidden, "The authorization server gave nothing to renew the authorization with")
	}
	return a.exchange(ctx, r, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Refresh}})
}

// exchange asks for tokens, and returns them with what renews them next.
//
// This is not left to x/oauth2, which cannot send resource when it refreshes,
// guesses methods of authentication by spending codes, and has the server's words
// in its errors.
func (a *Authorizer) exchange(ctx context.Context, r renewal, form url.Values) (connector.Credentials, error) {
	form.Set("resource", r.Resource)
	// The time before the request, because the token's life begins before the
	// answer comes.
	asked := a.Clock.Now()
	reply, err := a.submit(ctx, r, r.Token, form)
	if err != nil {
		return connector.Credentials{}, err
	}
	var t answer
	readable := decode(reply.body, &t) == nil
	switch {
	case readable && t.Error != "":
		return connector.Credentials{}, r.refusal(t.Error, reply.status)
	case reply.status/100 != 2:
		return connector.Credentials{}, answered(reply.status, authServer)
	case !readable, !t.complete():
		return connector.Credentials{}, unusable(authServer)
	}
	return r.grant(t, asked)
}

// submit posts a form to an endpoint, with the client's authentication.
func (a *Authorizer) submit(ctx context.Context, r renewal, endpoint string, form url.Values) (reply, error) {
	if r.Method != byHeader {
		form.Set("client_id", r.Client)
	}
	if r.Method == byForm {
		form.Set("client_secret", r.Secret)
	}
	return a.post(ctx, endpoint, "application/x-www-form-urlencoded", []byte(form.Encode()), func(request *http.Request) {
		if r.Method == byHeader {
			request.SetBasicAuth(url.QueryEscape(r.Client), url.QueryEscape(r.Secret)) // RFC 6749, section 2.3.1
		}
	})
}

// complete reports whether the answer has tokens that can be used.
func (t answer) complete() bool {
	return t.Access != "" && isText(t.Access, false, maxToken) && isText(t.Refresh, true, maxToken) && strings.EqualFold(t.Type, "Bearer")
}

// refusal is the error for an answer with an error code. The code goes no further:
// it is as much the server's text as the rest.
func (r renewal) refusal(code string, got int) error {
	switch code {
	case "invalid_client":
		return fault.Wrap(fault.Forbidden, &connector.UnknownClient{Issuer: r.Issuer, Client: r.Client},
			"The authorization server does not know this client any more")
	case "server_error", "temporarily_unavailable", "slow_down":
		return answered(got, authServer)
	}
	return fault.Wrap(fault.Forbidden, status(got), "The authorization server refuses the authorization")
}

// grant makes credentials of tokens that were asked for at a time.
func (r renewal) grant(t answer, asked time.Time) (connector.Credentials, error) {
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
	e := entries{AccessToken: t.Access, TokenType: "Bearer", Scope: r.Scope}
	// What lives for no time is taken to live for a time that is not told.
	if t.ExpiresIn > 0 {
		expires := asked.Add(time.Duration(min(int64(t.ExpiresIn), int64(maxLife/time.Second))) * time.Second)
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

// Revoke takes the authorization back by RFC 7009: the refresh token, with which
// servers take back what was made of it, else the access token.
func (a *Authorizer) Revoke(ctx context.Context, text string) error {
	r, err := readRenewal(text)
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
	reply, err := a.submit(ctx, r, r.Revocation, form)
	if err != nil {
		return err
	}
	var t answer
	switch {
	case reply.status/100 == 2:
		return nil
	case decode(reply.body, &t) != nil || t.Error == "":
		return fault.Wrap(fault.Forbidden, status(reply.status), "The authorization server does not take the authorization back")
	case t.Error == "invalid_token", t.Error == "invalid_grant":
		return nil // it is gone already
	}
	return r.refusal(t.Error, reply.status)
}
