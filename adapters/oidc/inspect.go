package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"collab/adapters/inspect"
)

// Inspection configures Inspect.
type Inspection struct {
	Options  // without a transport
	Shown    inspect.Address
	ClientID string
	SignIn   inspect.Address // the sign-in page of a provider that works by session; nil: none
	Client   func(name string) *http.Client
}

// Inspect reads the discovery document and the keys, and requests the sign-in page.
func Inspect(ctx context.Context, i Inspection) (f inspect.Findings) {
	i.Transport = i.Client("the identity provider").Transport
	p, err := New(i.Options)
	if err != nil {
		f.Wrong("set COLLAB_IDENTITY_ISSUER", "").Err = err
		return f
	}
	if i.Shown.Plaintext() {
		f.Risk("set COLLAB_IDENTITY_ISSUER to an https:// address", "%s is not https: an attacker on the network can sign in as any user", i.Shown)
	}
	codeFlow, ok := p.inspect(ctx, i.Shown, &f)
	switch {
	case !ok:
	case i.SignIn != nil:
		inspectSignIn(ctx, i, &f)
	case !codeFlow && i.ClientID != "":
		f.Wrong("set COLLAB_IDENTITY_SIGN_IN_URL instead of COLLAB_IDENTITY_CLIENT_ID", "%s has no sign-in by code", i.Shown)
	}
	return f
}

// inspect reports whether the provider can be used, and has the authorization code flow.
func (p *Provider) inspect(ctx context.Context, shown inspect.Address, f *inspect.Findings) (codeFlow, ok bool) {
	unusable := func(format string, err error) (bool, bool) {
		remedy := "open " + strings.TrimRight(shown.String(), "/") + "/.well-known/openid-configuration in a " +
			"browser, let this machine reach it, or set COLLAB_IDENTITY_ISSUER"
		f.Wrong(remedy, format, shown).Err = err
		return false, false
	}
	m, err := p.discover(ctx)
	if other, differs := errors.AsType[*gooidc.IssuerMismatchError](err); differs {
		f.Wrong("set COLLAB_IDENTITY_ISSUER to what the document says, byte for byte (a slash at the end counts)",
			"%s", shown).Err = fmt.Errorf("the discovery document names the issuer %q", other.Discovered)
		return false, false
	}
	if err != nil {
		return unusable("%s: The discovery document cannot be used", err)
	}
	text, err := p.get(ctx, m.keysURL)
	if err != nil {
		return unusable("%s: The keys cannot be read", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return unusable("%s: The keys cannot be used", err)
	}
	var algorithms []string
	for _, k := range keys {
		if a := algorithmOf(k); !slices.Contains(algorithms, a) {
			algorithms = append(algorithms, a)
		}
	}
	f.OK("%s answers; of its keys %d can sign tokens for us (%s)", shown, len(keys), strings.Join(algorithms, ", "))
	return m.endpoint.AuthURL != "" && m.endpoint.TokenURL != "", true
}

func inspectSignIn(ctx context.Context, i Inspection, f *inspect.Findings) {
	if i.SignIn.Plaintext() {
		f.Risk("set COLLAB_IDENTITY_SIGN_IN_URL to an https:// address", "%s is not https", i.SignIn)
	}
	status, err := inspect.Get(ctx, i.Client("the sign-in page"), i.SignIn.Text())
	switch {
	case err != nil:
		f.Wrong("set COLLAB_IDENTITY_SIGN_IN_URL", "%s does not answer", i.SignIn).Err = err
	case status == http.StatusNotFound || status >= http.StatusInternalServerError:
		f.Wrong("set COLLAB_IDENTITY_SIGN_IN_URL", "%s answers %d", i.SignIn, status)
	}
}
