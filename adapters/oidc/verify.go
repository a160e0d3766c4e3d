package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/ports"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
)

const (
	leeway   = identity.Leeway
	maxToken = 16 << 10 // bytes
)

var _ ports.IdentityTokens = (*Provider)(nil)

// token is a signed and currently valid token. Its audience is not verified yet.
type token struct {
	claims   identity.Claims
	audience []string
	party    string
	nonce    string
}

// payload has the claims beside those of OpenID Connect Core.
type payload struct {
	Expires   *seconds `json:"exp"`
	NotBefore *seconds `json:"nbf"`
	IssuedAt  *seconds `json:"iat"`
	Party     string   `json:"azp"`
	Status    string   `json:"sts"`
	Org       string   `json:"org_id"`
	OrgRole   string   `json:"org_role"`
	OrgSlug   string   `json:"org_slug"`
	Compact   compact  `json:"o"`
	Name      string   `json:"name"`
	Email     string   `json:"email"`
	Picture   string   `json:"picture"`

	EmailVerified any `json:"email_verified"` // a boolean, or some providers' text
}

// compact is an organisation's claims in one.
type compact struct {
	Org  string `json:"id"`
	Role string `json:"rol"`
	Slug string `json:"slg"`
}

func (c *compact) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	type fields compact
	return decodeExact(all, (*fields)(c))
}

// Verify returns the claims of a token with a valid signature, audience and time.
func (p *Provider) Verify(ctx context.Context, text string) (identity.Claims, error) {
	t, err := p.verify(ctx, text)
	if err != nil {
		return identity.Claims{}, err
	}
	if len(p.Audiences) > 0 && !slices.ContainsFunc(t.audience, func(a string) bool { return contains(p.Audiences, a) }) {
		return identity.Claims{}, refuse(fmt.Errorf("aud is %q", t.audience))
	}
	if len(p.AuthorizedParties) > 0 && !contains(p.AuthorizedParties, t.party) {
		return identity.Claims{}, refuse(fmt.Errorf("azp is %q", t.party))
	}
	return t.claims, nil
}

// verify is Verify without the audience.
func (p *Provider) verify(ctx context.Context, text string) (token, error) {
	if len(text) > maxToken {
		return token{}, refuse(errors.New("the token is too long"))
	}
	if strings.ContainsFunc(text, notInCompactJWT) {
		return token{}, refuse(errors.New("the token is not a JWT in compact form"))
	}
	signed, err := p.signature(ctx, text)
	if err != nil {
		return token{}, err
	}
	c, err := claimsOf(signed)
	if err != nil {
		return token{}, refuse(err)
	}
	if signed.Issuer != p.Issuer { // go-oidc accepts another spelling for Google
		return token{}, refuse(fmt.Errorf("iss is %q", signed.Issuer))
	}
	if err := c.times(p.Clock.Now()); err != nil {
		return token{}, err
	}
	if c.Status == "pending" {
		return token{}, refuse(errors.New("sts is pending: the sign-in is not complete"))
	}
	if !identity.ValidID(signed.Subject) {
		return token{}, refuse(errors.New("sub is empty or cannot be an id"))
	}
	switch c.EmailVerified {
	case nil, true, "true":
	default:
		c.Email = ""
	}
	if c.Org == "" && c.Compact.Org != "" {
		c.Org, c.OrgRole, c.OrgSlug = c.Compact.Org, fullRole(c.Compact.Role), c.Compact.Slug
	}
	if c.Org == "" {
		c.OrgRole, c.OrgSlug = "", ""
	} else if !identity.ValidID(c.Org) {
		return token{}, refuse(errors.New("the organisation's id cannot be one"))
	}
	return token{
		claims: identity.Claims{
			Subject: signed.Subject, Org: c.Org,
			OrgRole: identity.CleanName(c.OrgRole), OrgSlug: identity.CleanName(c.OrgSlug),
			Name: identity.CleanName(c.Name), Email: identity.CleanEmail(c.Email), AvatarURL: identity.CleanURL(c.Picture),
			IssuedAt: c.IssuedAt.Time, ExpiresAt: c.Expires.Time,
		},
		audience: signed.Audience, party: c.Party, nonce: signed.Nonce,
	}, nil
}

// claimsOf returns the claims by their exact names. Those that are taken from go-oidc, which reads them in any letter
// case, are refused under other names.
func claimsOf(signed *gooidc.IDToken) (c payload, err error) {
	var all map[string]json.RawMessage
	if err := signed.Claims(&all); err != nil {
		return c, err
	}
	for name := range all {
		switch lower := lowerCase(name); lower {
		case name:
		case "iss", "sub", "aud", "nonce":
			return c, fmt.Errorf("the claim %q is ambiguous", lower)
		}
	}
	err = decodeExact(all, &c)
	return c, err
}

