// Package oidc verifies tokens of the identity provider and implements sign-in, by OpenID
// Connect discovery.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"collab/adapters/outbound"
	"collab/domain/fault"
	"collab/ports"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
)

const (
	timeout       = 10 * time.Second // of one call to the provider
	maxBody       = 1 << 20          // bytes of a response
	discoverEvery = 5 * time.Second  // between attempts while the provider is down
)

// Options configure New.
type Options struct {
	Issuer            string   // compared byte for byte
	Audiences         []string // accepted aud values; empty: not checked
	AuthorizedParties []string // accepted azp values, one of which a token must have; empty: not checked
	Clock             ports.Clock
	Transport         http.RoundTripper // nil: the network
}

// Provider is the identity provider. It makes no request before the first token or sign-in,
// so that the server starts while the provider is down.
type Provider struct {
	Options
	secure   bool // the issuer is https
	client   *http.Client
	metadata *refresher[metadata]
	keys     *refresher[keys]
	unknown  *lru.Cache[string, time.Time] // key ids without a published key, with the time of that snapshot
}

// metadata has the used parts of the discovery document, which is read once.
type metadata struct {
	endpoint      oauth2.Endpoint
	keysURL       string
	endSessionURL string // of RP-initiated logout; empty if the provider has none
	issParameter  bool   // authorization responses have iss (RFC 9207)
	secretInBody  bool   // the token endpoint accepts the client's secret in the body only
}

// New returns the provider of an issuer.
func New(o Options) (*Provider, error) {
	issuer, err := absolute(o.Issuer)
	if err != nil {
		return nil, err
	}
	if o.Transport == nil {
		o.Transport = outbound.NewConfigured(timeout).Transport
	}
	unknown, err := lru.New[string, time.Time](2 * keysBurst)
	if err != nil {
		return nil, err
	}
	p := &Provider{Options: o, secure: issuer.Scheme == "https", unknown: unknown}
	p.client = &http.Client{
		Transport:     limitedTransport{o.Transport},
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the identity provider redirects") },
	}
	p.metadata = newRefresher(p.discover, discoverEvery, 1, o.Clock)
	p.keys = newRefresher(p.fetchKeys, keysEvery, keysBurst, o.Clock)
	return p, nil
}

// limitedTransport limits the size of responses.
type limitedTransport struct{ http.RoundTripper }

func (b limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}

func (p *Provider) discover(ctx context.Context) (metadata, error) {
	provider, err := gooidc.NewProvider(gooidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return metadata{}, err
	}
	var doc struct {
		KeysURL       string   `json:"jwks_uri"`
		EndSessionURL string   `json:"end_session_endpoint"`
		IssParameter  bool     `json:"authorization_response_iss_parameter_supported"`
		AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&doc); err != nil {
		return metadata{}, err
	}
	m := metadata{
		endpoint: provider.Endpoint(), keysURL: doc.KeysURL, endSessionURL: doc.EndSessionURL, issParameter: doc.IssParameter,
		secretInBody: len(doc.AuthMethods) > 0 && !contains(doc.AuthMethods, "client_secret_basic"),
	}
	addresses := []string{m.keysURL}
	for _, address := range []string{m.endpoint.AuthURL, m.endpoint.TokenURL, m.endSessionURL} {
		if address != "" { // the first two are missing at a provider with session cookies
			addresses = append(addresses, address)
		}
	}
	for _, address := range addresses {
		if err := p.checkEndpoint(address); err != nil {
			return metadata{}, err
		}
	}
	return m, nil
}

// checkEndpoint returns an error for an endpoint without https of an issuer with it.
func (p *Provider) checkEndpoint(address string) error {
	u, err := absolute(address)
	if err != nil {
		return fmt.Errorf("the discovery document's address %w", err)
	}
	if p.secure && u.Scheme != "https" {
		return fmt.Errorf("the discovery document's address %q is not https", address)
	}
	return nil
}

// absolute parses an http or https URL with a host.
func absolute(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an absolute http or https address", address)
	}
	return u, nil
}

// get reads a document of the provider.
func (p *Provider) get(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	response, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", address, response.Status)
	}
	return io.ReadAll(response.Body)
}

func unavailable(cause error, retry time.Duration) error {
	return fault.Wrap(fault.Unavailable, cause, "The identity provider does not answer").RetryIn(int(retry / time.Second))
}
