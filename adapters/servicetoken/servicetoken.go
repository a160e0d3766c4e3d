// Package servicetoken issues and reads service tokens: JWTs with Ed25519 signatures, whose
// public keys are published as a JSON Web Key Set.
package servicetoken

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"

	"github.com/golang-jwt/jwt/v5"
)

// maxToken limits tokens, in bytes.
const maxToken = 4096

var _ ports.ServiceTokens = (*Tokens)(nil)

// Tokens implements ports.ServiceTokens. The first key signs, all keys verify.
type Tokens struct {
	issuer     string
	kid        string // of the signing key
	key        ed25519.PrivateKey
	publicKeys map[string]ed25519.PublicKey // by kid
	jwks       []byte
	parser     *jwt.Parser
}

// New returns the tokens of the issuer, which is our public address. Keys are
// as Load returns them, at least one.
func New(keys Keys, issuer string) *Tokens {
	t := &Tokens{
		issuer:     issuer,
		kid:        thumbprint(public(keys[0])),
		key:        keys[0],
		publicKeys: map[string]ed25519.PublicKey{},
		parser:     jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
	}
	set := keySet{}
	for _, k := range keys {
		p := public(k)
		kid := thumbprint(p)
		t.publicKeys[kid] = p
		set.Keys = append(set.Keys, keyView{Type: "OKP", Curve: "Ed25519", X: coordinate(p), ID: kid, Algorithm: jwt.SigningMethodEdDSA.Alg(), Use: "sig"})
	}
	t.jwks, _ = json.Marshal(set) // strings alone: cannot fail
	return t
}

type keySet struct {
	Keys []keyView `json:"keys"`
}

type keyView struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

// JWKS returns the public keys as a JSON Web Key Set (RFC 7517).
func (t *Tokens) JWKS() []byte { return append([]byte(nil), t.jwks...) }

// claims are a token's.
type claims struct {
	jwt.RegisteredClaims
	Session string `json:"sid,omitempty"`
	Org     string `json:"org_id,omitempty"`
	Role    string `json:"org_role,omitempty"`
}

// Issue returns the signed token with these claims.
func (t *Tokens) Issue(c session.Claims) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: t.issuer, Subject: string(c.User), ID: c.ID,
			IssuedAt: jwt.NewNumericDate(c.IssuedAt), ExpiresAt: jwt.NewNumericDate(c.ExpiresAt),
		},
		Session: string(c.Session), Org: string(c.Org), Role: string(c.Role),
	})
	token.Header["kid"] = t.kid
	return token.SignedString(t.key)
}

// IssuedHere reports whether the token has this issuer. It does not verify the signature.
func (t *Tokens) IssuedHere(token string) bool {
	if len(token) > maxToken {
		return false
	}
	_, rest, _ := strings.Cut(token, ".")
	payload, _, ok := strings.Cut(rest, ".")
	if !ok {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(text, &c) == nil && c.Issuer == t.issuer
}

var errUnknownKey = errors.New("the token's key is not one of ours")

// Read returns the claims of a token that one of the keys has signed, also of an expired
// one. It returns Unauthenticated for other tokens and for missing claims.
func (t *Tokens) Read(token string) (session.Claims, error) {
	bad := func(cause error) (session.Claims, error) {
		return session.Claims{}, fault.Wrap(fault.Unauthenticated, cause, "The token is not valid")
	}
	if len(token) > maxToken {
		return bad(errors.New("the token is too long"))
	}
	var c claims
	if _, err := t.parser.ParseWithClaims(token, &c, t.find); err != nil {
		return bad(err)
	}
	switch {
	case c.Issuer != t.issuer:
		return bad(errors.New("the token has another issuer"))
	case c.Subject == "", c.ID == "", c.IssuedAt == nil, c.ExpiresAt == nil:
		return bad(errors.New("the token lacks one of sub, jti, iat and exp"))
	}
	return session.Claims{
		ID: c.ID, Session: id.Session(c.Session), User: id.User(c.Subject), Org: id.Org(c.Org), Role: org.Role(c.Role),
		IssuedAt: c.IssuedAt.UTC().Truncate(time.Second), ExpiresAt: c.ExpiresAt.UTC().Truncate(time.Second),
	}, nil
}

func (t *Tokens) find(token *jwt.Token) (any, error) {
	kid, _ := token.Header["kid"].(string)
	key, ok := t.publicKeys[kid]
	if !ok {
		return nil, errUnknownKey
	}
	return key, nil
}