// decodeExact decodes an object into the fields of v by their exact names, which are lower case. encoding/json alone
// would take Email for email, and "ſub" for sub.
func decodeExact(object map[string]json.RawMessage, v any) error {
	maps.DeleteFunc(object, func(name string, _ json.RawMessage) bool { return lowerCase(name) != name })
	exact, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(exact, v)
}

// lowerCase returns the lower-case name that encoding/json takes name for.
func lowerCase(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// signature verifies the signature. If no known key has signed the token it reads the keys
// again, unless it did so for the same key id less than keysEvery ago.
func (p *Provider) signature(ctx context.Context, text string) (*gooidc.IDToken, error) {
	if _, err := p.metadata.getOrWait(ctx); err != nil {
		return nil, err
	}
	current, err := p.keys.getOrWait(ctx)
	if err != nil {
		return nil, err
	}
	if age := p.Clock.Now().Sub(current.at); age < 0 || age > maxKeysAge {
		p.keys.begin(current.number) // for later calls
	}
	c := &keyVerifier{keys: current.value}
	signed, err := p.verifyWith(ctx, c, text)
	for began := false; c.failed && !began && !p.isUnknown(c.kid); {
		var newer snapshot[keys]
		var fetchErr error
		newer, began, fetchErr = p.keys.fresh(ctx, current.number)
		if fetchErr != nil {
			return nil, unavailable(fetchErr, keysEvery)
		}
		if newer.number == current.number {
			if newer.err != nil && !c.keyFound {
				// The provider may have signed it with a key that could not be read.
				return nil, unavailable(newer.err, keysEvery)
			}
			break
		}
		// The keys of an attempt that another call began may be older than the token.
		current, c = newer, &keyVerifier{keys: newer.value}
		signed, err = p.verifyWith(ctx, c, text)
		if c.failed && began {
			p.unknown.Add(c.kid, newer.at)
		}
	}
	return signed, err
}

// isUnknown reports whether the keys were read for the key id less than keysEvery ago
// without finding one that verifies.
func (p *Provider) isUnknown(kid string) bool {
	at, ok := p.unknown.Get(kid)
	age := p.Clock.Now().Sub(at)
	return ok && age >= 0 && age < keysEvery
}

func (p *Provider) verifyWith(ctx context.Context, c *keyVerifier, text string) (*gooidc.IDToken, error) {
	t, err := gooidc.NewVerifier(p.Issuer, c, &gooidc.Config{
		SupportedSigningAlgs: algorithmNames,
		SkipClientIDCheck:    true, // aud and azp: Verify
		SkipExpiryCheck:      true, // payload.times checks with a leeway
	}).Verify(ctx, text)
	if err != nil {
		return nil, refuse(err)
	}
	return t, nil
}

// times checks exp, iat and nbf with the leeway.
func (c payload) times(now time.Time) error {
	switch {
	case c.Expires == nil || c.IssuedAt == nil:
		return refuse(errors.New("exp or iat is missing"))
	case !now.Before(c.Expires.Add(leeway)):
		return fault.Wrap(fault.Unauthenticated, fmt.Errorf("exp is %v", c.Expires.Time), "The identity token has expired")
	case now.Add(leeway).Before(c.IssuedAt.Time):
		return refuse(fmt.Errorf("iat is %v", c.IssuedAt.Time))
	case c.NotBefore != nil && now.Add(leeway).Before(c.NotBefore.Time):
		return refuse(fmt.Errorf("nbf is %v", c.NotBefore.Time))
	}
	return nil
}

// fullRole returns the role with the prefix that the compact form omits.
func fullRole(role string) string {
	const prefix = "org:"
	role = strings.TrimSpace(role)
	if len(role) >= len(prefix) && strings.EqualFold(role[:len(prefix)], prefix) {
		role = role[len(prefix):]
	}
	if role == "" {
		return ""
	}
	return prefix + role
}

// seconds is a NumericDate (RFC 7519) before the year 10000.
type seconds struct{ time.Time }

func (s *seconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(string(data), 64)
	if err != nil || n < 0 || n >= 253402300800 {
		return fmt.Errorf("%.40q is not a time", data)
	}
	s.Time = time.UnixMilli(int64(math.Floor(n * 1000))).UTC()
	return nil
}

func notInCompactJWT(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

func refuse(cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "The identity token is not valid")
}

func contains(list []string, s string) bool { return s != "" && slices.Contains(list, s) }
