package oidc_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/adapters/oidc"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/test/must"

	"github.com/go-jose/go-jose/v4"
)

func newClock() *memory.Clock { return memory.NewClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)) }

// signer is a key of an issuer.
type signer struct {
	kid string
	alg jose.SignatureAlgorithm
	key crypto.Signer
}

var (
	rsaKey = sync.OnceValue(func() crypto.Signer { return must.Get(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey  = sync.OnceValue(func() crypto.Signer { return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func edKey(n byte) crypto.Signer {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func (s signer) sign(t testing.TB, payload []byte) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if s.kid != "" {
		options.WithHeader("kid", s.kid)
	}
	maker := must.Do(jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, options)).Or(t)
	object := must.Do(maker.Sign(payload)).Or(t)
	return must.Get(object.CompactSerialize())
}

func (s signer) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	return s.sign(t, must.Get(json.Marshal(claims)))
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Algorithm: string(s.alg), Use: "sig"}
}

// issuer is an identity provider on loopback.
type issuer struct {
	*httptest.Server

	mu          sync.Mutex
	document    map[string]any // changes to the discovery document; nil removes
	keys        []any          // as published
	discoveries int
	fetches     int
	broken      bool // answers 503
	grants      map[string]grant
	exchanges   []url.Values // requests to the token endpoint
	basic       [][2]string  // their basic credentials
}

// grant belongs to an authorization code.
type grant struct {
	challenge, callback string
	status              int    // zero: 200
	response            string // the body
}

func newIssuer(t testing.TB, keys ...signer) *issuer {
	i := &issuer{document: map[string]any{}, grants: map[string]grant{}}
	i.publish(keys...)
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(keys ...signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, k.public())
	}
}

func (i *issuer) set(fn func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fn()
}

// wantReads checks how often the discovery document and the keys were read.
func (i *issuer) wantReads(t *testing.T, discoveries, keys int) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.discoveries != discoveries || i.fetches != keys {
		t.Errorf("discovery was read %d times and keys %d times, want %d and %d", i.discoveries, i.fetches, discoveries, keys)
	}
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.discoveries++
	case "/keys":
		i.fetches++
	}
	if i.broken {
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		doc := map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}, // not used
		}
		for k, v := range i.document {
			doc[k] = v
			if v == nil {
				delete(doc, k)
			}
		}
		_ = json.NewEncoder(w).Encode(doc)
	case "/keys":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	case "/token":
		i.redeem(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) provider(t testing.TB, c *memory.Clock, change ...func(*oidc.Options)) *oidc.Provider {
	t.Helper()
	o := oidc.Options{Issuer: i.URL, Clock: c}
	for _, fn := range change {
		fn(&o)
	}
	return must.Do(oidc.New(o)).Or(t)
}

// claims returns the claims of a valid token with changes; nil removes a claim.
func (i *issuer) claims(c *memory.Clock, changes ...map[string]any) map[string]any {
	now := c.Now().Unix()
	all := map[string]any{"iss": i.URL, "sub": "user_1", "iat": now, "nbf": now - 10, "exp": now + 60}
	for _, change := range changes {
		for k, v := range change {
			all[k] = v
			if v == nil {
				delete(all, k)
			}
		}
	}
	return all
}

func verify(p *oidc.Provider, token string) (identity.Claims, error) {
	return p.Verify(context.Background(), token)
}

// wantVerify checks that a token is accepted (kind 0), or refused with an error of the kind.
func wantVerify(t *testing.T, p *oidc.Provider, token string, kind fault.Kind) {
	t.Helper()
	if _, err := verify(p, token); (err == nil) != (kind == 0) || err != nil && !fault.Is(err, kind) {
		t.Errorf("got %v, want kind %d", err, kind)
	}
}

// newProvider returns a provider and its issuer, which has one key.
func newProvider(t *testing.T) (signer, *issuer, *memory.Clock, *oidc.Provider) {
	t.Helper()
	key := signer{"k1", jose.EdDSA, edKey(1)}
	i, c := newIssuer(t, key), newClock()
	return key, i, c, i.provider(t, c)
}

// published is a transport to an issuer that publishes key() at each request.
func published(issuer, keys string, key func() signer) transport {
	return func(r *http.Request) (*http.Response, error) {
		document := any(map[string]string{"issuer": issuer, "jwks_uri": keys})
		if isKeys(r) {
			document = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key().public()}}
		}
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document)
		return w.Result(), nil
	}
}

// transport is a function as an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func isKeys(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/keys") }
