package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/ports"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

var (
	_ ports.SignIn = (*CodeSignIn)(nil)
	_ ports.SignIn = (*SessionSignIn)(nil)
)

// CodeSignIn is the authorization code flow with PKCE and nonce.
type CodeSignIn struct {
	provider *Provider
	id       string
	secret   string // empty for a public client
}

// ByCode returns the sign-in of a client that is registered at the provider.
func (p *Provider) ByCode(clientID, clientSecret string) *CodeSignIn {
	return &CodeSignIn{p, clientID, clientSecret}
}

func (s *CodeSignIn) config(m metadata, callback string) oauth2.Config {
	c := oauth2.Config{
		ClientID: s.id, ClientSecret: s.secret, Endpoint: m.endpoint, RedirectURL: callback,
		Scopes: []string{gooidc.ScopeOpenID, "profile", "email"},
	}
	// Auto-detection would try both styles, the second with a used code.
	c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if s.secret == "" || m.secretInBody {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return c
}

// Start returns the URL of the authorization request.
func (s *CodeSignIn) Start(ctx context.Context, f identity.Flow, callback string) (string, error) {
	m, err := s.metadata(ctx)
	if err != nil {
		return "", err
	}
	c := s.config(m, callback)
	return c.AuthCodeURL(f.Own, gooidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

func (s *CodeSignIn) metadata(ctx context.Context) (metadata, error) {
	r, err := s.provider.metadata.getOrWait(ctx)
	if err != nil {
		return metadata{}, err
	}
	if r.value.endpoint.AuthURL == "" || r.value.endpoint.TokenURL == "" {
		return metadata{}, errors.New("the identity provider has no authorization code flow")
	}
	return r.value, nil
}

// Finish exchanges the code for an identity token.
func (s *CodeSignIn) Finish(ctx context.Context, f identity.Flow, callback string, r identity.Return) (string, error) {
	if !secretsEqual(r.State, f.Own) {
		return "", failed(errors.New("state is not the one of this sign-in"))
	}
	m, err := s.metadata(ctx)
	if err != nil {
		return "", err
	}
	// RFC 9207: the response may be of another provider.
	if r.Issuer != s.provider.Issuer && (r.Issuer != "" || m.issParameter) {
		return "", failed(fmt.Errorf("iss is %.200q", r.Issuer))
	}
	if r.Error != "" {
		return "", failed(fmt.Errorf("error is %.200q", r.Error))
	}
	if r.Code == "" {
		return "", failed(errors.New("code is missing"))
	}
	text, err := s.exchange(ctx, m, f, callback, r.Code)
	if err != nil {
		return "", err
	}
	t, err := s.provider.verify(ctx, text)
	switch {
	case err != nil:
		return "", err
	case !secretsEqual(t.nonce, f.Nonce):
		return "", failed(errors.New("the token's nonce is not the one of this sign-in"))
	case !contains(t.audience, s.id), t.party != "" && t.party != s.id:
		return "", failed(fmt.Errorf("the token is for aud %q, azp %q", t.audience, t.party))
	}
	return text, nil
}

func (s *CodeSignIn) exchange(ctx context.Context, m metadata, f identity.Flow, callback, code string) (string, error) {
	c := s.config(m, callback)
	response, err := c.Exchange(gooidc.ClientContext(ctx, s.provider.client), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return "", exchangeFault(err)
	}
	text, _ := response.Extra("id_token").(string)
	if text == "" {
		return "", failed(errors.New("the identity provider's answer has no id_token"))
	}
	return text, nil
}

// exchangeFault distinguishes an invalid code, an unavailable provider and a wrong
// registration. The error has no text of the response.
func exchangeFault(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return unavailable(err, time.Second)
	}
	cause := fmt.Errorf("the token endpoint answers %s, error %.200q", refused.Response.Status, refused.ErrorCode)
	switch {
	case refused.ErrorCode == "invalid_grant", refused.ErrorCode == "access_denied":
		return failed(cause)
	case refused.Response.StatusCode >= 500, refused.Response.StatusCode == 429:
		return unavailable(cause, time.Second)
	}
	return cause
}

// End returns the URL of a logout request (OpenID Connect RP-Initiated Logout 1.0). The client names
// itself by its id, as the identity token, which the request may have as a hint, was not kept.
func (s *CodeSignIn) End(ctx context.Context, back, state string) (string, error) {
	r, err := s.provider.metadata.getOrWait(ctx)
	if err != nil || r.value.endSessionURL == "" {
		return "", err
	}
	u, err := url.Parse(r.value.endSessionURL)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("client_id", s.id)
	q.Set("post_logout_redirect_uri", back)
	q.Set("state", state)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// SessionSignIn is the sign-in at a provider that sets a session cookie on the service's
// domain instead of returning codes.
type SessionSignIn struct {
	provider *Provider
	page     *url.URL
}

// BySession returns the sign-in at the provider's hosted page.
func (p *Provider) BySession(page string) (*SessionSignIn, error) {
	u, err := absolute(page)
	if err != nil {
		return nil, err
	}
	return &SessionSignIn{p, u}, nil
}

// Start returns the URL of the sign-in page with the callback in its query.
func (s *SessionSignIn) Start(_ context.Context, _ identity.Flow, callback string) (string, error) {
	u := *s.page
	q := u.Query()
	q.Set("redirect_url", callback)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Finish verifies and returns the session token.
func (s *SessionSignIn) Finish(ctx context.Context, _ identity.Flow, _ string, r identity.Return) (string, error) {
	if r.Error != "" {
		return "", failed(fmt.Errorf("error is %.200q", r.Error))
	}
	if r.Session == "" {
		return "", failed(errors.New("there is no session cookie"))
	}
	if _, err := s.provider.Verify(ctx, r.Session); err != nil {
		return "", err
	}
	return r.Session, nil
}

// End returns no URL: the service is no client of the provider that could ask for it.
func (s *SessionSignIn) End(context.Context, string, string) (string, error) { return "", nil }

// secretsEqual compares in constant time. Empty secrets are never equal.
func secretsEqual(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func failed(cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "The sign-in did not succeed")
}
